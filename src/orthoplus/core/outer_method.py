"""Interface between `solve` and a method for S+, with defaults for all but the algorithm."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from orthoplus.core.checks import describe, draw_seed
from orthoplus.core.errors import InputTypeError
from orthoplus.core.method import State, check_methods
from orthoplus.core.point import SupportPoint
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import Carry, FloatArray

_NEEDED = ("init", "step", "stop")
_NEEDED_OF_STATE = ("X", "value", "n_iter", "violation", "Y")
_OPTIONAL = ("state_type", "ends_with_search", "polish")


class OuterState(State, Protocol):
    """Attributes that `solve` reads from the state of a method for S+."""

    @property
    def violation(self) -> float:
        """Return how far the iterate is from S+, see `orthoplus.geometry.violation`."""

    @property
    def Y(self) -> FloatArray | None:
        """Return the second block, or None if the problem has one block."""


class OuterMethod(Protocol):
    """Protocol of EP4Orth+ and the baselines: the last iterate is rounded, refined and returned.

    `OuterMethodBase` has defaults for everything else that `solve` uses.
    """

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> Any:
        """Return the first state at X, which need not be feasible."""

    def step(self, problem: Problem, state: Any) -> Any:
        """Return the state after one outer iteration; the given state is not modified."""

    def stop(self) -> Callable[[Any], Status]:
        """Return the stopping rule, a function from a state to a `Status`."""


class Diagnostics(NamedTuple):
    """Fields of a state that the history records; see `orthoplus.core.result.HistoryRow`.

    Examples
    --------
    >>> Diagnostics(n_inner=3)
    Diagnostics(sigma=nan, n_inner=3, is_stationary=None, is_descent=None)
    """

    sigma: float = np.nan
    n_inner: int = 1
    is_stationary: bool | None = None
    is_descent: bool | None = None


@dataclasses.dataclass(frozen=True)
class RestStop:
    """Stop if a flag of the state says that no step improves it, or at the iteration limit.

    Examples
    --------
    >>> import orthoplus as op
    >>> op.methods.Polish(max_iter=7).stop()
    RestStop(flag='is_fixed', max_iter=7)
    """

    flag: str
    max_iter: int

    def __call__(self, state: Any) -> Status:
        """Return CONVERGED if the flag is set, MAX_ITER at the limit, else RUNNING."""
        if getattr(state, self.flag):
            return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


class Answer(NamedTuple):
    """A feasible point with the diagnostics that its method computed.

    Attributes
    ----------
    point : SupportPoint
        The point; its arrays have the type of the data, such as Dask arrays for Dask data.
    Y : ndarray or None
        The second block.
    value : float
        Objective of the problem that the method ran on.
    stationarity : float
        The residual of the first-order conditions (2.6); NaN if it was not computed.
    gradient_size : float
        Norm of the gradient, the scale for ``stationarity``; infinite if it was not computed.
    is_row_optimal : bool or None
        As in `orthoplus.core.result.Result`.
    """

    point: SupportPoint
    Y: FloatArray | None
    value: float
    stationarity: float = np.nan
    gradient_size: float = np.inf
    is_row_optimal: bool | None = None


class OuterMethodBase(ABC):
    """Base class of methods for S+: implement ``init``, ``step`` and ``stop``.

    Everything else that `solve` uses has a default.

    Attributes
    ----------
    state_type : type
        The type of its states; the argument ``resume`` of `solve` must be of this type.
    ends_with_search : bool
        Whether a search over supports may follow, see `orthoplus.run.presets.search_after`.
    polish : Polish or None
        The local search that runs after rounding in place of the refinement.

    Examples
    --------
    >>> import orthoplus as op
    >>> method = op.EP4Orth()
    >>> isinstance(method, OuterMethodBase), method.ends_with_search, method.has_own_starts
    (True, True, False)
    """

    state_type: type[Any] = object
    ends_with_search: bool = True
    polish: Any = None

    @abstractmethod
    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> Any:
        """Return the first state at X, a point of OB+."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> Any:
        """Return the state after one iteration; the given state is not modified."""

    @abstractmethod
    def stop(self) -> Callable[[Any], Status]:
        """Return the stopping rule, a function that maps a state to a `Status`."""

    def diagnostics(self, state: Any) -> Diagnostics:
        """Return the fields of this state that the history records."""
        return Diagnostics()

    def feasible_point(self, state: Any) -> FloatArray | None:
        """Return the safeguard X^feas in S+, which the answer must not be worse than, or None."""
        return None

    def is_row_optimal(self, state: Any) -> bool | None:
        """Return True if no move of a single row lowers f at the state, or None if unknown."""
        return None

    def answer(self, problem: Problem, state: Any, start: Any) -> "Answer | None":
        """Return the answer at the last state, or None to round, refine and search from its X.

        ``state`` is None if the run ended at ``start``, before the first state.
        """
        return None

    def shape_of(self, state: Any, problem: Problem) -> tuple[int, int]:
        """Return the shape of X in this state."""
        return state.X.shape[0], state.X.shape[1]

    def own_start(self, problem: Problem, rng: np.random.Generator) -> Any:
        """Return the start of the method, or None to use the start of the problem."""
        return None

    def check_start(self, problem: Problem, start: Any) -> None:
        """Raise if the method cannot start from an ``X0`` that is not a matrix."""
        raise InputTypeError(
            f"`X0` is a {type(start).__name__}, which {type(self).__name__} cannot start from: "
            f"pass a matrix of shape {problem.shape}."
        )

    @property
    def has_own_starts(self) -> bool:
        """Return whether one run has several starts, by the options ``n_init`` and ``seed``."""
        return False

    def reseeded(self, rng: np.random.Generator) -> Self:
        """Return a copy with a seed drawn from rng; a deterministic method returns itself."""
        return self


