"""Optimality conditions: closed forms, brute force over all supports, and the paper's examples."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space
from scipy.optimize import minimize_scalar
from scipy.sparse.linalg import ArpackNoConvergence

from orthoplus import optimality
from orthoplus.geometry.oblique import random_oblique_plus, riemannian_gradient
from orthoplus.geometry.stiefel import in_tangent_cone, random_stiefel_plus
from orthoplus.optimality import critical_cone
from orthoplus.penalty.family import PowerPenalty
from orthoplus.penalty.penalized import Penalized
from orthoplus.problems import ONMF, Projection, Smooth, TraceMin

seeds = st.integers(0, 2**32 - 1)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def linear(C):
    """f(X) = <C, X>."""
    C = np.asarray(C, dtype=float)
    return Smooth(
        lambda X: float((C * X).sum()), C.shape, jac=lambda X: C, curvature=lambda X, D: 0.0 * D
    )


def quadratic(C, Q):
    """f(X) = <C, X> + vec(X)'Q vec(X) / 2, rows first."""
    C = np.asarray(C, dtype=float)

    def bent(X):
        return (Q @ X.ravel()).reshape(C.shape)

    return Smooth(
        lambda X: float((C * X).sum() + (X * bent(X)).sum() / 2),
        C.shape,
        jac=lambda X: C + bent(X),
        curvature=lambda X, D: bent(D),
    )


def random_symmetric(n, rng):
    Q = rng.standard_normal((n, n))
    return Q + Q.T


def retract(X, D, t):
    moved = X + t * D
    return moved / np.linalg.norm(moved, axis=0)


def dense_smallest_curvature(problem, X, free):
    """Eigenvalues of the Riemannian Hessian on an explicit basis of the critical space."""
    n, k = X.shape
    G = problem.value_and_gradient(X)[1]
    units = np.eye(n * k).reshape(n * k, n, k)
    H = np.array([(problem.hessp(X, D) - D * (X * G).sum(axis=0)).ravel() for D in units])
    allowed = ((X > 0) | free).ravel()
    equations = np.array([np.where(np.arange(k) == j, X, 0.0).ravel() for j in range(k)])
    basis = null_space(np.vstack([equations, np.eye(n * k)[~allowed]]))
    return np.linalg.eigvalsh(basis.T @ H @ basis)[0] if basis.size else math.inf


# First order


def test_stationarity_is_the_residual_by_hand():
    X = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0], [0.0, 0.0]])
    G = np.array([[5.0, -9.0], [0.0, -9.0], [-9.0, 7.0], [-2.0, 3.0]])
    # x_1'g_1 = 3: the support residual is (5 - 1.8, -2.4); of the zero row only -2 counts.
    assert optimality.stationarity(X, G) == pytest.approx(math.sqrt(3.2**2 + 2.4**2 + 4.0))


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_report_stationarity_is_the_scalar_residual_over_the_scale(seed):
    rng = np.random.default_rng(seed)
    X = random_stiefel_plus(7, 3, rng, n_zero_rows=int(rng.integers(0, 4)))
    C = rng.standard_normal((7, 3))
    report = optimality.check(linear(C), X)
    assert report.scale == pytest.approx(np.linalg.norm(C))
    assert report.stationarity * report.scale == pytest.approx(optimality.stationarity(X, C))
    parts = math.hypot(report.support_residual, report.zero_row_residual)
    assert report.stationarity == pytest.approx(parts)


def test_example_4_1_is_weakly_stationary_and_not_stationary():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    report = optimality.check(linear([[-1, -1], [0, 0], [0, 0]]), X)
    assert report.is_weakly_stationary
    assert not report.is_stationary
    assert report.stationarity == pytest.approx(1.0)
    assert report.satisfies_second_order_necessary is False
    assert report.constraint_qualification == "Guignard only"


