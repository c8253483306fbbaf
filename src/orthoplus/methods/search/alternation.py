"""The exact alternation for orthogonal NMF: best vector per group, best group per row."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import DataMatrix, Vector
from orthoplus.data.groups import (
    assign_rows,
    column_entries,
    count_rows,
    normalized_entries,
    power_step,
    unit_rows,
)
from orthoplus.geometry.stiefel import assemble
from orthoplus.methods.factors import data_of, factor_model
from orthoplus.methods.search.row_moves import (
    apply_moves,
    assign_and_move,
    best_disjoint_moves,
    single_moves,
)

# Residual of the leading vectors while rows still move; the error of their squares is its square.
ROUGH = 1e-4
# Maximum number of rounds; each decreases the objective, and a few dozen suffice for ten thousand
# rows.
_MAX_ROUNDS = 200
# One-pass rounds end when the residual decreases by less than this share.
_SMALL_STEP = 1e-5
# Single-row moves use approximate vectors while the residual decreases by at least this share.
_SMALL_MOVE = 1e-7


class Groups(NamedTuple):
    """Hold groups of rows and a point of S+ on them: one label and one weight per row.

    During the iteration, the weights are the start of the next leading vectors.
    """

    labels: Vector
    weights: Vector
    directions: FloatArray  # k x r: y_j / ||y_j||
    squares: FloatArray  # squared leading singular values of the groups
    value: float

    def scores(self, A: DataMatrix) -> Any:
        """Return the fit of each row, which is its weight times the norm of y_j."""
        return A.map_vectors(_scores, self.labels, self.weights, args=(np.sqrt(self.squares),))


def _scores(labels: IntArray, weights: FloatArray, sizes: FloatArray) -> FloatArray:
    return np.where(labels >= 0, weights * sizes[labels], 0.0)


def alternate(
    problem: Problem, X: FloatArray, *, with_moves: bool = True
) -> tuple[FloatArray, float]:
    r"""Alternate from the groups of X to a fixed point; return the point and its value.

    .. math:: x_j = \text{leading left singular vector of } A_j, \qquad
              \pi_i = \arg\max_j\, a_i^\top y_j / \|y_j\|, \quad y_j = A_j^\top x_j,

    which is EM-ONMF; for data of any sign x_j is the best nonnegative vector that the projected
    power method finds. Then, unless ``with_moves`` is False, rows that gain by it move alone even
    if their center is the nearest; see `row_moves`. The value never increases, and at the end no
    row fits another column better, except for ties.
    """
    groups = alternate_groups(problem, *kernels.largest_entries(X), with_moves=with_moves)
    A = data_of(problem)
    weights = A.gather(groups.weights).astype(X.dtype, copy=False)
    return assemble(A.gather(groups.labels), weights, X.shape[1]), groups.value


def alternate_groups(
    problem: Problem,
    labels: Vector,
    weights: Vector,
    *,
    with_moves: bool = True,
    stages: tuple[float | None, ...] = (ROUGH, None),
) -> Groups:
    """Run `alternate` from labels and weights, without forming an n x k matrix.

    For data in row blocks, the vectors are in the form of the data. The alternation runs to a fixed
    point for each residual in ``stages``; the last one is None, for full accuracy.
    """
    A = data_of(problem)
    labels, weights = A.scatter(labels), A.scatter(weights)
    for residual in stages:
        rest = _alternate_to_fixed_point(problem, labels, weights, residual)
        for _ in range(_MAX_ROUNDS if with_moves else 0):
            # Single-row moves escape fixed points of the alternation; repeat until none gains.
            better = _move_rows(problem, rest, residual)
            if better is None:
                break
            rest = better
        labels, weights = rest.labels, rest.weights
    return rest._replace(weights=column_entries(A, labels, rest.directions, rest.squares))


class DirectionPoint(NamedTuple):
    """Hold directions of groups, k x r, and the squares they explain of their nearest rows."""

    directions: FloatArray
    squares: FloatArray
    counts: IntArray

    @property
    def explained(self) -> float:
        """Sum of the explained squares."""
        return float(self.squares.sum())


def alternate_directions(problem: Problem, V: FloatArray) -> DirectionPoint:
    """Alternate in one-pass rounds: best group of each row, then one power step per group.

    Most rows find their group before exact vectors pay off.
    """
    A, total = data_of(problem), factor_model(problem).total
    explained = -np.inf
    for _ in range(_MAX_ROUNDS):
        W, squares, counts = power_step(A, V)
        # Stop once a round explains little more of what is missing, or a group loses all rows.
        gain, explained = float(squares.sum()) - explained, float(squares.sum())
        if gain <= _SMALL_STEP * max(total - explained, 0.0) or not counts.all():
            break
        V = unit_rows(W)
    return DirectionPoint(V, squares, counts)


def alternate_from(problem: Problem, found: DirectionPoint) -> Groups:
    """Run `alternate_groups` from converged directions, after moves with approximate gains."""
    better: DirectionPoint | None = found
    for _ in range(_MAX_ROUNDS):
        if better is None:
            break
        found = better
        better, labels, scores = _move_and_alternate(problem, found)
    if better is not None or not found.counts.all():
        labels, scores = assign_rows(data_of(problem), found.directions)[:2]
    return alternate_groups(problem, labels, scores, stages=(None,))


def _move_and_alternate(
    problem: Problem, found: DirectionPoint
) -> tuple[DirectionPoint | None, Any, Any]:
    """Converge again after single-row moves; also return the labels and scores before the moves.

    The directions are None unless the residual decreases enough.
    """
    model = factor_model(problem)
    A, k = model.A, problem.shape[1]
    labels, scores, columns, gains = assign_and_move(A, model.row_squares, *found)
    disjoint = best_disjoint_moves(A, labels, columns, gains)
    if len(disjoint[0]) == 0:
        return None, labels, scores
    missed = max(model.total - found.explained, 0.0)
    for moves in (None, disjoint):  # all at once may be too many
        moved = apply_moves(A, labels, columns, moves)
        # y_j = A_j'x_j for the moved groups, one power step from the old scores.
        W = A.group_sums(moved, normalized_entries(A, moved, scores, k), k)
        better = alternate_directions(problem, unit_rows(W))
        if better.explained - found.explained > _SMALL_MOVE * missed:
            return better, labels, scores
    return None, labels, scores


def point_of_groups(problem: Problem, labels: Vector, scores: Vector) -> Groups:
    """Return the point with these labels and weights proportional to the scores, in one pass."""
    model = factor_model(problem)
    A, k = model.A, problem.shape[1]
    # x_j is proportional to the scores, and y_j = A_j'x_j gives the explained squares |y_j|^2.
    weights = normalized_entries(A, labels, scores, k)
    W = A.group_sums(labels, weights, k)
    squares = np.einsum("jc,jc->j", W, W)
    return Groups(labels, weights, unit_rows(W), squares, model.constant - float(squares.sum()))


def _alternate_to_fixed_point(
    problem: Problem, labels: Vector, weights: Vector, residual: float | None
) -> Groups:
    """Alternate until no row moves."""
    model = factor_model(problem)
    best: Groups | None = None
    for _ in range(_MAX_ROUNDS):
        V, squares = model.group_directions(labels, weights, residual)
        value = model.constant - float(squares.sum())
        if best is not None and not value < best.value:
            break
        best = Groups(labels, weights, V, squares, value)
        # Exact half steps in turn: leading vectors for fixed labels, then best labels for fixed
        # vectors.
        moved = assign_rows(model.A, V, labels)
        if moved.is_same:
            return best._replace(weights=moved.scores)  # one power step further than the vectors
        labels, weights = moved.labels, moved.scores
    assert best is not None
    return best


def _move_rows(problem: Problem, rest: Groups, residual: float | None) -> Groups | None:
    """Return a better fixed point after moves of single rows; None if no move gains."""
    A, k = data_of(problem), problem.shape[1]
    row_squares = factor_model(problem).row_squares
    columns, gains = single_moves(A, rest.labels, row_squares, rest.directions, rest.squares)
    disjoint = best_disjoint_moves(A, rest.labels, columns, gains)
    if len(disjoint[0]) == 0:
        return None
    # All moves at once may be too many; moves that share no group are safe.
    for is_all in (True, False):
        labels = apply_moves(A, rest.labels, columns, None if is_all else disjoint)
        if count_rows(A, labels, k).all():
            better = _alternate_to_fixed_point(problem, labels, rest.weights, residual)
            if better.value < rest.value:
                return better
    return None
