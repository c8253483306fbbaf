"""Quadratic assignment on QAPLIB, beside both methods of SciPy."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from orthoplus.assignment import quadratic_assignment
from orthoplus.bench.measure import OutOfProcessorError, processor_limit, timed
from orthoplus.bench.table import Column, Picture, Row, Session, Table, Task
from orthoplus.core.types import FloatArray
from orthoplus.datasets import load_arrays
from orthoplus.methods import AssignmentSearch

STARTS, QUICK_STARTS, QUICK_SIZE = 10, 3, 16
# The former default and random starts alone, with the exchanges and starts of their time: as many
# seconds as the default takes now.
FORMER_STEPS, RANDOM_STARTS = 2000, 20
OURS, RIVALS = "orthoplus", ("SciPy faq", "SciPy 2opt")


class Found(NamedTuple):
    """The best value of some starts, infinite where none came to its end, and their number."""

    value: float
    n_starts: int


Solver = Callable[[FloatArray, FloatArray, Session], Found]


def _starts(session: Session) -> int:
    return QUICK_STARTS if session.quick else STARTS


def _ours(method: str, n_init: int = STARTS, **options: Any) -> Solver:
    def run(A: FloatArray, B: FloatArray, session: Session) -> Found:
        asked = options | {"rng": session.seed}
        asked["n_init"] = QUICK_STARTS if session.quick else n_init
        # A run that meets the bound makes no more starts: it has made all it needs.
        return Found(float(quadratic_assignment(A, B, method, asked).fun), _starts(session))

    return run


def _scipy(method: str, **options: Any) -> Solver:
    """One start after another, as long as the limit of a rival allows."""
    from scipy.optimize import quadratic_assignment as scipy_assignment

    def run(A: FloatArray, B: FloatArray, session: Session) -> Found:
        rng = np.random.default_rng(session.seed)
        values: list[float] = []
        with suppress(OutOfProcessorError), processor_limit(session.rival_seconds):
            while len(values) < _starts(session):
                values.append(float(scipy_assignment(A, B, method, options | {"rng": rng}).fun))
        return Found(min(values, default=np.inf), len(values))

    return run


def tasks(session: Session) -> Iterator[Task | Picture]:
    """A case for each instance, small ones first."""
    solvers: dict[str, Solver] = {
        OURS: _ours("search", AssignmentSearch.n_init),
        "penalty starts": _ours("ep4orth", search_steps=FORMER_STEPS),
        "random starts": _ours("exchange", RANDOM_STARTS, search_steps=FORMER_STEPS),
        "without search": _ours("ep4orth", search_steps=0),
        "no search": _ours("exchange", search_steps=0),
        "SciPy faq": _scipy("faq", P0="randomized"),
        "SciPy 2opt": _scipy("2opt"),
    }
    data = load_arrays("qaplib", session.folder)
    rng = np.random.default_rng(0)
    flows, distances = rng.integers(10, size=(2, 12, 12)).astype(float)
    for solver in solvers.values():
        solver(flows, distances, Session(quick=True))  # compile
    for i in np.argsort(data["sizes"], kind="stable"):
        name, size, best = str(data["names"][i]), int(data["sizes"][i]), float(data["values"][i])
        if session.quick and size > QUICK_SIZE:
            continue
        A, B = data[f"{name}_A"].astype(float), data[f"{name}_B"].astype(float)
        case = f"{name}, n = {size}"
        for method, solver in solvers.items():
            call = partial(solver, A, B, session)
            compute = partial(_rows, case, method, call, best, _starts(session))
            yield Task(case, (method,), compute)


def _rows(case: str, method: str, call: Callable[[], Found], best: float, wanted: int) -> list[Row]:
    found = timed(call)
    value, n_starts = found.value
    figures = {"best": best, "cpu": found.cpu}
    if n_starts:
        figures |= {"value": value, "gap": 100.0 * (value - best) / (best or 1.0)}
    note = "" if n_starts == wanted else f"{n_starts} of {wanted} starts: the limit of seconds"
    return [Row(case, method, figures, note=note)]


def judge(rows: Sequence[Row]) -> list[str]:
    """Median gaps, instances solved, seconds; where a method found nothing its gap is infinite."""
    lines, medians, totals = [], {}, {}
    for method in dict.fromkeys(row.method for row in rows):
        own = [row.figures for row in rows if row.method == method]
        found = [figures.get("gap") for figures in own]
        gaps = np.array([np.inf if gap is None else float(gap) for gap in found])
        totals[method] = sum(float(figures.get("cpu") or 0.0) for figures in own)
        medians[method] = float(np.median(gaps))
        lines.append(
            f"{method}: median gap {medians[method]:.3f} %, mean {_mean(gaps)}, at the best "
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


def _mean(gaps: FloatArray) -> str:
    found = gaps[np.isfinite(gaps)]
    where = "" if len(found) == len(gaps) else f" where a start ended, {len(found)} instances"
    return f"{found.mean():.3f} %{where}" if len(found) else "none"


TABLE = Table(
    name="qap",
    title="Quadratic assignment on QAPLIB",
    about=f"Our default, and the best of {STARTS} starts of the others; the paper has no table of "
    "it. `penalty starts` is the former default, EP4Orth+ before each search of "
    f"{FORMER_STEPS} exchanges; `random starts` the same search from {RANDOM_STARTS} random "
    "permutations; `without search` only exchanges pairs from the penalty method's points, `no "
    "search` from random ones.",
    columns=(
        Column("value", "value", ".0f", "least"),
        Column("best", "best known", ".0f"),
        Column("gap", "gap %", ".2f", "least"),
        Column("cpu", "CPU s", ".2f", "least"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"instances up to n = {QUICK_SIZE}, {QUICK_STARTS} starts",
)
