"""The default for orthogonal NMF: seeded centers and swaps in a sketch, then an exact phase."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orthoplus import kernels
from orthoplus.core.checks import check_count, check_positive
from orthoplus.core.errors import InputError
from orthoplus.core.outer_method import Answer, RestStop, SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray, IntArray
from orthoplus.data.groups import (
    Centers,
    assign_rows,
    column_entries,
    stationarity_of_groups,
    support_labels,
    unit_rows,
)
from orthoplus.geometry.stiefel import keep_largest
from orthoplus.linalg.starts import leading_centers
from orthoplus.methods.factors import data_of, factor_model
from orthoplus.methods.search.alternation import (
    ROUGH,
    DirectionPoint,
    Groups,
    alternate_directions,
    alternate_from,
    alternate_groups,
    point_of_groups,
)
from orthoplus.methods.search.crossing import (
    CrossingRows,
    Pool,
    can_cross,
    cross,
    crossing_rows,
    n_children,
)
from orthoplus.methods.search.sketch import (
    FIRST_STEPS,
    TRIAL_STEPS,
    Sketch,
    best_candidate,
    count_candidates,
    refined_sketch,
    sample_size,
    sampled_rows,
    sketch_rows,
)
from orthoplus.methods.search.swap_state import SwapState

# Extra columns of the sketch beyond its factor times k.
_EXTRA_SKETCH_COLUMNS = 8
# Maximum number of passes of the moves of single rows in the sketch.
_MOVE_PASSES = 100
# Fewer centers than this get the patience of this many.
_MIN_PATIENT_CENTERS = 10
# A search that is behind by more than this share of the residual is not pursued.
_MAX_LAG_SHARE = 1e-2
# A round that decreases the residual by less than this share is the last of its search.
_MIN_ROUND_GAIN = 1e-5
# Searches that agree within the first share of the residual have found the same solution. In a
# sample, a search has to be better than the best one by the second share.
_SAME_SOLUTION, _MIN_SAMPLE_LEAD = 1e-6, 1e-4
# A batch of swaps that gains less than this share of the residual has failed.
_MIN_BATCH_GAIN = 1e-4
# Values that differ by less than this share of ||A||^2 are equal.
_SAME_VALUE = 1e-14
# Trials per center between two checks of the clock and the callback.
_TRIALS_PER_CENTER = 3


@dataclass(frozen=True)
class SwapSearch(SeededMethod):
    r"""Search over groups of rows for :math:`\max \sum_j \sigma_1(A_j)^2`, orthogonal NMF on S+.

    With the groups :math:`A_j` of rows fixed, the columns of the best X are their leading left
    singular vectors, and the residual is :math:`\|A\|_F^2 - \sum_j \sigma_1(A_j)^2`. Each search
    consists of rounds of

    1. a *sketch*: the rows in a few dozen coordinates of the leading singular vectors;
    2. *swaps* in the sketch: replace the least useful center by a row with a large residual,
       alternate a few times, and keep the better centers, until swaps gain little for a while;
       then moves of single rows between groups, each by the gain of the two leading singular
       values;
    3. the *exact alternation* on A itself, from the best centers: leading singular vector of each
       group, best group of each row, moves of single rows, to a fixed point.

    From the second round on, the sketch also contains the exact directions, which lose nothing in
    it, and the swaps continue from the exact solution until a round gains nothing.

    The first search starts from X, the others from rows sampled by their residuals: if k is small
    and the sketch is much smaller than A, from the best of several sets of rows, each after some
    swaps. Small data have many local optima that no swap leaves. There, a search ends with
    *crossings*: take each center from the best solution or from another one, or a row in place of
    a center, then move single rows of A to a local optimum. Every search ends with the exact
    objective, and the best result is kept: more searches are never worse.

    Parameters
    ----------
    n_init : int
        Number of searches; the one with the best objective is kept.
    patience : int
        A search ends after this many failed swaps per center, counting at least ten centers. All
        swaps of a batch count as failed if together they gain little.
    rounds : int
        Maximum number of rounds of each search; one that gains little is the last.
    max_iter : int
        Maximum number of steps, each a batch of swaps.
    sketch : float
        Number of columns of the sketch per center.
    sample : int or None
        Maximum number of rows used by the swaps; the exact alternation uses all rows. The default
        is 4096, and up to four times as many if there are few centers and the rows are short. If
        there are more, rows are sampled by their squared norms and residuals at the start, with
        weights that keep sums of squares unbiased; see `orthoplus.data.sampling`.
    seed : int
        Seed of the sketch, the sampled rows and the swaps.

    Notes
    -----
    The result is never worse than X, nor than the alternation from X (EM-ONMF) if X is a matrix.
    The sketch costs a few products of A with O(k) columns, a swap O(m k) for m sampled rows, and a
    round of the exact alternation one product with k columns and a few passes over A. The number
    of crossings decreases with n r k, the cost of a pass over all rows.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    >>> op.solve(op.problems.ONMF(A, 2), method=SwapSearch()).X.round(3).max(axis=1)
    array([0.447, 0.894, 1.   ])
    """

    state_type = SwapState
    ends_with_search = False  # the method already moves single rows

    n_init: int = 3
    patience: int = 3
    rounds: int = 3
    max_iter: int = 1000
    sketch: float = 2.0
    sample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.n_init, "n_init", low=1)
        check_count(self.patience, "patience", low=1)
        check_count(self.rounds, "rounds", low=1)
        check_count(self.max_iter, "max_iter", low=1)
        check_positive(self.sketch, "sketch")
        if self.sample is not None:
            check_count(self.sample, "sample", low=1)
        check_count(self.seed, "seed")

    def init(
        self, problem: Problem, X: FloatArray | Centers, carry: Carry | None = None
    ) -> SwapState:
        """Return the first state at the groups of X or of centers, with their directions."""
        model = factor_model(problem)
        if isinstance(X, Centers):
            assigned = assign_rows(model.A, X.vectors)
            found = point_of_groups(problem, assigned.labels, assigned.scores)
            scores = assigned.scores
        else:
            found = alternate_groups(problem, *_groups_of(X))
            scores = found.scores(model.A)
        sketch = sketch_rows(
            model, self._columns(problem), self._n_sampled(problem), self.seed, scores
        )
        first = unit_rows(found.directions @ sketch.basis)
        centers, total = kernels.alternate_centers(sketch.rows, first, FIRST_STEPS)
        point = _point(found, model.A.dtype if isinstance(X, Centers) else X.dtype)
        return SwapState.first(point, sketch, centers, total)

    def step(self, problem: Problem, state: SwapState) -> SwapState:
        """Run a batch of swaps; after the last batch of a round, run its exact phase."""
        state = self._swap(problem, state._replace(n_iter=state.n_iter + 1))
        if state.n_failures < self._limit(problem.shape[1]):
            return state
        if len(state.sketch) == problem.shape[0]:  # a sample would follow its random rows
            B = state.fine_sketch if state.n_rounds else state.sketch
            centers, total = kernels.settle_rows(B, state.centers, _MOVE_PASSES)
            state = state._replace(centers=centers, sum=total)
        if state.n_rounds == 0 and self._is_known(problem, state):
            return self._next(problem, self._cross(problem, state))
        return self._end_round(problem, state)

    def stop(self) -> RestStop:
        """Return the stopping rule: the last search is done, or the limit is reached."""
        return RestStop("is_over", self.max_iter)

    def progress(self, state: SwapState) -> float:
        """Return the share of the searches that are done, counting the failures of the last one."""
        current = min(state.n_failures / self._limit(len(state.directions)), 1.0)
        return (state.n_started - 1 + current) / self.n_init

    def _limit(self, k: int) -> int:
        return self.patience * max(k, _MIN_PATIENT_CENTERS)

    def _swap(self, problem: Problem, state: SwapState) -> SwapState:
        rng = np.random.default_rng([self.seed, state.n_started, state.n_rounds, state.n_trials])
        draws = rng.random((_TRIALS_PER_CENTER * problem.shape[1], 2))
        B = state.fine_sketch if state.n_rounds else state.sketch
        centers, total, failures = kernels.search_swaps(B, state.centers, draws, TRIAL_STEPS)
        missed = max(float(np.vdot(B, B)) - total, 0.0)
        if total - state.sum <= _MIN_BATCH_GAIN * missed:
            failures = len(draws)
        # ``failures`` counts the failed swaps since the last success in this batch.
        all_failed = failures == len(draws)
        return state._replace(
            centers=centers,
            sum=total,
            n_trials=state.n_trials + len(draws),
            n_failures=failures + (state.n_failures if all_failed else 0),
        )

    @staticmethod
    def _is_known(problem: Problem, state: SwapState) -> bool:
        """Return whether an earlier search had the same sum in the sketch, or a far better one.

        In a sample of the rows, small differences are random.
        """
        if state.n_started == 1:
            return False
        # How far this search is behind the best one, in explained squares of the sketch.
        lag = state.best_sum - state.sum
        missed = max(float(np.vdot(state.sketch, state.sketch)) - state.sum, 0.0)
        if len(state.sketch) < problem.shape[0] and not can_cross(factor_model(problem)):
            return lag > -_MIN_SAMPLE_LEAD * missed
        return abs(lag) <= _SAME_SOLUTION * missed or lag > _MAX_LAG_SHARE * missed

    def _end_round(self, problem: Problem, state: SwapState) -> SwapState:
        """Converge on A, then start another round if this one gained, or the exact phase."""
        basis = state.fine_basis if state.n_rounds else state.basis
        model = factor_model(problem)
        is_sampled = len(state.sketch) < problem.shape[0]
        if is_sampled and state.n_rounds and state.n_failures == state.n_trials:
            # No swap succeeded: changes by the alternation in a sample are random.
            found, gain = state.settled_point, 0.0
        else:
            found = alternate_directions(problem, state.centers @ basis.T)
            gain = found.explained - state.settled_point.explained if state.n_rounds else np.inf
        if gain < 0.0:  # swaps that gain in the sketch can lose on A
            found = state.settled_point
        if state.n_rounds == 0:
            state = state._replace(best_sum=max(state.best_sum, state.sum))
        missed = max(model.total - found.explained, 0.0)
        # Residual of this search against that of the best point, up to the allowed lag.
        is_near = (1.0 - _MAX_LAG_SHARE) * missed <= state.value - model.constant + model.total
        if is_near and gain > _MIN_ROUND_GAIN * missed and state.n_rounds + 1 < self.rounds:
            return self._refine(problem, state, found)
        if can_cross(model):
            return self._next(problem, self._cross(problem, state, found.directions))
        lag = state.most_explained - found.explained
        if lag < -_SAME_SOLUTION * missed:
            # Moves of single rows are expensive: only the best solution gets them.
            state = self._end_search(problem, state, found)
        return self._next(problem, state)

    def _end_search(self, problem: Problem, state: SwapState, found: DirectionPoint) -> SwapState:
        """Run the exact alternation and keep its result if it is the first or the best."""
        end, rounding = alternate_from(problem, found), _SAME_VALUE * factor_model(problem).total
        is_first = state.most_explained == -np.inf
        if is_first and end.value > state.value + rounding:  # the start is better than this result
            end = alternate_groups(problem, *self._entries(problem, state))
        if is_first or end.value < state.value - rounding:
            point = _point(end, getattr(state.weights, "dtype", None))
            state = state._replace(**point | {"value": min(end.value, state.value)})
        return state._replace(most_explained=max(state.most_explained, found.explained))

    def _cross(
        self, problem: Problem, state: SwapState, directions: FloatArray | None = None
    ) -> SwapState:
        """Cross a solution with those of earlier searches; run the exact phase if one is better."""
        model = factor_model(problem)
        work, n_known = min(model.A.shape) * float(np.prod(problem.shape)), len(state.pool)
        if not can_cross(model) or (directions is None and n_children(work, n_known) == 0):
            return state
        rng = np.random.default_rng([self.seed, state.n_started, 0])
        most = float(state.pool_sums.max(initial=-np.inf))
        rows = CrossingRows(state.crossing_rows, state.crossing_lift)
        if len(rows.rows) == 0:
            rows = crossing_rows(model.A)
        first = None if directions is None else rows.centers(model.A, directions)
        pool = cross(rows.rows, Pool(state.pool, state.pool_sums), first, rng)
        state = state._replace(
            crossing_rows=rows.rows,
            crossing_lift=rows.lift,
            pool=pool.centers,
            pool_sums=pool.sums,
        )
        if pool.sums[0] > most:
            best = alternate_directions(problem, rows.directions(model.A, pool.centers[0]))
            state = self._end_search(problem, state, best)
        return state

    def _refine(self, problem: Problem, state: SwapState, found: DirectionPoint) -> SwapState:
        """Start the next round of a search from the directions on A, with a new sample."""
        model, number = factor_model(problem), state.n_rounds + 1
        scores, sample = None, self._n_sampled(problem)
        if len(model.A) > sample:
            scores = assign_rows(model.A, found.directions).scores
        rows = sampled_rows(model, sample, self.seed + number, scores)
        known = Sketch(state.sketch, state.basis, state.order)
        B, basis, _ = refined_sketch(known, found.directions, rows)
        first = unit_rows(found.directions @ basis)
        centers, total = kernels.alternate_centers(B, first, FIRST_STEPS)
        return state._replace(
            fine_sketch=B,
            fine_basis=basis,
            centers=centers,
            sum=total,
            settled=found.directions,
            settled_squares=found.squares,
            settled_counts=found.counts,
            n_rounds=number,
            n_trials=0,
            n_failures=0,
        )

    def _next(self, problem: Problem, state: SwapState) -> SwapState:
        """Start the next search from sampled rows, or end."""
        if state.n_started == self.n_init:
            return state._replace(is_over=True)
        rng = np.random.default_rng([self.seed, state.n_started])
        n, k = problem.shape
        n_candidates = count_candidates(state.sketch, n * data_of(problem).shape[1], k)
        centers, total = best_candidate(state.sketch, k, n_candidates, self._limit(k), rng)
        return state._replace(
            centers=centers,
            sum=total,
            n_rounds=0,
            n_started=state.n_started + 1,
            n_trials=0,
            n_failures=0,
        )

    @property
    def has_own_starts(self) -> bool:
        """Return True: each start is drawn from rows of the data."""
        return True

    def own_start(self, problem: Problem, rng: np.random.Generator) -> Centers:
        """Return the centers of `orthoplus.linalg.starts.leading_centers`; of a sample if large."""
        model = factor_model(problem)
        # Singular vectors of a weighted sample suffice as a start.
        sample = self._n_sampled(problem)
        is_large = len(model.A) > sample and model.A.has_entries
        rows = sampled_rows(model, sample, self.seed) if is_large else model.A
        return leading_centers(rows, problem.shape[1], rng)

    def check_start(self, problem: Problem, start: Any) -> None:
        """Raise unless ``X0`` has k centers with one entry per column of A."""
        wanted = (problem.shape[1], data_of(problem).shape[1])
        if start.vectors.shape != wanted:
            raise InputError(f"`X0` has centers of shape {start.vectors.shape}; expected {wanted}.")

    def shape_of(self, state: SwapState, problem: Problem) -> tuple[int, int]:
        """Return the shape (n, k) of the factor that a state describes."""
        is_here = isinstance(state.labels, np.ndarray)
        return len(state.labels) if is_here else problem.shape[0], len(state.directions)

    def answer(self, problem: Problem, state: SwapState | None, start: Any) -> Answer:
        """Return the point as labels and optimal weights, without forming an n x k matrix."""
        model = factor_model(problem)
        A, k = model.A, problem.shape[1]
        if state is not None:
            labels, weights = self._entries(problem, state)
        else:  # the run ended before the first state
            is_given = isinstance(start, Centers)
            labels, scores = assign_rows(A, start.vectors)[:2] if is_given else _groups_of(start)
            V, squares = model.group_directions(A.scatter(labels), A.scatter(scores), ROUGH)
            weights = column_entries(A, A.scatter(labels), V, squares)
        labels = support_labels(A, labels, weights)
        W = A.group_sums(labels, weights, k)
        # On S+ with Y = A'X: ||A - XY'||^2 = ||A||^2 - ||A'X||^2.
        explained = float(np.vdot(W, W))
        # The exact phase examines moves between columns. Setting a row to zero can gain only if
        # products of rows may be negative.
        is_examined = state is not None and state.is_over and not model.allow_negative
        return Answer(
            point=A.point(labels, weights, k),
            Y=np.ascontiguousarray(W.T, dtype=A.dtype),
            value=model.constant - explained,
            stationarity=stationarity_of_groups(A, labels, weights, W),
            # Terms of this size, ||AA'X|| >= ||A'X||^2 / sqrt(k), cancel at the optimum.
            gradient_size=2.0 * explained / k**0.5,
            is_row_optimal=True if is_examined else None,
        )

    def _entries(self, problem: Problem, state: SwapState) -> tuple[Any, Any]:
        """Return labels and weights of the point, in the form of the data."""
        A = data_of(problem)
        if state.labels is not None:
            return state.labels, state.weights
        labels = assign_rows(A, state.directions).labels
        # Recompute the weights from the saved directions: x = A_j v_j / sigma_j.
        sizes = A.group_products(labels, state.directions)
        squares = np.einsum("jc,jc->j", sizes, state.directions)
        return labels, column_entries(A, labels, state.directions, squares)

    def _n_sampled(self, problem: Problem) -> int:
        """Return the maximum number of rows of the sketch: more if trials and rows are small."""
        if self.sample is not None:
            return self.sample
        return sample_size(data_of(problem).shape[1], self._columns(problem) * problem.shape[1])

    def _columns(self, problem: Problem) -> int:
        n, k = problem.shape
        return min(int(self.sketch * k) + _EXTRA_SKETCH_COLUMNS, n, data_of(problem).shape[1])


def _groups_of(X: FloatArray) -> tuple[IntArray, FloatArray]:
    labels, weights = kernels.largest_entries(keep_largest(X))
    return labels, weights


def _point(groups: Groups, dtype: Any) -> dict[str, Any]:
    """Return the fields of a state that describe a point."""
    weights = groups.weights
    if isinstance(weights, np.ndarray):
        weights = weights.astype(dtype, copy=False)
    return {
        "labels": groups.labels,
        "weights": weights,
        "directions": groups.directions,
        "value": groups.value,
    }
