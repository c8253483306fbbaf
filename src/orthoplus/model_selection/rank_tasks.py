"""The independent fits behind a selection of the rank, in processes and with a file to resume."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from orthoplus.data import DataMatrix
from orthoplus.model_selection.column_halves import fit_column_halves
from orthoplus.model_selection.rank_file import Arrays, load_tasks, save_tasks
from orthoplus.model_selection.rank_work import FULL, Work
from orthoplus.model_selection.row_halves import fit_row_halves
from orthoplus.run.checkpoint import check_writable
from orthoplus.run.fingerprint import data_fingerprint
from orthoplus.run.processes import count_jobs, run_all


class RankProgress(NamedTuple):
    """Progress of `select_rank`: the number of finished fits, and their total."""

    n_done: int
    n_total: int


class Report:
    """Count the fits and call the callback."""

    def __init__(self, work: Work, callback: Callable[[RankProgress], object] | None) -> None:
        self.n_done, self.n_total = 0, sum(work.n_fits(task) for task in work.tasks)
        self.callback = callback

    def add(self, n_fits: int) -> None:
        """Add finished fits and report the progress."""
        self.n_done += n_fits
        if self.callback is not None and n_fits > 0:
            self.callback(RankProgress(self.n_done, self.n_total))


def _silent(n_fits: int) -> None:
    """Ignore progress, as in another process."""


def run_tasks(
    A: DataMatrix,
    work: Work,
    n_jobs: int | None,
    resume: str | os.PathLike[str] | None,
    report: Report,
) -> dict[str, Arrays]:
    """Return the arrays of each task, reusing those in the file."""
    is_here = count_jobs(n_jobs) == 1
    key = {} if resume is None else _key(A, work)
    done = {} if resume is None else load_tasks(resume, key)
    report.add(sum(work.n_fits(name) for name in done))
    left = [name for name in work.tasks if name not in done]
    if resume is not None and left:
        check_writable(resume, "resume")
    calls = ((A, work, name, report.add if is_here else _silent) for name in left)
    for name, arrays in run_all(_run_task, calls, n_jobs, is_ordered=False):
        done[name] = arrays
        if not is_here:
            report.add(work.n_fits(name))
        if resume is not None:
            save_tasks(resume, key, done)
    return done


def _key(A: DataMatrix, work: Work) -> dict[str, Any]:
    """Return what a file must match to be resumed."""
    from orthoplus import __version__

    return dataclasses.asdict(work) | {"version": __version__, "data": data_fingerprint(A)}


def _run_task(
    A: DataMatrix, work: Work, name: str, report: Callable[[int], None]
) -> tuple[str, Arrays]:
    """Return the name of a task with its arrays, because tasks finish in any order."""
    fit_halves = fit_row_halves if work.split == "rows" else fit_column_halves
    return name, (_fit_all if name == FULL else fit_halves)(A, work, name, report)


def _fit_all(A: DataMatrix, work: Work, task: str, report: Callable[[int], None]) -> Arrays:
    points = []
    for point in work.fit(A, work.rng(task)):
        points.append(point)
        report(1)
    return {
        "unexplained": np.array([point.unexplained for point in points]),
        "labels": np.array([point.labels for point in points], dtype=np.int32),
    }
