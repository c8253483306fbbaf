"""Orthogonal nonnegative matrix factorization, eqs. (1.3) and (1.4)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from orthoplus.core.bounds import rounding_margin
from orthoplus.core.checks import check_range, check_shape
from orthoplus.core.problem import Problem
from orthoplus.core.trace_form import TraceForm
from orthoplus.core.types import FloatArray, Linear
from orthoplus.data import as_data, as_nonnegative_data, inner_product
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.geometry.stiefel import assemble, labels_of
from orthoplus.linalg.group_vectors import GroupedRows
from orthoplus.linalg.row_gains import entries_of, trace_gains
from orthoplus.linalg.spectral_sum import sum_of_squares
from orthoplus.linalg.starts import leading_centers, svd_start
from orthoplus.linalg.workspace import empty_like

# X'X counts as I if it differs by at most this many unit roundoffs.
_EYE_ROUNDOFFS = 5000
_ADVICE = (
    "Shift or clip the data, or set `allow_negative=True` if only the orthogonal factor must be "
    "nonnegative."
)


@dataclass(frozen=True, eq=False)
class ONMF(GroupedRows, Problem):
    r"""min :math:`\|A - XX^\top A\|_F^2` over S+, (1.4), which is (1.3) with the best Y.

    .. math:: \min_{X \in S_+,\, Y \ge 0} \|A - XY^\top\|_F^2
              = \min_{X \in S_+} \|A - XX^\top A\|_F^2, \qquad Y = A^\top X.

    Parameters
    ----------
    A : nonnegative array, SciPy sparse matrix, LinearOperator or DataMatrix of shape (n, r)
        The data, used through products only: it is not densified or copied, and AA' is not formed.
        A memory map stays on disk. For float32 data, products are in float32 and their sums in
        float64. An operator needs products from both sides. Zero rows and columns are kept; a zero
        row of A may be a zero row of X. h5py datasets, Zarr and Dask arrays are read in blocks
        of rows, see `orthoplus.data.as_data`; `SwapSearch` then creates no n x k matrix.
    k : int
        Number of columns of X.
    quartic : bool
        Whether to minimize the quartic function itself. If False, as in the paper, the partial
        Gauss-Newton model is used, with Y updated once per outer iteration.
    squared_norm : float, optional
        ||A||_F^2 if known; otherwise it takes one pass over A (operator: min(n, r) products).
    allow_negative : bool
        Whether A may have negative entries, so that only X must be nonnegative: this is the
        projective model, eq. (1.4), with a Y of any sign. The best vector of a cluster then has no
        closed form, see `orthoplus.linalg.group_vectors.nonnegative_vectors`; the bound remains
        valid. For a Dask array, a few vectors of length n are held in this process.

    Notes
    -----
    A value or gradient takes one product with A and one with A', O(nnz(A) k). With Y fixed, as in
    the inner iterations of EP4Orth+, it takes O(nk^2) and does not access A.

    Examples
    --------
    >>> A = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    >>> X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, np.sqrt(2)]]) / np.sqrt(2)
    >>> abs(round(ONMF(A, 2).value(X), 12))
    0.0
    """

    has_exact_gains: ClassVar[bool] = True
    is_column_symmetric: ClassVar[bool] = True

    A: Any  # a DataMatrix after validation
    k: int
    quartic: bool = False
    squared_norm: float | None = None
    allow_negative: bool = False

    def __post_init__(self) -> None:
        A = as_data(self.A) if self.allow_negative else as_nonnegative_data(self.A, advice=_ADVICE)
        check_shape(A.shape[0], self.k, "X")
        object.__setattr__(self, "k", int(self.k))  # NumPy integers overflow
        if self.squared_norm is not None:
            check_range(self.squared_norm, "squared_norm", low=0.0)
        object.__setattr__(self, "A", A)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, k) for n rows of A."""
        return self.A.shape[0], self.k

    @cached_property
    def total(self) -> float:
        """Return ||A||_F^2."""
        if self.squared_norm is not None:
            return float(self.squared_norm)
        if self.A.has_cheap_products or not self.A.has_entries:
            return self.A.squared_norm()
        # The squares of the rows are needed anyway, so this saves a pass.
        return float(self.A.reduce_rows(np.sum, self.row_squares, vectors_only=True))

    @property
    def constant(self) -> float:
        """Return f at X = 0, which is ||A||_F^2."""
        return self.total

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Return a start from the singular vectors of A, as in section 6.2, in the dtype of A."""
        if self.A.has_cheap_products:
            return svd_start(self.A, self.k, "clipped", rng)
        centers = leading_centers(self.A, self.k, rng)
        return project_oblique_plus(self.A.times(centers.vectors.T))

    def value(self, X: FloatArray) -> float:
        """Return ||A - XX'A||_F^2 from two k x k Gram matrices."""
        # f = ||A||^2 - 2 tr(W'W) + <X'X, W'W> with W = A'X: no n x r residual is formed.
        gram, core = _grams(X, self.A.times_transposed(X))
        return self.total - 2.0 * float(np.trace(core)) + float(np.vdot(gram, core))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return f and 2 (MXX'X + XX'MX) - 4 MX with M = AA', in two passes over A."""
        W = self.A.times_transposed(X)  # r x k
        gram, core = _grams(X, W)
        MX = self.A.times(W)
        value = self.total - 2.0 * float(np.trace(core)) + float(np.vdot(gram, core))
        # grad f = 2 (MX X'X + X W'W) - 4 MX with M = AA'.
        gradient = 2.0 * (MX @ gram.astype(MX.dtype) + X @ core.astype(X.dtype)) - 4.0 * MX
        return value, gradient.astype(X.dtype, copy=False)

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return f''(X)[D]; use `hessian` for several products at one X."""
        return self.hessian(X)(D)

    def hessian(self, X: FloatArray) -> Linear:
        """Return D -> f''(X)[D], with AA'X and the Gram matrices computed once."""
        W = self.A.times_transposed(X)
        MX, gram, core = self.A.times(W), X.T @ X, W.T @ W

        def product(D: FloatArray) -> FloatArray:
            dW = self.A.times_transposed(D)
            MD, d_gram, d_core = self.A.times(dW), D.T @ X, dW.T @ W
            # The product rule for MX X'X + X W'W, with dX = D and dW = A'D.
            bent = MD @ gram + D @ core + MX @ (d_gram + d_gram.T) + X @ (d_core + d_core.T)
            return np.asarray(2.0 * bent - 4.0 * MD, dtype=D.dtype)

        return product

    def second_block(self, X: FloatArray) -> FloatArray:
        """Return Y = A'X (X'X)^-1, clipped at 0 unless the data may be negative."""
        W = self.A.times_transposed(X)
        gram = _gram(X)
        if np.allclose(gram, np.eye(self.k), atol=_EYE_ROUNDOFFS * np.finfo(X.dtype).eps):
            return W
        # Overlapping columns of X make X'X nearly singular; the pseudoinverse handles that.
        inverse = np.linalg.pinv(gram, hermitian=True)
        Y = np.matmul(W, inverse.astype(W.dtype), out=empty_like(W))
        return Y if self.allow_negative else np.maximum(Y, 0.0, out=Y)

    def freeze(self, X: FloatArray) -> Problem:
        """Return ||A - XY'||^2 with Y = A'X fixed, or the quartic itself if so chosen."""
        if self.quartic:
            return self
        Y = self.second_block(X)
        AY = self.A.times(Y).astype(X.dtype, copy=False)
        return FactorFit(AY, _gram(Y), self.total)

    def majorizer(self, X: FloatArray) -> FloatArray:
        """Return AA'X; over S+ f is ||A||^2 - <AA'X, X>, and AA' is positive semidefinite."""
        return self.A.times(self.A.times_transposed(X)).astype(X.dtype, copy=False)

    def move_gains(self, X: FloatArray) -> FloatArray | None:
        """Return lower bounds from the majorizer and ||a_i||^2, None without cheap entries."""
        if not (self.A.has_entries and self.A.has_cheap_products):
            return None  # the squared row norms are not available
        return trace_gains(*entries_of(X), -self.majorizer(X), -self.row_squares)

    def refine(self, X: FloatArray) -> FloatArray:
        """Return the best vector of the rows of each group, section 4 (ii): see `group_vectors`."""
        labels = labels_of(X)
        A = self.A
        vector, _ = self.group_vectors(A.scatter(labels), A.scatter(X[np.arange(len(X)), labels]))
        return assemble(labels, A.gather(vector).astype(X.dtype, copy=False), self.k)

    @property
    def value_lipschitz(self) -> float:
        """Return 4 sqrt(k) max(1, k - 1) ||A||_F^2, a bound on the gradient of the quartic f.

        It is -2 (RA' + AR')X with R = (I - XX')A; XX' has its eigenvalues in [0, k] over OB+.
        """
        return float(4.0 * self.k**0.5 * max(1, self.k - 1) * self.total)

    def lower_bound(self) -> float:
        """Return ||A||^2 minus the k largest squared singular values, the best rank-k residual.

        A margin for rounding is subtracted, and singular values that may have been missed are
        accounted for, see `orthoplus.linalg.spectral_sum`.
        """
        if self.total == 0.0:
            return 0.0
        largest = sum_of_squares(self.A, self.k, self.total).upper
        return max(self.total - largest - 0.5 * self.rounding(), 0.0)

    def trace_form(self) -> TraceForm:
        """Return ||A||^2 - <AA', XX'>."""
        return TraceForm(
            self.k,
            lambda v: self.total - v,
            self.total,
            least=0.0,
            factor=self.A,
            is_nonnegative=not self.allow_negative,
        )

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float:
        """Return twice the rounding margin of two products with A."""
        return 2.0 * rounding_margin(self.total, sum(self.A.shape), self.A.dtype, dtype)


