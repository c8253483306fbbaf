"""The runs of one call of `solve`: several starts, and a method that competes with the result."""

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from orthoplus.core.outer_method import OuterMethodBase, OuterState
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.methods.search.support_search import SupportSearch
from orthoplus.run.fingerprint import Fingerprint
from orthoplus.run.finish import ENDED_FROM_OUTSIDE, Ending, finish, report
from orthoplus.run.monitor import Budget, Callback, CountedProblem, RunMonitor


@dataclass(frozen=True)
class Followers:
    """What follows each run: the callback, and the file and interval of checkpoints."""

    callback: Callback | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: float = 0.0


@dataclass
class Attempts:
    """Run a problem several times within one budget and keep the best result.

    ``working`` is the equivalent problem that the methods solve, and ``least`` its smallest value.
    """

    problem: Problem
    working: Problem
    budget: Budget
    followers: Followers
    notes: tuple[str, ...]
    best: Result | None = None
    least: float = np.inf
    failure: Exception | None = None
    is_over: bool = False

    def add(
        self,
        method: OuterMethodBase,
        start: Any,
        search: SupportSearch | None,
        *,
        state: OuterState | None = None,
        mark: Fingerprint | None = None,
    ) -> None:
        """Run from a start or a saved state; a run that ends from outside is the last one."""
        watch = self.followers
        monitor = RunMonitor(
            method, self.budget, watch.callback, watch.checkpoint, watch.checkpoint_every, mark
        )
        ending, self.failure = self._end(monitor, start, search, state)
        if self.best is None or ending.answer.value < self.least:
            self.best = report(self.problem, ending, monitor, notes=self.notes)
            self.least = ending.answer.value
        if ending.status in ENDED_FROM_OUTSIDE:
            self.best = dataclasses.replace(self.best, status=ending.status)
            self.is_over = True

    def better_start(self, method: OuterMethodBase) -> Any:
        """Return the point of another method if it is better than the best result, else None.

        A result so low that only single rows can be misplaced is not challenged.
        """
        if self.is_over or self.working.is_clear(self.least):
            return None
        monitor = RunMonitor(method, self.budget, None, None)
        start = self.working.start(np.random.default_rng(0))
        ending, _ = self._end(monitor, start, None, None)
        if ending.status in ENDED_FROM_OUTSIDE and self.best is not None:
            self.best = dataclasses.replace(self.best, status=ending.status)
            self.is_over = True
        return ending.answer.point.dense() if ending.answer.value < self.least else None

    def _end(
        self,
        monitor: RunMonitor,
        start: Any,
        search: SupportSearch | None,
        state: OuterState | None,
    ) -> tuple[Ending, Exception | None]:
        counted = CountedProblem(self.working, self.budget)
        status, failure = monitor.follow(counted, start, state)
        return finish(self.working, start, monitor, status, search=search), failure
