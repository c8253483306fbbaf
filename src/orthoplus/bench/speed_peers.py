"""Compare seconds and objective with fast clustering libraries on a large float32 matrix.

Every method runs in a separate process, several times; the shortest time is used. The objective is
the share that the groups explain with the best vector for each of them, regardless of the model
that found them.
"""

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.onmf_methods import explained_share
from orthoplus.bench.processes import in_process
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.geometry.stiefel import assemble

SIZE, QUICK_SIZE = (300_000, 100, 20), (20_000, 50, 10)
SEEDS, QUICK_SEEDS = 3, 1
NOISE = 0.25
_BLOCK = 50_000
DEFAULT, FAISS = "default", "faiss"

Labeler = Callable[[FloatArray, int, int], IntArray]


def make_data(n: int, r: int, k: int, seed: int) -> FloatArray:
    """Make rows near multiples of k profiles, with uniform noise."""
    rng = np.random.default_rng(seed)
    profiles, A = rng.random((k, r)) ** 3, np.empty((n, r), dtype=np.float32)
    for start in range(0, n, _BLOCK):
        block = A[start : start + _BLOCK]
        labels = rng.integers(k, size=len(block))
        block[:] = (0.2 + rng.random((len(block), 1))) * profiles[labels]
        block += NOISE * rng.random(block.shape, dtype=np.float32)
    return A


def run_default(A: FloatArray, k: int, seed: int) -> IntArray:
    """Fit the estimator with its defaults."""
    from orthoplus.estimators import OrthogonalNMF

    return OrthogonalNMF(k, random_state=seed).fit(A).labels_


def run_k_means(A: FloatArray, k: int, seed: int) -> IntArray:
    """Fit scikit-learn's k-means with one start, its default."""
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(k, random_state=seed).fit(A).labels_)


def run_mini_batch(A: FloatArray, k: int, seed: int) -> IntArray:
    """Fit scikit-learn's mini-batch k-means with its defaults."""
    from sklearn.cluster import MiniBatchKMeans

    return np.asarray(MiniBatchKMeans(k, random_state=seed).fit(A).labels_)


def run_faiss(A: FloatArray, k: int, seed: int) -> IntArray:
    """Train the k-means of faiss with its defaults and assign every row."""
    import faiss  # type: ignore[import-not-found, import-untyped, unused-ignore]

    model = faiss.Kmeans(A.shape[1], k, seed=seed)
    model.train(A)
    return np.asarray(model.index.search(A, 1)[1]).ravel()


RUNS: dict[str, Labeler] = {
    DEFAULT: run_default,
    "k-means": run_k_means,
    "mini-batch k-means": run_mini_batch,
    FAISS: run_faiss,
}


def measure(method: str, size: tuple[int, int, int], seeds: int, first: int) -> Figures:
    """Return the shortest time and the mean share of a method over several seeds on one matrix."""
    k, run = size[-1], RUNS[method]
    run(make_data(2000, size[1], k, 0), k, 0)  # compile and import
    A, shares, found = make_data(*size, first), [], []
    for seed in range(first, first + seeds):
        found.append(timed(lambda seed=seed: run(A, k, seed)))  # type: ignore[misc]
        labels = np.asarray(found[-1].value, dtype=np.int64)
        X = assemble(labels, np.ones(len(labels)), k)
        shares.append(explained_share(A, k, X / np.maximum(np.linalg.norm(X, axis=0), 1.0)))
    seconds = {"cpu": min(one.cpu for one in found), "wall": min(one.wall for one in found)}
    return seconds | {"share": float(np.mean(shares)), "least": min(shares)}


def tasks(session: Session) -> Items:
    """Yield a row per method; faiss only if it is installed."""
    n, r, k = size = session.pick(SIZE, QUICK_SIZE)
    seeds = session.pick(SEEDS, QUICK_SEEDS)
    for method in RUNS:
        if method != FAISS or find_spec(FAISS) is not None:
            words = (measure, method, size, seeds, session.seed)
            yield one_row(f"{n:,} x {r}, k = {k}", method, in_process, *words)


def judge(rows: Rows) -> list[str]:
    """Compare the default with the fastest of the others, and with the best objective of them."""
    lines = []
    for case, methods in rows.by_case().items():
        if DEFAULT not in methods or len(methods) < 2:
            continue
        own = methods.pop(DEFAULT)
        fastest = min(methods, key=lambda name: methods[name].number("cpu", np.inf))
        best = max(methods, key=lambda name: methods[name].number("share"))
        ratio = own.number("cpu") / methods[fastest].number("cpu", np.inf)
        lines.append(
            f"{case}: the default takes {ratio:.2f} of the CPU seconds of {fastest}, the fastest "
            f"of the others, and explains {own.number('share'):.4f}; the best of the others, "
            f"{best}, {methods[best].number('share'):.4f}."
        )
    return lines


TABLE = Table(
    about="Rows near multiples of planted profiles with noise, in float32; every method with its "
    "defaults, the shortest time of several runs. faiss is included if it is installed.",
    columns=(
        Column("cpu", "CPU s", ".2f", "least"),
        Column("wall", "wall s", ".2f", "least"),
        Column("share", "share", ".5f", "most", "mean over the seeds"),
        Column("least", "least share", ".5f", "most"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="20,000 rows, one run",
)
