"""Measure the gaps of the certified projection on data without a planted solution.

Random matrices of many shapes, and those where the relaxation alone is not enough: rank one, equal
rows, zeros and ones, few rows per column, columns without positive entry, scores of real data.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.core.types import FloatArray
from orthoplus.run.api import project

INSTANCES, QUICK_INSTANCES = 10, 1
USUAL, LARGER = "usual budget", {"1,000 passes": 1000, "10,000 passes": 10_000}
SHAPES = (
    (500, 5), (400, 10), (2000, 10), (2000, 50), (4000, 100), (20000, 10), (20000, 100), (500, 50),
    (1000, 100),
)  # fmt: skip
QUICK_SHAPES, QUICK_CASES = SHAPES[:1], 9


def _low_rank(rank: int) -> Callable[[np.random.Generator, int, int], FloatArray]:
    return lambda rng, n, k: rng.standard_normal((n, rank)) @ rng.standard_normal((rank, k))


KINDS: dict[str, Callable[[np.random.Generator, int, int], FloatArray]] = {
    "uniform": lambda rng, n, k: rng.random((n, k)),
    "Gaussian": lambda rng, n, k: rng.standard_normal((n, k)),
    "orthonormal": lambda rng, n, k: np.linalg.qr(rng.standard_normal((n, k)))[0],
    "heavy tails": lambda rng, n, k: rng.standard_t(2, (n, k)),
    "rank 3": _low_rank(3),
    "rank 5": _low_rank(5),
    "rank 20": _low_rank(20),
}


def gaussian_scores(name: str, rows_per_column: int, width: float = 1.0) -> FloatArray:
    """Return exp(-d^2 / s) for the distances d of standardized data to some of its points.

    s is the median of d^2 times ``width``: a large one makes the scores nearly constant.
    """
    from sklearn import datasets

    A = getattr(datasets, f"load_{name}")().data
    A = (A - A.mean(axis=0)) / np.maximum(A.std(axis=0), 1e-12)
    k = len(A) // rows_per_column
    centers = A[np.random.default_rng(1).choice(len(A), k, replace=False)]
    squares = ((A[:, None] - centers) ** 2).sum(axis=2)
    return np.asarray(np.exp(-squares / (width * np.median(squares))))


def hard_matrices() -> Iterator[tuple[str, FloatArray]]:
    """Yield names and matrices, one at a time."""
    rng = np.random.default_rng
    yield "constant", np.ones((4001, 50))
    yield "equal rows", np.tile(rng(3).random(10) + 0.2, (203, 1))
    yield "30 kinds of rows", rng(4).random((30, 10))[rng(5).integers(30, size=300)]
    yield "binary", (rng(7).random((103, 6)) < 0.3).astype(float)
    yield "binary", (rng(9).random((2003, 50)) < 0.05).astype(float)
    yield "integers 0..3", rng(10).integers(0, 4, (200, 8)).astype(float)
    yield "rank one", np.outer(rng(10).random(30), rng(11).random(4))
    yield "rank one", np.outer(np.linspace(0.1, 1.0, 40), np.linspace(1.0, 2.0, 5))
    yield "rank one", np.outer(rng(0).random(2000), rng(1).random(50) + 0.5)
    for name in ("wine", "breast_cancer", "digits"):
        for rows_per_column in (20, 60, 120):
            yield f"scores of {name}", gaussian_scores(name, rows_per_column)
    for name, rows_per_column in (("wine", 20), ("breast_cancer", 20), ("digits", 60)):
        for width in (10.0, 1000.0):
            yield f"wide x{width:g} {name}", gaussian_scores(name, rows_per_column, width)
    yield "one of rank 5", rng(20).standard_normal((2000, 5)) @ rng(21).standard_normal((5, 50))
    yield "one uniform", rng(31).random((400, 20))
    yield "one uniform", rng(31).random((2000, 50))
    yield "normal", rng(2).standard_normal((31, 30))
    yield "negative columns", rng(1).random((40, 6)) * [1, 1, -1, 1, -1, -1]
    few = np.where(rng(3).random((40, 8)) < 0.1, 1.0, -1.0) * rng(4).random((40, 8))
    yield "few positive", few


def tasks(session: Session) -> Items:
    """Yield random kinds with the usual budget, then hard matrices with larger ones as well."""
    project(np.ones((31, 4)))  # compile
    project(np.random.default_rng(0).random((60, 8)), max_passes=200)
    for kind, make in KINDS.items():
        for n, k in session.pick(SHAPES, QUICK_SHAPES):
            made = [make(rng, n, k) for rng in session.rngs(INSTANCES, QUICK_INSTANCES)]
            yield one_row(f"{kind} {n} x {k}", USUAL, _measure, made, {})
    for number, (name, C) in enumerate(hard_matrices()):
        if session.quick and number >= QUICK_CASES:
            break
        case = f"{name} {C.shape[0]} x {C.shape[1]}"
        certified: list[str] = []
        for method, budget in ({USUAL: None} | LARGER).items():
            if not certified:
                limits: Any = {"time_limit": session.seconds}
                limits |= {} if budget is None else {"max_passes": budget}
                yield one_row(case, method, _measure, [C], limits, certified)


def _measure(
    matrices: list[FloatArray], limits: Any, certified: list[str] | None = None
) -> Figures:
    run = timed(lambda: [project(C, **limits) for C in matrices])
    proofs = [found.success for found in run.value]
    if certified is not None and all(proofs):
        certified.append("a larger budget is not needed")
    gaps, count = [float(found.gap or 0.0) for found in run.value], len(matrices)
    share = 100.0 * float(np.mean(proofs))
    figures = {"count": count, "certified": share, "gap": max(gaps), "cpu": run.cpu / count}
    return figures | {"passes": float(np.mean([found.n_iter for found in run.value]))}


def judge(rows: Rows) -> list[str]:
    """Report how many matrices are certified with each budget, and the largest gap."""
    return [
        f"{method}: {np.mean(own.numbers('certified')):.0f} % of the matrices in {len(own)} rows "
        f"are certified, the largest gap is {max(own.numbers('gap')):.1e}."
        for method, own in rows.by_method().items()
    ]


TABLE = Table(
    about=f"{INSTANCES} random matrices of each kind and shape; then single matrices that need "
    "branch and bound, with increasing budgets until the result is certified or the time limit "
    "is reached.",
    columns=(
        Column("count", "matrices", ".0f"),
        Column("certified", "certified %", ".0f"),
        Column("gap", "gap", ".1e", "least", "the largest relative gap"),
        Column("passes", "passes", ".1f", "", "over C, on average"),
        Column("cpu", "CPU s", ".3f", "", "of one projection"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="one matrix of each kind, nine hard ones",
)
