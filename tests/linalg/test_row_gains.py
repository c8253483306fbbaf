"""Scores of moves of single rows: each is what f falls by if the other rows stay in proportion."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orthoplus.geometry.stiefel import assemble, random_stiefel_plus
from orthoplus.linalg.row_gains import entries_of, linear_gains
from orthoplus.problems import (
    KLONMF,
    ONMF,
    KIndicators,
    KMeans,
    Projection,
    SymmetricONMF,
    TraceMin,
    nonnegative_pca,
)

N, K = 9, 3


def symmetric(rng):
    M = rng.standard_normal((N, N))
    return M + M.T


EXACT = {
    "projection": lambda rng: Projection(rng.standard_normal((N, K))),
    "trace_min": lambda rng: TraceMin(symmetric(rng), K),
    "nonnegative_pca": lambda rng: nonnegative_pca(rng.standard_normal((N, 4)), K),
    "symmetric_onmf": lambda rng: SymmetricONMF(symmetric(rng), K),
    "onmf": lambda rng: ONMF(rng.random((N, 5)), K),
}


def proportional_moves(X, row, column):
    """Points with this row alone moved, at many weights, the other rows kept in proportion."""
    labels, weights = entries_of(X)
    labels = labels.copy()
    labels[row] = column if column < K else -1
    if column == K:
        yield assemble(labels, np.where(labels >= 0, weights, 0.0), K)
        return
    for weight in np.concatenate([np.geomspace(1e-4, 1e3, 400), [1e6]]):
        moved = weights.copy()
        moved[row] = weight
        yield assemble(labels, moved, K)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", range(3))
def test_score_is_the_best_fall_over_the_weight_of_the_row(name, seed):
    rng = np.random.default_rng(seed)
    problem = EXACT[name](rng)
    X = random_stiefel_plus(N, K, rng)
    X[rng.integers(N)] = 0.0  # a row of zeros may come in
    X = assemble(*entries_of(X), K)
    gains, value = problem.move_gains(X), problem.value(X)
    labels = entries_of(X)[0]
    scale = np.abs(gains[np.isfinite(gains)]).max()
    for row in range(N):
        for column in range(K + 1):
            if not np.isfinite(gains[row, column]):
                continue
            falls = [value - problem.value(Z) for Z in proportional_moves(X, row, column)]
            stays = 0.0 if column == K else gains[row, K] if labels[row] >= 0 else 0.0
            best = max([*falls, stays]) if column < K else falls[0]
            # The grid of weights comes within a thousandth of the best one.
            assert gains[row, column] == pytest.approx(best, abs=2e-3 * scale)
            assert gains[row, column] >= best - 1e-9 * scale


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["k_means", "kl"])
def test_score_is_the_fall_of_the_closed_form(kind, seed):
    rng = np.random.default_rng(seed)
    problem = KMeans(rng.random((N, 3)), K) if kind == "k_means" else KLONMF(rng.random((N, 4)), K)
    X = problem.refine(random_stiefel_plus(N, K, rng))
    labels, gains = entries_of(X)[0], problem.move_gains(X)

    def cost(labels):
        if kind == "k_means":
            return problem.inertia(labels)
        return problem.value(problem.refine(assemble(labels, np.ones(N), K)))

    for row, column in zip(*np.nonzero(np.isfinite(gains)), strict=True):
        moved = labels.copy()
        moved[row] = column
        assert gains[row, column] == pytest.approx(cost(labels) - cost(moved), abs=1e-10)


def test_score_of_k_indicators_is_at_most_the_fall(rng):
    problem = KIndicators(rng.standard_normal((N, K)))
    X = problem.refine(random_stiefel_plus(N, K, rng))
    gains, labels = problem.move_gains(X), entries_of(X)[0]
    for row, column in zip(*np.nonzero(gains[:, :K] > -np.inf), strict=True):
        moved = labels.copy()
        moved[row] = column
        best = problem.value(problem.refine(assemble(moved, np.ones(N), K)))
        falls = problem.value(X) - min(problem.value(Z) for Z in proportional_moves(X, row, column))
        assert gains[row, column] <= max(falls, problem.value(X) - best, gains[row, K]) + 1e-3


def test_row_that_is_alone_in_its_column_cannot_leave():
    gains = linear_gains(np.array([0, 1, 1]), np.array([1.0, 0.6, 0.8]), np.ones((3, 2)))
    assert (gains[0] == -np.inf).all()
    assert np.isfinite(gains[1:, 0]).all()
    assert np.isfinite(gains[1:, 2]).all()


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_scores_scale_with_the_data(factor, rng):
    X = random_stiefel_plus(N, K, rng)
    A = rng.random((N, 5))
    plain, scaled = ONMF(A, K).move_gains(X), ONMF(factor * A, K).move_gains(X)
    finite = np.isfinite(plain)
    np.testing.assert_array_equal(finite, np.isfinite(scaled))
    np.testing.assert_allclose(scaled[finite], factor**2 * plain[finite], rtol=1e-9)


def embedding(n, k, noise, rng):
    """An orthonormal basis near that of k clusters."""
    H = np.eye(k)[np.arange(n) % k] / np.sqrt(n / k)
    return np.linalg.qr(H + noise * rng.standard_normal((n, k)) / np.sqrt(n))[0]


def nuclear_gains(U, X, row, column):
    """What the move adds to ||U'X||_* at many weights of the row, the others in proportion."""
    k = X.shape[1]
    Z = X.copy()
    Z[row] = 0.0
    Z /= np.linalg.norm(Z, axis=0)
    before, M = np.linalg.svd(U.T @ X, compute_uv=False).sum(), U.T @ Z
    if column == k:
        return np.linalg.svd(M, compute_uv=False).sum() - before
    angle = np.linspace(0.0, np.pi / 2.0, 200)[:, None]
    stack = np.repeat(M[None], len(angle), axis=0)
    stack[:, :, column] = np.cos(angle) * M[:, column] + np.sin(angle) * U[row]
    return np.linalg.svd(stack, compute_uv=False).sum(axis=1) - before


