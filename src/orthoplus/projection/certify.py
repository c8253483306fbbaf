r"""The projection onto S+ = {X >= 0, X'X = I}, globally optimal with a proof where one is found.

.. math:: \max_{X \in S_+} \langle C, X \rangle
          = \max_{\pi} \sum_j \Big(\sum_{i : \pi(i) = j} \max(C_{ij}, 0)^2\Big)^{1/2}

over assignments pi of rows to columns (a column whose rows have no positive entry counts with its
largest). `dual` holds the relaxation and its bound, `search` the assignments,
`passes` closes in on the optimum from both sides, `prices` tightens the bound
where rows are shared, `branch` splits what is left over, and this module holds the whole together.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter

import numpy as np

from orthoplus import kernels
from orthoplus.core.bounds import relative_gap
from orthoplus.core.errors import InputError
from orthoplus.core.point import spread
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.pairs import SEARCH_THRESHOLD, Pairs
from orthoplus.projection.branch import branch
from orthoplus.projection.core import WIDER, has_equal_rows, open_core
from orthoplus.projection.dual import (
    ROUNDING,
    near_pairs,
    pairs_of_labels,
    unit_root,
    window_slack,
)
from orthoplus.projection.lattice import has_common_measure
from orthoplus.projection.passes import Budget, Search, run, start_search
from orthoplus.projection.prices import price_rows
from orthoplus.projection.search import (
    Assignment,
    chosen_of_labels,
    chosen_sums,
    evaluate,
    fill_columns,
    labels_of_chosen,
    local_search,
    row_weights,
)

# Squares of entries in this range neither overflow nor vanish; outside it C is scaled (a copy).
SAFE_RANGE = (1e-20, 1e20)
# A column whose entries are smaller than this part of the largest counts as one without positive
# entry: what it adds is below rounding, and the square of its weight would overflow.
NEGLIGIBLE = 1e-100
# Negative entries of a scaled C are cut off here: sums of them stay in range.
LOWEST = {np.dtype(np.float64): -1e250, np.dtype(np.float32): -1e36}
TINY_ROWS = 10  # up to here all assignments are tried
# Rows per column, and size, up to which a matching of rows is tried as a second start.
MATCHING_ROWS, MATCHING_SIZE = 4, 1 << 18
# Polishing looks at so many pairs per row beside the maximum on average, in all, and in one row.
POLISH_PAIRS, POLISH_SIZE, POLISH_WIDTH, POLISH_SWEEPS = 6.0, 1 << 16, 8, 50
# Pricing rows looks at so many pairs per row beside the maximum on average, and in all.
PRICED_PAIRS, PRICED_SIZE = 32.0, 1 << 18
# Branching pays soon where columns have fewer rows than this on average, or where the gap is so
# large that a few heavy rows must be its cause. Elsewhere only passes beyond the usual number are
# spent on it. It looks at so many pairs.
BRANCH_ROWS, BRANCH_GAP, USUAL_PASSES, BRANCH_SIZE = 20, 1e-5, 100, 1 << 18
# The full search: rows that are open, nodes visited.
MAX_SEARCH_ROWS, MAX_NODES = 200, 200_000
HUGE = 1e300  # the weight of a column that has no part in the dual


@dataclass(frozen=True)
class CertifiedProjection:
    """A point of S+, its value <C, X> and an upper bound on the value of every point of S+.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        The column of each row's positive entry, -1 for a zero row.
    weights : ndarray of shape (n,)
        That entry; 0 for a zero row.
    value, bound : float
        <C, X>, and an upper bound of it over S+; ``bound >= value``.
    status : Status
        ``CERTIFIED`` if the gap is at most the tolerance, else ``GAP_LEFT``.
    passes : float
        Entries of C that were read to find it, in units of n k, and nodes of branch and bound.
    n_columns : int
        k.
    size : float
        The sum of the absolute values <c_j, x_j> of the columns, which the gap is relative to. It
        is ``value`` unless a column has to do without a positive entry.

    Examples
    --------
    >>> found = project_stiefel_plus(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]]))
    >>> found.X
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 1. ]])
    >>> found.value, found.bound - found.value < 1e-13
    (7.0, True)
    """

    labels: IntArray
    weights: FloatArray
    value: float
    bound: float
    status: Status
    passes: float
    n_columns: int
    size: float

    @property
    def gap(self) -> float:
        """``(bound - value) / max(|bound|, size)``: optimal if that is no more than rounding."""
        return gap_of_maximum(self.value, self.bound, self.size)

    @cached_property
    def X(self) -> FloatArray:
        """The dense n x k matrix."""
        return spread(self.labels, self.weights.astype(np.float64, copy=False), self.n_columns)


def gap_of_maximum(value: float, bound: float, size: float) -> float:
    """(bound - value) / max(|bound|, size), 0 where the bound is the value."""
    return relative_gap(-value, -bound, size=size) or 0.0


def project_stiefel_plus(
    C: FloatArray,
    *,
    tol: float = 1e-12,
    max_passes: int | None = None,
    time_limit: float | None = None,
) -> CertifiedProjection:
    r"""Maximize :math:`\langle C, X \rangle` over :math:`X \ge 0,\ X^T X = I`, with an upper bound.

    Parameters
    ----------
    C : ndarray of shape (n, k), n >= k >= 1
        Finite; float32 or float64, any memory order, memory-mapped or not; not modified.
    tol : float
        The relative gap at which the point counts as optimal; a smaller one than 2^-46 counts as
        2^-46, which is rounding.
    max_passes : int, optional
        Most passes over C; a node of branch and bound counts as one, or as several if much is left
        open. Some ten end the relaxation; more are only used to branch on rows that it splits.
        None: 100, or any number if there is a time limit.
    time_limit : float, optional
        Seconds after which no further pass or node begins.

    Returns
    -------
    CertifiedProjection
        Exactly feasible. Among equally good points which one is not specified. The bound is rounded
        up, so it holds in exact arithmetic.

    Raises
    ------
    ValueError
        If <C, X> or its bound is beyond the largest floating-point number.

    Notes
    -----
    ``docs/paper.md``, row "projection onto S+". No algorithm is known that is fast for every C: the
    bound is that of a concave relaxation, tight for the planted matrices of the paper and close
    when n >> k; few rows that are left open, or n <= 10, are searched completely, more of them by
    branch and bound. n = k is a linear assignment problem. A pass costs O(nk), 3 to 12 are usual;
    memory beyond C is O(n + k).

    Examples
    --------
    >>> result = project_stiefel_plus(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]]))
    >>> result.labels, result.value, result.status.name
    (array([0, 0, 1]), 7.0, 'CERTIFIED')
    """
    assert C.ndim == 2, "C must be a matrix"
    assert np.issubdtype(C.dtype, np.floating), "C must hold floating-point numbers"
    budget = make_budget(tol, max_passes, time_limit)
    maxima = kernels.column_maxima(C)
    top = float(maxima.max())
    scaled, scale = _scaled(C, top)
    best, bound, passes = _solve(scaled, _divided(maxima, scale), budget)
    used = np.flatnonzero(best.labels >= 0)
    if scale != 1.0 and (scaled[used, best.labels[used]] <= LOWEST[C.dtype]).any():
        # A column has to take an entry that dwarfs all positive ones: these do not count then.
        scaled, scale = _scaled(C, float(np.abs(C).max()))
        best, bound, passes = _solve(scaled, _divided(np.minimum(maxima, 0.0), scale), budget)
    value, bound, size = best.value * scale, bound * scale, best.size * scale
    if not np.isfinite([value, bound, size]).all():
        raise InputError(
            f"`C` has entries as large as {float(np.abs(C).max()):.3g}: <C, X> or its upper bound "
            f"is beyond the largest floating-point number. Divide `C` by a number, for example by "
            f"that entry, which does not change the nearest point."
        )
    weights = row_weights(scaled, best.labels)
    labels = np.where(weights > 0.0, best.labels, -1)
    is_closed = gap_of_maximum(value, bound, size) <= max(tol, 2.0 * ROUNDING)
    status = Status.CERTIFIED if is_closed else Status.GAP_LEFT
    return CertifiedProjection(labels, weights, value, bound, status, passes, C.shape[1], size)


def make_budget(tol: float, max_passes: int | None, time_limit: float | None) -> Budget:
    """Return the budget of the options; without any limit, the usual number of passes."""
    if time_limit is None:
        return Budget(tol, USUAL_PASSES if max_passes is None else max_passes)
    passes = np.inf if max_passes is None else max_passes
    return Budget(tol, passes, perf_counter() + time_limit)


def _scaled(C: FloatArray, top: float) -> tuple[FloatArray, float]:
    """C over a power of two, so that squares of entries near ``top`` are in range; a copy if so."""
    if top <= 0.0:  # no squares are needed
        top = max(float(np.abs(C).max()), 1.0)
    if SAFE_RANGE[0] < top < SAFE_RANGE[1]:
        return C, 1.0
    scale = 2.0 ** min(max(int(np.frexp(top)[1]) - 1, -1000), 1000)
    return _divided(C, scale), scale


def _divided(C: FloatArray, scale: float) -> FloatArray:
    """C / scale, cut off where negative entries would leave the range."""
    with np.errstate(over="ignore"):
        return np.maximum(C / scale, C.dtype.type(LOWEST[C.dtype]))


def _solve(C: FloatArray, maxima: FloatArray, budget: Budget) -> tuple[Assignment, float, float]:
    """Return the best assignment, a bound that is not below its value, and the passes."""
    n, k = C.shape
    maxima = np.where(maxima > NEGLIGIBLE * maxima.max(), maxima, np.minimum(maxima, 0.0))
    if n == k or (maxima <= 0.0).all():
        best, passes = _one_row_each(C), 1.0
    elif n <= TINY_ROWS:
        best, passes = evaluate(C, kernels.best_partition(C)), 2.0
    else:
        search = _certify(C, maxima, budget)
        return search.best, max(search.bound, search.best.value), search.passes
    # All assignments were compared: only rounding is left.
    return best, best.value + ROUNDING * best.size, passes


def _one_row_each(C: FloatArray) -> Assignment:
    """Solve n = k, or no positive entry: one row for each column, a linear assignment problem."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    rows, columns = linear_sum_assignment(C, maximize=True)
    labels = np.full(len(C), -1)
    labels[rows] = columns
    return evaluate(C, labels)


