"""Measure proven gaps on real data, and the seconds to reach 5, 2 and 1 percent."""

from typing import Any

from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.certify.api import certify
from orthoplus.certify.certificate import Certificate
from orthoplus.core.bounds import relative_gap
from orthoplus.datasets import load_labelled, load_scene
from orthoplus.datasets.real import IMAGE_SETS, SCENES, TEXT_SETS
from orthoplus.problems import ONMF
from orthoplus.run.api import solve

SECONDS, QUICK_SECONDS = 120.0, 3.0
QUICK_SETS = ("digits",)
MARKS = (0.05, 0.02, 0.01)


def load(name: str, session: Session) -> tuple[Any, int]:
    """Return the matrix of a set and its number of clusters."""
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits().data, 10
    if name in SCENES:
        scene = load_scene(name, session.folder)
        return scene.A, len(scene.endmembers)
    data = load_labelled(name, session.folder)
    return data.A, data.n_classes


def measure(name: str, session: Session) -> Figures:
    """Fit and certify, and measure how the gap decreases."""
    A, k = load(name, session)
    problem = ONMF(A, k)
    answer = solve(problem)
    found = certify(problem, answer, time_limit=session.within(SECONDS, QUICK_SECONDS))
    return {f"below {mark:g}": _seconds_to(found, mark) for mark in MARKS} | {
        "size": f"{problem.shape[0]} x {problem.shape[1]}",
        "explained": 1.0 - found.value / problem.total,
        "possible": 1.0 - found.bound / problem.total,
        "quick": answer.gap,
        "gap": found.gap,
        "seconds": found.seconds,
        "note": found.kind + (", a better partition found" if found.improved else ""),
    }  # fmt: skip


def _seconds_to(found: Certificate, mark: float) -> float | None:
    """Return the time at which the gap fell below the mark."""
    for step in found.history:
        gap = relative_gap(step.value, step.bound)
        if gap is not None and gap <= mark:
            return step.seconds
    return None


def tasks(session: Session) -> Items:
    """Yield a case for each set."""
    for name in session.pick(("digits", *IMAGE_SETS, *TEXT_SETS, *SCENES), QUICK_SETS):
        yield one_row(name, "certify", measure, name, session)


def judge(rows: Rows) -> list[str]:
    """Report how many gaps are small."""
    gaps = [row.number("gap", 1.0) for row in rows]
    small = sum(gap <= MARKS[0] for gap in gaps)
    return [f"Gap of at most {MARKS[0]:.0%} proven on {small} of {len(gaps)} sets."]


TABLE = Table(
    about=f"The default result, and a proof of at most {SECONDS:g} s, or of `--limit`.",
    columns=(
        Column("size", "n x k", ""),
        Column("explained", "reached", ".2%", "", "share of the sum of squares"),
        Column("possible", "at most", ".2%", "", "what no partition exceeds"),
        Column("quick", "quick", ".1%", "", "gap by the singular values alone"),
        Column("gap", "gap", ".2%", "", "of the squared residual"),
        Column("seconds", "s", ".0f"),
        *(
            Column(f"below {mark:g}", f"{mark:.0%}", ".0f", "", f"seconds to a gap of {mark:.0%}")
            for mark in MARKS
        ),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"digits alone, {QUICK_SECONDS:g} s",
)
