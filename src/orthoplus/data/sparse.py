"""Data in a SciPy CSR matrix; only its stored entries are used."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, vstack

from orthoplus import kernels
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.data.dense import Dense, count_nonfinite_and_range
from orthoplus.data.memory import BLOCK_SIZE, MemoryMatrix

# Number of stored entries per slice of a product.
_SLICE_ENTRIES = 1 << 16
# Number of rows that are copied at a time to look at their entries.
_FEW_ROWS = 1 << 12


class Sparse(MemoryMatrix):
    """A CSR matrix in memory without duplicate entries; ``values`` is not copied.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> Sparse(csr_array(np.array([[0.0, 2.0], [3.0, 0.0]]))).row_squares()
    array([4., 9.])
    """

    def __init__(self, values: Any) -> None:
        self.values = values
        self.shape = (values.shape[0], values.shape[1])
        self.dtype = values.dtype

    @property
    def parts(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Return the arrays of the CSR format: data, indices, indptr."""
        return self.values.data, self.values.indices, self.values.indptr

    @property
    def n_stored(self) -> int:
        """Return the number of entries in the CSR arrays, explicit zeros included."""
        return int(self.values.nnz)

    def matmul(self, Y: FloatArray) -> FloatArray:
        """Return AY in the precision of A, O(nnz q)."""
        return np.asarray(self.values @ Y.astype(self.dtype, copy=False))

    def rmatmul(self, X: FloatArray) -> FloatArray:
        """Return A'X in the precision of A, O(nnz q)."""
        return np.asarray(_transposed(self.values) @ X.astype(self.dtype, copy=False))

    def gram(self) -> FloatArray:
        """Return A'A as a dense array in float64, as a sum over slices of rows."""
        total = np.zeros((self.shape[1], self.shape[1]))
        for part in self.slices(self.shape[1]):
            values = part.entries().astype(np.float64, copy=False)
            total += (_transposed(values) @ values).toarray()
        return total

    def short_gram(self) -> FloatArray:
        """Return A'A or AA', whichever is smaller; only a slice of it is sparse at a time."""
        n, r = self.shape
        # A'A is a sum over slices of rows; AA' needs all columns of two rows, hence one slice.
        height = max(1, _SLICE_ENTRIES * n // max(1, self.n_stored)) if n >= r else n
        total = np.zeros((min(n, r), min(n, r)))
        for start in range(0, n, height):
            part = self.values[start : start + height].astype(np.float64, copy=False)
            product = (part.T @ part if n >= r else part @ part.T).tocoo()
            total[product.row, product.col] += product.data
        return total

    def squared_norm(self) -> float:
        """Return the sum of the squared stored entries in float64."""
        return sum(float(np.vdot(part, part)) for part in self._pieces())

    def row_squares(self) -> FloatArray:
        """Return the squared row norms in float64, for blocks of rows."""
        (n, _), (data, _, indptr) = self.shape, self.parts
        squares = np.zeros(n)
        # Rows with about BLOCK_SIZE entries; only these are converted to float64 at a time.
        height = max(1, BLOCK_SIZE * n // max(1, self.n_stored))
        for start in range(0, n, height):
            ends = indptr[start : start + height + 1]
            part = data[ends[0] : ends[-1]].astype(np.float64)
            rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
            with np.errstate(over="ignore"):  # to infinity, as for dense data
                part *= part
            squares[start : start + height] = np.bincount(rows, part, minlength=len(ends) - 1)
        return squares

    def least_and_largest(self) -> tuple[int, float, float]:
        """Count nonfinite stored entries and find the range of the others and 0."""
        return count_nonfinite_and_range(self.values.data)

    def group_sums(self, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
        """Return the weighted sums of the rows of each group, O(nnz)."""
        return kernels.sparse_group_sums(self.parts, labels, weights, (k, self.shape[1]))

    def group_dots(self, labels: IntArray, W: FloatArray) -> FloatArray:
        """Return the product of each row with the vector of its group, O(nnz)."""
        return kernels.sparse_group_dots(self.parts, labels, W)

    def take_rows(self, rows: IntArray) -> FloatArray:
        """Return these rows as a dense array."""
        return np.asarray(self.values[rows].toarray())

    def zero_rows(self, rows: IntArray) -> BoolArray:
        """Return which of these rows have only zero entries, stored or not."""
        are_zero = np.diff(self.values.indptr)[rows] == 0
        filled = np.flatnonzero(~are_zero)  # rows with stored entries, which may be zeros
        for start in range(0, len(filled), _FEW_ROWS):
            part = filled[start : start + _FEW_ROWS]
            are_zero[part] = np.asarray(abs(self.values[rows[part]]).sum(axis=1)).ravel() == 0
        return np.asarray(are_zero)

    def entries(self) -> Any:
        """Return the CSR matrix itself, without a copy."""
        return self.values

    def to_dense(self) -> FloatArray:
        """Return all entries as a dense array."""
        return np.asarray(self.values.toarray())

    @property
    def T(self) -> "Sparse":
        """Return the transpose, converted to CSR."""
        return Sparse(self.values.T.tocsr())

    def csr_parts(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Return data, indices and indptr."""
        return self.parts

    def centered_scores(self, mean: FloatArray, V: FloatArray) -> FloatArray:
        """Return (A - 1 mean') V; A itself is not centered."""
        return np.asarray(self.values @ V - mean @ V)

    def centered_squares(self, mean: FloatArray) -> float:
        """Return ||A - 1 mean'||_F^2; ``mean`` must be the mean of the rows of A, or 0."""
        # For the mean of n rows, ||A - 1 mean'||^2 = ||A||^2 - n |mean|^2.
        squares = self.squared_norm() - len(self) * float(np.vdot(mean, mean))
        return max(squares, 0.0)

    def columns(self, which: IntArray) -> "Sparse":
        """Return these columns."""
        return Sparse(self.values[:, which])

    def multiplied(self, M: FloatArray) -> Dense:
        """Return AM."""
        return Dense(self.matmul(M))

    def clipped(self) -> "Sparse":
        """Return the matrix with negative entries set to zero."""
        return Sparse(self.values.maximum(0))

    def scaled_rows(self, factors: FloatArray) -> "Sparse":
        """Return the rows times these factors."""
        data, indices, indptr = self.parts  # keep stored zeros: the gaps share this pattern
        scaled = data * np.repeat(factors, np.diff(indptr))
        return Sparse(csr_array((scaled, indices, indptr), shape=self.shape))

    def scaled_columns(self, factors: FloatArray) -> "Sparse":
        """Return the columns times these factors."""
        data, indices, indptr = self.parts
        scaled = data * factors.astype(self.dtype)[indices]
        return Sparse(csr_array((scaled, indices, indptr), shape=self.shape))

    def n_negative(self) -> int:
        """Return the number of negative entries."""
        return int(np.count_nonzero(self.values.data < 0))

    def stacked(self, other: "Sparse") -> "Sparse":
        """Return the rows of both."""
        return Sparse(vstack([self.values, other.values], format="csr"))

    def _slice(self, rows: Any) -> "Sparse":
        return Sparse(rows_of_csr(self.values, rows))

    def _pieces(self) -> Iterator[FloatArray]:
        """Yield pieces of the stored entries in float64."""
        data = self.values.data
        for start in range(0, data.size, BLOCK_SIZE):
            yield data[start : start + BLOCK_SIZE].astype(np.float64)


def rows_of_csr(values: Any, rows: Any) -> Any:
    """Return some rows of a CSR matrix; for a range of rows, with views of its entries.

    Examples
    --------
    >>> A = csr_array(np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 4.0]]))
    >>> part = rows_of_csr(A, slice(1, 3))
    >>> part.toarray(), np.shares_memory(part.data, A.data)
    (array([[3., 0.],
           [0., 4.]]), True)
    """
    if not isinstance(rows, slice):
        return values[rows]
    # SciPy would copy the entries, although those of consecutive rows are contiguous.
    ends = values.indptr[rows.start : rows.stop + 1]
    part = type(values)((len(ends) - 1, values.shape[1]), dtype=values.dtype)
    part.data = values.data[ends[0] : ends[-1]]
    part.indices, part.indptr = values.indices[ends[0] : ends[-1]], ends - ends[0]
    return part


def _transposed(values: Any) -> Any:
    """Return A' in the CSC format; unlike ``A.T``, this never copies entries that are a view."""
    transposed = csc_array(values.shape[::-1], dtype=values.dtype)
    transposed.data, transposed.indices = values.data, values.indices
    transposed.indptr = values.indptr
    return transposed
