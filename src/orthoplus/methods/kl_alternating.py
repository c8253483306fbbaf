"""Clusters of counts: alternation and exact row moves for the Kullback-Leibler divergence."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.outer_method import Answer, RestStop, SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.count_groups import (
    cover_groups,
    group_divergence,
    keep_first_moves,
    likeliest_groups,
    log_profiles,
    missed_of_profiles,
    moved_range,
    sum_groups,
    sweep_rows,
)
from orthoplus.data.groups import (
    Centers,
    assign_rows,
    count_rows,
    normalized_entries,
    support_labels,
)
from orthoplus.geometry.stiefel import assemble, labels_of
from orthoplus.linalg.starts import leading_centers
from orthoplus.methods.count_seeds import sample_counts, seed_profiles, swap_profile

# Products of entries and groups that the starts of a small problem may cost, and their most.
_CHEAP_STARTS, _MOST_STARTS = 1 << 21, 40
# Products of entries and groups of a problem so small that rows move singly from every start.
_CHEAP_SWEEP = 1 << 16
# Every start of this number begins with rows at random, the others with a swap.
_FRESH_START = 4
# Alternations on the sample before a start meets all rows.
_SAMPLE_STEPS = 50


class CountModel(Protocol):
    """What the alternation asks of a problem: KLONMF."""

    A: DataMatrix

    @property
    def row_sums(self) -> Any: ...
    @property
    def constant(self) -> float: ...


def _counts(problem: Problem) -> CountModel:
    if not hasattr(problem, "row_sums"):
        own = type(getattr(problem, "problem", problem)).__name__
        raise InputTypeError(f"KLAlternating solves KLONMF(A, k), not {own}. Use EP4Orth for it.")
    return cast(CountModel, problem)


class KLState(NamedTuple):
    """The best groups so far, and the start that is under way.

    While it ``is_smooth`` the profiles of the start are smoothed, then rows move singly. Labels are
    n-vectors in the form of the data; those that are not in memory are not saved with the state,
    and `KLAlternating` makes them again from the sums of their groups.
    """

    labels: Any
    sums: FloatArray  # k x r: of the groups of `labels`
    current: float  # the value of `labels`
    best_labels: Any
    best_sums: FloatArray
    value: float
    sizes: Any  # the sums of the rows
    n_iter: int
    n_started: int
    best_smooth: float  # of the starts so far, at the end of the smoothed alternation
    is_smooth: bool
    is_fixed: bool
    violation: float = 0.0
    Y: FloatArray | None = None

    @property
    def X(self) -> FloatArray:
        """The best point as a dense matrix, computed on each access."""
        if not isinstance(self.best_labels, np.ndarray):
            raise InputError(
                "The rows of this state are not in memory: `result.labels` and `result.weights` "
                "hold the point, in the form of the data."
            )
        k = len(self.sums)
        masses = np.append(self.best_sums.sum(axis=1), 1.0)
        weights = np.where(masses[self.best_labels] > 0, self.sizes, 1.0)
        return assemble(self.best_labels, weights, k)


@dataclass(frozen=True)
class KLAlternating(SeededMethod):
    r"""Alternate labels and profiles for `KLONMF`, then move single rows while D falls.

    .. math:: \pi_i = \arg\max_j \sum_l a_{il} \log p_{jl}, \qquad
              p_{jl} = (1 - \lambda) \frac{c_{jl}}{\sum_m c_{jm}} + \lambda\, \bar p_l, \quad
              c_j = \sum_{\pi_i = j} a_i,

    where :math:`\bar p` is the profile of all rows. With :math:`\lambda = 0` both steps are exact,
    and a word that only one group has holds its documents there for ever; so the alternation is
    smoothed, and what follows is exact: a row moves where D after the move is least.

    Parameters
    ----------
    start : {"svd", "random", "given"}
        First labels from the singular vectors of A, from k rows that are far apart, or from the
        given X.
    n_init : int
        Starts, of which the best end is kept: after the first, from the best groups so far with
        one replaced by a row that the others miss; every fourth from rows drawn at random, each by
        what those before it miss. Rows move singly from the starts whose alternation ends better
        than those before it, in a small problem from all. More starts are never worse.
    smoothing : float
        :math:`\lambda`; 0 is the plain alternation.
    max_iter : int
        Steps, each an alternation or a sweep over the rows.
    sample : int
        Most rows from which starts are drawn, by their sums, and alternated on before they meet
        all rows.
    seed : int
        For the random rows and the singular vectors.

    Notes
    -----
    The alternation is that of arXiv 2410.07786. A step costs O(nnz k). The value never rises: a
    smoothed step that would raise it ends the alternation, and a sweep only makes moves that lower
    it. Where no row gains by moving alone, every row is in its likeliest group: g in
    `orthoplus.data.count_groups` is convex.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[3.0, 1.0, 0.0], [6.0, 2.0, 0.0], [0.0, 1.0, 4.0], [0.0, 0.0, 2.0]])
    >>> op.solve(op.problems.KLONMF(A, 2), method=KLAlternating()).labels
    array([0, 0, 1, 1])
    """

    state_type = KLState
    ends_with_search = False  # it moves single rows itself

    start: str = "svd"
    n_init: int = 4
    smoothing: float = 0.5
    max_iter: int = 1000
    sample: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.start, "start", ("svd", "random", "given"))
        check_count(self.n_init, "n_init", low=1)
        check_range(self.smoothing, "smoothing", low=0.0, high=1.0)
        check_count(self.max_iter, "max_iter", low=1)
        check_count(self.sample, "sample", low=1)
        check_count(self.seed, "seed")

    @classmethod
    def for_size(cls, problem: Any) -> Self:
        """Return the method with more starts if they cost next to nothing."""
        cost = max(1, problem.A.n_stored * problem.shape[1])
        return cls(n_init=max(cls.n_init, min(_MOST_STARTS, _CHEAP_STARTS // cost)))

    def init(self, problem: Problem, X: Any, carry: Carry | None = None) -> KLState:
        """Return the first labels: of X, or of starting centers, or of random rows."""
        A = _counts(problem).A
        if self.start == "random":
            labels = self._draw(problem, 0, None)
        elif isinstance(X, Centers):
            labels = assign_rows(A, X.vectors).labels
        elif self.start == "given":
            labels = A.scatter(labels_of(X))
        else:
            rng = np.random.default_rng(self.seed)
            labels = assign_rows(A, leading_centers(A, problem.shape[1], rng).vectors).labels
        labels, sums, value = self._groups(problem, labels)
        return KLState(
            labels=labels,
            sums=sums,
            current=value,
            best_labels=labels,
            best_sums=sums,
            value=value,
            sizes=_counts(problem).row_sums,
            n_iter=0,
            n_started=1,
            best_smooth=np.inf,
            is_smooth=True,
            is_fixed=False,
        )

    def step(self, problem: Problem, state: KLState) -> KLState:
        """One alternation while that lowers D, then sweeps of single moves; then the next start."""
        state = self._complete(problem, state)._replace(n_iter=state.n_iter + 1)
        if not state.is_smooth:
            swept = self._sweep(problem, state)
            return self._next_start(problem, state) if swept is None else swept
        logs = log_profiles(state.sums, self.smoothing)
        found = self._groups(problem, likeliest_groups(_counts(problem).A, logs))
        if found[2] < state.current:
            return _moved(state, *found)
        is_small = _counts(problem).A.n_stored * problem.shape[1] <= _CHEAP_SWEEP
        if state.current < state.best_smooth or is_small:
            least = min(state.current, state.best_smooth)
            return state._replace(is_smooth=False, best_smooth=least)
        return self._next_start(problem, state)

    def _sweep(self, problem: Problem, state: KLState) -> KLState | None:
        """Return the state after moves of single rows; None if none gains.

        Blocks of rows that sweep at once may spoil each other's gains: then only the first moves
        are made, half of the rows at a time. The first of all always gains.
        """
        A = _counts(problem).A
        after = sweep_rows(A, state.labels, state.sums)
        low, high = moved_range(A, state.labels, after)
        while low <= high:
            if count_rows(A, after, len(state.sums)).all():
                sums = sum_groups(A, after, len(state.sums))
                value = _counts(problem).constant + group_divergence(sums)
                if value < state.current:
                    return _moved(state, after, sums, value)
            if low == high:
                break  # what it gains is rounding
            high = (low + high) // 2
            after = keep_first_moves(A, state.labels, after, high)
        return None

    def _next_start(self, problem: Problem, state: KLState) -> KLState:
        """Return the first labels of the next start; the end after the last one."""
        if state.n_started >= self.n_init:
            return state._replace(is_fixed=True)
        found = self._groups(problem, self._draw(problem, state.n_started, state.best_sums))
        state = state._replace(n_started=state.n_started + 1, is_smooth=True)
        return _moved(state, *found)

    def _draw(self, problem: Problem, number: int, best: FloatArray | None) -> Any:
        """Labels of the start with this number, alternated on a sample of the rows."""
        model, k = _counts(problem), problem.shape[1]
        rng = np.random.default_rng([self.seed, number])
        rows = sample_counts(model.A, model.row_sums, max(self.sample, k), self.seed)
        if best is None or number % _FRESH_START == _FRESH_START - 1:
            sums = seed_profiles(rows, k, self.smoothing, rng)
        else:
            sums = swap_profile(rows, best, self.smoothing, rng)
        value = np.inf
        for _ in range(_SAMPLE_STEPS):
            labels = likeliest_groups(rows, log_profiles(sums, self.smoothing))
            own = sum_groups(rows, cover_groups(rows, labels, rows.row_sums(), k), k)
            before, value = value, group_divergence(own)
            if not value < before:
                break
            sums = own
        return likeliest_groups(model.A, log_profiles(sums, self.smoothing))

    def _groups(self, problem: Problem, labels: Any) -> tuple[Any, FloatArray, float]:
        """Return the labels with no group empty, the sums of the groups, and the value."""
        model, k = _counts(problem), problem.shape[1]
        labels = cover_groups(model.A, labels, model.row_sums, k)
        sums = sum_groups(model.A, labels, k)
        return labels, sums, model.constant + group_divergence(sums)

    def _complete(self, problem: Problem, state: KLState) -> KLState:
        """Return the state with the vectors that were not saved with it."""
        if state.labels is not None:
            return state
        A, k = _counts(problem).A, problem.shape[1]
        labels, best = (
            cover_groups(A, likeliest_groups(A, log_profiles(sums)), _counts(problem).row_sums, k)
            for sums in (state.sums, state.best_sums)
        )
        return state._replace(labels=labels, best_labels=best, sizes=_counts(problem).row_sums)

    def stop(self) -> RestStop:
        """Stop where no row moves from any start, or at the limit."""
        return RestStop("is_fixed", self.max_iter)

    def progress(self, state: KLState) -> float:
        """Return the share of the starts that is done."""
        return (state.n_started - (0.0 if state.is_fixed else 1.0)) / self.n_init

    @property
    def has_own_starts(self) -> bool:
        return True

    def own_start(self, problem: Problem, rng: np.random.Generator) -> Centers | None:
        """Return the centers of `orthoplus.linalg.starts.leading_centers`, unless X is needed."""
        if self.start != "svd":
            return None
        return leading_centers(_counts(problem).A, problem.shape[1], rng)

    def check_start(self, problem: Problem, start: Any) -> None:
        wanted = (problem.shape[1], _counts(problem).A.shape[1])
        if start.vectors.shape != wanted:
            raise InputError(
                f"`X0` has centers of shape {start.vectors.shape}, but the problem needs {wanted}."
            )

    def shape_of(self, state: KLState, problem: Problem) -> tuple[int, int]:
        is_here = isinstance(state.labels, np.ndarray)
        return len(state.labels) if is_here else problem.shape[0], len(state.sums)

    def answer(self, problem: Problem, state: KLState | None, start: Any) -> Answer:
        """Return the best groups with their best weights: no n x k matrix is made."""
        if state is None:  # ended before there was one
            state = self.init(problem, start)
        state = self._complete(problem, state)
        model, k = _counts(problem), problem.shape[1]
        A, sums = model.A, state.best_sums
        order = _appearance(A, state.best_labels, k)
        weights = normalized_entries(A, state.best_labels, model.row_sums, k)
        labels = support_labels(A, state.best_labels, weights)
        heights = A.reduce_rows(_column_sums, labels, weights, args=(k,), vectors_only=True)
        Y = sums / np.where(heights > 0, heights, 1.0)[:, None]
        levels = Y.sum(axis=1)
        left, whole = A.reduce_rows(
            _gradient_squares, labels, weights, model.row_sums, args=(levels,), vectors_only=True
        )
        return Answer(
            point=A.point(labels, weights, k).renumbered(order),
            Y=np.ascontiguousarray(Y[order].T, dtype=A.dtype),
            value=missed_of_profiles(A, labels, sums),
            stationarity=math.sqrt(float(left)),
            gradient_size=math.sqrt(float(whole)) or 1.0,
            is_row_optimal=True if state.is_fixed else None,
        )


def _moved(state: KLState, labels: Any, sums: FloatArray, value: float) -> KLState:
    """Return the state at these groups, which are the best so far if D is lower."""
    state = state._replace(labels=labels, sums=sums, current=value)
    if value < state.value:
        state = state._replace(best_labels=labels, best_sums=sums, value=value)
    return state


def _appearance(A: DataMatrix, labels: Any, k: int) -> IntArray:
    """Return the groups in the order of their first rows."""
    first = A.reduce_rows(
        _first_rows,
        labels,
        A.row_indices(),
        args=(k, len(A)),
        combine=np.minimum,
        vectors_only=True,
    )
    return np.argsort(first, kind="stable")


def _first_rows(labels: IntArray, numbers: IntArray, k: int, n: int) -> IntArray:
    first = np.full(k, n, dtype=np.int64)
    kept = np.flatnonzero(labels >= 0)
    np.minimum.at(first, labels[kept], numbers[kept])
    return first


def _column_sums(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    kept = np.flatnonzero(labels >= 0)
    return np.bincount(labels[kept], weights[kept].astype(np.float64), k).astype(np.float64)


def _gradient_squares(
    labels: IntArray, weights: FloatArray, sizes: FloatArray, levels: FloatArray
) -> tuple[float, float]:
    """On the support the gradient is e'y_j - r_i / x_i; its squares, and those of e'y_j.

    A row of X that is zero belongs to a row of A that is, and would raise D.
    """
    kept = np.flatnonzero(labels >= 0)
    parts = levels[labels[kept]]
    gradient = parts - sizes[kept] / weights[kept].astype(np.float64)
    return float(gradient @ gradient), float(parts @ parts)
