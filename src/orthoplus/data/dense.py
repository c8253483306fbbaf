"""Data in a NumPy array of any memory order; a memory map is not loaded as a whole."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.data.memory import BLOCK_SIZE, MemoryMatrix

# Number of entries of the residual computed at a time: few enough to stay in the cache.
_RESIDUAL_SIZE = 1 << 15


class Dense(MemoryMatrix):
    """A dense matrix in memory; ``values`` is not copied.

    Examples
    --------
    >>> Dense(np.array([[1.0, 2.0], [3.0, 4.0]])).matmul(np.ones((2, 1)))
    array([[3.],
           [7.]])
    """

    def __init__(self, values: FloatArray) -> None:
        self.values = values
        self.shape = (values.shape[0], values.shape[1])
        self.dtype = values.dtype

    def matmul(self, Y: FloatArray) -> FloatArray:
        """Return AY in the precision of A; only Y is converted."""
        return np.asarray(self.values @ Y.astype(self.dtype, copy=False))

    def rmatmul(self, X: FloatArray) -> FloatArray:
        """Return A'X in the precision of A; only X is converted."""
        return np.asarray(self.values.T @ X.astype(self.dtype, copy=False))

    def gram(self) -> FloatArray:
        """Return A'A in float64, as a sum over slices of rows."""
        total = np.zeros((self.shape[1], self.shape[1]))
        for part in self.slices(self.shape[1]):
            total += _gram(part.entries())
        return total

    def short_gram(self) -> FloatArray:
        """Return A'A or AA', whichever is smaller, as the Gram matrix of A or A'."""
        return self.gram() if self.shape[0] >= self.shape[1] else self.T.gram()

    def least_and_largest(self) -> tuple[int, float, float]:
        """Count nonfinite entries and find the range of the others in one pass."""
        return count_nonfinite_and_range(self.values)

    def group_sums(self, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
        """Return the weighted sums of the rows of each group, O(nr)."""
        return kernels.dense_group_sums(self.values, labels, weights, k)

    def group_dots(self, labels: IntArray, W: FloatArray) -> FloatArray:
        """Return the product of each row with the vector of its group, O(nr)."""
        return kernels.dense_group_dots(self.values, labels, W)

    def missed_squares(self, labels: IntArray, weights: FloatArray, W: FloatArray) -> float:
        """Return ||A - XW||^2 from the differences themselves, in blocks of rows."""
        # Form the difference: expanding the square would cancel for a nearly exact factorization.
        columns, squares = np.maximum(labels, 0), 0.0
        height = max(1, _RESIDUAL_SIZE // max(1, self.shape[1]))
        for start in range(0, self.shape[0], height):
            rows = slice(start, start + height)
            missed = W[columns[rows]].astype(np.float64, copy=False)
            missed *= weights[rows, None]
            np.subtract(self.values[rows], missed, out=missed)
            squares += float(np.vdot(missed, missed))
        return squares

    def take_rows(self, rows: IntArray) -> FloatArray:
        """Return a copy of these rows."""
        return np.asarray(self.values[rows])

    def zero_rows(self, rows: IntArray) -> BoolArray:
        """Return which of these rows have only zero entries."""
        return np.asarray(~np.asarray(self.values[rows]).any(axis=1))

    def entries(self) -> FloatArray:
        """Return the array itself, without a copy."""
        return self.values

    def outer_gram(self) -> FloatArray:
        """Return AA' in float64 by a single product."""
        A = self.values.astype(np.float64, copy=False)
        return np.asarray(A @ A.T)

    def to_dense(self) -> FloatArray:
        """Return the array itself, without a copy."""
        return np.asarray(self.values)

    @property
    def T(self) -> "Dense":
        """Return the transpose as a view."""
        return Dense(self.values.T)

    def csr_parts(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Return all entries row by row, an empty array of indices, and indptr."""
        n, r = self.shape
        data = np.ascontiguousarray(self.values).ravel()
        return data, np.zeros(0, dtype=np.int32), r * np.arange(n + 1)

    def centered_scores(self, mean: FloatArray, V: FloatArray) -> FloatArray:
        """Return (A - 1 mean') V."""
        return np.asarray((self.values - mean) @ V)

    def centered_squares(self, mean: FloatArray) -> float:
        """Return ||A - 1 mean'||_F^2."""
        return float(((self.values - mean) ** 2).sum())

    def columns(self, which: IntArray) -> "Dense":
        """Return these columns."""
        return Dense(self.values[:, which])

    def multiplied(self, M: FloatArray) -> "Dense":
        """Return AM."""
        return Dense(self.matmul(M))

    def clipped(self) -> "Dense":
        """Return the matrix with negative entries set to zero."""
        return Dense(np.maximum(self.values, 0))

    def scaled_rows(self, factors: FloatArray) -> "Dense":
        """Return the rows times these factors."""
        return Dense(self.values * factors[:, None])

    def scaled_columns(self, factors: FloatArray) -> "Dense":
        """Return the columns times these factors."""
        return Dense(self.values * factors.astype(self.dtype))

    def n_negative(self) -> int:
        """Return the number of negative entries."""
        return int(np.count_nonzero(self.values < 0))

    def stacked(self, other: "Dense") -> "Dense":
        """Return the rows of both."""
        return Dense(np.concatenate([self.values, other.to_dense()]))

    def _slice(self, rows: Any) -> "Dense":
        return Dense(self.values[rows])

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield blocks of rows in float64."""
        height = max(1, BLOCK_SIZE // max(1, self.shape[1]))
        for start in range(0, self.shape[0], height):
            rows = slice(start, start + height)
            yield rows, self.values[rows].astype(np.float64)


def _gram(values: FloatArray) -> FloatArray:
    values = values.astype(np.float64, copy=False)  # released before the next slice is converted
    return np.asarray(values.T @ values)


def count_nonfinite_and_range(entries: FloatArray) -> tuple[int, float, float]:
    """Return the number of nonfinite entries, and min and max of 0 and all other entries."""
    least = most = 0.0
    height = max(1, BLOCK_SIZE // max(1, entries[:1].size))
    with np.errstate(invalid="ignore"):
        for start in range(0, len(entries), height):  # both in one pass over memory
            block = entries[start : start + height]
            # `np.minimum` propagates NaN; `min` may lose it.
            least = float(np.minimum(block.min(initial=0.0), least))
            most = float(np.maximum(block.max(initial=0.0), most))
    if np.isfinite(least) and np.isfinite(most):
        return 0, least, most
    return int(np.count_nonzero(~np.isfinite(entries))), 0.0, 0.0
