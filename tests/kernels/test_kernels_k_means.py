"""The searches of k-means: the compiled ones do what the plain ones do, and what they say."""

import numpy as np
import pytest

from orthoplus.kernels import fused, reference


def _data(n, r, k, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, r))
    labels = rng.permutation(np.arange(n) % k)
    return A, labels, rng


def _inertia(A, labels):
    return sum(((A[labels == j] - A[labels == j].mean(axis=0)) ** 2).sum() for j in set(labels))


@pytest.mark.parametrize(("n", "r", "k"), [(1, 1, 1), (2, 1, 2), (9, 2, 3), (30, 4, 5), (25, 1, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_fused_searches_agree_with_the_reference(n, r, k, seed):
    A, labels, rng = _data(n, r, k, seed)
    given = labels.copy()
    plain, value = reference.move_k_means(A, labels, k, 20)
    found, same = fused.move_k_means(A, labels, k, 20)
    assert np.array_equal(plain, found)
    assert np.array_equal(labels, given)
    assert value == pytest.approx(same, abs=1e-12)
    draws = rng.random((12, 2))
    plain, value, failed = reference.swap_k_means(A, labels, k, draws, 4)
    found, same, count = fused.swap_k_means(A, labels, k, draws, 4)
    assert np.array_equal(plain, found)
    assert np.array_equal(labels, given)
    assert value == pytest.approx(same, abs=1e-12)
    assert failed == count


@pytest.mark.parametrize("seed", range(5))
def test_after_the_moves_no_single_row_gains_by_another_cluster(seed):
    A, labels, _ = _data(20, 2, 4, seed)
    found, value = fused.move_k_means(A, labels, 4, 100)
    assert value == pytest.approx(_inertia(A, found))
    assert value <= _inertia(A, labels)
    for i in range(20):
        for j in range(4):
            other = found.copy()
            other[i] = j
            if len(set(other)) == 4:
                assert _inertia(A, other) >= value - 1e-9


def test_swaps_never_raise_the_inertia_and_leave_no_cluster_empty():
    A, labels, rng = _data(40, 3, 6, 0)
    A[:20] = A[0]  # fewer different rows than clusters could be
    before = _inertia(A, labels)
    found, value, _ = fused.swap_k_means(A, labels, 6, rng.random((50, 2)), 3)
    assert value == pytest.approx(_inertia(A, found))
    assert value <= before
    assert len(set(found)) == 6