def test_check_rejects_a_point_that_is_not_weakly_stationary():
    X = np.array([[0.6], [0.8]])
    report = optimality.check(linear([[-1.0], [0.0]]), X)
    assert not report.is_weakly_stationary
    assert not report.is_stationary


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.array([[1.0], [0.0]]), "LICQ"),
        (np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]]), "CCP"),
        (np.eye(3, 2), "Guignard only"),
        (np.eye(2), "CCP"),
    ],
)
def test_constraint_qualification_follows_lemma_2_3(X, expected):
    assert optimality.check(linear(np.zeros(X.shape)), X).constraint_qualification == expected


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_weakly_stationary_is_stationary_without_zero_rows_only(seed):
    # Corollary 4.3: (2.6b) speaks of zero rows alone, so without them (2.6a) is all there is.
    rng = np.random.default_rng(seed)
    X = random_stiefel_plus(6, 3, rng, n_zero_rows=2)
    zero_row = ~X.any(axis=1, keepdims=True)
    on_support = X * rng.standard_normal(3)  # what makes (2.6a) hold
    anything = np.where(X > 0, on_support, rng.standard_normal(X.shape))
    full, C = X[~zero_row.ravel()], anything[~zero_row.ravel()]
    assert optimality.check(linear(C), full).is_stationary
    report = optimality.check(linear(anything), X)
    assert report.is_weakly_stationary
    assert report.is_stationary == (anything[zero_row.ravel()] >= 0).all()
    signed = optimality.check(linear(np.where(zero_row, np.abs(anything), anything)), X)
    assert signed.is_stationary


# Multipliers


@given(seeds, st.booleans())
@settings(max_examples=30, deadline=None)
def test_multipliers_solve_the_kkt_system(seed, with_mixing):
    rng = np.random.default_rng(seed)
    n, k = 6, 3
    X = random_stiefel_plus(n, k, rng, n_zero_rows=int(rng.integers(0, 3)))
    C = rng.standard_normal((n, k))
    V = rng.uniform(0.1, 1.0, (k, 2)) if with_mixing else np.ones((k, 1))
    V /= np.linalg.norm(V)
    report = optimality.check(linear(C), X, V=V if with_mixing else None)
    gram = V @ V.T
    off = gram - np.diag(np.diag(gram))
    beside = (X == 0) & X.any(axis=1, keepdims=True)
    by_hand = max(-C[i, j] / (X @ off)[i, j] for i, j in np.argwhere(beside))  # (2.10)
    assert report.lambda_bar == pytest.approx(by_hand)
    assert report.Z[beside].min() == pytest.approx(0.0, abs=1e-9)  # the least multiplier is tight
    lam, slopes = report.lambda_bar, 2 * report.Lambda - report.lambda_bar * np.diag(gram)
    # The display between (2.7) and (2.8): the gradient of the Lagrangian vanishes identically.
    np.testing.assert_allclose(C - X * slopes - report.Z + lam * X @ off, 0.0, atol=1e-9)
    np.testing.assert_allclose(slopes, (X * C).sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(report.Z[X > 0], riemannian_gradient(X, C)[X > 0], atol=1e-9)
    np.testing.assert_allclose(report.Z[~X.any(axis=1)], C[~X.any(axis=1)])


def test_multipliers_stay_defined_when_an_entry_underflows():
    X = np.array([[1.0, 0.0], [1e-310, 0.0], [0.0, 1.0]])
    report = optimality.check(linear(-np.ones((3, 2))), X)
    assert report.lambda_bar == math.inf
    assert not np.isnan(report.Z).any()


def test_lambda_bar_is_zero_when_k_is_one():
    assert optimality.check(linear([[-1.0], [0.0]]), np.array([[1.0], [0.0]])).lambda_bar == 0.0


# Second order, no free entries


@pytest.mark.parametrize("n", [2, 5, 40, 220])  # 220 is above the dense dimension
def test_smallest_curvature_is_twice_the_eigenvalue_gap_when_k_is_one(n, rng):
    M = -rng.uniform(0.5, 1.5, (n, n))
    M = (M + M.T) / 2
    values, vectors = np.linalg.eigh(M)
    X = np.abs(vectors[:, :1])
    report = optimality.check(TraceMin(M, 1), X, tol=1e-8)
    assert report.is_stationary
    assert report.satisfies_second_order_sufficient
    assert report.smallest_curvature == pytest.approx(2 * (values[1] - values[0]), rel=1e-6)
    # residual-accurate eigenvectors are accurate to the square root of the eigenvalue error
    assert abs(vectors[:, 1] @ report.direction[:, 0]) == pytest.approx(1.0, abs=1e-3)


def test_smallest_curvature_is_the_least_gap_of_the_blocks(rng):
    sizes, k = (4, 6, 3), 3
    X, gaps, start = np.zeros((13, k)), [], 0
    M = np.zeros((13, 13))
    for j, m in enumerate(sizes):
        block = -rng.uniform(0.5, 1.5, (m, m))
        rows = slice(start, start + m)
        M[rows, rows] = (block + block.T) / 2
        values, vectors = np.linalg.eigh(M[rows, rows])
        X[rows, j] = np.abs(vectors[:, 0])
        gaps.append(2 * (values[1] - values[0]))
        start += m
    report = optimality.check(TraceMin(M, k), X)
    assert report.smallest_curvature == pytest.approx(min(gaps))
    assert report.dimension == 13 - k
    assert report.satisfies_second_order_sufficient


def test_saddle_is_stationary_and_not_second_order(rng):
    M = rng.uniform(0.5, 1.5, (6, 6))
    M = M + M.T
    values, vectors = np.linalg.eigh(M)
    X = np.abs(vectors[:, -1:])  # the Perron vector maximizes
    problem = TraceMin(M, 1)
    report = optimality.check(problem, X)
    assert report.is_stationary
    assert report.satisfies_weak_second_order is False
    assert report.satisfies_second_order_necessary is False
    assert report.satisfies_second_order_sufficient is False
    assert report.smallest_curvature == pytest.approx(2 * (values[0] - values[-1]))
    assert problem.value(retract(X, report.escape, 1e-2)) < problem.value(X)
    assert np.linalg.norm(report.escape) == pytest.approx(1.0)


def test_linear_optimum_is_strict_with_curvature_the_column_norms():
    C = np.array([[-3.0, 1.0], [-4.0, 1.0], [1.0, -2.0], [0.5, 0.5]])
    X = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0], [0.0, 0.0]])
    report = optimality.check(linear(C), X)
    assert report.satisfies_second_order_sufficient
    assert report.smallest_curvature == pytest.approx(5.0)  # only column 1 can turn


