"""Passes over C that improve value and bound of the projection onto S+.

A pass at weights w gives the bound D(w) and the pairs near the row maxima. The relaxation over
these pairs gives the next w and, after rounding, an assignment of whole rows. A missing pair is
found in the next pass, so that finally the relaxation over all pairs is solved.
"""

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.pairs import TINY, Pairs
from orthoplus.projection.dual import (
    ROUNDING,
    Shares,
    held_pairs,
    initial_root,
    next_root,
    no_pairs,
    row_of_pairs,
    row_tops,
    scaled_dual,
    solve_shares,
    window_ratio,
)
from orthoplus.projection.search import (
    NO_ASSIGNMENT,
    Assignment,
    assigned_sums,
    chosen_sums,
    evaluate,
    fill_columns,
    give_rows,
    labels_of_chosen,
    local_search,
    round_shares,
)

# Least number of rows per column for which weights are computed from a sample, and the sampling
# step. These weights are estimates, so the relaxation needs few passes and little accuracy.
COARSE_ROWS, COARSE_STEP = 1024, 16
COARSE_PASSES, COARSE_TOL = 20.0, 1e-5
# Pairs per row in the first pass, without and with weights from a sample, and at most in any pass.
FIRST_PAIRS, COARSE_PAIRS, MAX_WIDTH = 8.0, 1.2, 32
# The relaxation counts as solved if its own gap is this fraction of the gap to the assignment.
RELAXATION_SHARE = 0.02
# The restricted problem is solved to this fraction of the gap, and at most to this accuracy.
# Measured: 0.1 instead of 0.01 takes ten times as many passes on uniform matrices.
RESTRICTED_SHARE, RESTRICTED_TOL = 0.01, 1e-14
# The passes end after MAX_STALLS consecutive ones that close less than this fraction of the gap.
MAX_STALLS, STALL_SHARE = 5, 0.01
MAX_RAISES = 4  # largest number of passes that only raise the weights of columns without pairs
ROUNDING_SWEEPS = 5  # number of sweeps of single moves after rounding
SETTLING_PASSES = 4  # largest number of passes from a given assignment


@dataclass(frozen=True)
class Budget:
    """The required accuracy and the limits of a search.

    Attributes
    ----------
    tol : float
        The relative gap at which a point counts as optimal.
    max_passes : float
        Largest number of passes over C; a node of branch and bound counts as one.
    deadline : float
        Time of `time.perf_counter` at which to stop.
    """

    tol: float
    max_passes: float = np.inf
    deadline: float = np.inf

    def is_spent(self, passes: float) -> bool:
        """Return whether the passes or the time are used up."""
        return passes >= self.max_passes or perf_counter() >= self.deadline

    def closing_gap(self, bound: float, best: Assignment) -> float:
        """Return the absolute gap at which ``best`` counts as optimal, at least the rounding."""
        return max(self.tol, 2.0 * ROUNDING) * max(abs(bound), best.size)


@dataclass(frozen=True)
class Search:
    """State of the search: the input of the next pass, and the best assignment and bound."""

    root: FloatArray  # sqrt(w) of the next pass
    ratio: float  # window of the next pass; `widest` is the widest one so far
    widest: float
    keep: Pairs  # current point of the relaxation
    relaxed: float
    best: Assignment
    bound: float
    weights: FloatArray  # w of the best bound, at its best scale
    passes: float
    stalls: int = 0  # consecutive passes without progress

    @property
    def gap(self) -> float:
        """Return the absolute gap between the bound and the value."""
        return self.bound - self.best.value

    def is_closed(self, budget: Budget) -> bool:
        """Return whether the best assignment is optimal to the relative tolerance."""
        return self.gap < np.inf and self.gap <= budget.closing_gap(self.bound, self.best)

    def is_relaxed_to(self, tol: float) -> bool:
        """Return whether the relaxation is solved to ``tol`` or relative to the gap, or stalls."""
        if self.stalls >= MAX_STALLS:
            return True
        enough = max(tol * abs(self.bound), RELAXATION_SHARE * self.gap)
        return self.gap < np.inf and self.bound - self.relaxed <= enough


