r"""The projection onto S+ = {X >= 0, X'X = I}, globally optimal with a proof where one is found.

.. math:: \max_{X \in S_+} \langle C, X \rangle
          = \max_{\text{assignments of rows}} \sum_j \Big(\sum_{i \in j} \max(C_{ij}, 0)^2\Big)^{1/2}

(a column whose rows have no positive entry counts with its largest entry). `projection_dual` holds
the relaxation and its bound, `projection_search` the assignments; this module brings them together.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import linear_sum_assignment

from orthoplus import kernels
from orthoplus.kernels.reference_pairs import Pairs
from orthoplus.projection_dual import (
    MAX_WIDTH,
    Shares,
    held_pairs,
    initial_root,
    next_root,
    no_pairs,
    pairs_of_labels,
    near_pairs,
    row_of_pairs,
    row_tops,
    scaled_dual,
    solve_shares,
    window_ratio,
    window_slack,
)
from orthoplus.projection_search import (
    Assignment,
    chosen_of_labels,
    chosen_sums,
    evaluate,
    fill_columns,
    give_rows,
    labels_of_chosen,
    local_search,
    round_shares,
)
from orthoplus.protocols import FloatArray, IntArray
from orthoplus.status import Status

# Squares of entries in this range neither overflow nor vanish; outside it C is scaled (a copy).
SAFE_RANGE = (1e-20, 1e20)
# A column whose entries are smaller than this part of the largest counts as one without positive
# entry: what it adds is below rounding, and the square of its weight would overflow.
NEGLIGIBLE = 1e-100
# Rows per column from which the weights of a sample are worth having, and the sampling step.
COARSE_ROWS, COARSE_STEP = 1024, 16
# Pairs per row in the first pass: without and with weights from a sample.
FIRST_PAIRS, COARSE_PAIRS = 8.0, 1.2
# The relaxation is solved once its own gap is this part of the gap to the best assignment.
RELAXATION_SHARE = 0.02
# The restricted problem is solved to this part of the gap, at best to this relative accuracy.
RESTRICTED_SHARE, RESTRICTED_TOL = 0.01, 1e-14
# The full search over open rows, in nodes; and the most pairs per row that polishing looks at.
MAX_NODES, MAX_SEARCH_ROWS = 200_000, 200
SEARCH_TOL = 1e-12  # relative to the gap, what the full search may overlook
POLISH_PAIRS, POLISH_SIZE = 6.0, 65536.0
COARSE_PASSES, COARSE_TOL = 20.0, 1e-5  # on a sample the weights are only estimates
TINY_ROWS = 10  # up to here all assignments are tried
MATCHING_ROWS, MATCHING_SIZE = 4, 1 << 18
MAX_STALLS, STALL_SHARE = 5, 0.01
MAX_RAISES = 4  # passes that only raise weights of columns without pairs
ROUNDING_SWEEPS, POLISH_SWEEPS = 5, 50  # of the local search
HUGE, TINY = 1e300, 1e-300


@dataclass(frozen=True)
class Projection:
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
        Entries of C that were read to find it, in units of n k.
    n_columns : int
        k.
    """

    labels: IntArray
    weights: FloatArray
    value: float
    bound: float
    status: Status
    passes: float
    n_columns: int

    @property
    def gap(self) -> float:
        """(bound - value) / |bound|: 0 is optimal."""
        difference = self.bound - self.value
        return difference / abs(self.bound) if difference > 0.0 else 0.0

    @cached_property
    def X(self) -> FloatArray:
        """The dense n x k matrix."""
        X = np.zeros((len(self.labels), self.n_columns))
        rows = np.flatnonzero(self.labels >= 0)
        X[rows, self.labels[rows]] = self.weights[rows]
        return X


@dataclass(frozen=True)
class _Search:
    """All that the next pass needs, and the best found so far."""

    root: FloatArray  # sqrt(w) of the next pass
    ratio: float  # its window, and the widest there was
    widest: float
    keep: Pairs  # the point of the relaxation
    relaxed: float
    best: Assignment | None
    bound: float
    weights: FloatArray  # w of the best bound, at its best scale
    passes: float
    stalls: int = 0  # passes in a row that closed next to nothing of the gap

    @property
    def gap(self) -> float:
        return np.inf if self.best is None else self.bound - self.best.value

    def is_closed(self, tol: float) -> bool:
        return self.gap <= tol * abs(self.bound)

    def is_relaxed_to(self, tol: float) -> bool:
        """Whether the relaxation is solved to ``tol``, as well as the gap asks for, or not at all."""
        if self.best is None:
            return False
        return self.stalls >= MAX_STALLS or self.bound - self.relaxed <= max(
            tol * abs(self.bound), RELAXATION_SHARE * self.gap
        )


