"""Trace minimisation over S+, eq. (1.2)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, eigsh

from orthoplus.checks import as_matrix, check_finite, check_shape
from orthoplus.protocols import FloatArray, Problem


@dataclass(frozen=True, eq=False)
class TraceMin(Problem):
    r"""min :math:`\mathrm{tr}(X^\top M X)` over S+, eq. (1.2); M symmetric, indefinite allowed.

    Parameters
    ----------
    M : array or SciPy sparse matrix of shape (n, n)
    k : int
        Number of columns of X.

    Examples
    --------
    >>> problem = TraceMin(np.diag([3.0, 1.0, 2.0]), 2)
    >>> problem.value(np.eye(3, 2)), round(problem.lower_bound(), 12)
    (4.0, 3.0)
    """

    M: Any
    k: int

    def __post_init__(self) -> None:
        if issparse(self.M):
            M = self.M.tocsr().astype(np.float64)
            check_finite(M.data, "M")
        else:
            M = as_matrix(self.M, "M")
        if M.shape[0] != M.shape[1]:
            raise ValueError(f"`M` has shape {M.shape}: a square matrix is needed.")
        if abs(M - M.T).max() > 1e-10 * max(1.0, abs(M).max()):
            raise ValueError("`M` is not symmetric. Pass (M + M.T) / 2: it has the same traces.")
        check_shape(M.shape[0], self.k, "X")
        object.__setattr__(self, "M", M)

    @property
    def shape(self) -> tuple[int, int]:
        return self.M.shape[0], self.k

    def value(self, X: FloatArray) -> float:
        return float(np.vdot(self.M @ X, X))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        product = self.M @ X
        return float(np.vdot(product, X)), 2.0 * product

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return np.asarray(2.0 * (self.M @ D))

    @cached_property
    def lipschitz(self) -> float:
        """2 ||M||, bounded by the largest absolute row sum."""
        return 2.0 * float(abs(self.M).sum(axis=1).max())

    @cached_property
    def _has_positive_off_diagonal(self) -> bool:
        off = self.M - (
            np.diag(np.diag(self.M)) if not issparse(self.M) else _sparse_diagonal(self.M)
        )
        return bool(off.max() > 0)

    def refine(self, X: FloatArray) -> FloatArray | None:
        """The bottom eigenvector of each block, section 4 (ii).

        It is nonnegative by Perron and Frobenius when no entry of M off the diagonal is positive;
        None otherwise.
        """
        if self._has_positive_off_diagonal:
            return None
        refined = np.zeros_like(X)
        for j in range(self.k):
            rows = np.flatnonzero(X[:, j] > 0)
            block = self.M[rows][:, rows]
            vector = _bottom_eigenvector(block, X[rows, j])
            refined[rows, j] = np.abs(vector) / np.linalg.norm(vector)
        return refined

    def lower_bound(self) -> float:
        """The sum of the k smallest eigenvalues of M: the minimum over all orthonormal X."""
        if self.shape[0] <= max(64, 2 * self.k):
            dense = self.M.toarray() if issparse(self.M) else self.M
            return float(np.linalg.eigvalsh(dense)[: self.k].sum())
        # A start without pattern: that of a graph's components would miss multiple eigenvalues.
        start = np.random.default_rng(0).standard_normal(self.shape[0])
        return float(_bottom_eigenpairs(self.M, self.k, start)[0].sum())


def _sparse_diagonal(M: Any) -> Any:
    from scipy.sparse import diags_array

    return diags_array(M.diagonal())


def _bottom_eigenvector(block: Any, start: FloatArray) -> FloatArray:
    """Unit eigenvector of the smallest eigenvalue; Lanczos from ``start`` for a large block."""
    if len(start) <= 64:
        dense = block.toarray() if issparse(block) else block
        return np.asarray(np.linalg.eigh(dense)[1][:, 0])
    return np.asarray(_bottom_eigenpairs(block, 1, start)[1][:, 0])


def _bottom_eigenpairs(M: Any, k: int, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The k smallest eigenvalues with their vectors, by Lanczos on ``shift I - M``.

    The shift makes it positive definite: Lanczos fails from a start in the kernel, as the constant
    vector is for a graph Laplacian, and converges slowly to eigenvalues near zero.
    """
    n, shift = M.shape[0], 2.0 * float(abs(M).sum(axis=1).max()) or 1.0
    shifted = LinearOperator((n, n), matvec=lambda x: shift * x - M @ x, dtype=np.float64)
    values, vectors = eigsh(shifted, k=k, which="LA", v0=start)
    return shift - values, vectors
