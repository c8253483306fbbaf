"""Groups of rows of the data: assign rows to groups, and compute the entries of X."""

import math
from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.point import sum_squares
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import DataMatrix, Vector
from orthoplus.data.memory import MemoryMatrix
from orthoplus.kernels.blocks import for_blocks


def best_column(scores: FloatArray) -> IntArray:
    """Return the column of each row's largest score, the first among scores equal to rounding.

    Examples
    --------
    >>> best_column(np.array([[1.0, 1.0 + 1e-15], [1.0, 2.0]]))
    array([0, 1])
    """
    return kernels.best_columns(scores)[0]


def unit_rows(W: FloatArray) -> FloatArray:
    """Normalize the rows of W; zero rows stay zero."""
    sizes = np.linalg.norm(W, axis=1, keepdims=True)
    return np.divide(W, sizes, out=np.zeros_like(W), where=sizes > 0)


def reciprocals(numbers: FloatArray) -> FloatArray:
    """Return 1 / x for positive numbers and 0 for all others.

    Numbers below the smallest normal one count as zero, because their reciprocals may overflow.
    """
    tiny = np.finfo(numbers.dtype).tiny
    return np.divide(1.0, numbers, out=np.zeros_like(numbers), where=numbers >= tiny)


class Centers(NamedTuple):
    """Starting point of a search over groups: row i is assigned to the largest a_i'c_j."""

    vectors: FloatArray  # k x r


class Assigned(NamedTuple):
    """Assignment of rows to groups, and whether it equals the previous one."""

    labels: Vector
    scores: Vector
    is_same: bool


def assign_rows(A: DataMatrix, centers: FloatArray, before: Vector = None) -> Assigned:
    """Assign each row to the group with the largest score a_i'c_j, the first among ties.

    A zero row gets the label -1. An empty group takes the row with the largest residual among rows
    that are not the last of their group. This takes one pass over A, O(nnz k). ``before`` are
    labels to compare with.
    """
    k = len(centers)
    labels, scores = A.map_rows(assign_block, args=(centers,), n_vectors=2)
    old = labels if before is None else before
    counts, n_moved = A.reduce_rows(_compare_rows, labels, old, args=(k,), vectors_only=True)
    # Every group needs a row: an empty one takes a row that its own group can spare.
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        labels = give_rows(A, labels, _spare_rows(A, labels, scores, counts, empty), empty)
        _, n_moved = A.reduce_rows(_compare_rows, labels, old, args=(k,), vectors_only=True)
    return Assigned(labels, scores, before is not None and int(n_moved) == 0)


