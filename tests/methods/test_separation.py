"""Columns of EP4Orth+ stay apart, also for a concave f, and X^feas has seen f."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import orthoplus as op
from orthoplus.core.method import iterate
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import keep_largest, violation
from orthoplus.methods.separation import begin, columns_coincide
from orthoplus.penalty.family import PowerPenalty
from orthoplus.problems import Projection, Smooth, TraceMin


def concave(n, k, rng):
    M = np.cov(rng.standard_normal((n, 3 * n)))
    return TraceMin(-M, k)


def states_of(method, problem, X, count):
    states = []
    for state in iterate(problem, method, method.init(problem, X)):
        states.append(state)
        if len(states) > count or method.stop()(state) is not op.Status.RUNNING:
            return states
    raise AssertionError


@pytest.mark.parametrize("seed", range(5))
def test_columns_part_for_good_when_f_is_concave(seed):
    rng = np.random.default_rng(seed)
    problem = concave(30, 4, rng)
    states = states_of(op.EP4Orth(), problem, random_oblique_plus(30, 4, rng), 60)
    assert not columns_coincide(states[0].X)  # though f alone draws them into one
    assert sum(columns_coincide(state.X) for state in states) <= 2
    assert not columns_coincide(states[-1].X)
    assert states[-1].violation < 1e-8


@pytest.mark.parametrize("seed", range(5))
def test_answer_of_the_penalty_method_alone_is_not_its_rounded_start(seed):
    rng = np.random.default_rng(seed)
    A = rng.random((60, 10))
    X = random_oblique_plus(60, 4, rng)
    result = op.solve(TraceMin(-A @ A.T, 4), X, method=op.EP4Orth(), search=False)
    start = keep_largest(X)
    assert adjusted_rand_score(start.argmax(axis=1), result.labels) < 0.5
    best = op.solve(op.problems.ONMF(A, 4)).value
    assert float((A**2).sum()) + result.value <= 1.05 * best  # it was 33 to 37 % above


@pytest.mark.parametrize("seed", range(4))
def test_feasible_point_at_the_beginning_is_better_than_the_rounded_start(seed):
    rng = np.random.default_rng(seed)
    X = random_oblique_plus(20, 3, rng)
    for problem in (concave(20, 3, rng), Projection(rng.standard_normal((20, 3)))):
        first = begin(problem, X, PowerPenalty(1.0), penalty_start=0.01)
        assert violation(first.X_feas) < 1e-12
        assert problem.value(first.X_feas) < problem.value(keep_largest(X))
        assert first.unit > 0.0


def test_start_is_kept_where_f_keeps_columns_apart(rng):
    X = random_oblique_plus(20, 3, rng)
    first = begin(Projection(rng.standard_normal((20, 3))), X, PowerPenalty(1.0), penalty_start=0.5)
    np.testing.assert_array_equal(first.X, X)
    assert first.penalty_start == 0.5


def test_penalty_jumps_when_columns_meet_on_the_way(rng):
    # The unit of sigma is given, so nothing is known of f beforehand, and the start collapses.
    problem = concave(20, 3, rng)
    method = op.EP4Orth(penalty_unit=1e-6)
    states = states_of(method, problem, random_oblique_plus(20, 3, rng), 200)
    met = [state.has_collapsed for state in states]
    assert any(met)
    after = met.index(True) + 1
    assert states[after].sigma > 2 * method.penalty_growth * states[after - 1].sigma
    assert not any(columns_coincide(state.X) for state in states[after:])
    assert len(states) < 40


def test_small_violation_excludes_equal_columns_without_a_look():
    X = np.ones((4, 2)) / 2.0
    assert columns_coincide(X)
    assert not columns_coincide(X, violation=0.5)  # a pair would add 2 c / k >= 0.9


def test_users_own_concave_function_is_solved(rng):
    A = np.kron(np.eye(3), np.ones((8, 1))) @ rng.random((3, 6)) + 0.02 * rng.random((24, 6))
    f = Smooth(
        lambda X: -float(((A.T @ X) ** 2).sum()), (24, 3), jac=lambda X: -2.0 * (A @ (A.T @ X))
    )
    for search in (False, True):
        labels = op.solve(f, rng=1, search=search).labels
        assert adjusted_rand_score(np.repeat(np.arange(3), 8), labels) == 1.0


def test_penalty_stays_finite_when_f_is_infinite_at_the_rounded_point():
    A = np.random.default_rng(0).random((10, 5))
    problem = op.problems.KLONMF(A, 9)  # a rounded point without one of the rows: D is infinite
    result = op.solve(problem, method=op.EP4Orth(), search=False)
    assert result.history
    assert all(np.isfinite(row.sigma) for row in result.history)
    assert violation(result.X) < 1e-12


def test_penalty_grows_by_its_factor_when_columns_coincide_and_no_feasible_value_is_known():
    problem = op.problems.KLONMF(np.random.default_rng(0).random((6, 4)), 2)
    method = op.EP4Orth()
    state = method.init(problem, problem.start(np.random.default_rng(0)))
    state = state._replace(n_iter=1, has_collapsed=True, value_feas=np.inf)
    assert method.step(problem, state).sigma == method.penalty_growth * state.sigma
