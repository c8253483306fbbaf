"""Check certified projections against all supports, for tiny random matrices of many kinds.

Each matrix has n <= 7 rows and k <= 4 columns, so the optimum over S+ is the best of at most 4^7
assignments; it is computed in extended precision. Three things are checked: the value is that of
the returned point and no more than the optimum; the bound is not below the optimum, without any
tolerance; a point that is certified is optimal. Matrices this small are searched completely by
default: half of them are solved as large ones are, by passes, prices and branch and bound.
"""

from collections import Counter
from collections.abc import Callable
from unittest import mock

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.oracles import labeled_sets
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray
from orthoplus.projection import CertifiedProjection, certify, project_stiefel_plus

COUNT, QUICK_COUNT = 7200, 60
ROUNDING = 1e-12  # relative to the sum of the absolute values of the columns
LARGEST_SCALE = 30.0  # scales are from 1e-30 to 1e30
METHODS = {"all supports": certify.TINY_ROWS, "passes and branches": 0}


def _duplicated(rng: np.random.Generator, n: int, k: int) -> FloatArray:
    kinds = rng.standard_normal((max(1, n // 2), k))
    return kinds[rng.integers(len(kinds), size=n)]


def _negative_columns(rng: np.random.Generator, n: int, k: int) -> FloatArray:
    C = rng.standard_normal((n, k))
    columns = rng.random(k) < 0.5
    C[:, columns] = -np.abs(C[:, columns])
    return C


def _scaled(rng: np.random.Generator, C: FloatArray, *shape: int) -> FloatArray:
    return np.asarray(C * 10.0 ** rng.uniform(-LARGEST_SCALE, LARGEST_SCALE, shape))


KINDS: dict[str, Callable[[np.random.Generator, int, int], FloatArray]] = {
    "Gaussian": lambda rng, n, k: rng.standard_normal((n, k)),
    "uniform": lambda rng, n, k: rng.random((n, k)),
    "integers": lambda rng, n, k: rng.integers(-2, 4, (n, k)).astype(float),
    "binary": lambda rng, n, k: (rng.random((n, k)) < 0.5).astype(float),
    "nearly constant": lambda rng, n, k: 1.0 + 1e-2 * rng.standard_normal((n, k)),
    "rank one": lambda rng, n, k: np.outer(rng.random(n), rng.random(k)),
    "duplicated rows": _duplicated,
    "negative columns": _negative_columns,
    "few positive": lambda rng, n, k: rng.random((n, k)) - 0.85,
    "row scales": lambda rng, n, k: _scaled(rng, rng.standard_normal((n, k)), n, 1),
    "column scales": lambda rng, n, k: _scaled(rng, rng.standard_normal((n, k)), k),
    "global scale": lambda rng, n, k: _scaled(rng, rng.standard_normal((n, k))),
    # Entries of such different size that products of their squares underflow.
    "underflow": lambda rng, *nk: rng.random(nk) * rng.choice([1e-160, 1e-90, 1e-60, 1.0], nk),
    "float32": lambda rng, n, k: rng.standard_normal((n, k)).astype(np.float32),
}  # fmt: skip


def brute_force(C: FloatArray) -> np.longdouble:
    """Return max <C, X> over S+ by trying all supports, in extended precision."""
    n, k = C.shape
    wide = C.astype(np.longdouble)
    squares = np.maximum(wide, 0.0) ** 2
    sums = np.zeros((1 << n, k), dtype=np.longdouble)
    largest = np.full((1 << n, k), -np.inf, dtype=np.longdouble)
    for i in range(n):  # extend sets of earlier rows by row i
        sums[1 << i : 2 << i] = sums[: 1 << i] + squares[i]
        largest[1 << i : 2 << i] = np.maximum(largest[: 1 << i], wide[i])
    gain = np.where(largest > 0.0, np.sqrt(sums), largest)
    totals = gain[labeled_sets(n, k, up_to_order=False), np.arange(k)].sum(axis=1)
    return np.longdouble(totals.max())


def find_faults(C: FloatArray, result: CertifiedProjection) -> list[str]:
    """Return a description of what is wrong with a certified projection of C."""
    best, X = brute_force(C), result.X
    size = ROUNDING * max(result.size, float(abs(best)), np.finfo(float).tiny)
    inner = float((C.astype(np.longdouble) * X).sum())
    is_certified = result.status is Status.CERTIFIED
    checks = {
        "point": (X < 0.0).any() or np.abs(X.T @ X - np.eye(X.shape[1])).max() > 1e-14,
        "value": abs(inner - result.value) > size or result.value - best > size,
        "bound": result.bound < best or result.bound < result.value or result.gap < 0.0,
        "certificate": is_certified and best - result.value > size,
        "status": len(C) <= certify.TINY_ROWS and not is_certified,
    }
    return [name for name, is_wrong in checks.items() if is_wrong]


def tasks(session: Session) -> Items:
    """Yield a case for each kind of matrix, solved in both ways."""
    for kind in KINDS:
        for method in METHODS:
            yield one_row(kind, method, check_kind, kind, method, session)


def check_kind(kind: str, method: str, session: Session) -> Figures:
    """Count projections, proofs and faults; a note says how to reproduce the faults."""
    count, faults = session.pick(COUNT, QUICK_COUNT) // 2, Counter[str]()
    certified, first = 0, ""
    seed = (list(KINDS).index(kind), list(METHODS).index(method))
    rng = session.rng(*seed)

    def check() -> None:
        nonlocal certified, first
        for _ in range(count):
            k = int(rng.integers(1, 5))
            C = KINDS[kind](rng, int(rng.integers(k, 8)), k)
            result = project_stiefel_plus(C)
            certified += result.status is Status.CERTIFIED
            found = find_faults(C, result)
            faults.update(found)
            first = first or (f"wrong {', '.join(found)} for C = {C.tolist()}" if found else "")

    with mock.patch.object(certify, "TINY_ROWS", METHODS[method]):
        seconds = timed(check).cpu
    share = 100.0 * certified / count
    figures = {"count": count, "certified": share, "faults": faults.total(), "cpu": seconds}
    return figures | {"note": first}


def judge(rows: Rows) -> list[str]:
    """Report how many projections were checked, and how many faults were found."""
    count, faults = sum(rows.numbers("count")), sum(rows.numbers("faults"))
    return [f"{count:,.0f} projections checked against all supports, {faults:.0f} faults."]


TABLE = Table(
    about="Matrices of at most 7 rows and 4 columns; value, bound, point and status of each "
    "projection are checked in extended precision.",
    columns=(
        Column("count", "projections", ".0f"),
        Column("certified", "certified %", ".2f"),
        Column("faults", "faults", ".0f", "least"),
        Column("cpu", "CPU s", ".1f"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{QUICK_COUNT} projections of each kind instead of {COUNT:,}",
)
