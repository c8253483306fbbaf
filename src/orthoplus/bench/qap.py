"""Quadratic assignment on QAPLIB, beside both methods of SciPy."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from orthoplus.assignment import quadratic_assignment
from orthoplus.bench.measure import timed
from orthoplus.bench.table import Column, Picture, Row, Session, Table
from orthoplus.datasets import load_arrays
from orthoplus.protocols import FloatArray

STARTS, QUICK_STARTS, QUICK_SIZE = 10, 3, 16
OURS, RIVALS = "orthoplus", ("SciPy faq", "SciPy 2opt")

Solver = Callable[[FloatArray, FloatArray, int, int], float]


def _ours(method: str, **options: Any) -> Solver:
    def run(A: FloatArray, B: FloatArray, n_starts: int, seed: int) -> float:
        asked = options | {"n_init": n_starts, "rng": seed}
        return float(quadratic_assignment(A, B, method, asked).fun)

    return run


def _scipy(method: str, **options: Any) -> Solver:
    from scipy.optimize import quadratic_assignment as scipy_assignment

    def run(A: FloatArray, B: FloatArray, n_starts: int, seed: int) -> float:
        rng = np.random.default_rng(seed)
        values = [
            scipy_assignment(A, B, method, options | {"rng": rng}).fun for _ in range(n_starts)
        ]
        return float(min(values))

    return run


def run(session: Session) -> Iterator[Row | Picture]:
    """A case for each instance, small ones first."""
    chosen: dict[str, Solver] = {
        OURS: _ours("ep4orth"),
        "without search": _ours("ep4orth", search_steps=0),
        "random starts": _ours("exchange"),
        "no search": _ours("exchange", search_steps=0),
        "SciPy faq": _scipy("faq", P0="randomized"),
        "SciPy 2opt": _scipy("2opt"),
    }
    data = load_arrays("qaplib", session.folder)
    n_starts = QUICK_STARTS if session.quick else STARTS
    rng = np.random.default_rng(0)
    flows, distances = rng.integers(10, size=(2, 12, 12)).astype(float)
    for solver in chosen.values():
        solver(flows, distances, 2, session.seed)  # compile
    for i in np.argsort(data["sizes"], kind="stable"):
        name, size, best = str(data["names"][i]), int(data["sizes"][i]), float(data["values"][i])
        if session.quick and size > QUICK_SIZE:
            continue
        A, B = data[f"{name}_A"].astype(float), data[f"{name}_B"].astype(float)
        for method, solver in chosen.items():
            found = timed(lambda s=solver, A=A, B=B: s(A, B, n_starts, session.seed))  # type: ignore[misc]
            gap = 100.0 * (found.value - best) / (best or 1.0)
            yield Row(
                f"{name}, n = {size}",
                method,
                {"value": found.value, "best": best, "gap": gap, "cpu": found.cpu},
            )


def judge(rows: Sequence[Row]) -> list[str]:
    """Median gaps, instances solved, seconds."""
    lines, medians, totals = [], {}, {}
    for method in dict.fromkeys(row.method for row in rows):
        own = [row.figures for row in rows if row.method == method]
        gaps = np.array([float(f["gap"] or 0.0) for f in own])
        totals[method] = sum(float(f["cpu"] or 0.0) for f in own)
        medians[method] = float(np.median(gaps))
        lines.append(
            f"{method}: median gap {medians[method]:.3f} %, mean {gaps.mean():.3f} %, at the best "
            f"known value {int((gaps <= 0).sum())} of {len(gaps)}, {totals[method]:.1f} CPU s."
        )
    if not lines:
        return []
    smallest = all(medians[OURS] <= medians[rival] for rival in RIVALS)
    lines.append(
        f"Our median gap is {'' if smallest else 'not '}the smallest; our seconds are "
        f"{totals[OURS] / totals['SciPy faq']:.2f} of those of faq."
    )
    return lines


TABLE = Table(
    name="qap",
    title="Quadratic assignment on QAPLIB",
    about=f"The best of {STARTS} starts of each method; the paper has no table of it. `without "
    "search` rounds the penalty method's points, `random starts` searches from permutations at "
    "random, `no search` only exchanges pairs.",
    columns=(
        Column("value", "value", ".0f", "least"),
        Column("best", "best known", ".0f"),
        Column("gap", "gap %", ".2f", "least"),
        Column("cpu", "CPU s", ".2f", "least"),
    ),
    run=run,
    judge=judge,
    quick_about=f"instances up to n = {QUICK_SIZE}, {QUICK_STARTS} starts",
)
