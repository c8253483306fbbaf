"""Match a graph with a relabeled copy of which some edges were moved."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import quadratic_assignment as scipy_assignment

from orthoplus.assignment import quadratic_assignment
from orthoplus.bench.measure import timed
from orthoplus.bench.table import Column, Figures, Items, Session, Table, one_row
from orthoplus.core.types import FloatArray

SHARES, QUICK_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2), (0.0, 0.1)
INSTANCES, QUICK_INSTANCES = 3, 1
METHODS: dict[str, Callable[..., Any]] = {
    "orthoplus": quadratic_assignment,
    "random starts": partial(quadratic_assignment, method="exchange"),
    "SciPy faq": scipy_assignment,
}


def uniform_graph(n: int, density: float, rng: np.random.Generator) -> FloatArray:
    """Draw each edge with the same probability."""
    graph = np.triu(rng.random((n, n)) < density, 1).astype(float)
    return graph + graph.T


def geometric_graph(n: int, radius: float, rng: np.random.Generator) -> FloatArray:
    """Connect points of the unit square that are close to each other."""
    points = rng.random((n, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    return ((distances < radius) & (distances > 0)).astype(float)


def preferential_graph(n: int, n_edges: int, rng: np.random.Generator) -> FloatArray:
    """Connect each new vertex to others, with probability proportional to their degrees."""
    graph = np.zeros((n, n))
    for i in range(1, n):
        weights = 1.0 + graph[:i, :i].sum(axis=1)
        others = rng.choice(i, min(i, n_edges), replace=False, p=weights / weights.sum())
        graph[i, others] = graph[others, i] = 1.0
    return graph


def move_edges(graph: FloatArray, share: float, rng: np.random.Generator) -> FloatArray:
    """Move a share of the edges to pairs without an edge."""
    upper = np.triu(np.ones(graph.shape, dtype=bool), 1)
    edges, gaps = np.argwhere(upper & (graph > 0)), np.argwhere(upper & (graph == 0))
    count = round(share * len(edges))
    changed = graph.copy()
    for pairs, entry in ((edges, 0.0), (gaps, 1.0)):
        i, j = pairs[rng.permutation(len(pairs))[:count]].T
        changed[i, j] = changed[j, i] = entry
    return changed


FAMILIES: dict[str, Callable[[np.random.Generator], FloatArray]] = {
    "uniform, n = 100, 10 %": partial(uniform_graph, 100, 0.1),
    "uniform, n = 100, 50 %": partial(uniform_graph, 100, 0.5),
    "uniform, n = 300, 5 %": partial(uniform_graph, 300, 0.05),
    "geometric, n = 100": partial(geometric_graph, 100, 0.2),
    "preferential, n = 100": partial(preferential_graph, 100, 4),
}
QUICK_FAMILIES = ("geometric, n = 100",)


def tasks(session: Session) -> Items:
    """Yield a case for each family and share of moved edges."""
    for call in METHODS.values():
        call(np.eye(9), np.eye(9))  # compile
    for family in session.pick(tuple(FAMILIES), QUICK_FAMILIES):
        for share in session.pick(SHARES, QUICK_SHARES):
            case = f"{family}, {100 * share:.0f} % moved"
            for method in METHODS:
                yield one_row(case, method, _measure, session, family, share, method)


def _measure(session: Session, family: str, share: float, method: str) -> Figures:
    found, seconds, count = 0, 0.0, session.pick(INSTANCES, QUICK_INSTANCES)
    for rng in session.rngs(INSTANCES, QUICK_INSTANCES):
        graph = FAMILIES[family](rng)
        changed, p = move_edges(graph, share, rng), rng.permutation(len(graph))
        call = partial(METHODS[method], changed[np.ix_(p, p)], graph, options={"maximize": True})
        run = timed(call)
        found += run.value.fun >= (graph * changed).sum()
        seconds += run.cpu
    return {"found": 100.0 * found / count, "count": count, "cpu": seconds}


TABLE = Table(
    about="The default of `quadratic_assignment`, its random starts alone, and SciPy's `faq`.",
    columns=(
        Column("found", "found %", ".0f", "most", "with at least the hidden common edges"),
        Column("count", "instances", ".0f"),
        Column("cpu", "CPU s", ".2f", "least"),
    ),
    tasks=tasks,
    quick_about="one family, two shares, one instance",
)
