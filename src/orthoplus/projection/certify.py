r"""The projection onto S+ = {X >= 0, X'X = I}, with a certificate of optimality if one is found.

.. math:: \max_{X \in S_+} \langle C, X \rangle
          = \max_{\pi} \sum_j \Big(\sum_{i : \pi(i) = j} \max(C_{ij}, 0)^2\Big)^{1/2}

over assignments pi of rows to columns (a column whose rows have no positive entry contributes its
largest entry). `dual` has the relaxation and its bound, `search` the assignments, `passes` improves
value and bound by passes over C, `prices` tightens the bound for rows that are shared, `branch` is
the branch and bound for the remaining gap, and this module combines them.
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
from orthoplus.projection.passes import Budget, Search, run, settle, start_search
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

# Squares of entries in this range neither overflow nor underflow; otherwise a scaled copy is used.
SAFE_RANGE = (1e-20, 1e20)
# A column whose entries are below this fraction of the largest counts as one without a positive
# entry: its contribution is below rounding, and the square of its weight would overflow.
NEGLIGIBLE = 1e-100
# Negative entries of a scaled C are clipped here, so that their sums stay in range.
LOWEST = {np.dtype(np.float64): -1e250, np.dtype(np.float32): -1e36}
TINY_ROWS = 10  # up to this many rows, all assignments are compared
# Rows per column, and size, up to which a matching of rows is tried as a second start.
MATCHING_ROWS, MATCHING_SIZE = 4, 1 << 18
# Polishing: average number of pairs per row besides the maximum, number of pairs in total, largest
# number per row, and number of sweeps.
POLISH_PAIRS, POLISH_SIZE, POLISH_WIDTH, POLISH_SWEEPS = 6.0, 1 << 16, 8, 50
# Pricing: average number of pairs per row besides the maximum, and number of pairs in total.
PRICED_PAIRS, PRICED_SIZE = 32.0, 1 << 18
# Branching is tried early if columns have fewer than BRANCH_ROWS rows on average, or if the gap
# exceeds BRANCH_GAP, which must then be caused by a few heavy rows. Otherwise it only gets the
# passes beyond USUAL_PASSES. It handles at most BRANCH_SIZE pairs.
BRANCH_ROWS, BRANCH_GAP, USUAL_PASSES, BRANCH_SIZE = 20, 1e-5, 100, 1 << 18
# Limits of the exhaustive search: number of open rows, and of visited nodes.
MAX_SEARCH_ROWS, MAX_NODES = 200, 200_000
HUGE = 1e300  # the weight of a column that does not take part in the dual


@dataclass(frozen=True)
class CertifiedProjection:
    """A point of S+, its value <C, X> and an upper bound on the value of every point of S+.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        The column of each row's positive entry, -1 for a zero row.
    weights : ndarray of shape (n,)
        The positive entry of each row, 0 for a zero row.
    value, bound : float
        The value <C, X> and its upper bound over S+; ``bound >= value``.
    status : Status
        ``CERTIFIED`` if the gap is at most the tolerance, else ``GAP_LEFT``.
    passes : float
        Number of entries of C that were read, in units of nk, plus nodes of branch and bound.
    n_columns : int
        Number k of columns.
    size : float
        Sum of the absolute values ``|<c_j, x_j>|`` of the columns, the scale of the gap. It equals
        ``value`` unless a column has no positive entry.

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
        """Return ``(bound - value) / max(|bound|, size)``, zero to rounding if optimal."""
        return gap_of_maximum(self.value, self.bound, self.size)

    @cached_property
    def X(self) -> FloatArray:
        """Return the dense n x k matrix."""
        return spread(self.labels, self.weights.astype(np.float64, copy=False), self.n_columns)


def gap_of_maximum(value: float, bound: float, size: float) -> float:
    """Return (bound - value) / max(|bound|, size), or 0 if the bound equals the value."""
    return relative_gap(-value, -bound, size=size) or 0.0


