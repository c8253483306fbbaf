"""A point of OB+ that is as large as the data: its rows lie beside theirs, in blocks."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import MemoryMatrix, Work
from orthoplus.data.dense import Dense
from orthoplus.data.stored import BlockedMatrix, Derived
from orthoplus.kernels.reference.oblique import SQUARES_MAX, SQUARES_MIN


@dataclass(frozen=True, eq=False)
class BlockMatrix:
    r"""X of OB+ with a row for each row of U, and the sums over its rows that a method asks for.

    Attributes
    ----------
    rows : BlockedMatrix
        U, of shape (n, r).
    pieces : object
        A vector of the blocks: the rows of X before its k columns are multiplied by ``scale``.
    scale : ndarray of shape (k,)
    energy : float
        :math:`\|XV\|_F^2` for V = e / sqrt(k).
    cross : ndarray of shape (r, k)
        U'X in float64.

    Notes
    -----
    A point is never changed. In a step from one to the next the blocks of U are read twice, and
    only k numbers and U'X leave them; two such points are alive, n x k numbers each.

    Examples
    --------
    >>> from orthoplus.data.stored import Stored
    >>> X = BlockMatrix.nearest(Stored(np.array([[3.0, -2.0], [4.0, -1.0]]), 128))
    >>> X.pieces * X.scale
    array([[0.6, 0. ],
           [0.8, 1. ]])
    >>> round(X.energy, 12)
    1.8
    """

    rows: BlockedMatrix
    pieces: Any
    scale: FloatArray
    energy: float
    cross: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.scale)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.rows.dtype

    @classmethod
    def nearest(cls, rows: BlockedMatrix) -> "BlockMatrix":
        """The projection of U onto OB+: that of `project_oblique_plus`, block by block."""
        pieces, scale = _project(rows, _entries)
        energy, cross = rows.reduce_rows(_measure, pieces, args=(scale,))
        return cls(rows, pieces, scale, energy, cross)

    def stepped(
        self, M: FloatArray, weight: float, alpha: float
    ) -> tuple["BlockMatrix", tuple[float, ...]]:
        """The projection onto OB+ of X - alpha (UM + weight rowmean(X)).

        And the four sums of `kernels.normalise_step_into` for the step from X to there.
        """
        rows, args = self.rows, (self.scale, M, weight, alpha)
        pieces = rows.map_rows(_gradient_step, self.pieces, args=args)
        squares = rows.reduce_rows(_squares, pieces, vectors_only=True)
        scale = 1.0 / np.sqrt(np.clip(squares, SQUARES_MIN, SQUARES_MAX))
        if squares.min() < SQUARES_MIN or squares.max() > SQUARES_MAX:
            pieces, scale = _project(rows, _gradient_point, self.pieces, args=args)
        found = rows.reduce_rows(_compare, pieces, self.pieces, args=(scale, self.scale))
        sums, cross = found[:-1], found[-1]
        return BlockMatrix(rows, pieces, scale, sums[1], cross), sums

    def largest_entries(self) -> tuple[Any, Any]:
        """The column of each row's largest entry and the entry, two vectors of the blocks."""
        return self.rows.map_rows(_largest, self.pieces, args=(self.scale,), n_vectors=2)

    def as_data(self) -> Derived:
        """Return X itself, in the blocks of U."""
        return self.rows.derive(_point, self.pieces, args=(self.scale,), width=self.shape[1])


def _scaled(piece: FloatArray, scale: FloatArray) -> FloatArray:
    return (piece * scale).astype(piece.dtype)


def _entries(U: MemoryMatrix) -> FloatArray:
    return U.to_dense()


def _point(U: MemoryMatrix, piece: FloatArray, scale: FloatArray) -> Dense:
    return Dense(_scaled(piece, scale))


def _gradient_step(
    U: MemoryMatrix,
    piece: FloatArray,
    scale: FloatArray,
    M: FloatArray,
    weight: float,
    alpha: float,
) -> FloatArray:
    X = _scaled(piece, scale)
    out = np.empty_like(X)
    kernels.gradient_step_into(X, U.matmul(M), weight, alpha, out)
    return out


def _gradient_point(
    U: MemoryMatrix,
    piece: FloatArray,
    scale: FloatArray,
    M: FloatArray,
    weight: float,
    alpha: float,
) -> FloatArray:
    """In float64, and not clamped at zero."""
    X = _scaled(piece, scale).astype(np.float64)
    return X - alpha * (U.matmul(M) + weight * X.mean(axis=1, keepdims=True))


def _squares(piece: FloatArray) -> FloatArray:
    return kernels.column_dots(piece, piece)


def _measure(U: MemoryMatrix, piece: FloatArray, scale: FloatArray) -> tuple[float, FloatArray]:
    X = _scaled(piece, scale)
    return kernels.row_energy(X), _cross(U, X)


def _cross(U: MemoryMatrix, X: FloatArray) -> FloatArray:
    return U.rmatmul(X).astype(np.float64, copy=False)


def _compare(
    U: MemoryMatrix,
    piece: FloatArray,
    before: FloatArray,
    scale: FloatArray,
    scale_before: FloatArray,
) -> tuple[Any, ...]:
    new = piece.copy()  # others may look at the piece
    sums = kernels.normalise_step_into(new, scale, _scaled(before, scale_before))
    return *sums, _cross(U, new)


def _largest(U: MemoryMatrix, piece: FloatArray, scale: FloatArray) -> tuple[IntArray, FloatArray]:
    return kernels.largest_entries(_scaled(piece, scale))


# --- onto OB+, whatever the size of the entries ---------------------------------------------------


def _project(
    rows: BlockedMatrix, point: Work, *vectors: Any, args: tuple[Any, ...] = ()
) -> tuple[Any, FloatArray]:
    """Pieces and scale of the projection of the matrix with the blocks ``point(U, ...)``.

    Columns are divided by their largest entry first; one that has no positive entry becomes a unit
    vector, at the first of its largest.
    """
    numbers = rows.row_indices()
    top, at = rows.reduce_rows(_tops, *vectors, numbers, args=(point, args), combine=_higher)
    pieces = rows.map_rows(_under_tops, *vectors, numbers, args=(point, args, top, at))
    return pieces, 1.0 / np.sqrt(rows.reduce_rows(_squares, pieces, vectors_only=True))


def _tops(U: MemoryMatrix, *rest: Any) -> tuple[FloatArray, IntArray]:
    """Of each column: its largest entry, and the number of the first row that has it."""
    *vectors, numbers, point, args = rest
    C = point(U, *vectors, *args)
    if len(C) == 0:
        return np.full(C.shape[1], -np.inf), np.zeros(C.shape[1], dtype=np.int64)
    return C.max(axis=0).astype(np.float64), numbers[C.argmax(axis=0)]


def _higher(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[FloatArray, IntArray]:
    is_higher = other[0] > one[0]
    return np.where(is_higher, other[0], one[0]), np.where(is_higher, other[1], one[1])


def _under_tops(U: MemoryMatrix, *rest: Any) -> FloatArray:
    *vectors, numbers, point, args, top, at = rest
    X = np.maximum(point(U, *vectors, *args), 0.0) / np.where(top > 0, top, 1.0)
    if len(X):
        inside = np.flatnonzero((top <= 0) & (at >= numbers[0]) & (at <= numbers[-1]))
        X[at[inside] - numbers[0], inside] = 1.0
    return X.astype(U.dtype, copy=False)
