"""A search over supports for any smooth f: from a feasible point to a better one."""

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
from orthoplus.methods.refine import refine
from orthoplus.methods.search.support_descent import SupportPoint, try_support
from orthoplus.methods.search.support_moves import Scores, exchanged, kicked, moved

# A fall of f by less than this share of its size (or so many roundings) is none.
_MIN_RELATIVE_GAIN, _MIN_GAIN_ROUNDOFFS = 1e-11, 32
# Evaluations of f that a search may always spend, and those it may at most, whatever the size; and
# its share of those that the run before it took.
_LEAST_EVAL, _MOST_EVAL, _SHARE_OF_RUN = 4, 4000, 0.3
# A descent tries at most one move for so many evaluations that are left; after a kick, fewer.
_SHARES_OF_LIMIT, _SHARES_AFTER_KICK = 16, 40
# A kick is not worth its while with fewer evaluations left.
_KICK_EVAL = 30
# Evaluations after which a trial that lowers f is carried to its minimum.
_QUICK_GAIN = 3
# Steps of a trial.
_QUICK_STEPS, _FULL_STEPS = 40, 200


class SearchState(NamedTuple):
    """The best point so far and how the search stands.

    ``is_row_optimal`` is True once every move of a single row was examined at X without gain;
    ``is_settled`` if a descent has ended at X and another would not examine all of them either.
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

    A point of S+ is a labeling of the rows with weights. A stationary point is best, to first
    order, for *its* labeling; this method compares it with others:

    1. *moves* of single rows to another column, to zero and back, many at once while that lowers f,
    2. the *projection* of a gradient step (or of the problem's majorizer) onto S+, which is
       certified and may move every row,
    3. *exchanges* of two rows,
    4. *kicks*: rows dealt again at random, a column split, all rows dealt again; then 1 to 3.

    First-order scores say which moves to try, see `orthoplus.linalg.row_gains`; f, minimized over
    the weights of the new support, says which to keep. A problem may score its moves exactly
    (`Problem.move_gains`): orthogonal NMF, the trace family and k-means do. K-indicators bounds
    them from both sides (`Problem.move_gain_bounds`): moves that cannot gain are not tried, and 2
    and 4 are left out if f is so low that they found nothing (`Problem.is_clear`).

    Parameters
    ----------
    patience : int
        Kicks in a row without a gain after which the search ends; 0 never kicks.
    trials : int
        Most moves, and most exchanges, that are tried before a point counts as locally optimal.
    effort : float
        The search ends after about this many evaluations of f times nk, or a third of those of the
        run before it if they are more; it never takes more than some thousands.
    with_projections : bool
        Whether 2 is done. It is the expensive part, and needless if the start comes from a search
        that moves many rows at once, as that of k-means does.
    seed : int
        For the kicks.

    Notes
    -----
    Never worse than its start. It ends at a point where no move that was tried lowers f; if all
    moves of single rows were tried, or the problem's exact scores or bounds exclude them,
    ``Result.is_row_optimal`` says so. Scores and bounds hold for moves that leave the other rows of
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
    ends_with_search = False  # it is the search

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

        ``carry`` may hold ``n_eval``, the evaluations of the run before.
        """
        X = refine(problem, keep_largest(X))
        n, k = problem.shape
        least = max(self.effort / (n * k), _SHARE_OF_RUN * (carry or {}).get("n_eval", 0))
        return SearchState(
            X=X,
            value=problem.value(X),
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
        """Descend to a local optimum, then kick once per step, and verify in the end."""
        state = state._replace(n_iter=state.n_iter + 1)
        if not state.is_local:
            is_over = problem.is_clear(state.value)  # then kicks found nothing, see there
            return self._descend_to_optimum(problem, state._replace(is_over=is_over))
        if state.n_failures < self.patience and state.n_eval + _KICK_EVAL < state.limit:
            return self._kick(problem, state)
        state = state._replace(is_over=True)
        return state if state.is_settled else self._descend_to_optimum(problem, state)

    def is_row_optimal(self, state: SearchState) -> bool:
        return state.is_row_optimal

    def stop(self) -> Callable[[SearchState], Status]:
        """Stop once the last point has been verified."""

        def stop(state: SearchState) -> Status:
            return Status.CONVERGED if state.is_over else Status.RUNNING

        return stop

    def _descend_to_optimum(self, problem: Problem, state: SearchState) -> SearchState:
        """Descend from the best point; in the end exactly, and say whether all was examined."""
        search = _Descent(self, problem, state.limit, is_last=state.is_over)
        search.with_projections &= not problem.is_clear(state.value)
        start = SupportPoint(*entries_of(state.X), state.value)
        point = search.run(start)
        X, value = state.X, state.value
        if point.value < value:
            X = refine(problem, point.dense(problem.shape[1]))
            value = problem.value(X)
        return state._replace(
            X=X,
            value=value,
            n_eval=state.n_eval + search.n_eval,
            is_local=True,
            is_row_optimal=search.is_complete and state.is_over,
            is_settled=not search.can_complete,
        )

    def _kick(self, problem: Problem, state: SearchState) -> SearchState:
        """Descend from a perturbed point; keep what is better."""
        k = problem.shape[1]
        rng = np.random.default_rng([self.seed, state.n_iter])
        best = SupportPoint(*entries_of(state.X), state.value)
        search = _Descent(self, problem, state.limit - state.n_eval, _SHARES_AFTER_KICK)
        gains = Scores(problem, best).gains
        point = search.run(search.at(*kicked(best, gains, rng, state.n_iter)))
        n_eval = state.n_eval + search.n_eval
        if not search.is_better(point.value, state.value):
            return state._replace(n_eval=n_eval, n_failures=state.n_failures + 1)
        X = refine(problem, point.dense(k))
        better = state._replace(X=X, value=problem.value(X), n_eval=n_eval, n_failures=0)
        return better._replace(is_row_optimal=False, is_settled=False)


def improve_support(problem: Problem, X: FloatArray, max_eval: int) -> FloatArray:
    """Descend over supports from X in S+ with about this many evaluations of f; never worse.

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
    """One descent over supports, with its count of evaluations.

    Trials that are hopeless are given up early, unless this is the last descent (``is_last``) and
    it can try all moves of single rows: carried to their minima, they show that none of them gains.
    """

    def __init__(
        self, options: SupportSearch, problem: Problem, limit: int,
        shares: int = _SHARES_OF_LIMIT, *, is_last: bool = False,
    ) -> None:  # fmt: skip
        self.problem, self.limit, self.is_last = problem, limit, is_last
        self.with_projections = options.with_projections
        self.n_eval, self.is_exact, self.is_complete, self.can_complete = 0, False, False, False
        # Unless this is the last descent, keep evaluations for kicks.
        self.trials = options.trials
        self.most = min(self.trials, limit if is_last else max(limit // shares, 1))

    def run(self, point: SupportPoint) -> SupportPoint:
        """Follow moves that lower f until none that is tried does."""
        while self.n_eval < self.limit:
            better = self._improved(point)
            if better is None:
                break
            point = better
        return point

    def at(self, labels: IntArray, weights: FloatArray, target: float = -np.inf) -> SupportPoint:
        """Minimize f on a support."""
        if self.is_exact:  # a target of minus infinity never gives up
            trial = try_support(self.problem, labels, weights, max_iter=_FULL_STEPS)
        else:
            limits = {"target": target, "max_iter": _QUICK_STEPS, "tol": 1e-5}
            trial = try_support(self.problem, labels, weights, **limits)  # type: ignore[arg-type]
        self.n_eval += trial.n_eval
        return trial.point

    def is_better(self, value: float, than: float) -> bool:
        """Whether a value is lower by more than rounding."""
        roundoff = _MIN_GAIN_ROUNDOFFS * ROUNDOFF[np.dtype(np.float64)]
        return value < than - max(_MIN_RELATIVE_GAIN, roundoff) * abs(than)

    def _improved(self, point: SupportPoint) -> SupportPoint | None:
        """Return the first better neighbor; None if there is none among those that are tried."""
        k = self.problem.shape[1]
        scores, self.is_complete = Scores(self.problem, point), False
        self.n_eval += 1
        for labels, weights in self._candidates(scores, point, k):
            begin = self.n_eval
            trial = self.at(labels, weights, point.value)
            if self.is_better(trial.value, point.value):
                # Scores suppose that the weights are at their best. A move that lowers f at once
                # may wait for the next; one that took steps owes its gain to them: finish them.
                is_slow = self.n_eval - begin > _QUICK_GAIN and not self.is_exact
                return self.at(trial.labels, trial.weights) if is_slow else trial
            if self.n_eval >= self.limit:
                break
        return None

    def _candidates(
        self, scores: Scores, point: SupportPoint, k: int
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        """Return the neighbors of a point in the order in which they are tried."""
        least = _MIN_RELATIVE_GAIN * abs(point.value)
        together = scores.disjoint_moves(least)
        self.is_complete = scores.is_exact and not len(together)
        everything = scores.all_moves(least)
        for moves in (everything, together) if len(everything) > len(together) else (together,):
            if len(moves) > 1:
                yield from _possible(moved(point, moves, k))
        singles, has_all = scores.single_moves(least)
        if not len(singles) and not scores.is_alone.any():
            # Bounds exclude all: no row is near the border of its column.
            self.is_complete = self.can_complete = True
            return
        self.can_complete = scores.is_exact or (has_all and len(singles) <= self.trials)
        self.is_exact = self.is_last and self.can_complete
        for move in singles[:1]:
            yield from _possible(moved(point, move[None], k))
        if self.with_projections:
            yield from scores.projections()
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
