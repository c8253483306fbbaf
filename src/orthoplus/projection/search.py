"""Assignments of whole rows for the projection onto S+: rounding, repair and local search.

An assignment is a vector of labels, the column of each row or -1 for none. It represents the best X
with that support, whose value `evaluate` computes.
"""

from dataclasses import dataclass

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.pairs import Pairs
from orthoplus.projection.dual import Shares, row_of_pairs

# Number of rows that are rounded, and whose sums are added, at a time.
ROUNDED_ROWS = 1 << 14


@dataclass(frozen=True)
class Assignment:
    """Labels (n), S_j = sum of P_ij over the rows of j (k), and the value of the best X."""

    labels: IntArray
    sums: FloatArray
    value: float

    @property
    def size(self) -> float:
        """Return sum_j |<c_j, x_j>|, the scale of rounding errors.

        It exceeds |value| if a column has a negative value. Columns of positive value contribute
        sum_j sqrt(S_j); the rest of the value comes from the others.
        """
        return 2.0 * float(np.sqrt(self.sums).sum()) - self.value


NO_ASSIGNMENT = Assignment(np.zeros(0, dtype=np.int64), np.zeros(0), -np.inf)


def row_weights(C: FloatArray, labels: IntArray) -> FloatArray:
    """Return the entry of each row in the best X with this support; every column needs a row.

    x_j = c_j^+ / ||c_j^+|| over the rows of j or, if c_j^+ = 0 there, the unit vector of the
    largest entry.
    """
    rows = np.flatnonzero(labels >= 0)
    column, entry = labels[rows], _entries(C, labels)
    peak = np.zeros(C.shape[1])
    np.maximum.at(peak, column, entry)
    weight = (
        np.maximum(entry, 0.0) / np.where(peak > 0.0, peak, 1.0)[column]
    )  # scaled, to avoid underflow
    length = np.sqrt(np.bincount(column, weights=weight * weight, minlength=len(peak)))
    weight /= np.where(peak > 0.0, length, 1.0)[column]
    for j in np.flatnonzero(peak == 0.0):
        mine = np.flatnonzero(column == j)
        weight[mine[np.argmax(entry[mine])]] = 1.0
    weights = np.zeros(len(labels))
    weights[rows] = weight
    return weights


def evaluate(C: FloatArray, labels: IntArray) -> Assignment:
    """Evaluate the assignment with its value <C, X>; rows of weight 0 lose their label."""
    weights = row_weights(C, labels)
    labels = np.where(weights > 0.0, labels, -1)
    parts = weights[labels >= 0] * _entries(C, labels)
    values = np.bincount(labels[labels >= 0], weights=parts, minlength=C.shape[1])
    return Assignment(labels, np.maximum(values, 0.0) ** 2, float(values.sum()))


def assigned_sums(C: FloatArray, labels: IntArray) -> FloatArray:
    """Return S_j, the sum of P_ij over the rows of j."""
    gain = np.maximum(_entries(C, labels), 0.0) ** 2
    sums = np.bincount(labels[labels >= 0], weights=gain, minlength=C.shape[1])
    return sums.astype(np.float64)  # bincount of nothing returns integers


def _entries(C: FloatArray, labels: IntArray) -> FloatArray:
    """Return C_{i, label(i)} of the rows that have a label, in float64."""
    rows = np.flatnonzero(labels >= 0)
    return np.asarray(C[rows, labels[rows]], dtype=np.float64)


def give_rows(C: FloatArray, columns: IntArray, price: FloatArray) -> tuple[IntArray, float]:
    """Find distinct rows i(j) for ``columns`` that maximize sum_j C_{i(j), j} - price_{i(j)}.

    Only the best len(columns) rows of each column are relevant; among these it is a linear
    assignment problem. A row of infinite price is never used. Return the rows and the maximum.
    """
    m = len(columns)
    candidates = []
    for j in columns:
        merit = C[:, j] - price
        candidates.append(np.argpartition(-merit, min(m, len(merit)) - 1)[:m])
    rows = np.unique(np.concatenate(candidates))
    rows = rows[np.isfinite(price[rows])]
    merit = C[np.ix_(rows, columns)] - price[rows, None]
    from scipy.optimize import linear_sum_assignment  # slow to import

    at, which = linear_sum_assignment(merit, maximize=True)
    given = np.empty(m, dtype=np.int64)
    given[which] = rows[at]
    return given, float(merit[at, which].sum())