def _certify(C: FloatArray, maxima: FloatArray, budget: Budget) -> Search:
    """Pass until the gap is closed or the relaxation is solved, then search whole rows."""
    search = run(C, maxima, start_search(C, maxima), budget)
    if not search.is_closed(budget):
        search = _polish(C, maxima, _try_matching(C, search), budget)
    if search.is_closed(budget):
        return search
    priced = _price(C, search, budget) if (maxima > 0.0).all() else search
    if priced.is_closed(budget):
        return priced
    passes = priced.passes if _pays_soon(C, priced, budget) else max(priced.passes, USUAL_PASSES)
    if budget.is_spent(passes):
        return priced
    # What is left open follows from D(w) at w, not from the bound of the prices.
    core, search = open_core(C, maxima, replace(priced, bound=search.bound), BRANCH_SIZE)
    if core is None:
        return replace(search, bound=priced.bound)
    return branch(core, search, priced.bound, budget)


def _pays_soon(C: FloatArray, search: Search, budget: Budget) -> bool:
    """Whether branching is likely to close the gap within the usual number of passes."""
    n, k = C.shape
    if n < BRANCH_ROWS * k or not search.is_closed(replace(budget, tol=BRANCH_GAP)):
        return True
    root, unit = unit_root(search.weights)
    most_pairs_are_open = search.gap >= unit * window_slack(C, root, 0.5 * k)
    return most_pairs_are_open or has_equal_rows(C) or has_common_measure(C)


