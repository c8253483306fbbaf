"""A data matrix in memory: one block, NumPy vectors, and the methods that each storage adds."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from orthoplus.core.errors import InputTypeError
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.data.base import DataMatrix, Vector, Work, add_parts

# Number of entries converted to float64 at a time.
BLOCK_SIZE = 1 << 18
# Entries of the product with one slice of A; small, so that threads work on different slices.
_SLICE_SIZE = 1 << 19


class MemoryMatrix(DataMatrix):
    """A matrix in memory, which is its own only block; its vectors are NumPy arrays.

    Examples
    --------
    >>> from orthoplus.data import as_data
    >>> data = as_data(np.eye(3))
    >>> isinstance(data, MemoryMatrix), data.map_rows(lambda block: block.shape)
    (True, (3, 3))
    """

    def map_rows(
        self, work: Work, *vectors: Vector, args: tuple[Any, ...] = (), n_vectors: int = 1
    ) -> Any:
        """Return ``work(self, *vectors, *args)``: the matrix is the only block."""
        return work(self, *vectors, *args)

    def reduce_rows(
        self,
        work: Work,
        *vectors: Vector,
        args: tuple[Any, ...] = (),
        combine: Work = add_parts,
        vectors_only: bool = False,
    ) -> Any:
        """Return the result of the only block; there is nothing to combine."""
        return work(*vectors, *args) if vectors_only else work(self, *vectors, *args)

    def derive(
        self,
        transform: Work,
        *vectors: Vector,
        args: tuple[Any, ...] = (),
        width: int | None = None,
    ) -> "MemoryMatrix":
        """Return ``transform(self, *vectors, *args)``, computed at once."""
        found: MemoryMatrix = transform(self, *vectors, *args)
        found.name = self.name
        return found

    def row_indices(self) -> IntArray:
        """Return the row numbers 0, ..., n - 1."""
        return np.arange(self.shape[0])

    # --- what a storage in memory implements ------------------------------------------------------

    @abstractmethod
    def matmul(self, Y: FloatArray) -> FloatArray:
        """Return AY as an array of shape (n, q)."""

    @abstractmethod
    def rmatmul(self, X: FloatArray) -> FloatArray:
        """Return A'X as an array of shape (r, q)."""

    @abstractmethod
    def gram(self) -> FloatArray:
        """Return A'A as a dense array in float64."""

    @abstractmethod
    def least_and_largest(self) -> tuple[int, float, float]:
        """Return the number of nonfinite entries, and the range of the others and 0."""

    @abstractmethod
    def group_sums(self, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
        """Return the sums of the weighted rows of each group, of shape (k, r)."""

    @abstractmethod
    def group_dots(self, labels: IntArray, W: FloatArray) -> FloatArray:
        """Return a_i'w_j for the group j of each row i as an array of length n."""

    @abstractmethod
    def take_rows(self, rows: IntArray) -> FloatArray:
        """Return a few rows as a dense array."""

    @abstractmethod
    def zero_rows(self, rows: IntArray) -> BoolArray:
        """Return which of these rows are zero."""

    @abstractmethod
    def to_dense(self) -> FloatArray:
        """Return all entries as an array."""

    @property
    @abstractmethod
    def T(self) -> "MemoryMatrix":
        """Return the transpose."""

    @abstractmethod
    def scaled_rows(self, factors: FloatArray) -> "MemoryMatrix":
        """Return the matrix with its rows multiplied by these factors."""

    @abstractmethod
    def scaled_columns(self, factors: FloatArray) -> "MemoryMatrix":
        """Return the matrix with its columns multiplied by these factors."""

    def csr_parts(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Return the CSR arrays data, indices and indptr.

        If indices is empty, every row has an entry in each column.
        """
        raise InputTypeError(f"{type(self).__name__} has no entries to read.")

    def columns(self, which: IntArray) -> "MemoryMatrix":
        """Return these columns."""
        raise InputTypeError(f"{type(self).__name__} has no entries to read.")

    # --- derived from these -----------------------------------------------------------------------

    def squared_norm(self) -> float:
        """Return ||A||_F^2, block by block in float64."""
        return sum(float(np.vdot(block, block)) for _, block in self._blocks())

    def row_squares(self) -> FloatArray:
        """Return the squared row norms, block by block in float64."""
        squares = np.zeros(self.shape[0])
        for rows, block in self._blocks():
            squares[rows] += np.einsum("ij,ij->i", block, block)
        return squares

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield dense blocks in float64 that add up to the matrix, with their rows."""
        for rows in self.ranges(self.shape[1]):
            yield rows, self.rows(rows).to_dense().astype(np.float64)

    def row_sums(self) -> FloatArray:
        """Return Ae in float64, from a product in the precision of A."""
        return self.matmul(np.ones((self.shape[1], 1))).ravel().astype(np.float64)

    def normal_product(self, V: FloatArray) -> FloatArray:
        """Return A'AV, computed slice by slice so that AV is never stored as a whole."""
        total = np.zeros(V.shape)
        for part in self.slices(V.shape[1]):
            total += part.rmatmul(part.matmul(V))
        return total

    def part_squares(self, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the squared column norms of max(AV, 0) and min(AV, 0), slice by slice."""
        above, below = np.zeros(V.shape[1]), np.zeros(V.shape[1])
        for part in self.slices(V.shape[1]):
            images = part.matmul(V).astype(np.float64, copy=False)
            # max(y, 0)^2 = y max(y, 0), and in the same way for the negative part.
            above += np.einsum("ij,ij->j", images, np.maximum(images, 0.0))
            below += np.einsum("ij,ij->j", images, np.minimum(images, 0.0))
        return above, below

    def missed_squares(self, labels: IntArray, weights: FloatArray, W: FloatArray) -> float:
        """Return ||A - XW||^2 by expanding the square, so that A - XW is not formed."""
        # ||A - XW||^2 = ||A||^2 - 2 <A, XW> + ||XW||^2. By cancellation, a residual norm below
        # about 1e-8 ||A|| is only rounding error.
        dots = self.group_dots(labels, W) * weights
        sizes = np.einsum("jc,jc->j", W, W)[labels] * weights.astype(np.float64) ** 2
        fit = float(dots.sum()) * 2.0 - float(sizes[labels >= 0].sum())
        return max(self.squared_norm() - fit, 0.0)

    def ranges(self, width: int) -> list[slice]:
        """Return ranges of rows whose products with ``width`` columns stay small."""
        n, height = self.shape[0], max(1, _SLICE_SIZE // max(1, width))
        return [slice(start, min(start + height, n)) for start in range(0, n, height)]

    def entry_ranges(self, n_arrays: int = 1) -> list[slice]:
        """Return ranges of rows such that ``n_arrays`` arrays of their entries stay small."""
        return self.ranges(n_arrays * self.n_stored // max(1, self.shape[0]))

    def rows(self, rows: slice) -> "MemoryMatrix":
        """Return a range of rows, or the matrix itself if the range covers all rows."""
        return self if rows == slice(0, self.shape[0]) else self._slice(rows)

    @abstractmethod
    def _slice(self, rows: Any) -> "MemoryMatrix":
        """Return these rows."""

    def slices(self, width: int) -> Iterator["MemoryMatrix"]:
        """Yield the rows in the ranges of `ranges`."""
        for rows in self.ranges(width):
            yield self.rows(rows)

    def point(self, labels: IntArray, weights: FloatArray, k: int) -> SupportPoint:
        """Return the point of S+ with these arrays, which are not copied."""
        return SupportPoint(labels, weights, int(k))

    def sample_rows(self, rows: IntArray) -> "MemoryMatrix":
        """Return a copy of these rows."""
        return self._slice(rows)

    def in_memory(self) -> "MemoryMatrix":
        """Return the matrix itself."""
        return self
