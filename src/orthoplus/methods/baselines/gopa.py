"""GOPA (Zhang et al. 2019): orthogonal NMF that moves the entry of one row at a time."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_positive, check_range
from orthoplus.core.outer_method import SeededMethod
from orthoplus.core.point import SupportPoint
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray, IntArray
from orthoplus.geometry.stiefel import assemble, fit_weights, keep_largest
from orthoplus.methods.factors import (
    ChangeStop,
    FactorState,
    data_of,
    factor_state,
    start_state,
    times,
    times_transposed,
)

# A row with more than this share of the squares of its column does not move: the others are
# rounding.
_SINGLE_ROW_SQUARE = 1.0 - 1e-12
# A gain below this share of the column's value counts as a tie, and the row does not move.
_TIE = 1e-12


@dataclass(frozen=True)
class GOPA(SeededMethod):
    r"""Solve orthogonal NMF by greedy pivoting: the best entry of each row in turn.

    .. math:: \max_{X \in S_+} \langle R, X \rangle, \quad R = AY, \qquad\text{then}\quad
              Y = A^\top X,

    which is :math:`\min \|A - XY^\top\|_F^2` in each block. For row i and a column j with
    :math:`a = \langle r_j, x_j \rangle` without the row and :math:`b = R_{ij} > 0`, the best value
    is :math:`b / \sqrt{a^2 + b^2}`, the rest of the column shrinks by :math:`a / \sqrt{a^2 + b^2}`,
    and the column then adds :math:`\sqrt{a^2 + b^2}`.

    Parameters
    ----------
    variant : {"plain", "batch", "randomized"}
        "plain" visits all rows one after another in random order; "batch" moves many rows at once,
        and makes only as many of the best moves as keep <R, X> from decreasing; "randomized" visits
        each row with probability ``share``.
    share : float
        Share of the rows that "randomized" visits per sweep, or that form a batch of "batch".
    start : {"random", "given"}
        Random assignment of the rows to columns with equal entries, or the given X, rounded.
    tol : float
        Relative change of X in a sweep at which to stop.
    max_iter : int
        Maximum number of sweeps.
    seed : int
        Seed of the start and of the order of the rows.

    Notes
    -----
    Zhang, Zhang, Liu, Wang and Zhang, *Greedy orthogonal pivoting algorithm for non-negative matrix
    factorization*, ICML 2019, PMLR 97. The moves, the update of Y once per sweep, the random start
    and the probability of a visit follow a public port of the authors' program. How their batch
    version selects rows, and their defaults for ``share`` and the number of sweeps, were not
    verified. X is in S+ at every step and the objective never increases. A column never loses its
    last row, and a row without a positive entry of R does not move. A sweep costs two products with
    A and O(nk).

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=GOPA(start="given")).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    state_type = FactorState
    ends_with_search = False  # baselines are compared without a search

    variant: str = "plain"
    share: float = 0.5
    start: str = "random"
    tol: float = 1e-5
    max_iter: int = 300
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.variant, "variant", ("plain", "batch", "randomized"))
        check_positive(self.share, "share")
        check_range(self.share, "share", low=0.0, high=1.0)
        check_choice(self.start, "start", ("random", "given"))
        check_range(self.tol, "tol", low=0.0)
        check_count(self.max_iter, "max_iter", low=1)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> FactorState:
        """Return the first point of S+ and Y = A'X."""
        n, k = problem.shape
        data_of(problem)
        X = keep_largest(X.astype(np.float64))
        if self.start == "random":
            rng = np.random.default_rng([self.seed, 0])
            # Every column gets at least one row.
            labels = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
            X = assemble(rng.permutation(labels), np.ones(n), k)
        return start_state(problem, X)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Move the rows for R = AY, then update Y."""
        R = times(problem, state.Y)
        rng = np.random.default_rng([self.seed, state.n_iter + 1])
        order = rng.permutation(len(R))
        if self.variant == "randomized":
            order = order[rng.random(len(R)) < self.share]
        point = SupportPoint.of(state.factor)
        if self.variant == "batch":
            size = max(1, round(self.share * len(R)))
            for first in range(0, len(R), size):
                point = move_batch(R, point, order[first : first + size])
        else:
            point = move_rows(R, point, order)
        X = assemble(point.labels, point.weights, point.k)
        Y = times_transposed(problem, X)
        return factor_state(problem, X, Y, before=state, products=Y)

    def stop(self) -> ChangeStop:
        """Return the stopping rule, based on the relative change of X."""
        return ChangeStop(self.tol, self.max_iter)


class _Columns(NamedTuple):
    """Hold, for each unnormalized column, the sum of squares and the inner product with R."""

    squares: FloatArray
    inner: FloatArray

    def norms(self) -> FloatArray:
        """Return a_j = <r_j, x_j> with unit columns."""
        return self.inner / np.sqrt(self.squares)


def _columns(R: FloatArray, point: SupportPoint) -> _Columns:
    rows = np.flatnonzero(point.labels >= 0)
    labels, weights = point.labels[rows], point.weights[rows]
    inner = np.bincount(labels, weights * R[rows, labels], minlength=point.k)
    return _Columns(point.column_squares(), inner.astype(np.float64, copy=False))


def move_rows(R: FloatArray, point: SupportPoint, order: IntArray) -> SupportPoint:
    """Give each row in turn its best position and value; <R, X> never decreases.

    Columns are not normalized in between, so that changing a row costs O(k) instead of O(n).
    """
    labels, weights = point.labels.copy(), point.weights.astype(np.float64)
    squares, inner = (part.copy() for part in _columns(R, point))
    for i in order:
        own, r = labels[i], R[i]
        a = inner / np.sqrt(squares)
        before = a.copy()
        if own >= 0:
            if weights[i] ** 2 > _SINGLE_ROW_SQUARE * squares[own]:
                continue
            squares_left = squares[own] - weights[i] ** 2
            inner_left = inner[own] - weights[i] * r[own]
            a[own] = inner_left / np.sqrt(squares_left)
        # Gain of each column if the row joins it: sqrt(a^2 + b^2) - a.
        gains = np.where((r > 0) & (a > 0), np.hypot(a, r) - a, -np.inf)
        j = int(gains.argmax())
        lost = before[own] - a[own] if own >= 0 else 0.0
        if not gains[j] > lost + _TIE * before[j]:
            continue
        if own >= 0:
            squares[own], inner[own] = squares_left, inner_left
        # In the normalized column the new entry over the rest is b / a; here the column has norm
        # sqrt(squares[j]), which gives squares[j] r_j / inner[j].
        labels[i], weights[i] = j, squares[j] * r[j] / inner[j]  # x / y = b / a
        inner[j] += weights[i] * r[j]
        squares[j] += weights[i] ** 2
    return SupportPoint(labels, weights, point.k)


def move_batch(R: FloatArray, point: SupportPoint, rows: IntArray) -> SupportPoint:
    """Move many rows at once, best first, such that <R, X> never decreases.

    The gains are those of single moves. If all moves together decrease <R, X>, the half with the
    smaller gains is dropped, repeatedly; a single move is rejected only because of rounding.
    """
    gains, columns = _single_gains(R, point, rows)
    moving = rows[gains > 0]
    order = np.argsort(-gains[gains > 0], kind="stable")
    moving, columns = moving[order], columns[gains > 0][order]
    before, count = float(_columns(R, point).norms().sum()), len(moving)
    while count:
        labels = point.labels.copy()
        labels[moving[:count]] = columns[:count]
        if (np.bincount(labels[labels >= 0], minlength=point.k) > 0).all():
            # On fixed supports the best columns are the normalized positive parts of R.
            entries = np.where(labels >= 0, R[np.arange(len(R)), labels], 0.0)
            new = SupportPoint(labels, fit_weights(labels, entries, point.k), point.k)
            if float(_columns(R, new).norms().sum()) >= before:
                return new
        count //= 2
    return point


def _single_gains(
    R: FloatArray, point: SupportPoint, rows: IntArray
) -> tuple[FloatArray, IntArray]:
    """Return the gain of the best single move of each row, and its target column."""
    squares, inner = _columns(R, point)
    own, weights, r = point.labels[rows], point.weights[rows], R[rows]
    # <r_j, x_j> of each column without the row, for all rows at once.
    a = np.tile(inner / np.sqrt(squares), (len(rows), 1))
    has = np.flatnonzero(own >= 0)
    left = squares[own[has]] - weights[has] ** 2
    is_alone = left <= (1.0 - _SINGLE_ROW_SQUARE) * squares[own[has]]
    rest = (inner[own[has]] - weights[has] * r[has, own[has]]) / np.sqrt(
        np.where(is_alone, 1.0, left)
    )
    lost = np.zeros(len(rows))
    lost[has] = a[has, own[has]] - rest
    a[has, own[has]] = rest
    gains = np.where((r > 0) & (a > 0), np.hypot(a, r) - a, -np.inf)
    best = gains.argmax(axis=1)
    gained = gains[np.arange(len(rows)), best] - lost
    gained[gained <= _TIE * float(inner.max() / np.sqrt(squares.min()))] = 0.0
    gained[has[is_alone]] = 0.0
    return gained, best
