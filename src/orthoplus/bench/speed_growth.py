"""Measure how the cost of the default grows with rows (dense) and entries (sparse)."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from orthoplus.bench.measure import timed
from orthoplus.bench.onmf_methods import run_default, warm_up
from orthoplus.bench.speed_large import make_data
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row

K = 10
DENSE_COLUMNS = 200
ROWS, QUICK_ROWS = (4000, 8000, 16_000, 32_000), (1000, 2000, 4000)
SPARSE_SIZE, QUICK_SPARSE_SIZE = (8000, 4000), (1000, 1000)
PER_ROW, QUICK_PER_ROW = (20, 40, 80, 160), (10, 20, 40)


def make_counts(n: int, r: int, per_row: int, rng: np.random.Generator) -> csr_array:
    """Draw documents of K topics with ``per_row`` words each, most of them from the topic."""
    topics = rng.dirichlet(np.full(r, 0.02), size=K)
    groups = rng.integers(K, size=n)
    words = np.concatenate([rng.choice(r, size=per_row, p=topics[g]) for g in groups])
    noise = rng.random(len(words)) < 0.2
    words[noise] = rng.integers(r, size=int(noise.sum()))
    indptr = np.arange(0, n * per_row + 1, per_row)
    counts = csr_array((np.ones(len(words)), words, indptr), shape=(n, r))
    counts.sum_duplicates()
    return counts


def tasks(session: Session) -> Items:
    """Yield each size once, k fixed."""
    warm_up(session)
    rng = np.random.default_rng(0)
    for small in (make_data(400, 20, K, rng), make_counts(400, 300, 20, rng)):
        run_default(small, K, 0, np.inf)
    for n in session.pick(ROWS, QUICK_ROWS):
        A = make_data(n, DENSE_COLUMNS, K, session.rng())
        yield one_row("dense, rows", f"{n:,}", _measure, A, n, session)
    n, r = session.pick(SPARSE_SIZE, QUICK_SPARSE_SIZE)
    for per_row in session.pick(PER_ROW, QUICK_PER_ROW):
        counts = make_counts(n, r, per_row, session.rng())
        size = counts.nnz
        yield one_row("sparse, entries", f"{size:,}", _measure, counts, size, session)


def _measure(A: Any, size: int, session: Session) -> Figures:
    found = timed(lambda: run_default(A, K, session.seed, np.inf))
    return {"size": size, "cpu": found.cpu, "wall": found.wall, "each": 1e6 * found.cpu / size}


def slope_of(rows: Rows) -> float:
    """Return the exponent p of seconds ~ size^p, by least squares of the logarithms."""
    sizes, seconds = (np.log([row.number(key) for row in rows]) for key in ("size", "cpu"))
    return float(np.polyfit(sizes, seconds, 1)[0])


def judge(rows: Rows) -> list[str]:
    """Report the exponents."""
    return [
        f"{case}: the seconds grow with the exponent {slope_of(Rows(own.values())):.2f}."
        for case, own in rows.by_case().items()
    ]


TABLE = Table(
    about=f"The default on planted data, k = {K}: dense with {DENSE_COLUMNS} columns, sparse with "
    f"{SPARSE_SIZE[0]} x {SPARSE_SIZE[1]}; the exponent is 1 if the cost is linear, and smaller if "
    "a fixed part dominates.",
    columns=(
        Column("cpu", "CPU s", ".3f"),
        Column("wall", "wall s", ".3f"),
        Column("each", "µs each", ".2f", "", "CPU seconds per row or entry, in millionths"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="small sizes",
)
