r"""Redistribute the rows of two columns, beyond what moves of one or two rows can find.

Rows that are nearly proportional (as for C of rank one) turn the projection into a number
partitioning problem: the bound is almost attained, but only by few of very many assignments. For
two columns j and l the value is :math:`\sqrt{S_j} + \sqrt{S_l}`. All subsets of about twenty of
their rows are unions of subsets of two halves (meet in the middle): with one half sorted by its
contribution to :math:`S_j`, bisection finds the partner that brings a subset of the other half
closest to the optimal :math:`S_j`.
"""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.projection.core import Core
from orthoplus.projection.passes import Budget
from orthoplus.projection.search import Assignment

HALF_ROWS = 11  # half the number of rows redistributed at once
NEIGHBORS = 2  # number of partners tried on both sides of the best one
MAX_ENTRIES = 1 << 20  # largest size of the table of gains
MIN_ROWS = 5  # for fewer rows, moves of one or two rows suffice
PATIENCE, MIN_TRIALS = 3, 24  # consecutive failures per column, and in total, before giving up
SHUFFLED_ROWS = 6
MIN_GAIN = 1e-15  # smallest gain relative to the value, above rounding


@dataclass
class _OpenRows:
    """Open rows with their columns, and the gain of each row in each column (0 without a pair)."""

    gains: FloatArray
    column: IntArray
    fixed: FloatArray  # S_j of the decided rows

    @property
    def sums(self) -> FloatArray:
        own = self.gains[np.arange(len(self.column)), self.column]
        return np.asarray(
            self.fixed + np.bincount(self.column, own, minlength=len(self.fixed)), dtype=np.float64
        )


def repartition(
    core: Core,
    weights: FloatArray,
    best: Assignment,
    bound: float,
    clock: tuple[Budget, float],
    rng: np.random.Generator | None = None,
) -> tuple[Assignment, float]:
    """Redistribute rows of two columns at a time while it gains; return the best and the passes.

    ``weights`` are dual weights w at their best scale, ``clock`` has the budget and the number of
    passes so far. With ``rng``, some rows are moved to random columns first, to leave the local
    optimum of the last call.
    """
    budget, passes = clock
    open_rows = _open_rows(core, best)
    if open_rows is None:
        return best, passes
    if rng is not None:
        open_rows.column = _shuffled(open_rows, rng)
    rng, k = rng or np.random.default_rng(0), core.n_columns
    tried: FloatArray = np.zeros((k, k))
    tried[np.tril_indices(k)] = np.inf
    vain = 0
    while vain < max(PATIENCE * k, MIN_TRIALS) and not budget.is_spent(passes):
        if bound - best.value <= budget.closing_gap(bound, best):
            break
        # S_j = 1 / (4 w_j^2) would be optimal. Balancing the excess of two columns, in units of the
        # value, gains about the square of their difference.
        beyond = weights * open_rows.sums - 0.25 / weights
        merit = np.abs(beyond[:, None] - beyond) / (1.0 + tried)
        j, m = (int(c) for c in np.unravel_index(np.argmax(merit), merit.shape))
        if merit[j, m] == 0.0:
            break
        gain, column = _redistribute(open_rows, j, m, rng)
        if gain > MIN_GAIN * best.value:
            open_rows.column = column
            best, passes, vain = core.adopt(column, best), passes + 1.0, 0
            for c in (j, m):
                tried[c, c + 1 :] = tried[:c, c] = 0.0
        else:
            tried[j, m] = 2.0 * tried[j, m] + 1.0
            vain, passes = vain + 1, passes + float(gain >= 0.0)
    return best, passes


def _shuffled(open_rows: _OpenRows, rng: np.random.Generator) -> IntArray:
    """Return the columns of the rows after a few random moves that leave no column empty."""
    column = open_rows.column.copy()
    for row in rng.permutation(len(column))[:SHUFFLED_ROWS]:
        others = np.flatnonzero(open_rows.gains[row] > 0.0)
        is_last = open_rows.fixed[column[row]] <= 0.0 and np.sum(column == column[row]) == 1
        column[row] = column[row] if is_last else rng.choice(others)
    return column


def _open_rows(core: Core, best: Assignment) -> _OpenRows | None:
    """Return the gains of the open rows, or None if there are too many or a column is empty."""
    rows = core.members[core.members >= 0]
    if len(rows) * core.n_columns > MAX_ENTRIES or not (best.sums > 0.0).all():
        return None
    gains = core.gains_of_rows()
    column = best.labels[rows]
    if (column < 0).any() or not (gains[np.arange(len(rows)), column] > 0.0).all():
        return None
    return _OpenRows(gains, column.copy(), core.fixed_sums())


def _redistribute(
    open_rows: _OpenRows, j: int, m: int, rng: np.random.Generator
) -> tuple[float, IntArray]:
    """Redistribute some rows of columns j and m optimally; return the gain, -1 for too few rows."""
    gains, column, sums = open_rows.gains, open_rows.column, open_rows.sums
    may = ((column == j) | (column == m)) & (gains[:, j] > 0.0) & (gains[:, m] > 0.0)
    rows = np.flatnonzero(may)
    if len(rows) < MIN_ROWS:
        return -1.0, column
    rows = rng.permutation(rows)[: 2 * HALF_ROWS]
    to_j, to_m = gains[rows, j], gains[rows, m]
    left = [_sum_without(open_rows, rows, c) for c in (j, m)]
    half = len(rows) // 2
    first, second = _subset_sums(to_j[:half], to_m[:half]), _subset_sums(to_j[half:], to_m[half:])
    order = np.argsort(second[0], kind="stable")
    # w_j S_j + w_m S_m hardly changes at the weights of these sums; this gives the optimal S_j.
    ratio = float(np.sqrt(sums[j]) / np.sqrt(sums[m]))  # w_m / w_j
    wanted = (sums[j] + ratio * sums[m]) / (1.0 + 1.0 / ratio)
    at = np.searchsorted(second[0][order], wanted - left[0] - first[0])
    best, found = np.sqrt(sums[j]) + np.sqrt(sums[m]), None
    before = best
    for shift in range(-NEIGHBORS, NEIGHBORS):
        partner = order[np.clip(at + shift, 0, len(order) - 1)]
        own = left[0] + first[0] + second[0][partner]
        other = left[1] + first[1] + second[1][partner]
        value = np.where((own > 0.0) & (other > 0.0), np.sqrt(own) + np.sqrt(other), -np.inf)
        top = int(np.argmax(value))
        if value[top] > best:
            best, found = float(value[top]), (top, int(partner[top]))
    if found is None:
        return 0.0, column
    bits = np.concatenate([_bits(found[0], half), _bits(found[1], len(rows) - half)])
    column = column.copy()
    column[rows] = np.where(bits, j, m)
    return float(best - before), column


def _sum_without(open_rows: _OpenRows, rows: IntArray, j: int) -> float:
    """Return S_j without ``rows``, summed from scratch; a difference would not be exactly 0."""
    is_left = open_rows.column == j
    is_left[rows] = False
    return float(open_rows.fixed[j] + open_rows.gains[is_left, j].sum())


def _subset_sums(to_j: FloatArray, to_m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, for each subset as a bit mask, its sum in column j and that of the rest in m."""
    mine, others = np.zeros(1), np.zeros(1)
    for p_j, p_m in zip(to_j, to_m, strict=True):
        mine = np.concatenate([mine, mine + p_j])
        others = np.concatenate([others + p_m, others])
    return mine, others


def _bits(number: int, size: int) -> IntArray:
    return (number >> np.arange(size)) & 1 == 1