def start_search(C: FloatArray, maxima: FloatArray) -> Search:
    """Choose the first weights: from the column sums, or by the relaxation of a sample of rows."""
    n, k = C.shape
    root, passes, mean_pairs = initial_root(C, maxima), 1.0, FIRST_PAIRS
    if n >= COARSE_ROWS * k:
        root, passes = _coarse_root(C, root)
        mean_pairs = COARSE_PAIRS
    ratio = window_ratio(C, root, mean_pairs)
    keep = no_pairs(n)
    return Search(root, ratio, ratio, keep, -np.inf, NO_ASSIGNMENT, np.inf, root * root, passes)


def step(C: FloatArray, maxima: FloatArray, search: Search, budget: Budget) -> Search:
    """Make one pass at w for the bound D(w), the pairs near the maxima, and the next w."""
    gap = search.gap
    pairs, sums, search = _pass(C, maxima, search)
    bound, weights, forced = _bound(C, maxima, pairs, search.root, sums)
    if bound < search.bound:
        search = replace(search, bound=bound, weights=weights)
    if search.is_closed(budget):
        return search
    shares = _restricted_optimum(C, pairs, forced, search)
    relaxed = shares.value + forced.value
    best = _round(C, shares, forced)
    is_integral = best.value >= relaxed * (1.0 - RESTRICTED_TOL)
    root = next_root(best.sums if is_integral else shares.sums, search.root)
    best = max(best, search.best, key=lambda assignment: assignment.value)
    change = np.log(root / search.root)[maxima > 0.0]
    ratio = float(np.clip(1.0 - np.ptp(change), search.widest, 1.0))
    keep = held_pairs(shares.pairs)
    fresh = replace(search, root=root, ratio=ratio, keep=keep, relaxed=relaxed, best=best)
    is_stalled = fresh.gap > (1.0 - STALL_SHARE) * gap
    return replace(fresh, stalls=search.stalls + 1 if is_stalled else 0)


def run(C: FloatArray, maxima: FloatArray, search: Search, budget: Budget) -> Search:
    """Step until the gap is closed, the relaxation is solved or the budget is used up."""
    search = step(C, maxima, search, budget)
    while not (
        search.is_closed(budget) or search.is_relaxed_to(0.0) or budget.is_spent(search.passes)
    ):
        search = step(C, maxima, search, budget)
    return replace(search, keep=no_pairs(len(C)))  # only passes need them, and they take memory


def settle(C: FloatArray, maxima: FloatArray, labels: IntArray) -> Search | None:
    """Alternate between the weights of an assignment and the row maxima at these weights.

    With w_j = 1 / (2 sqrt(S_j)), an assignment of every row to its maximum of w_j P_ij is optimal,
    because D(w) equals its value. Return the search if it ends there within rounding, else None.
    """
    if not (maxima > 0.0).all():
        return None
    sums, exact = assigned_sums(C, labels), Budget(0.0)
    best = Assignment(labels, sums, float(np.sqrt(sums).sum()))
    for n_pass in range(1, SETTLING_PASSES + 1):
        if not (best.sums > 0.0).all():
            return None
        root = np.sqrt(np.sqrt(best.sums.max() / best.sums))
        found, sums = kernels.assign_rows(C, root)
        bound, weights = scaled_dual(root, sums, maxima > 0.0)
        keep, passes = no_pairs(len(C)), 1.0 + n_pass
        search = Search(root, 1.0, 1.0, keep, -np.inf, best, bound, weights, passes)
        if search.is_closed(exact):
            return search
        best = Assignment(found, sums, float(np.sqrt(sums).sum()))
    return None


def _coarse_root(C: FloatArray, root: FloatArray) -> tuple[FloatArray, float]:
    """Return sqrt(w) of the relaxation on a sample of rows, or ``root`` for empty columns."""
    sample = np.ascontiguousarray(C[::COARSE_STEP])
    maxima = kernels.column_maxima(sample)
    known = maxima > 0.0
    if not known.any():
        return root, 1.0 + 1.0 / COARSE_STEP
    search = start_search(sample, maxima)
    while search.passes < COARSE_PASSES and not search.is_relaxed_to(COARSE_TOL):
        search = step(sample, maxima, search, Budget(0.0))
    fresh = np.sqrt(search.weights)
    rescaled = root * np.median(fresh[known] / root[known])
    return np.where(known, fresh, rescaled), 1.0 + search.passes / COARSE_STEP