def test_curvature_is_infinite_when_the_critical_cone_is_zero():
    report = optimality.check(linear([[-1.0, 1.0], [1.0, -1.0]]), np.eye(2))
    assert report.smallest_curvature == math.inf
    assert report.direction is None
    assert report.satisfies_second_order_sufficient


def test_flat_objective_is_necessary_and_not_sufficient():
    X = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]])
    report = optimality.check(linear(np.zeros((3, 2))), X)
    assert report.satisfies_second_order_necessary is True
    assert report.satisfies_second_order_sufficient is False
    assert "zero" in report.explanation


@pytest.mark.parametrize("objective", ["flat", "scaled identity"])
def test_lanczos_meets_an_operator_with_one_eigenvalue(objective):
    n = 300
    C = np.zeros((n, 1)) if objective == "flat" else -np.ones((n, 1))
    report = optimality.check(linear(C), np.ones((n, 1)) / np.sqrt(n))
    assert report.smallest_curvature == pytest.approx(np.linalg.norm(C))
    assert report.satisfies_second_order_sufficient is (objective != "flat")


@pytest.mark.parametrize("n_zero_rows", [0, 2])
@pytest.mark.parametrize("dense_dimension", [0, 150])
def test_curvature_equals_dense_eigendecomposition(rng, monkeypatch, dense_dimension, n_zero_rows):
    monkeypatch.setattr(critical_cone, "_DENSE_DIMENSION", dense_dimension)
    n, k = 14, 3
    X = random_stiefel_plus(n, k, rng, n_zero_rows=n_zero_rows)
    problem = quadratic(rng.standard_normal((n, k)), random_symmetric(n * k, rng))
    report = optimality.check(problem, X, tol=1e-9)
    expected = dense_smallest_curvature(problem, X, np.zeros(X.shape, dtype=bool))
    assert report.smallest_curvature == pytest.approx(expected, rel=1e-7)
    D = report.direction
    G = problem.value_and_gradient(X)[1]
    quotient = (D * (problem.hessp(X, D) - D * (X * G).sum(axis=0))).sum()
    assert quotient == pytest.approx(expected, rel=1e-7)
    np.testing.assert_allclose((X * D).sum(axis=0), 0.0, atol=1e-12)
    assert not D[X == 0].any()


