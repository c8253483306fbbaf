"""Hyperspectral unmixing by orthogonal NMF, section 6.2.3."""

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from orthoplus.core.checks import as_generator, check_count
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.method import OuterMethod
from orthoplus.core.point import spread
from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix, as_data
from orthoplus.data.base import ask
from orthoplus.data.read import reads_in_blocks
from orthoplus.estimators.factorize import RunOptions
from orthoplus.metrics import spectral_angle_distance
from orthoplus.problems import ONMF


@dataclass(frozen=True, eq=False)
class Unmixing:
    """What `unmix` returns: ``cube`` is about ``abundances @ endmembers``.

    Attributes
    ----------
    abundances : ndarray of shape (h, w, k)
        One map for each endmember; each pixel is in one of them. The abundances of an endmember
        are 1 on average over its pixels: brighter pixels are above 1. Made from ``labels`` and
        ``brightness`` when first asked for.
    endmembers : ndarray of shape (k, n_bands)
        Spectra in the units of the cube.
    labels : ndarray of int, shape (h, w)
        The endmember of each pixel, -1 for a pixel of zeros.
    brightness : ndarray of shape (h, w)
        The abundance of that endmember, 0 for a pixel of zeros.
    result : Result
        The factorisation: objective, status, history; ``result.notes`` says what was changed in the
        cube.

    Examples
    --------
    >>> spectra = np.array([[1.0, 2.0, 4.0], [5.0, 1.0, 0.5]])
    >>> found = unmix(spectra[[[0, 0, 1], [1, 1, 0]]], 2)
    >>> found.abundances.shape, round(found.spectral_angle(spectra), 6) + 0.0
    ((2, 3, 2), 0.0)
    """

    endmembers: FloatArray = field(repr=False)
    labels: IntArray = field(repr=False)
    brightness: FloatArray = field(repr=False)
    result: Result

    @cached_property
    def abundances(self) -> FloatArray:
        """The maps."""
        k = len(self.endmembers)
        maps = spread(self.labels.ravel(), self.brightness.ravel(), k)
        return maps.reshape(*self.labels.shape, k)

    def spectral_angle(self, reference: npt.ArrayLike) -> float:
        """Mean angle to the reference spectra (k, n_bands) in radians, optimally matched."""
        return spectral_angle_distance(self.endmembers, reference)


def unmix(
    cube: Any,
    n_endmembers: int,
    *,
    method: str | OuterMethod = "unmixing",
    n_init: int | None = None,
    random_state: np.random.Generator | int | None = None,
    memory_limit: int | str | None = None,
    **watch: Any,
) -> Unmixing:
    """Endmember spectra and abundance maps of a hyperspectral image, one endmember a pixel.

    Parameters
    ----------
    cube : array of shape (h, w, n_bands) or (n_pixels, n_bands)
        Reflectance; the scale does not matter. Negative values are set to zero, and
        ``result.notes`` says how many. Pixels of zeros (a border) belong to no endmember. Datasets
        of h5py and arrays of Zarr are read in blocks of lines; a Dask array must be a matrix.
    n_endmembers : int
        k.
    method : str or object
        As in `OrthogonalNMF`; "unmixing" has the paper's parameters for hyperspectral images. It
        holds a few matrices of n_pixels x k numbers; "auto" holds none.
    n_init : int, optional
        Number of runs, of which the best is kept: the first from the singular vectors of the
        pixels, the others at random. By default as in `OrthogonalNMF`.
    random_state : Generator, int or None
        For the random starts; None is the seed 0.
    memory_limit : int or str, optional
        In bytes, or as in "512MB": read the cube, a memory map or any array, in blocks that fit,
        see `orthoplus.data.as_data`.
    **watch
        As in `solve`: ``callback, time_limit, resume, checkpoint, checkpoint_every, with_bound``.

    Returns
    -------
    Unmixing
        For a cube of two dimensions the maps have one: abundances (n_pixels, k), labels
        (n_pixels,).

    Notes
    -----
    An inner step costs O(nk^2) for n pixels, a renewal of the spectra O(n n_bands k).

    Examples
    --------
    >>> soil, water = np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 0.0])
    >>> cube = np.array([[soil, 2 * soil], [water, 3 * water]])
    >>> found = unmix(cube, 2)
    >>> found.labels.shape, found.abundances.shape, found.endmembers.shape
    ((2, 2), (2, 2, 2), (2, 3))
    >>> round(found.spectral_angle([soil, water]), 6)
    0.0
    """
    pixels, size, notes = _read_cube(cube, memory_limit)
    check_count(n_endmembers, "n_endmembers", low=1)
    if n_endmembers > len(pixels):
        raise InputError(
            f"`n_endmembers={n_endmembers}` exceeds the {len(pixels)} pixels of the cube: each "
            f"endmember needs a pixel. Use at most {len(pixels)}."
        )
    with_bound = watch.pop("with_bound", False)
    options = RunOptions(method=method, n_init=n_init, with_bound=with_bound, watch=watch)
    rng = as_generator(random_state, "random_state")
    result = options.run(ONMF(pixels, n_endmembers), rng)
    result = dataclasses.replace(result, notes=(*result.notes, *notes))
    # A pixel of zeros may hold a column that no other pixel needs: it is still none's.
    is_lit = pixels.gather(pixels.row_squares()) > 0
    labels = np.where(is_lit, np.asarray(result.labels), -1)
    weights = np.where(labels >= 0, np.asarray(result.weights), 0.0)
    scale = _mean_weights(labels, weights, n_endmembers)
    return Unmixing(
        endmembers=scale[:, None] * np.asarray(result.Y).T,
        labels=labels.reshape(size),
        brightness=np.where(labels >= 0, weights / scale[labels], 0.0).reshape(size),
        result=result,
    )


