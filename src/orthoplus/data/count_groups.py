r"""Groups of rows of counts: most likely groups, moves of single rows, and divergences.

A group j of rows has the column sums :math:`c_j`, of total :math:`s_j`, and the profile
:math:`p_j = c_j / s_j`. With the best factors on the groups the Kullback-Leibler divergence is

.. math:: D = \sum_{il} a_{il} \log \frac{a_{il}}{r_i p_{j(i) l}}
            = \text{const} - \sum_j g(c_j), \qquad
          g(c) = \sum_l c_l \log c_l - s \log s,

where :math:`r_i` is the sum of row i.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from orthoplus import kernels
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.data.base import DataMatrix, Vector
from orthoplus.data.dense import Dense
from orthoplus.data.groups import count_rows, give_rows, keep_worst, sort_worst
from orthoplus.data.memory import MemoryMatrix
from orthoplus.data.sparse import Sparse
from orthoplus.kernels.blocks import for_blocks

# Replaces a probability of 0: a row avoids groups in which one of its entries is impossible.
_IMPOSSIBLE = float(np.finfo(np.float64).tiny)
# Number of arrays with one number per entry that are computed from a slice of rows.
ENTRY_ARRAYS = 8
# Digits in which products of rows with equal profiles agree: float64 has 15.
_EQUAL_DIGITS = 12


def x_log_x(x: FloatArray) -> FloatArray:
    """Return x log x, with 0 log 0 = 0."""
    return np.asarray(x * np.log(np.where(x > 0.0, x, 1.0)))


def shares(sums: FloatArray) -> FloatArray:
    """Divide each row by its sum; zero rows stay zero.

    Examples
    --------
    >>> shares(np.array([[1.0, 3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.  , 0.  ]])
    """
    totals = sums.sum(axis=1, keepdims=True)
    return np.asarray(sums / np.where(totals > 0, totals, 1.0))


# Share of the overall profile mixed into a profile that judges rows it was not fitted to. Without
# it, a word that is new to a group would have the likelihood 0.
SMOOTHING = 0.1


def log_profiles(
    sums: FloatArray, smoothing: float = 0.0, mean: FloatArray | None = None
) -> FloatArray:
    r"""Return :math:`\log ((1 - \lambda) p_j + \lambda \bar p)`, k x r.

    A column that is zero in all profiles carries no information and gets 0.

    Parameters
    ----------
    sums : ndarray of shape (k, r)
        Column sums of each group.
    smoothing : float
        Weight :math:`\lambda` of the mean profile.
    mean : ndarray of shape (r,), optional
        Column sums whose profile is :math:`\bar p`; by default those of all groups together.
    """
    mean = sums.sum(axis=0) if mean is None else mean
    profiles = (1.0 - smoothing) * shares(sums) + smoothing * shares(mean[None])
    logs = np.log(np.maximum(profiles, _IMPOSSIBLE))
    logs[:, ~profiles.any(axis=0)] = 0.0
    return np.asarray(logs)


def group_divergence(sums: FloatArray) -> float:
    """Return -sum_j g(c_j), the divergence of the groups up to a constant of the data."""
    present = sums[sums > 0]  # most sums are zero and need no logarithm
    return float(x_log_x(sums.sum(axis=1)).sum() - (present * np.log(present)).sum())


def likeliest_groups(A: DataMatrix, logs: FloatArray) -> Any:
    """Return the group with the largest a_i'(log p_j) for each row, -1 for a row of zeros.

    Among groups equal up to rounding, the first is chosen. One pass over A, O(nnz k).
    """
    return A.map_rows(_likeliest_groups, args=(logs,))


def _likeliest_groups(A: MemoryMatrix, logs: FloatArray) -> IntArray:
    labels = np.empty(A.shape[0], dtype=np.int64)

    def work(number: int, rows: slice) -> None:
        part = A.rows(rows)
        own, scores = kernels.best_columns(part.matmul(logs.T))
        idle = np.flatnonzero(scores == 0)  # also rows with a single entry of probability 1
        if len(idle):
            own[idle[part.zero_rows(idle)]] = -1
        labels[rows] = own

    for_blocks(work, A.ranges(len(logs)))
    return labels


def sum_groups(A: DataMatrix, labels: Vector, k: int) -> FloatArray:
    """Return the column sums of each group, a k x r matrix in float64."""
    return A.group_sums(labels, A.map_rows(_ones), k)


def _ones(A: MemoryMatrix) -> FloatArray:
    return np.ones(len(A))


def cover_groups(A: DataMatrix, labels: Vector, sizes: Vector, k: int) -> Vector:
    """Fill each empty group with the largest row that is not the last of its group.

    ``sizes`` are the row sums. Return the new labels.
    """
    counts = count_rows(A, labels, k)
    empty = np.flatnonzero(counts == 0)
    if not len(empty):
        return labels
    most = len(empty) + k  # at most one row of each group is its last
    largest = A.reduce_rows(
        _largest_rows, labels, sizes, A.row_indices(), args=(most,), combine=keep_worst
    )
    rows: list[int] = []
    for _, row, label in zip(*largest[:3], strict=True):
        if len(rows) < len(empty) and (label < 0 or counts[label] > 1):
            rows.append(row)
            if label >= 0:
                counts[label] -= 1
    return give_rows(A, labels, np.array(rows, dtype=np.int64), empty)


def _largest_rows(
    A: MemoryMatrix, labels: IntArray, sizes: FloatArray, numbers: IntArray, most: int
) -> Any:
    return sort_worst(sizes, numbers, labels, most)


def sweep_rows(A: DataMatrix, labels: Vector, sums: FloatArray) -> Vector:
    """Return the labels after one sweep of moves of single rows, each of which decreases D.

    Each block starts from ``sums`` (k x r) and updates them by its own moves only, so a decrease of
    D with each move is guaranteed for a single block only. If no row moves, no move improves D, as
    all rows were examined at ``sums``. The last row of a group, over all blocks, never moves.
    """
    counts = count_rows(A, labels, len(sums))
    return A.map_rows(_sweep_rows, labels, args=(sums, counts))


def _sweep_rows(A: MemoryMatrix, labels: IntArray, sums: FloatArray, counts: IntArray) -> IntArray:
    moved = labels.copy()
    kernels.move_rows_into(A.csr_parts(), moved, np.ascontiguousarray(sums.T), counts.copy())
    return moved


def sweep_equal_rows(A: DataMatrix, labels: Vector, sums: FloatArray) -> Vector:
    """Return the labels after one sweep in which all rows of a group with one profile move at once.

    Copies of a row hold each other in a group: moving one of them may increase D although moving
    all of them decreases it. Rows of different blocks are not compared.
    """
    counts = count_rows(A, labels, len(sums))
    return A.map_rows(_sweep_equal_rows, labels, args=(sums, counts))


def _sweep_equal_rows(
    A: MemoryMatrix, labels: IntArray, sums: FloatArray, counts: IntArray
) -> IntArray:
    rows, first = _equal_rows(A, labels)
    if not len(rows):
        return labels
    own = np.cumsum(first) - 1
    together = labels[rows[first]]
    members = csr_array((np.ones(len(rows), A.dtype), (own, rows)), shape=(len(together), len(A)))
    # A set counts once, so that the last set of a group stays.
    present = counts - _count(labels[rows], len(counts)) + _count(together, len(counts))
    sets = members @ A.entries()
    parts = (Sparse(csr_array(sets)) if issparse(sets) else Dense(sets)).csr_parts()
    kernels.move_rows_into(parts, together, np.ascontiguousarray(sums.T), present)
    after = labels.copy()
    after[rows] = together[own]
    return after


def _equal_rows(A: MemoryMatrix, labels: IntArray) -> tuple[IntArray, BoolArray]:
    """Return the rows that equal another row of their group, set by set, and the first of each set.

    Rows with equal profiles have equal scalar products with any vector, up to rounding. If other
    rows were taken for equal, too, a sweep would only move sets of rows that are less useful.
    """
    # In the precision of float32 most rows would be taken for equal, so A is converted by slices.
    vectors = np.ones((A.shape[1], 2))
    vectors[:, 0] = np.random.default_rng(0).random(A.shape[1])
    products = np.empty((len(A), 2))
    for part in A.entry_ranges():
        products[part] = A.rows(part).entries().astype(np.float64, copy=False) @ vectors
    keys, totals = products[:, 0], products[:, 1]
    keys /= np.where(totals > 0, totals, 1.0)
    np.round(keys, _EQUAL_DIGITS, out=keys)
    order = np.lexsort((keys, labels))
    # Only neighbors in this order can be equal. `is_equal` compares each row with the one before.
    is_equal = np.zeros(len(A) + 1, dtype=bool)
    is_equal[1:-1] = np.diff(keys[order]) == 0
    is_equal[1:-1] &= np.diff(labels[order]) == 0
    is_member = is_equal[:-1] | is_equal[1:]
    return order[is_member], ~is_equal[:-1][is_member]


def _count(labels: IntArray, k: int) -> IntArray:
    """Count the labels of each of k groups."""
    return np.bincount(labels[labels >= 0], minlength=k)


def moved_range(A: DataMatrix, before: Vector, after: Vector) -> tuple[int, int]:
    """Return the first and last row whose label differs; first > last if no label differs."""
    low, high = A.reduce_rows(
        _moved_range,
        before,
        after,
        A.row_indices(),
        args=(len(A),),
        combine=_merge_ranges,
        vectors_only=True,
    )
    return int(low), int(high)


def _moved_range(before: IntArray, after: IntArray, numbers: IntArray, n: int) -> tuple[int, int]:
    moved = numbers[before != after]
    return (int(moved[0]), int(moved[-1])) if len(moved) else (n, -1)


def _merge_ranges(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return min(one[0], other[0]), max(one[1], other[1])


def keep_first_moves(A: DataMatrix, before: Vector, after: Vector, last: int) -> Vector:
    """Return the new labels up to row ``last`` and the old labels after it."""
    return A.map_rows(_keep_first_moves, before, after, A.row_indices(), args=(last,))


def _keep_first_moves(
    A: MemoryMatrix, before: IntArray, after: IntArray, numbers: IntArray, last: int
) -> IntArray:
    return np.where(numbers <= last, after, before)


def missed_of_profiles(A: DataMatrix, labels: Vector, H: FloatArray) -> float:
    r"""Return :math:`\sum_{il} a_{il} \log (a_{il} / (r_i p_{j(i) l}))`: D with the best weights.

    The profiles are the rows of H (k x r) divided by their sums. D is infinite if a row has an
    entry in a column where the profile of its group is zero. Rows with label -1 are ignored. One
    pass over A, O(nnz).
    """
    return float(A.reduce_rows(_missed_of_profiles, labels, args=(log_profiles(H), H > 0)))


def _missed_of_profiles(
    A: MemoryMatrix, labels: IntArray, logs: FloatArray, is_there: Any
) -> float:
    sizes, total = A.row_sums(), 0.0
    for part in A.entry_ranges(ENTRY_ARRAYS):
        block = A.rows(part)
        rows, columns, data = _triplets(block)
        own = labels[part][rows]
        used = (data > 0) & (own >= 0)
        rows, columns, data, own = rows[used], columns[used], data[used], own[used]
        # a log(a / 0) is infinite: the group has no count in a column where the row has one.
        if not is_there[own, columns].all():
            return np.inf
        # D = sum of a log(a / (s_i p_l)), with the row sum s_i and the profile p of the group.
        total += float((data * (np.log(data / sizes[part][rows]) - logs[own, columns])).sum())
    return max(total, 0.0)


def independence_divergence(A: DataMatrix) -> float:
    """Return the divergence of A from (row sums) x (column sums) / total, the independence model.

    It equals D for a single group. This takes two passes over A.
    """
    whole = A.map_rows(_one_group)
    return missed_of_profiles(A, whole, sum_groups(A, whole, 1))


def _one_group(A: MemoryMatrix) -> IntArray:
    return np.zeros(len(A), dtype=np.int64)


def _triplets(A: MemoryMatrix) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the row numbers, column numbers and values (in float64) of the stored entries."""
    values = A.entries()
    if issparse(values):
        rows = np.repeat(np.arange(len(A)), np.diff(values.indptr))
        return rows, values.indices, values.data.astype(np.float64)
    n, r = values.shape
    rows, columns = np.repeat(np.arange(n), r), np.tile(np.arange(r), n)
    return rows, columns, values.astype(np.float64).ravel()


def square_roots(A: MemoryMatrix) -> MemoryMatrix:
    """Return the matrix of the square roots of the entries, as sparse as A."""
    values = A.entries()
    return Sparse(values.sqrt()) if issparse(values) else Dense(np.sqrt(values))


def row_entropies(A: DataMatrix) -> Any:
    r"""Return :math:`\sum_l a_{il} \log (a_{il} / r_i)` for each row, a vector in float64."""
    return A.map_rows(_row_entropies)


def _row_entropies(A: MemoryMatrix) -> FloatArray:
    totals = -x_log_x(A.row_sums())
    for part in A.entry_ranges(ENTRY_ARRAYS):
        rows, _, data = _triplets(A.rows(part))
        totals[part] += np.bincount(rows, x_log_x(data), minlength=part.stop - part.start)
    return totals
