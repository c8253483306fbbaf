"""No bound lies below the optimum, whatever the matrix and its scale."""

from itertools import pairwise
from time import perf_counter

import numpy as np
import pytest

from all_partitions import best_value
from orthoplus.certify import anytime
from orthoplus.certify.relaxation import Relaxation
from orthoplus.certify.rounding import group_rows
from waiting import PATIENCE

KINDS = ("gram", "signed", "ties", "duplicates", "zero rows", "graph")


def draw_matrix(kind, n, rng):
    """A symmetric matrix; nonnegative Gram matrices, signed ones, and such with ties."""
    if kind == "gram":
        A = rng.random((n, 3))
        return A @ A.T
    if kind == "signed":
        A = rng.standard_normal((n, n))
        return A + A.T
    if kind == "ties":
        A = rng.integers(0, 2, (n, 3)).astype(float)
        return A @ A.T
    if kind == "duplicates":
        A = rng.random((3, 4))[rng.integers(0, 3, n)]
        return A @ A.T
    if kind == "zero rows":
        A = rng.random((n, 3)) * (rng.random((n, 1)) < 0.5)
        return A @ A.T
    W = (rng.random((n, n)) < 0.4).astype(float)
    W = np.triu(W, 1) + np.triu(W, 1).T
    return W - np.diag(W.sum(axis=1))


def rounding(M):
    """The optimum itself is known to about this accuracy."""
    return 1e-12 * np.abs(M).sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_row_sums", [False, True])
def test_bound_is_above_the_optimum(kind, has_row_sums):
    rng = np.random.default_rng(KINDS.index(kind))
    for trial in range(60):
        n = int(rng.integers(2, 7))
        k = int(rng.integers(1, n + 1))
        M = draw_matrix(kind, n, rng) * 10.0 ** [0, -12, 12][trial % 3]
        best = best_value(M, k, has_row_sums)
        relaxation = Relaxation(M, k, has_row_sums=has_row_sums)
        for n_iter in (0, 1, 3, 10, 30):
            relaxation.advance(n_iter)
            assert relaxation.upper_bound() >= best - rounding(M)


@pytest.mark.parametrize("has_row_sums", [False, True])
def test_bound_is_above_the_optimum_when_pairs_are_apart(has_row_sums):
    rng = np.random.default_rng(7)
    for _ in range(60):
        n = int(rng.integers(3, 7))
        k = int(rng.integers(2, n + 1))
        M = draw_matrix("gram", n, rng)
        i, j = rng.choice(n, 2, replace=False)
        apart = np.zeros((n, n), dtype=bool)
        apart[i, j] = apart[j, i] = True
        best = best_value(M, k, has_row_sums, apart)
        relaxation = Relaxation(M, k, has_row_sums=has_row_sums, apart=apart)
        relaxation.advance(40)
        assert relaxation.upper_bound() >= best - rounding(M)


def test_bound_is_the_optimum_when_groups_are_separated():
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 3
    A = np.eye(3)[labels] * rng.uniform(0.5, 1.0, (30, 1)) + 0.02 * rng.random((30, 3))
    M = A @ A.T
    value = sum(np.linalg.eigvalsh(M[np.ix_(labels == j, labels == j)])[-1] for j in range(3))
    relaxation = Relaxation(M, 3)
    relaxation.advance(500)
    # ADMM closes it to this accuracy in so many iterations.
    assert value <= relaxation.upper_bound() <= value * (1 + 1e-6)
    assert len(set(zip(relaxation.partition().tolist(), labels.tolist(), strict=True))) == 3


def test_best_multipliers_give_the_bound():
    rng = np.random.default_rng(1)
    M = draw_matrix("gram", 20, rng)
    relaxation = Relaxation(M, 4)
    for _ in range(4):
        relaxation.advance(15)
        bound = relaxation.upper_bound()
    S = relaxation.best_S
    assert np.array_equal(S, S.T)
    assert S.min() >= 0.0
    found = np.linalg.eigvalsh(M + S)[-4:].sum()
    assert found <= bound <= found * (1 + 1e-11)


def test_bound_never_rises():
    M = draw_matrix("gram", 25, np.random.default_rng(2))
    relaxation = Relaxation(M, 3)
    bounds = []
    for _ in range(20):
        relaxation.advance(3)
        bounds.append(relaxation.upper_bound())
    assert all(later <= earlier for earlier, later in pairwise(bounds))


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_bound_scales_with_the_matrix(scale):
    M = draw_matrix("gram", 12, np.random.default_rng(3))
    bounds = []
    for factor in (1.0, scale):
        relaxation = Relaxation(M * factor, 3)
        relaxation.advance(50)
        bounds.append(relaxation.upper_bound())
    assert bounds[1] == bounds[0] * scale


