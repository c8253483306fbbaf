"""K-indicators: the value by its definition, both closed forms, the optimum by brute force."""

import numpy as np
import pytest
from scipy.sparse import eye_array

import orthoplus as op
from brute_force import supports
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import (
    polar_factor,
    random_stiefel_plus,
    round_to_stiefel_plus,
    violation,
)
from orthoplus.problems import KIndicators

N, K = 7, 3


def embedding(rng, n=N, k=K):
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


def planted(rng, n=60, k=4, noise=0.05):
    """An orthonormal basis of noisy indicators, rotated at random, and the groups."""
    groups = rng.permutation(np.arange(n) % k)
    noisy = np.eye(k)[groups] + noise * rng.standard_normal((n, k))
    return np.linalg.svd(noisy, full_matrices=False)[0] @ embedding(rng, k, k), groups


def same_partition(one, other):
    return len(set(zip(one, other, strict=True))) == len(set(one)) == len(set(other))


def brute_force(problem):
    """The least value over all supports, each from several weights: their minima are local."""
    best = np.inf
    rng = np.random.default_rng(5)
    for H in supports(*problem.shape):
        for _ in range(2):
            X = np.where(H > 0, rng.random(H.shape) + 0.1, 0.0)
            best = min(best, problem.value(problem.refine(X / np.linalg.norm(X, axis=0))))
    return best