class SeededMethod(OuterMethodBase):
    """Mixin for a dataclass with the option ``seed``: each start of `solve` gets its own seed."""

    seed: int

    def reseeded(self, rng: np.random.Generator) -> Self:
        """Return a copy whose option ``seed`` is drawn from ``rng``."""
        return with_seed(self, rng)


def with_seed(method: Any, rng: np.random.Generator) -> Any:
    """Return a copy of a dataclass with its field ``seed`` drawn from rng."""
    return dataclasses.replace(method, seed=draw_seed(rng))


@dataclasses.dataclass(frozen=True)
class _PlainMethod(OuterMethodBase):
    """Wrap a method that does not derive from `OuterMethodBase`, to add the defaults.

    An attribute of the method or of its states replaces the default of the same name.
    """

    method: Any
    state_type: type[Any] = object
    ends_with_search: bool = True
    polish: Any = None

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> Any:
        return self.method.init(problem, X)

    def step(self, problem: Problem, state: Any) -> Any:
        return self.method.step(problem, state)

    def stop(self) -> Callable[[Any], Status]:
        return self.method.stop()

    def diagnostics(self, state: Any) -> Diagnostics:
        if hasattr(self.method, "diagnostics"):
            return self.method.diagnostics(state)
        names = [name for name in Diagnostics._fields if hasattr(state, name)]
        return Diagnostics(**{name: getattr(state, name) for name in names})

    def feasible_point(self, state: Any) -> FloatArray | None:
        return getattr(state, "X_feas", None)

    def is_row_optimal(self, state: Any) -> bool | None:
        return getattr(state, "is_row_optimal", None)

    def reseeded(self, rng: np.random.Generator) -> Self:
        if "seed" not in getattr(self.method, "__dataclass_fields__", ()):
            return self
        return dataclasses.replace(self, method=with_seed(self.method, rng))


def as_outer_method(method: object) -> OuterMethodBase:
    """Return the method if it derives from `OuterMethodBase`, else wrap it with the defaults.

    Raises
    ------
    TypeError
        If ``init``, ``step`` or ``stop`` is missing, or if it is a solver over OB+.

    Examples
    --------
    >>> as_outer_method("ep4orth")
    Traceback (most recent call last):
    orthoplus.InputTypeError: `method` must be an object such as EP4Orth(): 'ep4orth' has no ...
    """
    if isinstance(method, OuterMethodBase):
        return method
    check_methods(method, "method", "an object such as EP4Orth()", _NEEDED)
    # Only solvers over OB+ have `carry`: this one was meant as the inner solver.
    if callable(getattr(method, "carry", None)):
        raise InputTypeError(
            f"`method` must be an object such as EP4Orth(); it is {describe(method)}. Pass a "
            f"solver over OB+ as its inner solver: EP4Orth(inner=ProjectedGradient())."
        )
    known = {name: getattr(method, name) for name in _OPTIONAL if hasattr(method, name)}
    return _PlainMethod(method, **known)


def name_of(method: OuterMethodBase) -> str:
    """Return the class name of the method, without its wrapper, for messages."""
    return type(method.method if isinstance(method, _PlainMethod) else method).__name__


def check_state(method: OuterMethodBase, state: Any) -> None:
    """Raise unless the state has the attributes of `OuterState`, and name a missing one."""
    # Look at the class first: reading a property such as X may compute an n x k matrix.
    missing = [name for name in _NEEDED_OF_STATE if not hasattr(type(state), name)]
    missing = [name for name in missing if not hasattr(state, name)]
    if missing:
        raise InputTypeError(
            f"The state of {name_of(method)} has no `{missing[0]}`: `solve` needs "
            f"{', '.join(f'`{name}`' for name in _NEEDED_OF_STATE)}. `violation` is the distance "
            f"from S+, and `Y` is None for a problem without a second block."
        )
