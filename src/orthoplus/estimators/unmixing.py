"""Hyperspectral unmixing by orthogonal NMF, section 6.2.3."""

import copy
import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from orthoplus.core.checks import as_generator, check_choice, check_count
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.foreign import check_not_foreign
from orthoplus.core.outer_method import OuterMethod
from orthoplus.core.point import spread
from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix, as_data
from orthoplus.data.base import ask
from orthoplus.data.read import check_finite_and_range, reads_in_blocks
from orthoplus.estimators.cubes import FRACTIONS as FRACTION_MAPS
from orthoplus.estimators.cubes import MAP, SPECTRA, Cube, open_cube, open_spectra
from orthoplus.estimators.factorize import RunOptions, best_run, choose_method, starts_by_itself
from orthoplus.estimators.spectra import choose_spectra
from orthoplus.linalg.fractions import MODELS, check_spectra, fitting_model, fractions_of_rows
from orthoplus.metrics import spectral_angle_distance
from orthoplus.problems import ONMF

FRACTIONS = ("auto", *MODELS)


@dataclass(frozen=True, eq=False)
class Unmixing:
    """Result of `unmix`: ``cube`` is about ``abundances @ endmembers``, up to brightness.

    Attributes
    ----------
    abundances : ndarray of shape (h, w, k)
        The fraction of each endmember in each pixel: nonnegative, summing to one, or zeros for a
        pixel of zeros.
    endmembers : ndarray of shape (k, n_bands)
        Spectra of the pure materials in the units of the cube, sorted by decreasing share.
    labels : ndarray of int, shape (h, w)
        The endmember with the largest fraction in each pixel, or -1 for a pixel of zeros.
    brightness : ndarray of shape (h, w)
        The factor with which that endmember alone fits the pixel best; 0 for a pixel of zeros.
    model : {"fcls", "nnls"}
        The model of the fractions; see `unmix`.
    result : Result
        The orthogonal factorization with its objective, status and history, and its own clusters in
        ``result.labels``. ``result.notes`` says how the endmembers and fractions were chosen and
        what was changed in the cube.

    Examples
    --------
    >>> spectra = np.array([[1.0, 2.0, 4.0], [5.0, 1.0, 0.5]])
    >>> found = unmix(spectra[[[0, 0, 1], [1, 1, 0]]], 2)
    >>> found.abundances.shape, round(found.spectral_angle(spectra), 6) + 0.0
    ((2, 3, 2), 0.0)
    """

    endmembers: FloatArray = field(repr=False)
    abundances: FloatArray = field(repr=False)
    labels: IntArray = field(repr=False)
    brightness: FloatArray = field(repr=False)
    model: str
    result: Result

    @cached_property
    def hard_abundances(self) -> FloatArray:
        """Maps (h, w, k) with one endmember per pixel: its brightness, and 0 for all others."""
        k = len(self.endmembers)
        maps = spread(np.ravel(self.labels), np.ravel(self.brightness), k)
        maps = maps.reshape(*self.labels.shape, k)
        fractions: Any = self.abundances  # a DataArray has dimensions and coordinates
        return maps if isinstance(fractions, np.ndarray) else fractions.copy(data=maps)

    def spectral_angle(self, reference: npt.ArrayLike) -> float:
        """Return the mean angle in radians to reference spectra (k, n_bands), optimally matched."""
        return spectral_angle_distance(self.endmembers, reference)

    def fractions_of(self, cube: Any, *, memory_limit: int | str | None = None) -> FloatArray:
        """Return the fractions of these endmembers in another cube, by the same model.

        Examples
        --------
        >>> spectra = np.array([[1.0, 2.0, 4.0], [5.0, 1.0, 0.5]])
        >>> found = unmix(np.repeat(spectra, 3, axis=0), 2)
        >>> found.fractions_of(found.endmembers.mean(axis=0)[None]).round(3)
        array([[0.5, 0.5]])
        """
        return abundances(cube, self.endmembers, fractions=self.model, memory_limit=memory_limit)


