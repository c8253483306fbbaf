"""Spherical k-means and LSA + k-means: scikit-learn's own, on what they say."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

import orthoplus as op
from orthoplus.methods.baselines import LSAKMeans, SphericalKMeans
from orthoplus.problems import ONMF


def step(method, A, k):
    problem = ONMF(A, k)
    return method.step(problem, method.init(problem, problem.start(np.random.default_rng(0))))


def test_spherical_k_means_is_k_means_of_unit_rows(rng):
    A = rng.random((40, 12)) * rng.uniform(0.1, 10.0, (40, 1))
    state = step(SphericalKMeans(seed=3), A, 4)
    model = KMeans(4, n_init=10, random_state=3).fit(normalize(A))
    assert (state.X.argmax(axis=1) == model.labels_).all()
    centers = normalize(model.cluster_centers_)
    for j in range(4):
        rows = model.labels_ == j
        expected = A[rows] @ centers[j]
        assert np.allclose(state.X[rows, j], expected / np.linalg.norm(expected), atol=1e-8)


def test_norms_of_the_rows_do_not_change_the_labels_of_spherical_k_means(rng):
    A = rng.random((40, 12))
    one = op.solve(ONMF(A, 4), method=SphericalKMeans()).labels
    other = op.solve(ONMF(A * rng.uniform(0.1, 10.0, (40, 1)), 4), method=SphericalKMeans()).labels
    assert (one == other).all()


def test_lsa_is_k_means_of_a_truncated_svd(rng):
    A = csr_array(rng.random((60, 30)) * (rng.random((60, 30)) < 0.3))
    state = step(LSAKMeans(n_dimensions=5), A, 3)
    reduced = normalize(TruncatedSVD(5, algorithm="randomized", random_state=0).fit_transform(A))
    labels = KMeans(3, n_init=10, random_state=0).fit(reduced).labels_
    pairs = set(zip(state.X.argmax(axis=1), labels, strict=True))
    assert len(pairs) == 3


def test_dimensions_are_checked_and_cut_to_the_data(rng):
    with pytest.raises(ValueError, match="out of range"):
        LSAKMeans(n_dimensions=0)
    assert step(LSAKMeans(n_dimensions=100), rng.random((9, 3)), 2).violation < 1e-12