def _price(C: FloatArray, search: Search, budget: Budget) -> Search:
    """Return the bound of whole rows, where the pairs that can still matter are not too many."""
    mean_pairs = 1.0 + min(PRICED_PAIRS, PRICED_SIZE / len(C))
    limit, (root, unit) = search.gap * WIDER, unit_root(search.weights)
    if limit > unit * window_slack(C, root, mean_pairs):
        return search
    pairs, search = _pairs_around(C, search, limit, C.shape[1])
    return price_rows(pairs, search, budget)


def _try_matching(C: FloatArray, search: Search) -> Search:
    """Where columns have few rows: start again from one row each, the others to their maximum."""
    n, k = C.shape
    if n > MATCHING_ROWS * k or n * k > MATCHING_SIZE:
        return search
    labels = _one_row_each(C).labels
    others, _ = kernels.assign_rows(C, unit_root(search.weights)[0])
    start = evaluate(C, np.where(labels >= 0, labels, others))
    trial, best = replace(search, best=start), search.best
    pairs, trial = _pairs_around(C, trial, np.inf, k)
    trial = _improve(C, pairs, trial, np.where(start.sums > 0.0, search.weights, HUGE))
    return trial if trial.best.value > best.value else replace(trial, best=best)


def _polish(C: FloatArray, maxima: FloatArray, search: Search, budget: Budget) -> Search:
    """Double moves over the pairs that can still matter; a full search if these are few.

    By the identity in `chain_moves_into` a better assignment uses only pairs with slack
    max_l w_l P_il - w_j P_ij below the gap: pairs beyond it are excluded for good.
    """
    positive = maxima > 0.0
    mean_pairs = 1.0 + min(POLISH_PAIRS, POLISH_SIZE / len(C))
    limit, (root, unit) = search.gap * WIDER, unit_root(search.weights)
    slack = min(limit, unit * window_slack(C, root, mean_pairs))
    is_complete = slack == limit  # all pairs that matter, not only the nearest
    width = C.shape[1] if is_complete else POLISH_WIDTH
    pairs, search = _pairs_around(C, search, slack, width)
    weights = np.where(positive, search.weights, HUGE)
    search = _improve(C, pairs, search, weights)
    can_empty = search.gap >= 0.25 / weights.max() or not positive.all()
    if not is_complete or can_empty or search.is_closed(budget):
        return search
    return _search_all(C, pairs, search)


