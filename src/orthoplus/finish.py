"""From the last state of a run to its answer: rounding, refinement, and the report of it."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.bounds import bracket
from orthoplus.geometry import assemble, cover_columns, keep_largest, random_oblique_plus
from orthoplus.loop import OuterMethod, run
from orthoplus.memory import reused_memory
from orthoplus.methods.alternation import ROUGH
from orthoplus.methods.refine import refine
from orthoplus.methods.swap_search import SwapState
from orthoplus.optimality import stationarity
from orthoplus.projection import project_stiefel_plus
from orthoplus.protocols import FloatArray, Problem
from orthoplus.result import Result
from orthoplus.row_blocks import RowBlocks
from orthoplus.row_groups import (
    Centres,
    assign_rows,
    column_entries,
    group_sums,
    stationarity_of_groups,
    support_labels,
)
from orthoplus.status import Status
from orthoplus.supervise import Metered, OutOfTimeError, Watch

# Where Procedure 1 fails, a few passes find a point of S+ near enough.
_ROUNDING_PASSES = 10
# A residual that is a larger share of the gradients is none of a stationary point.
_FAR = 1e-2


class _Answer(NamedTuple):
    """A point of S+, a label and a weight a row, and what is known of it."""

    labels: Any
    weights: Any
    value: float
    stationarity: float
    Y: FloatArray | None


def finish(
    problem: Problem,
    X0: FloatArray | Centres,
    watch: Watch,
    status: Status,
    *,
    with_bound: bool,
    notes: tuple[str, ...],
) -> Result:
    """Round, refine, and report; the better of the last iterate and a feasible start."""
    state = watch.state
    if isinstance(state, SwapState) or isinstance(X0, Centres):
        answer = _answer_in_groups(problem, X0, watch)
    else:
        answer, status = _answer(problem, X0, watch, status)
    bound = problem.lower_bound() if with_bound else None
    within = bracket(problem, answer.value, bound, answer.weights.dtype)
    return Result(
        **(answer._asdict() | within._asdict()),
        n_columns=problem.shape[1],
        status=status,
        n_iter=0 if state is None else state.n_iter,
        n_eval=watch.meter.n_eval,
        seconds=watch.meter.seconds,
        history=tuple(watch.history),
        notes=notes,
        state=state,
    )


def _answer(
    problem: Problem, X0: FloatArray, watch: Watch, status: Status
) -> tuple[_Answer, Status]:
    """The rounded and refined point of a method over OB+, or of a rival."""
    if watch.state is not None and watch.state.Y is not None:
        problem = problem.warm(watch.state.Y)
    with reused_memory():
        X, status = _best_feasible(problem, X0, watch, status)
    value, gradient = problem.value_and_gradient(X)
    labels, weights = kernels.largest_entries(X)
    residual = stationarity(X, gradient)
    if status is Status.CONVERGED and _is_far(problem, X, gradient, residual):
        status = Status.LINE_SEARCH_FAILED  # feasible, but only the penalty has brought it here
    return _Answer(labels, weights, value, residual, problem.second_block(X)), status


def _is_far(problem: Problem, X: FloatArray, gradient: FloatArray, residual: float) -> bool:
    """Whether the residual is no small share of the gradients of f, here and at a random point.

    Here alone would not do: where f is zero at its best, its gradient is rounding there.
    """
    if not residual > _FAR * float(np.linalg.norm(gradient)):
        return False
    n, k = X.shape
    elsewhere = random_oblique_plus(n, k, np.random.default_rng(0)).astype(X.dtype)
    return residual > _FAR * float(np.linalg.norm(problem.value_and_gradient(elsewhere)[1]))


def _answer_in_groups(problem: Any, X0: FloatArray | Centres, watch: Watch) -> _Answer:
    """A point that is a label and a weight a row, refined already: no n x k matrix."""
    state, A, k = watch.state, problem.A, problem.shape[1]
    if isinstance(state, SwapState):
        labels, weights = watch.method.entries(problem, state)  # type: ignore[attr-defined]
    else:  # ended before there was a state
        assert isinstance(X0, Centres)
        labels, scores, _ = assign_rows(A, X0.vectors)
        V, squares = problem.group_directions(labels, scores, ROUGH)
        weights = column_entries(A, labels, V, squares)
    labels = support_labels(A, labels, weights)
    W = group_sums(A, labels, weights, k)
    value = problem.total - float(np.vdot(W, W))
    residual = stationarity_of_groups(A, labels, weights, W)
    if isinstance(A, RowBlocks):
        labels, weights = A.as_array(labels, np.int64), A.as_array(weights, A.dtype)
    return _Answer(labels, weights, value, residual, np.ascontiguousarray(W.T, dtype=A.dtype))


def _best_feasible(
    problem: Problem, X0: FloatArray, watch: Watch, status: Status
) -> tuple[FloatArray, Status]:
    """The refined last iterate, or X^feas where that is better; time and keyboard still count."""
    state = watch.state
    rounded = _round(X0 if state is None else state.X)
    start = getattr(state, "X_feas", None)
    start = keep_largest(X0) if start is None else start
    timed = Metered(problem, watch.meter)
    try:
        X = _descend(timed, rounded, watch.method)
        if _rank(timed, start) < _rank(timed, X):
            X = _descend(timed, start, watch.method)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except OutOfTimeError:
        status = Status.TIME_LIMIT
    else:
        return X, status
    return (start if _rank(problem, start) < _rank(problem, rounded) else rounded), status


def _descend(problem: Problem, X: FloatArray, method: OuterMethod) -> FloatArray:
    """Refined on the support of X, or polished, where the method asks for that; never worse."""
    polish = getattr(method, "polish", None)
    if polish is None:
        return refine(problem, X)
    return np.asarray(run(problem, polish, polish.init(problem, X), polish.stop())[0].X)


def _rank(problem: Problem, X: FloatArray) -> float:
    """f(X), with NaN as the worst."""
    value = problem.value(X)
    return np.inf if np.isnan(value) else value


def _round(X: FloatArray) -> FloatArray:
    """Procedure 1; the nearest point of S+ where that would leave a column without a row."""
    labels, entries = kernels.largest_entries(X)
    if cover_columns(labels, X.shape[1]):
        return assemble(labels, entries, X.shape[1])
    return project_stiefel_plus(X, max_passes=_ROUNDING_PASSES).X.astype(X.dtype, copy=False)
