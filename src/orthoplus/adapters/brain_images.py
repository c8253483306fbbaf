"""Convert brain images to a matrix with a row per voxel or vertex and a column per sample.

Images pass through a nilearn masker a few volumes at a time. A matrix that exceeds the memory
limit is written to a temporary file and read in blocks of rows.
"""

import glob
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from orthoplus.adapters.brain_columns import ColumnWriter
from orthoplus.core.checks import describe
from orthoplus.core.errors import FileError, InputError, InputTypeError
from orthoplus.core.extras import require
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.stored import parse_memory
from orthoplus.io.brain_checks import check_surface, open_volume, refuse_image
from orthoplus.io.brain_files import is_surface_file
from orthoplus.io.guard import check_size

# Options of a masker that need all samples of a series at once.
_CLEANING = ("standardize", "detrend", "low_pass", "high_pass", "high_variance_confounds")
_ADVICE = (
    "pass a file name such as 'sub-*.nii.gz', a nibabel image, a nilearn SurfaceImage, or a list "
    "of them"
)
# Share of the memory limit for the volumes read at a time.
_VOLUME_SHARE = 0.125
# Bytes that are read at a time to find the file that cannot be read.
_READ_AGAIN = 1 << 26


class Series(NamedTuple):
    """Images that are cleaned together: one 4D or surface image, or several 3D images."""

    images: tuple[Any, ...]
    n_samples: int
    confounds: Any = None


@dataclass(frozen=True, eq=False)
class ImageMatrix:
    """The matrix of some images, as returned by `Parcellation.read` and accepted by `fit`.

    Attributes
    ----------
    values : ndarray of shape (n_voxels, n_samples)
        The values, in memory or as a memory map of a temporary file.
    counts : tuple of int
        Number of samples of each series: of each 4D image, or of all 3D images together.
    n_negative, least : int, float
        Number of negative entries, and the smallest entry.
    memory_limit : int or None
        Number of bytes that may be read at a time, if the values are in a file.
    mask_img : Nifti1Image or SurfaceImage, optional
        The mask, whose voxels are the rows.

    Examples
    --------
    >>> matrix = ImageMatrix(np.ones((5, 3)), (3,), n_negative=0, least=1.0, memory_limit=None)
    >>> matrix.values.shape, matrix.groups
    ((5, 3), None)
    """

    values: FloatArray
    counts: tuple[int, ...]
    n_negative: int
    least: float
    memory_limit: int | None
    mask_img: Any = None

    @property
    def groups(self) -> IntArray | None:
        """Return the series of each column; None if there is only one, of subjects."""
        if len(self.counts) == 1:
            return None
        return np.repeat(np.arange(len(self.counts)), self.counts)


def _nilearn(module: str) -> Any:
    """Import a module of nilearn; raise `MissingPackageError` if it is not installed."""
    require("nilearn", "A parcellation of images", extra="brain")
    return import_module(f"nilearn.{module}")


def as_series(imgs: Any, confounds: Any = None) -> list[Series]:
    """Split images into series: each 4D image is one, and all 3D images form one together.

    Examples
    --------
    >>> as_series(np.ones((3, 4)))
    Traceback (most recent call last):
    orthoplus.InputTypeError: `imgs` is an array of shape (3, 4), not an image: pass a file name ...
    """
    images = _listed(imgs)
    counts = [_n_samples(image) for image in images]
    if all(count == 0 for count in counts):
        parts = [(tuple(images), len(images))]
    else:
        parts = [((image,), max(count, 1)) for image, count in zip(images, counts, strict=True)]
    given = _listed_confounds(confounds, len(parts))
    return [Series(*part, own) for part, own in zip(parts, given, strict=True)]


def is_surface(image: Any) -> bool:
    """Return whether the image is a nilearn surface image."""
    return hasattr(image, "mesh") and hasattr(getattr(image, "data", None), "parts")


def _listed(imgs: Any) -> list[Any]:
    """Return the images as a list, with wildcards expanded."""
    if isinstance(imgs, (str, Path)):
        if not glob.has_magic(str(imgs)):
            return [imgs]
        found = sorted(glob.glob(str(Path(imgs).expanduser())))
        if not found:
            raise FileError(f"`{imgs}` matches no file; check the folder and the pattern.")
        return list(found)
    if is_surface(imgs) or hasattr(imgs, "affine"):
        return [imgs]
    if not isinstance(imgs, (list, tuple)):
        raise _not_an_image(imgs, "imgs")
    if not imgs:
        raise InputError(f"`imgs` is empty: {_ADVICE}.")
    return list(imgs)


