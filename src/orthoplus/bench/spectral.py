"""Compare nonnegative and ordinary spectral clustering on the same graphs.

The objective is tr(V'LV), L the normalized Laplacian, at the labels of each method with the best
weights: the smallest eigenvalue of each group's block, summed. No V is below the bound.
"""

from functools import partial
from typing import Any

import numpy as np

from orthoplus.bench.measure import take_turns
from orthoplus.bench.table import Column, Figures, Items, Session, Table, one_row
from orthoplus.core.types import IntArray
from orthoplus.datasets import planted_partition
from orthoplus.estimators import NonnegativeSpectralClustering
from orthoplus.geometry.stiefel import assemble
from orthoplus.metrics import nmi
from orthoplus.problems import laplacian_embedding

GRAPHS, QUICK_GRAPHS, QUICK_DIGITS = 5, 1, 200
ROUNDS, QUICK_ROUNDS = 3, 1
PLANTED = {
    "8 groups of 100": ([100] * 8, 0.12, 0.03),
    "groups of 300 to 40": ([300, 200, 100, 60, 40], 0.12, 0.02),
}
TRUTH = "true groups"
Graph = tuple[Any, IntArray]  # its weights, and the groups of its vertices


def make_methods(seed: int) -> dict[str, Any]:
    """Return estimators by name, each to be called with the number of clusters."""
    from sklearn.cluster import SpectralClustering

    options: Any = {"affinity": "precomputed", "random_state": seed}
    ours = partial(NonnegativeSpectralClustering, **options)
    methods = {TRUTH: None, "orthoplus": ours, "orthoplus, n_init=5": partial(ours, n_init=5)}
    for assign in ("kmeans", "discretize", "cluster_qr"):
        theirs = partial(SpectralClustering, assign_labels=assign, **options)
        methods[f"scikit-learn, {assign}"] = theirs
    return methods


def make_graphs(session: Session) -> dict[str, list[Graph]]:
    """Make the digits with their ten nearest neighbors, and planted partitions."""
    from sklearn.datasets import load_digits

    X, digits = (part[: session.pick(None, QUICK_DIGITS)] for part in load_digits(return_X_y=True))
    NonnegativeSpectralClustering(2).fit(X[:50])  # compile
    graphs = {"digits": [(NonnegativeSpectralClustering(10).fit(X).affinity_matrix_, digits)]}
    for name, arguments in PLANTED.items():
        rngs = session.rngs(GRAPHS, QUICK_GRAPHS)
        graphs[name] = [tuple(planted_partition(*arguments, rng)) for rng in rngs]
    return graphs


def tasks(session: Session) -> Items:
    """Yield a case for each kind of graph, with the true groups among the methods."""
    for name, graphs in make_graphs(session).items():
        for method, make in make_methods(session.seed).items():
            yield one_row(name, method, _mean, graphs, make, session.pick(ROUNDS, QUICK_ROUNDS))


def _mean(graphs: list[Graph], make: Any, rounds: int) -> Figures:
    found = [_measure(W, truth, make, rounds) for W, truth in graphs]
    return {key: float(np.mean([figures[key] for figures in found])) for key in found[0]}


def _measure(W: Any, truth: IntArray, make: Any, rounds: int) -> dict[str, float]:
    """Measure one method on one graph; the weights of the cut are the degrees."""
    k, labels, figures = len(np.unique(truth)), truth, dict[str, float]()
    problem = laplacian_embedding(W, k, normalized=True)
    if make is None:
        figures = {"bound": problem.lower_bound()}
    else:
        run = take_turns({"": lambda: make(k).fit_predict(W)}, rounds)[""]
        labels = run.value
        figures = {"nmi": 100.0 * nmi(truth, labels), "cpu": run.cpu, "wall": run.wall}
    degrees = np.asarray(W.sum(axis=1)).ravel() - W.diagonal()
    X = assemble(labels, np.ones(len(labels)), k)
    refined = problem.refine(X)
    cut = problem.value(assemble(labels, np.sqrt(degrees), k))
    return figures | {"objective": problem.value(X if refined is None else refined), "cut": cut}


TABLE = Table(
    about=f"The digits with their ten nearest neighbors, and means over {GRAPHS} planted graphs of "
    "each kind.",
    columns=(
        Column("nmi", "NMI", ".2f", "most", "in percent"),
        Column("objective", "objective", ".4f", "least", "tr(V'LV) with the best weights"),
        Column("cut", "cut", ".4f", "least", "the normalized cut of the labels"),
        Column("bound", "bound", ".4f", "", "a lower bound on the objective"),
        Column("cpu", "CPU s", ".2f", "least"),
    ),
    tasks=tasks,
    quick_about=f"{QUICK_DIGITS} digits, one graph of each kind, one round",
)
