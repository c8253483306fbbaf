"""The search for the best k-means clustering."""

from itertools import product

import numpy as np
import pytest
from sklearn.cluster import KMeans as LloydKMeans
from sklearn.datasets import load_iris, load_wine

from orthoplus.linalg.k_means import search_k_means
from orthoplus.problems import KMeans


@pytest.mark.parametrize("seed", range(6))
def test_tiny_instances_are_solved(seed):
    rng = np.random.default_rng(seed)
    problem = KMeans(rng.standard_normal((7, 2)), 3)
    every = (np.array(labels) for labels in product(range(3), repeat=7) if len(set(labels)) == 3)
    best = min(problem.inertia(labels) for labels in every)
    assert problem.inertia(search_k_means(problem.A, 3, rng)) == pytest.approx(best)


@pytest.mark.parametrize(("load", "k"), [(load_iris, 7), (load_iris, 10), (load_wine, 9)])
def test_no_seed_is_worse_than_fifty_starts_of_lloyd(load, k):
    A = load().data
    A = (A - A.mean(axis=0)) / A.std(axis=0)
    problem = KMeans(A, k)
    other = problem.inertia(LloydKMeans(k, n_init=50, random_state=0).fit(A).labels_)
    for seed in range(3):
        found = problem.inertia(search_k_means(A, k, np.random.default_rng(seed)))
        assert found <= other * (1 + 1e-9)


def test_the_order_of_the_rows_does_not_matter(rng):
    A = rng.standard_normal((60, 3))
    order = rng.permutation(60)
    labels = search_k_means(A, 5, np.random.default_rng(1))
    permuted = search_k_means(A[order], 5, np.random.default_rng(1))
    assert np.array_equal(permuted, labels[order])


def test_the_result_is_not_worse_than_the_given_labels(rng):
    A = np.repeat(rng.standard_normal((6, 2)), 5, axis=0)
    labels = np.repeat(np.arange(6), 5)
    found = search_k_means(A, 6, rng, labels)
    # All six are found; the inertia cancels terms of the size of the weight of `KMeans`.
    assert abs(KMeans(A, 6).inertia(found)) < 1e-8


@pytest.mark.parametrize("n_different", [1, 2])
def test_equal_rows_leave_no_cluster_empty(n_different, rng):
    A = np.repeat(rng.standard_normal((n_different, 2)), 4, axis=0)
    assert len(set(search_k_means(A, 3, rng))) == 3
