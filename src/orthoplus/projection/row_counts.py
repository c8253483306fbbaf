r"""A sharper bound of the projection onto S+ if a column's sum depends mainly on its row count.

If the entries of C hardly differ, the sum of column j with m open rows lies in a short interval
:math:`I_{jm}`, from its m smallest to its m largest gains. For every :math:`w > 0` and every
:math:`\mu`, the value of an assignment of whole rows is at most

.. math:: \sum_i \max_j (w_j P_{ij} + \mu_j) + \sum_j \max_m (c_{jm} - \mu_j m), \qquad
          c_{jm} = \max_{S \in I_{jm}} (\sqrt S - w_j S).

The best w and :math:`\mu` are the dual of a linear program in which a column mixes points (m, S) of
a grid; the grid is refined around its solution. Without the counts, for :math:`\mu = 0`, this is
the bound D(w), which allows fractional numbers of rows.
"""

from dataclasses import dataclass, replace

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray
from orthoplus.projection.core import Core
from orthoplus.projection.dual import ROUNDING
from orthoplus.projection.program import maximize_linear
from orthoplus.projection.relaxed_node import Relaxed

MAX_ROUNDS = 4  # number of refinements of the grid of sums
# Numbers of row counts, and of sums, on both sides of those of the relaxation.
N_POINTS, N_SUMS = 2, 4
MAX_PAIRS = 1 << 14  # largest number of pairs in a linear program
WIDER = 1e-13  # relative widening of the intervals, whose ends are rounded sums


@dataclass(frozen=True)
class _Intervals:
    """The ends of I_jm for m = 0..M, NaN beyond the largest number of rows of a column."""

    low: FloatArray
    high: FloatArray

    def most(self, weights: FloatArray) -> FloatArray:
        """Return c_jm, or -inf if the interval is empty."""
        root = 0.5 / weights[:, None]
        nearest = np.clip(root * root, self.low, self.high)
        most = 0.5 * root - weights[:, None] * (np.sqrt(nearest) - root) ** 2
        return np.where(np.isnan(most), -np.inf, most)


def rows_almost_decide(core: Core) -> bool:
    """Return whether the intervals are disjoint, as for gains that hardly differ in a column."""
    is_open = core.members_of_pairs >= 0
    column, gain = core.pairs.column[is_open], core.pairs.gain[is_open]
    if not 0 < len(gain) <= MAX_PAIRS:
        return False
    most, least = np.zeros(core.n_columns), np.full(core.n_columns, np.inf)
    np.maximum.at(most, column, gain)
    np.minimum.at(least, column, gain)
    used = most > 0.0
    mean_count = float((core.members >= 0).sum()) / core.n_columns
    return bool(((most[used] - least[used]) * mean_count <= least[used]).all())


def solve_row_counts(core: Core, relaxed: Relaxed) -> Relaxed | None:
    """Solve the relaxation with integer numbers of rows; return None if that fails."""
    intervals = _intervals(core, relaxed.limits)
    width = (intervals.high - intervals.low).max(axis=1, where=~np.isnan(intervals.low), initial=0)
    found, aims = None, 0.25 / relaxed.weights**2
    for _ in range(MAX_ROUNDS):
        trial = _solve_once(core, intervals, relaxed, (aims, width / N_SUMS))
        if trial is None or (found is not None and trial.bound >= found.bound):
            break
        found, width, aims = trial, width / N_SUMS, trial.sums
    return found


def _intervals(core: Core, limits: FloatArray) -> _Intervals:
    pairs, k, base = core.pairs, core.n_columns, core.fixed_sums()
    copies = np.where(core.members_of_pairs >= 0, limits[1], 0.0).astype(np.int64)
    gains = [
        np.sort(np.repeat(pairs.gain, np.where(pairs.column == j, copies, 0))) for j in range(k)
    ]
    size = 1 + max(len(gain) for gain in gains)
    low, high = np.full((k, size), np.nan), np.full((k, size), np.nan)
    for j, gain in enumerate(gains):
        low[j, : len(gain) + 1] = base[j] + np.concatenate([[0.0], np.cumsum(gain)])
        high[j, : len(gain) + 1] = base[j] + np.concatenate([[0.0], np.cumsum(gain[::-1])])
    return _Intervals(low * (1.0 - WIDER), high * (1.0 + WIDER))


