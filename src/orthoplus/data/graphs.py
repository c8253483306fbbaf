"""Convert NetworkX and igraph graphs to weight matrices, without importing either library."""

from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from orthoplus.core.errors import InputError, InputTypeError

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
    if is_networkx:
        import networkx

        return csr_array(networkx.to_scipy_sparse_array(graph, weight=WEIGHT, dtype=np.float64))
    return _igraph_matrix(graph)


def _igraph_matrix(graph: Any) -> csr_array:
    edges = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    is_weighted = WEIGHT in graph.es.attributes()
    weights = np.array(graph.es[WEIGHT] if is_weighted else np.ones(len(edges)), dtype=np.float64)
    rows, columns = edges.T
    if not graph.is_directed():  # mirror the edges, but count self-loops once
        apart = rows != columns
        rows, columns = np.r_[rows, columns[apart]], np.r_[columns, edges[apart, 0]]
        weights = np.r_[weights, weights[apart]]
    n = graph.vcount()
    return csr_array(coo_array((weights, (rows, columns)), shape=(n, n)))


def _library(value: Any) -> str | None:
    names = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    if ("networkx", "Graph") in names:
        return "networkx"
    return "igraph" if ("igraph", "Graph") in names or ("igraph", "GraphBase") in names else None
