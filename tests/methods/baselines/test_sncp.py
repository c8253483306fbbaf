"""SNCP and NSNCP: their penalties, descent for a fixed rho, and factors that become orthogonal."""

from itertools import product

import numpy as np
import pytest

import orthoplus as op
from orthoplus.core.method import run
from orthoplus.core.status import Status
from orthoplus.datasets import hard_clusters, planted_onmf
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.methods.baselines import SNCP
from orthoplus.methods.baselines.sncp import PENALTIES, keep_row_maxima, nonsmooth_penalty
from orthoplus.problems import ONMF

both = pytest.mark.parametrize("penalty", PENALTIES)


@both
def test_penalty_vanishes_exactly_where_no_row_has_two_entries(penalty, rng):
    X = random_stiefel_plus(9, 3, rng, n_zero_rows=2)
    assert abs(PENALTIES[penalty](X)) <= 1e-15
    X[0] = [0.2, 0.3, 0.0]
    assert PENALTIES[penalty](X) > 0.05


@pytest.mark.parametrize("threshold", [0.05, 0.4, 2.0])
def test_proximal_step_is_the_minimizer_on_a_grid(threshold):
    grid = np.linspace(0.0, 1.0, 21)
    points = np.array(list(product(grid, repeat=3)))
    penalties = points.sum(axis=1) - points.max(axis=1)
    rng = np.random.default_rng(0)
    for z in rng.uniform(-0.5, 1.0, (30, 3)):
        found = keep_row_maxima(z[None], threshold)
        value = 0.5 * ((found - z) ** 2).sum() + threshold * nonsmooth_penalty(found)
        values = 0.5 * ((points - z) ** 2).sum(axis=1) + threshold * penalties
        assert value <= values.min() + 1e-12
        assert found.min() >= 0


@both
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rho", [1e-6, 0.3, 1e3])
def test_objective_never_rises_for_a_fixed_rho(penalty, seed, rho):
    rng = np.random.default_rng(seed)
    problem = ONMF(rng.random((15, 10)), 3)
    method = SNCP(
        penalty=penalty, start="given", penalty_start=rho, inner_tol=0.0, max_inner=10**6, ridge=0.1
    )
    state = method.init(problem, random_oblique_plus(15, 3, rng))
    value = method.objective(problem, state)
    for _ in range(60):
        state = method.step(problem, state)
        before, value = value, method.objective(problem, state)
        assert value <= before + 1e-12 * problem.total


def test_objective_is_its_formula(rng):
    A = rng.random((7, 5))
    problem, method = ONMF(A, 2), SNCP(start="given", ridge=0.2, penalty_start=0.7)
    state = method.step(problem, method.init(problem, random_oblique_plus(7, 2, rng)))
    X, Y = state.factor, state.Y
    rows = (X.sum(axis=1) ** 2 - (X**2).sum(axis=1)).sum() / 2
    unit = (A**2).sum() / 7
    squares = (X**2).sum() + (Y**2).sum()
    fit = np.linalg.norm(A - X @ Y.T) ** 2
    expected = fit + 0.7 * unit * rows + 0.1 * unit * squares
    assert np.isclose(method.objective(problem, state), expected, rtol=1e-12)


@both
@pytest.mark.parametrize("seed", range(3))
def test_factor_becomes_orthogonal_as_rho_grows(penalty, seed):
    rng = np.random.default_rng(seed)
    problem = ONMF(planted_onmf(60, 30, 4, 0.5, rng).A, 4)
    method = SNCP(penalty=penalty, feasibility_tol=1e-6)
    first = method.init(problem, problem.start(rng))
    state, status = run(problem, method, first, method.stop())
    assert status is Status.CONVERGED
    assert state.violation <= 4e-6
    assert state.sigma > first.sigma


def test_fixed_point_satisfies_the_first_order_conditions(rng):
    # min(X, gradient) = 0 for the smooth penalty, with a ridge that settles the scale of X and Y.
    A = planted_onmf(12, 8, 2, 0.3, rng).A
    problem = ONMF(A, 2)
    method = SNCP(penalty_start=0.5, inner_tol=0.0, max_inner=10**6, ridge=0.1)
    state = method.init(problem, problem.start(rng))
    for _ in range(1500):
        state = method.step(problem, state)
    X, Y, unit = state.factor, state.Y, problem.total / 12
    R = X @ Y.T - A
    row_sums = X.sum(axis=1, keepdims=True)
    gradients = (
        2 * R @ Y + 0.5 * unit * (row_sums - X) + 0.1 * unit * X,
        2 * R.T @ X + 0.1 * unit * Y,
    )
    for factor, gradient in zip((X, Y), gradients, strict=True):
        assert np.abs(np.minimum(factor, gradient / unit)).max() <= 1e-6


def test_scale_of_the_data_does_not_change_the_labels(rng):
    A = planted_onmf(60, 30, 4, 0.5, rng).A
    runs = []
    for scale in (1.0, 1e-3, 1e3):
        # NNDSVDa fills zeros with a number that depends on the scale: the given start does not.
        problem, method = ONMF(scale * A, 4), SNCP(start="given")
        X = random_oblique_plus(60, 4, np.random.default_rng(1))
        runs.append(run(problem, method, method.init(problem, X), method.stop())[0])
    assert all((r.X.argmax(axis=1) == runs[0].X.argmax(axis=1)).all() for r in runs)


def test_penalty_stays_finite_when_a_row_never_decides():
    """Equal entries of a row stay equal: the violation remains, and the penalty would overflow."""
    A = hard_clusters("dominant", 300, 20, 6, np.random.default_rng([0, 300])).A
    result = op.solve(ONMF(A, 6), method=SNCP())
    assert result.status is Status.MAX_ITER
    assert np.isfinite(result.state.sigma)
    assert np.isfinite(result.state.factor).all()