def _not_an_image(value: Any, name: str) -> InputTypeError:
    if not isinstance(value, np.ndarray):
        return InputTypeError(f"`{name}` is {describe(value)}, not an image: {_ADVICE}.")
    return InputTypeError(
        f"`{name}` is an array of shape {value.shape}, not an image: {_ADVICE}. A matrix of voxels "
        f"by subjects can be passed to `OrthogonalNMF(k).fit(A)`."
    )


def _n_samples(image: Any) -> int:
    """Return the number of time points of an image; 0 if it has no time axis."""
    if is_surface(image):
        for part in image.data.parts.values():
            _check_real(np.asarray(part).dtype)
        return int(image.shape[1]) if len(image.shape) > 1 else 0
    if isinstance(image, (str, Path)):
        image = _opened(image)
    if not (hasattr(image, "affine") and hasattr(image, "shape")):
        raise _not_an_image(image, "imgs")
    if len(image.shape) not in (3, 4):
        raise InputError(
            f"An image has shape {tuple(image.shape)}; expected 3D images, or 4D images with time "
            f"points or subjects along the last axis."
        )
    if 0 in image.shape:
        raise InputError(f"An image has shape {tuple(image.shape)}: it has no voxels or volumes.")
    _check_real(np.dtype(getattr(image.dataobj, "dtype", np.float64)))
    return int(image.shape[3]) if len(image.shape) == 4 else 0


def _check_real(dtype: np.dtype[Any]) -> None:
    """Raise unless the values are real numbers; nilearn would drop imaginary parts."""
    if dtype.kind not in "fiub":
        raise InputTypeError(
            f"An image has values of type {dtype}, not real numbers. Convert it first, for example "
            f"to the magnitudes of complex values."
        )


def _opened(path: str | Path) -> Any:
    """Open an image file; only its header is read."""
    if is_surface_file(path):
        raise FileError(
            f"`{path}` is a surface, not a volume. In Python, `load_surface(left=..., right=...)` "
            f"reads it."
        )
    return open_volume(path)


def _listed_confounds(confounds: Any, n_series: int) -> Sequence[Any]:
    if confounds is None:
        return [None] * n_series
    given = confounds if isinstance(confounds, (list, tuple)) else [confounds]
    if len(given) != n_series:
        raise InputError(
            f"`confounds` has {len(given)} tables for {n_series} series of images; pass one table "
            f"per 4D image, or one for all 3D images together."
        )
    return given


def make_masker(estimator: Any, series: list[Series]) -> Any:
    """Return a fitted masker with the options of a `Parcellation`, unless one is given."""
    maskers = _nilearn("maskers")
    from sklearn.base import clone

    mask, images = estimator.mask, [image for part in series for image in part.images]
    if isinstance(mask, (maskers.NiftiMasker, maskers.SurfaceMasker)):
        masker = clone(mask)
        if mask.mask_img is None and hasattr(mask, "mask_img_"):
            masker.set_params(mask_img=mask.mask_img_)
    else:
        _check_mask(mask, images[0])
        kind = maskers.MultiSurfaceMasker if is_surface(images[0]) else maskers.MultiNiftiMasker
        masker = kind(mask_img=mask)
        known = masker.get_params()
        own = {name: value for name, value in estimator.get_params().items() if name in known}
        # nilearn is deprecating True and False in favor of these values.
        own["standardize"] = {True: "zscore_sample", False: None}.get(
            own["standardize"], own["standardize"]
        )
        masker.set_params(**own, reports=False)
    masker.set_params(verbose=int(estimator.verbose))
    if masker.mask_img is None:  # all of an image is loaded to find the mask
        for name in images:
            if isinstance(name, (str, Path)):
                image = _opened(name)
                check_size(Path(image.get_filename()), image.shape, image.get_data_dtype())
    files = [*images, mask] if isinstance(mask, (str, Path)) else images
    with _translated_errors(files):
        if masker.mask_img is not None:
            return masker.fit()
        return masker.fit(images if len(images) > 1 else images[0])


