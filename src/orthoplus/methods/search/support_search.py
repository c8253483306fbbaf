"""A search over supports for any smooth f, starting from a feasible point."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import check_count, check_positive
from orthoplus.core.outer_method import SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import ROUNDOFF, Carry, FloatArray, IntArray
from orthoplus.geometry.stiefel import keep_largest
from orthoplus.linalg.row_gains import entries_of
from orthoplus.methods.refine import refine_and_evaluate
from orthoplus.methods.search.support_descent import SupportPoint, try_support
from orthoplus.methods.search.support_moves import Scores, exchanged, kicked, moved

# A decrease of f by less than this share of its size, or this many roundings, does not count.
_MIN_RELATIVE_GAIN, _MIN_GAIN_ROUNDOFFS = 1e-11, 32
# Evaluations of f that a search may always use, the most it may use, and its share of those of the
# preceding run.
_LEAST_EVAL, _MOST_EVAL, _SHARE_OF_RUN = 4, 4000, 0.3
# A descent tries at most one move per this many remaining evaluations; after a kick, fewer.
_SHARES_OF_LIMIT, _SHARES_AFTER_KICK = 16, 40
# A kick needs at least this many remaining evaluations.
_KICK_EVAL = 30
# If a trial takes more evaluations than this to decrease f, it is continued to its minimum.
_QUICK_GAIN = 3
# Maximum number of steps of a quick and of a full trial.
_QUICK_STEPS, _FULL_STEPS = 40, 200


class SearchState(NamedTuple):
    """Hold the best point so far and the state of the search.

    ``is_row_optimal`` is True once every move of a single row was examined at X without a gain.
    ``is_settled`` is True if a descent has ended at X and another could not examine all moves
    either.
    """

    X: FloatArray
    value: float
    n_iter: int
    n_eval: int
    limit: int
    n_failures: int
    is_local: bool
    is_over: bool
    is_row_optimal: bool
    seed: int
    violation: float = 0.0
    Y: FloatArray | None = None
    is_settled: bool = False


@dataclass(frozen=True)
class SupportSearch(SeededMethod):
    r"""Improve a feasible point by changing its support, for any smooth f.

    A point of S+ is a labeling of the rows with weights. A stationary point is optimal, to first
    order, for its own labeling; this method compares it with others by

    1. *moves* of single rows to another column, or to and from zero, many at once while f
       decreases,
    2. the *projection* of a gradient step (or of the problem's majorizer) onto S+, which is
       certified and may move every row,
    3. *exchanges* of two rows,
    4. *kicks*: random rows reassigned, a column split, or all rows reassigned, followed by 1 to 3.

    First-order scores determine which moves to try (see `orthoplus.linalg.row_gains`); the minimum
    of f over the weights of the new support determines which to keep. A problem may score its moves
    exactly (`Problem.move_gains`), as orthogonal NMF, the trace family and k-means do. K-indicators
    provides upper bounds (`Problem.move_gain_bounds`), so that moves that cannot gain are not
    tried, and steps 2 and 4 are skipped if f is so low that they cannot help (`Problem.is_clear`).

    Parameters
    ----------
    patience : int
        Number of consecutive kicks without a gain after which the search ends; 0 disables kicks.
    trials : int
        Maximum numbers of moves and exchanges to try before a point counts as locally optimal.
    effort : float
        Budget of the search: about ``effort / (n k)`` evaluations of f, or a third of those of the
        preceding run if that is more, but at most a few thousand.
    with_projections : bool
        Whether to do step 2. It is the expensive part, and unnecessary if the start comes from a
        search that moves many rows at once, as for k-means.
    seed : int
        Seed of the kicks.

    Notes
    -----
    The result is never worse than the start. The search ends at a point where no tried move
    decreases f; ``Result.is_row_optimal`` is True if all moves of single rows were tried or are
    excluded by exact scores or bounds. Scores and bounds hold for moves that keep the other rows of
    both columns in proportion.

    Examples
    --------
    >>> import orthoplus as op
    >>> C = np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]])
    >>> f = op.problems.Smooth(lambda X: -float((C * X).sum()), (3, 2), jac=lambda X: -C)
    >>> result = op.solve(f, np.eye(3, 2)[::-1], method=SupportSearch())
    >>> result.labels, result.is_row_optimal
    (array([0, 0, 1]), True)
    """

    state_type = SearchState
    ends_with_search = False  # this method is the search

    patience: int = 8
    trials: int = 64
    effort: float = 6e5
    with_projections: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.patience, "patience")
        check_count(self.trials, "trials", low=1)
        check_positive(self.effort, "effort")
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> SearchState:
        """Round X to S+ and refine it on its support.

        ``carry`` may contain ``n_eval``, the number of evaluations of the preceding run, and
        ``value``, the value of f if X is in S+ and refined already.
        """
        carry = carry or {}
        value = carry.get("value")
        if value is None:
            X, value = refine_and_evaluate(problem, keep_largest(X))
        n, k = problem.shape
        # Small problems get more evaluations, and a long run before the search allows a long
        # search.
        least = max(self.effort / (n * k), _SHARE_OF_RUN * carry.get("n_eval", 0))
        return SearchState(
            X=X,
            value=value,
            n_iter=0,
            n_eval=0,
            limit=int(min(max(least, _LEAST_EVAL), _MOST_EVAL)),
            n_failures=0,
            is_local=False,
            is_over=False,
            is_row_optimal=False,
            seed=self.seed,
        )

    def step(self, problem: Problem, state: SearchState) -> SearchState:
        """Descend to a local optimum, then kick once per step, and verify at the end."""
        state = state._replace(n_iter=state.n_iter + 1)
        if not state.is_local:
            is_over = problem.is_clear(state.value)  # kicks cannot help then
            return self._descend_to_optimum(problem, state._replace(is_over=is_over))
        if state.n_failures < self.patience and state.n_eval + _KICK_EVAL < state.limit:
            return self._kick(problem, state)
        state = state._replace(is_over=True)
        return state if state.is_settled else self._descend_to_optimum(problem, state)

    def is_row_optimal(self, state: SearchState) -> bool:
        """Return whether no move of a single row improves the state."""
        return state.is_row_optimal

    def stop(self) -> Callable[[SearchState], Status]:
        """Return the stopping rule: the last point has been verified."""

        def stop(state: SearchState) -> Status:
            return Status.CONVERGED if state.is_over else Status.RUNNING

        return stop

    def _descend_to_optimum(self, problem: Problem, state: SearchState) -> SearchState:
        """Descend from the best point; the last descent records whether all moves were examined."""
        search = _Descent(self, problem, state.limit, is_last=state.is_over)
        search.with_projections &= not problem.is_clear(state.value)
        start = SupportPoint(*entries_of(state.X), state.value)
        point = search.run(start)
        X, value = state.X, state.value
        if point.value < value:
            X, value = refine_and_evaluate(problem, point.dense(problem.shape[1]))
        return state._replace(
            X=X,
            value=value,
            n_eval=state.n_eval + search.n_eval,
            is_local=True,
            is_row_optimal=search.is_complete and state.is_over,
            is_settled=not search.can_complete,
        )

    def _kick(self, problem: Problem, state: SearchState) -> SearchState:
        """Descend from a perturbed point and keep the better of both points."""
        k = problem.shape[1]
        rng = np.random.default_rng([self.seed, state.n_iter])
        best = SupportPoint(*entries_of(state.X), state.value)
        # The descent after a kick may try fewer moves, so that more kicks fit into the budget.
        search = _Descent(self, problem, state.limit - state.n_eval, _SHARES_AFTER_KICK)
        # The gains decide where the rows of a dissolved column go.
        gains = Scores(problem, best).gains
        point = search.run(search.at(*kicked(best, gains, rng, state.n_iter)))
        n_eval = state.n_eval + search.n_eval
        if not search.is_better(point.value, state.value):
            return state._replace(n_eval=n_eval, n_failures=state.n_failures + 1)
        X, value = refine_and_evaluate(problem, point.dense(k))
        better = state._replace(X=X, value=value, n_eval=n_eval, n_failures=0)
        return better._replace(is_row_optimal=False, is_settled=False)


def improve_support(problem: Problem, X: FloatArray, max_eval: int) -> FloatArray:
    """Descend over supports from X in S+ with about this many evaluations; never worse.

    Examples
    --------
    >>> from orthoplus.problems import TraceMin
    >>> M = -np.kron(np.eye(2), np.ones((2, 2)))
    >>> X = np.kron(np.ones((2, 1)), np.eye(2)) / np.sqrt(2)  # every other row
    >>> labels = improve_support(TraceMin(M, 2), X, 100).argmax(axis=1)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    start = SupportPoint(*entries_of(X), problem.value(X))
    found = _Descent(SupportSearch(), problem, max_eval, _SHARES_AFTER_KICK).run(start)
    return found.dense(problem.shape[1]) if found.value < start.value else X


