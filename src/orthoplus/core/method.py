"""Protocols of methods and states, and the iteration loop with its stopping rules.

This module covers methods over OB+, which `EP4Orth` uses as inner solvers;
`orthoplus.core.outer_method` defines what `solve` expects of a method for S+.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from orthoplus.core.checks import check_choice, check_count, check_range, describe
from orthoplus.core.errors import InputTypeError
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import Carry, FloatArray


class State(Protocol):
    """Attributes of every state; each method adds what its next step needs."""

    @property
    def X(self) -> FloatArray:
        """Return the iterate, of shape (n, k)."""

    @property
    def value(self) -> float:
        """Return the objective at the iterate."""

    @property
    def n_iter(self) -> int:
        """Return the number of iterations so far."""


StateT = TypeVar("StateT", bound=State)


class Method(Protocol[StateT]):
    """Protocol of a method: options as fields, and two functions without side effects."""

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> StateT:
        """Return the first state at X; ``carry`` comes from a run on a nearby problem."""
        ...

    def step(self, problem: Problem, state: StateT) -> StateT:
        """Return the state after one iteration; the given state is not modified."""
        ...


def iterate(problem: Problem, method: Method[StateT], state: StateT) -> Iterator[StateT]:
    """Yield this state and all later ones, without end; start with ``method.init(problem, X)``.

    A state is an immutable snapshot: you can stop at any time, keep any state, and continue from it
    later. The loop adds no cost to that of the steps.

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
    """Iterate until the stopping rule returns a status other than RUNNING.

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
    """Attributes that the stopping rule reads from a state of a method over OB+."""

    @property
    def step_length(self) -> float:
        """Return the Frobenius norm of the last step."""

    @property
    def stationarity(self) -> float:
        """Return the residual ||min(X, grad h)|| of (4.1)."""

    @property
    def is_stalled(self) -> bool:
        """Return whether the line search found no decrease."""


@dataclass(frozen=True, slots=True)
class ObliqueStop:
    """Stop over OB+ if ``||min(X, grad h)|| <= tol``, (4.1), or if a step is at most tol long.

    Parameters
    ----------
    tol : float
        Tolerance of the criterion.
    criterion : {"stationarity", "step"}
        Quantity that is compared with ``tol``. The theory of the paper uses the first, its
        experiments use the second.
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
        """Return the status, RUNNING while no rule applies."""
        if state.is_stalled:
            return Status.LINE_SEARCH_FAILED
        if state.n_iter >= self.min_iter:
            measure = state.stationarity if self.criterion == "stationarity" else state.step_length
            if measure <= self.tol:
                return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


class Known(NamedTuple):
    """Quantities already computed at a point, so that they are not computed again.

    Attributes
    ----------
    value : float
        f(X), without a penalty.
    gradient : ndarray of shape (n, k) or None
        The Euclidean gradient of f at X; None if it was not computed.
    energy : float
        ||XV||_F^2.

    Examples
    --------
    >>> import numpy as np
    >>> import orthoplus as op
    >>> h = op.penalty.Penalized(op.problems.TraceMin(np.eye(3), 2), op.penalty.PowerPenalty(5.0))
    >>> h.known(7.0, None, energy=2.0)  # h = 7 is f + 5 (||XV||^2 - 1)
    Known(value=2.0, gradient=None, energy=2.0)
    """

    value: float
    gradient: FloatArray | None
    energy: float


@dataclass(frozen=True, slots=True)
class WarmStart:
    """Optional input of a run over OB+; a solver uses what it can and ignores the rest.

    Attributes
    ----------
    carry : Carry
        Values passed on by the last run of this solver; empty before the first run.
    known : Known or None
        f at the start, if it was evaluated there before.

    Examples
    --------
    >>> import numpy as np
    >>> import orthoplus as op
    >>> problem, method = op.problems.Projection(np.eye(3, 2)), op.ProjectedGradient()
    >>> warm = WarmStart({"alpha": 0.25})  # the step length of the last run
    >>> method.start(problem, np.eye(3, 2), warm).alpha
    0.25
    """

    carry: Carry = field(default_factory=dict)
    known: Known | None = None