_Pixels = tuple[DataMatrix, tuple[int, ...], tuple[str, ...]]


def _read_cube(cube: Any, memory_limit: int | str | None) -> _Pixels:
    """Return the pixels as the rows of a nonnegative matrix, the size of the image, and notes."""
    if reads_in_blocks(cube, memory_limit):
        size = tuple(cube.shape[:-1])
        pixels = as_data(cube, "cube", memory_limit=memory_limit, check=False)
    else:
        values = _check_cube(cube)
        size = values.shape[:-1]
        pixels = as_data(values.reshape(-1, values.shape[-1]), "cube", check=False)
    n_negative = int(pixels.reduce_rows(ask("n_negative")))
    if n_negative == 0:
        return pixels, size, ()
    note = f"{n_negative} negative values of the cube were set to zero."
    return pixels.derive(ask("clipped")), size, (note,)


def _mean_weights(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """The mean entry of each column of X over its pixels, 1 for a column without any."""
    used = labels >= 0
    counts = np.bincount(labels[used], minlength=k)
    sums = np.bincount(labels[used], weights[used], minlength=k)
    return np.where(sums > 0, sums / np.maximum(counts, 1), 1.0)


def _check_cube(cube: Any) -> FloatArray:
    """Return a cube in memory as finite numbers."""
    if np.ma.is_masked(cube):
        masked = np.ma.getmaskarray(cube)
        raise InputError(
            f"`cube` has {int(masked.sum())} masked values. Pass only the pixels that are whole, "
            f"as a matrix: `cube.data[~mask]`, where `mask` is two-dimensional."
        )
    values = np.asarray(cube)
    if values.ndim not in (2, 3) or 0 in values.shape:
        raise InputError(
            f"`cube` has shape {values.shape}: an image (height, width, bands) or a matrix "
            f"(pixels, bands) is needed."
        )
    if values.dtype.kind not in "fiub":
        raise InputTypeError(f"`cube` has dtype {values.dtype}: real numbers are needed.")
    pixels = values.reshape(-1, values.shape[-1]).astype(np.float64, copy=False)
    bad = ~np.isfinite(pixels).all(axis=1)
    if bad.any():
        first = np.unravel_index(int(bad.argmax()), values.shape[:-1])
        raise InputError(
            f"`cube` has {int(bad.sum())} pixels with NaN or infinite values, the first at "
            f"{tuple(int(i) for i in first)}. Leave them out: pass `cube[good]`, a matrix of the "
            f"pixels that are whole."
        )
    return pixels.reshape(values.shape)