def test_curvature_from_gradient_differences_agrees_with_exact_products(rng):
    A = rng.uniform(size=(12, 8))
    problem = ONMF(A, 2, quartic=True)
    X = problem.refine(random_stiefel_plus(12, 2, rng))
    numeric = Smooth(problem.value, (12, 2), jac=lambda X: problem.value_and_gradient(X)[1])
    exact, differences = optimality.check(problem, X), optimality.check(numeric, X)
    assert exact.is_stationary
    # central differences of a gradient are good to about eps^(2/3) of its size
    assert differences.smallest_curvature == pytest.approx(exact.smallest_curvature, rel=1e-6)


# Second order with free entries: zero rows where the gradient is zero


def zero_row_problem(block, slope=1.0):
    """Over 3 x 2 at X = I: row 3 has gradient 0 and curvature ``block + slope I``."""
    C, Q = np.zeros((3, 2)), np.zeros((6, 6))
    C[0, 0] = C[1, 1] = -slope
    Q[4:, 4:] = block
    return quadratic(C, Q)


@pytest.mark.parametrize("coupling", [5.0, -5.0])
def test_sufficient_holds_on_the_cone_when_the_span_has_negative_curvature(coupling):
    # One entry a row may grow: the coupling of the two is not seen on S+.
    report = optimality.check(zero_row_problem([[0, coupling], [coupling, 0]]), np.eye(3, 2))
    assert report.smallest_curvature == pytest.approx(-4.0)
    assert report.support_curvature == math.inf
    assert report.satisfies_second_order_necessary is True
    assert report.satisfies_second_order_sufficient is True


def test_necessary_fails_along_one_entry_of_a_zero_row():
    problem = zero_row_problem(np.diag([3.0, -3.0]))
    report = optimality.check(problem, np.eye(3, 2))
    assert report.satisfies_weak_second_order is True
    assert report.satisfies_second_order_necessary is False
    np.testing.assert_allclose(report.escape, [[0, 0], [0, 0], [0, 1]], atol=1e-12)
    assert problem.value(retract(report.X, report.escape, 1e-2)) < problem.value(report.X)


@pytest.mark.parametrize(("coupling", "expected"), [(5.0, True), (-5.0, False)])
def test_cone_is_copositive_when_k_is_one(coupling, expected):
    Q = np.zeros((3, 3))
    Q[1, 2] = Q[2, 1] = coupling
    report = optimality.check(quadratic([[-1.0], [0], [0]], Q), np.eye(3, 1))
    assert report.smallest_curvature == pytest.approx(-4.0)
    assert report.satisfies_second_order_necessary is expected
    assert report.satisfies_second_order_sufficient is expected
    if not expected:
        np.testing.assert_allclose(report.escape[:, 0], [0, 0.5**0.5, 0.5**0.5], atol=1e-12)


@pytest.mark.parametrize(("coupling", "expected"), [(5.0, None), (-5.0, False)])
def test_trial_directions_stay_in_the_cone(monkeypatch, coupling, expected):
    monkeypatch.setattr(critical_cone, "MAX_FACES", 0)
    Q = np.zeros((3, 3))
    Q[1, 2] = Q[2, 1] = coupling
    report = optimality.check(quadratic([[-1.0], [0], [0]], Q), np.eye(3, 1))
    assert report.satisfies_second_order_necessary is expected


@pytest.mark.parametrize(("beside", "expected"), [(0.0, None), (-1.0, True)])
def test_coupling_term_decides_when_there_are_too_many_faces(monkeypatch, beside, expected):
    # On row 3 the Hessian is [[1, -1.5], [-1.5, 1]], and lambda_bar / 2 is added off the diagonal.
    monkeypatch.setattr(critical_cone, "MAX_FACES", 0)
    C, Q = np.zeros((3, 2)), np.zeros((6, 6))
    C[0, 0] = C[1, 1] = -1.0
    C[0, 1] = beside
    Q[4, 5] = Q[5, 4] = -1.5
    report = optimality.check(quadratic(C, Q), np.eye(3, 2))
    assert report.lambda_bar == -2 * beside
    assert report.satisfies_second_order_necessary is expected
    assert report.satisfies_second_order_sufficient is expected
    assert ("undecided" in str(report)) is (expected is None)


