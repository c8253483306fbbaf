"""The data matrix: a common interface to data in any storage.

Methods use products, sums over groups of rows, sums over all rows (`reduce_rows`) and vectors with
one entry per row (`map_rows`). The subclasses hide whether the rows are in memory, on disk or
distributed, dense or sparse. Nothing is densified, and nothing of the size of the data is copied.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator

from orthoplus import kernels
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from orthoplus.data.memory import MemoryMatrix

Work = Callable[..., Any]
# One entry per row, as `map_rows` returns it: a NumPy array, or pieces that stay with their blocks.
Vector = Any

# Unit vectors multiplied at a time if a Gram matrix is computed from products.
_GRAM_COLUMNS = 50


def add_parts(one: Any, other: Any) -> Any:
    """Add the results of two blocks: arrays, or tuples element by element."""
    if isinstance(one, tuple):
        return tuple(map(operator.add, one, other))
    return one + other


class DataMatrix(ABC):
    """An n x r matrix of real numbers; see the subclasses for its storage.

    The argument ``work(block, *pieces, *args)`` of `map_rows` and `reduce_rows` is a module-level
    function. The block is a `DataMatrix` in memory with some or all of the rows. The pieces are the
    entries of the *vectors* for these rows. A vector is what `map_rows` returns: a NumPy array, or
    an object whose pieces stay with their blocks. Blocks are processed in any order, even twice.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        Precision of products with the data, float32 or float64.
    has_entries : bool
        Whether single rows and entries can be read; an operator only has products.
    has_cheap_products : bool
        Whether a product costs no more than its arithmetic. If not, passes dominate the cost.
    gram_order : int
        Up to this many columns, computing the Gram matrix pays off.
    has_gaps : bool
        Whether entries are missing; if so, the blocks are those of `orthoplus.data.observed`.
    most_rows : int or None
        Number of rows that fit in memory in addition to a block; None if unlimited.
    name : str or None
        The name of the argument that held the data, for messages.

    Examples
    --------
    >>> from orthoplus.data import as_data
    >>> A = as_data([[3.0, 4.0], [0.0, 1.0]])
    >>> A.squared_norm(), A.row_squares()
    (26.0, array([25.,  1.]))
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    has_entries: ClassVar[bool] = True
    has_cheap_products: ClassVar[bool] = True
    gram_order: ClassVar[int] = 400
    has_gaps: bool = False
    most_rows: int | None = None
    name: str | None = None

    def __len__(self) -> int:
        return self.shape[0]

    # --- what a storage implements ----------------------------------------------------------------

    @abstractmethod
    def map_rows(
        self, work: Work, *vectors: Vector, args: tuple[Any, ...] = (), n_vectors: int = 1
    ) -> Any:
        """Return the vector (or tuple of vectors) whose pieces are ``work(block, ...)``."""

    @abstractmethod
    def reduce_rows(
        self,
        work: Work,
        *vectors: Vector,
        args: tuple[Any, ...] = (),
        combine: Work = add_parts,
        vectors_only: bool = False,
    ) -> Any:
        """Combine the results of the blocks in their order; ``vectors_only`` passes no block."""

    @abstractmethod
    def derive(
        self,
        transform: Work,
        *vectors: Vector,
        args: tuple[Any, ...] = (),
        width: int | None = None,
    ) -> "DataMatrix":
        """Return the matrix with the blocks ``transform(block, *pieces, *args)``.

        Blocks that are not in memory are transformed when they are read. Pass ``width`` if the
        number of columns changes.
        """

    @abstractmethod
    def row_indices(self) -> Vector:
        """Return the vector of the row numbers."""

    def map_vectors(
        self, work: Work, *vectors: Vector, args: tuple[Any, ...] = (), n_vectors: int = 1
    ) -> Any:
        """Return the vector(s) with the pieces ``work(*pieces, *args)``, without reading A."""
        return work(*vectors, *args)

    def gather(self, vector: Vector) -> Any:
        """Return a vector as a NumPy array in this process."""
        return np.asarray(vector)

    def scatter(self, vector: Vector) -> Vector:
        """Convert a NumPy array with one entry per row to a vector of this matrix."""
        return vector

    def collect(self, vector: Vector, dtype: Any, width: int | None = None) -> Any:
        """Return a vector, with rows of this width, as an array for the user."""
        return vector.astype(dtype, copy=False)

    def point(self, labels: Vector, weights: Vector, k: int) -> SupportPoint:
        """Return the point of S+ with these vectors, as arrays for the user."""
        return SupportPoint(
            self.collect(labels, np.int64), self.collect(weights, self.dtype), int(k)
        )

    # --- derived from these -----------------------------------------------------------------------

    def matmul(self, Y: FloatArray) -> Any:
        """Return AY in the precision of A; Y is rounded to its dtype, A is never converted."""
        return self.map_rows(ask("matmul"), args=(Y,))

    def rmatmul(self, X: Any) -> FloatArray:
        """Return A'X in the precision of A; X is a vector of this matrix."""
        return np.asarray(self.reduce_rows(ask("rmatmul"), X))

    def times(self, Y: FloatArray) -> FloatArray:
        """Return AY as an array in this process."""
        return self.gather(self.matmul(Y))

    def times_transposed(self, X: FloatArray) -> FloatArray:
        """Return A'X for an array X in this process."""
        return self.rmatmul(self.scatter(X))

    def normal_product(self, V: FloatArray) -> FloatArray:
        """Return A'AV in float64 for an r x q matrix V, in one pass over A."""
        return np.asarray(self.reduce_rows(ask("normal_product"), args=(V,)))

    def gram(self) -> FloatArray:
        """Return the r x r matrix A'A in float64, in one pass over A."""
        return np.asarray(self.reduce_rows(ask("gram")))

    def short_gram(self) -> FloatArray:
        """Return A'A or AA', whichever is smaller, in float64."""
        if self.shape[0] >= self.shape[1]:
            return self.gram()
        return self._gram_by_products()

    def short_product(self, V: FloatArray) -> FloatArray:
        """Return the product of `short_gram` with V in float64, without forming the matrix."""
        if self.shape[0] >= self.shape[1]:
            return self.normal_product(V)
        return self.times(self.times_transposed(V)).astype(np.float64, copy=False)

    def outer_gram(self) -> FloatArray:
        """Return the n x n matrix AA' in float64, computed some columns at a time."""
        n = len(self)
        products, unit = np.empty((n, n)), np.eye(n, dtype=self.dtype)
        for start in range(0, n, _GRAM_COLUMNS):
            part = slice(start, start + _GRAM_COLUMNS)
            products[:, part] = self.times(self.times_transposed(unit[:, part]))
        # The two triangles differ by rounding: return their mean, which is symmetric.
        return np.asarray((products + products.T) / 2)

    def _gram_by_products(self) -> FloatArray:
        order = min(self.shape)
        unit, starts = np.eye(order), range(0, order, _GRAM_COLUMNS)
        return np.hstack([self.short_product(unit[:, i : i + _GRAM_COLUMNS]) for i in starts])

    def squared_norm(self) -> float:
        """Return ||A||_F^2, accumulated in float64."""
        return float(self.reduce_rows(ask("squared_norm")))

    def row_squares(self) -> Vector:
        """Return the vector of the squared row norms ||a_i||^2 in float64."""
        return self.map_rows(ask("row_squares"))

    def row_sums(self) -> Vector:
        """Return the vector of the row sums in float64."""
        return self.map_rows(ask("row_sums"))

    def empty_rows(self) -> BoolArray:
        """Return which rows have only zero entries, in one pass over A.

        Examples
        --------
        >>> from orthoplus.data import as_data
        >>> as_data([[1.0, 0.0], [0.0, 0.0], [0.0, 1e-300]]).empty_rows()
        array([False,  True, False])
        """
        return np.asarray(self.gather(self.map_rows(_empty_rows)))

    def probe_rows(self) -> FloatArray:
        """Return the product with a fixed positive vector, which is 0 for zero rows alone.

        Entries of both signs may sum to 0, but do not cancel with numbers without a pattern.
        """
        generic = 1.0 + np.random.default_rng(0).random((self.shape[1], 1))
        return np.ravel(self.times(generic))

    def part_squares(self, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the squared column norms of the positive and negative parts of AV."""
        above, below = self.reduce_rows(ask("part_squares"), args=(V,))
        return above, below

    def least_and_largest(self) -> tuple[int, float, float]:
        """Return the number of nonfinite entries, and min and max of 0 and all other entries."""
        n_bad, least, most = self.reduce_rows(ask("least_and_largest"), combine=_merge_ranges)
        return int(n_bad), float(least), float(most)

    def group_sums(self, labels: Vector, weights: Vector, k: int) -> FloatArray:
        r"""Return W = A'X as k x r, for the X with ``weights[i]`` in column ``labels[i]``.

        Rows with label -1 are ignored. This takes one pass over A, O(nnz), with sums in float64.
        """
        return np.asarray(self.reduce_rows(ask("group_sums"), labels, weights, args=(k,)))

    def group_dots(self, labels: Vector, W: FloatArray) -> Any:
        """Return a_i'w_j for the group j of each row i, 0 for label -1; W is k x r, O(nnz)."""
        return self.map_rows(ask("group_dots"), labels, args=(W,))

    def group_products(self, labels: Vector, V: FloatArray) -> FloatArray:
        """Return A_j'A_j v_j for each group of rows as a k x r matrix, in one pass over A."""
        return np.asarray(self.reduce_rows(_group_products, labels, args=(V,)))

    def missed_squares(self, labels: Vector, weights: Vector, W: FloatArray) -> float:
        r"""Return :math:`\|A - XW\|_F^2` for X given by labels and weights and a k x r matrix W."""
        return float(self.reduce_rows(ask("missed_squares"), labels, weights, args=(W,)))

    def sample_rows(self, rows: IntArray) -> "MemoryMatrix":
        """Return some rows, given in ascending order, as a matrix in memory."""
        return self.reduce_rows(_own_rows, self.row_indices(), args=(rows,), combine=_stack)

    def gram_root(self) -> "MemoryMatrix":
        """Return B with BB' = A'A, so that rows of B have the inner products of columns of A."""
        return self.in_memory().T

    def scale_rows(self, factors: FloatArray) -> "DataMatrix":
        """Return the matrix with each row multiplied by its factor."""
        scaled = self.derive(ask("scaled_rows"), self.scatter(factors))
        scaled.has_gaps = self.has_gaps
        return scaled

    def in_memory(self) -> "MemoryMatrix":
        """Return all rows as a matrix in memory."""
        return self.sample_rows(np.arange(len(self)))

    def entries(self) -> Any:
        """Return all entries in memory, as an array or a SciPy CSR matrix."""
        return self.in_memory().entries()

    def to_dense(self) -> FloatArray:
        """Return all entries as an array; only for matrices with few rows or columns."""
        return self.in_memory().to_dense()

    def as_operator(self) -> Any:  # a LinearOperator, which has no types
        """Return the matrix as a LinearOperator of its own dtype, for Lanczos methods."""
        return LinearOperator(
            self.shape,
            matvec=self.times,
            rmatvec=self.times_transposed,
            matmat=self.times,
            rmatmat=self.times_transposed,
            dtype=self.dtype,
        )

    @property
    def n_stored(self) -> int:
        """Return the number of stored entries."""
        return self.shape[0] * self.shape[1]


def ask(name: str) -> Work:
    """Return a work function that calls the method ``name`` of a block."""
    return partial(_call_method, name)


def _call_method(name: str, block: DataMatrix, *args: Any) -> Any:
    return getattr(block, name)(*args)


def _merge_ranges(
    one: tuple[int, float, float], other: tuple[int, float, float]
) -> tuple[int, float, float]:
    return one[0] + other[0], min(one[1], other[1]), max(one[2], other[2])


def _empty_rows(block: "MemoryMatrix") -> BoolArray:
    is_empty = np.asarray(block.row_squares()) == 0.0
    rows = np.flatnonzero(is_empty)  # squares of small entries underflow
    is_empty[rows] = block.zero_rows(rows)
    return is_empty


def _group_products(block: "MemoryMatrix", labels: IntArray, V: FloatArray) -> FloatArray:
    return block.group_sums(labels, block.group_dots(labels, V), len(V))


def _own_rows(block: "MemoryMatrix", numbers: IntArray, rows: IntArray) -> "MemoryMatrix":
    low, high = np.searchsorted(rows, [numbers[0], numbers[-1] + 1])
    return block._slice(rows[low:high] - numbers[0])


def _stack(one: Any, other: Any) -> "MemoryMatrix":
    return one.stacked(other)


def inner_product(X: FloatArray, Z: FloatArray) -> float:
    """Return <X, Z> of two matrices of equal shape, accumulated in float64.

    Examples
    --------
    >>> inner_product(np.eye(2, dtype=np.float32), np.full((2, 2), 3.0, dtype=np.float32))
    6.0
    """
    if X.dtype == np.float64:
        return float(np.vdot(X, Z))
    return float(kernels.column_dots(X, Z).sum())
