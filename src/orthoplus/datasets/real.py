"""Load the real data sets of the paper's experiments.

Each set is one file ``NAME.npz`` in a folder; `orthoplus.datasets.fetch` creates it from a public
file. No data set is part of this package.
"""

import json
import os
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from orthoplus.core.checks import check_choice
from orthoplus.core.errors import InputError
from orthoplus.core.types import FloatArray, IntArray

TEXT_SETS = ("T-l10", "T-t10", "R-t10", "T-l20", "T-t20", "R-t20", "NewsG-t5")
IMAGE_SETS = ("MNIST", "Yale")
SCENES = ("Samson", "JasperRidge", "UrbanCrop")
FEATURE_SETS = ("kind_ORL", "kind_catsndogs", "kind_flower")
FOLDER_VARIABLE = "ORTHOPLUS_DATA"


class MissingDataError(InputError):
    """Raised if a data set is not on this machine; the message says how to get it.

    Examples
    --------
    >>> load_arrays("Yale", "nowhere")
    Traceback (most recent call last):
    orthoplus.datasets.real.MissingDataError: The data set Yale was not found: ...
    """


@dataclass(frozen=True)
class Source:
    """The origin of a data set and its properties after conversion.

    Attributes
    ----------
    name, about : str
        Name and short description.
    layout : {"documents", "images", "features", "scene", "instances"}
        Kind of the set, which determines the arrays in the public file and in the converted one.
    shape : tuple of int
        Number of samples and features.
    groups : int
        Number of classes or materials.
    repository, commit, path, bytes, sha256
        The public file; None if the set was assembled from several files.
    origin : str
        Description of the origin of sets without a single public file.
    image_shape, endmember_names
        Height and width of a scene, and the names of its materials.

    Examples
    --------
    >>> scene = sources()["Samson"]
    >>> scene.image_shape, scene.groups
    ((95, 95), 3)
    """

    name: str
    about: str
    layout: str
    shape: tuple[int, int]
    groups: int
    repository: str | None = None
    commit: str | None = None
    path: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    origin: str = ""
    image_shape: tuple[int, int] | None = None
    endmember_names: tuple[str, ...] = ()

    @property
    def is_public_file(self) -> bool:
        """Return whether `fetch` can download the set."""
        return self.sha256 is not None


@dataclass(frozen=True, eq=False)
class LabelledData:
    """A dense or CSR matrix with one sample per row, and the class of each row, from 0.

    Examples
    --------
    >>> LabelledData("two rows", np.eye(2), np.array([0, 1]), 2).n_classes
    2
    """

    name: str
    A: Any
    labels: IntArray
    n_classes: int


@dataclass(frozen=True, eq=False)
class SceneData:
    """A hyperspectral image with its ground truth.

    Attributes
    ----------
    A : ndarray of shape (height * width, bands)
        Spectra of the pixels, in row-major order.
    endmembers : ndarray of shape (k, bands)
        True spectra of the materials.
    abundances : ndarray of shape (height * width, k)
        True fractions of the materials in each pixel.
    image_shape : tuple of int
        Height and width.
    names : tuple of str
        Names of the materials.

    Examples
    --------
    >>> pixel, one = np.ones((1, 3)), np.ones((1, 1))
    >>> scene = SceneData("dot", pixel, pixel, one, (1, 1), ("ash",))
    >>> scene.A.reshape(*scene.image_shape, -1).shape
    (1, 1, 3)
    """

    name: str
    A: FloatArray
    endmembers: FloatArray
    abundances: FloatArray
    image_shape: tuple[int, int]
    names: tuple[str, ...]


@cache
def sources() -> dict[str, Source]:
    """Return all known data sets by name.

    Examples
    --------
    >>> sources()["Yale"].shape
    (165, 1024)
    """
    text = files("orthoplus.datasets").joinpath("sources.json").read_text(encoding="utf-8")
    found = {}
    for name, entry in json.loads(text)["sets"].items():
        lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
        found[name] = Source(name, **(entry | lists))
    return found


def find_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the data folder: the given one, else ``ORTHOPLUS_DATA``, else the user's cache.

    Examples
    --------
    >>> find_folder("my-data").name
    'my-data'
    """
    if folder is not None:
        return Path(folder)
    if os.environ.get(FOLDER_VARIABLE):
        return Path(os.environ[FOLDER_VARIABLE])
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_home) / "orthoplus"


def load_labelled(name: str, folder: str | os.PathLike[str] | None = None) -> LabelledData:
    """Load a data set of documents, images or features with its classes.

    Examples
    --------
    >>> load_labelled("Yale").A.shape  # doctest: +SKIP
    (165, 1024)
    """
    check_choice(name, "name", (*TEXT_SETS, *IMAGE_SETS, *FEATURE_SETS))
    parts = load_arrays(name, folder)
    if "A" in parts:
        A: Any = parts["A"].astype(np.float64)
    else:
        indices = parts["indices"].astype(np.int32)  # the file stores the smallest integer type
        data = parts["data"].astype(np.float64)
        A = csr_array((data, indices, parts["indptr"]), shape=tuple(parts["shape"].tolist()))
    classes, labels = np.unique(parts["labels"], return_inverse=True)
    return LabelledData(name, A, labels, len(classes))


def load_scene(name: str, folder: str | os.PathLike[str] | None = None) -> SceneData:
    """Load a hyperspectral image, as nonnegative reflectance, with its ground truth.

    Examples
    --------
    >>> load_scene("Samson").names  # doctest: +SKIP
    ('soil', 'tree', 'water')
    """
    check_choice(name, "name", SCENES)
    parts = load_arrays(name, folder)
    height, width = parts["image_shape"].tolist()
    return SceneData(
        name=name,
        A=parts["A"] / float(parts["scale"]),
        endmembers=parts["endmembers"],
        abundances=parts["abundances"],
        image_shape=(height, width),
        names=tuple(parts["endmember_names"].tolist()),
    )


def load_arrays(name: str, folder: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Load the arrays of a data set as stored; raise `MissingDataError` if the file is missing.

    Examples
    --------
    >>> sorted(load_arrays("Yale"))  # doctest: +SKIP
    ['A', 'image_shape', 'label_values', 'labels']
    """
    path = find_folder(folder) / f"{name}.npz"
    if not path.is_file():
        way = (
            f"`orthoplus data fetch {name}` downloads it"
            if sources()[name].is_public_file
            else f"it has no single public file ({sources()[name].origin})"
        )
        raise MissingDataError(
            f"The data set {name} was not found: {path} does not exist. Pass its folder with "
            f"`--data DIR` or set {FOLDER_VARIABLE}; {way}."
        )
    with np.load(path, allow_pickle=False) as parts:
        return {key: parts[key] for key in parts.files}
