"""The data of a problem as the check of a certificate reads them."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray

_EPS = float(np.finfo(np.float64).eps)
# Rounding of sums of n terms, as a multiple of the root of n and the unit roundoff.
_ROUNDOFFS = 16.0
# Entries of the rows of A that are in memory at a time.
_SLICE = 1 << 19


class BrokenProofError(Exception):
    """Report a proof that proves nothing."""


class Upper(NamedTuple):
    """An upper bound of <M, XX'>, how much of it is for rounding, and whether it is rigorous."""

    total: float
    margin: float
    is_rigorous: bool = True


def rounding_of(size: float, length: int) -> float:
    return abs(size) * _ROUNDOFFS * _EPS * (2.0 + length**0.5)


class CheckedData:
    """M of a problem in the unit of the proof, and what follows from <M, XX'>."""

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
        """Return the sum of ``work(rows of A in float64, pieces of the vectors)``."""
        if isinstance(self.A, _Written):
            return work(self.A.values / self.root, *vectors)
        parts = [self.A.scatter(vector) for vector in vectors]
        return self.A.reduce_rows(_sliced, *parts, args=(work, self.root, self.r + self.k**2))

    def dense(self) -> FloatArray:
        if self.A is None:
            M = np.asarray(self.form.matrix @ np.eye(self.n), dtype=np.float64) / self.unit
            return np.asarray((M + M.T) / 2)
        A = self.A.to_dense().astype(np.float64) / self.root
        return np.asarray(A @ A.T)

    def product(self, X: FloatArray) -> FloatArray:
        if self.A is None:
            return np.asarray(self.form.matrix @ X / self.unit)
        A = self.A.entries().astype(np.float64)
        return np.asarray(A @ (A.T @ X) / self.unit)

    def value(self, labels: IntArray, weights: FloatArray) -> float:
        """Return f at the point with these labels and weights, columns normalized."""
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
        return max(self.form.bound(upper * self.unit) - slack / 2, self.form.least)


class _Written:
    """An operator, written out."""

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
    return np.asarray(A.T @ X)