def test_start_from_own_multipliers_continues():
    M = draw_matrix("gram", 20, np.random.default_rng(4))
    first = Relaxation(M, 4)
    first.advance(200)
    bound = first.upper_bound()
    second = Relaxation(M, 4, S=first.best_S)
    # The multipliers pass through one scaling only.
    assert second.upper_bound() <= bound * (1 + 1e-12)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 5), (5, 1), (4, 2)])
@pytest.mark.parametrize("has_row_sums", [False, True])
def test_matrix_of_zeros_has_bound_zero(n, k, has_row_sums):
    relaxation = Relaxation(np.zeros((n, n)), k, has_row_sums=has_row_sums)
    relaxation.advance(5)
    assert 0.0 <= relaxation.upper_bound() <= 1e-20  # S may have entries of rounding errors
    assert len(np.unique(relaxation.partition())) == k


def test_estimate_is_near_the_bound():
    M = draw_matrix("gram", 40, np.random.default_rng(5))
    relaxation = Relaxation(M, 4)
    relaxation.advance(100)
    # Ritz values in the span of F.
    assert relaxation.estimate() == pytest.approx(relaxation.upper_bound(), rel=1e-3)


def test_group_rows_fills_every_group_when_rows_are_alike():
    labels = group_rows(np.ones((5, 2)), 4)
    assert sorted(set(labels.tolist())) == [0, 1, 2, 3]


def kmeans_value(M, labels):
    return sum(M[np.ix_(labels == j, labels == j)].sum() / (labels == j).sum() for j in set(labels))


@pytest.mark.parametrize("seed", range(12))
def test_bound_with_cuts_is_above_the_optimum(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 9))
    k = int(rng.integers(2, 4))
    A = rng.integers(0, 3, (n, 2)) if seed % 2 else rng.standard_normal((n, 2))
    M = (A @ A.T) * 10.0 ** [0, -12, 12][seed % 3]
    best = best_value(M, k, has_row_sums=True)
    relaxation = Relaxation(M, k, has_row_sums=True)
    for _ in range(15):
        relaxation.advance(20)
        assert relaxation.upper_bound() >= best - rounding(M)
    H = M + relaxation.best_S - relaxation.best_cuts.matrix(n)
    P = np.eye(n) - 1 / n
    found = H.mean() * n + np.linalg.eigvalsh(P @ H @ P - np.abs(H).sum() / n)[-(k - 1) :].sum()
    assert relaxation.upper_bound() == pytest.approx(found, rel=1e-9)
    assert relaxation.best_S.min() >= 0.0
    assert relaxation.best_cuts.mu.min(initial=0.0) >= 0.0


def test_cuts_close_the_gap_of_k_means():
    rng = np.random.default_rng(3)
    labels = np.arange(60) % 3
    A = rng.standard_normal((60, 2)) + 4.0 * np.array([[0, 0], [1, 0], [0, 1]])[labels]
    A -= A.mean(axis=0)
    M = A @ A.T
    for _ in range(20):  # Lloyd's iteration
        centers = np.stack([A[labels == j].mean(axis=0) for j in range(3)])
        labels = ((A[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    relaxation = Relaxation(M, 3, has_row_sums=True)
    relaxation.advance(800)
    value = kmeans_value(M, labels)
    inertia = (A**2).sum() - value
    gap = (relaxation.upper_bound() - value) / inertia
    assert 0.0 <= gap <= 1e-6  # without cuts it stays above 1e-2
    assert len(relaxation.best_cuts.mu) > 0


def test_rows_that_stand_for_several_have_the_bound_of_these():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((6, 2))
    sizes = np.array([1.0, 3.0, 2.0, 1.0, 1.0, 2.0])
    rows = np.repeat(np.arange(6), sizes.astype(int))
    full = A[rows] @ A[rows].T
    weighted = A * np.sqrt(sizes)[:, None]
    best = best_value(full, 3, has_row_sums=True)  # equal rows stay together in some optimum
    relaxation = Relaxation(weighted @ weighted.T, 3, has_row_sums=True, sizes=sizes)
    relaxation.advance(400)
    assert best - 1e-12 <= relaxation.upper_bound() <= best + 0.05 * (np.trace(full) - best)


def test_relaxation_does_not_give_up_after_few_iterations(rng, monkeypatch):
    """On a busy machine each bound may come after a single iteration, before any gain."""
    monkeypatch.setattr(anytime, "_next_iterations", lambda *args: 1)
    monkeypatch.setattr(anytime, "_is_worthwhile", lambda *args: True)
    A = rng.random((20, 4)) * [1.0, 1.0, 1.0, 300.0]  # one column decides: the first gains are late
    A -= A.mean(axis=0)
    relaxation = Relaxation(A @ A.T, 5, has_row_sums=True)
    bounds = list(anytime.run_relaxation(relaxation, 0.0, perf_counter() + PATIENCE))
    assert relaxation.n_iter >= 300
    assert bounds[-1] < bounds[0]