def test_value_is_the_distance_to_the_best_rotation(rng):
    problem = KIndicators(rng.standard_normal((N, K)))
    X = random_oblique_plus(N, K, rng)
    Y = problem.second_block(X)
    np.testing.assert_allclose(Y.T @ Y, np.eye(K), atol=1e-14)
    best = problem.value(X)
    assert best == pytest.approx(np.linalg.norm(problem.U @ Y - X) ** 2)
    for _ in range(200):
        other = embedding(rng, K, K)
        assert best <= np.linalg.norm(problem.U @ other - X) ** 2 + 1e-12
        assert problem.at(other).value(X) == pytest.approx(
            np.linalg.norm(problem.U @ other - X) ** 2
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_products_agree(dtype, rng):
    U = rng.standard_normal((200, 40)).astype(dtype)
    for X in (random_stiefel_plus(200, 40, rng), random_oblique_plus(200, 40, rng)):
        # One rounding of each of the 200 terms.
        np.testing.assert_allclose(
            KIndicators(U).cross(X.astype(dtype)),
            U.T @ X,
            atol=1e-3 if dtype == np.float32 else 1e-13,
        )


def test_y_step_comes_near_the_minimizer_as_its_length_grows(rng):
    problem, X = KIndicators(embedding(rng)), random_oblique_plus(N, K, rng)
    Y = embedding(rng, K, K)
    steps = [np.linalg.norm(problem.y_step(X, Y, beta)[0] - Y) for beta in (0.1, 1.0, 1e12)]
    assert steps == sorted(steps)
    np.testing.assert_allclose(problem.y_step(X, Y, 1e14)[0], problem.second_block(X), atol=1e-10)
    assert problem.y_residual(X, problem.second_block(X)) <= 1e-13
    assert problem.y_residual(X, Y) > 1e-2


def test_majorizer_keeps_its_promise(rng):
    problem, kept = KIndicators(embedding(rng, 5, 2)), 0
    for _ in range(1000):
        X, Z = random_stiefel_plus(5, 2, rng), random_stiefel_plus(5, 2, rng)
        C = problem.majorizer(X)
        if np.vdot(C, Z) >= np.vdot(C, X):
            kept += 1
            assert problem.value(Z) <= problem.value(X) + 1e-12
    assert kept > 10


def test_refined_point_is_stationary_on_its_support(rng):
    problem = KIndicators(planted(rng)[0])
    X = random_stiefel_plus(60, 4, rng)
    refined = problem.refine(X)
    assert problem.value(refined) < problem.value(X)
    assert violation(refined) <= 1e-14
    # The alternation stops at a relative gain of 1e-10, so about 1e-5 from its limit.
    again = np.where(X > 0, problem.majorizer(refined), 0.0)
    again = np.maximum(again, 0.0) / np.linalg.norm(np.maximum(again, 0.0), axis=0)
    np.testing.assert_allclose(again, refined, atol=1e-3)


def test_solve_finds_planted_groups_and_a_zero_residual(rng):
    U, groups = planted(rng, noise=0.0)
    result = op.solve(KIndicators(U))
    assert same_partition(result.labels, groups)
    assert result.value == pytest.approx(0.0, abs=1e-12)
    assert result.bound == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(U @ result.Y, result.X, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_solve_reaches_the_optimum_by_brute_force(seed):
    problem = KIndicators(planted(np.random.default_rng(seed), n=5, k=2, noise=0.3)[0])
    assert op.solve(problem).value == pytest.approx(brute_force(problem), abs=1e-8)


def test_polish_is_never_worse_and_at_rest(rng):
    problem = KIndicators(planted(rng, noise=0.6)[0])
    plain = op.solve(problem, method=op.EP4Orth.for_indicators(4, polish=None))
    result = op.solve(problem)
    assert result.value <= plain.value + 1e-10
    # The certified X-step for the best Y does not gain.
    C = problem.majorizer(result.X)
    assert op.project(C).value <= np.vdot(C, result.X) * (1 + 1e-5)


def test_no_cluster_is_empty_when_columns_of_the_embedding_are_equal():
    result = op.solve(KIndicators(np.ones((8, 3))))
    assert set(result.labels) >= {0, 1, 2}
    assert result.violation < 1e-13


def test_paper_preset_has_the_papers_parameters():
    method = op.EP4Orth.for_indicators(7)
    assert (method.penalty_start, method.penalty_growth, method.tol_decay) == (10.0, 10.0, 0.5)
    assert method.feasibility_tol == 0.1
    assert method.inner.x_step.step_max == 70.0


def test_steps_in_units_of_the_penalty_are_those_of_the_scaled_problem(rng):
    # Eq. (6.6b): X - alpha (XVV' - UY / sigma) is X - alpha / (2 sigma) grad of f + sigma ||XV||^2.
    problem, X, sigma, alpha = KIndicators(embedding(rng)), random_oblique_plus(N, K, rng), 3.0, 2.5
    fixed = problem.freeze(X)
    model = op.penalty.Penalized(fixed, op.penalty.PowerPenalty(sigma))
    method = op.ProjectedGradient(
        step_unit="penalty", first_step=alpha, search=False, criterion="step"
    )
    moved = method.step(model, method.init(model, X)).X
    C = problem.U @ fixed.Y
    expected = op.geometry.project_oblique_plus(
        X - alpha * (X.mean(axis=1, keepdims=True) - C / sigma)
    )
    np.testing.assert_allclose(moved, expected, atol=1e-14)


def test_bad_embedding_is_explained():
    with pytest.raises(ValueError, match="more columns than rows"):
        KIndicators(np.ones((2, 3)))
    with pytest.raises(ValueError, match="NaN or infinite"):
        KIndicators(np.array([[1.0, np.nan], [0.0, 1.0]]))
    with pytest.raises(TypeError, match="dense array is needed"):
        KIndicators(eye_array(4))


def test_polar_factor_is_the_nearest_orthonormal_matrix(rng):
    M = rng.standard_normal((5, 3))
    Q = polar_factor(M)
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-14)
    for _ in range(100):
        assert np.linalg.norm(M - Q) <= np.linalg.norm(M - embedding(rng, 5, 3))


# Purity and NMI of the paper's table in percent; 0.3 is a dozen images of the largest set.
@pytest.mark.parametrize(
    ("name", "purity", "nmi"),
    [("ORL", 88.00, 92.76), ("catsndogs", 96.23, 76.96), ("flower", 44.90, 63.40)],
)
def test_real_embeddings_reach_the_published_figures(name, purity, nmi, load_data):
    parts = load_data(f"kind_{name}")
    problem, truth = KIndicators(parts["A"]), parts["labels"].ravel()
    result = op.solve(problem)
    assert (result.labels >= 0).all()
    assert 100 * op.metrics.purity(truth, result.labels) >= purity - 0.3
    assert 100 * op.metrics.nmi(truth, result.labels) >= nmi - 0.3
    rival = op.solve(problem, method=op.baselines.KindAP(), with_bound=False)
    plain = op.EP4Orth.for_indicators(problem.shape[1], feasibility_tol=1e-5, polish=None)
    paper = op.solve(problem, method=plain, with_bound=False)
    assert result.value <= min(rival.value, paper.value) + 1e-9


def test_new_options_are_checked():
    with pytest.raises(TypeError, match="`polish` must be an object of type Polish"):
        op.EP4Orth(polish=True)
    with pytest.raises(ValueError, match="Choose one of one, penalty"):
        op.ProjectedGradient(step_unit="sigma")


def test_step_in_units_of_the_penalty_is_carried_over_as_such(rng):
    problem, X = KIndicators(embedding(rng)), random_oblique_plus(N, K, rng)
    method = op.ProjectedGradient(step_unit="penalty", first_step=2.0, criterion="step")
    one, ten = (
        op.penalty.Penalized(problem.freeze(X), op.penalty.PowerPenalty(sigma)) for sigma in (1, 10)
    )
    state = method.init(one, X)
    assert state.alpha == pytest.approx(2.0 / 2.0)  # in units of 1 / (2 sigma)
    assert method.init(ten, X, method.carry(state)).alpha == pytest.approx(2.0 / 20.0)


def alternated(problem, X, steps):
    """The plain alternation of both closed forms on the support of X."""
    for _ in range(steps):
        C = np.where(X > 0, np.maximum(problem.U @ problem.second_block(X), 0.0), 0.0)
        X = C / np.linalg.norm(C, axis=0)
    return problem.value(X)


def test_refinement_ends_where_the_plain_alternation_is_still_slow():
    problem = KIndicators(planted(np.random.default_rng(1), 300, 15)[0])
    X = round_to_stiefel_plus(problem.start(np.random.default_rng(0)))
    end = alternated(problem, X, 1000)
    # The rate of the alternation is near 1 here, and refinement may use 50 alternations.
    assert alternated(problem, X, 50) > end + 1e-6
    assert problem.value(problem.refine(X)) <= end + 1e-7


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 1e-3, 1e-9), (1.0, 1.0, 0.0)])
def test_lower_bound_is_below_that_of_the_singular_values_by_rounding_only(scales, rng):
    problem = KIndicators(4.0 * embedding(rng) * np.array(scales) @ embedding(rng, K, K))
    exact = 16.0 * np.square(scales).sum() + K - 8.0 * np.sum(scales)
    assert exact - 1e-10 <= problem.lower_bound() <= exact
