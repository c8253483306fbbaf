r"""Orthogonal NMF of data with missing entries: only what was observed counts.

.. math:: \min_{X \in S_+,\, H} \sum_{(i, l)\ \text{observed}} (a_{il} - (XH)_{il})^2.

A matrix with NaN for what is missing is kept as two: ``values`` with zeros in their place, and
``seen``, 1 where an entry was observed and 0 elsewhere.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.groups import best_column, group_sums
from orthoplus.problems import ONMF

# Rounds of the alternation, and the share of the value that ends it when no more is gained.
_MAX_ROUNDS = 1000
_GAIN = 1e-12
# How often the gaps are filled and the search begins anew, and the share that is worth it.
_MAX_FILLS = 8
_FILL_GAIN = 1e-6


class Observed(NamedTuple):
    """Data with missing entries, without NaN."""

    values: FloatArray
    seen: FloatArray


class ObservedFit(NamedTuple):
    """Row i is ``weights[i]`` times the component ``labels[i]``; the value is what is missed."""

    labels: IntArray
    weights: FloatArray
    components: FloatArray
    value: float


def observe(A: FloatArray) -> Observed:
    """A split into its values, 0 where it is NaN, and where they are.

    Examples
    --------
    >>> observe(np.array([[1.0, np.nan]]))
    Observed(values=array([[1., 0.]]), seen=array([[1., 0.]]))
    """
    seen = ~np.isnan(A)
    return Observed(np.where(seen, A, A.dtype.type(0)), seen.astype(A.dtype))


def coefficients(data: Observed, H: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""The best multiple of each component for each row, over what was observed of it; and its fit.

    .. math:: w_{ij} = \langle a_i, h_j \rangle / \|h_j\|^2, \qquad
              f_{ij} = \langle a_i, h_j \rangle / \|h_j\|.

    :math:`f_{ij}^2` is what the multiple explains of the row where it is positive; both are 0 where
    nothing was observed, or only where :math:`h_j` is 0. O(nrk).
    """
    scores = np.asarray(data.values @ H.T)
    sizes = np.asarray(data.seen @ (H * H).T)
    weights = np.divide(scores, sizes, out=np.zeros_like(scores), where=sizes > 0)
    return weights, weights * np.sqrt(sizes)


def assign(data: Observed, H: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """The best component of each row, its multiple and its fit there, both at least 0."""
    weights, fits = coefficients(data, H)
    labels = best_column(fits)
    rows = np.arange(len(labels))
    return labels, np.maximum(weights[rows, labels], 0.0), np.maximum(fits[rows, labels], 0.0)


def alternate_observed(data: Observed, H: FloatArray) -> ObservedFit:
    """Best component and multiple of each row, best components, in turn, until nothing is gained.

    Both steps are exact, so that the value never rises. An entry of a component that none of its
    rows shows stays as it is; a component without rows takes the row that is missed most.
    """
    squares = np.einsum("ij,ij->i", data.values, data.values, dtype=np.float64)
    best: ObservedFit | None = None
    for _ in range(_MAX_ROUNDS):
        labels, weights, fits = assign(data, H)
        missed = np.maximum(squares - fits.astype(np.float64) ** 2, 0.0)
        H, labels, weights = _fill_empty(data, H, labels, weights, missed)
        value = float(missed.sum())
        if best is not None and value >= best.value * (1.0 - _GAIN):
            return best
        best = ObservedFit(labels, weights, H, value)
        H = renew_components(data, labels, weights, H)
    assert best is not None
    return best


def renew_components(
    data: Observed, labels: IntArray, weights: FloatArray, H: FloatArray
) -> FloatArray:
    r""":math:`h_{jl} = \sum_i x_i a_{il} / \sum_i x_i^2` over the rows i of j that show l."""
    above = group_sums(data.values, labels, weights, len(H))
    below = group_sums(data.seen, labels, weights * weights, len(H))
    return np.divide(above, below, out=H.astype(np.float64), where=below > 0).astype(H.dtype)


def factorise_observed(
    data: Observed, k: int, *, allow_negative: bool, run: Callable[[ONMF], Result]
) -> Result:
    """Fill the gaps with the model, factorise, settle on what was observed, while that gains.

    The first model has one component. ``run`` factorises matrices without gaps. The result's value
    is what is missed of the observed entries; no bound is known.
    """
    mean = data.values.sum(axis=0) / np.maximum(data.seen.sum(axis=0), 1)
    fit, best = alternate_observed(data, mean[None, :]), None
    for _ in range(_MAX_FILLS):
        result = run(ONMF(_filled(data, fit), k, allow_negative=allow_negative))
        fit = alternate_observed(data, np.asarray(result.Y).T)
        if best is not None and fit.value >= best[0].value * (1.0 - _FILL_GAIN):
            break
        best = fit, result
    assert best is not None
    return _as_result(*best)


def _filled(data: Observed, fit: ObservedFit) -> FloatArray:
    model = fit.weights[:, None] * fit.components[fit.labels]
    return np.where(data.seen > 0, data.values, model)


def _as_result(fit: ObservedFit, result: Result) -> Result:
    """The fit with a factor of unit columns."""
    k = len(fit.components)
    weights = fit.weights.astype(np.float64)
    sizes = np.sqrt(np.bincount(fit.labels, weights * weights, minlength=k))
    scales = np.where(sizes > 0, sizes, 1.0)
    return dataclasses.replace(
        result,
        labels=np.where(weights > 0, fit.labels, -1),
        weights=(weights / scales[fit.labels]).astype(fit.weights.dtype),
        Y=(fit.components * scales[:, None]).T.astype(fit.components.dtype),
        value=fit.value,
        stationarity=np.nan,
        bound=None,
        gap=None,
    )


def _fill_empty(
    data: Observed, H: FloatArray, labels: IntArray, weights: FloatArray, missed: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray]:
    """No component without a positive multiple: it becomes the row that is missed most.

    ``missed`` of that row becomes 0, in place.
    """
    counts = np.bincount(labels[weights > 0], minlength=len(H))
    if counts.all():
        return H, labels, weights
    H, labels, weights = H.copy(), labels.copy(), weights.copy()
    for column in np.flatnonzero(counts == 0):
        is_spare = (weights <= 0) | (counts[labels] > 1)
        row = int(np.where(is_spare, missed, -1.0).argmax())
        counts[labels[row]] -= weights[row] > 0
        H[column] = np.where(data.seen[row] > 0, data.values[row], H[column])
        labels[row], weights[row], missed[row], counts[column] = column, 1.0, 0.0, 1
    return H, labels, weights
