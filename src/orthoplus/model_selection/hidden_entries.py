"""Prediction of hidden entries of rows or columns that were not used in the fit."""

from collections.abc import Sequence

import numpy as np

from orthoplus.core.types import SMALLEST_NORMAL, FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.groups import best_column
from orthoplus.model_selection.rank_path import PathPoint

# A difference of sums below this share is rounding and cannot be divided by.
_ROUNDING = 1e-12
# Larger unexplained shares are all equally useless, and replaced by this.
_LARGEST_SHARE = 1e30


def predict_rows(pieces: Sequence[DataMatrix], centers: list[FloatArray]) -> float:
    r"""Return the unexplained share of data, given in column pieces that are hidden in turn.

    A row is assigned to the center that fits its other pieces best, with a multiple w. The error of
    the hidden piece is :math:`\|a\|^2 - 2 w a^\top c + w^2 \|c\|^2`.
    """
    scores = [A.times(c.T).astype(np.float64) for A, c in zip(pieces, centers, strict=True)]
    sizes = [np.einsum("ij,ij->i", c, c, dtype=np.float64) for c in centers]
    squares = [A.squared_norm() for A in pieces]
    rows, missed, total = np.arange(len(scores[0])), sum(squares), sum(scores)
    for hidden, size in zip(scores, sizes, strict=True):
        shown, shown_size = total - hidden, sum(sizes) - size
        shown_size = np.maximum(shown_size, SMALLEST_NORMAL)
        # Assign each row and fit its weight by the shown columns only.
        labels = best_column(shown / np.sqrt(shown_size))
        weights = np.maximum(shown[rows, labels], 0.0) / shown_size[labels]
        # ||a - w c||^2 = ||a||^2 + w (w ||c||^2 - 2 a'c) over the hidden columns. It may
        # overflow for columns of very different sizes.
        with np.errstate(over="ignore"):
            errors = weights * (weights * size[labels] - 2.0 * hidden[rows, labels])
        missed += float(errors.sum())
    return min(missed / (sum(squares) or 1.0), _LARGEST_SHARE)


def column_weights(half: DataMatrix, point: PathPoint) -> FloatArray:
    """Return the nonnegative product of each row with the unit center of its cluster.

    It is 0 for a row of zeros, which has the label -1.
    """
    scores = np.asarray(half.times(point.centers.T), dtype=np.float64)
    return np.maximum(scores[np.arange(len(scores)), point.labels], 0.0)


def predict_columns(
    pieces: Sequence[DataMatrix], point: PathPoint, weights: FloatArray, folds: Sequence[IntArray]
) -> float:
    r"""Return the unexplained share of columns, given in row pieces that are hidden in turn.

    A column b is predicted by :math:`x_i y_j` for row i of cluster j, where x are the weights and
    y is estimated from the rows S that are shown:

    .. math:: y_j = \sum_{i \in S_j} x_i b_i \Big/ \sum_{i \in S_j} x_i^2.

    Weights and labels come from other columns, and y from other rows, so that no scored entry was
    used before.
    """
    sums = [
        np.asarray(piece.group_sums(point.labels[fold], weights[fold], point.k), dtype=np.float64)
        for piece, fold in zip(pieces, folds, strict=True)
    ]
    sizes = [
        # Number 0 counts the rows without a label.
        np.bincount(point.labels[fold] + 1, weights[fold] ** 2, minlength=point.k + 1)[1:]
        for fold in folds
    ]
    total = sum(piece.squared_norm() for piece in pieces)
    missed, all_sums, all_sizes = total, sum(sums), sum(sizes)
    for hidden, size in zip(sums, sizes, strict=True):
        shown = all_sizes - size
        is_shown = shown > _ROUNDING * all_sizes
        Y = np.where(is_shown, 1.0 / np.where(is_shown, shown, 1.0), 0.0)[:, None]
        Y = Y * (all_sums - hidden)
        # Sum over the hidden rows of (b_i - x_i y_j)^2 - b_i^2.
        missed += float(np.sum(size[:, None] * Y * Y - 2.0 * Y * hidden))
    return missed / (total or 1.0)
