"""The nonnegative data matrix A in every form it may come in, and what products cannot tell.

A is a dense array (any memory order, a memory map stays one), a SciPy CSR matrix, a SciPy
``LinearOperator``, or `RowBlocks` of the first two. Products with it, and what else is needed of
it, are here. Nothing is densified, and nothing of the size of A is copied.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack
from scipy.sparse.linalg import LinearOperator

from orthoplus import kernels
from orthoplus.core.checks import as_data_matrix, check_entry_size, check_finite
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.data.stored import RowBlocks, as_row_blocks

# Entries that are in memory at a time where A is read in blocks.
_BLOCK_SIZE = 1 << 18
# Entries of a product with slices of A; so few that threads share out slices, not what is in one.
_SLICE_SIZE = 1 << 19


def as_data(A: Any, name: str = "A") -> Any:
    """A as a float array, CSR matrix, LinearOperator or RowBlocks, checked; copied only if needed.

    A dense or CSR matrix of either dtype is used as it is; other dtypes become float64, other
    sparse formats CSR. Repeated entries of a sparse matrix are added. Of a LinearOperator neither
    sign nor finiteness can be checked.

    Examples
    --------
    >>> as_data([[1, 0], [0, -2]]).dtype
    dtype('float64')
    """
    return _checked(A, name)[0]


def as_nonnegative_data(A: Any, name: str = "A", *, advice: str = "Shift or clip the data.") -> Any:
    """`as_data` that has no negative entry; the error for one that has ends in the advice.

    Examples
    --------
    >>> as_nonnegative_data([[1, 0], [0, -2]])
    Traceback (most recent call last):
    orthoplus.InputError: `A` has negative entries (the smallest is -2): orthogonal NMF ...
    """
    A, least = _checked(A, name)
    if least < 0:
        raise InputError(
            f"`{name}` has negative entries (the smallest is {least:.3g}): "
            f"orthogonal NMF needs A >= 0. {advice}"
        )
    return A


def _checked(A: Any, name: str) -> tuple[Any, float]:
    """The data of `as_data`, and their least entry, 0 for that of an operator."""
    if isinstance(A, LinearOperator):
        return _checked_operator(A, name), 0.0
    rows = as_row_blocks(A, name)
    if rows is not None:
        least, most = entry_range(rows, name)
        check_entry_size(max(-least, most), rows.dtype, name)
        return rows, least
    if issparse(A):
        A = A.tocsr()
        A = A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)
        if not A.has_canonical_format:
            A = A.copy()
            A.sum_duplicates()
        check_finite(A.data, name)
        entries = A.data
    else:
        A = entries = as_data_matrix(A, name)
    least, most = float(entries.min(initial=0.0)), float(entries.max(initial=0.0))
    check_entry_size(max(-least, most), A.dtype, name)
    return A, least


def entry_range(A: RowBlocks, name: str) -> tuple[float, float]:
    """The least and the largest of 0 and the entries; raise if one is not finite. One pass."""
    n_bad, least, most = A.reduce(_look_at_entries, combine=_worse)
    if n_bad:
        raise InputError(
            f"`{name}` has {n_bad} entries that are NaN or infinite. Remove or impute them first."
        )
    return float(least), float(most)


def _look_at_entries(block: Any) -> tuple[int, float, float]:
    """The number of entries that are not finite, the least and the largest entry."""
    entries = block.data if issparse(block) else block
    with np.errstate(invalid="ignore"):
        least, most = float(entries.min(initial=0.0)), float(entries.max(initial=0.0))
    if np.isfinite(least) and np.isfinite(most):
        return 0, least, most
    return int(np.count_nonzero(~np.isfinite(entries))), 0.0, 0.0


def _worse(
    one: tuple[int, float, float], other: tuple[int, float, float]
) -> tuple[int, float, float]:
    return one[0] + other[0], min(one[1], other[1]), max(one[2], other[2])


def _checked_operator(A: LinearOperator, name: str) -> LinearOperator:
    if np.dtype(A.dtype) not in (np.float32, np.float64):
        raise InputTypeError(
            f"`{name}` is a LinearOperator of dtype {A.dtype}: float32 or float64 is needed. "
            f"Give it `dtype=np.float64`."
        )
    try:
        A.rmatmat(np.zeros((A.shape[0], 1), dtype=A.dtype))
    except (NotImplementedError, TypeError) as error:
        raise InputTypeError(
            f"`{name}` is a LinearOperator without products from the other side: A'X is needed as "
            f"well as AY. Define `rmatmat` (or `rmatvec`) too."
        ) from error
    return A


def times(A: Any, Y: FloatArray) -> FloatArray:
    """AY in the arithmetic of A: Y is rounded to its dtype, A is never converted."""
    if isinstance(A, RowBlocks):
        return np.asarray(A.map(times, args=(Y,)))
    return np.asarray(A @ Y.astype(A.dtype, copy=False))


def times_transposed(A: Any, X: FloatArray) -> FloatArray:
    """A'X in the arithmetic of A: X is rounded to its dtype, A is never converted."""
    if isinstance(A, RowBlocks):
        return np.asarray(A.reduce(times_transposed, X))
    return np.asarray(A.T @ X.astype(A.dtype, copy=False))


