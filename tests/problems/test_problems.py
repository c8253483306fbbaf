"""Every problem of the registry: derivatives, refinement, bounds, sparse against dense."""

import numpy as np
import pytest
from scipy.sparse import block_diag, coo_matrix, csc_matrix, csr_array, csr_matrix, issparse
from scipy.sparse.linalg import aslinearoperator

from brute_force import random_on_support, supports
from orthoplus.core.problem import Problem
from orthoplus.geometry.oblique import (
    project_oblique_plus,
    random_oblique_plus,
    riemannian_gradient,
)
from orthoplus.geometry.stiefel import random_stiefel_plus, violation
from orthoplus.problems import (
    EXAMPLES,
    KLONMF,
    ONMF,
    PROBLEMS,
    QAP,
    KIndicators,
    KMeans,
    Projection,
    ProjectiveKL,
    Smooth,
    SymmetricONMF,
    TraceMin,
    TwoBlock,
    discriminative_spectral,
    nonnegative_pca,
    ratio_cut,
)
from slopes import gradient_slope, hessian_slope

N, K = 6, 2


def symmetric(n, rng):
    B = rng.standard_normal((n, n))
    return (B + B.T) / 2


def laplacian(n, rng, density=1.0):
    W = np.triu(rng.random((n, n)) * (rng.random((n, n)) < density), 1)
    W += W.T
    return np.diag(W.sum(axis=1)) - W


def cubic(rng):
    A = rng.standard_normal((N, K))
    return Smooth(
        lambda X: float((A * X**3).sum() + (X[:, 0] * X[:, 1]).sum()),
        (N, K),
        jac=lambda X: 3 * A * X**2 + X[:, ::-1],
        curvature=lambda X, D: 6 * A * X * D + D[:, ::-1],
    )


def ridge_fit(rng, *, closed_form):
    """||A - XY'||^2 + ||Y||^2: the best Y is A'X (X'X + I)^-1, or found by gradient steps."""
    A = rng.random((N, 4))

    def fun(X, Y):
        residual = A - X @ Y.T
        value = (residual**2).sum() + (Y**2).sum()
        return value, -2 * residual @ Y, -2 * residual.T @ X + 2 * Y

    return TwoBlock(
        fun,
        (N, K),
        np.ones((4, K)),
        minimize_y=(lambda X: A.T @ X @ np.linalg.inv(X.T @ X + np.eye(K)))
        if closed_form
        else None,
        curvature=lambda X, Y, D: 2 * D @ (Y.T @ Y),
    )


# More small random instances, beside those of EXAMPLES; each joins all tests below.
BUILD = {
    "projection": [lambda rng: Projection(rng.standard_normal((N, K)))],
    "trace_min": [
        lambda rng: TraceMin(symmetric(N, rng), K),
        lambda rng: TraceMin(laplacian(N, rng), K),
        lambda rng: TraceMin(csr_array(laplacian(N, rng)), K),
        lambda rng: TraceMin(aslinearoperator(symmetric(N, rng)), K),
        lambda rng: nonnegative_pca(rng.standard_normal((N, 4)), K, center=True),
        lambda rng: ratio_cut(csr_array(np.abs(symmetric(N, rng))), K),
        lambda rng: discriminative_spectral(
            np.abs(symmetric(N, rng)), 2.0, K, A=rng.standard_normal((N, 3))
        ),
    ],
    "onmf": [
        lambda rng: ONMF(rng.random((N, 4)), K),
        lambda rng: ONMF(rng.random((N, 4)), K, quartic=True),
        lambda rng: ONMF(rng.standard_normal((N, 4)), K, allow_negative=True),
        lambda rng: ONMF(csr_array(rng.standard_normal((N, 4))), K, allow_negative=True),
        lambda rng: ONMF(csr_array(rng.random((N, 4)) * (rng.random((N, 4)) < 0.6)), K),
    ],
    "kl_onmf": [
        lambda rng: KLONMF(rng.random((N, 4)), K),
        lambda rng: KLONMF(csr_array(rng.random((N, 4)) * (rng.random((N, 4)) < 0.6)), K),
    ],
    "projective_kl": [
        lambda rng: ProjectiveKL(rng.random((N, 4)), K),
        lambda rng: ProjectiveKL(csr_array(rng.random((N, 4)) * (rng.random((N, 4)) < 0.6)), K),
    ],
    "symmetric_onmf": [
        lambda rng: SymmetricONMF(np.abs(symmetric(N, rng)), K),
        lambda rng: SymmetricONMF(csr_array(symmetric(N, rng)), K),
    ],
    "k_indicators": [
        lambda rng: KIndicators(np.linalg.qr(rng.standard_normal((N, K)))[0]),
        lambda rng: KIndicators(rng.standard_normal((N, K))),
    ],
    "k_means": [lambda rng: KMeans(rng.standard_normal((N, 4)), K)],
    "qap": [
        lambda rng: QAP(*rng.standard_normal((2, 4, 4))),
        lambda rng: QAP(symmetric(4, rng), laplacian(4, rng), rng.standard_normal((4, 4)), 2.0),
    ],
    "smooth": [cubic],
    "two_block": [lambda rng: ridge_fit(rng, closed_form=True)],
}
INSTANCES = {name: [EXAMPLES[name], *BUILD.get(name, [])] for name in PROBLEMS}
CASES = [(name, number) for name in PROBLEMS for number in range(len(INSTANCES[name]))]


