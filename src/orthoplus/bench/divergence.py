"""Compare models for clustering documents: counts and tf-idf, divergence and squares."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from orthoplus.bench.measure import timed
from orthoplus.bench.scores import score, score_columns
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.bench.text import QUICK_SETS
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.datasets import LabelledData, load_labelled
from orthoplus.datasets.real import TEXT_SETS
from orthoplus.problems import KLONMF

# Number of starts of methods whose own default is too small, and dimension of LSA.
_STARTS, _LSA_COLUMNS = 10, 100
_MAX_ROUNDS = 100
KL_RAW, KL_TFIDF = "KL, counts", "KL, tf-idf"

Labeller = Callable[[Any, int, int], IntArray]


def _onmf(A: Any, k: int, seed: int, **options: Any) -> IntArray:
    from sklearn.exceptions import ConvergenceWarning

    from orthoplus.estimators import OrthogonalNMF

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return OrthogonalNMF(k, random_state=seed, **options).fit(A).labels_


def _kmeans(A: Any, k: int, seed: int) -> IntArray:
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(k, n_init=_STARTS, random_state=seed).fit(A).labels_)


def _lsa(A: Any, k: int, seed: int) -> IntArray:
    """Take the leading singular vectors, rows of unit norm, then k-means."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    columns = min(_LSA_COLUMNS, min(A.shape) - 1)
    coordinates = TruncatedSVD(columns, random_state=seed).fit_transform(A)
    return _kmeans(normalize(coordinates), k, seed)


def _spherical(A: Any, k: int, seed: int) -> IntArray:
    """Run spherical k-means: cosines, and centers of unit norm; keep the best of ten starts."""
    rng, best, answer = np.random.default_rng(seed), -np.inf, np.zeros(A.shape[0], dtype=int)
    for _ in range(_STARTS):
        centers = _unit(A[np.sort(rng.choice(A.shape[0], k, replace=False))].toarray())
        labels, total = np.full(A.shape[0], -1), -np.inf
        for _ in range(_MAX_ROUNDS):
            cosines = A @ centers.T
            moved = cosines.argmax(axis=1)
            total = float(cosines.max(axis=1).sum())
            if (moved == labels).all():
                break
            labels = moved
            groups = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
            sums = np.zeros(centers.shape)
            sums[: groups.shape[0]] = (groups @ A).toarray()
            kept = np.linalg.norm(sums, axis=1, keepdims=True) > 0
            centers = np.where(kept, _unit(sums), centers)
        if total > best:
            best, answer = total, labels
    return answer


def _unit(rows: FloatArray) -> FloatArray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))


_KL = partial(_onmf, loss="kullback-leibler")
# Name -> (whether to weight the counts by tf-idf, method).
METHODS: dict[str, tuple[bool, Labeller]] = {
    KL_RAW: (False, _KL),
    "KL, counts, unit rows": (False, partial(_KL, row_scale="l2")),
    KL_TFIDF: (True, _KL),
    "Frobenius, counts": (False, _onmf),
    "Frobenius, counts, unit rows": (False, partial(_onmf, row_scale="l2")),
    "Frobenius, tf-idf": (True, _onmf),
    "k-means, tf-idf": (True, _kmeans),
    "spherical k-means, tf-idf": (True, _spherical),
    "LSA + k-means, tf-idf": (True, _lsa),
}


def tasks(session: Session) -> Items:
    """Yield a case for each set of documents: all methods on the same matrix."""
    for name in session.pick(tuple(TEXT_SETS), QUICK_SETS):
        data = load_labelled(name, session.folder)
        session.once("counts", partial(_warm_up, data.A[:50]))
        for method in METHODS:
            yield one_row(name, method, _measure, session, data, method)


def _warm_up(A: Any) -> None:
    """Compile and import all methods first, so that no run includes that time."""
    for is_weighted, label in METHODS.values():
        label(weigh(A) if is_weighted else A, 2, 0)


def weigh(A: Any) -> Any:
    """Return counts weighted by tf-idf, rows of unit norm."""
    from sklearn.feature_extraction.text import TfidfTransformer

    return csr_array(TfidfTransformer().fit_transform(A))


def _measure(session: Session, data: LabelledData, method: str) -> Figures:
    k, (is_weighted, label) = data.n_classes, METHODS[method]
    A = weigh(data.A) if is_weighted else data.A
    run = timed(lambda: label(A, k, session.seed))
    return score(data.labels, run.value) | {
        "divergence": _divergence(data.A, run.value, k),
        "cpu": run.cpu,
    }


def _divergence(A: Any, labels: IntArray, k: int) -> float:
    """Return the share of the divergence of the counts that these clusters do not explain."""
    problem = KLONMF(A, k)
    X = (labels[:, None] == np.arange(k)).astype(np.float64)
    norms = np.linalg.norm(X, axis=0)
    if not norms.all():
        return float("nan")
    return problem.value(problem.refine(X / norms)) / problem.total


def judge(rows: Rows) -> list[str]:
    """Report the mean purity and NMI over the data sets, best first."""
    lines, by_method = [], rows.by_method()
    for key, title in (("purity", "purity"), ("nmi", "NMI")):
        means = {
            name: float(np.mean([row.number(key) for row in own]))
            for name, own in by_method.items()
        }
        ordered = sorted(means.items(), key=lambda item: -item[1])
        words = ", ".join(f"{name} {mean:.1f}" for name, mean in ordered)
        lines.append(f"Mean {title} over {len(rows.by_case())} sets: {words}.")
    return lines


TABLE = Table(
    about="OrthogonalNMF with its default starts, by the Kullback-Leibler divergence (KL) and by "
    "the Frobenius norm, compared with k-means, spherical k-means and LSA (100 columns) + k-means "
    "with ten starts each; on raw counts, on counts with rows of unit norm, and on counts weighted "
    "by tf-idf with rows of unit norm.",
    columns=(
        *score_columns(".1f"),
        Column(
            "divergence",
            "div.",
            ".4f",
            "least",
            "unexplained share of the divergence of the counts from independence",
        ),
        Column("cpu", "CPU s", ".2f", "least"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{' and '.join(QUICK_SETS)} only",
)