def row_ranges(A: Any, width: int) -> list[slice]:
    """Ranges of rows whose products with ``width`` columns stay small; an operator whole."""
    n = A.shape[0]
    height = n if isinstance(A, LinearOperator) else max(1, _SLICE_SIZE // max(1, width))
    return [slice(start, min(start + height, n)) for start in range(0, n, max(1, height))]


def rows_of(A: Any, rows: slice) -> Any:
    """A range of rows of A; A itself where that is all of them, as for an operator."""
    return A if rows == slice(0, A.shape[0]) else A[rows]


def row_slices(A: Any, width: int) -> Iterator[Any]:
    """A in the slices of `row_ranges`."""
    for rows in row_ranges(A, width):
        yield rows_of(A, rows)


def normal_product(A: Any, V: FloatArray) -> FloatArray:
    """A'AV in float64, for V of r x q: the one pass over A that a power step in r-space takes."""
    if isinstance(A, RowBlocks):
        return np.asarray(A.reduce(normal_product, args=(V,)))
    total = np.zeros(V.shape)
    for part in row_slices(A, V.shape[1]):
        total += times_transposed(part, times(part, V))
    return total


def gram_matrix(A: Any) -> FloatArray:
    """A'A in float64, r x r: one pass over A."""
    if isinstance(A, RowBlocks):
        return np.asarray(A.reduce(gram_matrix))
    if isinstance(A, LinearOperator):
        return normal_product(A, np.eye(A.shape[1]))
    total = np.zeros((A.shape[1], A.shape[1]))
    for part in row_slices(A, A.shape[1]):
        part = part.astype(np.float64, copy=False)
        product = part.T @ part
        total += product.toarray() if issparse(product) else product
    return total


def as_operator(A: Any) -> LinearOperator:
    """A as a LinearOperator of its own dtype, for Lanczos methods; no copy."""
    if isinstance(A, LinearOperator):
        return A
    return LinearOperator(
        A.shape,
        matvec=lambda y: times(A, y),
        rmatvec=lambda x: times_transposed(A, x),
        matmat=lambda Y: times(A, Y),
        rmatmat=lambda X: times_transposed(A, X),
        dtype=A.dtype,
    )


def squared_norm(A: Any) -> float:
    """||A||_F^2, summed in float64; of an operator by blocks of its shorter side."""
    if isinstance(A, RowBlocks):
        return float(A.reduce(squared_norm))
    if issparse(A):
        return sum(float(np.vdot(part, part)) for part in _parts(A.data))
    if isinstance(A, LinearOperator):
        return sum(float(np.vdot(block, block)) for _, block in _operator_blocks(A))
    return sum(float(np.vdot(block, block)) for _, block in _row_blocks(A))


def inner_product(X: FloatArray, Z: FloatArray) -> float:
    """<X, Z> of two matrices of the size of X, summed in float64 for float32 as well.

    Examples
    --------
    >>> inner_product(np.eye(2, dtype=np.float32), np.full((2, 2), 3.0, dtype=np.float32))
    6.0
    """
    if X.dtype == np.float64:
        return float(np.vdot(X, Z))
    return float(kernels.column_dots(X, Z).sum())


def row_squares(A: Any) -> FloatArray:
    """||a_i||^2 for each row of A, in float64; of row blocks as a vector in their form."""
    if isinstance(A, RowBlocks):
        return A.map(row_squares)
    squares = np.zeros(A.shape[0])
    if issparse(A):
        return _sparse_row_squares(A, squares)
    blocks = _operator_blocks(A) if isinstance(A, LinearOperator) else _row_blocks(A)
    for rows, block in blocks:
        squares[rows] += np.einsum("ij,ij->i", block, block)
    return squares


def _sparse_row_squares(A: Any, squares: FloatArray) -> FloatArray:
    height = max(1, _BLOCK_SIZE * A.shape[0] // max(1, A.nnz))
    for start in range(0, A.shape[0], height):
        ends = A.indptr[start : start + height + 1]
        data = A.data[ends[0] : ends[-1]].astype(np.float64)
        rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        squares[start : start + height] = np.bincount(rows, data * data, minlength=len(ends) - 1)
    return squares


def row_sums(A: Any) -> FloatArray:
    """The sum of each row of A."""
    return times(A, np.ones((A.shape[1], 1))).ravel().astype(np.float64)


def take_rows(A: Any, rows: IntArray) -> FloatArray:
    """A few rows of A, dense."""
    if isinstance(A, LinearOperator):
        return times_transposed(A, _unit_columns(A.shape[0], rows)).T
    return np.asarray(A[rows].toarray() if issparse(A) else A[rows])


def zero_rows(A: Any, rows: IntArray) -> BoolArray:
    """Which of these rows of A, not in blocks, are zero."""
    if isinstance(A, LinearOperator):
        return np.asarray(row_sums(A)[rows] == 0)
    if issparse(A):
        return np.asarray(abs(A[rows]).sum(axis=1)).ravel() == 0
    return np.asarray(~np.asarray(A[rows]).any(axis=1))


def sample_rows(A: Any, rows: IntArray) -> Any:
    """Some rows of A, in rising order, dense or sparse as A is, in memory; not of an operator."""
    if isinstance(A, RowBlocks):
        return A.reduce(_own_rows, A.numbers(), args=(rows,), combine=_stacked)
    return A[rows]


def _own_rows(block: Any, numbers: IntArray, rows: IntArray) -> Any:
    low, high = np.searchsorted(rows, [numbers[0], numbers[-1] + 1])
    return block[rows[low:high] - numbers[0]]


def _stacked(one: Any, other: Any) -> Any:
    return vstack([one, other], format="csr") if issparse(one) else np.concatenate([one, other])


def as_dense(A: Any) -> FloatArray:
    """A as an array, for matrices with a short side only."""
    if issparse(A):
        return np.asarray(A.toarray())
    if isinstance(A, LinearOperator):
        whole = _unit_columns(min(A.shape), np.arange(min(A.shape)))
        is_tall = A.shape[0] >= A.shape[1]
        return times(A, whole) if is_tall else times_transposed(A, whole).T
    return np.asarray(A)


def _parts(data: FloatArray) -> Iterator[FloatArray]:
    """Pieces of a long vector, in float64."""
    for start in range(0, data.size, _BLOCK_SIZE):
        yield data[start : start + _BLOCK_SIZE].astype(np.float64)


def _row_blocks(A: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Blocks of rows of a dense A, in float64."""
    height = max(1, _BLOCK_SIZE // max(1, A.shape[1]))
    for start in range(0, A.shape[0], height):
        rows = slice(start, start + height)
        yield rows, A[rows].astype(np.float64)


def _operator_blocks(A: LinearOperator) -> Iterator[tuple[slice, FloatArray]]:
    """Blocks of columns, or of rows where these are fewer, of an operator, in float64."""
    long, short = max(A.shape), min(A.shape)
    width = max(1, _BLOCK_SIZE // long)
    for start in range(0, short, width):
        piece = np.arange(start, min(start + width, short))
        unit = _unit_columns(short, piece)
        if A.shape[0] > A.shape[1]:
            yield slice(None), times(A, unit).astype(np.float64)
        else:
            rows = slice(start, start + len(piece))
            yield rows, times_transposed(A, unit).T.astype(np.float64)


def _unit_columns(n: int, which: IntArray) -> FloatArray:
    unit = np.zeros((n, len(which)))
    unit[which, np.arange(len(which))] = 1.0
    return unit
