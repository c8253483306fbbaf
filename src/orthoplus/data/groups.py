"""Groups of rows of the data: sums over groups, products with them, and the best group of a row.

A matrix with one entry a row is a label and a weight a row; products with it cost one pass over A,
not k of them.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from orthoplus import kernels
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import row_ranges, row_squares, rows_of, times, times_transposed, zero_rows
from orthoplus.data.stored import RowBlocks, add_parts
from orthoplus.kernels.blocks import for_blocks


def group_sums(A: Any, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    r"""W = A'X for the X with ``weights[i]`` in column ``labels[i]`` of row i, as k x r.

    Rows with label -1 count nowhere. One pass over A, O(nnz); sums in float64.

    Examples
    --------
    >>> group_sums(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 0]), np.array([1.0, 2.0]), 1)
    array([[ 7., 10.]])
    """
    if isinstance(A, RowBlocks):
        return np.asarray(A.reduce(group_sums, labels, weights, args=(k,)))
    if isinstance(A, LinearOperator):
        X = np.zeros((len(labels), k))
        rows = np.flatnonzero(labels >= 0)
        X[rows, labels[rows]] = weights[rows]
        return times_transposed(A, X).T.astype(np.float64)
    if issparse(A):
        parts = (A.data, A.indices, A.indptr)
        return kernels.sparse_group_sums(parts, labels, weights, (k, A.shape[1]))
    return kernels.dense_group_sums(A, labels, weights, k)


def group_dots(A: Any, labels: IntArray, W: FloatArray) -> FloatArray:
    """a_i'w_j for the group j of each row i, 0 for a row with label -1; W is k x r, O(nnz)."""
    if isinstance(A, RowBlocks):
        return A.map(group_dots, labels, args=(W,))  # a vector in the form of A
    if isinstance(A, LinearOperator):
        dots = times(A, W.T)[np.arange(len(labels)), labels].astype(np.float64)
        return np.where(labels >= 0, dots, 0.0)
    if issparse(A):
        return kernels.sparse_group_dots((A.data, A.indices, A.indptr), labels, W)
    return kernels.dense_group_dots(A, labels, W)


def group_products(A: Any, labels: IntArray, V: FloatArray) -> FloatArray:
    """A_j'A_j v_j for each group of rows, k x r as V: one pass over A in blocks, O(nnz)."""
    if isinstance(A, RowBlocks):
        return np.asarray(A.reduce(group_products, labels, args=(V,)))
    return group_sums(A, labels, group_dots(A, labels, V), len(V))


def best_column(scores: FloatArray) -> IntArray:
    """The column of each row's largest score; the first among those equal up to rounding.

    Examples
    --------
    >>> best_column(np.array([[1.0, 1.0 + 1e-15], [1.0, 2.0]]))
    array([0, 1])
    """
    return kernels.best_columns(scores)[0]


def unit_rows(W: FloatArray) -> FloatArray:
    """W with rows of unit norm; rows of zeros stay."""
    sizes = np.linalg.norm(W, axis=1, keepdims=True)
    return np.divide(W, sizes, out=np.zeros_like(W), where=sizes > 0)


def reciprocals(numbers: FloatArray) -> FloatArray:
    """1 / x for the positive numbers, 0 for the others."""
    return np.divide(1.0, numbers, out=np.zeros_like(numbers), where=numbers > 0)


class Centres(NamedTuple):
    """A start of a search over groups: row i goes to the j with the largest a_i'c_j."""

    vectors: FloatArray  # k x r


class Assigned(NamedTuple):
    """Rows in groups, and whether these are the groups they were in."""

    labels: Any
    scores: Any
    is_same: bool


