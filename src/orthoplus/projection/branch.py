"""Branch and bound for the projection onto S+, on the part that the first bound leaves open.

A node is the relaxation of a `Core` with limits on how many rows of a kind a column may have. Where
the optimum of the relaxation gives a column a broken number of them, one child rounds the limit
down, the other up; equal rows are told apart by neither. A column that is left without a positive
entry takes one row at its cost: one child gives it the row that it would take, the other forbids
this. The node of largest bound, which is the bound of all, is always the next one.
"""

import heapq
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from orthoplus import kernels
from orthoplus.projection.core import Core
from orthoplus.projection.dual import ROUNDING
from orthoplus.projection.lattice import Lattice, find_lattice, solve_chords
from orthoplus.projection.passes import Budget, Search
from orthoplus.projection.repartition import repartition
from orthoplus.projection.search import Assignment
from orthoplus.protocols import BoolArray, FloatArray

MAX_SWEEPS = 2000  # over the pairs of one node
# The relaxation of a node is solved to this part of the gap.
RELAXATION_SHARE = 0.01
# Counts nearer than this to a whole number are whole.
WHOLE = 1e-7
# Shares of so many nodes are kept as starts for their children, in numbers.
MAX_STORED = 1 << 25


@dataclass(frozen=True)
class _Node:
    """Decisions on the way from the root, and the relaxation there."""

    bound: float = np.inf
    limits: tuple[tuple[int, int, float], ...] = ()  # (0 for low or 1 for high, pair, count)
    taken: tuple[tuple[int, int], ...] = ()  # (kind, column): one row of the kind for the column
    forbidden: tuple[tuple[int, int], ...] = ()
    share: FloatArray | None = None  # of the parent, to start from
    split: "_Split | None" = None  # what to branch on; None: nothing is left


@dataclass(frozen=True)
class _Split:
    """A pair with a broken count, or a kind of which a column without positive entry takes one."""

    pair: int = -1
    count: float = 0.0
    kind: int = -1
    column: int = -1


@dataclass
class _Tree:
    """The open nodes, the best assignment, and the largest bound of the nodes that are done."""

    core: Core
    best: Assignment
    budget: Budget
    heap: list[tuple[float, int, _Node]] = field(default_factory=list)
    lattice: Lattice | None = None
    weights: FloatArray = field(default_factory=lambda: np.zeros(0))  # of the last node
    done: float = -np.inf
    stored: int = 0
    order: count = field(default_factory=count)  # type: ignore[type-arg]

    @property
    def bound(self) -> float:
        """The bound of all assignments that are left."""
        return max(-self.heap[0][0] if self.heap else -np.inf, self.done, self.best.value)

    def add(self, node: _Node) -> None:
        if node.split is None or self.is_closed(node.bound):
            self.done = max(self.done, node.bound)
        else:
            heapq.heappush(self.heap, (-node.bound, next(self.order), node))

    def is_closed(self, bound: float) -> bool:
        return bound - self.best.value <= self.budget.closing_gap(bound, self.best)


def branch(core: Core, search: Search, budget: Budget) -> Search:
    """The best assignment and the bound after branching, as far as the budget goes."""
    tree = _Tree(core, search.best, budget, lattice=find_lattice(core))
    tree.add(_visit(tree, _Node(bound=search.bound)))
    clock = (budget, search.passes + 1.0)
    tree.best, passes = repartition(core, tree.weights, tree.best, tree.bound, clock)
    while tree.heap and not tree.is_closed(tree.bound) and not budget.is_spent(passes):
        _, _, node = heapq.heappop(tree.heap)
        if tree.is_closed(node.bound):
            tree.done = max(tree.done, node.bound)
            continue
        for child in _children(node):
            tree.add(_visit(tree, child))
            passes += 1.0
    bound = min(tree.bound, search.bound)
    return replace(search, best=tree.best, bound=max(bound, tree.best.value), passes=passes)


