"""Candidates for a search over supports: single-row moves, exchanges, projections and kicks."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from orthoplus.core.problem import Problem
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.geometry.stiefel import cover_columns, order_of_appearance
from orthoplus.linalg.row_gains import linear_gains
from orthoplus.methods.search.support_descent import SupportPoint
from orthoplus.projection import project_stiefel_plus

# The model of a plain f at a point X of S+ is f(Z) <= f(X) + <G, Z - X> + L/2 ||Z - X||^2, with L
# at least this multiple of the size of the gradient per column.
_CURVATURE = 1.0
# Curvatures tried for the projection of a gradient step, in the same unit; 0 suits a concave f.
_STEP_CURVATURES = (0.0, 0.1, 1.0, 10.0)
# The projection of a step need not be accurate.
_PROJECTION_TOL, _PROJECTION_PASSES = 1e-8, 12
# Up to this many moves are sorted individually.
_ALL_MOVES = 1 << 16
# Rows per column that are considered for moves that share no column.
_DISJOINT_ROWS = 20
# Rows per pair of columns that are considered for exchanges.
_EXCHANGED_ROWS = 4


class Scores:
    """Score all moves of single rows at a point; every score is computed when it is needed."""

    def __init__(self, problem: Problem, point: SupportPoint) -> None:
        self.problem: Problem = problem
        self.point: SupportPoint = point
        self.X = point.dense(problem.shape[1])
        self.gradient: FloatArray | None = None

    @cached_property
    def _own_gains(self) -> FloatArray | None:
        return self.problem.move_gains(self.X)

    @property
    def is_exact(self) -> bool:
        """Whether the gain of a move that keeps the other rows in proportion equals its score."""
        return self.problem.has_exact_gains and self._own_gains is not None

    @cached_property
    def gains(self) -> FloatArray:
        """Gain of each move, an (n, k + 1) matrix as in `orthoplus.linalg.row_gains`."""
        if self._own_gains is not None:
            return self._own_gains
        return linear_gains(self.point.labels, self.point.weights, self._model(_CURVATURE))

    def _model(self, curvature: float) -> FloatArray:
        """Return L X - grad f(X), whose projection onto S+ minimizes the quadratic model."""
        if self.gradient is None:
            self.gradient = self.problem.value_and_gradient(self.X)[1]
        # The size of the gradient per column is the unit of the curvature L.
        size = float(np.linalg.norm(self.gradient)) / float(np.sqrt(self.X.shape[1]))
        return np.asarray(curvature * size * self.X - self.gradient)

    def projections(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield projections of gradient steps onto S+, which may move many rows at once."""
        own = self.problem.majorizer(self.X)
        models = (self._model(L) for L in _STEP_CURVATURES) if own is None else iter((own,))
        for C in models:
            # The point of S+ closest to C minimizes the model; skip it if it keeps all labels.
            labels, limits = self.point.labels, (_PROJECTION_TOL, _PROJECTION_PASSES)
            found = project_stiefel_plus(C, tol=limits[0], max_passes=limits[1], start=labels)
            if not np.array_equal(found.labels, labels):
                yield found.labels, found.weights.astype(self.X.dtype)

    @cached_property
    def _own_bounds(self) -> FloatArray | None:
        return self.problem.move_gain_bounds(self.X)

    @cached_property
    def bounds(self) -> FloatArray:
        """Upper bounds on the gains; infinite for a possible move if the problem provides none."""
        if self._own_bounds is not None:
            return self._own_bounds
        return np.where(np.isfinite(self.gains), np.inf, -np.inf)

    def exclude_all(self, least: float) -> bool:
        """Return whether the bounds prove that no row can move alone and gain over ``least``.

        A row that is alone in its column has no bound: exchanges might still move it.
        """
        bounds = self._own_bounds
        return bounds is not None and not (
            (bounds > least).any() or np.isneginf(bounds).all(axis=1).any()
        )

    @cached_property
    def is_alone(self) -> BoolArray:
        """Whether each row is the only one in its column, so that it cannot move by itself."""
        return np.asarray(np.isinf(self.gains).all(axis=1))

    def single_moves(self, least: float) -> tuple[IntArray, bool]:
        """Return moves that may gain more than ``least``, best first, and whether these are all.

        Moves are pairs (row, column), where column k stands for a zero row. If there are very many,
        only the best one per row is returned.
        """
        # Moves are ranked by their estimated gain but excluded only by the proven bound.
        possible = np.flatnonzero((self.bounds > least).ravel())
        if len(possible) > _ALL_MOVES:
            best = self.all_moves(-np.inf)
            order = np.argsort(-self.gains[best[:, 0], best[:, 1]], kind="stable")
            return best[order], False
        order = possible[np.argsort(-self.gains.ravel()[possible], kind="stable")]
        return np.stack(np.divmod(order, self.gains.shape[1]), axis=1), True

    def all_moves(self, least: float) -> IntArray:
        """Return the best move of each row that gains more than ``least`` by itself."""
        best = self.gains.argmax(axis=1)
        rows = np.flatnonzero(self.gains[np.arange(len(best)), best] > least)
        return np.stack([rows, best[rows]], axis=1)

    def disjoint_moves(self, least: float) -> IntArray:
        """Return moves that gain more than ``least`` such that no column occurs in two of them."""
        labels, k = self.point.labels, self.gains.shape[1] - 1
        best = self.gains.argmax(axis=1)
        top = self.gains[np.arange(len(best)), best]
        is_used, kept = np.zeros(k + 1, dtype=bool), []
        rows = np.flatnonzero(top > least)
        for row in rows[np.argsort(-top[rows], kind="stable")[: _DISJOINT_ROWS * k]]:
            # Greedy: take the best move whose source and target columns are both unused.
            columns = [c for c in (int(labels[row]), int(best[row])) if 0 <= c < k]
            if not is_used[columns].any():
                is_used[columns] = True
                kept.append((row, best[row]))
        return np.array(kept, dtype=np.int64).reshape(-1, 2)

    def exchanges(self, most: int) -> IntArray:
        """Return pairs of rows in different columns that may be exchanged, best first.

        A zero row may be exchanged with any other row. The score of a pair is the sum of the gains
        of both moves. A pair is omitted if the bounds of both moves add up to a loss.
        """
        labels = np.where(self.point.labels < 0, self.gains.shape[1] - 1, self.point.labels)
        gains = self.gains
        alone = self.is_alone
        is_small = len(labels) <= 4 * most
        # All pairs for few rows, otherwise only pairs of rows that lose least by moving.
        rows = np.arange(len(labels)) if is_small else self._rows_near_border(labels)
        a, b = np.triu_indices(len(rows), 1)
        i, j = rows[a], rows[b]
        apart = np.flatnonzero(labels[i] != labels[j])
        i, j = i[apart], j[apart]
        # A row that is alone in its column cannot move by itself: rank the pair by its partner.
        score = np.where(alone[i], 0.0, gains[i, labels[j]])
        score = score + np.where(alone[j], 0.0, gains[j, labels[i]])
        order = np.argsort(-score, kind="stable")[:most]
        i, j = i[order], j[order]
        # Drop pairs whose upper bounds sum to a loss; rows that are alone have no bounds.
        is_open = self.bounds[i, labels[j]] > -self.bounds[j, labels[i]]
        order = np.flatnonzero(is_open | alone[i] | alone[j])
        return np.stack([i[order], j[order]], axis=1)

    def _rows_near_border(self, labels: IntArray) -> IntArray:
        """Return, for each pair of columns, the rows that lose least by moving."""
        k = self.gains.shape[1] - 1
        chosen = []
        for own in range(k + 1):
            rows = np.flatnonzero(labels == own)
            if len(rows):
                order = np.argsort(-self.gains[rows], axis=0, kind="stable")[:_EXCHANGED_ROWS]
                chosen.append(rows[order].ravel())
        return np.unique(np.concatenate(chosen))


