"""Statistics of the columns over the observed entries, and scaling of the columns."""

import numpy as np
from scipy.sparse import issparse

from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.data.base import DataMatrix, ask
from orthoplus.data.memory import MemoryMatrix
from orthoplus.data.observed import ObservedDense, ObservedSparse

# A column whose standard deviation is below this fraction of its mean counts as constant.
_CONSTANT = 1e-12
# Number of dense entries processed at a time: few enough to stay in the cache.
_SIZES_AT_ONCE = 1 << 15


def scale_columns(A: DataMatrix, factors: FloatArray) -> DataMatrix:
    """Return the matrix with each column multiplied by its factor; missing entries stay missing.

    Examples
    --------
    >>> from orthoplus.data import as_data
    >>> scale_columns(as_data([[1.0, 2.0]]), np.array([3.0, 0.5])).to_dense()
    array([[3., 1.]])
    """
    scaled = A.derive(ask("scaled_columns"), args=(factors,))
    scaled.has_gaps = A.has_gaps
    return scaled


def column_deviations(A: DataMatrix, weights: FloatArray) -> FloatArray:
    """Return the standard deviation of each column, 0 for a constant one.

    A row of weight 2 counts as two rows. This takes two passes over A.

    Examples
    --------
    >>> from orthoplus.data import as_data
    >>> column_deviations(as_data([[1.0, 2.0], [3.0, 2.0]]), np.ones(2))
    array([1., 0.])
    """
    own = A.scatter(weights)
    sums, n_seen = A.reduce_rows(_moments, own, args=(np.zeros(A.shape[1]), 1))
    n_seen = np.where(n_seen > 0, n_seen, 1.0)
    mean = sums / n_seen
    squares, _ = A.reduce_rows(_moments, own, args=(mean, 2))
    deviations = np.sqrt(squares / n_seen)
    return np.where(deviations > _CONSTANT * np.abs(mean), deviations, 0.0)


def column_peaks(A: DataMatrix, weights: FloatArray) -> FloatArray:
    """Return the largest absolute value of each column over the rows of positive weight."""
    used = A.scatter((weights > 0).astype(A.dtype))
    return np.asarray(A.reduce_rows(_peaks, used, combine=np.maximum))


def column_sizes(A: DataMatrix) -> FloatArray:
    """Return the mean absolute value of the nonzero entries of each column.

    It is 0 for a zero column. This takes one pass over A.

    Examples
    --------
    >>> from orthoplus.data import as_data
    >>> column_sizes(as_data([[1.0, 0.0], [3.0, 0.0], [0.0, 0.0]]))
    array([2., 0.])
    """
    sums, counts = A.reduce_rows(_sizes)
    return np.asarray(sums / np.maximum(counts, 1.0))


def _seen_entries(
    block: MemoryMatrix,
) -> tuple[FloatArray, IntArray, IntArray | None, BoolArray]:
    """Return the stored entries in float64, their rows and columns, and a mask of observed ones.

    For dense data the columns are None, and the entries are a two-dimensional array.
    """
    values = block.entries()
    if issparse(values):
        gaps = block.gaps.data if isinstance(block, ObservedSparse) else np.zeros(values.nnz)
        rows = np.repeat(np.arange(len(block)), np.diff(values.indptr))
        return values.data.astype(np.float64), rows, values.indices, gaps == 0
    seen = block.seen if isinstance(block, ObservedDense) else np.ones(values.shape)
    rows = np.arange(len(block))[:, None]
    return values.astype(np.float64), rows, None, seen > 0


def _totals(block: MemoryMatrix, terms: FloatArray, columns: IntArray | None) -> FloatArray:
    """Return the sum of the terms of each column."""
    if columns is None:
        return np.asarray(terms.sum(axis=0), dtype=np.float64)
    return np.asarray(np.bincount(columns, terms, minlength=block.shape[1]), dtype=np.float64)


def _moments(
    block: MemoryMatrix, weights: FloatArray, mean: FloatArray, power: int
) -> tuple[FloatArray, FloatArray]:
    """Return the sums of w (a - mean)^power and of the weights w over the observed entries."""
    data, rows, columns, seen = _seen_entries(block)
    away = data - (mean if columns is None else mean[columns])
    factors = np.where(seen, weights[rows], 0.0)
    totals = _totals(block, factors * away**power, columns)
    if columns is None:
        return totals, factors.sum(axis=0)
    # Entries that are not stored are observed zeros.
    others = weights.sum() - _totals(block, weights[rows], columns)
    return totals + others * (-mean) ** power, others + _totals(block, factors, columns)


def _peaks(block: MemoryMatrix, used: FloatArray) -> FloatArray:
    values = abs(block.scaled_rows(used).entries()).max(axis=0)
    return np.asarray(values.toarray() if issparse(values) else values, dtype=np.float64).ravel()


def _sizes(block: MemoryMatrix) -> tuple[FloatArray, FloatArray]:
    values, width = block.entries(), block.shape[1]
    sums, counts = np.zeros(width), np.zeros(width)
    if issparse(values):
        for start in range(0, values.nnz, _SIZES_AT_ONCE):
            part = slice(start, start + _SIZES_AT_ONCE)
            sizes, columns = np.abs(values.data[part].astype(np.float64)), values.indices[part]
            sums += _totals(block, sizes, columns)
            counts += _totals(block, np.sign(sizes), columns)
        return sums, counts
    height = max(1, _SIZES_AT_ONCE // max(1, width))
    # A few rows at a time, so that |A| is never stored as a whole.
    for start in range(0, len(values), height):
        sizes = np.abs(values[start : start + height])
        ones = np.ones(len(sizes), dtype=sizes.dtype)
        with np.errstate(over="ignore"):  # such data are refused later, with a clear message
            sums += ones @ sizes
        counts += ones @ np.sign(sizes)
    return sums, counts
