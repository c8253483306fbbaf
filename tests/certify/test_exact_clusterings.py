"""Exact answers against all partitions, and against a dynamic program over subsets."""

import time

import numpy as np
import pytest

from all_partitions import best_value
from orthoplus.certify.branch import solve_exactly


def best_by_subsets(M, k):
    """The best value of k-means with k groups: best[mask] of one group more at a time."""
    n = len(M)
    full = 2**n
    masks = ((np.arange(full)[:, None] >> np.arange(n)) & 1).astype(float)
    sizes = masks.sum(axis=1)
    single = np.einsum("mi,mi->m", masks @ M, masks) / np.maximum(sizes, 1)
    single[0] = -np.inf
    best = single.copy()
    for _ in range(k - 1):
        new = np.full(full, -np.inf)
        for mask in range(1, full):
            first = mask & -mask  # the group of the first row, and the rest
            rest = mask ^ first
            part = rest
            while part:  # all nonempty parts of the rest go to the other groups
                new[mask] = max(new[mask], single[mask ^ part] + best[part])
                part = (part - 1) & rest
        best = new
    return best[-1]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("has_row_sums", [False, True])
def test_exact_value_is_that_of_all_partitions(seed, has_row_sums):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8))
    k = int(rng.integers(2, 4))
    A = rng.integers(0, 3, (n, 2)) + 0.0 if seed % 4 == 0 else rng.random((n, 2))
    M = A @ A.T * 10.0 ** [0, -12, 12][seed % 3]
    found = solve_exactly(M, k, has_row_sums=has_row_sums)
    best = best_value(M, k, has_row_sums)
    scale = np.trace(M)
    assert found.value == pytest.approx(best, abs=1e-9 * scale)
    assert best - 1e-12 * scale <= found.upper <= best + 1e-7 * scale
    assert len(np.unique(found.labels)) == k


def test_exact_value_of_k_means_is_that_of_a_dynamic_programme():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((10, 2))
    A -= A.mean(axis=0)
    M = A @ A.T
    found = solve_exactly(M, 3, has_row_sums=True)
    best = best_by_subsets(M, 3)
    assert found.value == pytest.approx(best, rel=1e-9)
    assert best <= found.upper * (1 + 1e-12)


@pytest.mark.parametrize("has_row_sums", [False, True])
def test_bound_holds_when_time_is_over(has_row_sums):
    rng = np.random.default_rng(1)
    A = rng.random((8, 3))
    M = A @ A.T
    best = best_value(M, 3, has_row_sums)
    for seconds in (0.0, 0.05):
        found = solve_exactly(M, 3, has_row_sums=has_row_sums, deadline=time.monotonic() + seconds)
        assert found.value <= best * (1 + 1e-12)
        assert found.upper >= best * (1 - 1e-12)


def test_signed_matrix_has_a_valid_bound():
    rng = np.random.default_rng(2)
    for _ in range(5):
        M = rng.standard_normal((6, 6))
        M = M + M.T
        best = best_value(M, 2)
        found = solve_exactly(M, 2, deadline=time.monotonic() + 2.0)
        assert found.value <= best + 1e-9
        assert found.upper >= best - 1e-9