def unmix(  # noqa: PLR0913
    cube: Any,
    n_endmembers: int,
    *,
    fractions: str = "auto",
    method: str | OuterMethod = "unmixing",
    n_init: int | None = None,
    random_state: np.random.Generator | int | None = None,
    memory_limit: int | str | None = None,
    **watch: Any,
) -> Unmixing:
    """Find the spectra of the materials in a hyperspectral image, and their fractions per pixel.

    Parameters
    ----------
    cube : array of shape (h, w, n_bands) or (n_pixels, n_bands)
        Reflectance; the scale does not matter. Negative values are set to zero, and
        ``result.notes`` says how many. Pixels of zeros (a border) belong to no endmember. h5py
        datasets and Zarr arrays are read in blocks of lines; a Dask array must be a matrix. An
        xarray DataArray needs a dimension ``band`` or ``wavelength`` in any position, and the
        results are DataArrays with its coordinates. A DataArray, an open rasterio dataset and a
        Spectral Python image may have pixels without data, which are treated as zeros.
    n_endmembers : int
        Number of endmembers k.
    fractions : {"auto", "fcls", "nnls"}
        How ``abundances`` follow from the endmembers: fully constrained least squares, for pixels
        of even brightness; or nonnegative least squares divided by the sum per pixel, if light and
        shade vary. "auto" is "fcls" unless its error is more than 1.5 times that of "nnls".
    method : str or object
        As in `OrthogonalNMF`; "unmixing" has the paper's parameters for hyperspectral images.
    n_init : int, optional
        Number of runs of the factorization, and of starts from vertices of the data if above four.
        The first run starts from the singular vectors of the pixels, the others at random.
        ``result`` has the best objective; the endmembers come from the start with the smallest
        error, where a later start must reduce the error by one percent to be selected. By default
        one run, as in `OrthogonalNMF`.
    random_state : Generator, int or None
        Random state of the starts; None means seed 0.
    memory_limit : int or str, optional
        Memory for blocks of the cube in bytes, or a string such as "512MB"; see
        `orthoplus.data.as_data`.
    **watch
        As in `solve`: ``callback, time_limit, resume, checkpoint, checkpoint_every, with_bound``.

    Returns
    -------
    Unmixing
        The endmembers, abundances and labels. For a two-dimensional cube, abundances have shape
        (n_pixels, k) and labels have shape (n_pixels,).

    Notes
    -----
    The factorization gives clusters of pixels. Their centers, and vertices of the data
    (`orthoplus.linalg.vertices.VertexSearch`), are starts. From each start, two steps alternate:
    all pixels get nonnegative fractions, and each endmember becomes the mean of the purest tenth of
    its pixels. The start whose endmembers explain the cube with the smallest error is selected, on
    a sample of 16,384 pixels if there are more. An inner step of the factorization costs O(nk^2)
    for n pixels, an update of the spectra O(n n_bands k), and the fractions about O(nk^3); a few
    matrices of n x k numbers are held in memory.

    Examples
    --------
    >>> soil, water = np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 0.0])
    >>> cube = np.array([[soil, soil, soil], [water, water, 0.25 * soil + 0.75 * water]])
    >>> found = unmix(cube, 2)
    >>> found.labels.shape, found.abundances.shape, found.endmembers.shape
    ((2, 3), (2, 3, 2), (2, 3))
    >>> found.abundances.sum(axis=-1).round(6).min()
    np.float64(1.0)
    """
    check_choice(fractions, "fractions", FRACTIONS)
    pixels, size, opened = read_pixels(cube, memory_limit)
    check_count(n_endmembers, "n_endmembers", low=1)
    if n_endmembers > len(pixels):
        raise InputError(
            f"`n_endmembers={n_endmembers}` exceeds the {len(pixels)} pixels of the cube: each "
            f"endmember needs a pixel. Use at most {len(pixels)}."
        )
    with_bound = watch.pop("with_bound", False)
    options = RunOptions(method=method, n_init=n_init, with_bound=with_bound, watch=watch)
    rng = as_generator(random_state, "random_state")
    (vertex_rng,) = rng.spawn(1)
    result, starts = _factorize(ONMF(pixels, n_endmembers), options, rng)
    E, chosen = choose_spectra(pixels, starts, vertex_rng, n_init)
    model = fitting_model(pixels, E) if fractions == "auto" else fractions
    said = () if fractions != "auto" else (_MODEL_NOTES[model],)
    F = pixels.gather(fractions_of_rows(pixels, E, model))
    labels = np.where(F.any(axis=1), F.argmax(axis=1), -1)
    brightness, fitted = _sizes(pixels, labels, E)
    # Sort the endmembers by the squares they explain, largest first.
    order = np.argsort(-fitted, kind="stable")
    labels = np.append(np.argsort(order), -1)[labels]  # keep the label -1
    return Unmixing(
        endmembers=opened.label(E[order], SPECTRA),
        abundances=opened.label(F[:, order].reshape(*size, n_endmembers), FRACTION_MAPS),
        labels=opened.label(labels.reshape(size), MAP),
        brightness=opened.label(brightness.reshape(size), MAP),
        model=model,
        result=dataclasses.replace(result, notes=(*result.notes, *opened.notes, chosen, *said)),
    )


_MODEL_NOTES = {
    "fcls": "Fractions are by fully constrained least squares: brightness is even enough.",
    "nnls": "Fractions are nonnegative least squares divided by their sum: brightness varies.",
}


