"""Support scikit-learn callbacks (`sklearn.callback`); a no-op before scikit-learn 1.9."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from orthoplus.core.outer_method import OuterState
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.status import Status
from orthoplus.run.api import solve
from orthoplus.run.processes import count_jobs

try:
    from sklearn import callback as _callback
except ImportError:  # before 1.9
    _callback = None

_Method = TypeVar("_Method", bound=Callable[..., Any])


_BASES: Any = (BaseEstimator,)
if _callback is not None:
    _BASES = (_callback.CallbackSupportMixin, BaseEstimator)


class WatchedEstimator(*_BASES):  # type: ignore[misc]
    """Base class of estimators that support ``set_callbacks``, if scikit-learn has it."""


def with_callbacks(method: _Method) -> _Method:
    """Wrap a fit method so that the callbacks of the estimator are torn down after it."""
    return method if _callback is None else _callback.with_callbacks(method)


class FitTasks:
    """Report the tasks of a fit to callbacks: the fit, and within it one per outer iteration.

    The last task covers the end of the run: rounding, refinement and labels. While the hooks of a
    task run, ``estimator.state_`` is the state of the run, with ``n_iter`` and ``value``.
    ``fitted_estimator`` is available only at the end of the fit.
    """

    def __init__(self, estimator: Any, X: Any, sample_weight: Any = None) -> None:
        has_any = hasattr(estimator, "_skl_callbacks") or hasattr(estimator, "_parent_callback_ctx")
        self.estimator = estimator
        self.is_idle: bool = _callback is None or not has_any
        if self.is_idle:
            return
        metadata = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.given = {"estimator": estimator, "X": X, "metadata": metadata}
        self.fit = estimator._init_callback_context(max_subtasks=None)
        self.fit.call_on_fit_task_begin(**self.given)
        self._begin()

    def watch(
        self, watch: Mapping[str, Any] | None = None, n_jobs: int | None = None
    ) -> dict[str, Any]:
        """Return the monitoring options of `solve`, including the callback of these tasks.

        Runs in separate processes are not reported.
        """
        given = dict(watch or {})
        # scikit-learn callbacks cannot be called from other processes.
        if self.is_idle or count_jobs(n_jobs) > 1:
            return given
        other = given.get("callback")

        def follow(state: OuterState) -> bool:
            is_over = self._follow(state)
            return bool(other is not None and other(state)) or is_over

        return given | {"callback": follow}

    def solve(
        self, problem: Problem, rng: np.random.Generator | int, *, with_bound: bool
    ) -> Result:
        """Solve the problem with the options of the estimator, and report the iterations."""
        own = self.estimator
        return solve(
            problem,
            method=own.method,
            n_init=own.n_init,
            rng=rng,
            with_bound=with_bound,
            **self.watch(),
        )

    def end(self) -> None:
        """Report the end of the run and of the fit."""
        if self.is_idle:
            return
        self.task.call_on_fit_task_end(**self.given)
        self.fit.call_on_fit_task_end(**self.given, reconstruction_attributes={})

    def _begin(self) -> None:
        self.task = self.fit.subcontext(task_name="iteration")
        self.task.call_on_fit_task_begin(**self.given)

    def _follow(self, state: OuterState) -> bool:
        """Report the end of an iteration and the start of the next; return whether to stop."""
        self.estimator.state_ = state
        try:
            is_over = bool(self.task.call_on_fit_task_end(**self.given))
        finally:
            del self.estimator.state_
        self._begin()
        return is_over


def warn_unless_converged(result: Result, stacklevel: int = 4) -> None:
    """Warn the caller of ``fit`` of a run that failed; a run ended by a callback has not."""
    if not result.success and result.status is not Status.CALLBACK:
        warnings.warn(result.message, ConvergenceWarning, stacklevel=stacklevel)
