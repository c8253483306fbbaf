"""The semi-smooth solver against independent solutions of its quadratic program."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from orthoplus.geometry.delta import delta_jacobian, project_delta, transposed
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.methods.semismooth import QuadraticModel, SemismoothNewton, _by_columns, _Point

# Solve to the end: the defaults stop early, as a step of Newton's method can afford.
EXACT = SemismoothNewton(
    max_iter=200, tol=1e-13, cg_tol=1e-12, cg_max_iter=500, damping=1e-6, damping_min=1e-12
)


def quadratic(rng, shape=(6, 2), *, smallest, largest=5.0):
    """A point X of OB+ with zeros, and a model with eigenvalues in [smallest, largest]."""
    X = random_oblique_plus(*shape, rng) * (rng.random(shape) > 0.3)
    X[0] += 0.5  # no column is lost
    X /= np.linalg.norm(X, axis=0)
    size = X.size
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    H = basis @ np.diag(np.linspace(smallest, largest, size)) @ basis.T
    gradient = rng.standard_normal(shape)
    gradient -= X * (X * gradient).sum(axis=0)  # Riemannian, as in eq. (5.10)
    return QuadraticModel(X, gradient, lambda D: (H @ D.ravel()).reshape(shape)), H


def model_value(model, Z):
    D = Z - model.X
    return float((model.gradient * D).sum() + 0.5 * (D * model.hessian(D)).sum())


def by_slsqp(model, H):
    """The same program by SciPy: Z >= 0, x_j'z_j = 1."""
    shape, n_columns = model.X.shape, model.X.shape[1]
    A = np.zeros((n_columns, model.X.size))
    for j in range(n_columns):
        A[j].reshape(shape)[:, j] = model.X[:, j]
    g = model.gradient.ravel() - H @ model.X.ravel()
    found = minimize(
        lambda z: g @ z + 0.5 * z @ H @ z,
        model.X.ravel(),
        jac=lambda z: g + H @ z,
        bounds=[(0, None)] * model.X.size,
        constraints={"type": "eq", "fun": lambda z: A @ z - 1, "jac": lambda z: A},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return found.x.reshape(shape)


def by_projected_gradient(model, largest):
    Z = model.X
    for _ in range(2000):
        Z = project_delta(model.X, Z - (model.gradient + model.hessian(Z - model.X)) / largest)
    return Z


def residual(model, Z, alpha=0.1):
    """F(Z) of eq. (5.11); its zeros do not depend on alpha."""
    slope = model.gradient + model.hessian(Z - model.X)
    return float(np.linalg.norm(Z - project_delta(model.X, Z - alpha * slope)))


@pytest.mark.parametrize("seed", range(8))
def test_solution_agrees_with_slsqp_when_convex(seed):
    model, H = quadratic(np.random.default_rng(seed), smallest=0.5)
    Z, curvature = EXACT.solve(model)
    assert curvature == 0.0
    # SLSQP is good to about the root of its 1e-15 in the argument.
    np.testing.assert_allclose(Z, by_slsqp(model, H), atol=1e-6)
    assert model_value(model, Z) <= model_value(model, by_slsqp(model, H)) + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_solution_agrees_with_projected_gradient_when_convex(seed):
    model, _ = quadratic(np.random.default_rng(seed), smallest=0.5)
    # Linear convergence at rate 0.9: 2000 steps end at rounding.
    np.testing.assert_allclose(EXACT.solve(model)[0], by_projected_gradient(model, 5.0), atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_residual_is_zero_and_point_feasible_at_the_solution(seed):
    model, _ = quadratic(np.random.default_rng(seed), smallest=0.5)
    Z, _ = EXACT.solve(model)
    assert residual(model, Z) <= 1e-10
    assert Z.min() >= 0
    np.testing.assert_allclose((model.X * Z).sum(axis=0), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_residual_falls_by_orders_of_magnitude_in_a_few_steps(seed):
    model, _ = quadratic(np.random.default_rng(seed), smallest=0.5)
    first, later = (
        residual(model, replace(EXACT, max_iter=count).solve(model)[0]) for count in (1, 12)
    )
    # Once the free set is right the equation is linear and Newton's method ends at once; a dozen
    # steps are ample for twelve variables. A gradient method would gain a factor of three.
    assert later <= 1e-8 * max(first, 1.0)


@pytest.mark.parametrize("damping", [1e-6, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_direction_solves_the_newton_system(seed, damping):
    rng = np.random.default_rng(seed)
    model, _ = quadratic(rng, smallest=0.5)
    alpha = 0.3
    Z = project_delta(model.X, model.X + 0.2 * rng.standard_normal(model.X.shape))
    C = Z - alpha * (model.gradient + model.hessian(Z - model.X))
    projected = project_delta(model.X, C)
    F = Z - projected
    at = _Point(
        *(transposed(M) for M in (Z, model.gradient)),
        0.0,
        *(transposed(M) for M in (projected, F)),
        float(np.linalg.norm(F)),
    )
    found, curvature = EXACT._direction(_by_columns(model), alpha, at, damping)
    d = found.T
    # (dF(Z) + mu I) d = -F(Z) with dF(H) = H - P_C(H - alpha Hess m[H]).
    moved = delta_jacobian(model.X, projected, d - alpha * model.hessian(d))
    mu = damping * min(1.0, at.norm)
    np.testing.assert_allclose(d - moved + mu * d, -F, atol=1e-9)
    assert curvature == 0.0


@pytest.mark.parametrize("smallest", [-0.5, -2.0, -20.0])
@pytest.mark.parametrize("seed", range(4))
def test_nonconvex_model_still_descends(seed, smallest):
    model, _ = quadratic(np.random.default_rng(seed), smallest=smallest)
    Z, curvature = SemismoothNewton().solve(model)
    assert Z.min() >= 0
    np.testing.assert_allclose((model.X * Z).sum(axis=0), 1.0, rtol=0, atol=1e-10)
    assert model_value(model, Z) < 0.0  # X itself has the value 0
    assert curvature <= 0.0


def test_negative_curvature_is_a_quotient_of_the_hessian():
    found = []
    for seed in range(8):
        model, _ = quadratic(np.random.default_rng(seed), smallest=-8.0)
        found.append(SemismoothNewton().solve(model)[1])
    assert min(found) < 0.0
    # Rayleigh quotients lie above the smallest eigenvalue; the damping adds at most a little.
    assert min(found) >= -8.0 - 1e-6


def test_zero_gradient_leaves_the_point():
    model, _ = quadratic(np.random.default_rng(0), smallest=0.5)
    Z, curvature = SemismoothNewton().solve(model._replace(gradient=0.0 * model.X))
    np.testing.assert_allclose(Z, model.X, atol=1e-14)
    assert curvature == 0.0


def test_default_options_reach_their_tolerance():
    for seed in range(8):
        model, _ = quadratic(np.random.default_rng(seed), smallest=0.5)
        Z, _ = SemismoothNewton().solve(model)
        exact = model_value(model, EXACT.solve(model)[0])
        # 1e-2 in the residual is about its square in the value; a factor for the conditioning, 10.
        assert model_value(model, Z) <= exact + 1e-2 * abs(exact)


def test_model_is_not_modified():
    model, _ = quadratic(np.random.default_rng(1), smallest=-1.0)
    for array in (model.X, model.gradient):
        array.flags.writeable = False
    SemismoothNewton().solve(model)


def test_damping_follows_how_well_the_step_was_foretold(monkeypatch):
    # All entries free: F is affine, and (dF + mu I) d = -F gives F(Z + d) = -mu d: the quotient mu.
    rng = np.random.default_rng(0)
    X = random_oblique_plus(6, 2, rng) + 0.5
    X /= np.linalg.norm(X, axis=0)
    gradient = 1e-3 * rng.standard_normal(X.shape)
    gradient -= X * (X * gradient).sum(axis=0)
    model = QuadraticModel(X, gradient, lambda D: 2.0 * D + 0.5 * D.mean(axis=0))
    solver, seen = replace(EXACT, damping=0.5, max_iter=1, tol=0.0), []
    original = SemismoothNewton._next_damping

    def spy(self, damping, agreement):
        seen.append((damping, agreement))
        return original(self, damping, agreement)

    monkeypatch.setattr(SemismoothNewton, "_next_damping", spy)
    solver.solve(model)
    curvature = np.vdot(gradient, model.hessian(gradient)) / np.vdot(gradient, gradient)
    size = np.linalg.norm(gradient) / curvature  # ||F(X)|| with alpha = 1 / curvature
    assert seen == [(0.5, pytest.approx(0.5 * size, rel=1e-6))]