def power_step(A: DataMatrix, V: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    r"""Assign the rows and sum them weighted by their scores, in one pass that stores no vector.

    .. math:: w_j = \sum_{i \in j} s_i a_i, \qquad s_i = \max_j (a_i^\top v_j)^+ .

    Return W of shape (k, r), the sum of :math:`s_i^2` over each group, and its number of rows. If
    the rows of V are unit vectors, the sum of the squares does not decrease when V is replaced by W
    with normalized rows.
    """
    W, squares, counts = A.reduce_rows(_power_step, args=(V,))
    return W, squares, counts


def _power_step(A: MemoryMatrix, V: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    labels, scores = assign_block(A, V)
    scores, k = np.maximum(scores, 0.0), len(V)
    return A.group_sums(labels, scores, k), sum_squares(labels, scores, k), _count_rows(labels, k)


def _compare_rows(labels: IntArray, before: IntArray, k: int) -> tuple[IntArray, int]:
    return _count_rows(labels, k), int(np.count_nonzero(labels != before))


def give_rows(A: DataMatrix, labels: Vector, rows: IntArray, groups: IntArray) -> Vector:
    """Return the labels after assigning ``rows`` to ``groups``."""
    return A.map_vectors(_give_rows, labels, A.row_indices(), args=(rows, groups))


def count_rows(A: DataMatrix, labels: Vector, k: int) -> IntArray:
    """Return the number of rows of each group."""
    return np.asarray(A.reduce_rows(_count_rows, labels, args=(k,), vectors_only=True))


def assign_block(A: MemoryMatrix, centers: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the label and the score of each row as in `assign_rows`, but leave groups empty."""
    labels, scores = np.empty(A.shape[0], dtype=np.int64), np.empty(A.shape[0], dtype=A.dtype)

    def work(number: int, rows: slice) -> None:
        labels[rows], scores[rows] = _assign_slice(A.rows(rows), centers)

    for_blocks(work, A.ranges(len(centers)))
    return labels, scores


def _assign_slice(A: MemoryMatrix, centers: FloatArray) -> tuple[IntArray, FloatArray]:
    labels, scores = kernels.best_columns(A.matmul(centers.T))
    idle = np.flatnonzero(scores == 0)
    if len(idle):
        labels[idle[A.zero_rows(idle)]] = -1
    return labels, scores


def _count_rows(labels: IntArray, k: int) -> IntArray:
    return np.bincount(labels[labels >= 0], minlength=k)


def _give_rows(labels: IntArray, numbers: IntArray, rows: IntArray, groups: IntArray) -> IntArray:
    inside = (rows >= numbers[0]) & (rows <= numbers[-1]) if len(numbers) else rows < 0
    labels = labels.copy()
    labels[rows[inside] - numbers[0]] = groups[inside]
    return labels


def _spare_rows(
    A: DataMatrix, labels: Vector, scores: Vector, counts: IntArray, empty: IntArray
) -> IntArray:
    """Choose a row for each empty group."""
    most = len(empty) + len(counts)  # at most one row of each group is its last
    worst = A.reduce_rows(
        _worst_rows, labels, scores, A.row_indices(), args=(most,), combine=keep_worst
    )
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
    A: MemoryMatrix, labels: IntArray, scores: FloatArray, numbers: IntArray, most: int
) -> _Worst:
    """Return the largest residuals, with the numbers and labels of their rows."""
    missed = np.maximum(A.row_squares() - np.maximum(scores, 0.0).astype(np.float64) ** 2, 0.0)
    return sort_worst(missed, numbers, labels, most)


def keep_worst(one: _Worst, other: _Worst) -> _Worst:
    """Merge two lists of `sort_worst`."""
    missed, rows, labels = (np.concatenate(pair) for pair in zip(one[:3], other[:3], strict=True))
    return sort_worst(missed, rows, labels, one[3])


def sort_worst(missed: FloatArray, rows: IntArray, labels: IntArray, most: int) -> _Worst:
    """Return the ``most`` largest residuals, their rows and labels, and ``most`` itself."""
    order = np.lexsort((rows, -missed))[:most]
    return missed[order], rows[order], labels[order], most


def column_entries(A: DataMatrix, labels: Vector, V: FloatArray, squares: FloatArray) -> Vector:
    r"""Return the entries :math:`x_i = (a_i^\top v_j)^+ / \sigma_j` of X, with unit columns.

    A group without a positive entry gets equal entries.
    """
    raw = A.map_rows(_raw_entries, labels, args=(V, reciprocals(np.sqrt(squares))))
    return normalized_entries(A, labels, raw, len(V))


def normalized_entries(A: DataMatrix, labels: Vector, raw: Vector, k: int) -> Vector:
    """Return the positive parts of these entries, with unit columns, without a pass over A.

    A group without a positive entry gets equal entries.
    """
    raw = A.map_vectors(_positive, raw)
    sums = A.reduce_rows(sum_squares, labels, raw, args=(k,), vectors_only=True)
    counts = count_rows(A, labels, k)
    args = (reciprocals(np.sqrt(sums)), counts, A.dtype)
    return A.map_vectors(_unit_entries, labels, raw, args=args)


def _positive(raw: FloatArray) -> FloatArray:
    return np.maximum(raw, 0.0)


def _raw_entries(
    A: MemoryMatrix, labels: IntArray, V: FloatArray, inverse: FloatArray
) -> FloatArray:
    dots = np.maximum(A.group_dots(labels, V), 0.0)
    return np.where(labels >= 0, dots * inverse[labels], 0.0)


def _unit_entries(
    labels: IntArray, raw: FloatArray, inverse: FloatArray, counts: IntArray, dtype: Any
) -> FloatArray:
    # A group without a positive entry gets 1 / sqrt(number of rows) in each row.
    level = np.where(inverse > 0, 0.0, 1.0 / np.sqrt(np.maximum(counts, 1)))
    entries = np.where(labels >= 0, raw * inverse[labels] + level[labels], 0.0)
    return entries.astype(dtype, copy=False)


def support_labels(A: DataMatrix, labels: Vector, weights: Vector) -> Vector:
    """Return the labels of the rows with a positive weight, -1 for the others."""
    return A.map_vectors(_support_labels, labels, weights)


def _support_labels(labels: IntArray, weights: FloatArray) -> IntArray:
    return np.where(weights > 0, labels, -1)


def stationarity_of_groups(A: DataMatrix, labels: Vector, weights: Vector, W: FloatArray) -> float:
    r"""Return the residual of (2.6) in S+ for :math:`\|A - XX^\top A\|_F^2`, with W = (A'X)'.

    On the support the gradient is :math:`2 (x_i \|w_j\|^2 - a_i^\top w_j)` and tangent; rows
    outside the support have no positive score. This takes one pass over A.
    """
    sizes = np.einsum("jc,jc->j", W, W)
    total = A.reduce_rows(_gradient_squares, labels, weights, args=(W, sizes))
    return 2.0 * math.sqrt(float(total))


def _gradient_squares(
    A: MemoryMatrix, labels: IntArray, weights: FloatArray, W: FloatArray, sizes: FloatArray
) -> float:
    gradient = weights * sizes[labels] - A.group_dots(labels, W)
    gradient[labels < 0] = 0.0
    return float(gradient @ gradient)
