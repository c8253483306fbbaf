"""Clustering of counts by alternation and exact row moves for the Kullback-Leibler divergence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast

import numpy as np

from orthoplus import kernels
from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.outer_method import Answer, RestStop, SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray, IntArray
from orthoplus.data import DataMatrix, MemoryMatrix
from orthoplus.data.base import Vector
from orthoplus.data.count_groups import (
    cover_groups,
    group_divergence,
    keep_first_moves,
    likeliest_groups,
    log_profiles,
    moved_range,
    sum_groups,
    sweep_equal_rows,
    sweep_rows,
)
from orthoplus.data.groups import (
    Centers,
    assign_rows,
    count_rows,
    unit_rows,
)
from orthoplus.geometry.stiefel import assemble, labels_of
from orthoplus.linalg.starts import leading_centers
from orthoplus.methods.count_answer import CountModel, answer_of_groups
from orthoplus.methods.count_seeds import (
    CountSketch,
    sample_counts,
    sketch_counts,
    swap_profile,
)
from orthoplus.methods.search.sketch import sampled_centers

# Budget of entries times groups for the starts of a small problem, and the most starts.
_CHEAP_STARTS, _MOST_STARTS = 1 << 21, 40
# Up to this many entries times groups, single-row moves follow every start.
_CHEAP_SWEEP = 1 << 16
# From this start on, every second one draws random rows; the others swap one group of the best.
_FIRST_FRESH = 3
# Alternations in the sketch for a first set of centers, and per swap.
_FIRST_STEPS, _TRIAL_STEPS = 30, 4
# Fewer groups than this get the patience of this many.
_MIN_PATIENT_GROUPS = 10
# Maximum number of alternations on the sample before a start is applied to all rows.
_SAMPLE_STEPS = 50

Sweep = Callable[[DataMatrix, Any, FloatArray], Any]


def _counts(problem: Problem) -> CountModel:
    if not hasattr(problem, "row_sums"):
        own = type(problem.unwrapped).__name__
        raise InputTypeError(f"KLAlternating solves KLONMF(A, k), got {own}. Use EP4Orth instead.")
    return cast(CountModel, problem)


class KLState(NamedTuple):
    """Hold the best groups so far and the current start.

    While ``is_searching`` is True, centers of the sketch are swapped. Then, while ``is_smooth`` is
    True, the start alternates with smoothed profiles; at last single rows and sets of equal rows
    move.
    Labels are vectors of length n in the form of the data. Labels that are not in memory are not
    saved with the state; `KLAlternating` recomputes them from the sums of their groups.
    """

    labels: Vector
    sums: FloatArray  # k x r, sums over the groups of `labels`
    current: float  # objective at `labels`
    best_labels: Vector
    best_sums: FloatArray
    value: float
    sizes: Vector  # row sums
    sketch: FloatArray  # rows and order of a `CountSketch`, empty before the first search
    sketch_order: IntArray
    centers: FloatArray  # k x d, centers of the current search
    n_iter: int
    n_started: int
    n_trials: int
    n_failures: int  # failed swaps since the last success
    is_searching: bool
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
    but a word that occurs in only one cluster ties its documents to that cluster. Therefore the
    alternation is smoothed, and exact moves follow: each row moves to the cluster that gives the
    smallest D, and at last all rows of a cluster with equal profiles move together.

    The alternation alone often splits a large cluster and misses a small one. Therefore a *search*
    precedes it: in a sketch of the square roots of sampled rows, a center is replaced by a row with
    a large residual, and the better centers are kept. The scalar products of square roots are those
    of the Hellinger distance, which approximates the divergence, and a swap costs little there.

    Parameters
    ----------
    start : {"svd", "random", "given"}
        Source of the first labels: the singular vectors of A, k rows that are far apart, or the
        given X. The first start alternates from a given X itself and searches from the others.
    n_init : int
        Number of starts, of which the best result is kept. After the first, each start replaces one
        of the best clusters so far by a row that fits the others badly; starting with the fourth,
        every second one begins at random rows that are far apart, with and without a search in
        turn. Single-row moves follow a start only if its alternation gives the best value so far,
        or always in a small problem. More starts never give a worse result.
    patience : int
        A search ends after this many failed swaps per cluster, counting at least ten clusters.
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
    cluster, because g in `orthoplus.data.count_groups` is convex.

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
    patience: int = 3
    smoothing: float = 0.5
    max_iter: int = 1000
    sample: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.start, "start", ("svd", "random", "given"))
        check_count(self.n_init, "n_init", low=1)
        check_count(self.patience, "patience", low=1)
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
            sketch = sketch_counts(self._sample(problem), problem.shape[1], self.seed)
            labels = self._random_labels(problem, sketch, 0)
        elif isinstance(X, Centers):
            labels = assign_rows(A, X.vectors).labels
        elif self.start == "given":
            labels = self._given_labels(problem, labels_of(X))
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
            sketch=np.zeros((0, 0)),
            sketch_order=np.zeros(0, dtype=np.int64),
            centers=np.zeros((0, 0)),
            n_iter=0,
            n_started=1,
            n_trials=0,
            n_failures=0,
            is_searching=self.start != "given",
            best_smooth=np.inf,
            is_smooth=True,
            is_fixed=False,
        )

    def _given_labels(self, problem: Problem, labels: IntArray) -> Vector:
        """Return the labels, with the likeliest group for rows without one: D is infinite there."""
        A = _counts(problem).A
        if (labels >= 0).all():
            return A.scatter(labels)
        sums = self._groups(problem, A.scatter(labels))[1]
        likeliest = likeliest_groups(A, log_profiles(sums, self.smoothing))
        return A.scatter(np.where(labels < 0, A.gather(likeliest), labels))

    def step(self, problem: Problem, state: KLState) -> KLState:
        """Perform a batch of swaps, one alternation, or a sweep once alternating stalls."""
        state = self._complete(problem, state)._replace(n_iter=state.n_iter + 1)
        if state.is_searching:
            return self._search(problem, state)
        if not state.is_smooth:
            swept = self._sweep(problem, state, sweep_rows)
            if swept is None:
                swept = self._sweep(problem, state, sweep_equal_rows)
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

    def _sweep(self, problem: Problem, state: KLState, sweep: Sweep) -> KLState | None:
        """Return the state after moves of single or equal rows; None if no move decreases D.

        Moves made in parallel by several blocks of rows may cancel each other's gains. Then only
        the first half of the moved range is kept, repeatedly; the first move alone always decreases
        D.
        """
        A = _counts(problem).A
        after = sweep(A, state.labels, state.sums)
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
        """Return the state at the beginning of the next start, or the final state."""
        number = state.n_started
        if number >= self.n_init:
            return state._replace(is_fixed=True)
        state = state._replace(n_started=number + 1, is_smooth=True)
        past = number - _FIRST_FRESH
        if past >= 0 and past % 2 == 0:
            if past % 4 == 0:
                return state._replace(is_searching=True, n_trials=0, n_failures=0)
            # Searches mostly agree, so every second fresh start does without one.
            sketch = CountSketch(state.sketch, state.sketch_order)
            labels = self._random_labels(problem, sketch, number)
            return _moved(state, *self._groups(problem, labels))
        # Replace one group of the best solution by a row that fits the others badly. Each start has
        # its own random stream, so that more starts never change the earlier ones.
        rows, rng = self._sample(problem), np.random.default_rng([self.seed, number])
        sums = swap_profile(rows, state.best_sums, self.smoothing, rng)
        return _moved(state, *self._groups(problem, self._settle(problem, rows, sums)))

    def _search(self, problem: Problem, state: KLState) -> KLState:
        """Swap centers of the sketch; after enough failures, apply the centers to all rows."""
        if state.n_trials == 0:
            state = self._first_centers(problem, state)
        size = max(problem.shape[1], _MIN_PATIENT_GROUPS)
        rng = np.random.default_rng([self.seed, state.n_started, state.n_trials])
        centers, _, failures = kernels.search_swaps(
            state.sketch, state.centers, rng.random((size, 2)), _TRIAL_STEPS
        )
        state = state._replace(
            centers=centers,
            n_trials=state.n_trials + size,
            n_failures=failures + (state.n_failures if failures == size else 0),
        )
        if state.n_failures < self.patience * size:
            return state
        sketch = CountSketch(state.sketch, state.sketch_order)
        labels = self._apply(problem, self._sample(problem), sketch.labels_of(centers))
        return _moved(state._replace(is_searching=False), *self._groups(problem, labels))

    def _first_centers(self, problem: Problem, state: KLState) -> KLState:
        """Return the state with a sketch and the first centers of a search.

        The first search begins at the groups of the state, the others at rows that are far apart.
        """
        k = problem.shape[1]
        if not len(state.sketch):
            sketch = sketch_counts(self._sample(problem), k, self.seed)
            state = state._replace(sketch=sketch.rows, sketch_order=sketch.order)
        if state.n_started == 1:
            sketch = CountSketch(state.sketch, state.sketch_order)
            logs = log_profiles(state.sums, self.smoothing)
            first = sketch.centers_of(likeliest_groups(self._sample(problem), logs), k)
        else:
            rng = np.random.default_rng([self.seed, state.n_started])
            first = unit_rows(sampled_centers(state.sketch, k, rng))
        centers, _ = kernels.alternate_centers(state.sketch, first, _FIRST_STEPS)
        return state._replace(centers=centers)

    def _random_labels(self, problem: Problem, sketch: CountSketch, number: int) -> Any:
        """Return the labels of a start from random rows that are far apart in the sketch."""
        rng = np.random.default_rng([self.seed, number])
        centers = unit_rows(sampled_centers(sketch.rows, problem.shape[1], rng))
        return self._apply(problem, self._sample(problem), sketch.labels_of(centers))

    def _sample(self, problem: Problem) -> MemoryMatrix:
        model = _counts(problem)
        most = max(self.sample, problem.shape[1])
        return sample_counts(model.A, model.row_sums, most, self.seed)

    def _apply(self, problem: Problem, rows: MemoryMatrix, labels: IntArray) -> Any:
        """Return labels of all rows, from labels of the sample."""
        k = problem.shape[1]
        sums = sum_groups(rows, cover_groups(rows, labels, rows.row_sums(), k), k)
        return self._settle(problem, rows, sums)

    def _settle(self, problem: Problem, rows: MemoryMatrix, sums: FloatArray) -> Any:
        """Alternate on the sample until its divergence rises, and return labels of all rows."""
        k, value = problem.shape[1], np.inf
        for _ in range(_SAMPLE_STEPS):
            labels = likeliest_groups(rows, log_profiles(sums, self.smoothing))
            own = sum_groups(rows, cover_groups(rows, labels, rows.row_sums(), k), k)
            before, value = value, group_divergence(own)
            if not value < before:
                break
            sums = own
        return likeliest_groups(_counts(problem).A, log_profiles(sums, self.smoothing))

    def _groups(self, problem: Problem, labels: Vector) -> tuple[Any, FloatArray, float]:
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
        """Return True: each start is drawn from rows of the data."""
        return True

    def own_start(self, problem: Problem, rng: np.random.Generator) -> Centers | None:
        """Return the centers of `leading_centers`, or None if the start is not "svd"."""
        if self.start != "svd":
            return None
        return leading_centers(_counts(problem).A, problem.shape[1], rng)

    def check_start(self, problem: Problem, start: Any) -> None:
        """Raise unless ``X0`` has k profiles with one entry per column of A."""
        wanted = (problem.shape[1], _counts(problem).A.shape[1])
        if start.vectors.shape != wanted:
            raise InputError(f"`X0` has centers of shape {start.vectors.shape}; expected {wanted}.")

    def shape_of(self, state: KLState, problem: Problem) -> tuple[int, int]:
        """Return the shape (n, k) of the factor that a state describes."""
        is_here = isinstance(state.labels, np.ndarray)
        return len(state.labels) if is_here else problem.shape[0], len(state.sums)

    def answer(self, problem: Problem, state: KLState | None, start: Any) -> Answer:
        """Return the best clusters with optimal weights, without forming an n x k matrix."""
        if state is None:  # the run ended before the first state
            state = self.init(problem, start)
        state = self._complete(problem, state)
        best = (state.best_labels, state.best_sums)
        return answer_of_groups(_counts(problem), *best, is_row_optimal=state.is_fixed or None)


def _moved(state: KLState, labels: Vector, sums: FloatArray, value: float) -> KLState:
    """Return the state at these groups, recording them as the best if D is lower."""
    state = state._replace(labels=labels, sums=sums, current=value)
    if value < state.value:
        state = state._replace(best_labels=labels, best_sums=sums, value=value)
    return state