def project_stiefel_plus(C: FloatArray, *, tol: float = 1e-12, max_passes: int = 100) -> Projection:
    r"""Maximise :math:`\langle C, X \rangle` over :math:`X \ge 0,\ X^T X = I`, with an upper bound.

    Parameters
    ----------
    C : ndarray of shape (n, k), n >= k >= 1
        Finite; float32 or float64, any memory order, memory-mapped or not; not modified.
    tol : float
        The relative gap at which the point counts as optimal.
    max_passes : int
        Most passes over C.

    Returns
    -------
    Projection
        Exactly feasible. Among equally good points which one is not specified.

    Notes
    -----
    ``docs/paper.md``, row "projection onto S+". The problem is NP-hard in general; the bound is that
    of its concave relaxation, tight for the planted matrices of the paper and close when n >> k.
    A pass costs O(nk), and some 5 to 15 of them are made; memory beyond C is O(n).

    Examples
    --------
    >>> result = project_stiefel_plus(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]]))
    >>> result.labels, result.value, result.status.name
    (array([0, 0, 1]), 7.0, 'CERTIFIED')
    """
    assert C.ndim == 2 and np.issubdtype(C.dtype, np.floating), "C must be a float matrix"
    n, k = C.shape
    maxima = kernels.column_maxima(C)
    scale, top = 1.0, float(maxima.max())
    if n > k and top > 0.0 and not SAFE_RANGE[0] < top < SAFE_RANGE[1]:
        scale = float(2.0 ** np.frexp(top)[1].clip(-1000, 1000))
        C, maxima = C / scale, maxima / scale
    maxima = np.where(maxima > NEGLIGIBLE * maxima.max(), maxima, np.minimum(maxima, 0.0))
    if n == k or top <= 0.0:
        best, bound, passes = _one_row_each(C), -np.inf, 1.0
    elif n <= TINY_ROWS:
        best, bound, passes = evaluate(C, kernels.best_partition(C)), -np.inf, 2.0
    else:
        search = _certify(C, maxima, tol, max_passes)
        assert search.best is not None
        best, bound, passes = search.best, search.bound, search.passes
    bound = max(bound, best.value)
    status = Status.CERTIFIED if bound - best.value <= tol * abs(bound) else Status.GAP_LEFT
    return Projection(
        best.labels, best.weights, best.value * scale, bound * scale, status, passes, k
    )


def _one_row_each(C: FloatArray) -> Assignment:
    """n = k, or no positive entry: one row for each column, a linear assignment problem."""
    rows, columns = linear_sum_assignment(C, maximize=True)
    labels = np.full(len(C), -1)
    labels[rows] = columns
    return evaluate(C, labels)


def _certify(C: FloatArray, maxima: FloatArray, tol: float, max_passes: int) -> _Search:
    """Passes until the gap is closed or the relaxation is solved, then the search of whole rows."""
    search = _start(C, maxima)
    while True:
        search = _count_stall(_step(C, maxima, search, tol), search)
        if search.is_closed(tol) or search.is_relaxed_to(0.0) or search.passes >= max_passes:
            break
    if search.is_closed(tol):
        return search
    return _polish(C, maxima, _try_matching(C, search), tol)


def _try_matching(C: FloatArray, search: _Search) -> _Search:
    """Where columns have few rows: start again from one row each, the others to their maximum."""
    n, k = C.shape
    if n > MATCHING_ROWS * k or n * k > MATCHING_SIZE:
        return search
    labels = _one_row_each(C).labels
    others, _ = kernels.assign_rows(C, np.sqrt(search.weights))
    start = evaluate(C, np.where(labels >= 0, labels, others))
    trial, best = replace(search, best=start), search.best
    pairs, trial = _pairs_around(C, trial, np.inf)
    trial = _improve(C, pairs, trial, np.where(start.sums > 0.0, search.weights, HUGE))
    assert best is not None and trial.best is not None
    return trial if trial.best.value > best.value else replace(trial, best=best)