class _Descent:
    """Descend over supports and count the evaluations.

    Hopeless trials are abandoned early, unless this is the last descent (``is_last``) and it can
    try all moves of single rows: continued to their minima, the trials prove that no move gains.
    """

    def __init__(
        self, options: SupportSearch, problem: Problem, limit: int,
        shares: int = _SHARES_OF_LIMIT, *, is_last: bool = False,
    ) -> None:  # fmt: skip
        self.problem, self.limit, self.is_last = problem, limit, is_last
        self.with_projections = options.with_projections
        self.n_eval, self.is_exact, self.is_complete, self.can_complete = 0, False, False, False
        # Reserve evaluations for kicks unless this is the last descent.
        self.trials = options.trials
        self.most = min(self.trials, limit if is_last else max(limit // shares, 1))

    def run(self, point: SupportPoint) -> SupportPoint:
        """Follow moves that decrease f until no tried move does."""
        while self.n_eval < self.limit:
            better = self._improved(point)
            if better is None:
                break
            point = better
        return point

    def at(self, labels: IntArray, weights: FloatArray, target: float = -np.inf) -> SupportPoint:
        """Minimize f over the weights of a support."""
        if self.is_exact:  # without a target, a trial is never abandoned
            trial = try_support(self.problem, labels, weights, max_iter=_FULL_STEPS)
        else:
            limits = {"target": target, "max_iter": _QUICK_STEPS, "tol": 1e-5}
            trial = try_support(self.problem, labels, weights, **limits)  # type: ignore[arg-type]
        self.n_eval += trial.n_eval
        return trial.point

    def is_better(self, value: float, than: float) -> bool:
        """Return whether a value is lower by more than rounding."""
        # A relative gain that exceeds the rounding of f.
        roundoff = _MIN_GAIN_ROUNDOFFS * ROUNDOFF[np.dtype(np.float64)]
        return value < than - max(_MIN_RELATIVE_GAIN, roundoff) * abs(than)

    def _improved(self, point: SupportPoint) -> SupportPoint | None:
        """Return the first better neighbor found, or None."""
        k = self.problem.shape[1]
        scores, self.is_complete = Scores(self.problem, point), False
        self.n_eval += 1
        for labels, weights in self._candidates(scores, point, k):
            begin = self.n_eval
            # The current value is the target: hopeless trials end early.
            trial = self.at(labels, weights, point.value)
            if self.is_better(trial.value, point.value):
                # Scores assume optimal weights. If a move decreases f at once, the next descent
                # optimizes the weights; if it took several steps, finish them now.
                is_slow = self.n_eval - begin > _QUICK_GAIN and not self.is_exact
                return self.at(trial.labels, trial.weights) if is_slow else trial
            if self.n_eval >= self.limit:
                break
        return None

    def _candidates(
        self, scores: Scores, point: SupportPoint, k: int
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield the neighbors of a point in the order in which they are tried."""
        least = _MIN_RELATIVE_GAIN * abs(point.value)
        # If f is low, the bounds often exclude all moves, and no other score is needed.
        if self.problem.is_clear(point.value) and scores.exclude_all(least):
            self.is_complete = self.can_complete = True
            return
        # Moves that share no column do not interact, so that exact gains add up.
        together = scores.disjoint_moves(least)
        self.is_complete = scores.is_exact and not len(together)
        # First all gainful moves at once, then those that share no column, then single moves.
        everything = scores.all_moves(least)
        for moves in (everything, together) if len(everything) > len(together) else (together,):
            if len(moves) > 1:
                yield from _possible(moved(point, moves, k))
        singles, has_all = scores.single_moves(least)
        if not len(singles) and not scores.is_alone.any():
            # The bounds exclude all moves: every row is clearly in its column.
            self.is_complete = self.can_complete = True
            return
        # All single moves can be examined if scores are exact or there are few enough candidates.
        self.can_complete = scores.is_exact or (has_all and len(singles) <= self.trials)
        self.is_exact = self.is_last and self.can_complete
        for move in singles[:1]:
            yield from _possible(moved(point, move[None], k))
        if self.with_projections:
            yield from scores.projections()
        # The best single move was tried first; the projections come before the remaining ones.
        most = self.most
        for move in singles[1:most]:
            yield from _possible(moved(point, move[None], k))
        self.is_complete |= len(singles) <= most and has_all
        for pair in scores.exchanges(most):
            yield exchanged(point, pair, k)


def _possible(
    found: tuple[IntArray, FloatArray] | None,
) -> Iterator[tuple[IntArray, FloatArray]]:
    if found is not None:
        yield found