def moved(point: SupportPoint, moves: IntArray, k: int) -> tuple[IntArray, FloatArray] | None:
    """Return labels and weights after these moves (row, column); None if a column is empty.

    A moved row gets the average weight of a row in its new column.
    """
    labels, weights = point.labels.copy(), point.weights.copy()
    labels[moves[:, 0]] = np.where(moves[:, 1] < k, moves[:, 1], -1)
    if not cover_columns(labels, k):
        return None
    # The mean weight in a unit column with m rows is about 1 / sqrt(m).
    counts = np.bincount(labels[labels >= 0], minlength=k)
    arrived = labels[moves[:, 0]]
    weights[moves[:, 0]] = np.where(arrived >= 0, 1.0 / np.sqrt(counts[arrived]), 0.0)
    return labels, weights


def exchanged(point: SupportPoint, pair: IntArray, k: int) -> tuple[IntArray, FloatArray]:
    """Return labels and weights after exchanging two rows."""
    labels, weights = point.labels.copy(), point.weights.copy()
    labels[pair], weights[pair] = labels[pair[::-1]], weights[pair[::-1]]
    return labels, weights


# Kinds of kicks and their order: reassigning all rows costs twice as much and gains less.
_ROWS, _COLUMN, _DEAL = range(3)
_TURNS = (_ROWS, _COLUMN, _ROWS, _COLUMN, _DEAL)


