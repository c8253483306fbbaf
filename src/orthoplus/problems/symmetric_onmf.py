"""Orthogonal symmetric nonnegative matrix factorization, section 1.1."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from orthoplus.core.bounds import rounding_margin
from orthoplus.core.checks import check_shape
from orthoplus.core.problem import Problem
from orthoplus.core.trace_form import TraceForm
from orthoplus.core.types import FloatArray, Linear
from orthoplus.data.symmetric import SymmetricMap, as_symmetric_entries, entry_squares
from orthoplus.linalg.row_gains import entries_of, trace_gains
from orthoplus.linalg.starts import eigenvector_starts
from orthoplus.linalg.symmetric import bottom_of_blocks, sum_of_smallest


@dataclass(frozen=True, eq=False)
class SymmetricONMF(Problem):
    r"""min :math:`\|M - XX^\top\|_F^2` over S+: approximate similarities by disjoint clusters.

    Over S+ the objective is :math:`\|M\|_F^2 - 2\,\mathrm{tr}(X^\top M X) + k`; outside S+, where
    the iterates of the penalty method are, it is the quartic function.

    Parameters
    ----------
    M : array or SciPy sparse matrix of shape (n, n)
        Symmetric matrix with entries of any sign, used through products. XX' is never formed, and
        sparse matrices stay sparse.
    k : int
        Number of columns of X.

    Notes
    -----
    This is the symmetric NMF of Kuang, Ding and Park, SDM 2012, with orthonormal columns. The
    clusters depend neither on the scale of M nor on a constant added to its diagonal.
    A product costs O(nnz(M) k).

    Examples
    --------
    >>> M = np.kron(np.eye(2), np.full((2, 2), 0.5))
    >>> X = np.kron(np.eye(2), np.ones((2, 1))) / np.sqrt(2)
    >>> abs(round(SymmetricONMF(M, 2).value(X), 12))
    0.0
    """

    has_exact_gains: ClassVar[bool] = True
    is_column_symmetric: ClassVar[bool] = True

    M: Any
    k: int

    def __post_init__(self) -> None:
        M = as_symmetric_entries(self.M, "M", instead="TraceMin(-M, k)")
        check_shape(M.shape[0], self.k, "X")
        object.__setattr__(self, "k", int(self.k))  # NumPy integers overflow
        object.__setattr__(self, "M", M)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, k) for an n x n similarity M."""
        return self.M.shape[0], self.k

    @cached_property
    def total(self) -> float:
        """Return ||M||_F^2."""
        return entry_squares(self.M)

    @cached_property
    def _negated(self) -> SymmetricMap:
        return -SymmetricMap(self.M)

    def value(self, X: FloatArray) -> float:
        """Return ||M - XX'||_F^2 by expanding the square."""
        # ||M - XX'||^2 = ||M||^2 - 2 <MX, X> + ||X'X||^2: XX' is not formed.
        gram = X.T @ X
        return self.total - 2.0 * float(np.vdot(self.M @ X, X)) + float(np.vdot(gram, gram))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return f and 4 (XX'X - MX)."""
        product, gram = self.M @ X, X.T @ X
        value = self.total - 2.0 * float(np.vdot(product, X)) + float(np.vdot(gram, gram))
        return value, np.asarray(4.0 * (X @ gram - product))

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return f''(X)[D]; use `hessian` for several products at one X."""
        return self.hessian(X)(D)

    def hessian(self, X: FloatArray) -> Linear:
        """Return D -> 4 (DX'X + XD'X + XX'D - MD), with X'X computed once."""
        gram = X.T @ X

        def product(D: FloatArray) -> FloatArray:
            cross = D.T @ X
            return np.asarray(4.0 * (D @ gram + X @ (cross + cross.T) - self.M @ D))

        return product

    @property
    def value_lipschitz(self) -> float:
        """Return 4 sqrt(k) (||M|| + k), a bound on the gradient 4 X(X'X) - 4 MX over OB+."""
        return float(4.0 * self.k**0.5 * (self._negated.norm + self.k))

    def refine(self, X: FloatArray) -> FloatArray | None:
        """Return the dominant eigenvectors of the blocks, section 4 (ii); None for mixed signs."""
        return bottom_of_blocks(self._negated, X)

    def majorizer(self, X: FloatArray) -> FloatArray:
        """Return MX + s X, s the largest eigenvalue of -M; f decreases with <(M + sI) X, X>."""
        return np.asarray(self.M @ X + self._negated.largest * X)

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Return the first of `starts`."""
        return next(self.starts(rng))

    def starts(self, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield starts from the leading eigenvectors of M, see `eigenvector_starts`."""
        return eigenvector_starts(self._negated, self.k, rng)

    def move_gains(self, X: FloatArray) -> FloatArray | None:
        """Return the gains for -2 tr(X'MX), or None if the diagonal of M is unknown."""
        diagonal = self._negated.diagonal
        return (
            None if diagonal is None else 2.0 * trace_gains(*entries_of(X), -(self.M @ X), diagonal)
        )

    def lower_bound(self) -> float:
        r"""Return ||M||^2 + k - 2 (sum of the k largest eigenvalues), minus a margin for rounding.

        It is the minimum over all orthonormal X; see `orthoplus.linalg.spectral_sum`.
        """
        least = sum_of_smallest(self._negated, self.k).lower
        return max(self.total + self.k + 2.0 * least - 0.5 * self.rounding(), 0.0)

    def trace_form(self) -> TraceForm:
        """Return ||M||^2 + k - 2 <M, XX'>."""
        size = self.total + self.k * (1.0 + 2.0 * self._negated.norm)
        constant = self.total + self.k
        return TraceForm(
            self.k, lambda v: constant - 2.0 * v, size, least=0.0, matrix=SymmetricMap(self.M)
        )

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float:
        """Return twice the rounding margin of ||M||^2 + k (1 + 2 ||M||_2)."""
        size = self.total + self.k * (1.0 + 2.0 * self._negated.norm)
        return 2.0 * rounding_margin(size, self.shape[0], self.M.dtype, dtype)