def _children(node: _Node) -> list[_Node]:
    split = node.split
    assert split is not None
    if split.pair < 0:
        pick = (split.kind, split.column)
        return [
            replace(node, taken=(*node.taken, pick)),
            replace(node, forbidden=(*node.forbidden, pick)),
        ]
    down, up = (1, split.pair, split.count), (0, split.pair, split.count + 1.0)
    return [replace(node, limits=(*node.limits, limit)) for limit in (up, down)]


def _visit(tree: _Tree, node: _Node) -> _Node:
    """Solve the relaxation of the node: its bound, an assignment, and what to branch on."""
    core = tree.core
    state = _materialize(core, node)
    if state is None:
        return replace(node, bound=-np.inf, split=None)
    limits, counts, share = state
    pairs = core.pairs._replace(share=share)
    k = core.n_columns
    sums = np.bincount(pairs.column, pairs.share * pairs.gain, minlength=k).astype(np.float64)
    tol = RELAXATION_SHARE * max(node.bound - tree.best.value, 0.0)
    tol = max(tol, ROUNDING * abs(tree.best.value))
    kernels.balance_counts_into(pairs, limits, sums, MAX_SWEEPS, tol)
    sums = np.bincount(pairs.column, pairs.share * pairs.gain, minlength=k).astype(np.float64)
    positive = np.bincount(pairs.column, (limits[1] > 0.0) * pairs.gain, minlength=k) > 0.0
    bound, weights, prices = _dual(core, limits, counts, sums, positive)
    given, total, needy = _give_rows(core, node, limits, counts, prices, positive)
    if given is None:
        return replace(node, bound=-np.inf, split=None)
    bound = min(node.bound, bound + total)
    tree.best, tree.weights = core.improve(_whole(core, share), weights, tree.best), weights
    if tree.lattice is not None and len(needy) == 0 and not tree.is_closed(bound):
        chords = solve_chords(core, tree.lattice, limits, counts, sums, positive)
        if chords is not None:
            bound, share = min(bound, chords[0] + total), chords[1]
            tree.best = core.improve(_whole(core, share), weights, tree.best)
    split = _split(core, share, weights)
    if len(needy):
        split = _Split(kind=int(given[0]), column=int(needy[0]))
    keep = tree.stored < MAX_STORED
    tree.stored += len(share) if keep else 0
    return replace(node, bound=bound, share=share if keep else None, split=split)


