"""The exact alternation of orthogonal NMF: best vector of each group, best group of each row."""

import numpy as np

from orthoplus import kernels
from orthoplus.data_matrix import times
from orthoplus.geometry import assemble
from orthoplus.methods.factors import data_of
from orthoplus.protocols import FloatArray, IntArray, Problem
from orthoplus.row_groups import best_column, group_sums, leading_vectors, unit_rows

# Residual of leading vectors while rows still move: their squares are exact to its square.
_ROUGH = 1e-4
# Each round lowers the objective; a few dozen settle ten thousand rows.
_MAX_ROUNDS = 200


def alternate(problem: Problem, X: FloatArray) -> tuple[FloatArray, float]:
    r"""From the groups of X to a fixed point of the exact alternation: a point of S+, its value.

    .. math:: x_j = \text{leading left singular vector of } A_j, \qquad
              \pi_i = \arg\max_j\, a_i^\top y_j / \|y_j\|, \quad y_j = A_j^\top x_j,

    which is EM-ONMF. The value never rises; no row would fit another column better, but for ties.
    """
    labels, weights = kernels.largest_entries(X)
    value = np.inf
    for residual in (_ROUGH, None):  # to rest with rough vectors, then to the last digit
        labels, weights, value = _rounds(problem, labels, weights, residual)
    return assemble(labels, weights.astype(X.dtype, copy=False), X.shape[1]), value


def _rounds(
    problem: Problem, labels: IntArray, weights: FloatArray, residual: float | None
) -> tuple[IntArray, FloatArray, float]:
    A, k = data_of(problem), problem.shape[1]
    best = labels, weights, np.inf
    for _ in range(_MAX_ROUNDS):
        weights, squares = leading_vectors(A, labels, weights, k, residual)
        value = problem.total - float(squares.sum())  # type: ignore[attr-defined]
        if not value < best[2]:
            return best
        best = labels, weights, value
        scores = times(A, unit_rows(group_sums(A, labels, weights, k)).T)
        moved = best_columns(problem, scores)
        if (moved == labels).all():
            return best
        labels, weights = moved, positive_weights(kernels.gather(scores, moved))
    return best


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


def positive_weights(weights: FloatArray) -> FloatArray:
    """The weights where they are positive, else 1: a start for the leading vectors."""
    return np.where(weights > 0, weights, weights.dtype.type(1))