@pytest.fixture
def problem(case, rng):
    name, number = case
    return INSTANCES[name][number](rng)


def anywhere(problem, rng):
    """A point where f is smooth: the divergence is for positive X only."""
    X = rng.standard_normal(problem.shape)
    return np.abs(X) + 0.5 if isinstance(problem, (KLONMF, ProjectiveKL)) else X


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")


# --- derivatives ----------------------------------------------------------------------------------


@every_case
def test_derivative_slopes(problem, rng):
    for smooth in (problem, problem.freeze(random_oblique_plus(*problem.shape, rng))):
        gradient = lambda X, f=smooth: f.value_and_gradient(X)[1]  # noqa: E731
        for _ in range(3):
            X, D = anywhere(problem, rng), rng.standard_normal(problem.shape) / 5
            assert gradient_slope(smooth.value, gradient, X, D) > 1.8
            assert hessian_slope(gradient, smooth.hessp, X, D) > 1.8


@every_case
def test_value_is_that_of_value_and_gradient_and_x_is_untouched(problem, rng):
    X = random_oblique_plus(*problem.shape, rng)
    before = X.copy()
    X.setflags(write=False)
    value, G = problem.value_and_gradient(X)
    assert problem.value(X) == pytest.approx(value, rel=1e-13, abs=1e-13)
    assert G.shape == X.shape == problem.shape
    problem.hessp(X, X)
    problem.freeze(X)
    problem.second_block(X)
    np.testing.assert_array_equal(X, before)


@every_case
def test_hessian_product_agrees_with_differences_and_is_symmetric(problem, rng):
    X, D, E = anywhere(problem, rng), *(rng.standard_normal((N, K)) for _ in range(2))
    X, D, E = (rng.standard_normal(problem.shape) for _ in range(3))
    product = problem.hessp(X, D)
    assert product.shape == X.shape
    np.testing.assert_array_equal(problem.hessian(X)(D), product)
    by_differences = Problem.hessp(problem, X, D)
    # Central differences of gradients of size 100 with a step of 1e-5.
    np.testing.assert_allclose(product, by_differences, atol=1e-6 * (1 + np.abs(product).max()))
    if type(problem).hessp is not Problem.hessp:  # differences are symmetric to their noise only
        assert (product * E).sum() == pytest.approx((problem.hessp(X, E) * D).sum(), abs=1e-9)
    np.testing.assert_array_equal(Problem.hessp(problem, X, np.zeros_like(D)), 0.0)


