"""Detect counts: integers that vary more than those of one Poisson distribution."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from orthoplus.core.types import FloatArray
from orthoplus.data.base import DataMatrix
from orthoplus.data.memory import MemoryMatrix

# Integers with at least this fraction of zeros are taken for counts of words or reads.
_SHARE_OF_ZEROS = 0.5


class CountFacts(NamedTuple):
    """Facts about counts: whether data are counts, and how much they vary.

    Attributes
    ----------
    are_counts : bool
        Whether all entries are nonnegative integers, most of them 0 and some above 1.
    dispersion : float
        Sum of the variances of the columns divided by the sum of their means. It is 1 for a Poisson
        distribution per column, larger if rows differ, and 0 if all data are zero.
    """

    are_counts: bool
    dispersion: float


def count_facts(A: DataMatrix) -> CountFacts:
    """Return whether the data are counts, and how much they vary, in one pass over them.

    Examples
    --------
    >>> from orthoplus.data import as_data
    >>> count_facts(as_data([[0, 3, 0], [0, 0, 1]]))
    CountFacts(are_counts=True, dispersion=1.25)
    >>> count_facts(as_data(np.eye(3))).are_counts
    False
    """
    n_other, n_positive, n_large, sums, squares = A.reduce_rows(_tally)
    n, r = A.shape
    is_sparse = 0 < n_positive <= (1.0 - _SHARE_OF_ZEROS) * n * r
    total = float(sums.sum())
    variance = float((squares / n - (sums / n) ** 2).sum())
    dispersion = variance / (total / n) if total > 0 else 0.0
    return CountFacts(bool(n_other == 0 and n_large > 0 and is_sparse), dispersion)


def _tally(block: MemoryMatrix) -> tuple[int, int, int, FloatArray, FloatArray]:
    """Return the numbers of entries that are not counts, above 0 and above 1, and column sums."""
    values = block.entries()
    stored = values.data if issparse(values) else values
    n_other = int(np.count_nonzero((stored < 0) | (stored != np.floor(stored))))
    if issparse(values):
        data, width = stored.astype(np.float64), block.shape[1]
        sums = np.bincount(values.indices, data, minlength=width).astype(np.float64)
        squares = np.bincount(values.indices, data * data, minlength=width).astype(np.float64)
    else:
        sums = stored.sum(axis=0, dtype=np.float64)
        squares = np.einsum("ij,ij->j", stored, stored, dtype=np.float64)
    return n_other, int((stored > 0).sum()), int((stored > 1).sum()), sums, squares
