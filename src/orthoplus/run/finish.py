"""From the last state of a run to its answer: rounding, refinement, and the report of it."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.errors import OutOfTimeError
from orthoplus.core.method import iterate, run
from orthoplus.core.outer_method import OuterMethodBase
from orthoplus.core.point import SupportPoint
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.status import STATIONARITY_TOL, Status
from orthoplus.core.types import FloatArray
from orthoplus.data.groups import (
    Centres,
    assign_rows,
    column_entries,
    stationarity_of_groups,
    support_labels,
)
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import keep_largest, order_of_appearance
from orthoplus.methods.refine import refine
from orthoplus.methods.search.alternation import ROUGH
from orthoplus.methods.search.support_search import SupportSearch
from orthoplus.methods.search.swap_search import SwapState
from orthoplus.optimality.conditions import stationarity
from orthoplus.projection import project_stiefel_plus
from orthoplus.run.monitor import CountedProblem, Meter, Watch

# The search over supports is left out then.
ENDED_FROM_OUTSIDE = (Status.INTERRUPTED, Status.TIME_LIMIT, Status.CALLBACK)
# Where Procedure 1 fails, a few passes find a point of S+ near enough.
_ROUNDING_PASSES = 10


class Answer(NamedTuple):
    """A feasible point, stored as labels and weights, and how its run ended.

    ``value`` is that of the problem the method ran on; ``X`` is the dense point, None if there is
    none in memory.
    """

    point: SupportPoint
    X: FloatArray | None
    Y: FloatArray | None
    value: float
    stationarity: float
    status: Status
    is_row_optimal: bool | None


def finish(
    problem: Problem,
    X0: FloatArray | Centres | None,
    watch: Watch,
    status: Status,
    *,
    search: SupportSearch | None,
) -> Answer:
    """Round, refine and search over supports; never worse than a start that was given."""
    if isinstance(watch.state, SwapState) or isinstance(X0, Centres):
        return _answer_in_groups(problem, X0, watch, status)
    if watch.state is not None and watch.state.Y is not None:
        problem = problem.warm(watch.state.Y)
    is_row_optimal: bool | None = None
    if watch.state is not None:
        is_row_optimal = watch.method.is_row_optimal(watch.state) or None
    with watch.workspace.lending():
        X, status = _best_feasible(problem, X0, watch, status)
    if search is not None and status not in ENDED_FROM_OUTSIDE:
        X, is_row_optimal, status = _searched(problem, X, watch.meter, status, search)
    if problem.is_column_symmetric:
        X = X[:, order_of_appearance(kernels.largest_entries(X)[0], X.shape[1])]
    point, Y = SupportPoint.of(X), problem.second_block(X)
    return Answer(point, X, Y, problem.value(X), np.nan, status, is_row_optimal)


def report(problem: Problem, answer: Answer, watch: Watch, *, notes: tuple[str, ...]) -> Result:
    """Evaluate the problem itself at the answer and say how the run ended, without a bound."""
    value, residual, status, state = answer.value, answer.stationarity, answer.status, watch.state
    if answer.X is not None:
        if answer.Y is not None:
            problem = problem.warm(answer.Y)
        value, gradient = problem.value_and_gradient(answer.X)
        residual = stationarity(answer.X, gradient)
        if status is Status.CONVERGED:
            is_met = np.isfinite(value) and _is_stationary(problem, answer.X, gradient, residual)
            status = Status.CONVERGED if is_met else Status.FEASIBLE
    return Result(
        point=answer.point,
        value=value,
        stationarity=residual,
        status=status,
        n_iter=0 if state is None else state.n_iter,
        n_eval=watch.meter.n_eval,
        seconds=watch.meter.seconds,
        history=tuple(watch.history),
        is_row_optimal=answer.is_row_optimal,
        Y=answer.Y,
        notes=notes,
        state=state,
    )


def _searched(
    problem: Problem, X: FloatArray, meter: Meter, status: Status, search: SupportSearch
) -> tuple[FloatArray, bool | None, Status]:
    """The best point of a search over supports from X, and whether no row gains by moving alone."""
    timed, best = CountedProblem(problem, meter), X
    is_row_optimal: bool | None = None
    stop = search.stop()
    try:
        for state in iterate(timed, search, search.init(timed, X, {"n_eval": meter.n_eval})):
            best, is_row_optimal = state.X, state.is_row_optimal or None
            meter.look()
            if stop(state) is not Status.RUNNING:
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except OutOfTimeError:
        status = Status.TIME_LIMIT
    return best, is_row_optimal, status


def _is_stationary(problem: Problem, X: FloatArray, gradient: FloatArray, residual: float) -> bool:
    """Whether the residual is a small share of the gradient of f, here or at a random point.

    Here alone would not do: where f is zero at its best, its gradient is rounding there.
    """
    if residual <= STATIONARITY_TOL * float(np.linalg.norm(gradient)):
        return True
    n, k = X.shape
    elsewhere = random_oblique_plus(n, k, np.random.default_rng(0)).astype(X.dtype)
    size = float(np.linalg.norm(problem.value_and_gradient(elsewhere)[1]))
    return residual <= STATIONARITY_TOL * size


def _answer_in_groups(
    problem: Any, X0: FloatArray | Centres | None, watch: Watch, status: Status
) -> Answer:
    """A point that is a label and a weight a row, refined already: no n x k matrix."""
    state, A, k = watch.state, problem.A, problem.shape[1]
    if isinstance(state, SwapState):
        labels, weights = watch.method.entries(problem, state)
    else:  # ended before there was a state
        assert isinstance(X0, Centres)
        labels, scores, _ = assign_rows(A, X0.vectors)
        V, squares = problem.group_directions(labels, scores, ROUGH)
        weights = column_entries(A, labels, V, squares)
    labels = support_labels(A, labels, weights)
    W = A.group_sums(labels, weights, k)
    value = problem.constant - float(np.vdot(W, W))
    residual = stationarity_of_groups(A, labels, weights, W)
    # The gradient has parts of this size, ||AA'X|| >= ||A'X||^2 / sqrt(k), that cancel at the best.
    size = 2.0 * float(np.vdot(W, W)) / k**0.5
    if status is Status.CONVERGED and not residual <= STATIONARITY_TOL * size:
        status = Status.FEASIBLE
    point = A.point(labels, weights, k)
    Y = np.ascontiguousarray(W.T, dtype=A.dtype)
    # Its end examines moves between columns. Setting a row to zero can gain only if products of
    # rows may be negative.
    is_examined = isinstance(state, SwapState) and state.is_over and not problem.allow_negative
    is_row_optimal = True if is_examined else None
    return Answer(point, None, Y, value, residual, status, is_row_optimal)


def _best_feasible(
    problem: Problem, X0: FloatArray | None, watch: Watch, status: Status
) -> tuple[FloatArray, Status]:
    """The refined last iterate, or X^feas where that is better; time and keyboard still count."""
    state = watch.state
    last: Any = X0 if state is None else state.X
    rounded = keep_largest(last, _nearest)  # Procedure 1
    starts = [] if X0 is None else [keep_largest(X0)]
    X_feas = None if state is None else watch.method.feasible_point(state)
    if X_feas is not None:
        starts.append(X_feas)
    timed = CountedProblem(problem, watch.meter)
    try:
        X = _descend(timed, rounded, watch.method)
        for start in starts:
            if _rank(timed, start) < _rank(timed, X):
                X = _descend(timed, start, watch.method)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except OutOfTimeError:
        status = Status.TIME_LIMIT
    else:
        return X, status
    return min((rounded, *starts), key=lambda Z: _rank(problem, Z)), status


def _descend(problem: Problem, X: FloatArray, method: OuterMethodBase) -> FloatArray:
    """Refined on the support of X, or polished, where the method asks for that; never worse."""
    polish = method.polish
    if polish is None:
        return refine(problem, X)
    return np.asarray(run(problem, polish, polish.init(problem, X), polish.stop())[0].X)


def _rank(problem: Problem, X: FloatArray) -> float:
    """f(X), with NaN as the worst."""
    value = problem.value(X)
    return np.inf if np.isnan(value) else value


def _nearest(X: FloatArray) -> FloatArray:
    """The nearest point of S+, where Procedure 1 would leave a column without a row."""
    return project_stiefel_plus(X, max_passes=_ROUNDING_PASSES).X.astype(X.dtype, copy=False)
