"""Orthogonal nonnegative matrix factorisation, eqs. (1.3) and (1.4)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, eigsh, svds

from orthoplus.checks import as_matrix, check_finite, check_shape
from orthoplus.memory import empty_like
from orthoplus.protocols import FloatArray, Linear, Problem

# Groups of at most this many rows are solved densely.
_DENSE_ROWS = 64


@dataclass(frozen=True, eq=False)
class ONMF(Problem):
    r"""min :math:`\|A - XX^\top A\|_F^2` over S+, eq. (1.4), which is eq. (1.3) with the best Y.

    .. math:: \min_{X \in S_+,\, Y \ge 0} \|A - XY^\top\|_F^2
              = \min_{X \in S_+} \|A - XX^\top A\|_F^2, \qquad Y = A^\top X.

    Parameters
    ----------
    A : nonnegative array or SciPy sparse matrix of shape (n, r)
        Used through products only; never densified, AA' never formed.
    k : int
    quartic : bool
        True works on the quartic function itself; False, as in the paper, on the partial
        Gauss-Newton model with Y renewed once an outer iteration.

    Examples
    --------
    >>> A = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    >>> X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, np.sqrt(2)]]) / np.sqrt(2)
    >>> abs(round(ONMF(A, 2).value(X), 12))
    0.0
    """

    A: Any
    k: int
    quartic: bool = False

    def __post_init__(self) -> None:
        if issparse(self.A):
            A = self.A.tocsr().astype(np.float64)
            check_finite(A.data, "A")
            entries = A.data
        else:
            A = entries = as_matrix(self.A, "A").astype(np.float64, copy=False)
        if entries.size and entries.min() < 0:
            raise ValueError(
                f"`A` has negative entries (the smallest is {entries.min():.3g}): "
                f"orthogonal NMF needs A >= 0. Shift or clip the data."
            )
        check_shape(A.shape[0], self.k, "X")
        object.__setattr__(self, "A", A)

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[0], self.k

    @cached_property
    def total(self) -> float:
        """||A||_F^2."""
        entries = self.A.data if issparse(self.A) else self.A
        return float(np.vdot(entries, entries))

    def value(self, X: FloatArray) -> float:
        W = self.A.T @ X
        return self.total - 2.0 * float(np.vdot(W, W)) + float(np.vdot(X.T @ X, W.T @ W))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        W = self.A.T @ X  # r x k
        MX, gram, core = self.A @ W, X.T @ X, W.T @ W
        value = self.total - 2.0 * float(np.trace(core)) + float(np.vdot(gram, core))
        return value, 2.0 * (MX @ gram + X @ core) - 4.0 * MX

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return self.hessian(X)(D)

    def hessian(self, X: FloatArray) -> Linear:
        W = self.A.T @ X
        MX, gram, core = self.A @ W, X.T @ X, W.T @ W

        def product(D: FloatArray) -> FloatArray:
            dW = self.A.T @ D
            MD, d_gram, d_core = self.A @ dW, D.T @ X, dW.T @ W
            bent = MD @ gram + D @ core + MX @ (d_gram + d_gram.T) + X @ (d_core + d_core.T)
            return np.asarray(2.0 * bent - 4.0 * MD)

        return product

    def second_block(self, X: FloatArray) -> FloatArray:
        """Y = max(A'X (X'X)^-1, 0), the factor of the partial Gauss-Newton model."""
        W = self.A.T @ X
        gram = X.T @ X
        if np.allclose(gram, np.eye(self.k), atol=1e-12):
            return np.asarray(W)
        return np.maximum(W @ np.linalg.pinv(gram, hermitian=True), 0.0)

    def freeze(self, X: FloatArray) -> Problem:
        if self.quartic:
            return self
        Y = self.second_block(X)
        return FactorFit(self.A @ Y, Y.T @ Y, self.total)

    def majoriser(self, X: FloatArray) -> FloatArray:
        """AA'X: over S+ f is ||A||^2 - <AA'X, X>, and AA' is positive semidefinite."""
        return np.asarray(self.A @ (self.A.T @ X))

    def refine(self, X: FloatArray) -> FloatArray:
        """The leading left singular vector of the rows of each group, section 4 (ii)."""
        refined = np.zeros_like(X)
        for j in range(self.k):
            rows = np.flatnonzero(X[:, j] > 0)
            vector = np.abs(_leading_left_vector(self.A[rows], X[rows, j]))
            refined[rows, j] = vector / np.linalg.norm(vector)
        return refined

    def lower_bound(self) -> float:
        """||A||^2 minus the k largest squared singular values: the best rank-k residual."""
        if self.total == 0.0:
            return 0.0
        if min(self.A.shape) <= max(_DENSE_ROWS, 2 * self.k):
            dense = self.A.toarray() if issparse(self.A) else self.A
            values = np.linalg.svd(dense, compute_uv=False)[: self.k]
        else:
            # A start without pattern: that of the blocks of A would miss multiple values.
            start = np.random.default_rng(0).standard_normal(min(self.A.shape))
            values = svds(self.A, k=self.k, v0=start, return_singular_vectors=False)
        return max(self.total - float(values @ values), 0.0)


@dataclass(frozen=True, eq=False)
class FactorFit(Problem):
    r"""The partial Gauss-Newton subproblem: :math:`\|A - XY^\top\|_F^2` for a fixed Y.

    Only AY (n x k) and Y'Y (k x k) enter: inner iterations do not touch A.
    """

    AY: FloatArray
    YtY: FloatArray
    total: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.AY.shape[0], self.AY.shape[1]

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        half = np.matmul(X, self.YtY, out=empty_like(X))
        half -= self.AY
        # ||A - XY'||^2 = ||A||^2 - <AY, X> + <X Y'Y - AY, X>.
        value = self.total - float(np.vdot(self.AY, X)) + float(np.vdot(half, X))
        half *= 2.0
        return value, half

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return np.asarray(2.0 * (D @ self.YtY))

    @cached_property
    def lipschitz(self) -> float:
        return 2.0 * float(np.linalg.norm(self.YtY, 2))


def _leading_left_vector(rows: Any, start: FloatArray) -> FloatArray:
    """Unit leading left singular vector; Lanczos from ``start`` for a large group."""
    n = rows.shape[0]
    if n == 1:
        return np.ones(1)
    if n <= _DENSE_ROWS:
        gram = rows @ rows.T
        return np.asarray(np.linalg.eigh(gram.toarray() if issparse(gram) else gram)[1][:, -1])
    if not (rows.T @ start).any():  # A >= 0 and start > 0: these rows are zero, any vector is best
        return start / float(np.linalg.norm(start))
    gram = LinearOperator((n, n), matvec=lambda x: rows @ (rows.T @ x), dtype=np.float64)
    return np.asarray(eigsh(gram, k=1, which="LA", v0=start)[1][:, 0])