def assign_rows(A: Any, centres: FloatArray, before: Any = None) -> Assigned:
    """The group of each row and its score there: the largest a_i'c_j, the first among ties.

    A row of zeros has label -1. No group is without a row: one that would be takes the row, of
    those that are not the last of another, that its score fits worst. One pass over A, O(nnz k).
    ``before`` are labels to compare with.
    """
    k = len(centres)
    labels, scores = map_rows(A, _assign_rows, args=(centres,), n_vectors=2)
    old = labels if before is None else before
    counts, n_moved = _reduce(A, _compare_rows, labels, old, args=(k,))
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        labels = give_rows(A, labels, _spare_rows(A, labels, scores, counts, empty), empty)
        _, n_moved = _reduce(A, _compare_rows, labels, old, args=(k,))
    return Assigned(labels, scores, before is not None and int(n_moved) == 0)


def _compare_rows(labels: IntArray, before: IntArray, k: int) -> tuple[IntArray, int]:
    return _count_rows(labels, k), int(np.count_nonzero(labels != before))


def map_rows(
    A: Any, work: Any, *vectors: Any, args: tuple[Any, ...] = (), n_vectors: int = 1
) -> Any:
    """The vectors that ``work(A, *vectors, *args)`` gives, block by block where A is in blocks."""
    if isinstance(A, RowBlocks):
        return A.map(work, *vectors, args=args, n_vectors=n_vectors)
    return work(A, *vectors, *args)


def _reduce(A: Any, work: Any, *vectors: Any, args: tuple[Any, ...] = ()) -> Any:
    """A sum over vectors alone."""
    if isinstance(A, RowBlocks):
        return A.reduce(work, *vectors, args=args, with_blocks=False)
    return work(*vectors, *args)


def reduce_rows(
    A: Any, work: Any, *vectors: Any, args: tuple[Any, ...] = (), combine: Any = add_parts
) -> Any:
    """``work(A, *vectors, numbers, *args)`` with the numbers of the rows, combined over blocks."""
    if isinstance(A, RowBlocks):
        return A.reduce(work, *vectors, A.numbers(), args=args, combine=combine)
    return work(A, *vectors, np.arange(A.shape[0]), *args)


def give_rows(A: Any, labels: Any, rows: IntArray, groups: IntArray) -> Any:
    """The labels with those of some rows replaced."""
    numbers = A.numbers() if isinstance(A, RowBlocks) else np.arange(A.shape[0])
    return map_rows(A, _give_rows, labels, numbers, args=(rows, groups))


def count_rows(A: Any, labels: Any, k: int) -> IntArray:
    """The number of rows of each group."""
    return np.asarray(_reduce(A, _count_rows, labels, args=(k,)))


