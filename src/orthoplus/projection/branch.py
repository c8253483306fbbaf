"""Branch and bound for the projection onto S+, on the part that the first bound leaves undecided.

A node is the relaxation of a `Core` with limits on the number of rows of a kind in each column. If
the relaxation assigns a fractional number to a column, one child rounds the limit down and the
other rounds it up, so that equal rows are never distinguished. A column without a positive entry
takes one row at its cost: one child assigns the row that it would take, the other forbids it.
The next node is always the one with the largest bound, which is the bound of the whole tree. See
`relaxed_node` for the bound of a node.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

import numpy as np

from orthoplus.core.types import FloatArray
from orthoplus.kernels.pairs import TINY
from orthoplus.projection.core import Core
from orthoplus.projection.dual import ROUNDING
from orthoplus.projection.lattice import find_lattice, solve_chords
from orthoplus.projection.passes import Budget, Search
from orthoplus.projection.relaxed_node import Decisions, Relaxed, give_rows, relax
from orthoplus.projection.repartition import repartition
from orthoplus.projection.row_counts import rows_almost_decide, solve_row_counts
from orthoplus.projection.search import Assignment

# The relaxation of a node is solved to this fraction of the gap.
RELAXATION_SHARE = 0.01
# Counts closer than this to an integer are treated as integers.
WHOLE = 1e-7
# Shares of open nodes are stored as starts for their children, up to this many numbers in total or
# this fraction of the size of C, whichever is larger.
MIN_STORED, STORED_FRACTION = 1 << 19, 0.125
# A node counts as one pass per this many pairs, and at least as one.
NODE_PAIRS = 1 << 12
# A linear program takes as long as one node per PROGRAM_PAIRS pairs. After the first program,
# further ones are solved only if it closed the fraction PROGRAM_SHARE of the gap.
PROGRAM_PAIRS, PROGRAM_SHARE = 64, 0.1
# Number of nodes between two repartitions, each of which has a different start.
NODES_PER_REPARTITION = 25

Sharpen = Callable[[Core, Relaxed], Relaxed | None]


@dataclass(frozen=True)
class _Node:
    """The decisions on the path from the root, the bound, and the next decision."""

    decisions: Decisions
    bound: float
    split: "_Split | None" = None  # None: nothing is left to decide


@dataclass(frozen=True)
class _Split:
    """A pair with a fractional count, or the kind of row that a nonpositive column takes."""

    pair: int = -1
    count: float = 0.0
    pick: tuple[int, int] = (-1, -1)


@dataclass
class _Tree:
    """The open nodes, the best assignment, and the largest bound of the finished nodes."""

    core: Core
    budget: Budget
    best: Assignment
    known: float  # a bound from another source
    passes: float
    sharpen: Sharpen | None  # a sharper relaxation, if the core has a structure for it
    weights: FloatArray  # w of the last node
    heap: list[tuple[float, int, _Node]] = field(default_factory=list)
    done: float = -np.inf
    stored: int = 0
    order: "count[int]" = field(default_factory=lambda: count(0, -1))  # newest first among ties

    @property
    def max_stored(self) -> int:
        """Return how many numbers the shares of the open nodes may have in total."""
        return max(MIN_STORED, int(STORED_FRACTION * self.core.C.size))

    @property
    def bound(self) -> float:
        """Return the bound of all assignments: open nodes, finished nodes, and excluded pairs.

        An assignment outside the core is not better than the best one, up to rounding.
        """
        largest = max(-self.heap[0][0] if self.heap else -np.inf, self.done)
        largest = max(largest, self.best.value + ROUNDING * self.best.size)
        return max(min(largest, self.known), self.best.value)

    def is_closed(self, bound: float) -> bool:
        return bound - self.best.value <= self.budget.closing_gap(bound, self.best)

    def add(self, node: _Node) -> None:
        if node.split is None or self.is_closed(node.bound):
            self.done = max(self.done, node.bound)
        else:
            share = node.decisions.share
            size = 0 if share is None else len(share)
            if self.stored + size > self.max_stored:
                node, size = replace(node, decisions=replace(node.decisions, share=None)), 0
            self.stored += size
            heapq.heappush(self.heap, (-node.bound, next(self.order), node))

    def pop(self) -> _Node:
        """Return the open node with the largest bound, which is then no longer open."""
        _, _, node = heapq.heappop(self.heap)
        share = node.decisions.share
        self.stored -= 0 if share is None else len(share)
        return node


def branch(core: Core, search: Search, known: float, budget: Budget) -> Search:
    """Branch until the budget is spent; return the best assignment and the bound.

    ``known`` is a bound from another source, which may differ from that of ``search.weights``.
    """
    known = min(known, search.bound)
    tree = _Tree(
        core, budget, search.best, known, search.passes, _find_sharper(core), search.weights
    )
    tree.add(_visit(tree, _Node(Decisions(), search.bound)))
    weights, clock = tree.weights, (budget, tree.passes)
    tree.best, tree.passes = repartition(core, weights, tree.best, tree.bound, clock)
    next_repartition, rng = tree.passes + NODES_PER_REPARTITION, np.random.default_rng(0)
    while tree.heap and not tree.is_closed(tree.bound) and not budget.is_spent(tree.passes):
        if tree.passes >= next_repartition:
            clock = (budget, tree.passes)
            found = repartition(core, weights, tree.best, tree.bound, clock, rng)
            tree.best, tree.passes = found
            next_repartition = tree.passes + NODES_PER_REPARTITION
            continue
        node = tree.pop()
        if tree.is_closed(node.bound):
            tree.done = max(tree.done, node.bound)
            continue
        for child in _children(node):
            tree.add(_visit(tree, child))
    return replace(search, best=tree.best, bound=tree.bound, passes=tree.passes)


def _children(node: _Node) -> list[_Node]:
    before, split = node.decisions, node.split
    assert split is not None
    if split.pair < 0:
        taken, forbidden = (*before.taken, split.pick), (*before.forbidden, split.pick)
        after = [replace(before, taken=taken), replace(before, forbidden=forbidden)]
    else:
        up, down = (0, split.pair, split.count + 1.0), (1, split.pair, split.count)
        after = [replace(before, limits=(*before.limits, limit)) for limit in (up, down)]
    return [replace(node, decisions=decisions) for decisions in after]


def _visit(tree: _Tree, node: _Node) -> _Node:
    """Solve the relaxation of the node for its bound, an assignment and the next decision."""
    core, nothing = tree.core, replace(node, bound=-np.inf, split=None)
    tree.passes += max(1.0, len(core.pairs.column) / NODE_PAIRS)
    tol = RELAXATION_SHARE * (node.bound - tree.best.value)
    relaxed = relax(core, node.decisions, max(tol, ROUNDING * tree.best.size))
    if relaxed is None:
        return nothing
    given = give_rows(core, node.decisions, relaxed)
    if given is None:
        return nothing
    tree.weights = relaxed.weights
    tree.best = core.improve(_whole(core, relaxed.share), relaxed.weights, tree.best)
    bound = min(node.bound, relaxed.bound + given.value)
    if tree.sharpen is not None and not given.picks and not tree.is_closed(bound):
        relaxed = _sharpened(tree, tree.sharpen, relaxed, bound - given.value)
        bound = min(bound, relaxed.bound + given.value)
    split = _Split(pick=given.picks[0]) if given.picks else _split(core, relaxed)
    return _Node(replace(node.decisions, share=relaxed.share), bound, split)


def _find_sharper(core: Core) -> Sharpen | None:
    """Return the relaxation for sums on a lattice, the one for similar gains, or None."""
    lattice = find_lattice(core)
    if lattice is not None:
        return partial(solve_chords, lattice)
    return solve_row_counts if rows_almost_decide(core) else None


def _sharpened(tree: _Tree, sharpen: Sharpen, relaxed: Relaxed, bound: float) -> Relaxed:
    """Solve the sharper relaxation for its bound, shares and a rounded assignment."""
    tree.passes += len(relaxed.share) / PROGRAM_PAIRS
    sharper = sharpen(tree.core, relaxed)
    if sharper is None or bound - sharper.bound < PROGRAM_SHARE * (bound - tree.best.value):
        tree.sharpen = None
    if sharper is None:
        return relaxed
    tree.best = tree.core.improve(_whole(tree.core, sharper.share), sharper.weights, tree.best)
    return sharper


def _whole(core: Core, share: FloatArray) -> FloatArray:
    """Round the shares to whole counts with the same sum for each kind."""
    whole, kind = np.floor(share + WHOLE), core.kind
    missing = np.rint(np.bincount(kind, share - whole, minlength=len(core.counts)))
    order = np.lexsort((whole - share, kind))
    rank = np.arange(len(kind)) - core.pairs.start[kind[order]]
    whole[order] += rank < missing[kind[order]]
    return np.asarray(whole)


def _split(core: Core, relaxed: Relaxed) -> _Split | None:
    """Return the fractional count to branch on, or None if all counts are decided.

    It is the most fractional count of the kind that is most expensive to round. Moving
    d = part (1 - part) P_ij in or out of S_j costs w_j (d / (2 sqrt(S_j)))^2 = w_j^3 d^2 to second
    order, as w_j = 1 / (2 sqrt(S_j)). A column of tiny entries may hold only a tiny part of a row;
    this is used if no other count is fractional.
    """
    pairs, weights = core.pairs, relaxed.weights[core.pairs.column]
    for least in (WHOLE, 0.0):
        whole = np.floor(relaxed.share + least)
        part = relaxed.share - whole
        broken = np.where(part <= least, 0.0, part * (1.0 - part))
        if broken.any():
            cost = weights * (weights * (broken * pairs.gain)) ** 2 + TINY * broken
            c = int(np.argmax(np.bincount(core.kind, cost)))
            pair = int(pairs.start[c] + np.argmax(broken[pairs.start[c] : pairs.start[c + 1]]))
            return _Split(pair=pair, count=float(whole[pair]))
    return _split_whole(core, relaxed)


def _split_whole(core: Core, relaxed: Relaxed) -> _Split | None:
    """Return a pair whose count is whole but not decided, or None if all are decided.

    Columns without rows come first, because the chords of `lattice` allow empty columns.
    """
    low, high = relaxed.limits
    is_open = np.flatnonzero(low < high)
    if len(is_open) == 0:
        return None
    sums = np.bincount(core.pairs.column, relaxed.share * core.pairs.gain, core.n_columns)
    is_empty = sums[core.pairs.column[is_open]] <= 0.0
    pair = int(is_open[np.argmax(is_empty)])
    count = min(np.rint(relaxed.share[pair]), high[pair] - 1.0)
    return _Split(pair=pair, count=float(max(count, low[pair])))