def fill_columns(C: FloatArray, labels: IntArray) -> IntArray:
    """Assign a row to each empty column at the smallest loss, without emptying another column.

    Row i of column l contributes sqrt(S_l) - sqrt(S_l - P_il) there; the largest row of each column
    is never moved.
    """
    n, k = C.shape
    rows = np.flatnonzero(labels >= 0)
    missing = np.flatnonzero(np.bincount(labels[rows], minlength=k) == 0)
    if len(missing) == 0:
        return labels
    entry = _entries(C, labels)
    gain = np.maximum(entry, 0.0) ** 2
    total = np.bincount(labels[rows], weights=gain, minlength=k)[labels[rows]]
    price = np.zeros(n)
    price[rows] = np.sqrt(total) - np.sqrt(np.maximum(total - gain, 0.0))
    order = np.lexsort((-entry, labels[rows]))
    is_first = np.diff(labels[rows][order], prepend=-1) != 0
    price[rows[order[is_first]]] = np.inf
    labels = labels.copy()
    labels[give_rows(C, missing, price)[0]] = missing
    return labels


def round_shares(shares: Shares) -> IntArray:
    """Return the pair of largest share in each row, the first among ties, or -1 without shares."""
    start, share = shares.pairs.start, shares.pairs.share
    chosen = np.full(len(start) - 1, -1)
    for first in range(0, len(chosen), ROUNDED_ROWS):  # in blocks, to keep few temporary arrays
        ends = start[first : first + ROUNDED_ROWS + 1]
        size = np.diff(ends)
        filled = np.flatnonzero(size > 0)
        if len(filled) == 0:
            continue
        own = share[ends[0] : ends[-1]]
        most = np.maximum.reduceat(own, (ends - ends[0])[filled])
        row = np.repeat(filled, size[filled])
        at = np.flatnonzero((own == np.repeat(most, size[filled])) & (own > 0.0))[::-1]
        chosen[first + row[at]] = ends[0] + at  # in reverse, so that the first of a row remains
    return chosen


def chosen_of_labels(pairs: Pairs, labels: IntArray) -> IntArray:
    """Return the pair of each row that belongs to its label, or -1 if there is none."""
    row = row_of_pairs(pairs)
    at = np.flatnonzero(pairs.column == labels[row])
    chosen = np.full(len(labels), -1)
    chosen[row[at]] = at
    return chosen


def labels_of_chosen(pairs: Pairs, chosen: IntArray) -> IntArray:
    """Return the column of each row's chosen pair, or -1 if there is none."""
    return np.where(chosen >= 0, pairs.column[chosen], -1) if len(pairs.column) else chosen


def chosen_sums(pairs: Pairs, chosen: IntArray, k: int) -> FloatArray:
    """Return S_j over the chosen pairs."""
    sums = np.zeros(k)
    for first in range(0, len(chosen), ROUNDED_ROWS):  # temporaries of all rows would take memory
        held = chosen[first : first + ROUNDED_ROWS]
        held = held[held >= 0]
        np.add.at(sums, pairs.column[held], pairs.gain[held])
    return sums


def local_search(
    pairs: Pairs, chosen: IntArray, k: int, sweeps: int, weights: FloatArray | None = None
) -> IntArray:
    """Make single moves, and double moves if dual ``weights`` are given, until no row moves."""
    rows = np.flatnonzero((np.diff(pairs.start) > 1) & (chosen >= 0))
    chosen, sums = chosen.copy(), chosen_sums(pairs, chosen, k)
    for _ in range(sweeps):
        moves = kernels.single_moves_into(rows, pairs, chosen, sums)
        if moves == 0 and weights is not None:
            moves = kernels.chain_moves_into(rows, pairs, chosen, sums, weights)
        if moves == 0:
            break
    return chosen
