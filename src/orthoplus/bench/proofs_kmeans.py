"""Bound the gap of k-means labels to the optimum: scikit-learn's best of ten, and ours."""

from typing import Any

import numpy as np

from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.certify.api import certify
from orthoplus.core.types import FloatArray
from orthoplus.problems import KMeans
from orthoplus.run.api import solve

SECONDS, QUICK_SECONDS = 60.0, 1.0
RANKS, QUICK_RANKS = range(2, 11), (2, 3)
SETS, QUICK_SETS = ("iris", "wine", "breast_cancer", "digits"), ("iris",)
GOOD, PROVEN = 0.01, 1e-6


def load(name: str, *, is_standardized: bool) -> FloatArray:
    """Return a data set of scikit-learn."""
    from sklearn import datasets

    A: Any = getattr(datasets, f"load_{name}")().data.astype(np.float64)
    if is_standardized:
        spread = A.std(axis=0)
        A = (A - A.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.asarray(A)


def measure(A: FloatArray, k: int, session: Session) -> Figures:
    """Certify scikit-learn's labels, ours, and the best known ones, with the same bound."""
    from sklearn.cluster import KMeans as LloydKMeans

    problem = KMeans(A, k)
    theirs = LloydKMeans(k, n_init=10, random_state=session.seed).fit(A).labels_
    found = certify(problem, theirs, time_limit=session.within(SECONDS, QUICK_SECONDS))
    own = found.judge(solve(problem, with_bound=False).labels)
    best = own.judge(own.labels)
    return {
        "theirs": found.value,
        "ours": own.value,
        "best": best.value,
        "gap": found.gap,
        "own gap": own.gap,
        "best gap": best.gap,
        "seconds": found.seconds,
        "note": found.kind + (", a better partition found" if found.improved else ""),
    }


def tasks(session: Session) -> Items:
    """Yield a case for each set, raw and standardized, and each k."""
    for name in session.pick(SETS, QUICK_SETS):
        for is_standardized in (False, True):
            A = load(name, is_standardized=is_standardized)
            for k in session.pick(RANKS, QUICK_RANKS):
                kind = "standardized" if is_standardized else "raw"
                yield one_row(f"{name}, {kind}", f"k = {k}", measure, A, k, session)


def judge(rows: Rows) -> list[str]:
    """Report how many gaps are small, and how many are zero."""
    return [
        _count(rows, "gap", "scikit-learn's best of ten"),
        _count(rows, "own gap", "our default answer"),
        _count(rows, "best gap", "the best clustering known"),
    ]


def _count(rows: Rows, name: str, whose: str) -> str:
    gaps = [row.number(name, 1.0) for row in rows]
    good, proven = sum(gap <= GOOD for gap in gaps), sum(gap <= PROVEN for gap in gaps)
    return (
        f"Gap of {whose} at most {GOOD:.0%}: {good} of {len(gaps)}; proven optimal to "
        f"{PROVEN:g}: {proven}."
    )


TABLE = Table(
    about=f"The inertia, and its bound by a proof of at most {SECONDS:g} s, or `--limit`.",
    columns=(
        Column("theirs", "scikit-learn", ".6g", "", "inertia, best of ten starts"),
        Column("ours", "ours", ".6g", "", "inertia of the default result"),
        Column(
            "best",
            "best known",
            ".6g",
            "",
            "the smaller inertia of the two, or that found by the proof",
        ),
        Column("gap", "gap", ".2e", "", "of scikit-learn's labels"),
        Column("own gap", "our gap", ".2e"),
        Column("best gap", "best gap", ".2e", "", "the gap that remains after the proof"),
        Column("seconds", "s", ".0f"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="iris alone, k = 2 and 3",
)
