"""Data in a SciPy LinearOperator, of which only products are available."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import diags_array
from scipy.sparse.linalg import aslinearoperator

from orthoplus.core.errors import InputTypeError
from orthoplus.core.point import spread
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.data.memory import BLOCK_SIZE, MemoryMatrix


class Operator(MemoryMatrix):
    """A matrix that is only available through the products AY and A'X."""

    has_entries: ClassVar[bool] = False

    def __init__(self, values: Any) -> None:
        self.values = values
        self.shape = (values.shape[0], values.shape[1])
        self.dtype = np.dtype(values.dtype)

    def matmul(self, Y: FloatArray) -> FloatArray:
        """Return AY by the ``matmat`` of the operator."""
        return np.asarray(self.values @ Y.astype(self.dtype, copy=False))

    def rmatmul(self, X: FloatArray) -> FloatArray:
        """Return A'X by the ``rmatmat`` of the operator."""
        return np.asarray(self.values.T @ X.astype(self.dtype, copy=False))

    def gram(self) -> FloatArray:
        """Return A'A in float64 as A'(AI), r products each way."""
        return self.normal_product(np.eye(self.shape[1]))

    def short_gram(self) -> FloatArray:
        """Return A'A or AA', whichever is smaller, from products with unit vectors."""
        return self._gram_by_products()

    def least_and_largest(self) -> tuple[int, float, float]:
        """Return zeros: an operator does not reveal its entries."""
        return 0, 0.0, 0.0  # sign and finiteness cannot be checked

    def group_sums(self, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
        """Return (A'X)' for the dense n x k matrix X of these labels and weights."""
        X = spread(labels, weights.astype(np.float64, copy=False), k)
        return self.rmatmul(X).T.astype(np.float64)

    def group_dots(self, labels: IntArray, W: FloatArray) -> FloatArray:
        """Return the entry of AW' in the column of each row's label."""
        dots = self.matmul(W.T)[np.arange(len(labels)), labels].astype(np.float64)
        return np.where(labels >= 0, dots, 0.0)

    def take_rows(self, rows: IntArray) -> FloatArray:
        """Return these rows as A'E for unit vectors E."""
        return self.rmatmul(_unit_columns(self.shape[0], rows)).T

    def zero_rows(self, rows: IntArray) -> BoolArray:
        """Return which of these rows are zero, from one product."""
        return np.asarray(self.probe_rows()[rows] == 0)

    def to_dense(self) -> FloatArray:
        """Return all entries, by products with the shorter identity matrix."""
        short = min(self.shape)
        whole = _unit_columns(short, np.arange(short))
        is_tall = self.shape[0] >= self.shape[1]
        return self.matmul(whole) if is_tall else self.rmatmul(whole).T

    def entries(self) -> Any:
        """Raise an error that suggests a dense or sparse matrix or another method."""
        raise InputTypeError(
            "This method needs the entries of A, but a LinearOperator only has products. Pass a "
            "dense or sparse matrix, or choose another method."
        )

    def as_operator(self) -> Any:
        """Return the operator itself."""
        return self.values

    @property
    def T(self) -> "Operator":
        """Return the transposed operator."""
        return Operator(self.values.T)

    def scaled_rows(self, factors: FloatArray) -> "Operator":
        """Return the product of diag(factors) and the operator, not evaluated."""
        return Operator(aslinearoperator(diags_array(factors)) @ self.values)

    def scaled_columns(self, factors: FloatArray) -> "Operator":
        """Return the product of the operator and diag(factors), not evaluated."""
        return Operator(self.values @ aslinearoperator(diags_array(factors)))

    def ranges(self, width: int) -> list[slice]:
        """Return one range with all rows: an operator cannot be sliced."""
        return [slice(0, self.shape[0])]

    def _slice(self, rows: Any) -> "Operator":
        raise self.entries()

    def sample_rows(self, rows: IntArray) -> "Operator":
        """Return the whole operator."""
        return self  # rows of an operator cannot be selected

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield blocks of columns, or of rows if there are fewer rows, in float64."""
        # Multiply unit vectors on the shorter side: min(n, r) products in total.
        long, short = max(self.shape), min(self.shape)
        width = max(1, BLOCK_SIZE // long)
        for start in range(0, short, width):
            piece = np.arange(start, min(start + width, short))
            unit = _unit_columns(short, piece)
            if self.shape[0] > self.shape[1]:
                yield slice(None), self.matmul(unit).astype(np.float64)
            else:
                rows = slice(start, start + len(piece))
                yield rows, self.rmatmul(unit).T.astype(np.float64)


def _unit_columns(n: int, which: IntArray) -> FloatArray:
    unit = np.zeros((n, len(which)))
    unit[which, np.arange(len(which))] = 1.0
    return unit
