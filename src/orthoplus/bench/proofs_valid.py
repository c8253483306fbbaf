"""Certificates of tiny clusterings against all partitions.

Every bound has to be at most the optimum, and an answer may be called optimal only if it is. The
optimum is that of `orthoplus.bench.oracles`; the answers are the best partition in one half of the
instances and a random one in the other.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.oracles import Optimum, global_minimum
from orthoplus.bench.support_descent import full_labelings
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.certify.api import certify
from orthoplus.certify.certificate import Certificate
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.geometry.stiefel import labels_of
from orthoplus.problems import ONMF, KMeans, SymmetricONMF, TraceMin

COUNT, QUICK_COUNT = 750, 10
# Seconds for each certificate: enough for every stage at this size.
SECONDS = 0.05
SCALE = 1e12

Draw = Callable[[np.random.Generator, int, int], FloatArray]


def _duplicated(rng: np.random.Generator, n: int, r: int) -> FloatArray:
    kinds = rng.random((max(2, n // 2), r))
    return kinds[rng.integers(len(kinds), size=n)]


def _with_zeros(rng: np.random.Generator, n: int, r: int) -> FloatArray:
    A = rng.random((n, r)) * (rng.random((n, r)) < 0.6)
    A[rng.integers(n)] = 0.0
    return A


KINDS: dict[str, Draw] = {
    "uniform": lambda rng, n, r: rng.random((n, r)),
    "ties": lambda rng, n, r: rng.integers(0, 3, (n, r)).astype(float),
    "zeros": _with_zeros,
    "duplicated rows": _duplicated,
    "float32": lambda rng, n, r: rng.random((n, r)).astype(np.float32),
    "scale 1e-12": lambda rng, n, r: rng.random((n, r)) / SCALE,
    "scale 1e12": lambda rng, n, r: rng.random((n, r)) * SCALE,
}


def _trace(A: FloatArray, k: int) -> Problem:
    """M of any sign: the rows of A on one side, noise on the other."""
    M = A @ A[:, ::-1].T
    return TraceMin(-(M + M.T), k)


MODELS: dict[str, Callable[[FloatArray, int], Problem]] = {
    "ONMF": ONMF,
    "TraceMin": _trace,
    "SymmetricONMF": lambda A, k: SymmetricONMF(A @ A.T, k),
    "KMeans": KMeans,
}


def best_partition(problem: Problem) -> Optimum:
    """Return the optimum; that of the inertia for k-means, whose f lets weights vary a little."""
    if not isinstance(problem, KMeans):
        return global_minimum(problem)
    inertias = [
        problem.inertia(labels) for labels in full_labelings(*problem.shape, up_to_order=True)
    ]
    best = int(np.argmin(inertias))
    return Optimum(
        inertias[best], problem.indicator(full_labelings(*problem.shape, up_to_order=True)[best])
    )


def find_faults(problem: Problem, certificate: Certificate, optimum: float) -> list[str]:
    """Return what is wrong with a certificate, as words."""
    rounding = problem.rounding() or 0.0
    checks = {
        "bound": certificate.bound > optimum + rounding,
        "value": certificate.value < optimum - 2.0 * rounding,
        "gap": certificate.gap is not None and certificate.gap < 0.0,
        "optimal": certificate.is_optimal
        and certificate.value > optimum + 2.0 * rounding + 1e-7 * abs(optimum),
        "verify": not certificate.verify(),
    }
    return [name for name, is_wrong in checks.items() if is_wrong]


def check(model: str, kind: str, session: Session) -> Figures:
    """Count certificates, proofs of optimality and faults."""
    rng = session.rng(list(MODELS).index(model), list(KINDS).index(kind))
    faults, n_optimal, count = Counter[str](), 0, session.pick(COUNT, QUICK_COUNT)

    def run() -> None:
        nonlocal n_optimal
        for _ in range(count):
            n = int(rng.integers(4, 8))
            k = int(rng.integers(2, 4))
            problem = MODELS[model](KINDS[kind](rng, n, int(rng.integers(2, 6))), k)
            optimum = best_partition(problem)
            certificate = certify(
                problem, _answer(rng, optimum.X, problem), time_limit=SECONDS, tol=1e-7
            )
            n_optimal += certificate.is_optimal
            faults.update(find_faults(problem, certificate, optimum.value))

    seconds = timed(run).cpu
    words = ", ".join(f"{name} {many}" for name, many in faults.items())
    return {"count": count, "optimal": n_optimal, "faults": sum(faults.values()), "cpu": seconds,
            "note": words}  # fmt: skip


def _answer(rng: np.random.Generator, X: FloatArray, problem: Problem) -> Any:
    """The best partition, rows of zeros in the last group, or a random one."""
    n, k = problem.shape
    if rng.random() < 0.5:
        labels = labels_of(X)
        return np.where(labels < 0, k - 1, labels)
    return rng.permutation(np.concatenate([np.arange(k), rng.integers(k, size=n - k)]))


def tasks(session: Session) -> Items:
    """Yield a case for each kind of data, a row for each model."""
    for kind in KINDS:
        for model in MODELS:
            yield one_row(kind, model, check, model, kind, session)


def judge(rows: Rows) -> list[str]:
    """Say how many bounds were checked, and how many were wrong."""
    count, faults = sum(rows.numbers("count")), sum(rows.numbers("faults"))
    return [f"{count:.0f} certificates checked against all partitions: {faults:.0f} faults."]


TABLE = Table(
    about="n = 4 to 7 rows, k = 2 or 3; the answer is the best partition or a random one.",
    columns=(
        Column("count", "instances", ".0f"),
        Column("optimal", "proven optimal", ".0f"),
        Column("faults", "faults", ".0f", "", "bounds above the optimum, false proofs"),
        Column("cpu", "CPU s", ".1f"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{QUICK_COUNT} instances of each kind instead of {COUNT}",
)