@contextmanager
def _translated_errors(images: Sequence[Any]) -> Iterator[None]:
    """Turn nilearn's errors about images and masks into an `InputError` of one sentence.

    If it cannot read a file, the error names this file.
    """
    nibabel = require("nibabel", "Reading an image", extra="brain")
    errors = nibabel.spatialimages
    unreadable = (OSError, EOFError, zlib.error, errors.HeaderDataError, errors.ImageDataError)
    try:
        yield
    except InputError:
        raise
    except (ValueError, TypeError, *unreadable) as error:
        if isinstance(error, unreadable):
            for image in images:
                for _ in read_volumes(image, _READ_AGAIN):
                    pass
        words = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"nilearn cannot use the images or the mask: {words}.") from error


def _check_mask(mask: Any, image: Any) -> None:
    if mask is None:
        return
    mask = _opened(mask) if isinstance(mask, (str, Path)) else mask
    if is_surface(mask) or hasattr(mask, "affine"):
        if is_surface(mask) == is_surface(image):
            return
        one, other = ("surface", "volumes") if is_surface(mask) else ("volume", "surfaces")
        raise InputError(f"`mask` is a {one}, but the images are {other}; pass a matching mask.")
    raise InputTypeError(
        f"`mask` is {describe(mask)}; pass a binary image, its file name, or a NiftiMasker or "
        f"SurfaceMasker of nilearn."
    )


def is_same_mask(one: Any, other: Any) -> bool:
    """Return whether two masks have the same voxels or vertices."""
    parts = [_mask_parts(mask) for mask in (one, other)]
    return one is other or (len(parts[0]) == len(parts[1]) and all(map(np.array_equal, *parts)))


def _mask_parts(mask: Any) -> list[Any]:
    if is_surface(mask):
        return [np.asarray(part) for part in mask.data.parts.values()]
    return [np.asarray(mask.dataobj) > 0, mask.affine]


def read_columns(masker: Any, series: Series, memory_limit: int) -> Iterator[FloatArray]:
    """Yield the samples of a series inside the mask in blocks of shape (samples, voxels).

    There is a single block if the masker cleans over time, or if there are confounds.
    """
    # Cleaning works along time: the whole series has to be in memory.
    if series.confounds is not None or any(getattr(masker, name, None) for name in _CLEANING):
        own = {} if series.confounds is None else {"confounds": [series.confounds]}
        images = tuple(_whole(image) for image in series.images)
        for image in images:
            _warn_of_gaps(masker, image)
        with _translated_errors([]):
            samples = masker.transform(_joined(images), **own)
        yield np.atleast_2d(samples)
        return
    for image in series.images:
        for volumes in read_volumes(image, int(_VOLUME_SHARE * memory_limit)):
            _warn_of_gaps(masker, volumes)
            with _translated_errors([]):
                samples = masker.transform(volumes)
            yield np.atleast_2d(samples)


def _joined(images: tuple[Any, ...]) -> Any:
    if len(images) == 1:
        return images[0]
    return _nilearn("image").concat_imgs(list(images))


def _whole(image: Any) -> Any:
    """Load all of an image into memory."""
    if is_surface(image):
        return image
    return _loaded(_opened(image) if isinstance(image, (str, Path)) else image, None)


