"""The part of a projection onto S+ that a bound leaves undecided, as a smaller problem.

If D(w) exceeds the best value by g, a better assignment uses no pair that is more than g below the
maximum of w_j P_ij in its row, by the identity in `reference.pairs.chain_moves_into`. Rows with one
remaining pair are decided; the decided rows of a column act like a single row with the sum of their
P. Among the open rows, equal ones are interchangeable: they form one kind, and only the *number* of
rows of a kind in each column matters.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.kernels.pairs import Pairs, column_sums
from orthoplus.projection.dual import (
    pairs_of_labels,
    row_of_pairs,
    row_tops,
    sample_rows,
    unit_root,
    window_slack,
)
from orthoplus.projection.passes import Search
from orthoplus.projection.search import Assignment, evaluate, fill_columns, local_search

WIDER = 1.0 + 1e-9  # so that rounding does not drop a pair at the edge
SWEEPS = 50  # number of sweeps of moves after rounding
# Largest numbers of pairs of single rows for which moves and double moves are tried.
MOVE_PAIRS, DOUBLE_MOVE_PAIRS = 1 << 15, 1 << 11


@dataclass(frozen=True)
class Core:
    """Kinds of equal rows, their pairs, and the map back to the rows of C.

    The first kinds represent the decided rows, one kind per column that has any; the kinds of open
    rows follow. A kind may have no pairs: rows without a positive entry that a column may need.
    """

    C: FloatArray
    pairs: Pairs  # pairs of the kinds; shares are the numbers of rows in the best assignment
    counts: FloatArray  # number of rows of each kind
    members: IntArray  # rows of C, kind by kind; -1 for the decided rows
    labels: IntArray  # labels of the decided rows; -1 elsewhere
    entries: FloatArray  # C of one row of each kind; empty if no column can be left without rows

    @property
    def n_columns(self) -> int:
        """Return the number of columns k."""
        return self.C.shape[1]

    @cached_property
    def kind(self) -> IntArray:
        """Return the kind of each pair."""
        return row_of_pairs(self.pairs)

    @cached_property
    def members_of_pairs(self) -> IntArray:
        """Return one row of C for the kind of each pair, -1 for decided rows."""
        first = np.concatenate([[0], np.cumsum(self.counts)[:-1]]).astype(np.int64)
        return self.members[first[self.kind]]

    @property
    def can_force(self) -> bool:
        """Return whether a column may have no positive entry, so that it must take some row."""
        return len(self.entries) > 0

    def improve(self, counts: FloatArray, weights: FloatArray, best: Assignment) -> Assignment:
        """Return the better of ``best`` and a local search from the whole ``counts``."""
        pairs, chosen = _expand(self, counts)
        if len(pairs.column) <= MOVE_PAIRS:
            is_small = len(pairs.column) <= DOUBLE_MOVE_PAIRS
            chosen = local_search(
                pairs, chosen, self.n_columns, SWEEPS, weights if is_small else None
            )
        held = chosen[chosen >= 0]
        sums = column_sums(pairs.column[held], pairs.gain[held], self.n_columns)
        value = float(np.sqrt(sums).sum())
        if value <= best.value:
            return best
        column = pairs.column[chosen] if len(pairs.column) else chosen
        return self.adopt(np.where(chosen >= 0, column, -1)[self.members >= 0], best)

    def adopt(self, columns: IntArray, best: Assignment) -> Assignment:
        """Return the better of ``best`` and the assignment with these columns for open rows."""
        labels = self.labels.copy()
        labels[self.members[self.members >= 0]] = columns
        found = evaluate(self.C, fill_columns(self.C, labels))
        return found if found.value > best.value else best

    def gains_of_rows(self) -> FloatArray:
        """Return P_ij of the open rows in the order of ``members``, 0 without a pair."""
        kind = self.kind
        gains = np.zeros((len(self.counts), self.n_columns))
        gains[kind, self.pairs.column] = self.pairs.gain
        copies = np.repeat(np.arange(len(self.counts)), self.counts.astype(np.int64))
        return np.asarray(gains[copies[self.members >= 0]])

    def fixed_sums(self) -> FloatArray:
        """Return S_j of the decided rows."""
        pairs, is_fixed = self.pairs, self.members_of_pairs < 0
        return column_sums(pairs.column[is_fixed], pairs.gain[is_fixed], self.n_columns)


def _expand(core: Core, counts: FloatArray) -> tuple[Pairs, IntArray]:
    """Return the pairs of single rows, and a pair for each row such that ``counts`` are met.

    The rows of a kind get its pairs in turn; surplus rows get -1.
    """
    start, size = core.pairs.start, np.diff(core.pairs.start)
    copies = core.counts.astype(np.int64)
    kind = np.repeat(np.arange(len(size)), copies)
    first = np.concatenate([[0], np.cumsum(size[kind])])
    shift = np.repeat(start[kind] - first[:-1], size[kind])
    at = np.arange(first[-1]) + shift
    pairs = Pairs(first, *(part[at] for part in core.pairs[1:]))
    given = np.bincount(core.kind, weights=counts, minlength=len(core.counts))
    used = np.concatenate([[0], np.cumsum(given)]).astype(np.int64)
    place = np.arange(len(kind)) - np.repeat(np.cumsum(copies) - copies, copies)  # within its kind
    chosen = np.full(len(kind), -1)
    has_pair = place < np.diff(used)[kind]
    held = np.repeat(np.arange(len(counts)), counts.astype(np.int64))  # pairs, kind by kind
    of_rows = held[used[kind[has_pair]] + place[has_pair]]
    chosen[has_pair] = of_rows - start[kind[has_pair]] + first[:-1][has_pair]
    return pairs, chosen


def open_core(
    C: FloatArray, maxima: FloatArray, search: Search, max_pairs: int
) -> tuple[Core | None, Search]:
    """Return the core that the bound of ``search`` leaves, or None if it exceeds ``max_pairs``."""
    n, k = C.shape
    limit, (root, unit) = search.gap * WIDER, unit_root(search.weights)
    if limit > unit * window_slack(C, root, 1.0 + max_pairs / n):
        return None, search
    labels = search.best.labels
    rows = np.flatnonzero(labels >= 0)
    rows = rows[C[rows, labels[rows]] > 0.0]
    kept = np.full(n, -1)
    kept[rows] = labels[rows]
    window = (1.0, limit / unit, k)
    pairs, _ = kernels.gather_pairs(C, root, window, pairs_of_labels(kept))
    search = replace(search, passes=search.passes + 1.0)
    positive = maxima > 0.0
    can_force = not positive.all() or limit >= 0.25 / search.weights[positive].max()
    is_open = np.diff(pairs.start) > 1
    if can_force:
        is_open |= _may_be_taken(C, positive, pairs, search.weights, limit)
    return _make_core(C, pairs, is_open, can_force), search


def _may_be_taken(
    C: FloatArray, positive: BoolArray, pairs: Pairs, weights: FloatArray, limit: float
) -> BoolArray:
    """Return the rows that a column without a positive entry may take in a better assignment.

    The row loses max_l w_l P_il. A column that has no positive entry at all takes one of its best
    rows in any case, so only the additional loss counts.
    """
    n, k = C.shape
    tops = row_tops(pairs, weights)
    may = (tops > 0.0) & (tops <= limit)
    merit = C[:, ~positive] - tops[:, None]
    best = np.sort(merit, axis=0)[-min(n, k) :][0] if merit.shape[1] else np.zeros(0)
    # The k-th best row of a column is always available, whatever the other columns take.
    may |= (merit >= best - limit).any(axis=1)
    without = np.flatnonzero(tops == 0.0)
    if len(without):  # a column needs only its k best of these rows
        order = np.argsort(-C[without], axis=0, kind="stable")[:k]
        needed = np.zeros(n, dtype=bool)
        needed[without[order.ravel()]] = True
        may = np.where(tops == 0.0, needed, may)
    return np.asarray(may)


def _make_core(C: FloatArray, pairs: Pairs, is_open: BoolArray, can_force: bool) -> Core:
    """Merge the decided rows of each column, and group the open rows into kinds."""
    n, k = C.shape
    size = np.diff(pairs.start)
    decided = np.flatnonzero((size == 1) & ~is_open)
    at = pairs.start[decided]
    base = column_sums(pairs.column[at], pairs.gain[at], k)
    labels = np.full(n, -1)
    labels[decided] = pairs.column[at]
    rows = np.flatnonzero(is_open)
    kinds = _kinds(C, pairs, rows, can_force)
    first = np.array([kind[0] for kind in kinds], dtype=np.int64)
    held = np.flatnonzero(base > 0.0)
    own = [np.arange(pairs.start[i], pairs.start[i + 1]) for i in first]
    place = np.concatenate([np.zeros(0, dtype=np.int64), *own])
    start = np.concatenate([np.arange(len(held) + 1), len(held) + np.cumsum(size[first])])
    shares = [sum(pairs.share[pairs.start[i] : pairs.start[i + 1]] for i in kind) for kind in kinds]
    of_kinds = Pairs(
        start.astype(np.int64),
        np.concatenate([held, pairs.column[place]]).astype(np.int32),
        np.concatenate([base[held], pairs.gain[place]]),
        np.concatenate([np.ones(len(held)), *shares]),
    )
    counts = np.concatenate([np.ones(len(held)), [len(kind) for kind in kinds]])
    members = np.concatenate([np.full(len(held), -1), *kinds]).astype(np.int64)
    entries = np.zeros((0, k))
    if can_force:
        entries = np.full(
            (len(counts), k), -np.inf
        )  # a decided row is never taken by another column
        entries[len(held) :] = C[first]
    return Core(C, of_kinds, counts, members, labels, entries)


def has_equal_rows(C: FloatArray) -> bool:
    """Return whether at least half of a sample of rows are equal to another row."""
    sample = sample_rows(C)
    return 2 * len({row.tobytes() for row in sample}) <= len(sample)


def _kinds(C: FloatArray, pairs: Pairs, rows: IntArray, can_force: bool) -> list[IntArray]:
    """Return lists of equivalent rows, with equal pairs or, if ``can_force``, equal entries."""
    found: dict[bytes, list[int]] = {}
    for i in rows:
        here = slice(pairs.start[i], pairs.start[i + 1])
        key = pairs.column[here].tobytes() + pairs.gain[here].tobytes()
        if can_force:
            key = np.ascontiguousarray(C[i]).tobytes()
        found.setdefault(key, []).append(int(i))
    return [np.array(kind, dtype=np.int64) for kind in found.values()]