def quadratic_example(rng, n, k, n_zero_rows, n_free):
    """A stationary X by construction, with n_free free entries, under a random quadratic."""
    X = random_stiefel_plus(n, k, rng, n_zero_rows=n_zero_rows)
    Q = random_symmetric(n * k, rng) + rng.uniform(0, 8) * np.eye(n * k)
    wanted = rng.standard_normal((n, k))  # on Omega'_0 anything goes
    zero_rows = np.flatnonzero(~X.any(axis=1))
    wanted[zero_rows] = 1.0
    spots = rng.permutation([(i, j) for i in zero_rows for j in range(k)])[:n_free]
    for i, j in spots:
        wanted[i, j] = 0.0
    slopes = rng.uniform(-4, 1, k)
    wanted = np.where(X > 0, X * slopes, wanted)
    return quadratic(wanted - (Q @ X.ravel()).reshape(n, k), Q), X


def sampled_cone(X, free, rng, size):
    """Random directions of the cone N of (2.11)."""
    D = np.where(X > 0, rng.standard_normal((size, *X.shape)), 0.0)
    growth = np.where(free, rng.exponential(size=D.shape) * rng.uniform(size=(size, 1, 1)), 0.0)
    chosen = rng.integers(0, X.shape[1], (size, X.shape[0], 1)) == np.arange(X.shape[1])
    D += np.where(chosen, growth, 0.0) * (rng.uniform(size=(size, X.shape[0], 1)) < 0.7)
    D -= X * (X * D).sum(axis=1, keepdims=True)
    return D[np.linalg.norm(D, axis=(1, 2)) > 1e-8]


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_decision_on_the_cone_agrees_with_sampling(seed):
    rng = np.random.default_rng(seed)
    problem, X = quadratic_example(rng, 5, 2, int(rng.integers(1, 3)), int(rng.integers(1, 4)))
    report = optimality.check(problem, X)
    assert report.is_stationary
    assert report.satisfies_second_order_necessary is not None
    G = problem.value_and_gradient(X)[1]
    free = ~X.any(axis=1, keepdims=True) & (np.abs(G) < 1e-8)

    def quotient(D):
        return (D * (problem.hessp(X, D) - D * (X * G).sum(axis=0))).sum() / (D * D).sum()

    if report.satisfies_second_order_necessary:
        assert min(map(quotient, sampled_cone(X, free, rng, 300))) > -1e-4
    else:
        assert quotient(report.escape) < 0
        assert in_tangent_cone(X, report.escape)
        assert not report.escape[(X == 0) & ~free].any()
    if report.satisfies_second_order_sufficient:
        assert report.satisfies_second_order_necessary


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_decision_without_enumeration_never_contradicts_it(seed):
    rng = np.random.default_rng(seed)
    problem, X = quadratic_example(rng, 6, 2, 2, 4)
    exact = optimality.check(problem, X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(critical_cone, "MAX_FACES", 0)
        patch.setattr(critical_cone, "_DENSE_DIMENSION", 3)
        rough = optimality.check(problem, X)
    assert rough.smallest_curvature == pytest.approx(exact.smallest_curvature, rel=1e-5)
    for name in ("satisfies_second_order_necessary", "satisfies_second_order_sufficient"):
        assert getattr(rough, name) in (None, getattr(exact, name))


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_sufficient_means_a_strict_local_minimizer(seed):
    rng = np.random.default_rng(seed)
    problem, X = quadratic_example(rng, 5, 2, 1, int(rng.integers(0, 3)))
    if not optimality.check(problem, X).satisfies_second_order_sufficient:
        return
    zero = ~X.any(axis=1)
    for _ in range(100):
        D = np.where(X > 0, rng.standard_normal(X.shape), 0.0)
        D[zero, rng.integers(0, 2)] = abs(rng.standard_normal())
        D -= X * (X * D).sum(axis=0)
        assert problem.value(retract(X, np.maximum(D, -X / 1e-4), 1e-4)) > problem.value(X)


# Brute force over all supports


def best_trace(M, k):
    """Global minimizer of tr(X'MX): a positive eigenvector of each block, over all supports."""
    n, best, best_X = len(M), math.inf, None
    for labels in product(range(-1, k), repeat=n):
        X, value = np.zeros((n, k)), 0.0
        for j in range(k):
            rows = np.flatnonzero(np.equal(labels, j))
            values, vectors = np.linalg.eigh(M[np.ix_(rows, rows)])
            signs = np.sign(vectors[:1])
            fits = np.flatnonzero((vectors * signs > 1e-9).all(axis=0)) if rows.size else []
            value += values[fits[0]] if len(fits) else math.inf
            if len(fits):
                X[rows, j] = vectors[:, fits[0]] * signs[0, fits[0]]
        if value < best:
            best, best_X = value, X
    return best, best_X


@pytest.mark.parametrize(("n", "k"), [(4, 1), (4, 2), (5, 2), (4, 3), (3, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_global_minimizer_of_a_random_trace_passes(n, k, seed):
    M = random_symmetric(n, np.random.default_rng(seed))
    value, X = best_trace(M, k)
    report = optimality.check(TraceMin(M, k), X)
    assert report.value == pytest.approx(value)
    assert report.is_stationary
    assert report.satisfies_second_order_necessary


@pytest.mark.parametrize("seed", range(10))
def test_global_minimizer_of_a_random_quadratic_passes(seed):
    # In S+ of shape 3 x 2 every support has at most one degree of freedom, an angle.
    rng = np.random.default_rng(seed)
    problem = quadratic(rng.standard_normal((3, 2)), random_symmetric(6, rng))

    def point(labels, angle):
        X = np.zeros((3, 2))
        for j in range(2):
            rows = np.flatnonzero(np.equal(labels, j))
            X[rows, j] = [1.0] if len(rows) == 1 else [math.cos(angle), math.sin(angle)]
        return X

    candidates = []
    for labels in product((-1, 0, 1), repeat=3):
        if {0, 1} <= set(labels):
            curve = [problem.value(point(labels, t)) for t in np.linspace(0, np.pi / 2, 201)]
            t = np.pi / 400 * int(np.argmin(curve))
            fit = minimize_scalar(
                lambda a, labels=labels: problem.value(point(labels, a)),
                bounds=(max(t - 0.01, 1e-4), min(t + 0.01, np.pi / 2 - 1e-4)),
                method="bounded",
                options={"xatol": 1e-12},
            )
            candidates.append(point(labels, fit.x))
    X = min(candidates, key=problem.value)
    report = optimality.check(problem, X, tol=1e-5)  # the search is good to sqrt(eps)
    assert report.is_stationary
    assert report.satisfies_second_order_necessary


# Invariance, types, the report


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_check_is_permutation_equivariant(seed):
    rng = np.random.default_rng(seed)
    n, k = 6, 2
    X = random_stiefel_plus(n, k, rng, n_zero_rows=1)
    M = random_symmetric(n, rng)
    rows, columns = rng.permutation(n), rng.permutation(k)
    here = optimality.check(TraceMin(M, k), X)
    there = optimality.check(TraceMin(M[np.ix_(rows, rows)], k), X[rows][:, columns])
    for name in ("stationarity", "smallest_curvature", "lambda_bar"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), rel=1e-9, abs=1e-12)


def test_check_leaves_its_input_untouched_and_takes_float32(rng):
    X = random_stiefel_plus(200, 4, rng).astype(np.float32)
    before = X.copy()
    report = optimality.check(linear(-X.astype(float)), X)
    np.testing.assert_array_equal(X, before)
    assert report.X.dtype == np.float64
    assert report.is_stationary


def test_second_order_is_left_out_on_request():
    report = optimality.check(linear([[-1.0], [0.0]]), np.eye(2, 1), second_order=False)
    assert report.is_stationary
    assert report.satisfies_second_order_necessary is None
    assert report.smallest_curvature is None
    assert "not requested" in report.explanation


def test_summary_is_aligned_and_is_str():
    report = optimality.check(linear([[-1.0], [0.0]]), np.eye(2, 1))
    lines = report.summary().splitlines()
    assert str(report) == report.summary()
    assert {line[28] for line in lines[1:-1]}.isdisjoint(" ")
    assert {line[27] for line in lines[1:-1]} == {" "}


def test_answer_is_open_when_lanczos_does_not_converge(monkeypatch):
    def never(*args, **options):
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr(critical_cone, "eigsh", never)
    n = 200
    report = optimality.check(linear(-np.ones((n, 1))), np.ones((n, 1)) / math.sqrt(n))
    assert report.is_stationary
    assert report.satisfies_second_order_necessary is None
    assert report.smallest_curvature is None
    assert "did not converge" in str(report)


# Bad input


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((3, 2)), r"not in S\+.*away.*round_to_stiefel_plus"),
        (np.array([[1.0, 0.0], [0.0, 1.0], [-1e-3, 0.0]]), r"smallest entry -0\.001"),
        (np.array([[1.0, 1e-4], [0.0, 1.0], [0.0, 0.0]]), r"not in S\+"),
        (np.zeros((3, 2)), r"not in S\+"),
        (np.eye(2), r"shape \(2, 2\), but the problem needs shape \(3, 2\)"),
        (np.array([[1.0, 0.0], [0.0, np.nan], [0.0, 0.0]]), "NaN"),
        (np.full((3, 2), 1e300), "products of such numbers"),
        (np.full((3, 2), 1e30, dtype=np.float32), "products of such numbers"),
    ],
)
def test_check_refuses_a_point_outside_with_its_violation(X, message):
    with pytest.raises(ValueError, match=message):
        optimality.check(linear(np.zeros((3, 2))), X)


