"""Check medium sizes against other methods: the swap search of ONMF, and scikit-learn."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.table import Figures, Items, Session, one_row
from orthoplus.core.types import FloatArray
from orthoplus.datasets import planted_onmf
from orthoplus.problems import ONMF, KMeans, nonnegative_pca
from orthoplus.run.api import solve

PCA, K_MEANS = "nonnegative PCA", "k-means"
REFERENCE_STARTS = 10
REFERENCE = f"scikit-learn, {REFERENCE_STARTS} starts"
# (n, r, k) of the matrices; each shape has two random and two planted ones.
SIZES = ((60, 10, 4), (100, 20, 5), (200, 30, 6), (500, 60, 8), (1000, 100, 10))
QUICK_SIZES = SIZES[:1]
NOISES = (0.3, 1.0)
# Relative tolerance for equal values of f.
TIE = 1e-9
QUICK_SETS = ("iris", "separated blobs", "noise")

Made = tuple[FloatArray, int]  # data, and the number of columns of X
Maker = Callable[[np.random.Generator], Made]


def tasks(session: Session, calls: Mapping[str, Mapping[str, Any]]) -> Items:
    """Yield both comparisons, with one task per call."""
    solve(nonnegative_pca(np.eye(20, 5) + 0.1, 2), rng=0)  # compile
    for kind, make in (("random", random_matrices), ("planted", planted_matrices)):
        matrices = make(session)
        for method, options in calls.items():
            yield one_row(f"{PCA}, {kind}", method, compare_residuals, matrices, options)
    for name, make_set in SETS.items():
        if session.quick and name not in QUICK_SETS:
            continue
        case, problem = f"{K_MEANS}, {name}", KMeans(*make_set(session.rng()))
        for method, options in calls.items():
            yield one_row(case, method, compare_clusters, session, case, problem, options)
        yield one_row(case, REFERENCE, lambda c, p: _reference(session, c, p)[2], case, problem)


def summarize(excesses: list[float], seconds: float) -> dict[str, float]:
    """Return count, mean and largest of some excesses in percent, and the time of a call."""
    excess, count = 100.0 * np.array(excesses), len(excesses)
    figures = {"count": count, "mean": float(excess.mean()), "worst": float(excess.max())}
    return figures | {"ms": 1e3 * seconds / count, "cpu": seconds}


def random_matrices(session: Session) -> list[Made]:
    """Make matrices without structure: uniform, or exponential and mostly zero."""
    made: list[Made] = []
    for n, r, k in session.pick(SIZES, QUICK_SIZES):
        rng = session.rng(n)
        made.append((rng.random((n, r)), k))
        made.append((rng.exponential(size=(n, r)) * (rng.random((n, r)) < 0.4), k))
    return made


def planted_matrices(session: Session) -> list[Made]:
    """Make the planted matrices of the paper at two noise levels."""
    made: list[Made] = []
    for n, r, k in session.pick(SIZES, QUICK_SIZES):
        rng = session.rng(n, 1)
        made += [(planted_onmf(n, r, k, noise, rng).A, k) for noise in NOISES]
    return made


def compare_residuals(matrices: list[Made], options: Mapping[str, Any]) -> Figures:
    """Compare residuals: ||A||^2 minus the variance is the objective of ONMF."""
    excesses, seconds = [], 0.0
    for A, k in matrices:
        run = timed(partial(solve, nonnegative_pca(A, k), rng=0, **options))
        residual = float((A**2).sum()) + run.value.value
        excesses.append(residual / solve(ONMF(A, k), rng=0).value - 1.0)
        seconds += run.cpu
    return summarize(excesses, seconds)


class Reference(NamedTuple):
    """The result of scikit-learn: the inertia, f with optimal weights for its labels, figures."""

    inertia: float
    value: float
    figures: dict[str, float]


def compare_clusters(
    session: Session, case: str, problem: KMeans, options: Mapping[str, Any]
) -> Figures:
    """Compare labels with scikit-learn's by inertia and by f, the function that is minimized.

    The weights in f are free, so its minimizer need not have the least inertia.
    """
    best = _reference(session, case, problem)
    run = timed(partial(solve, problem, rng=0, **options))
    value = run.value.value
    figures = summarize([problem.inertia(run.value.labels) / best.inertia - 1.0], run.cpu)
    share = 100.0 * float(value <= best.value * (1.0 + TIE))
    return figures | {"share": share, "value": value / best.inertia}


def _reference(session: Session, case: str, problem: KMeans) -> Reference:
    """Run scikit-learn once per session."""
    from sklearn.cluster import KMeans as ScikitKMeans

    def compute() -> Reference:
        model = ScikitKMeans(problem.k, n_init=REFERENCE_STARTS, random_state=session.seed)
        run = timed(lambda: model.fit(problem.A))
        X = problem.indicator(run.value.labels_.astype(np.int64))
        refined = problem.refine(X)
        value, inertia = problem.value(X if refined is None else refined), run.value.inertia_
        figures = summarize([0.0], run.cpu) | {"value": value / inertia}
        return Reference(float(inertia), value, figures)

    return session.once((REFERENCE, case), compute)


# --- data sets of k-means -------------------------------------------------------------------------


def _bundled(name: str, k: int, *, is_scaled: bool = False, rows: int | None = None) -> Maker:
    """Return a maker of a data set that comes with scikit-learn, with scaled columns on request."""

    def make(rng: np.random.Generator) -> Made:
        from sklearn import datasets

        A = np.asarray(getattr(datasets, f"load_{name}")().data, dtype=np.float64)[:rows]
        return (A - A.mean(axis=0)) / A.std(axis=0) if is_scaled else A, k

    return make


def blobs(k: int, size: int, dimension: int, *, distance: float, uneven: bool = False) -> Maker:
    """Return a maker of Gaussian clusters of ``size`` rows each, or uneven in size and spread."""

    def make(rng: np.random.Generator) -> Made:
        centers = distance * rng.standard_normal((k, dimension))
        sizes = rng.integers(size // 5, 2 * size, size=k) if uneven else np.full(k, size)
        spreads = rng.uniform(0.3, 2.0, size=k) if uneven else np.ones(k)
        labels = np.repeat(np.arange(k), sizes)
        noise = rng.standard_normal((len(labels), dimension))
        return centers[labels] + spreads[labels, None] * noise, k

    return make


SETS: dict[str, Maker] = {
    "iris": _bundled("iris", 3),
    "wine": _bundled("wine", 3),
    "wine, scaled": _bundled("wine", 3, is_scaled=True),
    "breast cancer, scaled": _bundled("breast_cancer", 2, is_scaled=True),
    "digits": _bundled("digits", 10, rows=600),
    "separated blobs": blobs(5, 60, 3, distance=12.0),
    "overlapping blobs": blobs(8, 50, 4, distance=2.0),
    "uneven blobs": blobs(6, 60, 2, distance=5.0, uneven=True),
    "blobs in 20 dimensions": blobs(10, 40, 20, distance=1.5),
    "noise": lambda rng: (rng.random((400, 2)), 6),
}
