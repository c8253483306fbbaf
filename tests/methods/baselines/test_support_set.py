"""Support-Set: feasible and monotone, exact on a support, stationary at its end."""

from itertools import islice, pairwise

import numpy as np
import pytest

import orthoplus as op
from brute_force import random_on_support, supports
from orthoplus.core.method import iterate, run
from orthoplus.core.status import Status
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import random_stiefel_plus, violation
from orthoplus.methods.baselines import SupportSet
from orthoplus.problems import EXAMPLES, PROBLEMS, Projection, TraceMin

both = pytest.mark.parametrize("moves", ["all", "zero"])


@both
@pytest.mark.parametrize("problem_name", PROBLEMS)
def test_iterates_are_feasible_and_f_never_rises(moves, problem_name, rng):
    problem, method = EXAMPLES[problem_name](rng), SupportSet(moves=moves)
    first = method.init(problem, random_oblique_plus(*problem.shape, rng))
    states = list(islice(iterate(problem, method, first), 15))
    assert all(violation(state.X) <= 1e-14 for state in states)
    slack = 1e-14 * max(abs(state.value) for state in states)  # rounding
    assert all(b.value <= a.value + slack for a, b in pairwise(states))
    assert states[-1].value < states[0].value or states[-1].is_stalled


def test_step_is_the_best_point_of_its_support(rng):
    # The linearized model with the proximal term, against random points of the same support.
    problem, eta = TraceMin(np.diag(rng.standard_normal(6)), 2), 50.0
    Z = random_stiefel_plus(6, 2, rng)
    gradient = problem.value_and_gradient(Z)[1]
    (X,) = SupportSet(moves="zero")._candidates(Z, eta * Z - gradient)

    def model(Y):
        return float((gradient * Y).sum() + eta / 2 * ((Y - Z) ** 2).sum())

    for _ in range(200):
        assert model(X) <= model(random_on_support((Z > 0).astype(float), rng)) + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_step_above_the_lipschitz_constant_is_accepted_at_once(seed):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((8, 8))
    problem = TraceMin(M + M.T, 3)
    method = SupportSet(moves="zero")
    state = method.init(problem, random_oblique_plus(8, 3, rng))
    after = method.step(problem, state._replace(eta=1.01 * problem.lipschitz))
    assert after.n_inner == 1


@both
@pytest.mark.parametrize("seed", range(5))
def test_end_is_stationary(moves, seed):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((12, 12))
    problem, method = TraceMin(M + M.T, 3), SupportSet(moves=moves, tol=1e-8)
    first = method.init(problem, random_oblique_plus(12, 3, rng))
    state, status = run(problem, method, first, method.stop())
    assert status is Status.CONVERGED
    assert op.optimality.check(problem, state.X, tol=1e-6, second_order=False).is_stationary


def test_row_of_zeros_is_called_back():
    # (2.6b) fails at the start: f falls in row 2 of either column, fastest in the second.
    problem = Projection(np.array([[1.0, 0.0], [0.0, 1.0], [0.3, 0.6]]))
    method = SupportSet(moves="zero")
    state, _ = run(problem, method, method.init(problem, np.eye(3, 2)), method.stop())
    assert state.X[2, 0] == 0.0
    assert np.allclose(state.X[1:, 1], np.array([1.0, 0.6]) / np.hypot(1.0, 0.6))


def test_reassignment_raises_the_value_of_the_linear_model_to_first_order(rng):
    from orthoplus.methods.baselines.support_set import _reassign

    C = rng.random((9, 3))
    labels = np.arange(9) % 3
    norms = np.sqrt(np.bincount(labels, C[np.arange(9), labels] ** 2))
    new = _reassign(C, labels)
    gains = C**2 / norms
    assert (new == gains.argmax(axis=1)).all()
    assert (_reassign(-C, labels) == labels).all()


@pytest.mark.parametrize("seed", range(3))
def test_support_is_identified_and_kept(seed):
    rng = np.random.default_rng(seed)
    M = rng.random((15, 15))
    problem, method = TraceMin(-(M @ M.T), 3), SupportSet(tol=1e-9)
    first = method.init(problem, random_oblique_plus(15, 3, rng))
    states = list(islice(iterate(problem, method, first), 60))
    kept = [((a.X > 0) == (b.X > 0)).all() for a, b in pairwise(states)]
    assert all(kept[-20:])


def test_best_of_many_starts_is_the_optimum_over_all_supports(rng):
    M = rng.standard_normal((5, 5))
    problem = TraceMin(M + M.T, 2)
    points = (op.methods.refine.refine(problem, H) for H in supports(5, 2))
    best = min(problem.value(X) for X in points)
    found = op.solve(problem, method=SupportSet(), n_init=20, rng=0).value
    assert np.isclose(found, best, rtol=1e-8)


def test_options_are_checked():
    for bad in ({"moves": "some"}, {"growth": 1.0}, {"decrease": 2.0}, {"eta_start": 0.0}):
        with pytest.raises(ValueError, match=r"must|out of range|Choose"):
            SupportSet(**bad)