@every_case
def test_lipschitz_constant_bounds_the_change_of_gradient(problem, rng):
    for smooth in (problem, problem.freeze(random_oblique_plus(*problem.shape, rng))):
        if smooth.lipschitz is None:
            continue
        for _ in range(20):
            X, Z = (
                random_oblique_plus(*problem.shape, rng),
                random_oblique_plus(*problem.shape, rng),
            )
            change = smooth.value_and_gradient(X)[1] - smooth.value_and_gradient(Z)[1]
            # Gradients of size ten carry roundings of 1e-14.
            assert np.linalg.norm(change) <= smooth.lipschitz * np.linalg.norm(X - Z) + 1e-12


@every_case
def test_value_lipschitz_constant_bounds_the_change_of_value(problem, rng):
    # Random pairs near and far, points of S+, and equal columns, where XX' is largest.
    L = problem.value_lipschitz
    if L is None:
        return
    n, k = problem.shape
    X = random_oblique_plus(n, k, rng)
    ends = [random_oblique_plus(n, k, rng), random_stiefel_plus(n, k, rng), X[:, [0] * k]]
    unit = np.linalg.svd(problem.value_and_gradient(X)[1])[0][:, :1]
    ends.append(np.repeat(project_oblique_plus(np.abs(unit)), k, axis=1))
    for Z in ends:
        for share in (1.0, 0.1, 1e-3):
            W = project_oblique_plus(X + share * (Z - X))
            change = abs(problem.value(X) - problem.value(W))
            assert change <= L * np.linalg.norm(X - W) + 1e-12  # values of size ten: 1e-14
        # The steepest way down and up from there.
        G = riemannian_gradient(Z, problem.value_and_gradient(Z)[1])
        size = np.linalg.norm(G)
        for sign in (1e-5, -1e-5):
            W = project_oblique_plus(Z + sign * G / size) if size > 0 else Z
            change = abs(problem.value(Z) - problem.value(W))
            assert change <= L * np.linalg.norm(Z - W) + 1e-12


@pytest.mark.parametrize(
    "name",
    ["k_indicators", "k_means", "onmf", "projection", "qap", "symmetric_onmf", "trace_min"],
)
def test_value_lipschitz_constant_is_known_and_scales_with_f(name, rng):
    # The others: infinite at some points of OB+, or not known unless the user says so.
    assert all(0 < build(rng).value_lipschitz < np.inf for build in INSTANCES[name])
    told = Smooth(lambda X: 0.0, (N, K), jac=np.zeros_like, steepness=3.0)
    assert told.value_lipschitz == 3.0
    C = rng.standard_normal((N, K))
    assert Projection(7 * C).value_lipschitz == pytest.approx(7 * Projection(C).value_lipschitz)


def test_value_lipschitz_constants_are_attained_or_nearly():
    # f(X) = -x'Mx at a top eigenvector of a 2 x 2 block turns at its full rate.
    M = np.array([[1.0, 0.0], [0.0, -1.0]])
    problem = TraceMin(M, 1)
    t = np.pi / 4 + np.array([-1e-4, 1e-4])
    X, Z = (np.array([[np.cos(a)], [np.sin(a)]]) for a in t)
    quotient = abs(problem.value(X) - problem.value(Z)) / np.linalg.norm(X - Z)
    assert quotient == pytest.approx(problem.value_lipschitz, rel=1e-6)
    U = np.array([[1.0], [1.0]])
    X, Z = np.array([[1.0], [0.0]]), np.array([[0.6], [0.8]])
    assert KIndicators(U).value_lipschitz == pytest.approx(2 * np.sqrt(2))
    assert abs(KIndicators(U).value(X) - KIndicators(U).value(Z)) <= 2 * np.sqrt(2) * 0.9


