"""The data of a problem as read by the verification of a certificate."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray

_EPS = float(np.finfo(np.float64).eps)
# Rounding error of a sum of n terms, as a multiple of sqrt(n) times the machine epsilon.
_ROUNDOFFS = 16.0
# Maximum number of entries of the rows of A that are held in memory at a time.
_SLICE = 1 << 19


class BrokenProofError(Exception):
    """Raised if a proof does not prove its bound."""


class Upper(NamedTuple):
    """Hold an upper bound on <M, XX'>, its share for rounding, and whether it is rigorous.

    ``excess`` is the distance of the confirmed eigenvalues to the computed ones.
    """

    total: float
    margin: float
    is_rigorous: bool = True
    excess: float = 0.0


def rounding_of(size: float, length: int) -> float:
    """Return a margin for the rounding error of a sum of this size and length."""
    return abs(size) * _ROUNDOFFS * _EPS * (2.0 + length**0.5)


class CheckedData:
    """Provide M of a problem in the unit of the proof, and values and bounds from <M, XX'>."""

    def __init__(self, problem: Problem, unit: float) -> None:
        form: Any = problem.trace_form()
        self.problem, self.form = problem, form
        self.n, self.k = problem.shape
        self.A = form.factor
        if self.A is not None and not self.A.has_entries:
            self.A = _Written(self.A)
        self.r = self.n if self.A is None else self.A.shape[1]
        self.unit, self.root = unit, unit**0.5

    def rows(self, work: Any, *vectors: Any) -> Any:
        """Sum ``work(rows of A in float64, slices of the vectors)`` over all rows."""
        if isinstance(self.A, _Written):
            return work(self.A.values / self.root, *vectors)
        parts = [self.A.scatter(vector) for vector in vectors]
        return self.A.reduce_rows(_sliced, *parts, args=(work, self.root, self.r + self.k**2))

    def dense(self) -> FloatArray:
        """Return M as an n x n array."""
        if self.A is None:
            M = np.asarray(self.form.matrix @ np.eye(self.n), dtype=np.float64) / self.unit
            return np.asarray((M + M.T) / 2)
        A = self.A.to_dense().astype(np.float64) / self.root
        return np.asarray(A @ A.T)

    def product(self, X: FloatArray) -> FloatArray:
        """Return MX."""
        if self.A is None:
            return np.asarray(self.form.matrix @ X / self.unit)
        A = self.A.entries().astype(np.float64)
        return np.asarray(A @ (A.T @ X) / self.unit)

    def value(self, labels: IntArray, weights: FloatArray) -> float:
        """Return f at the point with these labels and weights, after normalizing its columns."""
        X = np.zeros((self.n, self.k))
        inside = np.flatnonzero(labels >= 0)
        X[inside, labels[inside]] = np.maximum(weights[inside], 0.0)
        if self.form.has_row_sums:
            X = (X > 0).astype(np.float64)
        X /= np.linalg.norm(X, axis=0)
        if not self.form.is_exact:
            return self.problem.value(X)
        if self.A is None:
            trace = float(np.vdot(self.product(X), X))
        else:
            image = self.rows(cross_product, X)
            trace = float(np.vdot(image, image))
        return max(self.form.bound(trace * self.unit), self.form.least)

    def bound(self, upper: float, slack: float) -> float:
        """Return the lower bound on f from an upper bound on <M, XX'>."""
        return max(self.form.bound(upper * self.unit) - slack / 2, self.form.least)


class _Written:
    """Hold an operator as a dense array."""

    def __init__(self, data: Any) -> None:
        self.values = data.to_dense().astype(np.float64)
        self.shape = data.shape

    def to_dense(self) -> FloatArray:
        return self.values

    entries = to_dense

    def squared_norm(self) -> float:
        return float(np.vdot(self.values, self.values))


def _sliced(block: Any, *args: Any) -> Any:
    *pieces, work, root, width = args
    height = max(1, _SLICE // width)
    total: Any = None
    for start in range(0, block.shape[0], height):
        rows = slice(start, min(start + height, block.shape[0]))
        dense = block.rows(rows).to_dense().astype(np.float64) / root
        part = work(dense, *(piece[rows] for piece in pieces))
        total = part if total is None else total + part
    return total


def cross_product(A: FloatArray, X: FloatArray) -> FloatArray:
    """Return A'X of two arrays."""
    return np.asarray(A.T @ X)