def test_check_refuses_bad_options():
    problem, X = linear(np.zeros((3, 2))), np.eye(3, 2)
    with pytest.raises(ValueError, match="tol"):
        optimality.check(problem, X, tol=0.0)
    with pytest.raises(ValueError, match="one row per column"):
        optimality.check(problem, X, V=np.ones((3, 1)) / math.sqrt(3))
    with pytest.raises(ValueError, match="not admissible"):
        optimality.check(problem, X, V=np.ones((2, 1)))


# OB+


def test_oblique_linear_minimizer_is_strict():
    C = np.array([[3.0, 4.0, -1.0], [4.0, 3.0, -2.0], [-1.0, -1.0, -2.0]])
    X = np.array([[0.6, 0.8, 1.0], [0.8, 0.6, 0.0], [0.0, 0.0, 0.0]])
    report = optimality.check_oblique(Projection(C), X)
    assert report.set_name == "OB+"
    assert report.is_stationary
    assert report.satisfies_weak_second_order
    assert report.satisfies_second_order_sufficient
    assert report.smallest_curvature == pytest.approx(10.0)
    assert report.lambda_bar is None
    assert report.constraint_qualification == "LICQ"
    np.testing.assert_allclose(report.Z, riemannian_gradient(X, -2 * C), atol=1e-12)