def _assign_rows(A: Any, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    labels, scores = np.empty(A.shape[0], dtype=np.int64), np.empty(A.shape[0], dtype=A.dtype)

    def work(number: int, rows: slice) -> None:
        part = rows_of(A, rows)
        labels[rows], scores[rows] = _assign_slice(part, centres)

    for_blocks(work, row_ranges(A, len(centres)))
    return labels, scores


def _assign_slice(A: Any, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    labels, scores = kernels.best_columns(times(A, centres.T))
    idle = np.flatnonzero(scores == 0)
    if len(idle):
        labels[idle[zero_rows(A, idle)]] = -1
    return labels, scores


def _count_rows(labels: IntArray, k: int) -> IntArray:
    return np.bincount(labels[labels >= 0], minlength=k)


def _give_rows(
    A: Any, labels: IntArray, numbers: IntArray, rows: IntArray, groups: IntArray
) -> IntArray:
    inside = (rows >= numbers[0]) & (rows <= numbers[-1]) if len(numbers) else rows < 0
    labels = labels.copy()
    labels[rows[inside] - numbers[0]] = groups[inside]
    return labels


def _spare_rows(A: Any, labels: Any, scores: Any, counts: IntArray, empty: IntArray) -> IntArray:
    """A row for each of the empty groups."""
    most = len(empty) + len(counts)  # at most one row of each group is its last
    worst = reduce_rows(A, _worst_rows, labels, scores, args=(most,), combine=_keep_worst)
    counts = counts.copy()
    rows: list[int] = []
    for _, row, label in zip(*worst[:3], strict=True):
        if len(rows) < len(empty) and (label < 0 or counts[label] > 1):
            rows.append(row)
            if label >= 0:
                counts[label] -= 1
    return np.array(rows, dtype=np.int64)


_Worst = tuple[FloatArray, IntArray, IntArray, int]


def _worst_rows(
    A: Any, labels: IntArray, scores: FloatArray, numbers: IntArray, most: int
) -> _Worst:
    """What is missed of the rows that are fitted worst, their numbers and labels."""
    missed = np.maximum(row_squares(A) - np.maximum(scores, 0.0).astype(np.float64) ** 2, 0.0)
    return _sorted_worst(missed, numbers, labels, most)


def _keep_worst(one: _Worst, other: _Worst) -> _Worst:
    missed, rows, labels = (np.concatenate(pair) for pair in zip(one[:3], other[:3], strict=True))
    return _sorted_worst(missed, rows, labels, one[3])


def _sorted_worst(missed: FloatArray, rows: IntArray, labels: IntArray, most: int) -> _Worst:
    order = np.lexsort((rows, -missed))[:most]
    return missed[order], rows[order], labels[order], most


def column_entries(A: Any, labels: Any, V: FloatArray, squares: FloatArray) -> Any:
    r"""The entries :math:`x_i = a_i^\top v_j / \sigma_j` of X, at least 0, its columns normalised.

    A group of rows that v_j does not meet has equal entries.
    """
    k = len(V)
    raw = map_rows(A, _raw_entries, labels, args=(V, reciprocals(np.sqrt(squares))))
    sums = _reduce(A, _column_squares, labels, raw, args=(k,))
    counts = count_rows(A, labels, k)
    return map_rows(A, _unit_entries, labels, raw, args=(reciprocals(np.sqrt(sums)), counts))


def _raw_entries(A: Any, labels: IntArray, V: FloatArray, inverse: FloatArray) -> FloatArray:
    dots = np.maximum(group_dots(A, labels, V), 0.0)
    return np.where(labels >= 0, dots * inverse[labels], 0.0)


def _column_squares(labels: IntArray, entries: FloatArray, k: int) -> FloatArray:
    used = labels >= 0
    squares = entries[used].astype(np.float64) ** 2
    return np.bincount(labels[used], squares, minlength=k).astype(np.float64)


def _unit_entries(
    A: Any, labels: IntArray, raw: FloatArray, inverse: FloatArray, counts: IntArray
) -> FloatArray:
    level = np.where(inverse > 0, 0.0, 1.0 / np.sqrt(np.maximum(counts, 1)))
    entries = np.where(labels >= 0, raw * inverse[labels] + level[labels], 0.0)
    return entries.astype(A.dtype, copy=False)


def support_labels(A: Any, labels: Any, weights: Any) -> Any:
    """The labels of the rows with a positive weight, -1 for the others."""
    return map_rows(A, _support_labels, labels, weights)


def _support_labels(A: Any, labels: IntArray, weights: FloatArray) -> IntArray:
    return np.where(weights > 0, labels, -1)


def stationarity_of_groups(A: Any, labels: Any, weights: Any, W: FloatArray) -> float:
    r"""The residual of (2.6) at an X of S+ for :math:`\|A - XX^\top A\|_F^2`, with W = (A'X)'.

    On the support the gradient is :math:`2 (x_i \|w_j\|^2 - a_i^\top w_j)`, and tangent; a row
    that is not on it has no score above 0. One pass over A.
    """
    sizes = np.einsum("jc,jc->j", W, W)
    if isinstance(A, RowBlocks):
        total = A.reduce(_gradient_squares, labels, weights, args=(W, sizes))
    else:
        total = _gradient_squares(A, labels, weights, W, sizes)
    return 2.0 * math.sqrt(float(total))


def _gradient_squares(
    A: Any, labels: IntArray, weights: FloatArray, W: FloatArray, sizes: FloatArray
) -> float:
    gradient = weights * sizes[labels] - group_dots(A, labels, W)
    gradient[labels < 0] = 0.0
    return float(gradient @ gradient)
