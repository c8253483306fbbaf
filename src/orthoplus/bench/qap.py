"""Compare quadratic assignment on QAPLIB with SciPy and two methods over the manifold."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import quadratic_assignment as scipy_assignment

from orthoplus.assignment import quadratic_assignment
from orthoplus.bench.measure import OutOfProcessorError, processor_limit, timed
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.core.outer_method import OuterMethod
from orthoplus.core.types import FloatArray
from orthoplus.datasets import load_arrays
from orthoplus.methods.baselines import SEPPG, WenYin
from orthoplus.problems import QAP
from orthoplus.run.api import solve

STARTS, QUICK_STARTS, QUICK_SIZE = 10, 3, 16
# The former default and random starts alone, with their former numbers of exchanges and starts, so
# that they take as long as the current default.
FORMER_STEPS, RANDOM_STARTS = 2000, 20
OURS, OTHERS = "orthoplus", ("SciPy faq", "SciPy 2opt")


class Found(NamedTuple):
    """The best value over several starts, infinite if none finished, and their number."""

    value: float
    n_starts: int


def run_ours(method: str, A: FloatArray, B: FloatArray, session: Session, **options: Any) -> Found:
    """Run our function, which stops early if a start attains the bound."""
    asked = options | {"rng": session.seed} | session.pick({}, {"n_init": QUICK_STARTS})
    found = quadratic_assignment(A, B, method, asked)
    return Found(float(found.fun), session.pick(STARTS, QUICK_STARTS))


def run_scipy(method: str, A: FloatArray, B: FloatArray, session: Session, **options: Any) -> Found:
    """Run SciPy from one start after another within the time limit."""
    rng, values = np.random.default_rng(session.seed), list[float]()
    with suppress(OutOfProcessorError), processor_limit(session.seconds):
        while len(values) < session.pick(STARTS, QUICK_STARTS):
            values.append(float(scipy_assignment(A, B, method, options | {"rng": rng}).fun))
    return Found(min(values, default=np.inf), len(values))


def run_manifold(
    make: Callable[..., OuterMethod], A: FloatArray, B: FloatArray, session: Session
) -> Found:
    """Run a method over the Stiefel manifold from random starts within the time limit.

    Its f(X o X) is f on permutations; the nearest one is the answer, without exchanges.
    """
    problem, values = QAP(A, B), list[float]()
    starts = problem.starts(np.random.default_rng(session.seed))
    with suppress(OutOfProcessorError), processor_limit(session.seconds):
        while len(values) < session.pick(STARTS, QUICK_STARTS):
            method = make(squared=True)
            found = solve(problem, next(starts), method=method, with_bound=False)
            values.append(problem.value_of(found.labels))
    return Found(min(values, default=np.inf), len(values))


SOLVERS: dict[str, Callable[[FloatArray, FloatArray, Session], Found]] = {
    OURS: partial(run_ours, "search"),
    "penalty starts": partial(run_ours, "ep4orth", n_init=STARTS, search_steps=FORMER_STEPS),
    "random starts": partial(run_ours, "exchange", n_init=RANDOM_STARTS, search_steps=FORMER_STEPS),
    "without search": partial(run_ours, "ep4orth", n_init=STARTS, search_steps=0),
    "no search": partial(run_ours, "exchange", n_init=STARTS, search_steps=0),
    "SciPy faq": partial(run_scipy, "faq", P0="randomized"),
    "SciPy 2opt": partial(run_scipy, "2opt"),
    "Wen-Yin": partial(run_manifold, WenYin),
    "SEPPG": partial(run_manifold, SEPPG),
}


def tasks(session: Session) -> Items:
    """Yield a case for each instance, small ones first."""
    data = load_arrays("qaplib", session.folder)
    flows, distances = np.random.default_rng(0).integers(10, size=(2, 12, 12)).astype(float)
    for solver in SOLVERS.values():
        solver(flows, distances, Session(quick=True))  # compile
    for i in np.argsort(data["sizes"], kind="stable"):
        name, size, best = str(data["names"][i]), int(data["sizes"][i]), float(data["values"][i])
        if session.quick and size > QUICK_SIZE:
            continue
        A, B = data[f"{name}_A"].astype(float), data[f"{name}_B"].astype(float)
        for method, solver in SOLVERS.items():
            call = partial(solver, A, B, session)
            wanted = session.pick(STARTS, QUICK_STARTS)
            yield one_row(f"{name}, n = {size}", method, measure, call, best, wanted)


def measure(call: Callable[[], Found], best: float, wanted: int) -> Figures:
    """Return value, gap in percent and seconds; no value if no start finished."""
    found = timed(call)
    value, n_starts = found.value
    figures: dict[str, Any] = {"best": best, "cpu": found.cpu}
    if n_starts:
        figures |= {"value": value, "gap": 100.0 * (value - best) / (best or 1.0)}
    if n_starts < wanted:
        figures["note"] = f"{n_starts} of {wanted} starts finished within the time limit"
    return figures


def judge(rows: Rows) -> list[str]:
    """Report median gaps, solved instances and seconds."""
    lines, medians, totals = [], {}, {}
    for method, own in rows.by_method().items():
        gaps = np.array([row.number("gap", np.inf) for row in own])
        totals[method] = sum(row.number("cpu") for row in own)
        medians[method] = float(np.median(gaps))
        lines.append(
            f"{method}: median gap {medians[method]:.3f} %, mean {_mean(gaps)}, at the best "
            f"known value {int((gaps <= 0).sum())} of {len(gaps)}, {totals[method]:.1f} CPU s."
        )
    if not lines:
        return []
    smallest = all(medians[OURS] <= medians[other] for other in OTHERS)
    lines.append(
        f"Our median gap is {'' if smallest else 'not '}the smallest; our seconds are "
        f"{totals[OURS] / totals['SciPy faq']:.2f} of those of faq."
    )
    return lines


def _mean(gaps: FloatArray) -> str:
    found = gaps[np.isfinite(gaps)]
    where = f" over the {len(found)} instances in which a start finished"
    where = "" if len(found) == len(gaps) else where
    return f"{found.mean():.3f} %{where}" if len(found) else "none"


TABLE = Table(
    about=f"Our default, and the best of {STARTS} starts of the others; the paper has no table of "
    "it. `penalty starts` is the former default, EP4Orth+ before each search of "
    f"{FORMER_STEPS} exchanges; `random starts` the same search from {RANDOM_STARTS} random "
    "permutations; `without search` only exchanges pairs, starting from the points of the "
    "penalty method, `no search` from random ones. Wen-Yin and SEPPG end with the nearest "
    "permutation, without exchanges.",
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
