"""Check certificates of tiny clusterings against all partitions.

Every bound has to be at most the optimum, and an answer may be called optimal only if it is. The
optimum is that of `orthoplus.bench.oracles`; the answers are the best partition in one half of the
instances and a random one in the other. So few rows need no compression, so its bounds
are computed and verified separately for every third instance.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.oracles import Optimum, global_minimum
from orthoplus.bench.support_descent import full_labelings
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.certify.api import certify
from orthoplus.certify.certificate import Certificate
from orthoplus.certify.compression import bounds_by_compression
from orthoplus.certify.model import Model
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.geometry.stiefel import labels_of
from orthoplus.problems import ONMF, KMeans, SymmetricONMF, TraceMin

COUNT, QUICK_COUNT = 750, 10
# Seconds per certificate, enough for every stage at this size.
SECONDS = 0.05
# Every n-th instance is also bounded by compression, with this time limit.
COMPRESS_EVERY, COMPRESS_SECONDS = 3, 0.03
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
    """Draw M of any sign: the rows of A on one side, noise on the other."""
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
    """Return a description of what is wrong with a certificate."""
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


def find_compression_faults(
    problem: Problem, certificate: Certificate, optimum: float
) -> list[str] | None:
    """Return what is wrong with the bounds by compression; None if M is not a product."""
    own = Model(problem)
    if own.factor is None:
        return None
    point, faults = own.refine(certificate.answer), set()
    deadline = perf_counter() + COMPRESS_SECONDS
    for upper, proof in bounds_by_compression(own, point, None, deadline):
        bound = own.to_bound(upper)
        if bound > optimum + (problem.rounding() or 0.0):
            faults.add("compression")
        gap = own.gap(certificate.value, bound)
        made = replace(certificate, kind="compression", proof=proof, bound=bound, gap=gap)
        if not made.verify(problem):
            faults.add("verify compression")
    return sorted(faults)


def check(model: str, kind: str, session: Session) -> Figures:
    """Count certificates, proofs of optimality, bounds by compression and faults."""
    rng = session.rng(list(MODELS).index(model), list(KINDS).index(kind))
    faults, n_optimal, count = Counter[str](), 0, session.pick(COUNT, QUICK_COUNT)
    n_compressed = 0

    def run() -> None:
        nonlocal n_optimal, n_compressed
        for number in range(count):
            n = int(rng.integers(4, 8))
            k = int(rng.integers(2, 4))
            problem = MODELS[model](KINDS[kind](rng, n, int(rng.integers(2, 6))), k)
            optimum = best_partition(problem)
            certificate = certify(
                problem, _answer(rng, optimum.X, problem), time_limit=SECONDS, tol=1e-7
            )
            n_optimal += certificate.is_optimal
            faults.update(find_faults(problem, certificate, optimum.value))
            if number % COMPRESS_EVERY == 0:
                found = find_compression_faults(problem, certificate, optimum.value)
                n_compressed += found is not None
                faults.update(found or ())

    seconds = timed(run).cpu
    words = ", ".join(f"{name} {many}" for name, many in faults.items())
    return {"count": count, "optimal": n_optimal, "compressed": n_compressed,
            "faults": sum(faults.values()), "cpu": seconds, "note": words}  # fmt: skip


def _answer(rng: np.random.Generator, X: FloatArray, problem: Problem) -> Any:
    """Return the best partition, rows of zeros in the last group, or a random one."""
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
    """Report how many bounds were checked, and how many were wrong."""
    count, faults = sum(rows.numbers("count")), sum(rows.numbers("faults"))
    compressed = sum(rows.numbers("compressed"))
    return [
        f"{count:.0f} certificates, and {compressed:.0f} by compression, checked against all "
        f"partitions: {faults:.0f} faults."
    ]


TABLE = Table(
    about="n = 4 to 7 rows, k = 2 or 3; the answer is the best partition or a random one.",
    columns=(
        Column("count", "instances", ".0f"),
        Column("optimal", "proven optimal", ".0f"),
        Column(
            "compressed", "compressed", ".0f", "", "instances that are also bounded by compression"
        ),
        Column("faults", "faults", ".0f", "", "bounds above the optimum, and false proofs"),
        Column("cpu", "CPU s", ".1f"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{QUICK_COUNT} instances of each kind instead of {COUNT}",
)
