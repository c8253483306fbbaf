"""Monitoring of a run: evaluations, time, callbacks, checkpoints and Ctrl-C."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from orthoplus.core.errors import InputError, OutOfTimeError
from orthoplus.core.method import iterate
from orthoplus.core.outer_method import OuterMethodBase, OuterState, check_state
from orthoplus.core.problem import Problem
from orthoplus.core.result import HistoryRow
from orthoplus.core.status import Status
from orthoplus.core.trace_form import TraceForm
from orthoplus.core.types import FloatArray, Linear
from orthoplus.linalg.workspace import Workspace
from orthoplus.run.checkpoint import save_state

Callback = Callable[[Any], object]
_LOG = logging.getLogger("orthoplus")


@dataclass
class Budget:
    """Count evaluations and measure the time of a run."""

    time_limit: float = np.inf
    n_eval: int = 0
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Seconds since the run started."""
        return time.perf_counter() - self.started

    def count_evaluation(self) -> None:
        """Count one evaluation; raise if the time limit is exceeded."""
        self.n_eval += 1
        if time.perf_counter() - self.started > self.time_limit:
            raise OutOfTimeError

    def check_time(self) -> None:
        """Raise if the time limit is exceeded."""
        if time.perf_counter() - self.started > self.time_limit:
            raise OutOfTimeError


