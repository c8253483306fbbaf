"""Multiplying f, A, C or M by a positive number changes no label, no verdict and no status."""

from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator

import orthoplus as op
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.optimality.conditions import check, check_oblique
from orthoplus.problems import (
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
    laplacian_embedding,
    nonnegative_pca,
    ratio_cut,
)

N, K, R = 18, 3, 7


def planted():
    """Data with clear groups, so that rounding does not decide which solution is found."""
    rng = np.random.default_rng(0)
    H = np.kron(np.eye(K), np.ones((N // K, 1))) * (0.5 + rng.random((N, 1)))
    A = H @ (rng.random((K, R)) * np.kron(np.eye(K), np.ones((1, 3)))[:, :R] + 0.02)
    A += 0.01 * rng.random((N, R))
    return rng, H, A


def smooth(s, H):
    """s times a nearly linear f."""

    def slope(X):
        return s * (-H + 0.3 * X * X)

    return Smooth(
        lambda X: s * float((0.1 * X**3 - H * X).sum()),
        (N, K),
        jac=slope,
        curvature=lambda X, D: s * 0.6 * X * D,
    )


def times(s, problem):
    """s times a problem whose own data do not scale f: a distance to X has a scale."""
    return Smooth(
        lambda X: s * problem.value(X),
        problem.shape,
        jac=lambda X: s * problem.value_and_gradient(X)[1],
        curvature=lambda X, D: s * problem.hessp(X, D),
    )


def ridge(s, A, *, closed_form=True):
    """s (||A - XY'||^2 + ||Y||^2), the second block in closed form or found by gradient steps."""

    def fun(X, Y):
        left = A - X @ Y.T
        value = s * ((left**2).sum() + (Y**2).sum())
        return value, -2 * s * left @ Y, s * (2 * Y - 2 * left.T @ X)

    best = (lambda X: A.T @ X @ np.linalg.inv(X.T @ X + np.eye(K))) if closed_form else None
    return TwoBlock(fun, (N, K), np.full((R, K), 0.5), minimize_y=best)


def families():
    """Problems as functions of a factor of f, by their name in the registry and a variant."""
    rng, H, A = planted()
    noise = rng.standard_normal((N, N))
    S = A @ A.T / 20 + 0.01 * np.abs(noise + noise.T)
    U = np.linalg.qr(H + 0.02 * rng.random((N, K)))[0]
    W, B = rng.integers(0, 9, (2, 7, 7)).astype(float)
    W, B = W + W.T, B + B.T
    return {
        "projection": lambda s: Projection(s * (H + 0.1 * noise[:, :K])),
        "trace_min": lambda s: TraceMin(-s * S, K),
        "trace_min, sparse": lambda s: TraceMin(csr_array(-s * S), K),
        "trace_min, operator": lambda s: TraceMin(aslinearoperator(-s * S), K),
        "trace_min, components": lambda s: nonnegative_pca(np.sqrt(s) * A, K),
        "trace_min, graph": lambda s: laplacian_embedding(s * S, K),
        "trace_min, ratio cut": lambda s: ratio_cut(s * S, K),
        "onmf": lambda s: ONMF(s * A, K),
        "onmf, quartic": lambda s: ONMF(s * A, K, quartic=True),
        "onmf, signed": lambda s: ONMF(s * (A - 0.01), K, allow_negative=True),
        "kl_onmf": lambda s: KLONMF(s * A, K),
        "projective_kl": lambda s: ProjectiveKL(s * A, K),
        "symmetric_onmf": lambda s: times(s, SymmetricONMF(S, K)),
        "k_indicators": lambda s: times(s, KIndicators(U)),
        "k_means": lambda s: KMeans(s * A, K),
        "qap": lambda s: QAP(s * W, B),
        "smooth": lambda s: smooth(s, H),
        "two_block": lambda s: ridge(s, A),
    }


FAMILIES = families()


@cache
def run(name, s):
    problem = FAMILIES[name](s)
    # The paper's parameters for a projection are made for a C of entries near 1.
    method = op.EP4Orth() if name == "projection" else None
    return problem, op.solve(problem, method=method)


def verdicts(problem, X, check=check):
    report = check(problem, X)
    return (
        report.is_weakly_stationary,
        report.is_stationary,
        report.satisfies_weak_second_order,
        report.satisfies_second_order_necessary,
        report.satisfies_second_order_sufficient,
        report.dimension,
        report.explanation,
    )


@cache
def verdicts_of_run(name, s):
    """What is said of the answer of a run."""
    problem, result = run(name, s)
    return verdicts(problem, result.X)


def test_every_problem_of_the_registry_is_scaled():
    assert {name.split(",")[0] for name in FAMILIES} == set(PROBLEMS)


@pytest.mark.parametrize("exponent", [-40, 40])
@pytest.mark.parametrize("name", FAMILIES)
def test_power_of_two_changes_no_bit_of_the_answer(name, exponent):
    """Such products are exact: so is every step, if nothing in it is absolute."""
    one, other = run(name, 1.0)[1], run(name, 2.0**exponent)[1]
    if name == "projective_kl":  # a logarithm of the scaled data is not exact
        np.testing.assert_allclose(other.X, one.X, atol=1e-8)
        assert other.status is one.status
        return
    np.testing.assert_array_equal(other.X, one.X)
    assert other.status is one.status
    assert other.n_iter == one.n_iter
    if name != "projection":  # ||X - C||^2 has a term that C does not scale
        assert other.n_eval == one.n_eval
        assert other.gap == one.gap
    assert verdicts_of_run(name, 2.0**exponent) == verdicts_of_run(name, 1.0)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("name", FAMILIES)
def test_other_factors_change_no_label_no_status_and_no_verdict(name, scale):
    one, other = run(name, 1.0)[1], run(name, scale)[1]
    np.testing.assert_array_equal(other.labels, one.labels)
    assert other.status is one.status
    assert verdicts_of_run(name, scale) == verdicts_of_run(name, 1.0)


@pytest.mark.parametrize("exponent", [-40, 40])
@pytest.mark.parametrize("name", FAMILIES)
def test_points_that_are_no_minimizers_are_told_so_at_every_scale(name, exponent, rng):
    problem, scaled = FAMILIES[name](1.0), FAMILIES[name](2.0**exponent)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        n, k = problem.shape
        X = random_stiefel_plus(
            n, k, rng, n_zero_rows=0 if name in ("kl_onmf", "projective_kl", "qap") else 2
        )
        assert verdicts(scaled, X) == verdicts(problem, X)
        # A permutation is the only point of its support, and always stationary.
        assert check(scaled, X).is_stationary == (name == "qap")
        X = random_oblique_plus(n, k, rng)
        assert verdicts(scaled, X, check_oblique) == verdicts(problem, X, check_oblique)
        assert not check_oblique(scaled, X).is_stationary


@pytest.mark.parametrize("exponent", [-40, 40])
def test_second_block_by_gradient_steps_is_the_same_at_every_scale(exponent, rng):
    A = planted()[2]
    X = random_stiefel_plus(N, K, rng)
    one = ridge(1.0, A, closed_form=False).second_block(X)
    other = ridge(2.0**exponent, A, closed_form=False).second_block(X)
    np.testing.assert_array_equal(other, one)
    np.testing.assert_allclose(one, A.T @ X / 2.0, atol=1e-7)  # X'X = I


@cache
def run_alternating(inner, s):
    problem = ridge(s, planted()[2], closed_form=False)
    return op.solve(problem, method=op.EP4Orth(inner=inner, max_iter=3), search=False)


@pytest.mark.parametrize("exponent", [-40, 40])
@pytest.mark.parametrize("inner", [op.methods.PALM(), op.methods.ProximalAlternating()])
def test_alternating_methods_take_the_same_path_at_every_scale(inner, exponent):
    one, other = run_alternating(inner, 1.0), run_alternating(inner, 2.0**exponent)
    np.testing.assert_array_equal(other.X, one.X)
    assert other.status is one.status


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_asymmetry_is_judged_beside_the_matrix(scale, rng):
    M = rng.standard_normal((5, 5))
    for problem in (TraceMin, SymmetricONMF):
        with pytest.raises(ValueError, match="is not symmetric"):
            problem(scale * M, 2)
        with pytest.raises(ValueError, match="is not symmetric"):
            problem(csr_array(scale * M), 2)
        problem(scale * (M + M.T), 2)
    with pytest.raises(ValueError, match="is not symmetric"):
        TraceMin(aslinearoperator(scale * M), 2)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_directions_are_judged_at_their_own_size(scale):
    X = np.eye(3, 2)
    beside = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    within = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert not op.geometry.in_linearized_cone(X, scale * beside)
    assert op.geometry.in_tangent_cone(X, scale * within)
    assert not op.geometry.in_tangent_cone(X, scale * (within + within[:, ::-1]))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_derivative_check_does_not_depend_on_the_scale(scale, rng):
    H = planted()[1]
    assert op.check_gradient(smooth(scale, H)).is_right
    wrong = Smooth(lambda X: scale * float((H * X).sum()), (N, K), jac=lambda X: 1.01 * scale * H)
    assert not op.check_gradient(wrong).is_right