def _solve_once(
    core: Core, intervals: _Intervals, relaxed: Relaxed, grid: tuple[FloatArray, FloatArray]
) -> Relaxed | None:
    """Solve one linear program with sums on a grid, and return the bound at its dual w and mu."""
    pairs, k = core.pairs, core.n_columns
    is_open, positive = core.members_of_pairs >= 0, relaxed.positive
    solved = _solve_program(core, intervals, relaxed, grid)
    if solved is None or not (solved[1][positive] > 0.0).all():
        return None
    weights, price = np.where(positive, solved[1], relaxed.weights), solved[2]
    worth = weights[pairs.column] * pairs.gain + np.where(is_open, price[pairs.column], 0.0)
    shift = max(0.0, -float(worth[is_open].min()))  # a row with a negative value would stay unused
    worth[is_open] += shift
    tops, last = kernels.capped_tops(
        pairs._replace(gain=worth), relaxed.limits, relaxed.counts, np.ones(k)
    )
    most = intervals.most(weights)
    reached = (most - (price + shift)[:, None] * np.arange(most.shape[1])).max(axis=1)[positive]
    terms = float(np.abs(tops).sum() + np.abs(reached).sum() + (0.5 / weights[positive]).sum())
    bound = float(tops.sum() + reached.sum()) + ROUNDING * terms
    share = np.clip(solved[0], *relaxed.limits)
    sums = np.bincount(pairs.column, share * pairs.gain, k).astype(np.float64)
    return replace(relaxed, share=share, sums=sums, bound=bound, weights=weights, last=last)


def _solve_program(
    core: Core, intervals: _Intervals, relaxed: Relaxed, grid: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Solve the linear program in the counts of pairs and the weights of points (m, S) of columns.

    The constraints are: all rows of each kind are used; sum and count of a column are the weighted
    means of its points, whose weights sum to 1. Return the counts and the dual variables w and mu.
    """
    pairs, kind, k, n_kinds = core.pairs, core.kind, core.n_columns, len(relaxed.counts)
    n_pairs, is_open = len(kind), core.members_of_pairs >= 0
    m, S = _points(core, intervals, relaxed, grid)
    column = np.repeat(np.arange(k), m.shape[1])
    size, gain = float(np.sqrt(relaxed.sums.max())), float(pairs.gain[is_open].mean())  # units
    at, place = np.arange(n_pairs), n_pairs + np.arange(m.size)
    solved = maximize_linear(
        np.concatenate([np.zeros(n_pairs), np.sqrt(S.ravel()) / size]),
        [
            (kind, at, np.ones(n_pairs)),
            (n_kinds + pairs.column, at, -pairs.gain / gain),
            (n_kinds + column, place, S.ravel() / gain),
            (n_kinds + k + pairs.column, at, -is_open.astype(np.float64)),
            (n_kinds + k + column, place, m.ravel()),
            (n_kinds + 2 * k + column, place, np.ones(m.size)),
        ],
        np.concatenate([relaxed.counts, np.zeros(2 * k), np.ones(k)]),
        np.hstack([relaxed.limits, np.repeat([[0.0], [np.inf]], m.size, axis=1)]),
    )
    if solved is None:
        return None
    weights, price = solved[1][n_kinds : n_kinds + 2 * k].reshape(2, k)
    return solved[0][:n_pairs], size / gain * weights, size * price


def _points(
    core: Core, intervals: _Intervals, relaxed: Relaxed, grid: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return counts m near those of the relaxation and, for each, sums S near the target."""
    aims, step = grid
    k, pairs = core.n_columns, core.pairs
    open_share = np.where(core.members_of_pairs >= 0, relaxed.share, 0.0)
    near = np.rint(np.bincount(pairs.column, open_share, k))
    largest = (~np.isnan(intervals.low)).sum(axis=1) - 1
    m = near[:, None] + np.arange(-N_POINTS, N_POINTS + 1)
    m = np.clip(np.column_stack([m, np.zeros(k), largest]), 0, largest[:, None])
    at = (np.arange(k)[:, None], m.astype(np.int64))
    low, high = intervals.low[at][:, :, None], intervals.high[at][:, :, None]
    steps = step[:, None, None] * np.arange(-N_SUMS, N_SUMS + 1)
    # Use sums around the point of the interval closest to the target, and the ends.
    S = np.clip(np.clip(aims[:, None, None], low, high) + steps, low, high)
    S = np.concatenate([S, low, high], axis=2)
    return np.repeat(m, S.shape[2], axis=1), S.reshape(k, -1)