@given(
    st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 12), st.sampled_from([0.1, 0.5, 2.0])
)
@settings(max_examples=40, deadline=None)
def test_no_move_gains_more_than_its_bound(seed, k, extra, noise):
    rng = np.random.default_rng(seed)
    n = k + extra
    U = embedding(n, k, noise, rng) if seed % 3 else rng.standard_normal((n, k))
    problem = KIndicators(U)
    X = random_stiefel_plus(n, k, rng)
    X[rng.integers(n)] *= rng.integers(2)  # a row of zeros may come in
    X = random_stiefel_plus(n, k, rng) if (X.sum(axis=0) == 0.0).any() else X
    X = problem.refine(X) if seed % 2 else assemble(*entries_of(X), k)
    gains, bounds = problem.move_gains(X), problem.move_gain_bounds(X)
    np.testing.assert_array_equal(np.isneginf(bounds), np.isneginf(gains))
    for row, column in np.argwhere(np.isfinite(gains)):
        gained = 2.0 * np.max(nuclear_gains(U, X, row, column))
        assert max(gained, gains[row, column]) <= bounds[row, column] + 1e-12 * np.sum(U**2)


def test_bounds_exclude_every_move_from_clear_clusters(rng):
    U = embedding(60, 3, 0.1, rng)
    problem = KIndicators(U)
    X = problem.refine(assemble(np.arange(60) % 3, np.ones(60), 3))
    assert problem.move_gain_bounds(X).max() < 0.0
    wrong = problem.refine(assemble(np.r_[1, np.arange(1, 60) % 3], np.ones(60), 3))
    assert problem.move_gain_bounds(wrong)[0, 0] > 0.0  # but not the move back


def test_bounds_exclude_nothing_if_the_rotation_is_undetermined():
    problem = KIndicators(np.eye(4, 2)[:, [0, 0]])
    X = assemble(np.array([0, 0, 1, 1]), np.ones(4), 2)
    bounds = problem.move_gain_bounds(X)
    assert not np.isnan(bounds).any()
    assert bounds.max() == np.inf
