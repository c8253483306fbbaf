"""Fit an estimator with the options of a command, and show the progress."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from orthoplus.cli.display import Display, Goal, watching
from orthoplus.core.errors import InputError
from orthoplus.core.outer_method import OuterMethod
from orthoplus.estimators import OrthogonalNMF
from orthoplus.estimators.factorize import choose_method
from orthoplus.problems import KLONMF, ONMF
from orthoplus.run.checkpoint import check_writable


@dataclass(frozen=True)
class RunOptions:
    """The options that control a run, as given by the user."""

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
                f"`--n-init {self.n_init}` cannot be combined with `--checkpoint` or `--resume`: a "
                f"checkpoint holds one run. Omit `--n-init`, or run the seeds one by one."
            )
        if self.tol is not None and self.method == "auto":
            raise InputError(
                "`--tol` requires `--method ep4orth`; the default method stops when the objective "
                "no longer improves. Omit `--tol`, or add `--method ep4orth`."
            )
        if self.checkpoint is not None and not self.checkpoint.absolute().parent.is_dir():
            raise InputError(f"`--checkpoint {self.checkpoint}`: its folder does not exist.")
        if self.checkpoint is not None:
            check_writable(self.checkpoint, "checkpoint")
        if self.resume is not None and not self.resume.is_file():
            raise InputError(f"`--resume {self.resume}`: the file does not exist.")
        if self.resume is not None and not is_zipfile(self.resume):
            raise InputError(
                f"`--resume {self.resume}` is not a checkpoint; pass a file that `--checkpoint` "
                f"has written."
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "RunOptions":
        """Select the options of a run among all options of a command."""
        return cls(**{field.name: given[field.name] for field in fields(cls)})

    def watch(self, display: Display) -> dict[str, Any]:
        """Return the arguments of `solve`: callback, time limit, checkpoint, resume."""
        return {
            "callback": display,
            "time_limit": self.time_limit,
            "checkpoint": self.checkpoint,
            "resume": self.resume,
        }


def choose(problem: ONMF | KLONMF, options: RunOptions) -> OuterMethod:
    """Return the method with its options."""
    return choose_method(problem, options.method, max_iter=options.max_iter, tol=options.tol)


def goal_of(problem: ONMF | KLONMF, method: OuterMethod, title: str) -> Goal:
    """Return the goal that the display shows the progress toward."""
    return Goal(
        title=title,
        feasibility_tol=getattr(method, "feasibility_tol", 0.0),
        max_iter=getattr(method, "max_iter", 1),
        total=problem.total or 1.0,
        progress=getattr(method, "progress", None),
    )


def fit(
    problem: ONMF | KLONMF,
    values: Any,
    options: RunOptions,
    title: str,
    *,
    silent: bool,
    **model: Any,
) -> OrthogonalNMF:
    """Fit the estimator and show the progress; ``problem`` is the problem that it will solve."""
    method = choose(problem, options)
    estimator = OrthogonalNMF(
        problem.k,
        method=method,
        n_init=options.n_init,
        random_state=options.seed,
        with_bound=True,
        **model,
    )
    with watching(goal_of(problem, method, title), silent=silent) as display:
        return estimator.fit_watched(values, **options.watch(display))