def test_oblique_residual_is_the_natural_one(rng):
    X = np.abs(rng.standard_normal((5, 3))) * (rng.uniform(size=(5, 3)) < 0.7)
    X[0] += 0.1
    X /= np.linalg.norm(X, axis=0)
    C = rng.standard_normal((5, 3))
    report = optimality.check_oblique(linear(C), X)
    assert report.scale == pytest.approx(np.linalg.norm(C))
    natural = np.linalg.norm(np.minimum(X, riemannian_gradient(X, C) / report.scale))
    assert report.stationarity == pytest.approx(natural)
    assert not report.is_stationary


def test_oblique_saddle_fails_wsoc(rng):
    M = rng.uniform(0.5, 1.5, (6, 6))
    M = M + M.T
    X = np.abs(np.linalg.eigh(M)[1][:, -1:])
    report = optimality.check_oblique(TraceMin(M, 1), X)
    assert report.is_stationary
    assert report.satisfies_weak_second_order is False


@pytest.mark.parametrize(("coupling", "expected"), [(5.0, True), (-5.0, False)])
def test_oblique_cone_lets_two_entries_of_a_row_grow(coupling, expected):
    report = optimality.check_oblique(
        zero_row_problem([[0, coupling], [coupling, 0]]), np.eye(3, 2)
    )
    assert report.satisfies_second_order_necessary is expected


def test_example_4_1_iterates_are_stationary_for_the_penalized_problem():
    sigma = 10.0
    small, large = 1 / sigma, math.sqrt(1 - 1 / sigma**2)
    X = np.array([[small, small], [large, 0.0], [0.0, large]])
    problem = Penalized(linear([[-1, -1], [0, 0], [0, 0]]), PowerPenalty(sigma))
    report = optimality.check_oblique(problem, X)
    assert report.is_stationary


