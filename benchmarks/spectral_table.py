"""Nonnegative against ordinary spectral clustering, on the same graphs.

The digits with their ten nearest neighbours, and two kinds of planted-partition graphs (means over
five of each). The objective is tr(V'LV), L the normalised Laplacian, at the labels of each method
with the best weights: the smallest eigenvalue of each group's block, summed. Lower is better; no V
is below the bound. The normalised cut is that of the labels alone.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits

import orthoplus as op
from orthoplus.datasets import planted_partition
from orthoplus.geometry.stiefel import assemble
from orthoplus.problems import TraceMin, laplacian_embedding

N_GRAPHS = 5
N_TIMES = 3
PLANTED = {
    "8 groups of 100": ([100] * 8, 0.12, 0.03),
    "groups of 300 to 40": ([300, 200, 100, 60, 40], 0.12, 0.02),
}
METHODS: dict[str, Callable[[int], Any]] = {
    "orthoplus": lambda k: op.NonnegativeSpectralClustering(
        k, affinity="precomputed", random_state=0
    ),
    "orthoplus, n_init=5": lambda k: op.NonnegativeSpectralClustering(
        k, affinity="precomputed", random_state=0, n_init=5
    ),
    **{
        f"scikit-learn, {assign}": lambda k, assign=assign: SpectralClustering(
            k, affinity="precomputed", assign_labels=assign, random_state=0
        )
        for assign in ("kmeans", "discretize", "cluster_qr")
    },
}


def graphs() -> dict[str, list[tuple[Any, Any]]]:
    """Name -> pairs of a graph and its groups."""
    X, digits = load_digits(return_X_y=True)
    op.NonnegativeSpectralClustering(2).fit(X[:50])  # compiles the kernels
    neighbours = op.NonnegativeSpectralClustering(10).fit(X).affinity_matrix_
    sets = {"digits": [(neighbours, digits)]}
    for name, arguments in PLANTED.items():
        sets[name] = [
            tuple(planted_partition(*arguments, np.random.default_rng(seed)))
            for seed in range(N_GRAPHS)
        ]
    return sets


def best_value(problem: TraceMin, labels: Any) -> float:
    """The objective of these groups with their best weights."""
    refined = problem.refine(assemble(labels, np.ones(len(labels)), problem.k))
    return problem.value(refined)


def normalised_cut(problem: TraceMin, W: Any, labels: Any) -> float:
    degrees = np.asarray(W.sum(axis=1)).ravel() - W.diagonal()
    return problem.value(assemble(labels, np.sqrt(degrees), problem.k))


def measure(make: Callable[[int], Any], W: Any, truth: Any) -> list[float]:
    k = len(np.unique(truth))
    seconds = []
    for _ in range(N_TIMES):
        clock = time.perf_counter()
        labels = make(k).fit_predict(W)
        seconds.append(time.perf_counter() - clock)
    problem = laplacian_embedding(W, k, normalized=True)
    return [
        100 * op.metrics.nmi(truth, labels),
        best_value(problem, labels),
        normalised_cut(problem, W, labels),
        min(seconds),
    ]


def main() -> None:
    print(f"{'method':>24} {'NMI %':>7} {'objective':>10} {'norm. cut':>10} {'seconds':>8}")
    for name, pairs in graphs().items():
        problems = [
            laplacian_embedding(W, len(np.unique(truth)), normalized=True) for W, truth in pairs
        ]
        bound = np.mean([problem.lower_bound() for problem in problems])
        truth = np.mean(
            [best_value(problem, t) for problem, (_, t) in zip(problems, pairs, strict=True)]
        )
        n = pairs[0][0].shape[0]
        print(f"{name} (n = {n}): bound {bound:.4f}, the true groups {truth:.4f}")
        for method, make in METHODS.items():
            nmi, value, cut, seconds = np.mean([measure(make, W, t) for W, t in pairs], axis=0)
            print(f"{method:>24} {nmi:>7.2f} {value:>10.4f} {cut:>10.4f} {seconds:>8.2f}")


if __name__ == "__main__":
    main()