def project_stiefel_plus(
    C: FloatArray,
    *,
    tol: float = 1e-12,
    max_passes: int | None = None,
    time_limit: float | None = None,
    start: IntArray | None = None,
) -> CertifiedProjection:
    r"""Maximize :math:`\langle C, X \rangle` over :math:`X \ge 0,\ X^T X = I`, with an upper bound.

    Parameters
    ----------
    C : ndarray of shape (n, k), n >= k >= 1
        Finite matrix in float32 or float64, in any memory order, possibly memory-mapped; not
        modified.
    tol : float
        Relative gap at which the point counts as optimal. Values below 2^-46, the rounding level,
        are replaced by it.
    max_passes : int, optional
        Largest number of passes over C; a node of branch and bound counts as one, or as several for
        a large core. About ten passes solve the relaxation; more are used only to branch on rows
        that it splits. The default is 100, or no limit if there is a time limit.
    time_limit : float, optional
        Number of seconds after which no further pass or node is started.
    start : ndarray of shape (n,), optional
        Column of each row, -1 for none, of an assignment that may be optimal or close to it. If so,
        one to four passes prove it; otherwise these passes are in addition to the others.

    Returns
    -------
    CertifiedProjection
        An exactly feasible point. Which of several equally good points is returned is not
        specified. The bound is rounded up, so that it holds in exact arithmetic.

    Raises
    ------
    ValueError
        If <C, X> or its bound exceeds the largest floating-point number.

    Notes
    -----
    See ``docs/paper.md``, row "projection onto S+". No algorithm is known that is fast for every C.
    The bound is that of a concave relaxation, which is tight for the planted matrices of the paper
    and close if n >> k. If few rows are left undecided, or n <= 10, all assignments are searched;
    otherwise branch and bound is used. For n = k it is a linear assignment problem. A pass costs
    O(nk), and 3 to 12 passes are usual; the memory in addition to C is O(n + k).

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
    best, bound, passes = _solve(scaled, _divided(maxima, scale), budget, start)
    used = np.flatnonzero(best.labels >= 0)
    if scale != 1.0 and (scaled[used, best.labels[used]] <= LOWEST[C.dtype]).any():
        # A column must take a negative entry that dwarfs all positive ones: scale by that entry.
        scaled, scale = _scaled(C, float(np.abs(C).max()))
        best, bound, passes = _solve(scaled, _divided(np.minimum(maxima, 0.0), scale), budget)
    value, bound, size = best.value * scale, bound * scale, best.size * scale
    if not np.isfinite([value, bound, size]).all():
        raise InputError(
            f"`C` has entries as large as {float(np.abs(C).max()):.3g}: <C, X> or its upper bound "
            f"exceeds the largest floating-point number. Divide `C` by a number, for example by "
            f"that entry; this does not change the nearest point."
        )
    weights = row_weights(scaled, best.labels)
    labels = np.where(weights > 0.0, best.labels, -1)
    is_closed = gap_of_maximum(value, bound, size) <= max(tol, 2.0 * ROUNDING)
    status = Status.CERTIFIED if is_closed else Status.GAP_LEFT
    return CertifiedProjection(labels, weights, value, bound, status, passes, C.shape[1], size)


def make_budget(tol: float, max_passes: int | None, time_limit: float | None) -> Budget:
    """Return the budget for these options; the default is the usual number of passes."""
    if time_limit is None:
        return Budget(tol, USUAL_PASSES if max_passes is None else max_passes)
    passes = np.inf if max_passes is None else max_passes
    return Budget(tol, passes, perf_counter() + time_limit)


def _scaled(C: FloatArray, top: float) -> tuple[FloatArray, float]:
    """Divide C by a power of two if needed to keep squares of entries near ``top`` in range."""
    if top <= 0.0:  # no squares are needed
        top = max(float(np.abs(C).max()), 1.0)
    if SAFE_RANGE[0] < top < SAFE_RANGE[1]:
        return C, 1.0
    scale = 2.0 ** min(max(int(np.frexp(top)[1]) - 1, -1000), 1000)
    return _divided(C, scale), scale


def _divided(C: FloatArray, scale: float) -> FloatArray:
    """Return C / scale, with negative entries clipped to the floating-point range."""
    with np.errstate(over="ignore"):
        return np.maximum(C / scale, C.dtype.type(LOWEST[C.dtype]))


def _solve(
    C: FloatArray, maxima: FloatArray, budget: Budget, start: IntArray | None = None
) -> tuple[Assignment, float, float]:
    """Return the best assignment, a bound of at least its value, and the number of passes."""
    n, k = C.shape
    maxima = np.where(maxima > NEGLIGIBLE * maxima.max(), maxima, np.minimum(maxima, 0.0))
    if n == k or (maxima <= 0.0).all():
        best, passes = _one_row_each(C), 1.0
    elif n <= TINY_ROWS:
        best, passes = evaluate(C, kernels.best_partition(C)), 2.0
    else:
        settled = None if start is None else settle(C, maxima, start)
        search = _certify(C, maxima, budget) if settled is None else settled
        return search.best, max(search.bound, search.best.value), search.passes
    # All assignments were compared, so the gap consists of rounding only.
    return best, best.value + ROUNDING * best.size, passes


def _one_row_each(C: FloatArray) -> Assignment:
    """Assign one row to each column (n = k, or no positive entry) by linear assignment."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    rows, columns = linear_sum_assignment(C, maximize=True)
    labels = np.full(len(C), -1)
    labels[rows] = columns
    return evaluate(C, labels)