def _materialize(core: Core, node: _Node) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Limits of the pairs, counts of the kinds and shares to start from; None: nothing is left."""
    pairs, kind = core.pairs, core.kind
    counts = core.counts.copy()
    for c, _ in node.taken:
        counts[c] -= 1.0
    limits = np.stack([np.zeros(len(kind)), counts[kind]])
    for side, pair, value in node.limits:
        if side == 0:
            limits[0, pair] = max(limits[0, pair], value)
        else:
            limits[1, pair] = min(limits[1, pair], value)
    changed = {int(kind[pair]) for _, pair, _ in node.limits} | {c for c, _ in node.taken}
    share = (pairs.share if node.share is None else node.share).copy()
    for c in changed:
        here = slice(pairs.start[c], pairs.start[c + 1])
        low, high = limits[:, here]
        if (low > high).any() or low.sum() > counts[c] or counts[c] < 0.0:
            return None
        if high.sum() < counts[c]:
            if not core.can_force:
                return None
            counts[c] = high.sum()
        limits[1, here] = high = np.minimum(high, counts[c] - low.sum() + low)
        share[here] = _fit(share[here], low, high, float(counts[c]))
    return limits, counts, share


def _fit(share: FloatArray, low: FloatArray, high: FloatArray, total: float) -> FloatArray:
    """Shares within the limits with this sum, near to what they were."""
    share = np.clip(share, low, high)
    for p in range(len(share)):
        missing = total - share.sum()
        share[p] = np.clip(share[p] + missing, low[p], high[p])
    return share


def _dual(
    core: Core, limits: FloatArray, counts: FloatArray, sums: FloatArray, positive: BoolArray
) -> tuple[float, FloatArray, FloatArray]:
    """D(w) rounded up, w at its best scale, and what a row of each kind is worth at least."""
    weights = 0.5 / np.sqrt(np.where(sums > 0.0, sums, np.inf))
    least = weights[weights > 0.0].max(initial=1.0)
    weights = np.where(sums > 0.0, weights, least)
    tops, last = kernels.capped_tops(core.pairs, limits, counts, weights)
    earned, inverse = float(tops.sum()), float((1.0 / weights[positive]).sum())
    if earned <= 0.0:
        return 0.0, weights, last
    scale = np.sqrt(inverse / (4.0 * earned))
    bound = np.sqrt(earned * inverse) * (1.0 + ROUNDING)
    return float(bound), weights * scale, last * scale


def _give_rows(core, node, limits, counts, prices, positive):
    """The kinds that columns without positive entry take, what that adds to the bound, and them."""
    value = sum(core.entries[c, j] for c, j in node.taken)
    needy = np.setdiff1d(np.flatnonzero(~positive), [j for _, j in node.taken])
    if len(needy) == 0:
        return needy, value, needy
    if not core.can_force:
        return None, -np.inf, needy
    free = counts_free(core, limits, node)
    merit = core.entries[:, needy] - prices[:, None]
    for c, j in node.forbidden:
        merit[c, needy == j] = -np.inf
    copies = np.minimum(free, len(needy)).astype(np.int64)
    kinds = np.repeat(np.arange(len(copies)), copies)
    kinds = kinds[np.isfinite(merit[kinds]).any(axis=1)]
    from scipy.optimize import linear_sum_assignment  # slow to import

    if len(kinds) < len(needy):
        return None, -np.inf, needy
    cost = merit[kinds]
    least = np.min(cost, where=np.isfinite(cost), initial=0.0)
    span = np.abs(cost[np.isfinite(cost)]).max() + abs(least) + 1.0
    at, which = linear_sum_assignment(
        np.where(np.isfinite(cost), cost, -4.0 * len(needy) * span), maximize=True
    )
    if not np.isfinite(cost[at, which]).all():
        return None, -np.inf, needy
    given = np.empty(len(needy), dtype=np.int64)
    given[which] = kinds[at]
    total = float(cost[at, which].sum())
    size = np.abs(core.entries[given, needy]).sum() + prices[given].sum()
    return given, value + total + ROUNDING * (size + abs(value)), needy


def counts_free(core, limits, node):
    counts = core.counts.copy()
    for c, _ in node.taken:
        counts[c] -= 1.0
    return counts - np.bincount(core.kind, limits[0], minlength=len(counts))


def _whole(core: Core, share: FloatArray) -> FloatArray:
    """Whole counts near the shares, with the same sum for each kind."""
    whole = np.floor(share + WHOLE)
    kind = core.kind
    missing = np.rint(np.bincount(kind, share - whole, minlength=len(core.counts)))
    order = np.lexsort((-(share - whole), kind))
    rank = np.arange(len(kind)) - core.pairs.start[kind[order]]
    whole[order] += rank < missing[kind[order]]
    return whole


def _split(core: Core, share: FloatArray, weights: FloatArray) -> _Split | None:
    """The pair of the broken count that costs most to round, None if all counts are whole.

    Moving d = part (1 - part) P_ij in or out of S_j costs w_j (d / (2 sqrt(S_j)))^2 = w_j^3 d^2
    to second order, as w_j = 1 / (2 sqrt(S_j)).
    """
    pairs = core.pairs
    whole = np.floor(share + WHOLE)
    part = share - whole
    part[part < WHOLE] = 0.0
    moved = weights[pairs.column] * (part * (1.0 - part) * pairs.gain)
    cost = weights[pairs.column] * moved**2
    if not cost.any():
        return None
    pair = int(np.argmax(np.bincount(core.kind, cost)[core.kind] + 1e-9 * cost))
    here = slice(pairs.start[core.kind[pair]], pairs.start[core.kind[pair] + 1])
    pair = here.start + int(np.argmax(part[here] * (1.0 - part[here])))
    return _Split(pair=pair, count=float(whole[pair]))
