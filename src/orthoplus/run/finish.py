"""From the last state of a run to its result: rounding, refinement and reporting."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.errors import OutOfTimeError
from orthoplus.core.method import iterate, run
from orthoplus.core.outer_method import Answer, OuterMethodBase
from orthoplus.core.point import SupportPoint
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.status import STATIONARITY_TOL, Status
from orthoplus.core.types import FloatArray
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import keep_largest, order_of_appearance
from orthoplus.methods.refine import refine_and_evaluate
from orthoplus.methods.search.support_search import SupportSearch
from orthoplus.optimality.conditions import stationarity
from orthoplus.projection import project_stiefel_plus
from orthoplus.run.monitor import CountedProblem, RunMonitor

# With these statuses, no search over supports follows.
ENDED_FROM_OUTSIDE = (Status.INTERRUPTED, Status.TIME_LIMIT, Status.CALLBACK)
# If Procedure 1 fails, a few passes of the projection find a point of S+ that is close enough.
_ROUNDING_PASSES = 10


class Ending(NamedTuple):
    """Hold the answer of a run and its status; ``X`` is the matrix, or None."""

    answer: Answer
    X: FloatArray | None
    status: Status


def finish(
    problem: Problem,
    start: Any,
    monitor: RunMonitor,
    status: Status,
    *,
    search: SupportSearch | None,
) -> Ending:
    """Return the method's own answer, or round, refine and search over supports.

    The result is never worse than a given start.
    """
    method, state = monitor.method, monitor.state
    own = method.answer(problem, state, start)
    if own is not None:
        # A converged search may still not be stationary to first order: report FEASIBLE then.
        is_met = own.stationarity <= STATIONARITY_TOL * own.gradient_size
        is_doubtful = status is Status.CONVERGED and not is_met
        return Ending(own, None, Status.FEASIBLE if is_doubtful else status)
    if state is not None and state.Y is not None:
        problem = problem.warm(state.Y)
    is_row_optimal: bool | None = None if state is None else method.is_row_optimal(state)
    with monitor.workspace.lending():
        X, value, status = _best_feasible(problem, start, monitor, status)
    if search is not None and status not in ENDED_FROM_OUTSIDE:
        timed = CountedProblem(problem, monitor.budget)
        X, is_row_optimal, status = _searched(timed, X, value, status, search)
    if problem.is_column_symmetric:
        X = X[:, order_of_appearance(kernels.largest_entries(X)[0], X.shape[1])]
    answer = Answer(
        SupportPoint.of(X),
        problem.second_block(X),
        problem.value(X),
        is_row_optimal=is_row_optimal or None,
    )
    return Ending(answer, X, status)


def report(
    problem: Problem, ending: Ending, monitor: RunMonitor, *, notes: tuple[str, ...]
) -> Result:
    """Evaluate the original problem at the answer and return the result, without a bound."""
    (answer, X, status), state = ending, monitor.state
    value, residual = answer.value, answer.stationarity
    if X is not None:
        if answer.Y is not None:
            problem = problem.warm(answer.Y)
        value, gradient = problem.value_and_gradient(X)
        residual = stationarity(X, gradient)
        if status is Status.CONVERGED:
            is_met = np.isfinite(value) and _is_stationary(problem, X, gradient, residual)
            status = Status.CONVERGED if is_met else Status.FEASIBLE
    return Result(
        point=answer.point,
        value=value,
        stationarity=residual,
        status=status,
        n_iter=0 if state is None else state.n_iter,
        n_eval=monitor.budget.n_eval,
        seconds=monitor.budget.seconds,
        history=tuple(monitor.history),
        is_row_optimal=answer.is_row_optimal,
        Y=answer.Y,
        notes=notes,
        state=state,
    )


def _searched(
    problem: CountedProblem, X: FloatArray, value: float, status: Status, search: SupportSearch
) -> tuple[FloatArray, bool | None, Status]:
    """Search over supports from a refined X with this value.

    Return the best point, whether no move of a single row improves it, and the status.
    """
    budget, best = problem.budget, X
    is_row_optimal: bool | None = None
    stop, carry = search.stop(), {"n_eval": budget.n_eval, "value": value}
    try:
        for state in iterate(problem, search, search.init(problem, X, carry)):
            best, is_row_optimal = state.X, state.is_row_optimal or None
            budget.check_time()
            if stop(state) is not Status.RUNNING:
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except OutOfTimeError:
        status = Status.TIME_LIMIT
    return best, is_row_optimal, status


def _is_stationary(problem: Problem, X: FloatArray, gradient: FloatArray, residual: float) -> bool:
    """Return whether the residual is small relative to the gradient here or at a random point.

    The gradient at X alone would not do: if f vanishes at its minimum, the gradient is rounding.
    """
    if residual <= STATIONARITY_TOL * _norm(gradient):
        return True
    n, k = X.shape
    elsewhere = random_oblique_plus(n, k, np.random.default_rng(0)).astype(X.dtype)
    size = _norm(problem.value_and_gradient(elsewhere)[1])
    return residual <= STATIONARITY_TOL * size


def _norm(G: FloatArray) -> float:
    """Return the Frobenius norm, also if the squares of the entries overflow."""
    with np.errstate(over="ignore"):
        size = float(np.linalg.norm(G))
    if np.isfinite(size):
        return size
    top = float(np.abs(G).max())
    return top * float(np.linalg.norm(G / top)) if np.isfinite(top) else top


def _best_feasible(
    problem: Problem, X0: FloatArray | None, monitor: RunMonitor, status: Status
) -> tuple[FloatArray, float, Status]:
    """Refine the last iterate, or X^feas if it is better, until time runs out or Ctrl-C.

    Return the point, f there, and the status.
    """
    state = monitor.state
    last: Any = X0 if state is None else state.X
    rounded = keep_largest(last, _nearest)  # Procedure 1
    starts = [] if X0 is None else [keep_largest(X0)]
    X_feas = None if state is None else monitor.method.feasible_point(state)
    # Without a safeguard, X^feas is the rounded start.
    if X_feas is not None and not (starts and np.array_equal(X_feas, starts[0])):
        starts.append(X_feas)
    timed = CountedProblem(problem, monitor.budget)
    try:
        X, value = _descend(timed, rounded, monitor.method)
        # The start or X^feas may be better than the refined last iterate.
        for start in starts:
            if _objective_or_inf(timed, start) < (np.inf if np.isnan(value) else value):
                X, value = _descend(timed, start, monitor.method)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except OutOfTimeError:
        status = Status.TIME_LIMIT
    else:
        return X, value, status
    values = [_objective_or_inf(problem, Z) for Z in (rounded, *starts)]
    best = int(np.argmin(values))
    return (rounded, *starts)[best], values[best], status


def _descend(problem: Problem, X: FloatArray, method: OuterMethodBase) -> tuple[FloatArray, float]:
    """Refine X on its support, or polish it if the method requests that; never worse."""
    polish = method.polish
    if polish is None:
        return refine_and_evaluate(problem, X)
    state = run(problem, polish, polish.init(problem, X), polish.stop())[0]
    return state.X, state.value


def _objective_or_inf(problem: Problem, X: FloatArray) -> float:
    """Return f(X), or infinity if it is NaN."""
    value = problem.value(X)
    return np.inf if np.isnan(value) else value


def _nearest(X: FloatArray) -> FloatArray:
    """Return the nearest point of S+, used if Procedure 1 would leave a column without a row."""
    return project_stiefel_plus(X, max_passes=_ROUNDING_PASSES).X.astype(X.dtype, copy=False)
