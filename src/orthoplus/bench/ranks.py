"""Count how often each criterion of `select_rank` finds the planted k at three noise levels."""

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.table import Column, Figures, Items, Session, Table, one_row
from orthoplus.core.types import FloatArray
from orthoplus.model_selection import select_rank

SHAPE, QUICK_SHAPE = (300, 50), (120, 20)
INSTANCES, QUICK_INSTANCES = 5, 1
RANKS, QUICK_RANKS = range(2, 16), range(2, 7)
COUNTS, QUICK_COUNTS = (3, 6, 10), (3,)
NOISES = (0.1, 0.3, 0.6)
CRITERIA = ("held-out", "stability", "knee")


def make_groups(
    shape: tuple[int, int], k: int, noise: float, rng: np.random.Generator
) -> FloatArray:
    """Draw groups of unequal size: multiples of k random rows, plus relative noise."""
    n, r = shape
    sizes = rng.uniform(0.5, 1.5, size=k)
    groups = rng.permutation(np.r_[np.arange(k), rng.choice(k, n - k, p=sizes / sizes.sum())])
    rows = rng.uniform(0.5, 1.5, size=(n, 1)) * rng.random((k, r))[groups]
    added = rng.random(rows.shape)
    return np.asarray(rows + noise * np.linalg.norm(rows) / np.linalg.norm(added) * added)


def tasks(session: Session) -> Items:
    """Yield a case for each k and a row for each noise."""
    select_rank(make_groups(QUICK_SHAPE, 2, 0.1, session.rng()), [2], n_splits=2)  # compile
    for k in session.pick(COUNTS, QUICK_COUNTS):
        for noise in NOISES:
            yield one_row(f"k = {k}", f"noise {noise:g}", _measure, session, k, noise)


def _measure(session: Session, k: int, noise: float) -> Figures:
    shape, ranks = session.pick((SHAPE, RANKS), (QUICK_SHAPE, QUICK_RANKS))
    rngs = session.rngs(INSTANCES, QUICK_INSTANCES)
    data = [make_groups(shape, k, noise, rng) for rng in rngs]
    run = timed(lambda: [select_rank(A, ranks) for A in data])
    named = {name: [found.named[name] for found in run.value] for name in CRITERIA}
    named["chosen"] = [found.k for found in run.value]
    shares = {key: 100.0 * float(np.mean([m == k for m in ks])) for key, ks in named.items()}
    return shares | {"cpu": run.cpu / len(data), "wall": run.wall / len(data)}


TABLE = Table(
    about=f"n, r = {SHAPE}, {INSTANCES} instances per row; share of instances, in percent, in "
    "which each criterion and the final vote choose the planted k.",
    columns=(
        Column("chosen", "chosen", ".0f", "most"),
        *(Column(name, name, ".0f") for name in CRITERIA),
        Column("cpu", "CPU s", ".1f", "", "of one call"),
    ),
    tasks=tasks,
    quick_about=f"n, r = {QUICK_SHAPE}, k = 3, one instance",
)