def kicked(
    point: SupportPoint, gains: FloatArray, rng: np.random.Generator, turn: int
) -> tuple[IntArray, FloatArray]:
    """Return a perturbed point: random rows reassigned, a column restarted, or all rows reassigned.

    Every column keeps at least one row, and the kinds take turns. Reassigning a few rows repairs a
    nearly correct point. Restarting a column sends its rows to their next best columns by ``gains``
    and gives it one row from elsewhere, which can split a merged cluster. Reassigning all rows
    starts over.
    """
    k = gains.shape[1] - 1
    # Sort rows and columns canonically, so that the random numbers do not depend on their order.
    rows_in_order = np.lexsort(np.sort(gains, axis=1).T)
    columns = order_of_appearance(point.labels[rows_in_order], k)
    numbers = np.append(np.argsort(columns), -1)  # the last entry stands for no column
    # Rows and columns in canonical order; the last column stands for zero.
    ordered_gains = gains[rows_in_order][:, [*columns, k]]
    labels = np.empty_like(point.labels)
    kind = _TURNS[turn % len(_TURNS)]
    ordered_labels = numbers[point.labels[rows_in_order]]
    labels[rows_in_order] = _kicked_labels(ordered_labels, ordered_gains, rng, kind)
    return np.append(columns, -1)[labels], np.ones(len(labels), dtype=point.weights.dtype)


def _kicked_labels(
    labels: IntArray, gains: FloatArray, rng: np.random.Generator, kind: int
) -> IntArray:
    before, n, k = labels, len(labels), gains.shape[1] - 1
    labels = labels.copy()
    if kind == _ROWS or k == 1:
        # Between 2 and a quarter of the rows get random columns.
        rows = rng.permutation(n)[: rng.integers(2, max(3, n // 4) + 1)]
        labels[rows] = rng.integers(k, size=len(rows))
    elif kind == _COLUMN:
        gone = rng.integers(k)
        others = np.delete(np.arange(k), gone)
        rows = np.flatnonzero(labels == gone)
        # The rows of the removed column go to their next best columns.
        labels[rows] = others[gains[np.ix_(rows, others)].argmax(axis=1)]
        # The column restarts from a single random row of another column.
        labels[rng.choice(np.flatnonzero(before != gone))] = gone
    else:
        labels = rng.integers(k, size=n)
    _fill_empty(labels, k, rng)
    return labels


def _fill_empty(labels: IntArray, k: int, rng: np.random.Generator) -> None:
    """Give each empty column a random row from a column with several rows, in place."""
    for column in range(k):
        if (labels == column).any():
            continue
        # Index 0 counts the rows without a column.
        counts = np.bincount(labels + 1, minlength=k + 1)
        counts[0] = n = len(labels) + 1  # zero rows can always be moved
        spare = np.flatnonzero(counts[labels + 1] > 1) if n > 1 else np.arange(len(labels))
        labels[rng.choice(spare)] = column
