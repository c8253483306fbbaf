"""Clustering of counts by alternation and exact row moves for the Kullback-Leibler divergence."""

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

# Budget of entries times groups for the starts of a small problem, and the most starts.
_CHEAP_STARTS, _MOST_STARTS = 1 << 21, 40
# Up to this many entries times groups, single-row moves follow every start.
_CHEAP_SWEEP = 1 << 16
# Every fourth start draws random rows, the others swap one group of the best solution.
_FRESH_START = 4
# Maximum number of alternations on the sample before a start is applied to all rows.
_SAMPLE_STEPS = 50


class CountModel(Protocol):
    """Attributes that the alternation needs of a problem, which is KLONMF."""

    A: DataMatrix

    @property
    def row_sums(self) -> Any: ...
    @property
    def constant(self) -> float: ...


def _counts(problem: Problem) -> CountModel:
    if not hasattr(problem, "row_sums"):
        own = type(getattr(problem, "problem", problem)).__name__
        raise InputTypeError(f"KLAlternating solves KLONMF(A, k), got {own}. Use EP4Orth instead.")
    return cast(CountModel, problem)


class KLState(NamedTuple):
    """Hold the best groups so far and the current start.

    While ``is_smooth`` is True, the start alternates with smoothed profiles; then single rows move.
    Labels are vectors of length n in the form of the data. Labels that are not in memory are not
    saved with the state; `KLAlternating` recomputes them from the sums of their groups.
    """

    labels: Any
    sums: FloatArray  # k x r, sums over the groups of `labels`
    current: float  # objective at `labels`
    best_labels: Any
    best_sums: FloatArray
    value: float
    sizes: Any  # row sums
    n_iter: int
    n_started: int
    best_smooth: float  # best value after the smoothed alternation of a start
    is_smooth: bool
    is_fixed: bool
    violation: float = 0.0
    Y: FloatArray | None = None

    @property
    def X(self) -> FloatArray:
        """Best point as a dense matrix; computed on each access."""
        if not isinstance(self.best_labels, np.ndarray):
            raise InputError(
                "The rows of this state are not in memory, so X cannot be formed. Use "
                "`result.labels` and `result.weights`, which are in the form of the data."
            )
        k = len(self.sums)
        # Groups without counts get equal weights; the extra entry serves the label -1.
        masses = np.append(self.best_sums.sum(axis=1), 1.0)
        weights = np.where(masses[self.best_labels] > 0, self.sizes, 1.0)
        return assemble(self.best_labels, weights, k)