def _pass(C: FloatArray, maxima: FloatArray, search: Search) -> tuple[Pairs, FloatArray, Search]:
    """Gather pairs; if a column with positive entries has none, raise its weight and repeat."""
    for trial in range(MAX_RAISES + 1):
        window = (search.ratio, 0.0, MAX_WIDTH)
        pairs, sums = kernels.gather_pairs(C, search.root, window, search.keep)
        search = replace(search, passes=search.passes + 1.0)
        has_pairs = np.bincount(pairs.column, minlength=C.shape[1]) > 0
        missing = np.flatnonzero((maxima > 0.0) & ~has_pairs)
        if len(missing) == 0 or trial == MAX_RAISES:
            break
        search = replace(search, root=_raised(C, search.root, missing, pairs))
    return pairs, sums, search


def _raised(C: FloatArray, root: FloatArray, columns: IntArray, pairs: Pairs) -> FloatArray:
    """Return sqrt(w) at which each of the columns ties for the row where it is closest."""
    root, top = root.copy(), np.sqrt(row_tops(pairs, root * root))
    for j in columns:
        reach = np.max(np.maximum(C[:, j], 0.0) / np.where(top > 0.0, top, np.inf))
        root[j] = 1.0 / reach if reach > 0.0 else root[j]
    return root


@dataclass(frozen=True)
class _Forced:
    """Rows assigned to the columns without a positive entry, and their contribution."""

    columns: IntArray
    rows: IntArray
    value: float


def _bound(
    C: FloatArray, maxima: FloatArray, pairs: Pairs, root: FloatArray, sums: FloatArray
) -> tuple[float, FloatArray, _Forced]:
    """Return an upper bound of <C, X> over S+, its weights w, and the forced rows.

    A column j without a positive entry must take a row i; this adds C_ij and removes
    max_l w_l P_il. The best distinct rows solve a linear assignment problem, whose value is part of
    the bound.
    """
    dual, weights = scaled_dual(root, sums, maxima > 0.0)
    columns = np.flatnonzero(maxima <= 0.0)
    if len(columns) == 0:
        return dual, weights, _Forced(columns, columns, 0.0)
    rows, total = give_rows(C, columns, row_tops(pairs, weights))
    entries = np.asarray(C[rows, columns], dtype=np.float64)
    # total = sum of entries - prices. The prices are part of D, whose rounding covers theirs.
    bound = dual + total + ROUNDING * (dual + 2.0 * float(np.abs(entries).sum()))
    return bound, weights, _Forced(columns, rows, float(entries.sum()))


def _restricted_optimum(C: FloatArray, pairs: Pairs, forced: _Forced, search: Search) -> Shares:
    """Solve the relaxation over the gathered pairs, without the forced rows."""
    is_open = np.diff(pairs.start) > 1
    if len(forced.rows):
        is_open[forced.rows] = False
        share = np.where(np.isin(row_of_pairs(pairs), forced.rows), 0.0, pairs.share)
        pairs = pairs._replace(share=share)
    part = min(1.0, search.gap / max(abs(search.bound), TINY))
    tol = max(RESTRICTED_TOL, RESTRICTED_SHARE * part)
    return solve_shares(pairs, np.flatnonzero(is_open), C.shape[1], tol)


def _round(C: FloatArray, shares: Shares, forced: _Forced) -> Assignment:
    """Assign each row to its largest share, then make single moves and fill empty columns."""
    k = C.shape[1]
    chosen = local_search(shares.pairs, round_shares(shares), k, ROUNDING_SWEEPS)
    labels, sums = labels_of_chosen(shares.pairs, chosen), chosen_sums(shares.pairs, chosen, k)
    if (sums > 0.0).all():  # the pairs suffice; C is not needed
        return Assignment(labels, sums, float(np.sqrt(sums).sum()))
    labels[forced.rows] = forced.columns
    return evaluate(C, fill_columns(C, labels))
