"""Points of S+, stored as one label and one weight per row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray, IntArray

# A function that returns a point of S+ for a matrix that Procedure 1 cannot round.
Fallback = Callable[[FloatArray], "SupportPoint"]


@dataclass(frozen=True, eq=False)
class SupportPoint:
    r"""The n x k matrix with ``weights[i]`` in column ``labels[i]`` of row i, zeros elsewhere.

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
        The column of each row's positive entry, -1 for a row of zeros.
    weights : ndarray of shape (n,)
        The positive entry of each row, 0 for a row of zeros.
    k : int
        Number of columns.

    Examples
    --------
    >>> point = SupportPoint(np.array([0, 0, -1, 1]), np.array([3.0, 4.0, 0.0, 2.0]), 2)
    >>> point.normalized().dense()
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 0. ],
           [0. , 1. ]])
    """

    labels: Any
    weights: Any
    k: int

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape (n, k) of the matrix."""
        return len(self.labels), self.k

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the dtype of the weights."""
        return np.dtype(self.weights.dtype)

    def dense(self) -> FloatArray:
        """Return the point as a dense n x k matrix."""
        return spread(self.labels, self.weights, self.k)

    def column_squares(self) -> FloatArray:
        """Return the squared norm of each column, in float64."""
        return sum_squares(self.labels, self.weights, self.k)

    def counts(self) -> IntArray:
        """Return the number of rows assigned to each column."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.k)

    def normalized(self) -> "SupportPoint":
        """Return the point with unit columns; a column without a positive entry stays zero."""
        squares = self.column_squares()
        scale = np.append(np.where(squares > 0, squares, 1.0), 1.0) ** -0.5
        weights = (self.weights * scale[self.labels]).astype(self.dtype, copy=False)
        return SupportPoint(self.labels, weights, self.k)

    def renumbered(self, order: IntArray) -> "SupportPoint":
        """Return the point with its columns in this order."""
        return SupportPoint(column_ranks(order)[self.labels], self.weights, self.k)

    def assigned(self) -> int:
        """Return the number of rows with a positive entry."""
        return int((self.labels >= 0).sum())

    @staticmethod
    def of(X: FloatArray) -> "SupportPoint":
        """Keep the largest entry of each row of X; for X in S+ this is X itself."""
        labels, weights = kernels.largest_entries(X)
        return SupportPoint(labels, weights, X.shape[1])


def spread(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Return the n x k matrix with one entry per row; zeros in a row with label -1.

    Examples
    --------
    >>> spread(np.array([1, -1]), np.array([2.0, 3.0]), 2)
    array([[0., 2.],
           [0., 0.]])
    """
    X = np.zeros((len(labels), k), dtype=weights.dtype)
    rows = np.flatnonzero(labels >= 0)
    X[rows, labels[rows]] = weights[rows]
    return X


def sum_squares(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Return the squared norm of each column, in float64.

    Examples
    --------
    >>> sum_squares(np.array([1, -1, 1]), np.array([3.0, 9.0, 4.0]), 2)
    array([ 0., 25.])
    """
    # Rows without a label are summed apart, so that no index array is needed.
    entries = weights.astype(np.float64)
    entries *= entries
    squares = np.bincount(labels + 1, entries, minlength=k + 1)
    return np.asarray(squares[1:], dtype=np.float64)


def column_ranks(order: IntArray) -> IntArray:
    """Return an array that maps each old column number to its new one, and -1 to -1."""
    ranks = np.empty(len(order) + 1, dtype=np.int64)
    ranks[order], ranks[-1] = np.arange(len(order)), -1
    return ranks
