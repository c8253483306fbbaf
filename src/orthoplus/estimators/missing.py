r"""Orthogonal NMF of data with missing entries: only observed entries count.

.. math:: \min_{X \in S_+,\, H} \sum_{(i, l)\ \text{observed}} (a_{il} - (XH)_{il})^2.

The data may be in any storage, see `orthoplus.data.observed`; the labels and weights of the n rows
are held in this process.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.point import SupportPoint
from orthoplus.core.result import Result
from orthoplus.core.status import STATIONARITY_TOL, Status
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix, as_nonnegative_data
from orthoplus.data.base import ask
from orthoplus.data.groups import best_column
from orthoplus.problems import ONMF

# Maximum number of rounds of the alternation, and the relative gain below which it ends.
_MAX_ROUNDS = 1000
_GAIN = 1e-12
# The first model fills in the missing entries only once: an approximate fit is enough.
_ROUGH_GAIN = 1e-4
# Maximum number of times the missing entries are filled in, and the relative gain below which this
# ends.
_MAX_FILLS = 8
_FILL_GAIN = 1e-6


class ObservedFit(NamedTuple):
    """Hold a fit of row i by ``weights[i]`` times component ``labels[i]``; value: residual."""

    labels: IntArray
    weights: FloatArray
    components: FloatArray
    value: float


def coefficients(block: Any, H: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Return the best multiple of each component for each row over observed entries, and its fit.

    .. math:: w_{ij} = \langle a_i, h_j \rangle / \|h_j\|^2, \qquad
              f_{ij} = \langle a_i, h_j \rangle / \|h_j\|.

    If the multiple is positive, it explains :math:`f_{ij}^2` of the row. Both are 0 if :math:`h_j`
    vanishes on the observed entries. The cost is O(nrk).
    """
    scores, sizes = block.matmul(H.T), block.observed_sizes(H)
    weights = np.divide(scores, sizes, out=np.zeros_like(scores), where=sizes > 0)
    return weights, weights * np.sqrt(sizes)


def multiples(block: Any, H: FloatArray) -> FloatArray:
    """Return only the multiples of `coefficients`."""
    return coefficients(block, H)[0]