@every_case
def test_start_is_on_oblique_plus_and_repeatable(problem):
    X, again = (problem.start(np.random.default_rng(7)) for _ in range(2))
    assert X.min() >= 0
    np.testing.assert_allclose(np.linalg.norm(X, axis=0), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(X, again)


# --- refinement and bounds ------------------------------------------------------------------------


@every_case
def test_refine_is_the_best_point_of_the_support(problem, rng):
    every = list(supports(*problem.shape))
    for i in rng.permutation(len(every))[:30]:
        H = every[i]
        X = random_on_support(H, rng)
        refined = problem.refine(X)
        if refined is None:
            continue
        assert violation(refined) <= 1e-14
        assert ((refined > 0) <= (X > 0)).all()
        best = problem.value(refined)
        # Roundings of sums of a few numbers of size one.
        assert best <= problem.value(X) + 1e-12
        if isinstance(problem, KIndicators):  # a local minimizer: see the tests of its own
            continue
        assert all(best <= problem.value(random_on_support(H, rng)) + 1e-12 for _ in range(50))
        np.testing.assert_allclose(problem.value(problem.refine(refined)), best, atol=1e-12)


@every_case
def test_lower_bound_is_below_every_feasible_value(problem, rng):
    bound = problem.lower_bound()
    if bound is None:
        return
    n, k = problem.shape
    for n_zero_rows in (0, 0, min(2, n - k)):
        for _ in range(100):
            X = random_stiefel_plus(n, k, rng, n_zero_rows=n_zero_rows)
            assert bound <= problem.value(X) + 1e-12


def test_refine_exists_where_the_paper_gives_a_closed_form(rng):
    X = random_stiefel_plus(N, K, rng)
    assert Projection(rng.standard_normal((N, K))).refine(X) is not None
    assert ONMF(rng.random((N, 4)), K).refine(X) is not None
    assert TraceMin(laplacian(N, rng), K).refine(X) is not None
    assert TraceMin(symmetric(N, rng), K).refine(X) is None  # no Perron vector
    assert cubic(rng).refine(X) is None


def test_lower_bounds_are_attained():
    # Rows of A in two orthogonal groups of rank one: the residual is zero.
    A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 3.0]])
    X = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, np.sqrt(5)]]) / np.sqrt(5)
    assert abs(ONMF(A, 2).value(X)) <= 1e-13
    assert abs(ONMF(A, 2).lower_bound()) <= 1e-13
    assert TraceMin(np.diag([3.0, 1.0, 2.0]), 2).lower_bound() == pytest.approx(3.0)


# --- groups large enough for Lanczos --------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_large_groups_refine_and_bound_as_dense_ones(convert, rng):
    n, k = 200, 2
    A = rng.random((n, 90))
    X = random_stiefel_plus(n, k, rng)
    onmf, trace = ONMF(convert(A), k), TraceMin(convert(laplacian(n, rng)), k)
    for problem, matrix in ((onmf, -A @ A.T), (trace, trace.M)):
        dense = matrix.toarray() if issparse(matrix) else matrix
        refined = problem.refine(X)
        assert violation(refined) <= 1e-13
        blocks = [np.flatnonzero(X[:, j]) for j in range(k)]
        bottom = sum(np.linalg.eigvalsh(dense[np.ix_(rows, rows)])[0] for rows in blocks)
        size = np.abs(dense).sum(axis=1).max()
        # Lanczos and dense eigenvalues agree to rounding of the largest one.
        assert np.vdot(dense @ refined, refined) == pytest.approx(bottom, abs=1e-11 * size)
        offset = onmf.total if problem is onmf else 0.0
        expected = offset + np.linalg.eigvalsh(dense)[:k].sum()
        assert problem.lower_bound() == pytest.approx(expected, abs=1e-11 * size)


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_lower_bound_sees_multiple_eigenvalues(convert, k):
    # Three complete graphs of 100: the Laplacian has 0 three times, then 100.
    M = block_diag([100 * np.eye(100) - np.ones((100, 100))] * 3).toarray()
    expected = 100.0 * max(k - 3, 0)
    assert TraceMin(convert(M), k).lower_bound() == pytest.approx(expected, abs=1e-9)
    A = block_diag([np.ones((80, 70))] * 3).toarray()
    left = 80 * 70 * max(3 - k, 0)
    assert ONMF(convert(A), k).lower_bound() == pytest.approx(left, abs=1e-8)


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_groups_without_data_are_refined_and_bounded(convert):
    n, half = 200, 100
    X = np.zeros((n, 2))
    X[:half, 0] = X[half:, 1] = 0.1
    A = np.zeros((n, 80))
    A[half:] = 1.0
    refined = ONMF(convert(A), 2).refine(X)
    np.testing.assert_allclose(refined, X, atol=1e-10)
    np.testing.assert_allclose(ONMF(convert(A), 2).lower_bound(), 0.0, atol=1e-8)
    assert ONMF(convert(0 * A), 2).lower_bound() == 0.0
    # X is in the kernel of the Laplacian of two components, and best.
    M = block_diag([100 * np.eye(100) - np.ones((100, 100))] * 2).toarray()
    np.testing.assert_allclose(TraceMin(convert(M), 2).refine(X), X, atol=1e-10)
    assert violation(TraceMin(convert(0 * M), 2).refine(X)) <= 1e-13