def read_volumes(image: Any, n_bytes: int) -> Iterator[Any]:
    """Split an image along the last axis into pieces of at most ``n_bytes``, or one volume."""
    if is_surface(image):
        yield image
        return
    image = _opened(image) if isinstance(image, (str, Path)) else image
    if len(image.shape) == 3:
        yield _loaded(image, None)
        return
    volume = int(np.prod(image.shape[:3])) * np.dtype(np.float64).itemsize
    step = max(1, n_bytes // max(1, volume))
    for start in range(0, image.shape[3], step):
        yield _loaded(image, slice(start, start + step))


def _loaded(image: Any, part: slice | None) -> Any:
    """Load an image, or a part of its volumes, into memory, so that it is read only once."""
    try:
        image = image if part is None else image.slicer[..., part]
        values = np.asanyarray(image.dataobj)
    except (ValueError, OSError, EOFError, zlib.error) as error:  # the file is truncated or damaged
        refuse_image(image.get_filename() or "image", error)
    return type(image)(values, image.affine, image.header)


def _warn_of_gaps(masker: Any, image: Any) -> None:
    """Warn about values inside the mask that are not finite, which nilearn replaces by 0."""
    if is_surface(image) or image.shape[:3] != masker.mask_img_.shape:
        return
    inside = np.asarray(masker.mask_img_.dataobj) > 0
    n_bad = int(np.count_nonzero(~np.isfinite(np.asarray(image.dataobj)[inside])))
    if n_bad:
        warnings.warn(
            f"{n_bad} values of an image are NaN or infinite inside the mask and are replaced by "
            f"0, as in nilearn. Use a smaller mask, or impute them first.",
            UserWarning,
            stacklevel=2,
        )


def read_matrix(
    masker: Any, series: list[Series], memory_limit: int | str, *, is_clipped: bool = False
) -> ImageMatrix:
    """Read the matrix of all series; with ``is_clipped``, negative entries become 0."""
    limit = parse_memory(memory_limit)
    n_samples, n_negative, least = sum(part.n_samples for part in series), 0, 0.0
    writer: ColumnWriter | None = None
    for part in series:
        for block in read_columns(masker, part, limit):
            writer = writer or ColumnWriter(block, n_samples, limit)
            n_negative += int(np.count_nonzero(block < 0))
            least = min(least, float(block.min(initial=0.0)))
            writer.add(np.maximum(block, 0) if is_clipped else block)
    assert writer is not None
    values = writer.finish()
    counts = tuple(part.n_samples for part in series)
    own_limit = limit if writer.is_file else None
    return ImageMatrix(values, counts, n_negative, least, own_limit, masker.mask_img_)


def load_surface(left: Any = None, right: Any = None, mesh: Any = None) -> Any:
    """Load GIFTI files to a surface image with a row per vertex and a column per map.

    Parameters
    ----------
    left, right : file name, pattern such as "sub-*_hemi-L.func.gii", or list of them
        The files of each hemisphere, with the subjects in the same order; one hemisphere may be
        omitted. A file with several maps gives several columns.
    mesh : PolyMesh of nilearn, or dict of file names of surfaces by "left" and "right", optional
        Required only for pictures and smoothing; by default a placeholder is used.

    Returns
    -------
    nilearn.surface.SurfaceImage

    Examples
    --------
    >>> import tempfile, nibabel  # doctest: +SKIP
    >>> maps = np.arange(12.0, dtype=np.float32).reshape(6, 2)  # doctest: +SKIP
    >>> image = nibabel.gifti.GiftiImage(  # doctest: +SKIP
    ...     darrays=[nibabel.gifti.GiftiDataArray(one) for one in maps.T]
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     nibabel.save(image, f"{folder}/hemi-L.func.gii")
    ...     load_surface(left=f"{folder}/hemi-L.func.gii").shape
    (6, 2)
    """
    surface = _nilearn("surface")
    given = {"left": left, "right": right}
    data = {name: _read_maps(files) for name, files in given.items() if files is not None}
    if not data:
        raise InputError("`left` and `right` are both None; pass the files of a hemisphere.")
    if len({maps.shape[1] for maps in data.values()}) > 1:
        raise InputError(
            f"The left hemisphere has {data['left'].shape[1]} maps, but the right one has "
            f"{data['right'].shape[1]}; pass both for the same subjects, in the same order."
        )
    for name in mesh.values() if isinstance(mesh, dict) else ():
        if isinstance(name, (str, Path)):
            check_surface(name)
    if mesh is None:
        faces = np.array([[0, 1, 2]])
        mesh = {
            name: surface.InMemoryMesh(np.zeros((max(len(maps), 3), 3)), faces)
            for name, maps in data.items()
        }
    return surface.SurfaceImage(mesh=mesh, data=data)


def _read_maps(files: Any) -> FloatArray:
    """Read the maps of some files as columns."""
    load = _nilearn("surface").load_surf_data
    columns = []
    for name in _listed(files):
        check_surface(name)
        try:
            maps = np.asarray(load(name))
        except Exception as error:  # nibabel has many exception classes
            raise FileError(f"`{name}` cannot be read as data on a surface ({error}).") from error
        columns.append(maps.reshape(len(maps), -1))
    if len({len(maps) for maps in columns}) > 1:
        raise FileError(
            f"The surfaces have different numbers of vertices, "
            f"{sorted({len(maps) for maps in columns})}; resample them to one mesh first."
        )
    return np.hstack(columns)
