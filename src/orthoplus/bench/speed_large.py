"""Measure seconds and peak memory on large dense matrices, each run in a separate process.

A matrix of the size of a brain parcellation, with OPNMF's projected time, and a large projection.
"""

import time
from typing import Any

import numpy as np

from orthoplus.bench.measure import peak_bytes, resident_bytes, timed
from orthoplus.bench.onmf_methods import explained_share, run_default
from orthoplus.bench.processes import in_process
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.core.method import iterate
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray
from orthoplus.methods.baselines import OPNMF
from orthoplus.problems import ONMF
from orthoplus.run.api import project

SIZE, QUICK_SIZE = (200_000, 300, 20), (20_000, 300, 20)
SCORES_SIZE, QUICK_SCORES_SIZE = (1_000_000, 100), (100_000, 100)
NOISE = 0.3
MOST_MEMORY = 2.5
_BLOCK = 4096
# OPNMF: number of iterations to time, and number of rows on which its iterations are counted.
_TIMED_STEPS, _SAMPLE = 3, 2000


def make_data(n: int, r: int, k: int, rng: np.random.Generator) -> FloatArray:
    """Make k groups of rows, each multiples of one row, with noise; in blocks, without a copy."""
    centers = rng.random((k, r))
    A = np.empty((n, r))
    for start in range(0, n, _BLOCK):
        block = A[start : start + _BLOCK]
        groups = rng.integers(k, size=len(block))
        block[:] = rng.uniform(0.5, 1.5, size=(len(block), 1)) * centers[groups]
        block += NOISE * rng.random(block.shape)
    return A


def run_onmf(A: FloatArray, k: int, seed: int, limit: float) -> dict[str, Any]:
    """Run the default until it converges."""
    found = timed(lambda: run_default(A, k, seed, np.inf))
    figures = {"cpu": found.cpu, "wall": found.wall, "peak": peak_bytes()}
    return figures | {"share": explained_share(A, k, found.value.X)}


def run_opnmf(A: FloatArray, k: int, seed: int, limit: float) -> dict[str, Any]:
    """Measure OPNMF's seconds per iteration on A, times its iterations on some rows of A."""
    method, rng, problem = OPNMF(), np.random.default_rng(seed), ONMF(A, k)

    def advance(state: Any) -> None:
        for _ in range(_TIMED_STEPS):
            state = method.step(problem, state)

    state = method.init(problem, problem.start(rng))
    steps, peak = timed(lambda: advance(state)), peak_bytes()
    small = ONMF(A[np.sort(rng.choice(len(A), min(_SAMPLE, len(A)), replace=False))], k)
    stop, begin = method.stop(), time.process_time()
    for current in iterate(small, method, method.init(small, small.start(rng))):
        is_done = stop(current) is not Status.RUNNING
        if is_done or time.process_time() - begin > limit:
            break
    note = f"projected: seconds per iteration times its iterations on {_SAMPLE} of the rows"
    if not is_done:
        note += f"; it had not converged after {limit} s, so this is a lower bound"
    each, count = steps.cpu / _TIMED_STEPS, current.n_iter
    seconds = {"step": each, "cpu": each * count, "wall": steps.wall / _TIMED_STEPS * count}
    return seconds | {"steps": count, "peak": peak, "note": note}


RUNS = {"default": run_onmf, "OPNMF": run_opnmf}


def measure_onmf(method: str, size: tuple[int, int, int], seed: int, limit: float) -> Figures:
    """Run a method on planted groups; memory is the peak divided by the size of the data."""
    k = size[-1]
    # Compile and import before memory is measured.
    RUNS[method](make_data(500, 20, 3, np.random.default_rng(0)), 3, 0, 0.1)
    before = resident_bytes()
    A = make_data(*size, np.random.default_rng(seed))
    figures = RUNS[method](A, k, seed, limit)
    return figures | {"memory": (figures.pop("peak") - before) / A.nbytes}


def measure_projection(n: int, k: int, seed: int, tol: float) -> Figures:
    """Project uniform scores in float32 without planted structure."""
    rng = np.random.default_rng(seed)
    project(rng.random((1600 * k, k), dtype=np.float32), tol=tol)  # compile
    before = resident_bytes()
    C = np.empty((n, k), dtype=np.float32)
    for start in range(0, n, _BLOCK):
        rng.random(dtype=np.float32, out=C[start : start + _BLOCK])
    found = timed(lambda: project(C, tol=tol))
    memory = (peak_bytes() - before) / C.nbytes
    figures = {"cpu": found.cpu, "wall": found.wall, "memory": memory, "gap": found.value.gap}
    return figures | {"steps": found.value.n_iter}


def tasks(session: Session) -> Items:
    """Yield both methods on the same matrix, and the projection to two tolerances."""
    n, r, k = size = session.pick(SIZE, QUICK_SIZE)
    for method in RUNS:
        arguments = (measure_onmf, method, size, session.seed, session.seconds)
        yield one_row(f"{n} x {r}, k = {k}", method, in_process, *arguments)
    n, k = session.pick(SCORES_SIZE, QUICK_SCORES_SIZE)
    for tol in (1e-6, 1e-12):
        words = (measure_projection, n, k, session.seed, tol)
        yield one_row(f"projection, {n} x {k}", f"tol = {tol:g}", in_process, *words)


def judge(rows: Rows) -> list[str]:
    """Compare seconds with OPNMF, and report the memory."""
    lines = []
    for methods in rows.by_case().values():
        if not set(RUNS) <= set(methods):
            continue
        ours, theirs = (methods[name].number("cpu") for name in RUNS)
        memory = methods["default"].number("memory")
        lines.append(
            f"The default takes {ours:.1f} s, OPNMF would take {theirs:.0f} s "
            f"({theirs / ours:.0f} times as long); peak memory is {memory:.2f} times the data, "
            f"{'below' if memory < MOST_MEMORY else 'above'} {MOST_MEMORY}."
        )
    return lines


TABLE = Table(
    about="Groups of rows with noise in float64, and projections of uniform scores in float32; "
    "each run is in a separate process.",
    columns=(
        Column("cpu", "CPU s", ".1f", "least"),
        Column("wall", "wall s", ".1f"),
        Column("step", "s/iter", ".3f"),
        Column("steps", "iterations", ".0f", "", "or passes over the scores"),
        Column(
            "memory",
            "memory",
            ".2f",
            "",
            "peak, including the data, divided by the size of the data",
        ),
        Column("share", "share", ".5f"),
        Column("gap", "gap", ".0e", "", "certified, of the projection"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="a tenth of the rows",
)