def _start(C: FloatArray, maxima: FloatArray) -> _Search:
    """The first weights: from the column sums, or from the relaxation on a sample of rows."""
    n, k = C.shape
    root, passes, mean_pairs = initial_root(C, maxima), 1.0, FIRST_PAIRS
    if n >= COARSE_ROWS * k:
        root, passes = _coarse_root(C, root)
        mean_pairs = COARSE_PAIRS
    ratio = window_ratio(C, root, mean_pairs)
    keep = no_pairs(n)
    return _Search(root, ratio, ratio, keep, -np.inf, None, np.inf, root * root, passes)


def _coarse_root(C: FloatArray, root: FloatArray) -> tuple[FloatArray, float]:
    """sqrt(w) of the relaxation on a sample of rows; where that has nothing, ``root`` rescaled."""
    sample = np.ascontiguousarray(C[::COARSE_STEP])
    maxima = kernels.column_maxima(sample)
    known = maxima > 0.0
    if not known.any():
        return root, 1.0 + 1.0 / COARSE_STEP
    search = _start(sample, maxima)
    while search.passes < COARSE_PASSES and not search.is_relaxed_to(COARSE_TOL):
        search = _step(sample, maxima, search, 0.0)
    fresh = np.sqrt(search.weights)
    rescaled = root * np.median(fresh[known] / root[known])
    return np.where(known, fresh, rescaled), 1.0 + search.passes / COARSE_STEP


def _step(C: FloatArray, maxima: FloatArray, search: _Search, tol: float) -> _Search:
    """One pass at w: the bound D(w), the pairs near the maxima, and from them the next w."""
    pairs, sums, search = _pass(C, maxima, search)
    bound, weights, forced = _bound(C, maxima, pairs, search.root, sums)
    if bound < search.bound:
        search = replace(search, bound=bound, weights=weights)
    if search.is_closed(tol):
        return search
    shares = _restricted_optimum(C, pairs, forced, search)
    relaxed = shares.value + forced.value
    best = _round(C, shares, forced)
    is_integral = best.value >= relaxed * (1.0 - RESTRICTED_TOL)
    root = next_root(best.sums if is_integral else shares.sums, search.root)
    if search.best is not None and search.best.value >= best.value:
        best = search.best
    change = np.log(root / search.root)[maxima > 0.0]
    ratio = float(np.clip(1.0 - np.ptp(change), search.widest, 1.0))
    keep = held_pairs(shares.pairs)
    return replace(search, root=root, ratio=ratio, keep=keep, relaxed=relaxed, best=best)


def _count_stall(search: _Search, before: _Search) -> _Search:
    is_stalled = search.gap > (1.0 - STALL_SHARE) * before.gap
    return replace(search, stalls=before.stalls + 1 if is_stalled else 0)


def _pass(C: FloatArray, maxima: FloatArray, search: _Search) -> tuple[Pairs, FloatArray, _Search]:
    """Gather pairs; where a column with positive entries has none, raise its weight and repeat."""
    n, k = C.shape
    for _ in range(MAX_RAISES):
        window = (search.ratio, 0.0, MAX_WIDTH)
        pairs, sums = kernels.gather_pairs(C, search.root, window, search.keep)
        search = replace(search, passes=search.passes + 1.0)
        has_pairs = np.bincount(pairs.column, minlength=k) > 0
        missing = np.flatnonzero((maxima > 0.0) & ~has_pairs)
        if len(missing) == 0:
            break
        root, top = search.root.copy(), np.sqrt(row_tops(pairs, search.root**2))
        for j in missing:
            root[j] = 1.0 / np.max(np.maximum(C[:, j], 0.0) / np.where(top > 0.0, top, np.inf))
        search = replace(search, root=root)
    return pairs, sums, search


@dataclass(frozen=True)
class _Forced:
    """Rows given to the columns without positive entry, and what these contribute."""

    columns: IntArray
    rows: IntArray
    value: float


