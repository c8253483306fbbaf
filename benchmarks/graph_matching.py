"""Match a graph with a relabelled copy of which some edges were moved: how often is it found?

For each family of graphs and share of moved edges, the share of instances in which the number of
common edges is at least that of the hidden relabelling, and the CPU seconds in all: the default of
`quadratic_assignment`, its random starts alone, and SciPy's ``faq``.
"""

import sys
import time

import numpy as np
from scipy.optimize import quadratic_assignment as scipy_assignment

import orthoplus as op

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2)
MAXIMIZE = {"maximize": True}
METHODS = {
    "orthoplus": lambda A, B: op.quadratic_assignment(A, B, options=MAXIMIZE),
    "random starts": lambda A, B: op.quadratic_assignment(A, B, "exchange", MAXIMIZE),
    "SciPy faq": lambda A, B: scipy_assignment(A, B, options=MAXIMIZE),
}


def uniform_graph(n, density, rng):
    """Each edge with the same probability."""
    graph = np.triu(rng.random((n, n)) < density, 1).astype(float)
    return graph + graph.T


def geometric_graph(n, radius, rng):
    """Points of the unit square, joined if they are near."""
    points = rng.random((n, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    return ((distances < radius) & (distances > 0)).astype(float)


def preferential_graph(n, n_edges, rng):
    """Each new vertex joined to some others, by their degrees."""
    graph = np.zeros((n, n))
    for i in range(1, n):
        weights = 1.0 + graph[:i, :i].sum(axis=1)
        others = rng.choice(i, min(i, n_edges), replace=False, p=weights / weights.sum())
        graph[i, others] = graph[others, i] = 1.0
    return graph


def move_edges(graph, share, rng):
    """Put a share of the edges where none is."""
    upper = np.triu(np.ones(graph.shape, dtype=bool), 1)
    edges, gaps = np.argwhere(upper & (graph > 0)), np.argwhere(upper & (graph == 0))
    count = round(share * len(edges))
    changed = graph.copy()
    for pairs, entry in ((edges, 0.0), (gaps, 1.0)):
        i, j = pairs[rng.permutation(len(pairs))[:count]].T
        changed[i, j] = changed[j, i] = entry
    return changed


FAMILIES = {
    "uniform, n = 100, 10 %": lambda rng: uniform_graph(100, 0.1, rng),
    "uniform, n = 100, 50 %": lambda rng: uniform_graph(100, 0.5, rng),
    "uniform, n = 300, 5 %": lambda rng: uniform_graph(300, 0.05, rng),
    "geometric, n = 100": lambda rng: geometric_graph(100, 0.2, rng),
    "preferential, n = 100": lambda rng: preferential_graph(100, 4, rng),
}


def main(n_seeds):
    """Print a line for each family, share and method."""
    for family, make in FAMILIES.items():
        for share in SHARES:
            found, seconds = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0.0)
            for seed in range(n_seeds):
                rng = np.random.default_rng(seed)
                graph = make(rng)
                changed, p = move_edges(graph, share, rng), rng.permutation(len(graph))
                for name, method in METHODS.items():
                    begin = time.process_time()
                    value = method(changed[np.ix_(p, p)], graph).fun
                    seconds[name] += time.process_time() - begin
                    found[name] += value >= (graph * changed).sum()
            cells = (f"{name} {found[name]}/{n_seeds} {seconds[name]:.2f} s" for name in METHODS)
            print(f"{family:24s} {100 * share:3.0f} % moved:  {';  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
