"""A matrix of the size of a brain parcellation: seconds, peak memory, and OPNMF's projected time.

Each run has a process of its own, because the peak of a process never falls:
``python -m orthoplus.bench.speed_large default 200000 300 20 0 60`` prints one line of JSON.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from orthoplus.bench.measure import peak_bytes, resident_bytes, timed
from orthoplus.bench.table import Column, Picture, Row, Session, Table, Task, figure_of
from orthoplus.core.types import FloatArray

SIZE, QUICK_SIZE = (200_000, 300, 20), (20_000, 300, 20)
NOISE = 0.3
MOST_MEMORY = 2.5
_BLOCK = 4096
# OPNMF: iterations whose cost is measured, and rows on which its number of iterations is counted.
_TIMED_STEPS, _SAMPLE = 3, 2000


def make_data(n: int, r: int, k: int, rng: np.random.Generator) -> FloatArray:
    """k groups of rows, each multiples of one row, with noise; filled in blocks, no copy made."""
    centres = rng.random((k, r))
    A = np.empty((n, r))
    for start in range(0, n, _BLOCK):
        block = A[start : start + _BLOCK]
        groups = rng.integers(k, size=len(block))
        block[:] = rng.uniform(0.5, 1.5, size=(len(block), 1)) * centres[groups]
        block += NOISE * rng.random(block.shape)
    return A


def measure_default(A: FloatArray, k: int, seed: int, limit: float) -> dict[str, float]:
    """The default to its end."""
    from orthoplus.bench.onmf_methods import explained_share, run_default

    found = timed(lambda: run_default(A, k, seed, np.inf))
    peak = peak_bytes()
    return {
        "cpu": found.cpu,
        "wall": found.wall,
        "peak": peak,
        "share": explained_share(A, k, found.value.X),
    }


def measure_opnmf(A: FloatArray, k: int, seed: int, limit: float) -> dict[str, float]:
    """OPNMF's seconds an iteration on A, times its iterations on some rows of A."""
    from orthoplus.core.method import iterate
    from orthoplus.core.status import Status
    from orthoplus.methods.baselines import OPNMF
    from orthoplus.problems import ONMF

    method, rng = OPNMF(), np.random.default_rng(seed)
    problem = ONMF(A, k)
    state = method.init(problem, problem.start(rng))
    steps = timed(lambda: _advance(method, problem, state))
    peak = peak_bytes()
    small = ONMF(A[np.sort(rng.choice(len(A), min(_SAMPLE, len(A)), replace=False))], k)
    stop, begin = method.stop(), time.process_time()
    for current in iterate(small, method, method.init(small, small.start(rng))):
        if stop(current) is not Status.RUNNING or time.process_time() - begin > limit:
            break
    each = steps.cpu / _TIMED_STEPS
    return {
        "step": each,
        "steps": current.n_iter,
        "is_cut": float(stop(current) is Status.RUNNING),
        "cpu": each * current.n_iter,
        "wall": steps.wall / _TIMED_STEPS * current.n_iter,
        "peak": peak,
    }


def _advance(method: Any, problem: Any, state: Any) -> Any:
    for _ in range(_TIMED_STEPS):
        state = method.step(problem, state)
    return state


MEASURES: dict[str, Callable[[FloatArray, int, int, float], dict[str, float]]] = {
    "default": measure_default,
    "OPNMF": measure_opnmf,
}


def main(arguments: Sequence[str]) -> None:
    """One measurement: method, n, r, k, seed, and seconds for counting OPNMF's iterations."""
    method, n, r, k, seed, limit = arguments[0], *map(int, arguments[1:5]), float(arguments[5])
    # Compile and import before memory is looked at.
    MEASURES[method](make_data(500, 20, 3, np.random.default_rng(0)), 3, 0, 0.1)
    before = resident_bytes()
    A = make_data(n, r, k, np.random.default_rng(seed))
    figures = MEASURES[method](A, k, seed, limit)
    figures["memory"] = (figures.pop("peak") - before) / A.nbytes
    sys.stdout.write(json.dumps(figures) + "\n")


def tasks(session: Session) -> Iterator[Task | Picture]:
    """Both methods on the same matrix, each in a process of its own."""
    n, r, k = QUICK_SIZE if session.quick else SIZE
    case = f"{n} x {r}, k = {k}"
    for method in MEASURES:
        words = [method, n, r, k, session.seed, session.rival_seconds]
        yield Task(case, (method,), partial(_rows, case, method, [str(word) for word in words]))


def _rows(case: str, method: str, words: Sequence[str]) -> list[Row]:
    done = subprocess.run(
        [sys.executable, "-m", "orthoplus.bench.speed_large", *words],
        capture_output=True,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(lines[-1])
    figures = json.loads(done.stdout)
    note = f"projected: seconds an iteration times its iterations on {_SAMPLE} of the rows"
    if figures.pop("is_cut", 0.0):
        note += f", which had not ended after {words[-1]} s: at least that"
    return [Row(case, method, figures, note=note if method == "OPNMF" else "")]


def judge(rows: Sequence[Row]) -> list[str]:
    """Seconds beside OPNMF's, and memory."""
    case = rows[0].case if rows else ""
    ours, theirs = (figure_of(rows, case, method, "cpu") for method in MEASURES)
    memory = figure_of(rows, case, "default", "memory")
    if ours is None or theirs is None or memory is None:
        return []
    return [
        f"The default takes {ours:.1f} s, OPNMF would take {theirs:.0f} s ({theirs / ours:.0f} "
        f"times as long); peak memory is {memory:.2f} times the data, "
        f"{'below' if memory < MOST_MEMORY else 'above'} {MOST_MEMORY}."
    ]


TABLE = Table(
    name="speed-large",
    title="A large dense matrix",
    about="Groups of rows with noise, float64; each method in a process of its own.",
    columns=(
        Column("cpu", "CPU s", ".1f", "least"),
        Column("wall", "wall s", ".1f"),
        Column("step", "s an iteration", ".3f"),
        Column("steps", "iterations", ".0f"),
        Column("memory", "memory", ".2f", "", "peak over the size of the data, the data included"),
        Column("share", "share", ".5f"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="a tenth of the rows",
)

if __name__ == "__main__":
    main(sys.argv[1:])
