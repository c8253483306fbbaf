"""Bounds on what a row gains by moving: never above the truth, and enough to leave a trap."""

import numpy as np
import pytest

import orthoplus as op
from orthoplus.geometry.stiefel import assemble
from orthoplus.methods.baselines import EMONMF
from orthoplus.methods.search import row_moves
from orthoplus.methods.search.alternation import alternate
from orthoplus.methods.search.row_moves import disjoint_moves, gainful_moves

N, R, K = 12, 5, 3


def setting(seed):
    rng = np.random.default_rng(seed)
    A = rng.random((N, R)) ** 2
    return A, rng.permutation(np.arange(N) % K)


def squares_of(A, labels):
    return np.array([np.linalg.norm(A[labels == j], 2) ** 2 for j in range(K)])


def scores_of(A, labels):
    centers = [np.abs(np.linalg.svd(A[labels == j])[2][0]) for j in range(K)]
    return A @ np.array(centers).T


@pytest.mark.parametrize("seed", range(20))
def test_every_gain_is_a_lower_bound_of_the_true_one(seed):
    A, labels = setting(seed)
    before = squares_of(A, labels)
    moves = gainful_moves(scores_of(A, labels), labels, (A * A).sum(axis=1), before)
    for row, column, gain in zip(*moves, strict=True):
        moved = labels.copy()
        moved[row] = column
        assert squares_of(A, moved).sum() - before.sum() >= gain - 1e-12
        assert gain > 0


@pytest.mark.parametrize("seed", range(20))
def test_no_missed_move_of_the_alternation(seed):
    A, labels = setting(seed)
    scores = scores_of(A, labels)
    rows, _, _ = gainful_moves(scores, labels, (A * A).sum(axis=1), squares_of(A, labels))
    nearer = np.flatnonzero(scores.argmax(axis=1) != labels)
    assert set(nearer) <= set(rows)


@pytest.mark.parametrize("seed", range(10))
def test_gains_of_disjoint_moves_add_up(seed):
    A, labels = setting(seed)
    before = squares_of(A, labels)
    moves = gainful_moves(scores_of(A, labels), labels, (A * A).sum(axis=1), before)
    if len(moves[0]) == 0:
        pytest.skip("nothing gains here")
    rows, columns = disjoint_moves(labels, moves)
    gains = {row: gain for row, _, gain in zip(*moves, strict=True)}
    moved = labels.copy()
    moved[rows] = columns
    assert len({*labels[rows], *columns}) == 2 * len(rows)
    assert squares_of(A, moved).sum() - before.sum() >= sum(gains[row] for row in rows) - 1e-12


def test_the_last_row_of_a_group_stays():
    A = np.array([[1.0, 0.0], [0.0, 1.0]])
    rows, _, _ = gainful_moves(A, np.array([0, 1]), np.ones(2), np.ones(2))
    assert len(rows) == 0


@pytest.mark.parametrize("seed", range(10))
def test_single_moves_never_end_above_the_plain_alternation(seed):
    A, labels = setting(seed)
    problem = op.problems.ONMF(A, K)
    X = assemble(labels, np.ones(N), K)
    plain = op.solve(problem, X, method=EMONMF(start="given"))
    assert alternate(problem, X)[1] <= plain.value + 1e-12


def test_single_moves_leave_some_fixed_points_of_the_alternation():
    lower = 0
    for seed in range(40):
        A, labels = setting(seed)
        problem = op.problems.ONMF(A, K)
        X = assemble(labels, np.ones(N), K)
        plain = op.solve(problem, X, method=EMONMF(start="given")).value
        lower += alternate(problem, X)[1] < plain - 1e-6
    assert lower >= 3


@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_rows_that_are_not_looked_at_would_not_gain(scale, rng):
    A = scale * rng.random((300, 5))
    A[:20] = 3.0 * rng.random((20, 5))
    V = np.abs(rng.standard_normal((4, 5)))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    scores, row_squares = A @ V.T, (A**2).sum(axis=1)
    labels = np.where(rng.random(300) < 0.9, scores.argmax(axis=1), rng.integers(4, size=300))
    squares = np.bincount(labels, scores[np.arange(300), labels] ** 2, minlength=4)
    gains = row_moves._gains(scores, labels, row_squares, squares)
    skipped = ~row_moves._may_gain(scores, labels, row_squares, squares)
    assert skipped.any()
    assert gains[skipped].max() <= 0.0