def _pairs_around(C: FloatArray, search: Search, slack: float, width: int) -> tuple[Pairs, Search]:
    """Gather the pairs within ``slack`` of the row maximum at the weights of the bound."""
    labels = search.best.labels
    rows = np.flatnonzero(labels >= 0)
    entry = np.zeros(len(labels))
    entry[rows] = C[rows, labels[rows]]
    keep = pairs_of_labels(np.where(entry > 0.0, labels, -1))
    root, unit = unit_root(search.weights)
    window = (1.0, slack / unit, width)
    pairs, _ = kernels.gather_pairs(C, root, window, keep)
    return pairs, replace(search, passes=search.passes + 1.0)


def _improve(C: FloatArray, pairs: Pairs, search: Search, weights: FloatArray) -> Search:
    """Single and double moves from the best assignment."""
    labels = search.best.labels
    chosen = local_search(
        pairs, chosen_of_labels(pairs, labels), C.shape[1], POLISH_SWEEPS, weights
    )
    labels = np.where(chosen >= 0, labels_of_chosen(pairs, chosen), labels)
    best = evaluate(C, fill_columns(C, labels))
    return replace(search, best=best) if best.value > search.best.value else search


def _search_all(C: FloatArray, pairs: Pairs, search: Search) -> Search:
    """Try all assignments that the bound leaves open; if that ends, the best one is optimal."""
    chosen = chosen_of_labels(pairs, search.best.labels)
    pairs, chosen = near_pairs(pairs, chosen, search.weights, search.gap * WIDER)
    rows = np.flatnonzero(np.diff(pairs.start) > 1)
    if len(rows) > MAX_SEARCH_ROWS or (chosen[rows] < 0).any():
        return search
    sums, gap = chosen_sums(pairs, chosen, C.shape[1]), search.gap
    is_done = kernels.search_rows_into(rows, pairs, chosen, sums, search.weights, MAX_NODES)
    best = evaluate(C, fill_columns(C, labels_of_chosen(pairs, chosen)))
    search = replace(search, best=best) if best.value > search.best.value else search
    closed = search.best.value + SEARCH_THRESHOLD * gap + ROUNDING * search.best.size
    bound = closed if is_done else search.bound
    return replace(search, bound=min(search.bound, bound))
