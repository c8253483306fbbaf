"""The penalized problem: the sum of its parts, and the problem itself where sigma is zero."""

import numpy as np
import pytest

from orthoplus.geometry.oblique import random_oblique_plus, riemannian_gradient
from orthoplus.penalty.family import PowerPenalty
from orthoplus.penalty.penalized import Penalized, as_penalized
from orthoplus.problems import ONMF, TraceMin


def test_penalized_is_its_parts(rng):
    problem = TraceMin(np.diag([1.0, -2.0, 3.0, 0.5]), 2)
    penalty = PowerPenalty(0.7, p=1.5, q=1.0, eps=0.1)
    both = Penalized(problem, penalty)
    X, D = random_oblique_plus(4, 2, rng), rng.standard_normal((4, 2))
    assert both.shape == (4, 2)
    value, G = both.value_and_gradient(X)
    f, g = problem.value_and_gradient(X)
    np.testing.assert_allclose([value, both.value(X)], f + penalty.value(X), rtol=1e-14)
    np.testing.assert_allclose(G, g + penalty.gradient(X), rtol=1e-13)
    expected = problem.hessp(X, D) + penalty.hessian(X)(D)
    np.testing.assert_allclose(both.hessp(X, D), expected, rtol=1e-13)


def test_stationarity_is_measured_in_units(rng):
    problem, penalty = TraceMin(np.diag([1.0, -2.0, 3.0, 0.5]), 2), PowerPenalty(0.7)
    X = random_oblique_plus(4, 2, rng)
    for unit in (1.0, 5.0):
        h = Penalized(problem, penalty, unit)
        G = riemannian_gradient(X, h.value_and_gradient(X)[1])
        expected = float(np.linalg.norm(np.minimum(X, G / unit)))
        assert h.stationarity(X, h.evaluate(X)) == pytest.approx(expected, rel=1e-13)


def test_penalized_is_the_problem_when_sigma_is_zero(rng):
    problem = TraceMin(np.diag([1.0, -2.0, 3.0]), 2)
    both = as_penalized(problem)
    X, D = random_oblique_plus(3, 2, rng), rng.standard_normal((3, 2))
    assert as_penalized(both) is both
    assert both.value(X) == problem.value(X)
    np.testing.assert_array_equal(both.value_and_gradient(X)[1], problem.value_and_gradient(X)[1])
    np.testing.assert_array_equal(both.hessp(X, D), problem.hessp(X, D))
    assert both.lipschitz == problem.lipschitz


@pytest.mark.parametrize("has_mixing", [False, True])
def test_a_hessian_factor_gives_the_hessian_products(has_mixing, rng):
    X, D = random_oblique_plus(12, 3, rng), rng.standard_normal((12, 3))
    frozen = ONMF(rng.random((12, 7)), 3).freeze(X)
    V = np.full((3, 2), 6**-0.5) if has_mixing else None
    for penalty in (PowerPenalty(0.7, V), PowerPenalty(0.0)):
        model = Penalized(frozen, penalty)
        np.testing.assert_allclose(D @ model.hessian_factor(X), model.hessian(X)(D), rtol=1e-12)


def test_no_hessian_factor_without_one(rng):
    X = random_oblique_plus(12, 3, rng)
    frozen = ONMF(rng.random((12, 7)), 3).freeze(X)
    assert Penalized(frozen, PowerPenalty(0.7, p=2.0)).hessian_factor(X) is None  # phi'' is not 0
    assert Penalized(TraceMin(np.eye(12), 3), PowerPenalty(0.7)).hessian_factor(X) is None