class ObliqueMethod(Protocol):
    """Protocol of a method over OB+, with its own stopping rule and values to pass on.

    Examples
    --------
    >>> import orthoplus as op
    >>> class Half:
    ...     def init(self, problem, X, carry=None): ...
    ...     def step(self, problem, state): ...
    >>> op.EP4Orth(inner=Half())
    Traceback (most recent call last):
    orthoplus.InputTypeError: `inner` must be a solver over OB+ such as ProjectedGradient(): ...
    """

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> Any:
        """Return the first state at X, a point of OB+."""

    def step(self, problem: Problem, state: Any) -> Any:
        """Return the state after one iteration; the given state is not modified."""

    def stop(self, tol: float | None = None) -> Callable[[Any], Status]:
        """Return the stopping rule, with ``tol`` in place of the option if given."""

    def carry(self, state: Any) -> Carry:
        """Return the values to pass on to the run with the next penalty parameter."""


class ObliqueMethodBase(ABC):
    """Base class of inner solvers, with defaults for what `EP4Orth` needs beyond `ObliqueMethod`.

    Examples
    --------
    >>> import orthoplus as op
    >>> isinstance(op.ProjectedGradient(), ObliqueMethodBase)
    True
    >>> op.ProjectedGradient().moves_second_block, op.PALM().moves_second_block
    (False, True)
    """

    @abstractmethod
    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> Any:
        """Return the first state at X, a point of OB+."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> Any:
        """Return the state after one iteration; the given state is not modified."""

    @abstractmethod
    def stop(self, tol: float | None = None) -> Callable[[Any], Status]:
        """Return the stopping rule, with ``tol`` in place of the option if given."""

    def carry(self, state: Any) -> Carry:
        """Return the values to pass on to the run with the next penalty parameter."""
        return {}

    def start(self, problem: Problem, X: FloatArray, warm: WarmStart) -> Any:
        """Return the first state at X; a solver that can use ``warm.known`` overrides this."""
        return self.init(problem, X, warm.carry)

    def known(self, problem: Problem, state: Any) -> Known | None:
        """Return f, its gradient and ||XV||^2 at the X of the state; None if not available."""
        return None

    def second_block(self, state: Any) -> FloatArray | None:
        """Return the second block of the state; None if the solver moves X alone."""
        return None

    @property
    def moves_second_block(self) -> bool:
        """Return whether the solver updates a second block itself.

        For other solvers the second block is fixed at its optimum for the current X.
        """
        return False

    def unmet_conditions(self) -> tuple[str, ...]:
        """Return how a run may violate (4.1) or (4.2), for `orthoplus.methods.theory`."""
        return ("does not say that it meets (4.1) and (4.2)",)


@dataclass(frozen=True)
class _PlainSolver(ObliqueMethodBase):
    """Wrap an inner solver that does not derive from `ObliqueMethodBase`, to add the defaults."""

    method: Any

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> Any:
        return self.method.init(problem, X, carry)

    def step(self, problem: Problem, state: Any) -> Any:
        return self.method.step(problem, state)

    def stop(self, tol: float | None = None) -> Callable[[Any], Status]:
        return self.method.stop(tol)

    def carry(self, state: Any) -> Carry:
        return self.method.carry(state)


def as_oblique_method(method: ObliqueMethod) -> ObliqueMethodBase:
    """Return the solver if it derives from `ObliqueMethodBase`, else wrap it with the defaults."""
    return method if isinstance(method, ObliqueMethodBase) else _PlainSolver(method)


def check_methods(value: object, name: str, kind: str, needed: tuple[str, ...]) -> None:
    """Raise unless an option is an object with these methods, and name the first missing one.

    Examples
    --------
    >>> check_methods(3, "inner", "a solver over OB+ such as ProjectedGradient()", ("init", "step"))
    Traceback (most recent call last):
    orthoplus.InputTypeError: `inner` must be a solver over OB+ such as ProjectedGradient(): 3 ...
    """
    missing = [member for member in needed if not callable(getattr(value, member, None))]
    if isinstance(value, type):
        raise InputTypeError(
            f"`{name}` must be {kind}: {value.__name__} is a class. Pass an instance, for "
            f"example {value.__name__}()."
        )
    if missing:
        raise InputTypeError(
            f"`{name}` must be {kind}: {describe(value)} has no method `{missing[0]}`. It needs "
            f"{', '.join(f'`{member}`' for member in needed)}."
        )


class StopsOverOblique(ObliqueMethodBase):
    """Mixin that builds the stopping rule of a method from these four options."""

    criterion: str
    tol: float
    min_iter: int
    max_iter: int

    def check_stop(self) -> None:
        """Raise if one of the four options is out of range."""
        check_range(self.tol, "tol", low=0.0)
        check_choice(self.criterion, "criterion", ("stationarity", "step"))
        check_count(self.min_iter, "min_iter")
        check_count(self.max_iter, "max_iter", low=self.min_iter)

    def stop(self, tol: float | None = None) -> ObliqueStop:
        """Return the stopping rule, with ``tol`` in place of the option if given."""
        tol = self.tol if tol is None else tol
        return ObliqueStop(tol, self.criterion, self.min_iter, self.max_iter)

    def unmet_conditions(self) -> tuple[str, ...]:
        """Return that (4.1) may fail, unless the stationarity is what the rule measures."""
        if self.criterion == "stationarity":
            return ()
        return (f'stops by criterion="{self.criterion}" and not by (4.1)',)


class ObliqueRun(NamedTuple):
    """Outcome of a run over OB+.

    Attributes
    ----------
    state : ObliqueState
        The last state.
    carry : Carry
        Values that the method passes on to the next run.
    status : Status
        CONVERGED if and only if the method's own tolerance was met.
    start_value : float
        Objective h at the start, in the precision of the method.

    Examples
    --------
    >>> import numpy as np
    >>> import orthoplus as op
    >>> problem = op.problems.Projection(np.array([[3.0], [4.0]]))
    >>> found = minimize_oblique(problem, op.ProjectedGradient(), np.array([[1.0], [0.0]]))
    >>> found.status.name, found.state.value < found.start_value
    ('CONVERGED', True)
    """

    state: Any
    carry: Carry
    status: Status
    start_value: float


def minimize_oblique(
    problem: Problem,
    method: ObliqueMethod,
    X: FloatArray,
    *,
    tol: float | None = None,
    warm: WarmStart | None = None,
) -> ObliqueRun:
    r"""Run a method over OB+ from X until its tolerance or its iteration limit is reached.

    .. math:: \min_X h(X) \quad \text{s.t.} \quad X \ge 0,\ \|x_j\| = 1, \qquad (5.1)

    Parameters
    ----------
    problem : Problem
        The objective h; for EP4Orth+ this is the penalized objective.
    method : ProjectedGradient, RegularizedNewton or any other `ObliqueMethod`
        The solver to run.
    X : ndarray of shape (n, k)
        Starting point in OB+; not modified.
    tol : float, optional
        Tolerance that replaces the one of the method.
    warm : WarmStart, optional
        Values from an earlier run (the regularization, the last step length), and f at X if it
        has been computed.

    Examples
    --------
    >>> import numpy as np
    >>> import orthoplus as op
    >>> problem = op.problems.Projection(np.array([[3.0, -1.0], [4.0, 2.0], [-1.0, 2.0]]))
    >>> h = op.penalty.without_penalty(problem)
    >>> state, *_ = minimize_oblique(h, op.ProjectedGradient(), np.full((3, 2), 3**-0.5), tol=1e-9)
    >>> state.X.round(4)
    array([[0.6   , 0.    ],
           [0.8   , 0.7071],
           [0.    , 0.7071]])
    """
    solver = as_oblique_method(method)
    state, stop = solver.start(problem, X, warm or WarmStart()), solver.stop(tol)
    start_value = state.value
    # `run` would keep the first state, and its arrays, alive for the whole loop.
    while (status := stop(state)) is Status.RUNNING:
        state = solver.step(problem, state)
    return ObliqueRun(state, solver.carry(state), status, start_value)