def _bound(
    C: FloatArray, maxima: FloatArray, pairs: Pairs, root: FloatArray, sums: FloatArray
) -> tuple[float, FloatArray, _Forced]:
    """An upper bound of <C, X> over S+, the weights w behind it, and the rows that are forced.

    A column j without positive entry must take a row i, gains C_ij and loses max_l w_l P_il: the
    best distinct rows are a linear assignment, and its value belongs to the bound.
    """
    dual, weights = scaled_dual(root, sums, maxima > 0.0)
    columns = np.flatnonzero(maxima <= 0.0)
    if len(columns) == 0:
        return dual, weights, _Forced(columns, columns, 0.0)
    rows, total = give_rows(C, columns, row_tops(pairs, weights))
    value = float(np.asarray(C[rows, columns], dtype=np.float64).sum())
    return dual + total, weights, _Forced(columns, rows, value)


def _restricted_optimum(C: FloatArray, pairs: Pairs, forced: _Forced, search: _Search) -> Shares:
    """The relaxation over the gathered pairs, without the forced rows."""
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
    chosen = local_search(shares.pairs, round_shares(shares), C.shape[1], ROUNDING_SWEEPS)
    labels = labels_of_chosen(shares.pairs, chosen)
    labels[forced.rows] = forced.columns
    return evaluate(C, fill_columns(C, labels))


def _polish(C: FloatArray, maxima: FloatArray, search: _Search, tol: float) -> _Search:
    """Double moves over the pairs that can still matter; a full search if these are few.

    By the identity in `chain_moves_into` a better assignment uses only pairs with slack
    max_l w_l P_il - w_j P_ij below the gap: pairs beyond it are excluded for good.
    """
    assert search.best is not None
    n, k = C.shape
    positive = maxima > 0.0
    mean_pairs = 1.0 + min(POLISH_PAIRS, POLISH_SIZE / n)
    limit = search.gap * (1.0 + 1e-9)
    slack = min(limit, window_slack(C, np.sqrt(search.weights), mean_pairs))
    pairs, search = _pairs_around(C, search, slack)
    weights = np.where(positive, search.weights, HUGE)
    search = _improve(C, pairs, search, weights)
    can_empty = search.gap >= 0.25 / weights.max() or not positive.all()
    if slack < limit or can_empty or search.is_closed(tol):
        return search
    return _search_all(C, pairs, search, tol)


def _pairs_around(C: FloatArray, search: _Search, slack: float) -> tuple[Pairs, _Search]:
    """All pairs within ``slack`` of the row maximum at the weights of the bound, and the labels."""
    assert search.best is not None
    labels = search.best.labels
    rows = np.flatnonzero(labels >= 0)
    entry = np.zeros(len(labels))
    entry[rows] = C[rows, labels[rows]]
    keep = pairs_of_labels(np.where(entry > 0.0, labels, -1))
    window = (1.0, slack, C.shape[1])
    pairs, _ = kernels.gather_pairs(C, np.sqrt(search.weights), window, keep)
    return pairs, replace(search, passes=search.passes + 1.0)


def _improve(C: FloatArray, pairs: Pairs, search: _Search, weights: FloatArray) -> _Search:
    """Single and double moves from the best assignment."""
    assert search.best is not None
    labels = search.best.labels
    chosen = local_search(
        pairs, chosen_of_labels(pairs, labels), C.shape[1], POLISH_SWEEPS, weights
    )
    labels = np.where(chosen >= 0, labels_of_chosen(pairs, chosen), labels)
    best = evaluate(C, fill_columns(C, labels))
    return replace(search, best=best) if best.value > search.best.value else search


def _search_all(C: FloatArray, pairs: Pairs, search: _Search, tol: float) -> _Search:
    """Try all assignments that the bound leaves open; if that ends, the best one is optimal."""
    assert search.best is not None
    chosen = chosen_of_labels(pairs, search.best.labels)
    pairs, chosen = near_pairs(pairs, chosen, search.weights, search.gap * (1.0 + 1e-9))
    rows = np.flatnonzero(np.diff(pairs.start) > 1)
    if len(rows) > MAX_SEARCH_ROWS:
        return search
    sums = chosen_sums(pairs, chosen, C.shape[1])
    is_done = kernels.search_rows_into(rows, pairs, chosen, sums, search.weights, MAX_NODES)
    best = evaluate(C, fill_columns(C, labels_of_chosen(pairs, chosen)))
    gap = search.gap
    if best.value > search.best.value:
        search = replace(search, best=best)
    if is_done:
        search = replace(search, bound=min(search.bound, search.best.value + SEARCH_TOL * gap))
    return search
