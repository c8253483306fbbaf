"""KIndicatorsClustering: scikit-learn's own checks, and what it promises beyond them."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs, make_circles
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import orthoplus as op
from orthoplus.geometry.stiefel import violation


@parametrize_with_checks(
    [op.KIndicatorsClustering(), op.KIndicatorsClustering(embedding="laplacian", n_init=2)]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def directions(rng, n=60, k=3):
    """Rows along k directions that are nearly orthogonal, and which."""
    groups = rng.permutation(np.arange(n) % k)
    A = (1.0 + rng.random((n, 1))) * np.eye(k, 8)[groups] + 0.05 * rng.standard_normal((n, 8))
    return A, groups


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_groups_of_directions_are_found_from_singular_vectors(container, rng):
    A, groups = directions(rng)
    model = op.KIndicatorsClustering(3).fit(container(A))
    assert adjusted_rand_score(groups, model.labels_) == 1.0
    assert violation(model.indicators_) <= 1e-13
    np.testing.assert_allclose(model.embedding_.T @ model.embedding_, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(model.rotation_.T @ model.rotation_, np.eye(3), atol=1e-12)
    distance = np.linalg.norm(model.embedding_ @ model.rotation_ - model.indicators_) ** 2
    assert model.objective_ == pytest.approx(distance)


def test_rings_are_found_from_the_graph_of_neighbors():
    A, groups = make_circles(200, factor=0.4, noise=0.03, random_state=0)
    model = op.KIndicatorsClustering(2, embedding="laplacian", random_state=0)
    assert adjusted_rand_score(groups, model.fit_predict(A)) == 1.0


def test_blobs_are_found_from_the_graph_of_neighbors():
    A, groups = make_blobs(150, centers=5, cluster_std=0.5, random_state=3)
    model = op.KIndicatorsClustering(5, embedding="laplacian", random_state=0)
    assert adjusted_rand_score(groups, model.fit_predict(A)) > 0.98


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precomputed_embedding_is_the_problem_itself(dtype, rng):
    A, _ = directions(rng)
    U = np.linalg.svd(A, full_matrices=False)[0][:, :3].astype(dtype)
    model = op.KIndicatorsClustering(3, embedding="precomputed").fit(U)
    result = op.solve(op.problems.KIndicators(U))
    np.testing.assert_array_equal(model.labels_, result.labels)
    np.testing.assert_array_equal(model.embedding_, U)


def test_every_row_with_data_has_a_cluster_and_no_cluster_is_empty(rng):
    A = rng.standard_normal((30, 6))
    A[4] = 0.0  # its row of U is zero
    model = op.KIndicatorsClustering(6).fit(A)
    assert sorted(set(np.delete(model.labels_, 4))) == list(range(6))
    assert model.labels_[4] == -1
    assert len(model.labels_) == 30
    weighted = model.indicators_.any(axis=1)
    np.testing.assert_array_equal(
        model.labels_[weighted], model.indicators_.argmax(axis=1)[weighted]
    )


DEGENERATE = {
    "equal rows": (np.ones((8, 4)), 3),
    "rows three times": (np.repeat(np.arange(12.0).reshape(4, 3), 3, axis=0), 4),
    "as many clusters as rows": (np.arange(20.0).reshape(5, 4) ** 2, 5),
    "as many clusters as rows, rows twice": (np.repeat(np.eye(3, 4), 2, axis=0), 6),
    "one cluster": (np.arange(6.0).reshape(3, 2), 1),
    "two rows": (np.array([[1.0, 2.0], [3.0, 4.0]]), 2),
    "three rows of one column": (np.array([[1.0], [2.0], [9.0]]), 2),
    "rows of zeros": (np.vstack([np.zeros((4, 3)), np.eye(3)]), 3),
    "zeros": (np.zeros((7, 3)), 3),
}


@pytest.mark.parametrize("embedding", ["svd", "laplacian"])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_fill_every_cluster_without_a_warning(name, embedding):
    A, k = DEGENERATE[name]
    model = op.KIndicatorsClustering(k, embedding=embedding, random_state=0).fit(A)
    assert model.labels_.shape == (len(A),)
    # For the Laplacian embedding, a row of zeros is a point like others.
    has_cluster = A.any(axis=1) if embedding == "svd" else np.ones(len(A), dtype=bool)
    np.testing.assert_array_equal(model.labels_ >= 0, has_cluster)
    if has_cluster.any():
        assert sorted(set(model.labels_[has_cluster])) == list(range(k))
    assert violation(model.indicators_) <= 1e-13


def test_more_clusters_than_columns_still_fill_every_cluster(rng):
    labels = op.KIndicatorsClustering(4).fit_predict(rng.standard_normal((20, 2)))
    assert sorted(set(labels)) == [0, 1, 2, 3]


def test_more_runs_are_never_worse(rng):
    A = rng.standard_normal((40, 6))
    one, many = (
        op.KIndicatorsClustering(5, n_init=n, random_state=0).fit(A).objective_ for n in (1, 4)
    )
    assert many <= one + 1e-12


def test_unfinished_run_warns(rng):
    method = op.EP4Orth(max_iter=1)
    with pytest.warns(ConvergenceWarning, match="iteration"):
        op.KIndicatorsClustering(3, method=method).fit(rng.standard_normal((30, 5)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 40}, "too many for n_samples = 20"),
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_init": 0}, "n_init"),
        ({"embedding": "pca"}, "Choose one of svd, laplacian, precomputed"),
        ({"n_clusters": 3, "embedding": "precomputed"}, "one for each of the 3 clusters"),
    ],
)
def test_bad_parameters_are_explained(options, message, rng):
    with pytest.raises(ValueError, match=message):
        op.KIndicatorsClustering(**options).fit(rng.standard_normal((20, 5)))


@pytest.mark.parametrize("storage", ["array", "csr", "csc", "dask", "blocks", "float32"])
def test_row_of_zeros_has_no_cluster(storage, rng):
    A, groups = directions(rng)
    A[[0, 7]], groups = 0.0, np.delete(groups, [0, 7])
    forms = {
        "csr": sp.csr_array,
        "csc": sp.csc_matrix,
        "dask": lambda A: da.from_array(A, chunks=(17, 8)),
        "float32": np.float32,
    }
    limit = 2048 if storage == "blocks" else None
    model = op.KIndicatorsClustering(3, memory_limit=limit).fit(forms.get(storage, np.asarray)(A))
    labels = np.asarray(model.labels_)
    np.testing.assert_array_equal(np.flatnonzero(labels < 0), [0, 7])
    assert adjusted_rand_score(groups, np.delete(labels, [0, 7])) == 1.0
    assert not np.asarray(model.indicators_)[[0, 7]].any()


def test_row_of_zeros_of_an_embedding_has_no_cluster(rng):
    U = np.linalg.qr(rng.random((12, 3)))[0]
    U[4] = 0.0
    labels = op.KIndicatorsClustering(3, embedding="precomputed").fit(U).labels_
    np.testing.assert_array_equal(np.flatnonzero(labels < 0), [4])


def test_more_clusters_than_samples_with_data_leave_rows_of_zeros_out():
    A = np.zeros((6, 4))
    A[[1, 4]] = np.eye(4)[:2]
    labels = op.KIndicatorsClustering(3).fit(A).labels_
    np.testing.assert_array_equal(np.flatnonzero(labels >= 0), [1, 4])


def test_laplacian_embedding_has_the_origin_as_a_sample(rng):
    A = np.vstack([np.zeros((1, 2)), 0.1 * rng.random((9, 2)), 5.0 + 0.1 * rng.random((10, 2))])
    labels = op.KIndicatorsClustering(2, embedding="laplacian", n_neighbors=3).fit(A).labels_
    assert adjusted_rand_score(np.arange(20) >= 10, labels) == 1.0
