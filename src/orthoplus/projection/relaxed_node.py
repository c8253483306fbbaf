r"""The relaxation of a `Core` under decisions, and its bound: one node of branch and bound.

With :math:`l_{cj} \le z_{cj} \le h_{cj}` rows of kind c for column j, the dual of the relaxation is

.. math:: D(w) = \Big(\sum_c \max_z \sum_j z_{cj} w_j P_{cj} \cdot \sum_j 1 / w_j\Big)^{1/2}

over the columns that can have a positive entry. Each other column takes one row i, of kind c, which
adds :math:`C_{ij}` minus the value of the last row of that kind in the sum above.
"""

from dataclasses import dataclass

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.projection.core import Core
from orthoplus.projection.dual import ROUNDING

MAX_SWEEPS = 2000  # largest number of sweeps over the pairs of a node
COUNT_ROUNDING = 1e-12  # relative rounding error of the sum of the shares of a kind


@dataclass(frozen=True)
class Decisions:
    """The decisions on the path from the root to a node.

    Attributes
    ----------
    limits : tuple of (side, pair, count)
        Side 0 means that the pair has at least ``count`` rows, side 1 at most.
    taken, forbidden : tuple of (kind, column)
        The column, which has no positive entry, must or must not take a row of that kind.
    share : ndarray, optional
        Shares to start from.
    """

    limits: tuple[tuple[int, int, float], ...] = ()
    taken: tuple[tuple[int, int], ...] = ()
    forbidden: tuple[tuple[int, int], ...] = ()
    share: FloatArray | None = None


@dataclass(frozen=True)
class Relaxed:
    """An approximate optimum of the relaxation, and a bound that holds for all assignments."""

    limits: FloatArray  # lower and upper limits of the pairs
    counts: FloatArray  # numbers of rows of the kinds, without rows that are taken
    share: FloatArray
    sums: FloatArray
    positive: BoolArray  # columns that can have a positive entry
    bound: float  # bound for these columns, rounded up
    weights: FloatArray  # w at its best scale
    last: FloatArray  # smallest value of a row of each kind at w


@dataclass(frozen=True)
class Given:
    """Contribution of columns without a positive entry, and their undecided (kind, column)."""

    value: float
    picks: tuple[tuple[int, int], ...] = ()


def relax(core: Core, decisions: Decisions, tol: float) -> Relaxed | None:
    """Solve the relaxation to the accuracy ``tol``; return None if no assignment is feasible."""
    state = _apply(core, decisions)
    if state is None:
        return None
    limits, counts, share = state
    pairs, k = core.pairs._replace(share=share), core.n_columns
    sums = np.bincount(pairs.column, share * pairs.gain, minlength=k).astype(np.float64)
    kernels.balance_counts_into(pairs, limits, sums, MAX_SWEEPS, tol)
    sums = np.bincount(pairs.column, share * pairs.gain, minlength=k).astype(np.float64)
    positive = np.bincount(pairs.column, (limits[1] > 0.0) * pairs.gain, minlength=k) > 0.0
    weights = 0.5 / np.sqrt(np.where(sums > 0.0, sums, sums.max(initial=0.0) or 1.0))
    tops, last = kernels.capped_tops(pairs, limits, counts, weights)
    earned, inverse = float(tops.sum()), float((1.0 / weights[positive]).sum())
    scale = np.sqrt(inverse / (4.0 * earned)) if earned > 0.0 else 1.0
    bound = float(np.sqrt(earned * inverse)) * (1.0 + ROUNDING)
    return Relaxed(limits, counts, share, sums, positive, bound, weights * scale, last * scale)


