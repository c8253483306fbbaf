"""The exact alternation of orthogonal NMF: best vector of each group, best group of each row."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.geometry import assemble
from orthoplus.methods.factors import data_of
from orthoplus.protocols import FloatArray, Problem
from orthoplus.row_groups import (
    assign_rows,
    column_entries,
    leading_directions,
    positive_weights,
    same_rows,
)

# Residual of leading vectors while rows still move: their squares are exact to its square.
_ROUGH = 1e-4
# Each round lowers the objective; a few dozen settle ten thousand rows.
_MAX_ROUNDS = 200


class Groups(NamedTuple):
    """Rows in groups, and a point of S+ on them: a label and a weight a row, n-vectors both."""

    labels: Any
    weights: Any
    directions: FloatArray  # k x r: y_j / ||y_j||
    value: float


def alternate(problem: Problem, X: FloatArray) -> tuple[FloatArray, float]:
    r"""From the groups of X to a fixed point of the exact alternation: a point of S+, its value.

    .. math:: x_j = \text{leading left singular vector of } A_j, \qquad
              \pi_i = \arg\max_j\, a_i^\top y_j / \|y_j\|, \quad y_j = A_j^\top x_j,

    which is EM-ONMF. The value never rises; no row would fit another column better, but for ties.
    """
    groups = alternate_groups(problem, *kernels.largest_entries(X))
    weights = groups.weights.astype(X.dtype, copy=False)
    return assemble(groups.labels, weights, X.shape[1]), groups.value


def alternate_groups(problem: Problem, labels: Any, weights: Any) -> Groups:
    """`alternate` from labels and positive weights: no n x k matrix is made.

    For data in row blocks the vectors are in the form of the data.
    """
    A = data_of(problem)
    found = Groups(labels, weights, np.zeros((0, 0)), np.inf)
    for residual in (_ROUGH, None):  # to rest with rough vectors, then to the last digit
        start = positive_weights(A, found.weights)
        found, squares = _rounds(problem, found._replace(weights=start), residual)
    entries = column_entries(A, found.labels, found.directions, squares)
    return found._replace(weights=entries)


def _rounds(problem: Problem, start: Groups, residual: float | None) -> tuple[Groups, FloatArray]:
    A, k = data_of(problem), problem.shape[1]
    labels, weights = start.labels, start.weights
    best = start._replace(value=np.inf)
    best_squares: FloatArray = np.zeros(k)
    for _ in range(_MAX_ROUNDS):
        V, squares = leading_directions(A, labels, weights, k, residual)
        value = problem.total - float(squares.sum())  # type: ignore[attr-defined]
        if not value < best.value:
            break
        best, best_squares = Groups(labels, weights, V, value), squares
        moved, scores = assign_rows(A, V)
        if same_rows(A, moved, labels):
            break
        labels, weights = moved, positive_weights(A, scores)
    return best, best_squares