def assign(block: Any, H: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the best component of each row, its nonnegative multiple, and its fit."""
    weights, fits = coefficients(block, H)
    labels = best_column(fits)
    rows = np.arange(len(labels))
    return labels, np.maximum(weights[rows, labels], 0.0), np.maximum(fits[rows, labels], 0.0)


def alternate_observed(data: DataMatrix, H: FloatArray, gain: float = _GAIN) -> ObservedFit:
    """Alternate between the labels of the rows and the components until the gain is negligible.

    The alternation ends if a round lowers the value by less than the share ``gain`` of it.

    Both steps are exact, so that the value never increases. An entry of a component that is not
    observed in any of its rows is unchanged; a component without rows takes the row with the
    largest residual.
    """
    squares = data.gather(data.row_squares())
    best: ObservedFit | None = None
    for _ in range(_MAX_ROUNDS):
        found = data.map_rows(assign, args=(H,), n_vectors=3)
        labels, weights, fits = (data.gather(vector) for vector in found)
        missed = np.maximum(squares - fits.astype(np.float64) ** 2, 0.0)
        H, labels, weights = _fill_empty(data, H, labels, weights, missed)
        value = float(missed.sum())
        if best is not None and value >= best.value * (1.0 - gain):
            return best
        best = ObservedFit(labels, weights, H, value)
        # Least squares for each component over the observed entries of its rows.
        H = renew_components(data, labels, weights, H)
    assert best is not None
    return best


def renew_components(
    data: DataMatrix, labels: IntArray, weights: FloatArray, H: FloatArray
) -> FloatArray:
    r"""Return :math:`h_{jl} = \sum_i x_i a_{il} / \sum_i x_i^2` over rows i of j observed at l."""
    own = data.scatter(labels), data.scatter(weights)
    above, below = data.reduce_rows(_observed_sums, *own, args=(len(H),))
    return np.divide(above, below, out=H.astype(np.float64), where=below > 0).astype(H.dtype)


def _observed_sums(
    block: Any, labels: IntArray, weights: FloatArray, k: int
) -> tuple[FloatArray, FloatArray]:
    return block.group_sums(labels, weights, k), block.observed_squares(labels, weights, k)


def factorize_observed(
    data: DataMatrix, k: int, *, allow_negative: bool, run: Callable[[ONMF], Result]
) -> Result:
    """Repeatedly fill in missing entries by the model, factorize, and fit the observed ones.

    The first model has one component. ``run`` factorizes matrices without missing entries. The
    value of the result is the residual on the observed entries; no bound is known.
    """
    if not allow_negative:
        as_nonnegative_data(data)  # before any work, not when the first filled matrix is checked
    sums, n_seen = data.reduce_rows(_column_sums)
    mean = (sums / np.maximum(n_seen, 1)).astype(data.dtype)
    fit, best = alternate_observed(data, mean[None, :], _ROUGH_GAIN), None
    for _ in range(_MAX_FILLS):
        own = data.scatter(fit.labels), data.scatter(fit.weights)
        filled = data.derive(ask("filled"), *own, args=(fit.components,))
        result = run(ONMF(filled, k, allow_negative=allow_negative))
        fit = alternate_observed(data, np.asarray(result.Y).T)
        if best is not None and fit.value >= best[0].value * (1.0 - _FILL_GAIN):
            break
        best = fit, result
    assert best is not None
    return _as_result(data, *best)


def _column_sums(block: Any) -> tuple[FloatArray, FloatArray]:
    return block.column_sums(), block.n_seen()


def _as_result(data: DataMatrix, fit: ObservedFit, result: Result) -> Result:
    """Return the fit as a result whose factor has unit columns."""
    k, weights = len(fit.components), fit.weights.astype(np.float64)
    labels = np.where(weights > 0, fit.labels, -1)
    # XH = (X S^-1)(S H): the norms S of the columns of X move to the components.
    sizes = np.sqrt(SupportPoint(labels, weights, k).column_squares())
    scales = np.where(sizes > 0, sizes, 1.0)
    weights = (weights / scales[fit.labels]).astype(fit.weights.dtype)
    H = (fit.components * scales[:, None]).astype(fit.components.dtype)
    residual, size = _stationarity(data, fit.labels, weights, H)
    own = data.scatter(fit.labels), data.scatter(weights)
    # The run has solved a filled matrix; whether it converged is decided by the observed entries.
    is_doubtful = result.status is Status.CONVERGED and residual > STATIONARITY_TOL * size
    return dataclasses.replace(
        result,
        point=data.point(data.scatter(labels), data.scatter(weights), k),
        Y=H.T,
        # The value of the fit is a difference of squares, with the rounding of the data's dtype.
        value=data.derive(ask("filled"), *own, args=(H,)).missed_squares(*own, H),
        stationarity=residual,
        status=Status.FEASIBLE if is_doubtful else result.status,
        bound=None,
        gap=None,
        is_row_optimal=None,
    )


def _stationarity(
    data: DataMatrix, labels: IntArray, weights: FloatArray, H: FloatArray
) -> tuple[float, float]:
    """Return the residual of (2.6) for the loss minimized over H, and the size of a gradient.

    That is the gradient at X = 0 with these components: at X itself it may consist of rounding
    errors.
    """
    H = renew_components(data, labels, weights, H)
    own = data.scatter(labels), data.scatter(weights)
    found = data.map_rows(_gradients, *own, args=(H,), n_vectors=3)
    slopes, below, squares = (data.gather(part).astype(np.float64) for part in found)
    x = weights.astype(np.float64)
    along = np.bincount(labels, x * slopes, minlength=len(H))  # x_j'g_j
    residuals = np.where(x > 0, (slopes - x * along[labels]) ** 2, below)
    return float(np.sqrt(residuals.sum())), float(np.sqrt(squares.sum()))


def _gradients(
    block: Any, labels: IntArray, weights: FloatArray, H: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the own entry of the gradient, the squares of negative ones, and those at X = 0."""
    # Filled entries have no residual: what is left are the sums over the observed ones.
    filled = block.filled(labels, weights, H)
    G = 2.0 * (weights[:, None] * (H @ H.T)[labels] - filled.matmul(H.T))
    below, first = np.minimum(G, 0.0), 2.0 * block.matmul(H.T)
    return G[np.arange(len(G)), labels], (below**2).sum(axis=1), (first**2).sum(axis=1)


def _fill_empty(
    data: DataMatrix, H: FloatArray, labels: IntArray, weights: FloatArray, missed: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Give each component without a positive multiple the row with the largest residual.

    ``missed`` of that row is set to 0, in place.
    """
    counts = np.bincount(labels[weights > 0], minlength=len(H))
    if counts.all():
        return H, labels, weights
    H, labels, weights = H.copy(), labels.copy(), weights.copy()
    for column in np.flatnonzero(counts == 0):
        # A row may be taken if its own component keeps another one.
        is_spare = (weights <= 0) | (counts[labels] > 1)
        row = int(np.where(is_spare, missed, -1.0).argmax())
        counts[labels[row]] -= weights[row] > 0
        own: Any = data.sample_rows(np.array([row]))
        H[column] = own.replaced(H[column])
        labels[row], weights[row], missed[row], counts[column] = column, 1.0, 0.0, 1
    return H, labels, weights