def _apply(core: Core, decisions: Decisions) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return limits of the pairs, counts of the kinds and feasible shares; None if infeasible."""
    pairs, kind, counts = core.pairs, core.kind, core.counts.copy()
    for c, _ in decisions.taken:
        counts[c] -= 1.0
    limits = np.stack([np.zeros(len(kind)), np.maximum(counts, 0.0)[kind]])
    for side, pair, value in decisions.limits:
        pick = min if side else max
        limits[side, pair] = pick(limits[side, pair], value)
    low, high = limits
    n_kinds = len(counts)
    least = np.bincount(kind, low, minlength=n_kinds)
    most = np.where(np.diff(pairs.start) > 0, np.bincount(kind, high, minlength=n_kinds), np.inf)
    if (counts < least).any() or (low > high).any():
        return None
    if not core.can_force and (most < counts).any():
        return None
    counts = np.minimum(counts, most)  # surplus rows may be taken by some column
    # A pair cannot have the rows that the lower limits reserve for other pairs of its kind.
    np.minimum(high, (counts - least)[kind] + low, out=high)
    share = pairs.share if decisions.share is None else decisions.share
    share = np.minimum(np.maximum(share, low), high)
    missing = counts - np.bincount(kind, share, minlength=n_kinds)
    missing[np.diff(pairs.start) == 0] = 0.0
    for c in np.flatnonzero(np.abs(missing) > COUNT_ROUNDING).tolist():
        here = slice(pairs.start[c], pairs.start[c + 1])
        share[here] = _fit(share[here], low[here], high[here], float(counts[c]))
    return limits, counts, share


def _fit(share: FloatArray, low: FloatArray, high: FloatArray, total: float) -> FloatArray:
    """Adjust the shares, the first ones first, to lie within the limits and have this sum."""
    share = np.minimum(np.maximum(share, low), high)
    missing = total - share.sum()
    room = high - share if missing > 0.0 else share - low
    before = np.cumsum(room) - room
    change = np.minimum(np.maximum(abs(missing) - before, 0.0), room)
    return np.asarray(share + np.sign(missing) * change)


def give_rows(core: Core, decisions: Decisions, relaxed: Relaxed) -> Given | None:
    """Return the best distinct rows for the columns without a positive entry, or None."""
    value = float(sum(core.entries[pick] for pick in decisions.taken))
    size = float(sum(abs(core.entries[pick]) for pick in decisions.taken))
    needy = np.setdiff1d(np.flatnonzero(~relaxed.positive), [j for _, j in decisions.taken])
    if len(needy) == 0:
        return Given(value + ROUNDING * size)
    if not core.can_force:
        return None
    merit = core.entries[:, needy] - relaxed.last[:, None]
    for c, j in decisions.forbidden:
        merit[c, needy == j] = -np.inf
    kinds = _free_rows(core, decisions, relaxed, merit)
    matched = _match(merit[kinds])
    if matched is None:
        return None
    given = kinds[matched]
    total = float(merit[given, np.arange(len(needy))].sum())
    size += float(np.abs(core.entries[given, needy]).sum() + relaxed.last[given].sum())
    picks = tuple((int(c), int(j)) for c, j in zip(given, needy, strict=True))
    return Given(value + total + ROUNDING * size, picks)


def _free_rows(core: Core, decisions: Decisions, relaxed: Relaxed, merit: FloatArray) -> IntArray:
    """Return the kinds of rows that may be taken, with at most one equal row per column."""
    free = core.counts - np.bincount(core.kind, relaxed.limits[0], minlength=len(core.counts))
    for c, _ in decisions.taken:
        free[c] -= 1.0
    free[~np.isfinite(merit).any(axis=1)] = 0.0
    copies = np.minimum(free, merit.shape[1]).astype(np.int64)
    return np.repeat(np.arange(len(free)), copies)


def _match(merit: FloatArray) -> IntArray | None:
    """Return the row of each column in the best matching, or None if none is allowed."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    if merit.shape[0] < merit.shape[1]:
        return None
    try:
        rows, columns = linear_sum_assignment(merit, maximize=True)
    except ValueError:  # every matching contains a forbidden pair
        return None
    return np.asarray(rows[np.argsort(columns)])
