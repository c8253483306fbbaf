r"""Moves of single rows between groups that the alternation cannot see.

The alternation compares a row with the centres as they are; but a centre turns towards a row that
comes, and away from one that goes. With :math:`\sigma^2 = \sigma_1(A_j)^2`, y the unit centre,
:math:`s = a^\top y` and :math:`t^2 = \|a\|^2 - s^2`, in the plane of y and a

.. math::

    \sigma_1(A_j + a)^2 \ge \lambda_{\max}
        \begin{pmatrix} \sigma^2 + s^2 & st \\ st & t^2 \end{pmatrix}, \qquad
    \sigma_1(A_j - a)^2 \ge \lambda_{\max}
        \begin{pmatrix} \sigma^2 - s^2 & -st \\ -st & 0 \end{pmatrix},

so a move whose two bounds exceed the two squares it starts from is a gain, at O(1) a candidate.
"""

import numpy as np

from orthoplus import kernels
from orthoplus.protocols import FloatArray, IntArray

# Gains below this share of the sum are rounding.
_LEAST_GAIN = 1e-12
# Rows that are looked at together: a handful of arrays of this many rows by k columns.
_BLOCK = 1 << 14


def gainful_moves(
    scores: FloatArray, labels: IntArray, row_squares: FloatArray, squares: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows that gain by moving alone, the best column for each, and what they gain at least.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        a_i'y_j for the leading unit vectors y_j of the groups.
    labels : ndarray of shape (n,)
        The group of each row, -1 for none.
    row_squares, squares : ndarrays of shape (n,), (k,)
        ||a_i||^2, and the squared leading singular values of the groups.
    """
    counts = np.bincount(labels[labels >= 0], minlength=len(squares))
    least = _LEAST_GAIN * float(squares.sum())
    found: list[tuple[IntArray, IntArray, FloatArray]] = []
    for start in range(0, len(labels), _BLOCK):
        block = slice(start, start + _BLOCK)
        own = np.maximum(labels[block], 0)
        gain = _gains(scores[block], own, row_squares[block], squares)
        gain[(labels[block] < 0) | (counts[own] < 2)] = -np.inf  # no column may run empty
        best = gain.argmax(axis=1)
        top = kernels.gather(gain, best)
        rows = np.flatnonzero(top > least)
        found.append((rows + start, best[rows], top[rows]))
    rows, columns, gains = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, columns, gains


def disjoint_moves(
    labels: IntArray, moves: tuple[IntArray, IntArray, FloatArray]
) -> tuple[IntArray, IntArray]:
    """The largest of the moves so that no group takes part in two: their gains add up."""
    rows, columns, gains = moves
    is_used = np.zeros(int(max(labels.max(), columns.max())) + 1, dtype=bool)
    kept = []
    for move in np.argsort(-gains, kind="stable"):
        source, target = labels[rows[move]], columns[move]
        if not (is_used[source] or is_used[target]):
            is_used[source] = is_used[target] = True
            kept.append(move)
    return rows[kept], columns[kept]


def _gains(
    scores: FloatArray, own: IntArray, row_squares: FloatArray, squares: FloatArray
) -> FloatArray:
    """What each row gains at least in each column, -inf in its own."""
    along = np.maximum(scores.astype(np.float64), 0.0) ** 2
    across = np.maximum(row_squares[:, None] - along, 0.0)
    gain = _largest_eigenvalue(squares + along, across, along * across) - squares
    rows = np.arange(len(own))
    s, t = along[rows, own], across[rows, own]
    left = _largest_eigenvalue(squares[own] - s, np.zeros_like(s), s * t) - squares[own]
    gain += left[:, None]
    gain[rows, own] = -np.inf
    return np.asarray(gain)


def _largest_eigenvalue(a: FloatArray, b: FloatArray, c_squared: FloatArray) -> FloatArray:
    """Of the symmetric matrices with diagonal a, b and c beside it."""
    return np.asarray((a + b) / 2.0 + np.sqrt(((a - b) / 2.0) ** 2 + c_squared))