# --- ONMF and its second block --------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_onmf_value_is_the_residual(convert, rng):
    A = rng.random((N, 4))
    problem = ONMF(convert(A), K)
    for X in (random_stiefel_plus(N, K, rng), random_oblique_plus(N, K, rng)):
        expected = np.linalg.norm(A - X @ X.T @ A) ** 2
        assert problem.value(X) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_onmf_frozen_problem_is_the_fit_with_its_second_block(convert, rng):
    A = rng.random((N, 4))
    problem = ONMF(convert(A), K)
    for start in (random_stiefel_plus(N, K, rng), random_oblique_plus(N, K, rng)):
        Y, frozen = problem.second_block(start), problem.freeze(start)
        assert Y.min() >= 0
        assert Y.shape == (4, K)
        X = random_oblique_plus(N, K, rng)
        assert frozen.value(X) == pytest.approx(np.linalg.norm(A - X @ Y.T) ** 2, rel=1e-12)


def test_onmf_second_block_is_best_on_stiefel_plus(rng):
    A = rng.random((N, 4))
    problem, X = ONMF(A, K), random_stiefel_plus(N, K, rng, n_zero_rows=1)
    Y = problem.second_block(X)
    np.testing.assert_allclose(Y, A.T @ X, rtol=1e-12)
    assert problem.freeze(X).value(X) == pytest.approx(problem.value(X), rel=1e-12)
    here = np.linalg.norm(A - X @ Y.T)
    for _ in range(50):
        other = np.maximum(Y + 0.1 * rng.standard_normal(Y.shape), 0.0)
        assert np.linalg.norm(A - X @ other.T) >= here - 1e-13


def test_onmf_second_block_is_the_clipped_least_squares_off_stiefel_plus(rng):
    A = rng.random((N, 4))
    X = random_oblique_plus(N, K, rng)
    expected = np.maximum(np.linalg.lstsq(X, A)[0].T, 0.0)
    np.testing.assert_allclose(ONMF(A, K).second_block(X), expected, atol=1e-12)


def test_onmf_quartic_is_not_frozen(rng):
    problem = ONMF(rng.random((N, 4)), K, quartic=True)
    assert problem.freeze(random_oblique_plus(N, K, rng)) is problem


def test_problems_without_second_block_freeze_to_themselves(rng):
    X = random_oblique_plus(N, K, rng)
    for problem in (Projection(X), TraceMin(np.eye(N), K), cubic(rng)):
        assert problem.freeze(X) is problem
        assert problem.second_block(X) is None


