"""The rounded convex relaxation: never below the relaxation's bound, optimal where it is tight."""

import numpy as np
import pytest

import orthoplus as op
from brute_force import minimize_over_supports
from orthoplus.certify.relaxation import Relaxation
from orthoplus.methods.baselines import ConvexRelaxation
from orthoplus.problems import ONMF


@pytest.mark.parametrize("seed", range(6))
def test_answer_lies_between_the_optimum_and_what_the_bound_allows(seed):
    rng = np.random.default_rng(seed)
    A = rng.random((6, 4))
    problem = ONMF(A, 2)
    relaxation = Relaxation(A @ A.T, 2)
    relaxation.advance(300)
    least = problem.total - relaxation.upper_bound()
    best = minimize_over_supports(problem)[0]
    found = op.solve(problem, method=ConvexRelaxation()).value
    assert least - 1e-10 <= best <= found + 1e-10
    assert found <= best + 0.05 * problem.total
    if best - least <= 1e-8:
        assert np.isclose(found, best, rtol=1e-6)


def test_iterations_of_the_relaxation_are_those_of_the_option(rng):
    A = rng.random((12, 5))
    values = [
        op.solve(ONMF(A, 3), method=ConvexRelaxation(max_iter=count)).value for count in (1, 300)
    ]
    assert values[1] <= values[0] + 1e-12
