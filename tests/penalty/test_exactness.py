"""The constants of the exactness theory: L_f of every problem, its estimate, and chi_f."""

import numpy as np
import pytest

from brute_force import minimize_over_supports
from orthoplus.core.problem import Problem
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.penalty.exactness import estimate_value_lipschitz, separation_of_supports
from orthoplus.penalty.family import PowerPenalty
from orthoplus.problems import ONMF, Projection, Smooth, TraceMin


def quartic(rng):
    return ONMF(rng.random((7, 4)), 3, quartic=True)


def sine(rng):
    C = rng.standard_normal((7, 3))
    return Smooth(lambda X: float(np.sin(C * X).sum()), (7, 3), jac=lambda X: C * np.cos(C * X))


@pytest.mark.parametrize(
    "build", [lambda rng: Projection(rng.standard_normal((7, 3))), quartic, sine]
)
def test_estimate_is_near_the_largest_quotient_that_sampling_finds(build, rng):
    problem = build(rng)
    estimate = estimate_value_lipschitz(problem, n_samples=300)
    quotients = []
    for _ in range(300):
        X, Z = random_oblique_plus(7, 3, rng), random_stiefel_plus(7, 3, rng)
        Z = X + rng.choice([1.0, 0.1, 0.01]) * (Z - X)
        Z /= np.linalg.norm(Z, axis=0)
        quotients.append(abs(problem.value(X) - problem.value(Z)) / np.linalg.norm(X - Z))
    assert max(quotients) <= 1.2 * estimate
    if problem.value_lipschitz is not None:
        # A bound on the gradient bounds the estimate, but for the length of the arcs.
        assert estimate <= np.pi / (2 * np.sqrt(2)) * problem.value_lipschitz


def test_estimate_is_exact_where_the_steepest_point_is_sampled():
    # f = <C, X> with one column: the gradient on the sphere is longest where x is orthogonal to c.
    C = np.array([[0.0], [0.0], [-3.0]])
    problem = Smooth(lambda X: float(np.vdot(C, X)), (3, 1), jac=lambda X: C)
    estimate = estimate_value_lipschitz(problem, n_samples=2000)
    assert estimate == pytest.approx(3 * np.pi / (2 * np.sqrt(2)), rel=1e-2)


def test_estimate_does_not_see_a_constant_on_the_spheres_and_follows_its_seed(rng):
    assert estimate_value_lipschitz(TraceMin(np.eye(5), 2)) <= 1e-14
    problem = quartic(rng)
    one, same, other = (
        estimate_value_lipschitz(problem, n_samples=5, rng=np.random.default_rng(seed))
        for seed in (1, 1, 2)
    )
    assert one == same != other


class Wall(Problem):
    """Infinite, or with an infinite gradient, where the columns are equal."""

    shape = (4, 2)

    def __init__(self, value, slope):
        self.value_there, self.slope_there = value, slope

    def value_and_gradient(self, X):
        is_there = (X[:, 0] == X[:, 1]).all()
        return (self.value_there if is_there else 1.0), np.full(
            X.shape, self.slope_there if is_there else 1.0
        )


@pytest.mark.parametrize(("value", "slope"), [(np.inf, 1.0), (1.0, np.nan)])
def test_estimate_refuses_a_function_that_is_not_finite(value, slope):
    assert estimate_value_lipschitz(Wall(1.0, 1.0)) > 0
    with pytest.raises(ValueError, match="at a sampled point of OB\\+: a Lipschitz"):
        estimate_value_lipschitz(Wall(value, slope))


def test_separation_is_that_of_brute_force(rng):
    C = np.array([[3.0, 1.0], [2.0, 2.5], [1.0, 3.0]]) + 0.2 * rng.random((3, 2))
    problem = Projection(C)
    best, _, points = minimize_over_supports(problem)
    values = np.array([problem.value(X) for X in points])
    expected = values[values > best + 1e-9].min() - best
    assert separation_of_supports(problem) == pytest.approx(expected, rel=1e-12)
    # It scales with f, and so do the thresholds.
    assert separation_of_supports(TraceMin(-1e-9 * (np.eye(3) + 1.0), 2)) == pytest.approx(
        1e-9 * separation_of_supports(TraceMin(-(np.eye(3) + 1.0), 2)), rel=1e-6
    )


def test_separation_is_zero_where_a_minimizer_has_a_row_of_zeros():
    # The last row of C is negative: at the optimum it is zero, and may be as small as one likes.
    problem = Projection(np.array([[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]))
    assert separation_of_supports(problem) == 0.0


def test_separation_explains_what_it_cannot_enumerate(rng):
    with pytest.raises(ValueError, match=r"shape \(40, 3\) has about 1\.2e\+24 supports"):
        separation_of_supports(Projection(rng.random((40, 3))))
    with pytest.raises(ValueError, match="Smooth has no closed form"):
        separation_of_supports(Smooth(lambda X: 0.0, (3, 2), jac=np.zeros_like))


def test_enumerated_separation_and_known_lipschitz_constant_give_an_exact_penalty(rng):
    C = np.array([[3.0, 1.0], [2.0, 2.5], [1.0, 3.0]]) + 0.2 * rng.random((3, 2))
    problem = Projection(C)
    chi = separation_of_supports(problem)
    penalty = PowerPenalty(1.001 * PowerPenalty(1.0).threshold_for(problem, chi))
    assert penalty.rounding_loss(problem.value_lipschitz, 2) < chi  # (3.10) leaves no other support
