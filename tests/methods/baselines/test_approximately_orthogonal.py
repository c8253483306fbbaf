"""Approximately orthogonal NMF: both algorithms descend, and the weight orders the overlap."""

from itertools import pairwise

import numpy as np
import pytest

from orthoplus.core.method import run
from orthoplus.datasets import planted_onmf
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.methods.baselines import ApproximatelyOrthogonalNMF
from orthoplus.methods.baselines.approximately_orthogonal import _accelerate
from orthoplus.problems import ONMF

both = pytest.mark.parametrize("algorithm", ["hals", "apg"])


@both
@pytest.mark.parametrize("weight", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_objective_never_rises(algorithm, weight, seed):
    rng = np.random.default_rng(seed)
    problem = ONMF(rng.random((20, 12)), 4)
    method = ApproximatelyOrthogonalNMF(algorithm=algorithm, orthogonality=weight, start="given")
    states = [method.init(problem, random_oblique_plus(20, 4, rng))]
    for _ in range(40):
        states.append(method.step(problem, states[-1]))
    values = [method.objective(problem, state) for state in states]
    assert all(b <= a + 1e-12 * problem.total for a, b in pairwise(values))


def test_hals_column_is_the_minimizer_over_its_sphere(rng):
    A = rng.random((9, 6))
    problem, method = ONMF(A, 3), ApproximatelyOrthogonalNMF(orthogonality=0.3, start="given")
    before = method.step(problem, method.init(problem, random_oblique_plus(9, 3, rng)))
    after = method.step(problem, before)
    weight = 0.3 * (A**2).sum() / 3

    def objective(x):
        X = np.column_stack([x, before.factor[:, 1:]])
        overlap = (X.sum(axis=1) ** 2).sum() - (X**2).sum()
        return np.linalg.norm(A - X @ before.Y.T) ** 2 + weight * overlap

    best = objective(after.factor[:, 0])
    for _ in range(300):
        x = after.factor[:, 0] + rng.standard_normal(9) * rng.choice([1e-3, 0.1, 1.0])
        x = np.maximum(x, 0.0)
        assert objective(x / np.linalg.norm(x)) >= best - 1e-12


def test_objective_is_its_formula(rng):
    A = rng.random((9, 6))
    problem, method = ONMF(A, 3), ApproximatelyOrthogonalNMF(orthogonality=0.3)
    state = method.step(problem, method.init(problem, random_oblique_plus(9, 3, rng)))
    gram = state.factor.T @ state.factor
    overlap = gram.sum() - np.trace(gram)
    expected = np.linalg.norm(A - state.factor @ state.Y.T) ** 2 + 0.1 * (A**2).sum() * overlap
    assert np.isclose(method.objective(problem, state), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_accelerated_steps_solve_nonnegative_least_squares(seed):
    from scipy.optimize import nnls

    rng = np.random.default_rng(seed)
    X, A = rng.random((12, 3)), rng.standard_normal((12, 7))
    Y = _accelerate(np.ones((7, 3)), A.T @ X, X.T @ X, 3000, on_spheres=False)
    best = np.array([nnls(X, column)[0] for column in A.T])
    assert np.allclose(Y, best, atol=1e-6)


@both
def test_larger_weight_gives_less_overlap(algorithm, rng):
    problem = ONMF(planted_onmf(60, 30, 4, 0.5, rng).A, 4)
    violations = []
    for weight in (0.0, 0.03, 1.0):
        method = ApproximatelyOrthogonalNMF(algorithm=algorithm, orthogonality=weight)
        first = method.init(problem, problem.start(rng))
        violations.append(run(problem, method, first, method.stop())[0].violation)
    assert violations[0] > violations[1] > violations[2]
    assert violations[2] <= 1e-10


@both
def test_fixed_point_does_not_move(algorithm, rng):
    problem = ONMF(planted_onmf(30, 20, 3, 0.3, rng).A, 3)
    method = ApproximatelyOrthogonalNMF(algorithm=algorithm, orthogonality=0.05)
    state = method.init(problem, problem.start(rng))
    for _ in range(1500):
        state = method.step(problem, state)
    after = method.step(problem, state)
    assert np.allclose(after.factor, state.factor, atol=1e-6)


def test_options_are_checked():
    for bad in ({"algorithm": "mu"}, {"orthogonality": -1.0}, {"n_inner": 0}):
        with pytest.raises(ValueError, match=r"Choose|out of range"):
            ApproximatelyOrthogonalNMF(**bad)