def test_two_block_is_the_minimum_over_its_second_block(rng):
    closed, open_ = (ridge_fit(np.random.default_rng(3), closed_form=c) for c in (True, False))
    X = random_oblique_plus(N, K, rng)
    Y = closed.second_block(X)
    # Gradient steps in Y go on while they change the value: half of the digits, and a few more.
    np.testing.assert_allclose(open_.second_block(X), Y, atol=1e-6)
    for a, b in zip(open_.value_and_gradient(X), closed.value_and_gradient(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert closed.y_residual(X, Y) <= 1e-13
    best = closed.value(X)
    assert best == pytest.approx(float(closed.fun(X, Y)[0]))
    for _ in range(50):
        assert closed.fun(X, Y + 0.1 * rng.standard_normal(Y.shape))[0] >= best
    frozen = closed.freeze(X)
    assert frozen.value(X) == best
    np.testing.assert_array_equal(frozen.second_block(X), Y)
    assert open_.freeze(X) is open_


def test_two_block_keeps_its_second_block_in_its_set(rng):
    goal = rng.standard_normal((N, K))
    problem = TwoBlock(
        lambda X, Y: (((Y - goal - X) ** 2).sum(), 2 * (X + goal - Y), 2 * (Y - goal - X)),
        (N, K),
        -np.ones((N, K)),
        project_y=lambda Y: np.maximum(Y, 0.0),
    )
    X = random_oblique_plus(N, K, rng)
    assert problem.Y0.min() == 0.0
    np.testing.assert_allclose(problem.second_block(X), np.maximum(goal + X, 0.0), atol=1e-6)
    assert problem.y_residual(X, problem.second_block(X)) <= 1e-6


# --- projection -----------------------------------------------------------------------------------


def test_projection_value_is_the_squared_distance_over_oblique_plus(rng):
    C, X = rng.standard_normal((N, K)), random_oblique_plus(N, K, rng)
    assert Projection(C).value(X) == pytest.approx(np.linalg.norm(X - C) ** 2, rel=1e-13)


@pytest.mark.parametrize(("size", "dtype"), [(1e17, np.float64), (1e8, np.float32), (1, float)])
def test_projection_refines_on_the_support_when_entries_are_large_and_negative(size, dtype):
    C = np.full((3, 2), -size, dtype=dtype)
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(Projection(C).refine(X), X)


# --- sparse ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [csr_array, csr_matrix, csc_matrix, coo_matrix])
@pytest.mark.parametrize("name", ["onmf", "trace_min"])
def test_sparse_is_dense(name, convert, rng):
    if name == "onmf":
        M = rng.random((N, 5)) * (rng.random((N, 5)) < 0.5)
        dense, sparse = ONMF(M, K), ONMF(convert(M), K)
        stored = sparse.A.entries()
    else:
        M = laplacian(N, rng, density=0.5)
        dense, sparse = TraceMin(M, K), TraceMin(convert(M), K)
        stored = sparse.M
    assert issparse(stored)
    X, D = random_oblique_plus(N, K, rng), rng.standard_normal((N, K))
    S = random_stiefel_plus(N, K, rng)
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(sparse.value(X), dense.value(X), **close)
    np.testing.assert_allclose(sparse.hessp(X, D), dense.hessp(X, D), **close)
    for a, b in zip(sparse.value_and_gradient(X), dense.value_and_gradient(X), strict=True):
        np.testing.assert_allclose(a, b, **close)
    assert type(sparse.value_and_gradient(X)[1]) is np.ndarray
    np.testing.assert_allclose(sparse.refine(S), dense.refine(S), atol=1e-10)
    np.testing.assert_allclose(sparse.lower_bound(), dense.lower_bound(), **close)
    one, two = sparse.freeze(X), dense.freeze(X)
    np.testing.assert_allclose(one.value(S), two.value(S), **close)
    if dense.lipschitz is not None:
        np.testing.assert_allclose(sparse.lipschitz, dense.lipschitz, **close)


def test_sparse_whole_numbers_are_converted():
    W = csr_array(np.ones((80, 80), dtype=np.int64) - np.eye(80, dtype=np.int64))
    degrees = np.full(80, 79)
    M = csr_array(np.diag(degrees)) - W
    assert TraceMin(M, 2).lower_bound() == pytest.approx(80.0)  # 0, then 80
    assert ONMF(csr_array(np.eye(3, dtype=np.int64)), 2).lower_bound() == pytest.approx(1.0)


def test_onmf_on_text_agrees_with_dense(load_data):
    parts = load_data("R-t10")
    A = csr_matrix(
        (parts["data"].astype(float), parts["indices"].astype(np.int32), parts["indptr"]),
        shape=tuple(parts["shape"]),
    )
    rows = np.random.default_rng(0).permutation(A.shape[0])[:300]
    A, labels = A[rows], np.unique(parts["labels"][rows], return_inverse=True)[1].ravel()
    k = labels.max() + 1
    X = (labels[:, None] == np.arange(k)).astype(float)
    X /= np.linalg.norm(X, axis=0)
    sparse, dense = ONMF(A, int(k)), ONMF(A.toarray(), int(k))
    # Sums of squares of term counts: relative rounding only.
    assert sparse.value(X) == pytest.approx(dense.value(X), rel=1e-11)
    best = sparse.value(sparse.refine(X))
    assert best == pytest.approx(dense.value(dense.refine(X)), rel=1e-9)
    assert sparse.lower_bound() <= best <= sparse.value(X) <= sparse.total


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_bad_data_is_explained(convert):
    with pytest.raises(ValueError, match=r"`A` has negative entries \(the smallest is -2\).*clip"):
        ONMF(convert(np.array([[1.0, -2.0]])), 1)
    with pytest.raises(ValueError, match=r"`A` has 1 entries that are NaN"):
        ONMF(convert(np.array([[1.0, np.nan]])), 1)
    with pytest.raises(ValueError, match=r"`M` has shape \(2, 3\): a square matrix is needed"):
        TraceMin(convert(np.ones((2, 3))), 1)
    with pytest.raises(ValueError, match=r"`M` is not symmetric\. Pass \(M \+ M\.T\) / 2"):
        TraceMin(convert(np.array([[0.0, 1.0], [0.0, 0.0]])), 1)
    with pytest.raises(ValueError, match=r"`M` has 1 entries that are NaN"):
        TraceMin(convert(np.diag([1.0, np.nan])), 1)
    for build in (ONMF, TraceMin):
        with pytest.raises(ValueError, match="more columns than rows"):
            build(convert(np.eye(2)), 3)


def test_bad_projection_is_explained():
    with pytest.raises(ValueError, match="more columns than rows"):
        Projection(np.ones((2, 3)))
    with pytest.raises(ValueError, match="NaN or infinite"):
        Projection(np.array([[np.inf]]))


# --- a user's own f -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_smooth_takes_differences_where_no_gradient_is_given(dtype, rng):
    exact = cubic(rng)
    blind = Smooth(exact.fun, (N, K))
    X, D = rng.random((N, K)).astype(dtype), rng.standard_normal((N, K)).astype(dtype)
    G = blind.value_and_gradient(X)[1]
    assert G.dtype == dtype
    # Central differences: 1e-10; float32 rounds the point and the result.
    tol = 1e-8 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(G, exact.value_and_gradient(X)[1], atol=tol, rtol=tol)
    if dtype == np.float64:
        # Differences of differences: the noise 1e-10 over the step 1e-5.
        np.testing.assert_allclose(blind.hessp(X, D), exact.hessp(X, D), atol=1e-4)


def test_smooth_accepts_value_and_gradient_together(rng):
    both = Smooth(lambda X: (float((X**2).sum()), 2 * X), (N, K), jac=True, smoothness=2.0)
    X = rng.random((N, K))
    value, G = both.value_and_gradient(X)
    assert value == both.value(X) == pytest.approx((X**2).sum())
    np.testing.assert_array_equal(G, 2 * X)
    assert both.lipschitz == 2.0


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Smooth(3.0, (N, K)), TypeError, "`fun` must be callable, not float"),
        (lambda: Smooth(np.sum, (N, K), jac="2-point"), TypeError, "`jac` must be callable"),
        (lambda: Smooth(np.sum, (N, K), curvature=1), TypeError, "`curvature` must be callable"),
        (lambda: Smooth(np.sum, (2, 3)), ValueError, "more columns than rows"),
    ],
)
def test_smooth_arguments_are_checked(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("fun", "jac", "error", "message"),
    [
        (lambda X: X, np.zeros_like, TypeError, r"`fun` must return one real number.*\(6, 2\)"),
        (lambda X: 1j, np.zeros_like, TypeError, "one real number.*complex"),
        (lambda X: 0.0, lambda X: X.T, ValueError, r"The gradient must be.*shape \(2, 6\)"),
        (lambda X: 0.0, lambda X: X * np.nan, ValueError, "`The gradient` has 12 entries"),
        (lambda X: 0.0, True, TypeError, "`jac=True` means that `fun` returns"),
    ],
)
def test_smooth_answers_are_checked(fun, jac, error, message):
    with pytest.raises(error, match=message):
        Smooth(fun, (N, K), jac=jac).value_and_gradient(np.ones((N, K)))
