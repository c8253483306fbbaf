"""How well clusters predict hidden entries of rows or columns that the fit has not seen."""

from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.groups import best_column
from orthoplus.model_selection.rank_path import PathPoint

# What is left of a sum after all of it was taken away: rounding, not a number to divide by.
_ROUNDING = 1e-12
# The least squared norm of what is shown of a center: 0 / 0 counts as 0.
_TINY = float(np.finfo(np.float64).tiny)


def predict_rows(pieces: list[Any], centers: list[FloatArray]) -> tuple[float, IntArray]:
    r"""Return the share missed of data given in pieces of its columns, each hidden once.

    And the nearest center of each row by all of its columns.

    A row goes to the center that the other pieces fit best, with their multiple w of it, and what
    is missed of the hidden piece is :math:`\|a\|^2 - 2 w a^\top c + w^2 \|c\|^2`.
    """
    scores = [A.times(c.T).astype(np.float64) for A, c in zip(pieces, centers, strict=True)]
    sizes = [np.einsum("ij,ij->i", c, c) for c in centers]
    squares = [A.squared_norm() for A in pieces]
    rows, missed, total = np.arange(len(scores[0])), sum(squares), sum(scores)
    for hidden, size in zip(scores, sizes, strict=True):
        shown, shown_size = total - hidden, sum(sizes) - size
        shown_size = np.maximum(shown_size, _TINY)
        labels = best_column(shown / np.sqrt(shown_size))
        weights = np.maximum(shown[rows, labels], 0.0) / shown_size[labels]
        missed += float(np.sum(weights * (weights * size[labels] - 2.0 * hidden[rows, labels])))
    return missed / (sum(squares) or 1.0), best_column(total)


def column_weights(half: Any, point: PathPoint) -> FloatArray:
    """Return the product of each row with the unit center of its cluster, at least 0."""
    scores = np.asarray(half.times(point.centers.T), dtype=np.float64)
    return np.maximum(scores[np.arange(len(scores)), point.labels], 0.0)


def predict_columns(
    pieces: list[Any], point: PathPoint, weights: FloatArray, folds: list[IntArray]
) -> float:
    r"""Return the share missed of columns given in pieces of their rows, each hidden once.

    A column b is predicted by :math:`x_i y_j` for row i of cluster j, where x are the weights and
    y is estimated from the rows S that are shown:

    .. math:: y_j = \sum_{i \in S_j} x_i b_i \Big/ \sum_{i \in S_j} x_i^2.

    Weights and labels come from other columns, and y from other rows: nothing that is scored was
    seen before.
    """
    sums = [
        np.asarray(piece.group_sums(point.labels[fold], weights[fold], point.k), dtype=np.float64)
        for piece, fold in zip(pieces, folds, strict=True)
    ]
    sizes = [
        np.bincount(point.labels[fold], weights[fold] ** 2, minlength=point.k) for fold in folds
    ]
    total = sum(piece.squared_norm() for piece in pieces)
    missed, all_sums, all_sizes = total, sum(sums), sum(sizes)
    for hidden, size in zip(sums, sizes, strict=True):
        shown = all_sizes - size
        is_shown = shown > _ROUNDING * all_sizes
        Y = np.where(is_shown, 1.0 / np.where(is_shown, shown, 1.0), 0.0)[:, None]
        Y = Y * (all_sums - hidden)
        missed += float(np.sum(size[:, None] * Y * Y - 2.0 * Y * hidden))
    return missed / (total or 1.0)
