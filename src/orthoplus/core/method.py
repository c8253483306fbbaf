"""The one loop: the states of a method in order, and a rule that looks at one and says stop."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import Carry, FloatArray


class State(Protocol):
    """What every state has; each method adds what its next step needs."""

    @property
    def X(self) -> FloatArray: ...
    @property
    def value(self) -> float: ...
    @property
    def n_iter(self) -> int: ...


StateT = TypeVar("StateT", bound=State)


class Method(Protocol[StateT]):
    """Options as fields, and two pure methods."""

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> StateT:
        """The first state at X; ``carry`` is what a run on a nearby problem handed over."""
        ...

    def step(self, problem: Problem, state: StateT) -> StateT:
        """One iteration. The given state is left untouched."""
        ...


def iterate(problem: Problem, method: Method[StateT], state: StateT) -> Iterator[StateT]:
    """The states from this one on, without end; start with ``method.init(problem, X)``.

    A state is a frozen snapshot: break off anywhere, keep any of them, and go on from it later. A
    step costs what the method says; the loop adds nothing.

    Examples
    --------
    >>> from itertools import islice
    >>> import numpy as np
    >>> import orthoplus as op
    >>> problem = op.problems.Projection(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]]))
    >>> method = op.EP4Orth()
    >>> start = method.init(problem, np.full((3, 2), 3**-0.5))
    >>> [state.n_iter for state in islice(iterate(problem, method, start), 3)]
    [0, 1, 2]
    """
    while True:
        yield state
        state = method.step(problem, state)


def run(
    problem: Problem,
    method: Method[StateT],
    state: StateT,
    stop: Callable[[StateT], Status],
) -> tuple[StateT, Status]:
    """Iterate until the rule says something other than RUNNING.

    Examples
    --------
    >>> import numpy as np
    >>> import orthoplus as op
    >>> problem = op.problems.Projection(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]]))
    >>> method = op.EP4Orth()
    >>> start = method.init(problem, np.full((3, 2), 3**-0.5))
    >>> state, status = run(problem, method, start, method.stop())
    >>> status.name, state.violation < 1e-8
    ('CONVERGED', True)
    """
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


@dataclass(frozen=True, slots=True)
class ObliqueStop:
    """Stop over OB+ by ``||min(X, grad h)|| <= tol``, (4.1), or by a step no longer than tol.

    Parameters
    ----------
    tol : float
    criterion : {"stationarity", "step"}
        The paper's theory uses the first, its experiments the second.
    min_iter, max_iter : int
        Bounds on the number of iterations.

    Examples
    --------
    >>> import orthoplus as op
    >>> op.ProjectedGradient(max_iter=50).stop(tol=1e-3)
    ObliqueStop(tol=0.001, criterion='stationarity', min_iter=0, max_iter=50)
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


class ObliqueRun(NamedTuple):
    """How a run over OB+ ended.

    Attributes
    ----------
    state : ObliqueState
        The last state.
    carry : Carry
        What the method hands on to the next run.
    status : Status
        CONVERGED if and only if the method's own tolerance was met.
    start_value : float
        h at the start, in the precision of the method.

    Examples
    --------
    >>> import numpy as np
    >>> import orthoplus as op
    >>> problem = op.problems.Projection(np.array([[3.0], [4.0]]))
    >>> found = minimise_oblique(problem, op.ProjectedGradient(), np.array([[1.0], [0.0]]))
    >>> found.status.name, found.state.value < found.start_value
    ('CONVERGED', True)
    """

    state: Any
    carry: Carry
    status: Status
    start_value: float


def minimise_oblique(
    problem: Problem,
    method: ObliqueMethod,
    X: FloatArray,
    *,
    tol: float | None = None,
    carry: Carry | None = None,
) -> ObliqueRun:
    r"""Run a method over OB+ from X to its tolerance, or to its limit: the status says which.

    .. math:: \min_X h(X) \quad \text{s.t.} \quad X \ge 0,\ \|x_j\| = 1, \qquad (5.1)

    Parameters
    ----------
    problem : Problem
        h, for EP4Orth+ the penalised objective.
    method : ProjectedGradient, RegularizedNewton or another over OB+
    X : ndarray of shape (n, k)
        The start, in OB+; not modified.
    tol : float, optional
        Instead of the method's own.
    carry : optional
        What a former run handed on: the regularisation, the last step length.

    Examples
    --------
    >>> import numpy as np
    >>> import orthoplus as op
    >>> problem = op.problems.Projection(np.array([[3.0, -1.0], [4.0, 2.0], [-1.0, 2.0]]))
    >>> h = op.penalty.without_penalty(problem)
    >>> state, *_ = minimise_oblique(h, op.ProjectedGradient(), np.full((3, 2), 3**-0.5), tol=1e-9)
    >>> state.X.round(4)
    array([[0.6   , 0.    ],
           [0.8   , 0.7071],
           [0.    , 0.7071]])
    """
    state, stop = method.init(problem, X, carry), method.stop(tol)
    start_value = state.value
    # Not `run`: the first state, with its arrays, must not outlive the first step.
    while (status := stop(state)) is Status.RUNNING:
        state = method.step(problem, state)
    return ObliqueRun(state, method.carry(state), status, start_value)


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
