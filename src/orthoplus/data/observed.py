"""Data with missing entries (NaN): only the observed entries of each row count.

`observe` stores a block as ``values``, with zeros in place of NaN, and a mask. For dense data the
mask is ``seen``, 1 at observed entries and 0 elsewhere; for sparse data it is ``gaps``, 1 at
missing entries. Entries of a sparse matrix that are not stored are observed zeros.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import DataMatrix
from orthoplus.data.dense import Dense
from orthoplus.data.memory import MemoryMatrix
from orthoplus.data.sparse import Sparse, rows_of_csr

# A sum over observed entries below this fraction of the full sum is attributed to rounding.
_ROUNDING_SHARE = 1e-12


class ObservedDense(Dense):
    """Dense data with missing entries."""

    def __init__(self, values: FloatArray, seen: FloatArray) -> None:
        super().__init__(values)
        self.seen = seen

    def observed_sizes(self, H: FloatArray) -> FloatArray:
        """Return the squared norms of the rows of H over the observed columns of each row of A."""
        return np.asarray(self.seen @ (H * H).T)

    def observed_squares(self, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
        """Return, per group and column, the sum of squared weights over rows observed there."""
        return Dense(self.seen).group_sums(labels, weights * weights, k)

    def n_seen(self) -> FloatArray:
        """Return the number of rows in which each column was observed."""
        return np.asarray(self.seen.sum(axis=0))

    def column_sums(self) -> FloatArray:
        """Return the sum of the observed entries of each column."""
        return np.asarray(self.values.sum(axis=0))

    def replaced(self, other: FloatArray) -> FloatArray:
        """Return the only row, with its missing entries taken from ``other``."""
        return np.where(self.seen[0] > 0, self.values[0], other)

    def scaled_rows(self, factors: FloatArray) -> "ObservedDense":
        """Scale the rows of the values; the mask of observed entries stays."""
        return ObservedDense(super().scaled_rows(factors).values, self.seen)

    def scaled_columns(self, factors: FloatArray) -> "ObservedDense":
        """Scale the columns of the values; the mask of observed entries stays."""
        return ObservedDense(super().scaled_columns(factors).values, self.seen)

    @property
    def T(self) -> "ObservedDense":
        """Return the transposed values with the transposed mask, both views."""
        transposed = ObservedDense(self.values.T, self.seen.T)
        transposed.has_gaps = True
        return transposed

    def filled(self, labels: IntArray, weights: FloatArray, H: FloatArray) -> Dense:
        """Return the data with missing entries filled by the model ``weights[i] H[labels[i]]``."""
        model = weights[:, None] * H[labels]
        return Dense(np.where(self.seen > 0, self.values, model))

    def _slice(self, rows: Any) -> "ObservedDense":
        return ObservedDense(self.values[rows], self.seen[rows])

    def stacked(self, other: Any) -> "ObservedDense":
        """Return the rows of this matrix above those of another, with both masks."""
        return ObservedDense(
            np.concatenate([self.values, other.values]), np.concatenate([self.seen, other.seen])
        )


class ObservedSparse(Sparse):
    """Sparse data with missing entries."""

    def __init__(self, values: Any, gaps: Any) -> None:
        super().__init__(values)
        self.gaps = gaps

    def observed_sizes(self, H: FloatArray) -> FloatArray:
        """Return sum_l h_jl^2 over the observed l, for each row i and component j."""
        squares = (H * H).sum(axis=1)
        sizes = squares - np.asarray(self.gaps @ (H * H).T)
        return np.where(sizes > _ROUNDING_SHARE * squares, sizes, 0.0).astype(H.dtype)

    def observed_squares(self, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
        """Return the sum of w_i^2 over the rows of each group that observe each column."""
        used, squares = labels >= 0, weights.astype(np.float64) ** 2
        whole = np.bincount(labels[used], squares[used], minlength=k)[:, None]
        sums = whole - Sparse(self.gaps).group_sums(labels, squares, k)
        return np.where(sums > _ROUNDING_SHARE * whole, sums, 0.0)

    def n_seen(self) -> FloatArray:
        """Return the number of observed entries in each column."""
        return len(self) - np.asarray(self.gaps.sum(axis=0)).ravel()

    def column_sums(self) -> FloatArray:
        """Return the sum of the observed entries in each column."""
        return np.asarray(self.values.sum(axis=0)).ravel()

    def replaced(self, other: FloatArray) -> FloatArray:
        """Return the first row as an array, with ``other`` at its missing entries."""
        is_gap = self.gaps.toarray()[0] > 0
        return np.where(is_gap, other, self.values.toarray()[0])

    def scaled_rows(self, factors: FloatArray) -> "ObservedSparse":
        """Scale the rows of the values; the pattern of missing entries stays."""
        return ObservedSparse(super().scaled_rows(factors).values, self.gaps)

    def scaled_columns(self, factors: FloatArray) -> "ObservedSparse":
        """Scale the columns of the values; the pattern of missing entries stays."""
        return ObservedSparse(super().scaled_columns(factors).values, self.gaps)

    @property
    def T(self) -> "ObservedSparse":
        """Return the transposed values with the transposed pattern of missing entries."""
        transposed = ObservedSparse(self.values.T.tocsr(), self.gaps.T.tocsr())
        transposed.has_gaps = True
        return transposed

    def filled(self, labels: IntArray, weights: FloatArray, H: FloatArray) -> Sparse:
        """Replace the missing entries by those of the model, ``weights[i] * H[labels[i]]``."""
        data, indices, indptr = self.parts
        rows = np.repeat(np.arange(len(self)), np.diff(indptr))
        model = weights[rows] * H[labels[rows], indices]
        data = np.where(self.gaps.data > 0, model, data).astype(self.dtype)
        return Sparse(csr_array((data, indices, indptr), shape=self.shape))

    def _slice(self, rows: Any) -> "ObservedSparse":
        return ObservedSparse(rows_of_csr(self.values, rows), rows_of_csr(self.gaps, rows))

    def stacked(self, other: Any) -> "ObservedSparse":
        """Return the rows of this matrix above those of another, with both patterns."""
        values, gaps = super().stacked(other), Sparse(self.gaps).stacked(Sparse(other.gaps))
        return ObservedSparse(values.values, gaps.values)


def observe(block: MemoryMatrix) -> MemoryMatrix:
    """Return a block with missing entries as values and a mask, ready for computations.

    Examples
    --------
    >>> data = observe(Dense(np.array([[1.0, np.nan]])))
    >>> data.values, data.seen
    (array([[1., 0.]]), array([[1., 0.]]))
    """
    if isinstance(block, Sparse):
        data, indices, indptr = block.parts
        is_gap = np.isnan(data)
        # Gaps are stored as zeros, so that plain products sum over the observed entries only.
        values = np.where(is_gap, block.dtype.type(0), data)
        make = [csr_array((part, indices, indptr), shape=block.shape) for part in (values, is_gap)]
        return ObservedSparse(make[0], make[1].astype(block.dtype))
    values = block.entries()
    seen = ~np.isnan(values)
    return ObservedDense(np.where(seen, values, block.dtype.type(0)), seen.astype(block.dtype))


def as_observed(A: DataMatrix) -> DataMatrix:
    """Apply `observe` to the data if entries are missing, else return the data unchanged."""
    if not A.reduce_rows(count_gaps):
        return A
    observed = A.derive(observe)
    observed.has_gaps = True
    return observed


def count_gaps(block: MemoryMatrix) -> int:
    """Return the number of missing entries."""
    values = block.entries()
    return int(np.count_nonzero(np.isnan(values.data if isinstance(block, Sparse) else values)))
