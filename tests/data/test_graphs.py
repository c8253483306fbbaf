"""Graphs of NetworkX and igraph: their matrices, clusters and matchings."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import orthoplus as op
from orthoplus.data.graphs import graph_matrix, is_graph

# Two triangles joined by a weak edge, and a vertex alone.
EDGES = [(0, 1, 2.0), (1, 2, 3.0), (0, 2, 1.0), (3, 4, 2.0), (4, 5, 1.0), (3, 5, 2.0), (2, 3, 0.1)]
N_VERTICES = 7


def networkx_graph(edges=EDGES, directed=False):
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph() if directed else networkx.Graph()
    graph.add_nodes_from(range(N_VERTICES))
    graph.add_weighted_edges_from(edges)
    return graph


def igraph_graph(edges=EDGES, directed=False):
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph(N_VERTICES, [edge[:2] for edge in edges], directed=directed)
    graph.es["weight"] = [edge[2] for edge in edges]
    return graph


LIBRARIES = {"networkx": networkx_graph, "igraph": igraph_graph}


@pytest.fixture(params=LIBRARIES)
def make(request):
    return LIBRARIES[request.param]


def matrix_of(edges=EDGES, directed=False):
    W = np.zeros((N_VERTICES, N_VERTICES))
    for i, j, weight in edges:
        W[i, j] += weight
        if not directed and i != j:
            W[j, i] += weight
    return W


def test_matrix_has_the_weights(make):
    loops = [*EDGES, (6, 6, 4.0)]
    assert is_graph(make())
    np.testing.assert_array_equal(graph_matrix(make(loops), "X").toarray(), matrix_of(loops))
    directed = graph_matrix(make(directed=True), "X", accept_directed=True)
    np.testing.assert_array_equal(directed.toarray(), matrix_of(directed=True))


def test_edges_without_weight_have_weight_one():
    networkx, igraph = pytest.importorskip("networkx"), pytest.importorskip("igraph")
    expected = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)
    for graph in (networkx.path_graph(4), igraph.Graph([(0, 1), (1, 2), (2, 3)])):
        np.testing.assert_array_equal(graph_matrix(graph, "X").toarray(), expected)
    assert graph_matrix(igraph.Graph(3), "X").nnz == 0


def test_graph_is_clustered_as_its_matrix_and_a_vertex_alone_has_no_cluster(make):
    model = op.NonnegativeSpectralClustering(2).fit(make())
    assert model.labels_[-1] == -1
    assert adjusted_rand_score([0, 0, 0, 1, 1, 1], model.labels_[:-1]) == 1.0
    assert not model.embedding_[-1].any()
    precomputed = op.NonnegativeSpectralClustering(2, affinity="precomputed").fit(matrix_of())
    np.testing.assert_array_equal(precomputed.labels_, model.labels_)
    assert model.certify(make()).is_optimal
    # Without the vertex alone the problem is the same.
    rest = op.NonnegativeSpectralClustering(2, affinity="precomputed").fit(matrix_of()[:-1, :-1])
    assert rest.objective_ == pytest.approx(model.objective_, rel=1e-12)


def test_clusters_are_not_spent_on_vertices_alone(make):
    with pytest.raises(op.InputError, match=r"the 6 of 7 samples .* at most 6"):
        op.NonnegativeSpectralClustering(7).fit(make())


def test_directed_graph_is_refused_with_the_line_that_helps(make):
    with pytest.raises(op.InputTypeError, match="undirected") as raised:
        op.NonnegativeSpectralClustering(2).fit(make(directed=True))
    line = str(raised.value).split("`")[3]
    undirected = eval(line, {"X": make(directed=True)})
    assert not undirected.is_directed()
    op.NonnegativeSpectralClustering(2).fit(undirected)


def test_graphs_of_unequal_sizes_are_matched(make):
    part = [(i, j, weight) for i, j, weight in EDGES if max(i, j) < 3]
    small = make(part).subgraph(range(3))
    found = op.quadratic_assignment(small, make(), options={"maximize": True})
    assert found.fun == 2 * (2 * 2 + 3 * 3 + 1 * 1)
    np.testing.assert_array_equal(np.sort(found.col_ind), [0, 1, 2])
    back = op.quadratic_assignment(make(), small, options={"maximize": True})
    assert (back.col_ind == -1).sum() == N_VERTICES - 3
    assert back.fun == found.fun


def test_directed_graphs_are_matched_by_their_arcs(make):
    turned = [(j, i, weight) for i, j, weight in EDGES]
    A, B = make(directed=True), make(turned, directed=True)
    arrays = op.quadratic_assignment(matrix_of(directed=True), matrix_of(turned, directed=True))
    assert op.quadratic_assignment(A, B).fun == arrays.fun


@pytest.mark.parametrize(
    "weight",
    ["heavy", None, np.nan, np.inf, 1j, 10**400, [1.0], {}],
    ids=lambda weight: repr(weight)[:9],
)
def test_weight_that_is_not_a_number_is_refused_in_one_line(make, weight):
    graph = make([*EDGES, (5, 6, weight)])
    for call in (
        op.NonnegativeSpectralClustering(2).fit,
        lambda graph: op.quadratic_assignment(graph, np.eye(2)),
    ):
        with pytest.raises(op.InputError, match="is a graph whose edge from 5 to 6") as raised:
            call(graph)
        assert "\n" not in str(raised.value)


def test_graph_without_edges_has_no_clusters(make):
    for edges in ([], [(0, 0, 1.0)], [(0, 1, 0.0)]):
        with pytest.raises(op.InputError, match="links no two samples"):
            op.NonnegativeSpectralClustering(2).fit(make(edges))


def test_parallel_edges_are_added_and_loops_count_once():
    networkx, igraph = pytest.importorskip("networkx"), pytest.importorskip("igraph")
    edges = [(0, 1), (0, 1), (1, 1)]
    for graph in (networkx.MultiGraph(edges), igraph.Graph(edges)):
        assert graph_matrix(graph, "X").toarray().tolist() == [[0, 2], [2, 1]]
