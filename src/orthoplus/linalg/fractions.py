"""Fractions of known spectra in each row: least squares under the constraints of mixtures."""

from typing import Any

import numpy as np

from orthoplus import kernels
from orthoplus.core.checks import check_choice, check_entry_size, check_finite
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.foreign import check_not_foreign
from orthoplus.core.types import ROUNDOFF, FloatArray
from orthoplus.data import DataMatrix, MemoryMatrix, as_data

MODELS = ("fcls", "nnls")
# "fcls" is chosen if its error is at most this many times that of "nnls".
_SUM_TO_ONE = 1.5


def fit_fractions(A: Any, spectra: FloatArray, model: str = "fcls") -> Any:
    r"""Compute the least-squares fractions of the spectra :math:`e_1, \dots, e_k` in each row.

    .. math:: \text{fcls:}\; \min_f \|a_i - E^\top f\|^2 \;\text{s.t.}\; f \ge 0,\ e^\top f = 1,
              \qquad
              \text{nnls:}\; f = c / e^\top c,\; c = \arg\min_{c \ge 0} \|a_i - E^\top c\|^2.

    Parameters
    ----------
    A : array-like or DataMatrix of shape (n, r)
        Data in any storage; read once, in blocks.
    spectra : ndarray of shape (k, r)
        The matrix E with one spectrum per row.
    model : {"fcls", "nnls"}
        "fcls" is fully constrained least squares, which explains a dark row by other materials.
        "nnls" is nonnegative least squares with coefficients divided by their sum, which allows a
        row to be brighter or darker by any factor.

    Returns
    -------
    fractions : ndarray of shape (n, k)
        Nonnegative, in the dtype of A; each row sums to one. The fractions of a zero row are zero,
        as are those of a row that no nonnegative combination of the spectra approximates better
        than zero ("nnls"). For a Dask array the result is a vector of its `map_rows`.

    Notes
    -----
    The model is due to Heinz and Chang, IEEE TGRS 39 (2001). The solver is the active-set method of
    Lawson and Hanson, with the equality eliminated by its multiplier; it is exact to rounding. If
    the sum is fixed, shifting rows and spectra by a common vector and adding a constant to the Gram
    matrix do not change the minimizer. Both are done, so that the spectra need only be affinely
    independent; if they are not, the fractions are one of several minimizers. The cost is O(nrk)
    for the products and about O(k^3) per row.

    Examples
    --------
    >>> E = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
    >>> fit_fractions([[0.25, 1.5, 0.25], [4.0, 0.0, 4.0]], E)
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    >>> fit_fractions([[0.5, 3.0, 0.5]], E, "nnls")
    array([[0.25, 0.75]])
    """
    check_choice(model, "model", MODELS)
    data = as_data(A)
    return fractions_of_rows(data, check_spectra(spectra, "spectra", data.shape[1]), model)


def check_spectra(spectra: Any, name: str, n_bands: int) -> FloatArray:
    """Return the spectra as a finite matrix with this many columns."""
    check_not_foreign(spectra, name)
    if hasattr(spectra, "toarray"):
        spectra = spectra.toarray()
    E = np.asarray(spectra)
    if E.dtype.kind not in "fiub":
        raise InputTypeError(f"`{name}` has dtype {E.dtype}: real numbers are needed.")
    E = E.astype(np.float64, copy=False)
    if E.ndim != 2 or 0 in E.shape or E.shape[1] != n_bands:
        raise InputError(
            f"`{name}` has shape {E.shape}: one spectrum of {n_bands} bands per row is needed."
        )
    check_finite(E, name)
    check_entry_size(float(np.abs(E).max()), E.dtype, name)
    return E


def fractions_of_rows(A: DataMatrix, E: FloatArray, model: str) -> Any:
    """Compute `fit_fractions` for checked data, as a vector of A."""
    return A.map_rows(fractions_of_block, args=(E, model))


def fractions_of_block(block: MemoryMatrix, E: FloatArray, model: str) -> FloatArray:
    """Return the fractions in the rows of a block in memory."""
    out = np.empty((block.shape[0], len(E)), dtype=block.dtype)
    for rows in block.ranges(len(E)):
        part = block.rows(rows)
        if model == "fcls":
            found = on_simplex(part.matmul, E)
            found[np.asarray(part.row_squares()) == 0.0] = 0.0
        else:
            found = normalized_rows(on_orthant(part.matmul, E))
        out[rows] = found
    return out


def fitting_model(A: DataMatrix, E: FloatArray) -> str:
    """Return "fcls" if its error is at most 1.5 times that of "nnls", else "nnls".

    If all pixels have the same brightness, the sums are one up to noise and fixing them hardly
    increases the error; if the brightness varies, fully constrained least squares fits badly.
    """
    free, fixed = mixture_errors(A, E)
    return "fcls" if fixed <= _SUM_TO_ONE * free + rounding_error(A) else "nnls"


def mixture_errors(A: DataMatrix, E: FloatArray) -> tuple[float, float]:
    """Return ||A - FE|| / ||A|| for the best F >= 0, and for the best F whose rows sum to one."""
    free, fixed, total = A.reduce_rows(_missed_squares, args=(E,))
    size = float(total) or 1.0
    return float(np.sqrt(max(free, 0.0) / size)), float(np.sqrt(max(fixed, 0.0) / size))


def rounding_error(A: DataMatrix) -> float:
    """Return the relative error below which `mixture_errors` is only rounding."""
    return 4.0 * float(np.sqrt(ROUNDOFF[np.dtype(A.dtype)]))


def _missed_squares(block: MemoryMatrix, E: FloatArray) -> tuple[float, float, float]:
    free, fixed, total, G = 0.0, 0.0, 0.0, E @ E.T
    for part in block.slices(len(E)):
        squares, B = np.asarray(part.row_squares()), part.matmul(E.T).astype(np.float64)
        is_lit = squares > 0.0
        total += float(squares.sum())
        for fit in (on_orthant, on_simplex):
            F = fit(part.matmul, E).astype(np.float64)[is_lit]
            missed = squares[is_lit] - np.einsum("ij,ij->i", 2.0 * B[is_lit] - F @ G, F)
            if fit is on_orthant:
                free += float(missed.sum())
            else:
                fixed += float(missed.sum())
    return free, fixed, total


def on_simplex(matmul: Any, E: FloatArray) -> FloatArray:
    """Return argmin ||a_i - E'f|| over the unit simplex; ``matmul(Y)`` is AY."""
    middle = E.mean(axis=0)
    D = E - middle
    G = D @ D.T
    # G = DD' is singular, since the rows of D sum to zero. Adding a multiple of ee' makes it
    # definite and only adds a constant on the simplex, where f'ee'f = 1.
    shift = float(np.trace(G)) / len(E) or 1.0
    B = matmul(D.T) - (D @ middle - shift).astype(np.float64)
    return kernels.constrained_fractions(G + shift, B, True)


def on_orthant(matmul: Any, E: FloatArray) -> FloatArray:
    """Return argmin ||a_i - E'c|| over c >= 0; ``matmul(Y)`` is AY."""
    return kernels.constrained_fractions(E @ E.T, matmul(E.T), False)


def normalized_rows(C: FloatArray) -> FloatArray:
    """Divide nonnegative rows by their sums; zero rows stay zero."""
    sums = C.sum(axis=1, keepdims=True)
    return np.asarray(C / np.where(sums > 0.0, sums, 1.0))
