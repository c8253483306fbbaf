"""How well each row fits its cluster, and which cluster is the second best."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.base import MemoryMatrix
from orthoplus.data.count_groups import log_profiles

# The share of the profile of all rows in each profile that counts are compared with: without it, a
# word that is new to the second best cluster would make every margin infinite.
SMOOTHING = 0.1


class RowFits(NamedTuple):
    """The multiple of its component for each row, their cosine, the second best, and the margin.

    A row of zeros has the weight 0, NaN for cosine and margin, and -1 as second best. With a single
    component, the second best is -1 and the margin NaN for every row.

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


def fit_rows(A: DataMatrix, labels: Any, H: FloatArray, sums: FloatArray | None = None) -> RowFits:
    r"""Compare rows, with the labels of their components, with all components H.

    The cosine of row i and component j is :math:`a_i^\top h_j / (\|a_i\| \|h_j\|)`, over the
    entries that were observed and in scaled columns, if there are any. The margin is the cosine
    with the own component minus the largest one with another. For the Kullback-Leibler divergence
    it is the difference of :math:`\sum_l a_{il} \log p_{jl} / \sum_l a_{il}`, the log-likelihood
    per count, with profiles p that are mixed with a tenth of that of all rows: ``sums`` are those
    of the rows of each cluster, and None for the Frobenius loss.
    """
    logs = None if sums is None else log_profiles(sums, SMOOTHING)
    args = (H.astype(np.float64), logs, A.has_gaps)
    found = A.map_rows(_fit_rows, A.scatter(labels), args=args, n_vectors=4)
    return RowFits(*(A.gather(vector) for vector in found))


def group_sums(H: FloatArray, labels: IntArray, weights: FloatArray) -> FloatArray:
    """Return the sum of the rows of each cluster, from a fit of counts without the counts.

    The divergence fits row i of cluster j by x_i h_j, with the sum of the row; so that the x_i of
    a cluster times h_j have its sum, and at the best h_j also the sum of each column.
    """
    used = labels >= 0
    totals = np.bincount(labels[used], weights[used], minlength=len(H))
    return np.asarray(totals[:, None] * H.astype(np.float64))


def _fit_rows(
    A: MemoryMatrix, labels: IntArray, H: FloatArray, logs: FloatArray | None, has_gaps: bool
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """Return the four vectors of `RowFits` for a block, in parts of its rows."""
    weights, cosines, margins = (np.full(len(A), fill) for fill in (0.0, np.nan, np.nan))
    second_best = np.full(len(A), -1, dtype=np.int64)
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
        weights[part][rows] = np.maximum(multiples[rows, own], 0.0)
        cosines[part][rows] = alike[rows, own]
        if len(H) > 1:
            others = measure[rows]
            mine = others[np.arange(len(rows)), own]
            others[np.arange(len(rows)), own] = -np.inf
            second_best[part][rows] = others.argmax(axis=1)
            margins[part][rows] = mine - others.max(axis=1)
    return weights, cosines, second_best, margins


def _compare(block: Any, H: FloatArray, has_gaps: bool) -> tuple[FloatArray, FloatArray]:
    """Return the best multiple of each component for each row, and the cosines, both n x k."""
    scores = np.asarray(block.matmul(H.T), dtype=np.float64)
    sizes = block.observed_sizes(H) if has_gaps else np.einsum("jl,jl->j", H, H)[None]
    norms = np.sqrt(np.asarray(block.row_squares(), dtype=np.float64))[:, None]
    # A row that shows nothing of a component fits it not at all.
    multiples = np.where(sizes > 0, scores / _positive(sizes), 0.0)
    cosines = multiples * np.sqrt(sizes) / _positive(norms)
    return multiples, np.clip(cosines, -1.0, 1.0)


def _positive(sizes: FloatArray) -> FloatArray:
    return np.where(sizes > 0, sizes, 1.0)
