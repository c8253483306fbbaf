"""What `solve` asks of a method for S+, with a default for everything but the algorithm."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from orthoplus.core.checks import describe
from orthoplus.core.method import check_methods
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import Carry, FloatArray

_MAX_SEED = 2**31
_NEEDED = ("init", "step", "stop")
_NEEDED_OF_STATE = ("X", "value", "n_iter", "violation", "Y")
_OPTIONAL = ("state_type", "takes_centres", "ends_with_search", "polish")


class Diagnostics(NamedTuple):
    """What a state tells the history of a run; see `orthoplus.core.result.HistoryRow`.

    Examples
    --------
    >>> Diagnostics(n_inner=3)
    Diagnostics(sigma=nan, n_inner=3, is_stationary=None, is_descent=None)
    """

    sigma: float = np.nan
    n_inner: int = 1
    is_stationary: bool | None = None
    is_descent: bool | None = None


class OuterMethodBase(ABC):
    """Defaults of all that `solve` asks of a method, beyond ``init``, ``step`` and ``stop``.

    Attributes
    ----------
    state_type : type
        The type of its states; what ``resume`` gets must be one.
    takes_centres : bool
        Whether it can start from `orthoplus.data.groups.Centres`.
    ends_with_search : bool
        Whether a search over supports may follow, see `orthoplus.run.presets.search_after`.
    polish : Polish or None
        What follows rounding instead of refinement.

    Examples
    --------
    >>> import orthoplus as op
    >>> method = op.EP4Orth()
    >>> isinstance(method, OuterMethodBase), method.takes_centres, method.ends_with_search
    (True, False, True)
    """

    state_type: type[Any] = object
    takes_centres: bool = False
    ends_with_search: bool = True
    polish: Any = None

    @abstractmethod
    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> Any:
        """Return the first state at X, a point of OB+."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> Any:
        """Return the state after one iteration; the given one is left untouched."""

    @abstractmethod
    def stop(self) -> Callable[[Any], Status]:
        """Return the stopping rule: it looks at a state and returns a `Status`."""

    def diagnostics(self, state: Any) -> Diagnostics:
        """Return what the history of the run records of this state."""
        return Diagnostics()

    def feasible_point(self, state: Any) -> FloatArray | None:
        """Return a point of S+ that the answer must not be worse than, X^feas; None if none."""
        return None

    def is_row_optimal(self, state: Any) -> bool | None:
        """Return True if no move of a single row lowers f at the state; None if not known."""
        return None

    def entries(self, problem: Problem, state: Any) -> tuple[Any, Any]:
        """Return labels and weights of a state that is stored as such, without a matrix X."""
        raise NotImplementedError(f"The states of {type(self).__name__} have a matrix X.")

    def reseeded(self, rng: np.random.Generator) -> Self:
        """Return the method with a seed drawn from rng; itself if it draws no random numbers."""
        return self


class SeededMethod(OuterMethodBase):
    """A dataclass with the option ``seed``: every start of `solve` gets another one."""

    seed: int

    def reseeded(self, rng: np.random.Generator) -> Self:
        return with_seed(self, rng)


def with_seed(method: Any, rng: np.random.Generator) -> Any:
    """Return a dataclass with its field ``seed`` drawn from rng."""
    return dataclasses.replace(method, seed=int(rng.integers(_MAX_SEED)))


@dataclasses.dataclass(frozen=True)
class _PlainMethod(OuterMethodBase):
    """A method that does not derive from `OuterMethodBase`, with its defaults.

    What the method or its states have under the names of the defaults is used.
    """

    method: Any
    state_type: type[Any] = object
    takes_centres: bool = False
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

    def entries(self, problem: Problem, state: Any) -> tuple[Any, Any]:
        return self.method.entries(problem, state)

    def reseeded(self, rng: np.random.Generator) -> Self:
        if "seed" not in getattr(self.method, "__dataclass_fields__", ()):
            return self
        return dataclasses.replace(self, method=with_seed(self.method, rng))


def as_outer_method(method: object) -> OuterMethodBase:
    """Return the method itself if it derives from `OuterMethodBase`, else with its defaults.

    Raises
    ------
    TypeError
        If ``init``, ``step`` or ``stop`` is missing, or if it is a solver over OB+.

    Examples
    --------
    >>> as_outer_method("ep4orth")
    Traceback (most recent call last):
    TypeError: `method` must be an object such as EP4Orth(): 'ep4orth' has no method `init`. ...
    """
    if isinstance(method, OuterMethodBase):
        return method
    check_methods(method, "method", "an object such as EP4Orth()", _NEEDED)
    if callable(getattr(method, "carry", None)):
        raise TypeError(
            f"`method` must be an object such as EP4Orth(), it is {describe(method)}. A solver "
            f"over OB+ goes inside one: EP4Orth(inner=ProjectedGradient())."
        )
    known = {name: getattr(method, name) for name in _OPTIONAL if hasattr(method, name)}
    return _PlainMethod(method, **known)


def name_of(method: OuterMethodBase) -> str:
    """Return the name of the method's own class, for messages."""
    return type(method.method if isinstance(method, _PlainMethod) else method).__name__


def check_state(method: OuterMethodBase, state: Any) -> None:
    """Raise unless the state has what `OuterState` asks for, naming what is missing."""
    missing = [name for name in _NEEDED_OF_STATE if not hasattr(type(state), name)]
    missing = [name for name in missing if not hasattr(state, name)]
    if missing:
        raise TypeError(
            f"The state of {name_of(method)} has no `{missing[0]}`: `solve` needs "
            f"{', '.join(f'`{name}`' for name in _NEEDED_OF_STATE)}. `violation` is the distance "
            f"from S+, and `Y` is None for a problem without a second block."
        )
