"""The one loop: the states of a method in order, and a rule that looks at one and says stop."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from orthoplus.checks import check_choice, check_count, check_range
from orthoplus.protocols import Carry, FloatArray, Method, Problem, State, StateT
from orthoplus.status import Status


def iterate(problem: Problem, method: Method[StateT], state: StateT) -> Iterator[StateT]:
    """The states from this one on, without end; start with ``method.init(problem, X)``."""
    while True:
        yield state
        state = method.step(problem, state)


def run(
    problem: Problem,
    method: Method[StateT],
    state: StateT,
    stop: Callable[[StateT], Status],
) -> tuple[StateT, Status]:
    """Iterate until the rule says something other than RUNNING."""
    status = stop(state)
    while status is Status.RUNNING:
        state = method.step(problem, state)
        status = stop(state)
    return state, status


class ObliqueState(State, Protocol):
    """What a state of a method over OB+ tells its stopping rule."""

    @property
    def step_length(self) -> float: ...
    @property
    def stationarity(self) -> float: ...
    @property
    def is_stalled(self) -> bool: ...


@dataclass(frozen=True)
class ObliqueStop:
    """Stop over OB+ by ``||min(X, grad h)|| <= tol``, (4.1), or by a step no longer than tol.

    Parameters
    ----------
    tol : float
    criterion : {"stationarity", "step"}
        The paper's theory uses the first, its experiments the second.
    min_iter, max_iter : int
        Bounds on the number of iterations.
    """

    tol: float
    criterion: str
    min_iter: int
    max_iter: int

    def __call__(self, state: ObliqueState) -> Status:
        if state.is_stalled:
            return Status.LINE_SEARCH_FAILED
        if state.n_iter >= self.min_iter:
            measure = state.stationarity if self.criterion == "stationarity" else state.step_length
            if measure <= self.tol:
                return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


class StopsOverOblique:
    """Gives a method with these four options its stopping rule."""

    criterion: str
    tol: float
    min_iter: int
    max_iter: int

    def check_stop(self) -> None:
        """Raise if one of the four is out of range."""
        check_range(self.tol, "tol", low=0.0)
        check_choice(self.criterion, "criterion", ("stationarity", "step"))
        check_count(self.min_iter, "min_iter")
        check_count(self.max_iter, "max_iter", low=self.min_iter)

    def stop(self, tol: float | None = None) -> ObliqueStop:
        """The stopping rule, with another tolerance if given."""
        tol = self.tol if tol is None else tol
        return ObliqueStop(tol, self.criterion, self.min_iter, self.max_iter)


class ObliqueMethod(Protocol):
    """A method over OB+: it has a stopping rule of its own, and hands something on."""

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> Any: ...
    def step(self, problem: Problem, state: Any) -> Any: ...
    def stop(self, tol: float | None = None) -> ObliqueStop: ...
    def carry(self, state: Any) -> Carry: ...


def minimise_oblique(
    problem: Problem,
    method: ObliqueMethod,
    X: FloatArray,
    *,
    tol: float | None = None,
    carry: Carry | None = None,
) -> tuple[ObliqueState, Carry]:
    """Run a method over OB+ from X to its tolerance; the last state, and what it hands on."""
    state, _ = run(problem, method, method.init(problem, X, carry), method.stop(tol))
    return state, method.carry(state)


class OuterState(State, Protocol):
    """What a state of a method for S+ tells the one who follows the run."""

    @property
    def violation(self) -> float: ...
    @property
    def Y(self) -> FloatArray | None: ...


class OuterMethod(Protocol):
    """A method whose last iterate, rounded and refined, is an answer: EP4Orth+ and its rivals."""

    state_type: ClassVar[Any]

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> Any: ...
    def step(self, problem: Problem, state: Any) -> Any: ...
    def stop(self) -> Callable[[Any], Status]: ...
