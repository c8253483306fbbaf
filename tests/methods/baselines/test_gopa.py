"""GOPA: exactly orthogonal and monotone; a move is the best one for its row."""

from itertools import pairwise

import numpy as np
import pytest

from brute_force import minimize_over_supports
from orthoplus.core.point import SupportPoint
from orthoplus.datasets import planted_onmf
from orthoplus.geometry.stiefel import assemble, random_stiefel_plus, violation
from orthoplus.methods.baselines import GOPA
from orthoplus.methods.baselines.gopa import move_batch, move_rows
from orthoplus.problems import ONMF

every_variant = pytest.mark.parametrize("variant", ["plain", "batch", "randomized"])


def linear(R, point):
    return float((R * assemble(point.labels, point.weights, point.k)).sum())


def best_of_one_row(R, X, i):
    """The largest <R, X> over the position and value of row i, the other rows up to scale."""
    best = (R * X).sum()
    rest = X.copy()
    rest[i] = 0.0
    norms = np.linalg.norm(rest, axis=0)
    if (norms == 0).any():
        return best
    base = (R * rest).sum(axis=0) / norms
    for j in range(X.shape[1]):
        for angle in np.linspace(0.0, np.pi / 2, 501):
            value = np.cos(angle) * base[j] + np.sin(angle) * R[i, j]
            best = max(best, base.sum() - base[j] + value)
    return best


@pytest.mark.parametrize("seed", range(5))
def test_move_is_the_best_position_and_value_of_the_row(seed):
    rng = np.random.default_rng(seed)
    R, X = rng.random((8, 3)), random_stiefel_plus(8, 3, rng, n_zero_rows=1)
    for i in range(8):
        moved = move_rows(R, SupportPoint.of(X), np.array([i]))
        # The grid of angles is coarse to 3e-3, its square in the value.
        assert np.isclose(linear(R, moved), best_of_one_row(R, X, i), atol=2e-5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_signed", [False, True])
def test_moves_never_lower_the_linear_objective(seed, is_signed):
    rng = np.random.default_rng(seed)
    X = random_stiefel_plus(20, 4, rng)
    R = rng.random((20, 4)) + X
    if is_signed:
        R -= 0.4
    point = SupportPoint.of(X)
    before = linear(R, point)
    for move in (move_rows, move_batch):
        after = move(R, point, rng.permutation(20))
        assert linear(R, after) >= before - 1e-12
        assert (after.counts() > 0).all()


@every_variant
@pytest.mark.parametrize("start", ["random", "given"])
@pytest.mark.parametrize("seed", range(3))
def test_iterates_are_exactly_orthogonal_and_the_objective_never_rises(variant, start, seed):
    rng = np.random.default_rng(seed)
    problem = ONMF(planted_onmf(50, 30, 4, 1.0, rng).A, 4)
    method = GOPA(variant=variant, start=start, seed=seed)
    states = [method.init(problem, problem.start(rng))]
    for _ in range(15):
        states.append(method.step(problem, states[-1]))
    assert all(violation(state.factor) <= 1e-14 for state in states)
    assert all(b.value <= a.value + 1e-13 * problem.total for a, b in pairwise(states))
    assert states[-1].value < states[0].value


@every_variant
def test_best_of_several_starts_is_the_optimum_over_all_supports(variant, rng):
    import orthoplus as op

    problem = ONMF(rng.random((6, 4)), 2)
    best = minimize_over_supports(problem)[0]
    values = [
        op.solve(problem, method=GOPA(variant=variant, seed=seed), with_bound=False).value
        for seed in range(10)
    ]
    assert min(values) >= best - 1e-12
    assert np.isclose(min(values), best, rtol=1e-8)


def test_last_row_of_a_column_stays(rng):
    R = np.array([[0.1, 5.0], [1.0, 0.0], [1.0, 0.0]])
    point = SupportPoint(np.array([1, 0, 0]), np.array([1.0, 1.0, 1.0]), 2)
    assert move_rows(R, point, np.arange(3)).labels[0] == 1
    assert move_batch(R, point, np.arange(3)).labels[0] == 1


def test_fixed_point_has_the_weights_of_the_leading_singular_vectors(rng):
    A = planted_onmf(40, 30, 3, 0.5, rng).A
    problem, method = ONMF(A, 3), GOPA(start="given")
    state = method.init(problem, problem.start(rng))
    for _ in range(200):
        state = method.step(problem, state)
    assert np.allclose(state.factor, problem.refine(state.factor), atol=1e-6)


def test_options_are_checked():
    for bad in ({"share": 0.0}, {"share": 1.5}, {"variant": "greedy"}, {"start": "svd"}):
        with pytest.raises(ValueError, match=r"must|out of range|Choose"):
            GOPA(**bad)
