"""How well each row fits its cluster, and which cluster is second best."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.data.base import DataMatrix
from orthoplus.data.count_groups import SMOOTHING, log_profiles
from orthoplus.data.memory import MemoryMatrix

# A row is doubtful if a second component explains at least this share of what its own explains,
# and leaves at most this many times as much unexplained. The first condition alone would call
# most rows of dense data doubtful (all cosines are large), the second those of sparse data.
_SHARE_EXPLAINED, _TIMES_UNEXPLAINED = 0.8, 1.1
# Tolerance for the rounding of cosines of identical components.
_ROUNDING = 1e-12


class RowFits(NamedTuple):
    """Hold the fit of each row: weight, cosine, second-best component, and margin.

    A row of zeros has weight 0, cosine and margin NaN, and second best -1. With a single component,
    the second best is -1 and the margin is NaN for every row. A row is doubtful if the second-best
    component fits it almost as well as its own.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[2.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    >>> op.OrthogonalNMF(2).fit(A).row_fits(A).margins
    array([1., 1., 1.])
    """

    weights: FloatArray
    cosines: FloatArray
    second_best: IntArray
    margins: FloatArray
    second_cosines: FloatArray
    is_doubtful: BoolArray

    def doubtful(self) -> IntArray:
        """Return the doubtful rows, sorted by increasing margin."""
        rows = np.flatnonzero(self.is_doubtful)
        return rows[np.argsort(self.margins[rows], kind="stable")]

    def rows(self, which: IntArray) -> "RowFits":
        """Return the fits of a subset of the rows."""
        vectors: list[Any] = [vector[which] for vector in self]
        return RowFits(*vectors)


def fit_rows(A: DataMatrix, labels: Any, H: FloatArray, sums: FloatArray | None = None) -> RowFits:
    r"""Compare each row with its own and all other components H.

    The cosine of row i and component j is :math:`a_i^\top h_j / (\|a_i\| \|h_j\|)`, over the
    observed entries and in scaled columns, if any. The margin is the cosine with the own component
    minus the largest cosine with another one. For the Kullback-Leibler divergence, it is the
    difference of :math:`\sum_l a_{il} \log p_{jl} / \sum_l a_{il}`, the log-likelihood per count,
    with profiles p that contain a tenth of the overall profile. ``sums`` holds the sums of the rows
    of each cluster, or is None for the Frobenius loss.

    Examples
    --------
    >>> from orthoplus.data import as_data
    >>> A = as_data(np.array([[4.0, 0.0], [0.0, 5.0], [3.0, 2.9]]))
    >>> fit_rows(A, np.array([0, 1, 0]), np.eye(2)).is_doubtful
    array([False, False,  True])
    """
    logs = None
    if sums is not None:
        # Log-likelihoods relative to the overall profile.
        logs = log_profiles(sums, SMOOTHING) - log_profiles(sums.sum(axis=0, keepdims=True))
    args = (H.astype(np.float64), logs, A.has_gaps)
    found = A.map_rows(_fit_rows, A.scatter(labels), args=args, n_vectors=len(RowFits._fields))
    return RowFits(*(A.gather(vector) for vector in found))


def group_sums(H: FloatArray, labels: IntArray, weights: FloatArray) -> FloatArray:
    """Return the sum of the rows of each cluster from a fit of counts, without the counts.

    The fit x_i h_j of row i in cluster j preserves the sum of the row. At the optimal h_j, the fits
    of a cluster also preserve the sum of each column.
    """
    used = labels >= 0
    totals = np.bincount(labels[used], weights[used], minlength=len(H))
    return np.asarray(totals[:, None] * H.astype(np.float64))


def _fit_rows(
    A: MemoryMatrix, labels: IntArray, H: FloatArray, logs: FloatArray | None, has_gaps: bool
) -> RowFits:
    """Return `RowFits` for a block, computed for a few rows at a time."""
    found = RowFits(
        weights=np.zeros(len(A)),
        cosines=np.full(len(A), np.nan),
        second_best=np.full(len(A), -1, dtype=np.int64),
        margins=np.full(len(A), np.nan),
        second_cosines=np.zeros(len(A)),
        is_doubtful=np.zeros(len(A), dtype=bool),
    )
    for part in A.ranges(len(H)):
        own = labels[part]
        block, rows = A.rows(part), np.flatnonzero(own >= 0)
        own = own[rows]
        multiples, alike = _compare(block, H, has_gaps)
        measure = alike
        if logs is not None:
            sums = np.asarray(block.row_sums(), dtype=np.float64)[:, None]
            multiples = sums / _positive(H.sum(axis=1))
            measure = np.asarray(block.matmul(logs.T), dtype=np.float64) / _positive(sums)
        found.weights[part][rows] = np.maximum(multiples[rows, own], 0.0)
        found.cosines[part][rows] = alike[rows, own]
        if len(H) > 1:
            others = measure[rows]
            mine = others[np.arange(len(rows)), own]
            # Exclude the own component to find the second best.
            others[np.arange(len(rows)), own] = -np.inf
            second, best = others.argmax(axis=1), others.max(axis=1)
            found.second_best[part][rows] = second
            found.margins[part][rows] = mine - best
            found.second_cosines[part][rows] = alike[rows, second]
            found.is_doubtful[part][rows] = _is_doubtful(mine, best, is_counts=logs is not None)
    return found


def _is_doubtful(own: FloatArray, other: FloatArray, *, is_counts: bool) -> BoolArray:
    """Return whether a second component fits almost as well, by log-likelihoods or cosines."""
    if is_counts:
        return np.asarray(other >= _SHARE_EXPLAINED * own)
    own, other = own**2, other**2
    leaves_little = 1.0 - other <= _TIMES_UNEXPLAINED * (1.0 - own) + _ROUNDING
    return np.asarray((other >= _SHARE_EXPLAINED * own) & leaves_little)


def _compare(block: Any, H: FloatArray, has_gaps: bool) -> tuple[FloatArray, FloatArray]:
    """Return the n x k best multiples of the components for each row, and the cosines."""
    scores = np.asarray(block.matmul(H.T), dtype=np.float64)
    sizes = block.observed_sizes(H) if has_gaps else np.einsum("jl,jl->j", H, H)[None]
    norms = np.sqrt(np.asarray(block.row_squares(), dtype=np.float64))[:, None]
    # A row without observed entries in a component does not fit it at all.
    multiples = np.where(sizes > 0, scores / _positive(sizes), 0.0)
    cosines = multiples * np.sqrt(sizes) / _positive(norms)
    return multiples, np.clip(cosines, -1.0, 1.0)


def _positive(sizes: FloatArray) -> FloatArray:
    return np.where(sizes > 0, sizes, 1.0)
