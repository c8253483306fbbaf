"""Prove optimality on planted data, for growing noise and size."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.certify.api import certify
from orthoplus.certify.certificate import Certificate
from orthoplus.core.types import FloatArray
from orthoplus.datasets import planted_onmf
from orthoplus.problems import ONMF
from orthoplus.run.api import solve

SIZES, QUICK_SIZES = (1_000, 10_000, 100_000, 1_000_000), (1_000, 5_000)
NOISES, QUICK_NOISES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0), (0.1, 0.5)
STORAGES = ("memory", "disk", "Dask")
N_FEATURES, N_GROUPS = 50, 10
PAPER_SIZE, QUICK_PAPER = (1000, 3000, 10), (100, 200, 4)
PAPER_NOISES, QUICK_PAPER_NOISES = (0.0, 0.01, 0.1, 1.0), (0.1,)
SECONDS, QUICK_SECONDS = 60.0, 2.0
PROVEN = 1e-9
# Share of rows between two groups, noise, and the gap at which time is measured.
SHARE_BETWEEN, NOISE_BETWEEN, GOAL = 0.1, 0.3, 0.03


def planted(
    n: int, noise: float, rng: np.random.Generator, share_between: float = 0.0
) -> FloatArray:
    """Draw groups of random profiles, weights in [0.5, 1], noise as a share of the signal's norm.

    A share of the rows may be sums of two profiles, the second with a weight in [0, 1].
    """
    profiles = rng.random((N_GROUPS, N_FEATURES))
    A = profiles[rng.integers(N_GROUPS, size=n)] * rng.uniform(0.5, 1.0, (n, 1))
    mixed = int(share_between * n)
    A[:mixed] += rng.random((mixed, 1)) * profiles[rng.integers(N_GROUPS, size=mixed)]
    E = np.abs(rng.standard_normal(A.shape))
    A += E * (noise * np.linalg.norm(A) / np.linalg.norm(E))
    return A


def measure(A: Any, k: int, seconds: float) -> Figures:
    """Fit, certify, and return both times and the gap."""
    problem = ONMF(A, k)
    fitted = timed(lambda: solve(problem, with_bound=False))
    found = timed(lambda: certify(problem, fitted.value, time_limit=seconds))
    return {
        "fit": fitted.wall,
        "proof": found.wall,
        "gap": found.value.gap,
        "agreement": found.value.agreement,
        "goal": _seconds_to(found.value, GOAL),
        "note": found.value.kind,
    }


def _seconds_to(certificate: Certificate, goal: float) -> float | None:
    """Return the seconds until the gap was this small, None if it never was."""
    reached = (
        step.seconds for step in certificate.history if step.value - step.bound <= goal * step.bound
    )
    return next(reached, None)


def measure_between(n: int, session: Session) -> Figures:
    """Draw rows between groups, for which no closed form proves optimality."""
    A = planted(n, NOISE_BETWEEN, session.rng(n), SHARE_BETWEEN)
    return measure(A, N_GROUPS, session.within(SECONDS, QUICK_SECONDS))


def measure_stored(storage: str, n: int, session: Session) -> Figures:
    """Prove the same rows in memory, on disk, or in chunks of Dask."""
    A, seconds = planted(n, 0.1, session.rng(n)), session.within(SECONDS, QUICK_SECONDS)
    if storage == "memory":
        return measure(A, N_GROUPS, seconds)
    if storage == "Dask":
        import dask.array as da

        return measure(da.from_array(A, chunks=(max(n // 8, 1), N_FEATURES)), N_GROUPS, seconds)
    from orthoplus.data import as_data

    with TemporaryDirectory() as folder:
        np.save(Path(folder) / "A.npy", A)
        del A
        mapped = np.load(Path(folder) / "A.npy", mmap_mode="r")
        return measure(as_data(mapped, memory_limit="64MB"), N_GROUPS, seconds)


def tasks(session: Session) -> Items:
    """Yield the sizes in every storage, the noises, then the paper's synthetic data."""
    sizes, seconds = session.pick(SIZES, QUICK_SIZES), session.within(SECONDS, QUICK_SECONDS)
    for n in sizes:
        for storage in STORAGES if n == sizes[-1] else ("memory",):
            case = f"noise 0.1, {n} x {N_FEATURES}"
            yield one_row(case, storage, measure_stored, storage, n, session)
    for n in sizes:
        case = f"{SHARE_BETWEEN:.0%} of {n} rows between groups"
        yield one_row(case, "memory", measure_between, n, session)
    for noise in session.pick(NOISES, QUICK_NOISES):
        A = planted(sizes[0], noise, session.rng(sizes[0]))
        yield one_row(f"{sizes[0]} rows, noise {noise:g}", "memory", measure, A, N_GROUPS, seconds)
    n, r, k = session.pick(PAPER_SIZE, QUICK_PAPER)
    for noise in session.pick(PAPER_NOISES, QUICK_PAPER_NOISES):
        A = planted_onmf(n, r, k, noise, session.rng(n)).A
        yield one_row(f"table 2, xi = {noise:g}", "memory", measure, A, k, seconds)


def judge(rows: Rows) -> list[str]:
    """Report how many results are proven optimal."""
    gaps = rows.numbers("gap")
    return [
        f"Proven optimal (gap at most {PROVEN:g}): {sum(g <= PROVEN for g in gaps)} of {len(gaps)}."
    ]


TABLE = Table(
    about=(
        f"{N_GROUPS} groups of {N_FEATURES} features, weights in [0.5, 1], noise as a share of the "
        f"signal's norm; and the data of the paper's table 2, with rows of pure noise."
    ),
    columns=(
        Column("gap", "gap", ".1e", "least", "of the squared residual"),
        Column("agreement", "sure", ".1%", "", "rows on which every better partition must agree"),
        Column("goal", f"s to {GOAL:.0%}", ".2f", "", f"seconds until the gap is {GOAL:.0%}"),
        Column("fit", "fit s", ".2f"),
        Column("proof", "proof s", ".2f"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"up to {QUICK_SIZES[-1]} rows, two seconds for each proof",
)
