"""Scores of moves of single rows: each is what f falls by if the other rows stay in proportion."""

import numpy as np
import pytest

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