def _certify(C: FloatArray, maxima: FloatArray, budget: Budget) -> Search:
    """Make passes until the gap is closed or the relaxation is solved, then search whole rows."""
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
    # Which pairs are undecided follows from D(w) at w, not from the bound of the prices.
    core, search = open_core(C, maxima, replace(priced, bound=search.bound), BRANCH_SIZE)
    if core is None:
        return replace(search, bound=priced.bound)
    return branch(core, search, priced.bound, budget)


def _pays_soon(C: FloatArray, search: Search, budget: Budget) -> bool:
    """Return whether branching is likely to close the gap within the usual number of passes."""
    n, k = C.shape
    if n < BRANCH_ROWS * k or not search.is_closed(replace(budget, tol=BRANCH_GAP)):
        return True
    root, unit = unit_root(search.weights)
    most_pairs_are_open = search.gap >= unit * window_slack(C, root, 0.5 * k)
    return most_pairs_are_open or has_equal_rows(C) or has_common_measure(C)


def _price(C: FloatArray, search: Search, budget: Budget) -> Search:
    """Tighten the bound by pricing rows, if the number of relevant pairs is not too large."""
    mean_pairs = 1.0 + min(PRICED_PAIRS, PRICED_SIZE / len(C))
    limit, (root, unit) = search.gap * WIDER, unit_root(search.weights)
    if limit > unit * window_slack(C, root, mean_pairs):
        return search
    pairs, search = _pairs_around(C, search, limit, C.shape[1])
    return price_rows(pairs, search, budget)


def _try_matching(C: FloatArray, search: Search) -> Search:
    """Try a second start if columns have few rows: a matching, other rows at their maximum."""
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
    """Try double moves over the relevant pairs, and an exhaustive search if these are few.

    By the identity in `chain_moves_into`, a better assignment only uses pairs whose slack
    max_l w_l P_il - w_j P_ij is below the gap, so all other pairs are excluded.
    """
    positive = maxima > 0.0
    mean_pairs = 1.0 + min(POLISH_PAIRS, POLISH_SIZE / len(C))
    limit, (root, unit) = search.gap * WIDER, unit_root(search.weights)
    slack = min(limit, unit * window_slack(C, root, mean_pairs))
    is_complete = slack == limit  # all relevant pairs, not only the nearest ones
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
    keep = pairs_of_labels(_positive_labels(C, search.best.labels))
    root, unit = unit_root(search.weights)
    window = (1.0, slack / unit, width)
    pairs, _ = kernels.gather_pairs(C, root, window, keep)
    return pairs, replace(search, passes=search.passes + 1.0)


def _positive_labels(C: FloatArray, labels: IntArray) -> IntArray:
    """Return the labels of the rows with a positive entry in their column, -1 for the others."""
    rows = np.flatnonzero(labels >= 0)
    rows = rows[C[rows, labels[rows]] > 0.0]
    positive = np.full_like(labels, -1)
    positive[rows] = labels[rows]
    return positive


def _improve(C: FloatArray, pairs: Pairs, search: Search, weights: FloatArray) -> Search:
    """Improve the best assignment by single and double moves."""
    labels = search.best.labels
    chosen = local_search(
        pairs, chosen_of_labels(pairs, labels), C.shape[1], POLISH_SWEEPS, weights
    )
    labels = np.where(chosen >= 0, labels_of_chosen(pairs, chosen), labels)
    best = evaluate(C, fill_columns(C, labels))
    return replace(search, best=best) if best.value > search.best.value else search


def _search_all(C: FloatArray, pairs: Pairs, search: Search) -> Search:
    """Search all assignments that the bound does not exclude; a completed search is a proof."""
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