def abundances(
    cube: Any,
    endmembers: npt.ArrayLike,
    *,
    fractions: str = "auto",
    memory_limit: int | str | None = None,
) -> FloatArray:
    """Return the fractions of known spectra in each pixel, nonnegative and summing to one.

    Parameters
    ----------
    cube : array of shape (h, w, n_bands) or (n_pixels, n_bands)
        As in `unmix`, of any storage.
    endmembers : array of shape (k, n_bands)
        Spectra in the units of the cube.
    fractions : {"auto", "fcls", "nnls"}
        As in `unmix`.
    memory_limit : int or str, optional
        As in `unmix`.

    Returns
    -------
    ndarray of shape (h, w, k) or (n_pixels, k)
        In float32 if the cube is. Pixels of zeros have zeros.

    Examples
    --------
    >>> soil, water = np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 0.0])
    >>> abundances([0.25 * soil + 0.75 * water], [soil, water])
    array([[0.25, 0.75]])
    """
    check_choice(fractions, "fractions", FRACTIONS)
    pixels, size, opened = read_pixels(cube, memory_limit)
    E = check_spectra(open_spectra(endmembers, opened.bands), "endmembers", pixels.shape[1])
    model = fitting_model(pixels, E) if fractions == "auto" else fractions
    found: FloatArray = pixels.gather(fractions_of_rows(pixels, E, model))
    labeled: FloatArray = opened.label(found.reshape(*size, len(E)), FRACTION_MAPS)
    return labeled


def _factorize(
    problem: ONMF, options: RunOptions, rng: np.random.Generator
) -> tuple[Result, list[FloatArray]]:
    """Return the factorization with the best objective, and the spectra of every run."""
    method, usual = choose_method(problem, options.method, max_iter=None, tol=None), []
    if starts_by_itself(method) and options.n_init is not None:
        # Such a method keeps only one of its starts, so add the result of its default as a
        # candidate.
        limit = {"time_limit": options.watch.get("time_limit")}
        default = dataclasses.replace(options, n_init=None, with_bound=False, watch=limit)
        usual = list(default.runs(problem, copy.deepcopy(rng)))
    runs = list(options.runs(problem, rng))
    k = problem.shape[1]
    return best_run(problem, runs), [_centers(run, k) for run in (*usual, *runs)]


def _centers(run: Result, k: int) -> FloatArray:
    """Return the spectra of a factorization, scaled to fit its pixels with factors of mean 1."""
    scale = _mean_weights(np.asarray(run.labels), np.asarray(run.weights), k)
    return np.asarray(scale[:, None] * np.asarray(run.Y).T, dtype=np.float64)


def _sizes(pixels: DataMatrix, labels: IntArray, E: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the best factor of its endmember for each pixel, and the squares they explain."""
    squares = np.einsum("jc,jc->j", E, E)
    dots = pixels.gather(pixels.group_dots(pixels.scatter(labels), E))
    # The factor b >= 0 that minimizes ||a - b e||^2; it explains b^2 ||e||^2 of the pixel.
    factors = np.maximum(dots, 0.0) / np.where(squares > 0.0, squares, 1.0)[labels]
    factors[labels < 0] = 0.0
    fitted = np.bincount(labels + 1, factors**2, minlength=len(E) + 1)[1:] * squares
    return factors.astype(pixels.dtype), fitted


def read_pixels(
    cube: Any, memory_limit: int | str | None
) -> tuple[DataMatrix, tuple[int, ...], Cube]:
    """Return the pixels as a nonnegative matrix, the size of the image, and the cube."""
    opened = open_cube(cube, in_blocks=memory_limit is not None)
    values = opened.values
    if reads_in_blocks(values, memory_limit):
        pixels = as_data(values, "cube", memory_limit=memory_limit, check=False)
        size = opened.size or tuple(values.shape[:-1])
    else:
        values = _check_cube(values)
        size = values.shape[:-1]
        pixels = as_data(values.reshape(-1, values.shape[-1]), "cube", check=False)
    if check_finite_and_range(pixels, "cube") >= 0.0:
        return pixels, size, opened
    n_negative = int(pixels.reduce_rows(ask("n_negative")))
    note = f"{n_negative} negative values of the cube were set to zero."
    return pixels.derive(ask("clipped")), size, opened._replace(notes=(*opened.notes, note))


def _mean_weights(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Return the mean entry of each column of X over its pixels; 1 for an empty column."""
    used = labels >= 0
    counts = np.bincount(labels[used], minlength=k)
    sums = np.bincount(labels[used], weights[used], minlength=k)
    return np.where(sums > 0, sums / np.maximum(counts, 1), 1.0)


def _check_cube(cube: Any) -> FloatArray:
    """Return a cube in memory as finite numbers."""
    check_not_foreign(cube, "cube")
    values = np.asarray(cube)
    if values.ndim not in (2, 3) or 0 in values.shape:
        raise InputError(
            f"`cube` has shape {values.shape}: an image (height, width, bands) or a matrix "
            f"(pixels, bands) is needed."
        )
    if values.dtype.kind not in "fiub":
        raise InputTypeError(f"`cube` has dtype {values.dtype}: real numbers are needed.")
    dtype = np.float32 if values.dtype == np.float32 else np.float64
    pixels: FloatArray = values.reshape(-1, values.shape[-1]).astype(dtype, copy=False)
    bad = ~np.isfinite(pixels).all(axis=1)
    if bad.any():
        first = np.unravel_index(int(bad.argmax()), values.shape[:-1])
        raise InputError(
            f"`cube` has {int(bad.sum())} pixels with NaN or infinite values, the first at "
            f"{tuple(int(i) for i in first)}. Omit them: pass `cube[good]`, a matrix of the "
            f"complete pixels."
        )
    return pixels.reshape(values.shape)
