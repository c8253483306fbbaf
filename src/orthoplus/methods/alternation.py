"""The exact alternation of orthogonal NMF: best vector of each group, best group of each row."""

from typing import NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.data_matrix import times
from orthoplus.geometry import assemble, cover_columns
from orthoplus.methods.factors import data_of
from orthoplus.methods.row_moves import disjoint_moves, gainful_moves
from orthoplus.protocols import FloatArray, IntArray, Problem
from orthoplus.row_groups import best_column, group_sums, unit_rows

# Residual of leading vectors while rows still move: their squares are exact to its square.
_ROUGH = 1e-4
# Each round lowers the objective; a few dozen settle ten thousand rows.
_MAX_ROUNDS = 200


class _Rest(NamedTuple):
    """Groups at rest: scores are a_i'y_j, squares the leading ones of the groups."""

    labels: IntArray
    weights: FloatArray
    value: float
    scores: FloatArray
    squares: FloatArray


def alternate(
    problem: Problem, X: FloatArray, *, with_moves: bool = True
) -> tuple[FloatArray, float]:
    r"""From the groups of X to where neither the alternation nor a single row gains; the value.

    .. math:: x_j = \text{leading left singular vector of } A_j, \qquad
              \pi_i = \arg\max_j\, a_i^\top y_j / \|y_j\|, \quad y_j = A_j^\top x_j,

    which is EM-ONMF; for data of any sign x_j is the best nonnegative vector that the projected
    power method finds. Then, unless ``with_moves`` is False, rows move that gain by it although
    another centre is nearer, see `row_moves`. The value never rises; no row would fit another
    column better, but for ties.
    """
    labels, weights = kernels.largest_entries(X)
    for residual in (_ROUGH, None):  # to rest with rough vectors, then to the last digit
        rest = _come_to_rest(problem, labels, weights, residual)
        for _ in range(_MAX_ROUNDS if with_moves else 0):
            better = _move_rows(problem, rest, residual)
            if better is None:
                break
            rest = better
        labels, weights = rest.labels, rest.weights
    return assemble(rest.labels, rest.weights.astype(X.dtype, copy=False), X.shape[1]), rest.value


def _come_to_rest(
    problem: Problem, labels: IntArray, weights: FloatArray, residual: float | None
) -> _Rest:
    """Alternate until no row moves."""
    A, k = data_of(problem), problem.shape[1]
    best: _Rest | None = None
    for _ in range(_MAX_ROUNDS):
        weights, squares = problem.group_vectors(labels, weights, residual)  # type: ignore[attr-defined]
        value = problem.total - float(squares.sum())  # type: ignore[attr-defined]
        if best is not None and not value < best.value:
            break
        scores = times(A, unit_rows(group_sums(A, labels, weights, k)).T)
        best = _Rest(labels, weights, value, scores, squares)
        moved = best_columns(problem, scores)
        if (moved == labels).all():
            break
        labels, weights = moved, start_weights(problem, scores, moved)
    assert best is not None
    return best


def _move_rows(problem: Problem, rest: _Rest, residual: float | None) -> _Rest | None:
    """At rest again after moves of single rows, with a lower value; None where none gains."""
    row_squares = problem.row_squares  # type: ignore[attr-defined]
    moves = gainful_moves(rest.scores, rest.labels, row_squares, rest.squares)
    if len(moves[0]) == 0:
        return None
    # All at once may be too many: those that share no group are safe.
    for rows, columns in (moves[:2], disjoint_moves(rest.labels, moves)):
        labels = rest.labels.copy()
        labels[rows] = columns
        if cover_columns(labels, problem.shape[1]):
            weights = start_weights(problem, rest.scores, labels)
            better = _come_to_rest(problem, labels, weights, residual)
            if better.value < rest.value:
                return better
    return None


def best_columns(problem: Problem, scores: FloatArray) -> IntArray:
    """The column of each row's largest score, -1 for a row of zeros; no column without a row.

    A column that would lose its last row takes the row that is fitted worst.
    """
    squares = problem.row_squares  # type: ignore[attr-defined]
    labels = best_column(scores)
    missed = np.maximum(squares - np.maximum(kernels.gather(scores, labels), 0.0) ** 2, 0.0)
    labels[squares == 0] = -1
    counts = np.bincount(labels[labels >= 0], minlength=scores.shape[1])
    for column in np.flatnonzero(counts == 0):
        is_spare = (labels < 0) | (counts[labels] > 1)
        row = int(np.where(is_spare, missed, -1.0).argmax())
        if labels[row] >= 0:
            counts[labels[row]] -= 1
        labels[row], counts[column] = column, 1
    return labels


def start_weights(problem: Problem, scores: FloatArray, labels: IntArray) -> FloatArray:
    """A start for the vectors of the groups: the score of each row in its column, where positive.

    Elsewhere 1, since no entry of a leading vector of nonnegative data need be zero; but 0 for data
    of any sign, where 1 would lose what other rows gain, unless the column has no other.
    """
    weights = kernels.gather(scores, labels)
    is_bare = weights <= 0
    if getattr(problem, "allow_negative", False):
        is_fit = ~is_bare & (labels >= 0)
        is_bare &= np.bincount(labels[is_fit], minlength=scores.shape[1])[labels] == 0
    return np.where(is_bare, weights.dtype.type(1), np.maximum(weights, 0))
