"""Projective NMF with the Kullback-Leibler divergence, section 1.1."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from orthoplus.core.checks import check_shape
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, Linear
from orthoplus.data import as_entries
from orthoplus.data.divergence import kl_divergence, ratio_derivatives, ratio_products
from orthoplus.linalg.starts import svd_start

# This fraction of the mean entry is added to all entries of the start, so that none is zero.
_START_OFFSET = 1e-3


@dataclass(frozen=True, eq=False)
class ProjectiveKL(Problem):
    r"""min :math:`D(A \,\|\, XX^\top A)` over S+: orthonormal projective NMF for counts.

    .. math:: f(X) = \sum_{il} a_{il} \log \frac{a_{il}}{m_{il}} - a_{il} + m_{il}, \qquad
              M = XX^\top A, \quad 0 \log 0 = 0,

    the model (1.4) of Yang and Oja with the Kullback-Leibler divergence in place of the Frobenius
    norm. At a point of S+ row i of cluster j is modeled by :math:`x_{ij} \sum_{l \in C_j} x_{lj}
    a_l`. The weights of a cluster determine both how its rows are mixed into one profile and how
    much of that profile each row has.

    Parameters
    ----------
    A : nonnegative array or SciPy sparse matrix of shape (n, r)
        The data. Only the stored entries of a sparse matrix are used, and M is never formed.
    k : int
        Number of columns of X.

    Notes
    -----
    f is infinite if and only if a nonzero row of A has no positive entry in X, because its model is
    then zero. `value` returns inf there, and no line search accepts such a step. From a start with
    a finite value, the iterates therefore keep an entry in every nonzero row of A, and rounding
    keeps the largest of them. `start` is positive; an ``X0`` must not be zero in such a row. Zero
    rows of A may be zero in X. The gradient of f is unbounded near points where f is infinite, so
    that `value_lipschitz` is None.

    The gradient is :math:`(E - Z) A^\top X + A (E - Z)^\top X` with :math:`Z = A \oslash M` and E
    all ones. A value costs one product with A' and M at the nonzero entries of A, O(nnz(A) k); a
    gradient about three times, a Hessian product about six times as much. The best point of a
    support has no closed form. `KLONMF` has the same fit with a free second factor, and a value at
    most that of this model at the same clusters; `orthoplus.baselines.OPNMF` with
    ``divergence="kl"`` is the multiplicative update of this model.

    References
    ----------
    Z. Yang and E. Oja, *Linear and nonlinear projective nonnegative matrix factorization*, IEEE
    Trans. Neural Networks 21 (2010).

    Examples
    --------
    >>> X = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]])
    >>> A = X @ np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0]])  # so that XX'A = A
    >>> problem = ProjectiveKL(A, 2)
    >>> abs(round(problem.value(X), 12)), problem.value(np.eye(3, 2))  # no entry in the last row
    (0.0, inf)
    """

    is_column_symmetric: ClassVar[bool] = True

    A: Any
    k: int

    def __post_init__(self) -> None:
        A = as_entries(self.A, instead="ONMF(A, k, quartic=True)")
        check_shape(A.shape[0], self.k, "X")
        object.__setattr__(self, "k", int(self.k))  # NumPy integers overflow
        object.__setattr__(self, "A", A)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, k) for n rows of A."""
        return self.A.shape[0], self.k

    @cached_property
    def _row_sums(self) -> FloatArray:
        return self.A.row_sums()

    def second_block(self, X: FloatArray) -> FloatArray:
        """Return the profiles Y = A'X of the model XY'."""
        return self.A.rmatmul(X)

    def value(self, X: FloatArray) -> float:
        """Return D(A || XX'A)."""
        return kl_divergence(self.A, X, self.second_block(X))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return D and its gradient through both factors of XX'A."""
        Y = self.second_block(X)
        ZY, ZtX = ratio_products(self.A, X, Y)
        # M = X(A'X)' depends on X twice, which gives the two products with Z = A / M.
        gradient = self._ones_term(X, Y) - ZY - self.A.matmul(ZtX)
        return kl_divergence(self.A, X, Y), gradient.astype(X.dtype, copy=False)

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return D''(X)[D]; use `hessian` for several products at one X."""
        return self.hessian(X)(D)

    def hessian(self, X: FloatArray) -> Linear:
        """Return the map D -> f''(X)[D], with A'X computed once."""
        Y = self.second_block(X)

        def product(D: FloatArray) -> FloatArray:
            dY = self.second_block(D)
            in_x, in_y = ratio_derivatives(self.A, X, Y, D, dY)
            bent = self._ones_term(D, dY) + in_x + self.A.matmul(in_y)
            return np.asarray(bent, dtype=D.dtype)

        return product

    def _ones_term(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return EY + AE'X, the gradient of the sum of all entries of M."""
        sizes = X.sum(axis=0, dtype=np.float64)
        return np.asarray(Y.sum(axis=0, dtype=np.float64) + np.outer(self._row_sums, sizes))

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Return NNDSVDa with unit columns and without zeros, so that f is finite."""
        X = svd_start(self.A, self.k, "nndsvda", rng).astype(np.float64)
        X += _START_OFFSET * X.mean()
        return np.asarray(X / np.linalg.norm(X, axis=0), dtype=self.A.dtype)
