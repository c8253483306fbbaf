"""Wen and Yin: derivatives of the Lagrangian, the manifold, and where multipliers rest."""

import numpy as np
import pytest

import orthoplus as op
from orthoplus.core.method import run
from orthoplus.core.status import Status
from orthoplus.geometry.curves import cayley_curve, stiefel_gradient
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import polar_factor
from orthoplus.methods.baselines import WenYin
from orthoplus.methods.baselines.wen_yin import augmented_lagrangian
from orthoplus.methods.stiefel_descent import SquaredEntries, StiefelDescent
from orthoplus.problems import QAP, TraceMin


def symmetric(rng, n):
    M = rng.standard_normal((n, n))
    return M + M.T


def test_gradient_of_the_lagrangian_is_its_slope(rng):
    lagrangian = augmented_lagrangian(TraceMin(symmetric(rng, 6), 2), rng.random((6, 2)), 3.0)
    U, D, t = rng.standard_normal((6, 2)), rng.standard_normal((6, 2)), 1e-6
    slope = (lagrangian(U + t * D)[0] - lagrangian(U - t * D)[0]) / (2 * t)
    assert np.isclose(slope, (lagrangian(U)[1] * D).sum(), rtol=1e-6)


def test_squared_entries_have_the_gradient_of_their_value(rng):
    problem = SquaredEntries(QAP(*rng.random((2, 4, 4))))
    X, D, t = rng.standard_normal((4, 4)), rng.standard_normal((4, 4)), 1e-6
    slope = (problem.value(X + t * D) - problem.value(X - t * D)) / (2 * t)
    assert np.isclose(slope, (problem.value_and_gradient(X)[1] * D).sum(), rtol=1e-6)
    P = np.eye(4)[[2, 0, 3, 1]]
    assert problem.value(-P) == problem.problem.value(P)


@pytest.mark.parametrize("shape", [(20, 3), (6, 6), (5, 4)])
def test_descent_finds_the_smallest_eigenvalues(shape, rng):
    n, k = shape
    M = symmetric(rng, n)
    descent = StiefelDescent(cayley_curve, 1e-9, 0.0, 3000, shrink=0.2)
    U = polar_factor(rng.standard_normal(shape))
    found = descent(TraceMin(M, k).value_and_gradient, U)
    assert np.isclose(found.value, np.linalg.eigvalsh(M)[:k].sum(), rtol=1e-8)
    assert np.abs(found.U.T @ found.U - np.eye(k)).max() <= 1e-12


def test_iterates_stay_on_the_manifold(rng):
    problem, method = TraceMin(symmetric(rng, 12), 3), WenYin()
    state = method.init(problem, random_oblique_plus(12, 3, rng))
    for _ in range(15):
        state = method.step(problem, state)
        assert np.abs(state.factor.T @ state.factor - np.eye(3)).max() <= 1e-12


@pytest.mark.parametrize("seed", range(2))
def test_end_is_a_kkt_point(seed):
    # grad f - Lambda is normal to the manifold, Lambda >= 0 and Lambda o U = 0.
    rng = np.random.default_rng(seed)
    problem = TraceMin(symmetric(rng, 10), 2)
    method = WenYin(negativity_tol=1e-7, inner_tol=1e-8, value_tol=0.0, max_inner=500)
    first = method.init(problem, random_oblique_plus(10, 2, rng))
    state, status = run(problem, method, first, method.stop())
    assert status is Status.CONVERGED
    U, multipliers = state.factor, state.multipliers
    gradient = problem.value_and_gradient(U)[1]
    size = np.linalg.norm(gradient)
    assert np.linalg.norm(stiefel_gradient(U, gradient - multipliers)) <= 1e-5 * size
    assert multipliers.min() >= 0
    assert np.abs(multipliers * U).max() <= 1e-5 * size
    result = op.solve(problem, first.X, method=method)
    assert op.optimality.check(problem, result.X, second_order=False).is_stationary


def test_negative_entries_vanish_in_the_limit(rng):
    problem, method = TraceMin(symmetric(rng, 10), 3), WenYin(negativity_tol=1e-6)
    first = method.init(problem, random_oblique_plus(10, 3, rng))
    state, status = run(problem, method, first, method.stop())
    assert status is Status.CONVERGED
    assert state.negativity <= 1e-6
    assert np.isclose(state.negativity, np.maximum(-state.factor, 0).sum())
