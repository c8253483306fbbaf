"""Download a real data set with pooch, verify its checksum and convert it to ``.npz``."""

import io
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import url2pathname

import numpy as np
from scipy.sparse import csr_array, issparse

from orthoplus.core.atomic import write_atomically
from orthoplus.core.checks import check_choice
from orthoplus.core.errors import FileError, InputError
from orthoplus.core.extras import require
from orthoplus.datasets.real import Source, find_folder, sources
from orthoplus.io.matlab import read_mat

BASE = "https://raw.githubusercontent.com"
# Seconds without an answer after which a download is given up.
_TIMEOUT = 30.0


class FetchError(InputError):
    """Raised if a data set cannot be downloaded; the message says why and what to do.

    Examples
    --------
    >>> issubclass(FetchError, InputError)
    True
    """


def fetch(name: str, folder: str | os.PathLike[str] | None = None, *, base: str = BASE) -> Path:
    """Download, verify and convert a data set, and return the path of its ``.npz`` file.

    Parameters
    ----------
    name : str
        A key of `sources`.
    folder : path, optional
        Target folder; by default the one that `find_folder` returns. An existing file is kept.
    base : str
        Prefix of ``repository/commit/path`` in the address: a mirror with the same files, or a
        local folder given as ``file:///...``.

    Raises
    ------
    FetchError
        If the set has no public file, the connection fails, or the downloaded file does not have
        the expected size and checksum.

    Notes
    -----
    Requires pooch, which ``pip install "orthoplus[cli]"`` installs. The file is written atomically.
    Only numeric arrays are read from the download; no code in it is executed.

    Examples
    --------
    >>> fetch("UrbanCrop", "nowhere")
    Traceback (most recent call last):
    orthoplus.datasets.download.FetchError: UrbanCrop cannot be downloaded: it was made from ...
    """
    check_choice(name, "name", tuple(sources()))
    source = sources()[name]
    target = find_folder(folder) / f"{name}.npz"
    if target.is_file():
        return target
    if not source.is_public_file:
        raise FetchError(
            f"{name} cannot be downloaded: it was made from {source.origin}. Create `{name}.npz` "
            f"yourself and put it into {target.parent}."
        )
    pooch = require("pooch", f"Downloading {name}", extra="cli")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as aside:
        _download(pooch, source, address_of(source, base), Path(aside) / "raw.mat")
        arrays = convert(source, Path(aside) / "raw.mat")
    write_atomically(target, lambda file: np.savez_compressed(file, **arrays))
    return target


def address_of(source: Source, base: str = BASE) -> str:
    """Return the address of the public file of a set."""
    return f"{base.rstrip('/')}/{source.repository}/{source.commit}/{quote(source.path or '')}"


def convert(source: Source, path: Path) -> dict[str, Any]:
    """Convert the public file to the arrays of our format, and check their shape."""
    try:
        catalog = read_mat(path)
        found = {key: entry.load().values for key, entry in catalog.items() if entry.is_numeric}
        arrays = _LAYOUTS[source.layout](source, found)
    except (KeyError, FileError) as error:
        raise FetchError(
            f"The file of {source.name} cannot be used: {error}. It lacks the expected arrays."
        ) from None
    shape = tuple(arrays["shape"].tolist()) if "shape" in arrays else arrays["A"].shape
    if shape != source.shape:
        raise FetchError(f"{source.name} has shape {shape}, but {source.shape} is expected.")
    return arrays


class _Bounded(io.FileIO):
    """A file that refuses to grow beyond the expected number of bytes.

    A server may send more than it announced; this stops the download before the disk fills up.
    """

    left = 0

    def write(self, chunk: Any) -> int:
        self.left -= len(chunk)
        if self.left < 0:
            raise InputError("The file is longer than expected.")
        return super().write(chunk)


def _download(pooch: Any, source: Source, address: str, path: Path) -> None:
    """Retrieve the public file and verify its size and checksum."""
    pooch.get_logger().setLevel("WARNING")

    def download(url: str, name: str, _: Any) -> None:
        with _Bounded(name, "wb") as file:
            file.left = int(source.bytes or 0)
            if not url.startswith("file:"):
                return pooch.HTTPDownloader(timeout=_TIMEOUT)(url, file, None)
            with open(url2pathname(url.removeprefix("file://")), "rb") as public:
                shutil.copyfileobj(public, file)

    try:
        pooch.retrieve(
            address, f"sha256:{source.sha256}", path.name, path.parent, downloader=download
        )
    except OSError as error:  # requests derives its errors from OSError
        raise FetchError(
            f"{source.name} could not be downloaded from {address}: {error}. Without internet "
            f"access, download the file on another machine, keep its folders, and pass "
            f"`base=file:///...`."
        ) from None
    except ValueError:  # raised by pooch for a wrong checksum, and by `_Bounded` for extra bytes
        raise FetchError(
            f"{address} is not the expected file of {source.name}: it must have {source.bytes} "
            f"bytes and the SHA-256 {source.sha256}. The download was discarded."
        ) from None


def _from_documents(source: Source, found: dict[str, Any]) -> dict[str, Any]:
    counts, labels = csr_array(found["A"]), np.ravel(found["true_ans"])
    if counts.shape[0] != len(labels):
        counts = csr_array(counts.T)
    counts = counts[:, np.flatnonzero(counts.count_nonzero(axis=0))]
    counts.sort_indices()
    return {
        "data": counts.data,
        "indices": counts.indices.astype(np.int32),
        "indptr": counts.indptr,
        "shape": np.array(counts.shape),
        "labels": labels,
    }


def _from_images(name: str, source: Source, found: dict[str, Any]) -> dict[str, Any]:
    return {"A": _dense(found[name]), "labels": np.ravel(found["gnd"])}


def _from_scene(source: Source, found: dict[str, Any]) -> dict[str, Any]:
    """Reorder (bands, pixels), column-major as in MATLAB, to (pixels, bands), row-major."""
    height, width = source.image_shape or (0, 0)

    def by_rows(values: Any) -> Any:
        pixels = _dense(values).T.astype(np.float64)
        return pixels.reshape(width, height, -1).transpose(1, 0, 2).reshape(height * width, -1)

    return {
        "A": np.maximum(by_rows(found["Y"]), 0.0),
        "endmembers": _dense(found["M"]).T.astype(np.float64),
        "abundances": by_rows(found["A"]),
        "image_shape": np.array((height, width)),
        "scale": np.array(1.0),
        "endmember_names": np.array(source.endmember_names),
    }


def _dense(values: Any) -> Any:
    return values.toarray() if issparse(values) else np.asarray(values)


_LAYOUTS: dict[str, Callable[[Source, dict[str, Any]], dict[str, Any]]] = {
    "documents": _from_documents,
    "images": partial(_from_images, "fea"),
    "features": partial(_from_images, "U"),
    "scene": _from_scene,
}