@dataclass(frozen=True, eq=False)
class CountedProblem(Problem):
    """Wrap a problem and count its evaluations; all members of `Problem` are forwarded.

    Further attributes, such as the data matrix ``A`` of `ONMF`, are forwarded as well, because
    methods for one kind of problem need them.
    """

    problem: Any
    budget: Budget

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Return the shape of the wrapped problem."""
        return self.problem.shape

    @property
    def unwrapped(self) -> Problem:
        """Return the problem whose evaluations are counted."""
        return self.problem.unwrapped

    @cached_property
    def lipschitz(self) -> float | None:
        """Return the Lipschitz constant of the wrapped gradient."""
        return self.problem.lipschitz

    @cached_property
    def value_lipschitz(self) -> float | None:
        """Return the Lipschitz constant of the wrapped objective."""
        return self.problem.value_lipschitz

    @cached_property
    def has_exact_gains(self) -> bool:  # type: ignore[override]
        """Return whether the gains of the wrapped problem are exact."""
        return self.problem.has_exact_gains

    @cached_property
    def is_column_symmetric(self) -> bool:  # type: ignore[override]
        """Return whether the wrapped problem is invariant under column permutations."""
        return self.problem.is_column_symmetric

    def value(self, X: FloatArray) -> float:
        """Count an evaluation, which may end the run, and return f(X)."""
        self.budget.count_evaluation()
        return self.problem.value(X)

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Count an evaluation, which may end the run, and return f and its gradient."""
        self.budget.count_evaluation()
        return self.problem.value_and_gradient(X)

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Check the time and return the wrapped Hessian product."""
        return self.hessian(X)(D)

    def hessian(self, X: FloatArray) -> Linear:
        """Return the wrapped map, which checks the time at each product."""
        own = self.problem.hessian(X)

        def product(D: FloatArray) -> FloatArray:
            self.budget.check_time()
            return own(D)

        return product

    def hessian_factor(self, X: FloatArray) -> FloatArray | None:
        """Return the Hessian factor of the wrapped problem."""
        return self.problem.hessian_factor(X)

    def freeze(self, X: FloatArray) -> Problem:
        """Return the frozen problem with the same budget."""
        frozen = self.problem.freeze(X)
        return self if frozen is self.problem else CountedProblem(frozen, self.budget)

    def second_block(self, X: FloatArray) -> FloatArray | None:
        """Return the second block of the wrapped problem."""
        return self.problem.second_block(X)

    def warm(self, Y: FloatArray) -> Problem:
        """Return the wrapped problem with a new start for Y and the same budget."""
        return CountedProblem(self.problem.warm(Y), self.budget)

    def majorizer(self, X: FloatArray) -> FloatArray | None:
        """Return the majorizer of the wrapped problem."""
        return self.problem.majorizer(X)

    def refine(self, X: FloatArray) -> FloatArray | None:
        """Return the refined point of the wrapped problem."""
        return self.problem.refine(X)

    def move_gains(self, X: FloatArray) -> FloatArray | None:
        """Return the gains of the wrapped problem."""
        return self.problem.move_gains(X)

    def move_gain_bounds(self, X: FloatArray) -> FloatArray | None:
        """Return the bounds on the gains of the wrapped problem."""
        return self.problem.move_gain_bounds(X)

    def is_clear(self, value: float) -> bool:
        """Return the judgment of the wrapped problem."""
        return self.problem.is_clear(value)

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Return a starting point of the wrapped problem."""
        return self.problem.start(rng)

    def starts(self, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Return the starting points of the wrapped problem."""
        return self.problem.starts(rng)

    def lower_bound(self) -> float | None:
        """Return the proven lower bound of the wrapped problem."""
        return self.problem.lower_bound()

    def trace_form(self) -> TraceForm | None:
        """Return the trace form of the wrapped problem."""
        return self.problem.trace_form()

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float | None:
        """Return the rounding margin of the wrapped problem."""
        return self.problem.rounding(dtype)

    def at(self, Y: FloatArray) -> Problem:
        """Return the problem in X of a `TwoBlock` at this Y, also counted."""
        return CountedProblem(self.problem.at(Y), self.budget)

    def __getattr__(self, name: str) -> Any:
        # Only called for names that `Problem` does not have; its members are forwarded above.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.problem, name)


@dataclass
class RunMonitor:
    """Follow a run: record its history, call the callback, save checkpoints, and end it."""

    method: OuterMethodBase
    budget: Budget
    callback: Callback | None
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: float = 0.0
    made_for: Mapping[str, Any] | None = None
    state: OuterState | None = None
    saved: OuterState | None = None
    saved_at: float = -np.inf
    history: list[HistoryRow] = field(default_factory=list)
    workspace: Workspace = field(default_factory=Workspace, repr=False)

    def follow(
        self, problem: Problem, X: Any, state: OuterState | None
    ) -> tuple[Status, Exception | None]:
        """Run to the end from X or a state; return the status and an exception of the callback."""
        with self.workspace.lending():
            try:
                return self._follow(problem, X, state)
            finally:
                self._save(-np.inf)

    def _follow(
        self, problem: Problem, X: Any, state: OuterState | None
    ) -> tuple[Status, Exception | None]:
        stop = self.method.stop()
        try:
            first = self.method.init(problem, X) if state is None else state
            check_state(self.method, first)
            if np.isnan(first.value):
                raise InputError(
                    "The objective is NaN at the starting point. Choose an X0 at which it is "
                    "finite."
                )
            for current in iterate(problem, self.method, first):
                self.state = current
                status = stop(current)
                # The first state is the start: it is neither recorded nor passed to the callback.
                if current is not first:
                    self._record(current)
                    asked, failure = self._call_back(current)
                    if asked:
                        return Status.CALLBACK, failure
                if status is not Status.RUNNING:
                    return status, None
                self.budget.check_time()  # a method may not evaluate f at all
        except OutOfTimeError:
            return Status.TIME_LIMIT, None
        except KeyboardInterrupt:
            return Status.INTERRUPTED, None
        raise AssertionError("iterate has no end")

    def _record(self, state: OuterState) -> None:
        sigma, n_inner, *kept = self.method.diagnostics(state)
        progress = (state.n_iter, sigma, state.violation, state.value, n_inner)
        self.history.append(HistoryRow(*progress, self.budget.seconds, *kept))
        self._save(self.checkpoint_every)

    def _save(self, every: float) -> None:
        """Write the state, unless the last checkpoint is more recent than ``every`` seconds."""
        state = self.state
        if self.checkpoint is None or not self.history or state is self.saved:
            return
        if state is not None and self.budget.seconds - self.saved_at >= every:
            save_state(self.checkpoint, state, self.made_for)
            self.saved, self.saved_at = state, self.budget.seconds
            _LOG.debug("saved iteration %d to %s", state.n_iter, self.checkpoint)

    def _call_back(self, state: OuterState) -> tuple[bool, Exception | None]:
        if self.callback is None:
            return False, None
        try:
            answer = self.callback(state)
            return isinstance(answer, (bool, np.bool_)) and bool(answer), None
        except StopIteration:
            return True, None
        except Exception as error:
            return True, error
