r"""Moves of single rows between groups that the alternation cannot find.

The alternation compares a row with the current centers, but a center turns toward a row that joins
and away from one that leaves. With :math:`\sigma^2 = \sigma_1(A_j)^2`, y the unit center, :math:`s
= a^\top y` and :math:`t^2 = \|a\|^2 - s^2`, in the plane of y and a,

.. math::

    \sigma_1(A_j + a)^2 \ge \lambda_{\max}
        \begin{pmatrix} \sigma^2 + s^2 & st \\ st & t^2 \end{pmatrix}, \qquad
    \sigma_1(A_j - a)^2 \ge \sigma^2 - s^2 + \frac{s^2 t^2}{\sigma^2 - s^2},

where the second bound uses the normalized left vector of the group without the row. Hence a move is
a gain if the two bounds sum to more than the two current squares, which costs O(1) per candidate.
"""

from typing import Any

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.data.base import DataMatrix, Vector
from orthoplus.data.groups import count_rows, give_rows
from orthoplus.data.memory import MemoryMatrix

# Gains below this share of the sum are due to rounding.
_LEAST_GAIN = 1e-12
# Rows processed together, with a few arrays of this many rows by k columns.
_BLOCK = 1 << 14


def gainful_moves(
    scores: FloatArray,
    labels: IntArray,
    row_squares: FloatArray,
    squares: FloatArray,
    counts: IntArray | None = None,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return rows that gain by moving alone, their best columns, and least gains.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        a_i'y_j for the leading unit vectors y_j of the groups.
    labels : ndarray of shape (n,)
        The group of each row, or -1.
    row_squares, squares : ndarrays of shape (n,), (k,)
        The ||a_i||^2, and the squared leading singular values of the groups.
    counts : ndarray of shape (k,), optional
        Number of rows per group, if ``labels`` does not contain all rows.
    """
    if counts is None:
        counts = np.bincount(labels[labels >= 0], minlength=len(squares))
    least = _LEAST_GAIN * float(squares.sum())
    found: list[tuple[IntArray, IntArray, FloatArray]] = []
    for start in range(0, len(labels), _BLOCK):
        block = slice(start, start + _BLOCK)
        own = np.maximum(labels[block], 0)
        # No group may become empty.
        may_move = (labels[block] >= 0) & (counts[own] >= 2)
        may_move &= _may_gain(scores[block], own, row_squares[block], squares)
        near = np.flatnonzero(may_move)
        gain = _gains(scores[block][near], own[near], row_squares[block][near], squares)
        best = gain.argmax(axis=1)
        top = kernels.gather(gain, best)
        kept = np.flatnonzero(top > least)
        found.append((near[kept] + start, best[kept], top[kept]))
    rows, columns, gains = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, columns, gains


def single_moves(
    A: DataMatrix, labels: Vector, row_squares: Vector, V: FloatArray, squares: FloatArray
) -> tuple[Any, Any]:
    """Return the best column of each row and the gain of moving there; its own and 0 if none.

    V holds the leading unit vectors of the groups. Takes one pass over A.
    """
    args = (V, squares, count_rows(A, labels, len(V)))
    columns, gains = A.map_rows(_moves_of_rows, labels, row_squares, args=args, n_vectors=2)
    return columns, gains


def _moves_of_rows(
    A: MemoryMatrix,
    labels: IntArray,
    row_squares: FloatArray,
    V: FloatArray,
    squares: FloatArray,
    counts: IntArray,
) -> tuple[IntArray, FloatArray]:
    columns, gains, start = labels.copy(), np.zeros(len(labels)), 0
    for part in A.slices(len(V)):
        here = slice(start, start + part.shape[0])
        given = (part.matmul(V.T), labels[here], row_squares[here], squares, counts)
        rows, best, gain = gainful_moves(*given)
        # Rows without a gain keep their own column and the gain 0.
        columns[start + rows], gains[start + rows] = best, gain
        start = here.stop
    return columns, gains


def assign_and_move(
    A: DataMatrix, row_squares: Vector, V: FloatArray, squares: FloatArray, counts: IntArray
) -> tuple[Any, Any, Any, Any]:
    """Return labels and scores for the directions V, and `single_moves` from there, in one pass."""
    args = (V, squares, counts)
    return A.map_rows(_assign_and_move, row_squares, args=args, n_vectors=4)


def _assign_and_move(
    A: MemoryMatrix, row_squares: FloatArray, V: FloatArray, squares: FloatArray, counts: IntArray
) -> tuple[IntArray, FloatArray, IntArray, FloatArray]:
    n = A.shape[0]
    labels, best = np.empty(n, dtype=np.int64), np.empty(n, dtype=A.dtype)
    columns, gains = np.empty(n, dtype=np.int64), np.zeros(n)
    for here in A.ranges(len(V)):
        scores = A.rows(here).matmul(V.T)
        labels[here], best[here] = kernels.best_columns(scores)
        labels[here][row_squares[here] == 0] = -1
        columns[here] = labels[here]
        rows, to, gain = gainful_moves(scores, labels[here], row_squares[here], squares, counts)
        columns[here.start + rows], gains[here.start + rows] = to, gain
    return labels, best, columns, gains


def best_disjoint_moves(
    A: DataMatrix, labels: Vector, columns: Vector, gains: Vector
) -> tuple[IntArray, IntArray]:
    """Return disjoint moves with a gain; only the best per pair of groups can be among them."""
    vectors = (labels, columns, gains, A.row_indices())
    found = A.reduce_rows(_best_of_pairs, *vectors, combine=_better_of, vectors_only=True)
    rows, sources, targets, best = found
    if len(rows) == 0:
        return rows, targets
    # Only the best row per pair of groups is left: at most k^2 candidates.
    moves = (np.arange(len(rows)), targets, best)
    kept, to = disjoint_moves(sources, moves)
    return rows[kept], to


_Moves = tuple[IntArray, IntArray, IntArray, FloatArray]


def _best_of_pairs(
    labels: IntArray, columns: IntArray, gains: FloatArray, numbers: IntArray
) -> _Moves:
    """Return the row with the largest gain for each pair of groups; the first one in a tie."""
    rows = np.flatnonzero(gains > 0)
    return _sorted_moves((numbers[rows], labels[rows], columns[rows], gains[rows]))


def _better_of(one: _Moves, other: _Moves) -> _Moves:
    rows, sources, targets, gains = (np.concatenate(x) for x in zip(one, other, strict=True))
    return _sorted_moves((rows, sources, targets, gains))


def _sorted_moves(moves: _Moves) -> _Moves:
    rows, sources, targets, gains = moves
    # Sort by pair of groups, then by decreasing gain, then by row; keep the first of each pair.
    order = np.lexsort((rows, -gains, targets, sources))
    pairs = np.stack([sources[order], targets[order]])
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (np.diff(pairs) != 0).any(axis=0)
    kept = np.sort(order[is_first])
    return rows[kept], sources[kept], targets[kept], gains[kept]


def apply_moves(
    A: DataMatrix, labels: Vector, columns: Vector, moves: tuple[IntArray, IntArray] | None
) -> Any:
    """Return the labels after these moves, or ``columns`` if all moves are made."""
    return columns if moves is None else give_rows(A, labels, *moves)


def disjoint_moves(
    labels: IntArray, moves: tuple[IntArray, IntArray, FloatArray]
) -> tuple[IntArray, IntArray]:
    """Return the largest moves such that no group occurs in two, so that the gains add up."""
    rows, columns, gains = moves
    # Greedy by decreasing gain: accept a move if both of its groups are unused.
    is_used = np.zeros(int(max(labels.max(), columns.max())) + 1, dtype=bool)
    kept = []
    for move in np.argsort(-gains, kind="stable"):
        source, target = labels[rows[move]], columns[move]
        if not (is_used[source] or is_used[target]):
            is_used[source] = is_used[target] = True
            kept.append(move)
    return rows[kept], columns[kept]


def _may_gain(
    scores: FloatArray, own: IntArray, row_squares: FloatArray, squares: FloatArray
) -> BoolArray:
    r"""Return which rows can gain, that is, have another score close enough to their own.

    With the smallest :math:`\sigma^2 > \|a\|^2` and the second score u the gain is at most
    :math:`u^2 - s^2 + \|a\|^4 / (2 (\sigma^2 - \|a\|^2))`: each of the two bounds above exceeds its
    first terms by at most half of the quotient, since :math:`s^2 t^2 \le \|a\|^4 / 4`.
    """
    rows, others = np.arange(len(own)), scores.copy()
    others[rows, own] = -np.inf
    second = np.maximum(others.max(axis=1), 0.0).astype(np.float64) ** 2
    # Squared scores with the own center and with the best other one.
    mine = np.maximum(scores[rows, own], 0.0).astype(np.float64) ** 2
    room = float(squares.min()) - row_squares
    # An overflow to infinity only means that the row is examined.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The most that turning the two centers can add, |a|^4 / (2 (sigma^2 - |a|^2)).
        turn = np.where(room > 0.0, 0.5 * row_squares**2 / room, np.inf)
    # The factors include a margin for the rounding of the scores.
    return np.asarray(second - mine + (1.0 + 1e-6) * turn + 1e-6 * row_squares > 0.0)


def _gains(
    scores: FloatArray, own: IntArray, row_squares: FloatArray, squares: FloatArray
) -> FloatArray:
    """Return a lower bound on the gain of each row in each column; -inf in its own."""
    # s^2 and t^2 = |a|^2 - s^2 for every row and column.
    along = np.maximum(scores.astype(np.float64), 0.0) ** 2
    across = np.maximum(row_squares[:, None] - along, 0.0)
    # The group that the row joins: lambda_max of the 2 x 2 matrix above, minus sigma^2.
    c = np.sqrt(along) * np.sqrt(across)  # roots first: the product of the squares may overflow
    gain = _largest_eigenvalue(squares + along, across, c) - squares
    rows = np.arange(len(own))
    s, t = along[rows, own], across[rows, own]
    # The group that it leaves: sigma^2 - s^2 + s^2 t^2 / (sigma^2 - s^2), minus sigma^2.
    rest = squares[own] - s
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(rest > 0.0, s * (t / rest), 0.0) - s
    gain += left[:, None]
    gain[rows, own] = -np.inf
    return np.asarray(gain)


def _largest_eigenvalue(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Return the largest eigenvalues of the symmetric matrices [[a, c], [c, b]]."""
    return np.asarray((a + b) / 2.0 + np.hypot((a - b) / 2.0, c))
