"""Two blocks: PALM and proximal alternating minimization on problems with a closed-form check."""

from itertools import islice, pairwise

import numpy as np
import pytest
from scipy.optimize import nnls

from orthoplus.core.method import iterate, run
from orthoplus.core.status import Status
from orthoplus.geometry.oblique import (
    project_oblique_plus,
    random_oblique_plus,
    riemannian_gradient,
)
from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.methods import PALM, EP4Orth, ProjectedGradient, ProximalAlternating
from orthoplus.methods.pam import _Proximal
from orthoplus.penalty.family import PowerPenalty
from orthoplus.penalty.penalized import Penalized
from orthoplus.problems import ONMF, TwoBlock
from orthoplus.run.api import solve

SHAPE = (10, 3)
METHODS = {
    "palm": PALM(max_iter=20_000),
    "proximal": ProximalAlternating(max_iter=2000),
    "proximal-first-order": ProximalAlternating(
        max_iter=2000, x_method=ProjectedGradient(max_iter=50)
    ),
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


def onmf(rng, *, closed_form):
    """||A - XY'||^2 with Y >= 0: groups and noise."""
    n, k = SHAPE
    A = random_stiefel_plus(n, k, rng) @ rng.random((k, 6)) + 0.1 * rng.random((n, 6))

    def joint(X, Y):
        R = X @ Y.T - A
        return float((R * R).sum()), 2 * R @ Y, 2 * R.T @ X

    def minimize(X):  # each row of Y is a least squares problem with nonnegative unknowns
        return np.array([nnls(X, column)[0] for column in A.T])

    return A, TwoBlock(
        joint,
        SHAPE,
        np.ones((6, k)),
        project_y=lambda Y: np.maximum(Y, 0.0),
        minimize_y=minimize if closed_form else None,
        curvature=lambda X, Y, D: 2 * D @ (Y.T @ Y),
    )


def polar(Y):
    left, _, right = np.linalg.svd(Y)
    return left @ right


def k_indicators(rng, *, closed_form):
    """||UY - X||^2 with Y orthogonal; for fixed X the best Y is the polar factor of U'X."""
    U = np.linalg.qr(rng.standard_normal(SHAPE))[0]

    def joint(X, Y):
        R = U @ Y - X
        return float((R * R).sum()), -2 * R, 2 * U.T @ R

    return U, TwoBlock(
        joint,
        SHAPE,
        np.eye(SHAPE[1]),
        project_y=polar,
        minimize_y=(lambda X: polar(U.T @ X)) if closed_form else None,
        curvature=lambda X, Y, D: 2 * D,
    )


PROBLEMS = {
    "onmf": lambda rng: onmf(rng, closed_form=False)[1],
    "onmf-closed": lambda rng: onmf(rng, closed_form=True)[1],
    "indicators": lambda rng: k_indicators(rng, closed_form=False)[1],
    "indicators-closed": lambda rng: k_indicators(rng, closed_form=True)[1],
}
every_problem = pytest.mark.parametrize("name", PROBLEMS)


def setting(name, seed=0, sigma=0.5):
    rng = np.random.default_rng(seed)
    joint = PROBLEMS[name](rng)
    return Penalized(joint, PowerPenalty(sigma)), random_oblique_plus(*SHAPE, rng)


def residuals(model, X, Y):
    """The two stationarity conditions of section 4, from their definitions."""
    _, in_x, in_y = model.problem.fun(X, Y)
    rgrad = riemannian_gradient(X, in_x + model.penalty.gradient(X))
    return (
        float(np.linalg.norm(np.minimum(X, rgrad))),
        float(np.linalg.norm(Y - model.problem.project_y(Y - in_y))),
    )


@every_method
@every_problem
def test_both_stationarity_conditions_hold_at_the_end(method, name):
    model, X = setting(name)
    state, status = run(model, method, method.init(model, X), method.stop(1e-6))
    assert status is Status.CONVERGED
    in_x, in_y = residuals(model, state.X, state.Y)
    assert in_x <= 1.01e-6  # the fused residual agrees to rounding; the margin is for that
    assert in_y <= 1.01e-6
    assert state.stationarity == pytest.approx(max(in_x, in_y), abs=1e-12)


@every_method
@every_problem
def test_objective_falls_and_both_blocks_stay_in_their_sets(method, name):
    model, X = setting(name, seed=1)
    states = list(islice(iterate(model, method, method.init(model, X)), 15))
    for before, after in pairwise(states):
        assert after.value <= before.value + 1e-12 * max(1.0, abs(before.value))
    for state in states:
        joint = model.problem
        assert state.X.min() >= 0
        np.testing.assert_allclose(np.linalg.norm(state.X, axis=0), 1.0, atol=1e-14)
        np.testing.assert_allclose(state.Y, joint.project_y(state.Y), atol=1e-12)
        value = joint.fun(state.X, state.Y)[0] + model.penalty.value(state.X)
        assert state.value == pytest.approx(value, abs=1e-12)


def test_proximal_term_has_the_derivatives_it_says(rng):
    base = ONMF(rng.random((SHAPE[0], 6)), SHAPE[1])
    problem = _Proximal(base, random_oblique_plus(*SHAPE, rng), 0.7)
    X, D = rng.random(SHAPE), rng.standard_normal(SHAPE)
    value, gradient = problem.value_and_gradient(X)
    assert value - base.value(X) == pytest.approx(0.35 * ((X - problem.center) ** 2).sum())
    t = 1e-5  # central differences: an error of t^2, and of rounding / t
    slope = (problem.value(X + t * D) - problem.value(X - t * D)) / (2 * t)
    assert (gradient * D).sum() == pytest.approx(slope, rel=1e-6)
    ahead, behind = (problem.value_and_gradient(X + s * t * D)[1] for s in (1, -1))
    np.testing.assert_allclose(problem.hessp(X, D), (ahead - behind) / (2 * t), atol=1e-4)


@every_problem
def test_descent_condition_of_the_second_block(name):
    model, X = setting(name, seed=2)
    joint = model.problem
    Y, beta = joint.Y0, 1.0
    for _ in range(20):
        value, _, gradient = joint.fun(X, Y)
        moved, beta = joint.y_step(X, Y, beta)
        step = moved - Y
        bound = (gradient * step).sum() + (step * step).sum() / (2 * beta)
        assert joint.fun(X, moved)[0] <= value + bound + 1e-13 * max(1.0, abs(value))
        Y = moved


@every_problem
def test_methods_agree_near_the_same_solution(name):
    model, X = setting(name, seed=3)
    palm = METHODS["palm"]
    near, _ = run(model, palm, palm.init(model, X), palm.stop(1e-6))
    rng = np.random.default_rng(3)
    start = project_oblique_plus(near.X * (1 + 1e-3 * rng.standard_normal(SHAPE)))
    values = []
    for method in METHODS.values():
        first = method.init(model, start, {"Y": near.Y, "beta": 1.0})
        values.append(run(model, method, first, method.stop(1e-7))[0].value)
    np.testing.assert_allclose(values, values[0], rtol=0, atol=1e-6)


def test_closed_form_second_block_equals_the_projected_one(rng):
    # X'X = I: then Y = max(A'X, 0) is the minimizer, whichever way it is found.
    X = random_stiefel_plus(*SHAPE, rng)
    for closed_form in (False, True):
        A, problem = onmf(np.random.default_rng(5), closed_form=closed_form)
        np.testing.assert_allclose(problem.second_block(X), np.maximum(A.T @ X, 0), atol=1e-8)
        expected = ONMF(A, SHAPE[1]).value(X)
        assert problem.value(X) == pytest.approx(expected, abs=1e-10)
    for closed_form in (False, True):
        U, problem = k_indicators(np.random.default_rng(5), closed_form=closed_form)
        # <UY, X> is largest at the polar factor: the sum of the singular values of U'X.
        best = 2 * SHAPE[1] - 2 * np.linalg.svd(U.T @ X, compute_uv=False).sum()
        assert problem.value(X) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("inner", [PALM(), ProximalAlternating(max_iter=50)], ids=["palm", "pam"])
@every_problem
def test_ep4orth_with_an_alternating_inner_solver(inner, name):
    joint = PROBLEMS[name](np.random.default_rng(4))
    X0 = random_oblique_plus(*SHAPE, np.random.default_rng(4))
    result = solve(joint, X0, method=EP4Orth(inner=inner, penalty_growth=2.0), search=False)
    assert result.status is Status.CONVERGED
    assert result.violation <= 1e-12
    np.testing.assert_allclose(result.Y, joint.project_y(result.Y), atol=1e-12)
    assert joint.y_residual(result.X, result.Y) <= 1e-6  # Y belongs to this X
    assert result.value == pytest.approx(joint.fun(result.X, result.Y)[0], abs=1e-9)
    assert result.stationarity <= 1e-6
    assert result.state.Y is not None


@every_problem
def test_alternating_and_frozen_block_find_solutions_of_the_same_quality(name):
    joint = PROBLEMS[name](np.random.default_rng(4))
    X0 = random_oblique_plus(*SHAPE, np.random.default_rng(4))
    alternating = solve(joint, X0, method=EP4Orth(inner=PALM(), penalty_growth=2.0), search=False)
    kept = EP4Orth(penalty_unit=1e3, penalty_growth=2.0)
    again = solve(joint, alternating.X, method=kept, search=False)
    # The large first penalty keeps the basin; neither can leave it for something better.
    assert again.value == pytest.approx(alternating.value, abs=1e-6)


def test_second_block_of_the_start_is_projected():
    _, problem = onmf(np.random.default_rng(0), closed_form=False)
    moved = TwoBlock(problem.fun, SHAPE, -np.ones((6, 3)), project_y=problem.project_y)
    assert (moved.Y0 == 0).all()


def test_criterion_step_looks_at_both_blocks():
    model, X = setting("onmf")
    method = PALM(criterion="step", tol=1e-5, max_iter=20_000)
    *_, last = states = run_states(model, method, X)
    moved = max(
        np.linalg.norm(states[-1].X - states[-2].X), np.linalg.norm(states[-1].Y - states[-2].Y)
    )
    assert last.step_length == pytest.approx(moved)
    assert moved <= 1e-5


def run_states(model, method, X):
    states = [method.init(model, X)]
    while method.stop()(states[-1]) is Status.RUNNING:
        states.append(method.step(model, states[-1]))
    return states


@pytest.mark.parametrize(("beta", "accepted"), [(0.25, 0.5), (0.3, 0.3), (0.1, 0.2)])
def test_y_step_is_accepted_up_to_one_over_the_curvature(beta, accepted, rng):
    # f(X, .) bends by 2 for X'X = I, so the bound of PALM holds for beta <= 1/2 and no longer.
    A, X = rng.random((6, 4)), random_stiefel_plus(6, 2, rng)

    def fit(X, Y):
        R = X @ Y.T - A
        return np.vdot(R, R), 2 * R @ Y, 2 * R.T @ X

    Y = np.ones((4, 2))
    moved, length = TwoBlock(fit, (6, 2), Y).y_step(X, Y, beta)
    assert length == accepted
    np.testing.assert_allclose(moved, Y - accepted * fit(X, Y)[2])
