"""How the default's cost grows: with the rows of dense data, with the entries of sparse data."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from orthoplus.bench.measure import timed
from orthoplus.bench.onmf_methods import DEFAULT, METHODS, warm_up
from orthoplus.bench.speed_large import make_data
from orthoplus.bench.table import Column, Picture, Row, Session, Table, Task, cases_of

K = 10
DENSE_COLUMNS = 200
ROWS, QUICK_ROWS = (4000, 8000, 16_000, 32_000), (1000, 2000, 4000)
SPARSE_SIZE, QUICK_SPARSE_SIZE = (8000, 4000), (1000, 1000)
PER_ROW, QUICK_PER_ROW = (20, 40, 80, 160), (10, 20, 40)
DENSE, SPARSE = "dense, rows", "sparse, entries"


def make_counts(n: int, r: int, per_row: int, rng: np.random.Generator) -> csr_array:
    """Documents of K topics: ``per_row`` words each, most of them of the topic's own words."""
    topics = rng.dirichlet(np.full(r, 0.02), size=K)
    groups = rng.integers(K, size=n)
    words = np.concatenate([rng.choice(r, size=per_row, p=topics[g]) for g in groups])
    noise = rng.random(len(words)) < 0.2
    words[noise] = rng.integers(r, size=int(noise.sum()))
    indptr = np.arange(0, n * per_row + 1, per_row)
    counts = csr_array((np.ones(len(words)), words, indptr), shape=(n, r))
    counts.sum_duplicates()
    return counts


def tasks(session: Session) -> Iterator[Task | Picture]:
    """Each size once, k fixed."""
    warm_up(session)
    for small in (make_data(400, 20, K, np.random.default_rng(0)),
                  make_counts(400, 300, 20, np.random.default_rng(0))):  # fmt: skip
        METHODS[DEFAULT](small, K, 0, np.inf)
    for n in QUICK_ROWS if session.quick else ROWS:
        A = make_data(n, DENSE_COLUMNS, K, np.random.default_rng(session.seed))
        yield Task(DENSE, (f"{n:,}",), partial(_rows, DENSE, n, A, session.seed))
    n, r = QUICK_SPARSE_SIZE if session.quick else SPARSE_SIZE
    for per_row in QUICK_PER_ROW if session.quick else PER_ROW:
        counts = make_counts(n, r, per_row, np.random.default_rng(session.seed))
        compute = partial(_rows, SPARSE, counts.nnz, counts, session.seed)
        yield Task(SPARSE, (f"{counts.nnz:,}",), compute)


def _rows(case: str, size: int, A: object, seed: int) -> list[Row]:
    found = timed(lambda: METHODS[DEFAULT](A, K, seed, np.inf))
    figures = {"size": size, "cpu": found.cpu, "wall": found.wall, "each": 1e6 * found.cpu / size}
    return [Row(case, f"{size:,}", figures)]


def slope_of(rows: Sequence[Row], case: str) -> float:
    """The exponent p of seconds ~ size^p, by least squares of the logarithms."""
    own = [row.figures for row in rows if row.case == case]
    sizes, seconds = (np.log([float(f[key] or 1.0) for f in own]) for key in ("size", "cpu"))
    return float(np.polyfit(sizes, seconds, 1)[0])


def judge(rows: Sequence[Row]) -> list[str]:
    """The exponents."""
    return [
        f"{case}: seconds grow like the power {slope_of(rows, case):.2f}."
        for case in cases_of(rows)
    ]


TABLE = Table(
    name="speed-growth",
    title="How the cost grows",
    about=f"The default on planted data, k = {K}: dense with {DENSE_COLUMNS} columns, sparse with "
    f"{SPARSE_SIZE[0]} x {SPARSE_SIZE[1]}; the power is 1 where the cost is linear, below where a "
    "fixed part counts.",
    columns=(
        Column("cpu", "CPU s", ".3f"),
        Column("wall", "wall s", ".3f"),
        Column("each", "µs each", ".2f", "", "CPU seconds a row or an entry, in millionths"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="small sizes",
)
