"""From options to a factorisation: the one place where the commands call the library's solver."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.cli.display import Display, Goal, waiting, watching
from orthoplus.core.errors import InputError
from orthoplus.core.method import OuterMethod
from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.groups import best_column
from orthoplus.estimators.factorize import choose_method, factorize, with_bracket
from orthoplus.problems import ONMF
from orthoplus.run.checkpoint import load_state


@dataclass(frozen=True)
class RunOptions:
    """How a factorisation runs, as the user gave it."""

    method: str
    seed: int
    n_init: int | None
    max_iter: int | None
    tol: float | None
    time_limit: float | None
    checkpoint: Path | None
    resume: Path | None

    def __post_init__(self) -> None:
        many = self.n_init is not None and self.n_init > 1 and self.method != "auto"
        if many and (self.checkpoint or self.resume):
            raise InputError(
                f"`--n-init {self.n_init}` cannot go with `--checkpoint` or `--resume`: a "
                f"checkpoint holds one run. Leave out `--n-init`, or run the seeds one by one."
            )
        if self.checkpoint is not None and not self.checkpoint.absolute().parent.is_dir():
            raise InputError(f"`--checkpoint {self.checkpoint}`: its folder is not there.")
        if self.resume is not None and not self.resume.is_file():
            raise InputError(f"`--resume {self.resume}`: there is no such file.")

    def watch(self, display: Display) -> dict[str, Any]:
        """The options of `solve` that look on: callback, time limit, checkpoint, resume."""
        return {
            "callback": display,
            "time_limit": self.time_limit,
            "checkpoint": self.checkpoint,
            "resume": None if self.resume is None else load_state(self.resume),
        }


@dataclass(frozen=True)
class Fit:
    """A factorisation, every row assigned, and the method that made it."""

    result: Result
    labels: IntArray
    weights: FloatArray
    method: OuterMethod


def goal_of(problem: ONMF, method: OuterMethod, title: str, *, silent: bool) -> Goal:
    """What the display shows the way to; the bound costs a truncated SVD."""
    with waiting("Computing the bound", silent=silent):
        bound = problem.lower_bound()
    return Goal(
        title=title,
        feasibility_tol=getattr(method, "feasibility_tol", 0.0),
        max_iter=getattr(method, "max_iter", 1),
        bound=bound,
        total=problem.total or 1.0,
        progress=getattr(method, "progress", None),
    )


def fit(problem: ONMF, options: RunOptions, title: str, *, silent: bool) -> Fit:
    """Run it with a display; a row of zeros goes to the first cluster with weight 0."""
    method = choose_method(problem, options.method, max_iter=options.max_iter, tol=options.tol)
    goal = goal_of(problem, method, title, silent=silent)
    with watching(goal, silent=silent) as display:
        result = factorize(
            problem,
            method,
            n_init=options.n_init,
            rng=np.random.default_rng(options.seed),
            **options.watch(display),
        )
    result = with_bracket(problem, result, goal.bound)
    return Fit(result, *_assign_all(problem, result), method)


def _assign_all(problem: ONMF, result: Result) -> tuple[IntArray, FloatArray]:
    """Labels without -1: a row that X leaves out goes where it fits best."""
    labels, weights = result.labels.copy(), np.where(result.labels >= 0, result.weights, 0.0)
    left = np.flatnonzero(labels < 0)
    if left.size:
        Y = np.asarray(result.Y)
        norms = np.linalg.norm(Y, axis=0)
        fits = problem.A.sample_rows(left).matmul(Y / np.where(norms > 0, norms, 1.0))
        labels[left] = best_column(fits)
    return labels, weights
