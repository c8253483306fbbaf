"""Convert NetworkX and igraph graphs to weight matrices, without importing either library."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.types import FloatArray, IntArray

# Name of the edge attribute with the weight, in both libraries.
WEIGHT = "weight"


def is_graph(value: Any) -> bool:
    """Return whether this is a NetworkX or igraph graph.

    Examples
    --------
    >>> is_graph(np.eye(3))
    False
    """
    return _library(value) is not None


def graph_matrix(graph: Any, name: str, *, accept_directed: bool = False) -> csr_array:
    """Return the weight matrix of a graph in float64, in the order of its vertices.

    Edges without the attribute "weight" have the weight 1; parallel edges are added.
    """
    is_networkx = _library(graph) == "networkx"
    if (len(graph) if is_networkx else graph.vcount()) == 0:
        raise InputError(f"`{name}` is a graph without vertices. Pass a graph with at least one.")
    if graph.is_directed() and not accept_directed:
        line = f"{name}.to_undirected()" if is_networkx else f"{name}.as_undirected()"
        raise InputTypeError(
            f"`{name}` is a directed graph: an undirected one is needed. Pass `{line}` to ignore "
            f"the directions of the edges."
        )
    vertices = list(graph) if is_networkx else range(graph.vcount())
    edges = np.array(_edges(graph, vertices), dtype=np.int64).reshape(-1, 2)
    weights = np.array([_as_number(weight) for weight in _weights(graph)], dtype=np.float64)
    if not np.isfinite(weights).all():
        first, last = (vertices[i] for i in edges[np.isfinite(weights).argmin()])
        raise InputError(
            f"`{name}` is a graph whose edge from {first!r} to {last!r} has a weight that is not a "
            f"finite number. Set the attribute {WEIGHT!r} of every edge to a number, or of none."
        )
    return _matrix(edges, weights, len(vertices), is_directed=graph.is_directed())


def _edges(graph: Any, vertices: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the positions of the ends of each edge."""
    if hasattr(graph, "get_edgelist"):
        return list(graph.get_edgelist())
    place = {vertex: i for i, vertex in enumerate(vertices)}
    return [(place[u], place[v]) for u, v, *_ in graph.edges]


def _weights(graph: Any) -> list[Any]:
    """Return the weight of each edge; None if it is missing at some edges of an igraph graph."""
    if not hasattr(graph, "get_edgelist"):
        return [weight for *_, weight in graph.edges(data=WEIGHT, default=1)]
    is_weighted = WEIGHT in graph.es.attributes()
    return graph.es[WEIGHT] if is_weighted else [1] * graph.ecount()


def _as_number(weight: Any) -> float:
    try:
        return float(weight)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _matrix(edges: IntArray, weights: FloatArray, n: int, *, is_directed: bool) -> csr_array:
    rows, columns = edges.T
    if not is_directed:  # mirror the edges, but count self-loops once
        apart = rows != columns
        rows, columns = np.r_[rows, columns[apart]], np.r_[columns, edges[apart, 0]]
        weights = np.r_[weights, weights[apart]]
    return csr_array(coo_array((weights, (rows, columns)), shape=(n, n)))


def _library(value: Any) -> str | None:
    names = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    if ("networkx", "Graph") in names:
        return "networkx"
    return "igraph" if ("igraph", "Graph") in names or ("igraph", "GraphBase") in names else None
