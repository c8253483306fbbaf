"""Branching for the projection onto S+: heavy rows that the relaxation shares between columns.

A row that outweighs the others of its columns can leave a large gap when the relaxation splits it.
Giving it to each of its columns in turn, and solving these relaxations, closes that gap: the bound
is the largest of the branches. A branch whose bound is below the best value is dropped.
"""

from dataclasses import replace

import numpy as np

from orthoplus.projection.dual import pairs_with_row_given, row_of_pairs
from orthoplus.projection.passes import Search, run
from orthoplus.protocols import FloatArray

MAX_BRANCHINGS = 24
# A row is worth a branching if rounding it costs this part of the gap.
HEAVY_SHARE = 0.02
MAX_CHILDREN = 6


def branch(
    C: FloatArray, maxima: FloatArray, search: Search, tol: float, max_passes: float
) -> Search:
    """The best assignment and the bound after branching on heavy rows, as far as that pays."""
    if (maxima <= 0.0).any():  # rows are forced: their matching is not part of a branch
        return search
    nodes, best, passes = [search], search.best, search.passes
    for _ in range(MAX_BRANCHINGS):
        node = replace(nodes.pop(_widest(nodes)), best=best, passes=passes)
        children = [] if node.is_closed(tol) else _children(C, node)
        if not children:
            nodes.append(node)
            break
        for child in children:
            child = run(C, maxima, replace(child, best=best, passes=passes), tol, max_passes)
            best, passes = child.best, child.passes
            nodes.append(child)
        if passes >= max_passes:
            break
    bound = max(best.value, max(node.bound for node in nodes))
    return replace(search, best=best, bound=min(bound, search.bound), passes=passes)


def _widest(nodes: list[Search]) -> int:
    """The place of the node of largest bound, which is the bound of all."""
    return max(range(len(nodes)), key=lambda place: nodes[place].bound)


def _children(C: FloatArray, node: Search) -> list[Search]:
    """The node with its heaviest shared row given to each column that may still pay; none: []."""
    row = _heaviest_shared_row(node)
    if row < 0:
        return []
    priced = node.weights * np.maximum(C[row].astype(np.float64), 0.0) ** 2
    slack = priced.max() - priced
    columns = np.flatnonzero(slack < node.gap)
    if len(columns) > MAX_CHILDREN or priced.max() <= node.gap:  # or the row may serve no column
        return []
    root, moved = np.sqrt(node.weights), 4.0 * node.weights * priced  # moved = P / S
    ratio = max(node.widest, 1.0 - float(moved[columns].max()))
    fresh = replace(node, root=root, ratio=ratio, relaxed=-np.inf, stalls=0)
    return [
        replace(
            fresh,
            bound=node.bound - slack[j],
            keep=pairs_with_row_given(node.keep, row, int(j)),
            fixed=(*node.fixed, (row, int(j))),
        )
        for j in columns
    ]


def _heaviest_shared_row(node: Search) -> int:
    """The shared row that costs most to round, -1 if none is worth a branching.

    Moving d = share (1 - share) P_ij in or out of S_j costs w_j (d / (2 sqrt(S_j)))^2 = w_j^3 d^2
    to second order, as w_j = 1 / (2 sqrt(S_j)).
    """
    keep = node.keep
    weights = node.weights[keep.column]
    moved = weights * (keep.share * (1.0 - keep.share) * keep.gain)
    cost = np.bincount(row_of_pairs(keep), weights=weights * moved**2)
    row = int(np.argmax(cost)) if len(cost) else -1
    return row if row >= 0 and cost[row] >= HEAVY_SHARE * node.gap else -1
