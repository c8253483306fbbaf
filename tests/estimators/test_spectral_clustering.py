"""Nonnegative spectral clustering: scikit-learn's checks, known graphs, against its rival."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_circles
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import orthoplus as op
from orthoplus.datasets import planted_partition
from orthoplus.geometry.stiefel import assemble, violation
from orthoplus.problems import laplacian_embedding

NSC = op.NonnegativeSpectralClustering


@parametrize_with_checks([NSC(), NSC(affinity="rbf", normalized=False, n_init=2, with_bound=True)])
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.fixture
def graph(rng):
    return planted_partition([40, 30, 20], 0.5, 0.05, rng)


@pytest.mark.parametrize("container", [sp.csr_array.toarray, sp.csr_array, sp.csr_matrix])
def test_planted_groups_are_found(graph, container):
    model = NSC(3, affinity="precomputed", with_bound=True).fit(container(graph.W))
    assert adjusted_rand_score(graph.labels, model.labels_) == 1.0
    assert violation(model.embedding_) <= 1e-13
    problem = laplacian_embedding(graph.W, 3, normalized=True)
    assert model.objective_ == pytest.approx(problem.value(model.embedding_))
    assert model.bound_ == pytest.approx(problem.lower_bound())
    assert model.gap_ == pytest.approx(model.objective_ / model.bound_ - 1)


@pytest.mark.parametrize("normalized", [True, False])
def test_components_of_a_graph_are_its_groups(normalized):
    W = sp.block_diag([np.ones((n, n)) for n in (3, 7, 20)], format="csr")
    model = NSC(3, affinity="precomputed", normalized=normalized).fit(W)
    assert adjusted_rand_score(np.repeat([0, 1, 2], [3, 7, 20]), model.labels_) == 1.0
    assert model.objective_ == pytest.approx(0.0, abs=1e-12)


def test_rings_are_told_apart_where_k_means_cannot():
    X, rings = make_circles(300, factor=0.4, noise=0.04, random_state=0)
    assert adjusted_rand_score(rings, NSC(2).fit_predict(X)) == 1.0
    assert adjusted_rand_score(rings, NSC(2, affinity="rbf", gamma=30).fit_predict(X)) == 1.0


def test_objective_is_below_that_of_ordinary_spectral_clustering(rng):
    for sizes in ([60] * 4, [100, 60, 30]):
        W, _ = planted_partition(sizes, 0.2, 0.05, rng)
        k = len(sizes)
        model = NSC(k, affinity="precomputed").fit(W)
        rival = SpectralClustering(k, affinity="precomputed", random_state=0).fit_predict(W)
        problem = laplacian_embedding(W, k, normalized=True)
        refined = problem.refine(assemble(rival, np.ones(len(rival)), k))
        assert model.objective_ <= problem.value(refined) + 1e-12


def test_digits_are_clustered_as_well_as_by_ordinary_spectral_clustering():
    X, digits = load_digits(return_X_y=True)
    X, digits = X[:600], digits[:600]
    model = NSC(10).fit(X)
    W = model.affinity_matrix_
    rival = SpectralClustering(10, affinity="precomputed", random_state=0).fit_predict(W)
    assert op.metrics.nmi(digits, model.labels_) >= op.metrics.nmi(digits, rival) - 0.01


def test_vertex_without_an_edge_has_no_label_and_no_cluster(graph):
    W = sp.block_diag([graph.W, sp.csr_array((2, 2))], format="csr")
    model = NSC(3, affinity="precomputed").fit(W)
    assert np.flatnonzero(model.labels_ < 0).tolist() == [W.shape[0] - 2, W.shape[0] - 1]
    assert (np.bincount(model.labels_[:-2], minlength=3) > 0).all()


@pytest.mark.parametrize("affinity", ["nearest_neighbors", "rbf"])
@pytest.mark.parametrize(
    ("X", "k"),
    [
        (np.ones((8, 4)), 3),
        (np.repeat(np.arange(12.0).reshape(4, 3), 3, axis=0), 4),
        (np.arange(20.0).reshape(5, 4), 5),
        (np.array([[1.0], [2.0]]), 2),
        (np.vstack([np.zeros((4, 3)), np.eye(3)]), 3),
    ],
    ids=["equal", "thrice", "k = n", "n = 2", "zero rows"],
)
def test_degenerate_data_fill_every_cluster(X, k, affinity):
    model = NSC(k, affinity=affinity, random_state=0).fit(X)
    assert sorted(set(model.labels_)) == list(range(k))
    assert violation(model.embedding_) <= 1e-13


def test_more_runs_are_never_worse_and_repeatable(rng):
    W, _ = planted_partition([30] * 5, 0.2, 0.1, rng)
    one, several, again = (
        NSC(5, affinity="precomputed", n_init=n, random_state=0).fit(W) for n in (1, 4, 4)
    )
    assert several.objective_ <= one.objective_ + 1e-12
    np.testing.assert_array_equal(several.embedding_, again.embedding_)


def test_bad_input_is_explained(rng):
    X = rng.random((6, 3))
    with pytest.raises(ValueError, match=r"`n_clusters=7` is too many for n_samples = 6"):
        NSC(7).fit(X)
    with pytest.raises(ValueError, match=r"`affinity='cosine'` is unknown. Choose one of nearest"):
        NSC(2, affinity="cosine").fit(X)
    with pytest.raises(ValueError, match=r"`X` has shape \(6, 3\): a square matrix"):
        NSC(2, affinity="precomputed").fit(X)
    with pytest.raises(ValueError, match="`X` is not symmetric"):
        NSC(2, affinity="precomputed").fit(rng.random((6, 6)))
    with pytest.raises(ValueError, match=r"`n_neighbors=0` is out of range"):
        NSC(2, n_neighbors=0).fit(X)
    with pytest.warns(ConvergenceWarning, match="limit"):
        NSC(5, method=op.EP4Orth(max_iter=1, penalty_start=1e-9)).fit(rng.random((60, 3)))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_distances_beyond_the_range_are_refused(form):
    X = form(np.array([[1e300], [2e300], [0.0]]))
    with pytest.raises(ValueError, match=r"squared distances .* Rescale the data"):
        op.NonnegativeSpectralClustering(2, affinity="rbf").fit(X)