def test_check_oblique_refuses_a_point_outside():
    with pytest.raises(ValueError, match=r"not in OB\+.*project_oblique_plus"):
        optimality.check_oblique(linear(np.zeros((2, 1))), np.ones((2, 1)))


# The scale of f


@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1.0, 1e12])
def test_random_points_of_small_data_are_not_stationary(scale):
    rng = np.random.default_rng(0)
    problem = ONMF(scale * rng.random((20, 6)), 3)
    for seed in range(5):
        X = random_stiefel_plus(20, 3, np.random.default_rng(seed))
        report = optimality.check(problem, X)
        assert not report.is_weakly_stationary
        assert report.satisfies_second_order_necessary is False


@pytest.mark.parametrize("value", [0.0, 3.7, -1e12])
def test_every_point_is_stationary_and_none_strict_when_f_is_constant(value, rng):
    problem = Smooth(lambda X: value, (6, 2), jac=lambda X: 0.0 * X, curvature=lambda X, D: 0.0 * D)
    X = random_stiefel_plus(6, 2, rng, n_zero_rows=2)
    report = optimality.check(problem, X)
    assert report.scale == report.stationarity == 0.0
    assert report.is_stationary
    assert report.satisfies_second_order_necessary is True
    assert report.satisfies_second_order_sufficient is False
    report = optimality.check_oblique(problem, random_oblique_plus(6, 2, rng))
    assert report.is_stationary
    assert report.satisfies_second_order_necessary is True
    assert report.satisfies_second_order_sufficient is False


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("shift", [0.0, 1e-15, 1e-12])
def test_minimizer_with_a_vanishing_gradient_is_stationary(scale, shift, rng):
    """s ||X - T||^2 at T: what is left of the gradient is rounding, and points anywhere."""
    T = random_stiefel_plus(8, 3, rng)
    moved = T + shift * rng.standard_normal(T.shape)

    def slope(X):
        return 2 * scale * (X - moved)

    problem = Smooth(
        lambda X: scale * float(((X - moved) ** 2).sum()),
        (8, 3),
        jac=slope,
        curvature=lambda X, D: 2 * scale * D,
    )
    report = optimality.check(problem, T)
    assert report.is_stationary
    assert report.satisfies_second_order_sufficient is True
    assert optimality.check_oblique(problem, T).is_stationary
    # A point that is a thousandth away is none.
    away = T.copy()
    away[T[:, 0] > 0, 0] += 1e-3 * np.arange(np.count_nonzero(T[:, 0] > 0))
    away /= np.linalg.norm(away, axis=0)
    assert not optimality.check(problem, away).is_stationary


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_curvature_that_cancels_is_zero_at_every_scale(scale, rng):
    """s ||X'X - I||^2 is constant on S+: curvature on the support is 0 up to rounding."""

    def parts(X):
        return X.T @ X - np.eye(2)

    def bent(X, D):
        return 4 * scale * (D @ parts(X) + X @ (D.T @ X + X.T @ D))

    problem = Smooth(
        lambda X: scale * float((parts(X) ** 2).sum()),
        (7, 2),
        jac=lambda X: 4 * scale * X @ parts(X),
        curvature=bent,
    )
    report = optimality.check(problem, random_stiefel_plus(7, 2, rng))
    assert report.is_stationary
    assert report.satisfies_second_order_necessary is True
    assert report.satisfies_second_order_sufficient is False


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(
    ("second", "expected"), [(2.0, (True, True)), (1.0, (True, False)), (0.5, (False, False))]
)
def test_curvature_verdicts_do_not_depend_on_the_scale(scale, second, expected):
    """min x'Mx at e_1: the curvature is twice the distance of the other eigenvalues from 1."""
    M = scale * np.diag([1.0, second, 3.0])
    report = optimality.check(TraceMin(M, 1), np.eye(3, 1))
    answers = report.satisfies_second_order_necessary, report.satisfies_second_order_sufficient
    assert answers == expected
    assert report.smallest_curvature == pytest.approx(scale * 2 * (second - 1), abs=1e-12 * scale)
