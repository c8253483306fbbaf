"""The passes over C that close the gap of the projection onto S+ from both sides.

A pass at weights w gives the bound D(w) and the pairs near the row maxima; the relaxation over
these pairs gives the next w and, rounded, an assignment of whole rows. A pair that was missing
shows up in the next pass, so the passes end with the relaxation of all pairs solved.
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
    chosen_sums,
    evaluate,
    fill_columns,
    give_rows,
    labels_of_chosen,
    local_search,
    round_shares,
)

# Rows per column from which the weights of a sample are worth having, and the sampling step. The
# weights of a sample are estimates: its relaxation needs few passes and little accuracy.
COARSE_ROWS, COARSE_STEP = 1024, 16
COARSE_PASSES, COARSE_TOL = 20.0, 1e-5
# Pairs per row in the first pass: without and with weights from a sample. And at most, ever.
FIRST_PAIRS, COARSE_PAIRS, MAX_WIDTH = 8.0, 1.2, 32
# The relaxation is solved once its own gap is this part of the gap to the best assignment.
RELAXATION_SHARE = 0.02
# The restricted problem is solved to this part of the gap, at best to this relative accuracy.
# Measured: 0.1 instead of 0.01 makes ten times more passes on uniform matrices.
RESTRICTED_SHARE, RESTRICTED_TOL = 0.01, 1e-14
# So many passes in a row that close less than this part of the gap are the last.
MAX_STALLS, STALL_SHARE = 5, 0.01
MAX_RAISES = 4  # passes that only raise the weights of columns without pairs
ROUNDING_SWEEPS = 5  # of single moves after rounding


@dataclass(frozen=True)
class Budget:
    """How near to optimal a point has to be, and how long to try.

    Attributes
    ----------
    tol : float
        The relative gap at which a point counts as optimal.
    max_passes : float
        Most passes over C; a node of branch and bound counts as one.
    deadline : float
        On the clock of `time.perf_counter`.
    """

    tol: float
    max_passes: float = np.inf
    deadline: float = np.inf

    def is_spent(self, passes: float) -> bool:
        """Whether nothing is left of the passes or of the time."""
        return passes >= self.max_passes or perf_counter() >= self.deadline

    def closing_gap(self, bound: float, best: Assignment) -> float:
        """Return the absolute gap at which ``best`` counts as optimal, at least the rounding."""
        return max(self.tol, 2.0 * ROUNDING) * max(abs(bound), best.size)


@dataclass(frozen=True)
class Search:
    """All that the next pass needs, and the best found so far."""

    root: FloatArray  # sqrt(w) of the next pass
    ratio: float  # its window, and the widest there was
    widest: float
    keep: Pairs  # the point of the relaxation
    relaxed: float
    best: Assignment
    bound: float
    weights: FloatArray  # w of the best bound, at its best scale
    passes: float
    stalls: int = 0  # passes in a row that closed next to nothing of the gap

    @property
    def gap(self) -> float:
        """What is left between the bound and the value, not relative."""
        return self.bound - self.best.value

    def is_closed(self, budget: Budget) -> bool:
        """Whether the best assignment is optimal to the relative tolerance."""
        return self.gap < np.inf and self.gap <= budget.closing_gap(self.bound, self.best)

    def is_relaxed_to(self, tol: float) -> bool:
        """Whether the relaxation is solved to ``tol`` or as well as the gap asks for, or stalls."""
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
    """One pass at w: the bound D(w), the pairs near the maxima, and from them the next w."""
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
    return replace(fresh, stalls=search.stalls + 1 if _is_stalled(fresh, gap) else 0)


def run(C: FloatArray, maxima: FloatArray, search: Search, budget: Budget) -> Search:
    """Step until the gap is closed, the relaxation is solved or the budget is used up."""
    search = step(C, maxima, search, budget)
    while not (
        search.is_closed(budget) or search.is_relaxed_to(0.0) or budget.is_spent(search.passes)
    ):
        search = step(C, maxima, search, budget)
    return search


def _is_stalled(search: Search, gap_before: float) -> bool:
    return search.gap > (1.0 - STALL_SHARE) * gap_before


def _coarse_root(C: FloatArray, root: FloatArray) -> tuple[FloatArray, float]:
    """sqrt(w) of the relaxation on a sample of rows; where that has nothing, ``root`` rescaled."""
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
    """Gather pairs; where a column with positive entries has none, raise its weight and repeat."""
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
    """sqrt(w) at which each of the columns ties for the row where it comes nearest."""
    root, top = root.copy(), np.sqrt(row_tops(pairs, root * root))
    for j in columns:
        reach = np.max(np.maximum(C[:, j], 0.0) / np.where(top > 0.0, top, np.inf))
        root[j] = 1.0 / reach if reach > 0.0 else root[j]
    return root


@dataclass(frozen=True)
class _Forced:
    """Rows given to the columns without positive entry, and what these contribute."""

    columns: IntArray
    rows: IntArray
    value: float


def _bound(
    C: FloatArray, maxima: FloatArray, pairs: Pairs, root: FloatArray, sums: FloatArray
) -> tuple[float, FloatArray, _Forced]:
    """Return an upper bound of <C, X> over S+, its weights w, and the rows that are forced.

    A column j without positive entry must take a row i, gains C_ij and loses max_l w_l P_il: the
    best distinct rows are a linear assignment, and its value belongs to the bound.
    """
    dual, weights = scaled_dual(root, sums, maxima > 0.0)
    columns = np.flatnonzero(maxima <= 0.0)
    if len(columns) == 0:
        return dual, weights, _Forced(columns, columns, 0.0)
    rows, total = give_rows(C, columns, row_tops(pairs, weights))
    entries = np.asarray(C[rows, columns], dtype=np.float64)
    # total = sum of entries - prices, and the prices are part of D: its rounding covers theirs
    bound = dual + total + ROUNDING * (dual + 2.0 * float(np.abs(entries).sum()))
    return bound, weights, _Forced(columns, rows, float(entries.sum()))


def _restricted_optimum(C: FloatArray, pairs: Pairs, forced: _Forced, search: Search) -> Shares:
    """Return the relaxation over the gathered pairs, without the forced rows."""
    is_open = np.diff(pairs.start) > 1
    if len(forced.rows):
        is_open[forced.rows] = False
        share = np.where(np.isin(row_of_pairs(pairs), forced.rows), 0.0, pairs.share)
        pairs = pairs._replace(share=share)
    part = min(1.0, search.gap / max(abs(search.bound), TINY))
    tol = max(RESTRICTED_TOL, RESTRICTED_SHARE * part)
    return solve_shares(pairs, np.flatnonzero(is_open), C.shape[1], tol)


def _round(C: FloatArray, shares: Shares, forced: _Forced) -> Assignment:
    """Each row to its largest share, single moves, and a row for every column that has none."""
    k = C.shape[1]
    chosen = local_search(shares.pairs, round_shares(shares), k, ROUNDING_SWEEPS)
    labels, sums = labels_of_chosen(shares.pairs, chosen), chosen_sums(shares.pairs, chosen, k)
    if (sums > 0.0).all():  # the pairs know it all: no need to touch C
        return Assignment(labels, sums, float(np.sqrt(sums).sum()))
    labels[forced.rows] = forced.columns
    return evaluate(C, fill_columns(C, labels))