@dataclass(frozen=True, eq=False)
class FactorFit(Problem):
    r"""The partial Gauss-Newton subproblem: :math:`\|A - XY^\top\|_F^2` for a fixed Y.

    It depends only on AY (n x k) and Y'Y (k x k), so that inner iterations do not access A.
    """

    AY: FloatArray
    YtY: FloatArray
    total: float

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape of AY, which is that of X."""
        return self.AY.shape[0], self.AY.shape[1]

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return ||A - XY'||^2 and 2 (XY'Y - AY), without another pass over A."""
        half = np.matmul(X, self.YtY.astype(X.dtype, copy=False), out=empty_like(X))
        half -= self.AY
        # ||A - XY'||^2 = ||A||^2 - <AY, X> + <X Y'Y - AY, X>.
        value = self.total - inner_product(self.AY, X) + inner_product(half, X)
        half *= 2.0
        return value, half

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return 2DY'Y, which does not depend on X."""
        return np.asarray(2.0 * (D @ self.YtY.astype(D.dtype, copy=False)))

    def hessian_factor(self, X: FloatArray) -> FloatArray | None:
        """Return 2Y'Y: the Hessian multiplies from the right."""
        return 2.0 * self.YtY

    @cached_property
    def lipschitz(self) -> float:
        """Return 2 ||Y'Y||_2, the largest eigenvalue of the Hessian."""
        return 2.0 * float(np.linalg.norm(self.YtY, 2))


def _gram(X: FloatArray) -> FloatArray:
    """Return X'X, accumulated in float64."""
    X = X.astype(np.float64, copy=False)
    return np.asarray(X.T @ X)


def _grams(X: FloatArray, W: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return X'X and W'W in float64, because the value is a small difference of large numbers."""
    return _gram(X), _gram(W)