@dataclass(frozen=True)
class KLAlternating(SeededMethod):
    r"""Alternate labels and profiles for `KLONMF`, then move single rows while D decreases.

    .. math:: \pi_i = \arg\max_j \sum_l a_{il} \log p_{jl}, \qquad
              p_{jl} = (1 - \lambda) \frac{c_{jl}}{\sum_m c_{jm}} + \lambda\, \bar p_l, \quad
              c_j = \sum_{\pi_i = j} a_i,

    where :math:`\bar p` is the profile of all rows. With :math:`\lambda = 0` both steps are exact,
    but a word that occurs in only one group ties its documents to that group. Therefore the
    alternation is smoothed, and exact moves follow: each row moves to the group that gives the
    smallest D.

    Parameters
    ----------
    start : {"svd", "random", "given"}
        Source of the first labels: the singular vectors of A, k rows that are far apart, or the
        given X.
    n_init : int
        Number of starts, of which the best result is kept. After the first, each start replaces one
        of the best groups so far by a row that fits the others badly; every fourth one draws random
        rows that are far apart. Single-row moves follow a start only if its alternation gives the
        best value so far, or always in a small problem. More starts never give a worse result.
    smoothing : float
        The smoothing parameter :math:`\lambda`; 0 gives the plain alternation.
    max_iter : int
        Maximum number of steps; each is one alternation or one sweep over the rows.
    sample : int
        Maximum number of rows in the sample, weighted by row sums, on which starts are drawn and
        alternated before they are applied to all rows.
    seed : int
        Seed for the random rows and the singular vectors.

    Notes
    -----
    The alternation is that of arXiv 2410.07786. A step costs O(nnz k). The objective never
    increases: a smoothed step that would increase it ends the alternation, and a sweep makes only
    moves that decrease it. If no single move improves the objective, every row is in its likeliest
    group, because g in `orthoplus.data.count_groups` is convex.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[3.0, 1.0, 0.0], [6.0, 2.0, 0.0], [0.0, 1.0, 4.0], [0.0, 0.0, 2.0]])
    >>> op.solve(op.problems.KLONMF(A, 2), method=KLAlternating()).labels
    array([0, 0, 1, 1])
    """

    state_type = KLState
    ends_with_search = False  # the method already moves single rows

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
        """Return the method with more starts if the problem is so small that they are cheap."""
        # The cost of a start is proportional to the stored entries times k.
        cost = max(1, problem.A.n_stored * problem.shape[1])
        return cls(n_init=max(cls.n_init, min(_MOST_STARTS, _CHEAP_STARTS // cost)))

    def init(self, problem: Problem, X: Any, carry: Carry | None = None) -> KLState:
        """Return the state with the first labels: from X, from centers, or from random rows."""
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
        """Perform one alternation, or a sweep of single moves once alternating stalls."""
        state = self._complete(problem, state)._replace(n_iter=state.n_iter + 1)
        if not state.is_smooth:
            swept = self._sweep(problem, state)
            return self._next_start(problem, state) if swept is None else swept
        logs = log_profiles(state.sums, self.smoothing)
        found = self._groups(problem, likeliest_groups(_counts(problem).A, logs))
        if found[2] < state.current:
            return _moved(state, *found)
        is_small = _counts(problem).A.n_stored * problem.shape[1] <= _CHEAP_SWEEP
        # The smoothed alternation has converged. Exact single-row moves follow only for promising
        # starts.
        if state.current < state.best_smooth or is_small:
            least = min(state.current, state.best_smooth)
            return state._replace(is_smooth=False, best_smooth=least)
        return self._next_start(problem, state)

    def _sweep(self, problem: Problem, state: KLState) -> KLState | None:
        """Return the state after moves of single rows; None if no move decreases D.

        Moves made in parallel by several blocks of rows may cancel each other's gains. Then only
        the first half of the moved range is kept, repeatedly; the first move alone always decreases
        D.
        """
        A = _counts(problem).A
        after = sweep_rows(A, state.labels, state.sums)
        # The first and last rows that moved. Accept all moves if D decreases, otherwise bisect the
        # range.
        low, high = moved_range(A, state.labels, after)
        while low <= high:
            if count_rows(A, after, len(state.sums)).all():
                sums = sum_groups(A, after, len(state.sums))
                value = _counts(problem).constant + group_divergence(sums)
                if value < state.current:
                    return _moved(state, after, sums, value)
            if low == high:
                break  # its gain is within rounding
            high = (low + high) // 2
            after = keep_first_moves(A, state.labels, after, high)
        return None

    def _next_start(self, problem: Problem, state: KLState) -> KLState:
        """Return the state with the first labels of the next start, or the final state."""
        if state.n_started >= self.n_init:
            return state._replace(is_fixed=True)
        found = self._groups(problem, self._draw(problem, state.n_started, state.best_sums))
        state = state._replace(n_started=state.n_started + 1, is_smooth=True)
        return _moved(state, *found)

    def _draw(self, problem: Problem, number: int, best: FloatArray | None) -> Any:
        """Return the labels of the start with this number, alternated on a sample of the rows."""
        model, k = _counts(problem), problem.shape[1]
        # Each start has its own random stream, so that more starts never change the earlier ones.
        rng = np.random.default_rng([self.seed, number])
        rows = sample_counts(model.A, model.row_sums, max(self.sample, k), self.seed)
        if best is None or number % _FRESH_START == _FRESH_START - 1:
            sums = seed_profiles(rows, k, self.smoothing, rng)
        else:
            # Replace one group of the best solution by a row that fits the others badly.
            sums = swap_profile(rows, best, self.smoothing, rng)
        value = np.inf
        for _ in range(_SAMPLE_STEPS):
            # Smoothed alternation on the sample, until its divergence stops decreasing.
            labels = likeliest_groups(rows, log_profiles(sums, self.smoothing))
            own = sum_groups(rows, cover_groups(rows, labels, rows.row_sums(), k), k)
            before, value = value, group_divergence(own)
            if not value < before:
                break
            sums = own
        return likeliest_groups(model.A, log_profiles(sums, self.smoothing))

    def _groups(self, problem: Problem, labels: Any) -> tuple[Any, FloatArray, float]:
        """Return the labels without empty groups, the sums of the groups, and the objective."""
        model, k = _counts(problem), problem.shape[1]
        labels = cover_groups(model.A, labels, model.row_sums, k)
        sums = sum_groups(model.A, labels, k)
        return labels, sums, model.constant + group_divergence(sums)

    def _complete(self, problem: Problem, state: KLState) -> KLState:
        """Recompute the vectors that were not saved with the state."""
        if state.labels is not None:
            return state
        A, k = _counts(problem).A, problem.shape[1]
        # Labels are determined by the sums of their groups: assign each row to its likeliest
        # profile.
        labels, best = (
            cover_groups(A, likeliest_groups(A, log_profiles(sums)), _counts(problem).row_sums, k)
            for sums in (state.sums, state.best_sums)
        )
        return state._replace(labels=labels, best_labels=best, sizes=_counts(problem).row_sums)

    def stop(self) -> RestStop:
        """Return the stopping rule: all starts are done, or the limit is reached."""
        return RestStop("is_fixed", self.max_iter)

    def progress(self, state: KLState) -> float:
        """Return the share of the starts that are done."""
        return (state.n_started - (0.0 if state.is_fixed else 1.0)) / self.n_init

    @property
    def has_own_starts(self) -> bool:
        return True

    def own_start(self, problem: Problem, rng: np.random.Generator) -> Centers | None:
        """Return the centers of `leading_centers`, or None if the start is not "svd"."""
        if self.start != "svd":
            return None
        return leading_centers(_counts(problem).A, problem.shape[1], rng)

    def check_start(self, problem: Problem, start: Any) -> None:
        wanted = (problem.shape[1], _counts(problem).A.shape[1])
        if start.vectors.shape != wanted:
            raise InputError(f"`X0` has centers of shape {start.vectors.shape}; expected {wanted}.")

    def shape_of(self, state: KLState, problem: Problem) -> tuple[int, int]:
        is_here = isinstance(state.labels, np.ndarray)
        return len(state.labels) if is_here else problem.shape[0], len(state.sums)

    def answer(self, problem: Problem, state: KLState | None, start: Any) -> Answer:
        """Return the best groups with optimal weights, without forming an n x k matrix."""
        if state is None:  # the run ended before the first state
            state = self.init(problem, start)
        state = self._complete(problem, state)
        model, k = _counts(problem), problem.shape[1]
        A, sums = model.A, state.best_sums
        # Number the groups by their first rows, so that the result does not depend on the search.
        order = _appearance(A, state.best_labels, k)
        weights = normalized_entries(A, state.best_labels, model.row_sums, k)
        labels = support_labels(A, state.best_labels, weights)
        # Y = C / (sum of x_i) per group, so that X Y' has the column sums C of the group.
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
    """Return the state at these groups, recording them as the best if D is lower."""
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
    # Groups without rows sort last.
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
    """Return the squared norms of the gradient on the support and of its part e'y_j.

    On the support, the gradient is e'y_j - r_i / x_i, where r_i is the sum of row i. A zero row of
    X belongs to a zero row of A, where a positive entry would increase D.
    """
    kept = np.flatnonzero(labels >= 0)
    # The gradient is e'y_j - r_i / x_i: two parts of equal size cancel at the optimum.
    parts = levels[labels[kept]]
    gradient = parts - sizes[kept] / weights[kept].astype(np.float64)
    return float(gradient @ gradient), float(parts @ parts)
