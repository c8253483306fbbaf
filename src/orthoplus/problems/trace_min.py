"""Trace minimization over S+, eq. (1.2), and models of this form."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import laplacian

from orthoplus.core.bounds import rounding_margin
from orthoplus.core.checks import check_positive, check_range, check_shape
from orthoplus.core.errors import InputError
from orthoplus.core.problem import Problem
from orthoplus.core.trace_form import TraceForm
from orthoplus.core.types import FloatArray
from orthoplus.data import DataMatrix, as_data
from orthoplus.data.similarity import (
    as_features,
    as_similarity,
    negative_gram,
    ridge_factor,
    shifted,
)
from orthoplus.data.symmetric import SymmetricMap, as_symmetric
from orthoplus.geometry.stiefel import assemble
from orthoplus.linalg.group_vectors import GroupedRows
from orthoplus.linalg.row_gains import entries_of, trace_gains
from orthoplus.linalg.starts import eigenvector_starts
from orthoplus.linalg.symmetric import bottom_of_blocks, sum_of_smallest


@dataclass(frozen=True, eq=False)
class TraceMin(Problem):
    r"""min :math:`\mathrm{tr}(X^\top M X)` over S+, (1.2), for a symmetric M, possibly indefinite.

    Parameters
    ----------
    M : array, SciPy sparse matrix, LinearOperator or SymmetricMap of shape (n, n)
        The matrix, used through products; a sparse matrix stays sparse.
    k : int
        Number of columns of X.

    Notes
    -----
    The columns of the best X on a given support are the bottom eigenvectors of the blocks of M, if
    these are nonnegative. The sum of the k smallest eigenvalues of M, the minimum over all
    orthonormal X, is a lower bound.
    A value or gradient takes one product MX, O(n^2 k), or O(nnz(M) k) if M is sparse.

    Examples
    --------
    >>> problem = TraceMin(np.diag([3.0, 1.0, 2.0]), 2)
    >>> problem.value(np.eye(3, 2)), round(problem.lower_bound(), 12)
    (4.0, 3.0)
    """

    has_exact_gains: ClassVar[bool] = True
    is_column_symmetric: ClassVar[bool] = True

    M: Any
    k: int

    def __post_init__(self) -> None:
        M = as_symmetric(self.M, "M")
        check_shape(M.shape[0], self.k, "X")
        object.__setattr__(self, "k", int(self.k))  # NumPy integers overflow
        object.__setattr__(self, "M", M)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, k) for an n x n matrix M."""
        return self.M.shape[0], self.k

    def value(self, X: FloatArray) -> float:
        """Return tr(X'MX) as <MX, X>."""
        return float(np.vdot(self.M @ X, X))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return tr(X'MX) and 2MX, from one product with M."""
        product = self.M @ X
        return float(np.vdot(product, X)), 2.0 * product

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return 2MD, which does not depend on X."""
        return np.asarray(2.0 * (self.M @ D))

    @cached_property
    def symmetric(self) -> SymmetricMap:
        """Return M as a `SymmetricMap`, with its blocks and eigenvectors."""
        return self.M if isinstance(self.M, SymmetricMap) else SymmetricMap(self.M)

    @cached_property
    def lipschitz(self) -> float:
        """Return 2 ||M||, or a bound from the largest absolute row sum if M has entries."""
        return 2.0 * self.symmetric.norm

    @property
    def value_lipschitz(self) -> float:
        """Return 2 sqrt(k) ||M||: f(X) - f(Z) = <M(X + Z), X - Z> and ||X + Z|| <= 2 sqrt(k)."""
        return float(self.k**0.5 * self.lipschitz)

    def refine(self, X: FloatArray) -> FloatArray | None:
        """Return the bottom eigenvectors of the blocks, section 4 (ii); None if signs are mixed."""
        return bottom_of_blocks(self.symmetric, X)

    def majorizer(self, X: FloatArray) -> FloatArray:
        """Return s X - MX, s the largest eigenvalue: on S+ f is s k - <(sI - M) X, X>."""
        return np.asarray(self.symmetric.largest * X - self.M @ X)

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Return the first of `starts`."""
        return next(self.starts(rng))

    def starts(self, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield starts from the bottom eigenvectors of M, see `eigenvector_starts`."""
        return eigenvector_starts(self.symmetric, self.k, rng)

    def move_gains(self, X: FloatArray) -> FloatArray | None:
        """Return the gains from MX and the diagonal of M, or None if that is unknown."""
        diagonal = self.symmetric.diagonal
        if diagonal is None:
            return None
        return trace_gains(*entries_of(X), self.M @ X, diagonal)

    def lower_bound(self) -> float:
        """Return the sum of the k smallest eigenvalues of M, minus a margin for rounding.

        Possibly missed eigenvalues are accounted for, see `orthoplus.linalg.spectral_sum`.
        """
        return sum_of_smallest(self.symmetric, self.k).lower - 0.5 * self.rounding()

    def trace_form(self) -> TraceForm:
        """Return -<-M, XX'>."""
        size = self.k * self.symmetric.norm
        return TraceForm(self.k, lambda v: -v, size, matrix=-self.symmetric)

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float:
        """Return twice the rounding margin of k ||M||_2."""
        own, size = getattr(self.M, "dtype", np.float64), self.k * self.symmetric.norm
        return 2.0 * rounding_margin(size, self.shape[0], own, dtype)


@dataclass(frozen=True, eq=False)
class FactorTrace(GroupedRows, TraceMin):
    r"""max :math:`\|A^\top X\|_F^2` over S+: `TraceMin` with :math:`M = -AA^\top` and known A.

    A search over groups of rows works on A itself, as for orthogonal NMF, whose objective differs
    by the constant :math:`\|A\|_F^2`. Create it by `nonnegative_pca`.

    Examples
    --------
    >>> A = np.array([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0]])
    >>> problem = nonnegative_pca(A, 2)
    >>> isinstance(problem, FactorTrace), problem.total, problem.allow_negative
    (True, 29.0, False)
    """

    @cached_property
    def A(self) -> DataMatrix:  # type: ignore[override]
        """Return the factor of shape (n, r)."""
        return as_data(self.M.factors[0][0], check=False)

    @cached_property
    def allow_negative(self) -> bool:  # type: ignore[override]
        """Return whether A has a negative entry."""
        return self.A.least_and_largest()[1] < 0

    @cached_property
    def total(self) -> float:
        """Return ||A||_F^2."""
        return self.A.squared_norm()

    @property
    def constant(self) -> float:
        """Return f at X = 0."""
        return 0.0

    def trace_form(self) -> TraceForm:
        """Return -<AA', XX'>."""
        is_nonnegative = not self.allow_negative
        return TraceForm(
            self.k, lambda v: -v, self.total, factor=self.A, is_nonnegative=is_nonnegative
        )

    def refine(self, X: FloatArray) -> FloatArray | None:
        """Return the best vector of the rows of each group, section 4 (ii)."""
        if self.allow_negative:
            return super().refine(X)
        labels, weights = entries_of(X)
        vector, _ = self.group_vectors(labels, weights)
        return assemble(labels, vector.astype(X.dtype, copy=False), self.k)


def nonnegative_pca(A: Any, k: int, *, center: bool = False) -> TraceMin:
    r"""Return the problem of nonnegative principal components, :math:`M = -AA^\top`.

    .. math:: \max_{X \in S_+} \|A^\top X\|_F^2 .

    Parameters
    ----------
    A : array or SciPy sparse matrix of shape (n, r)
        Row i holds the r observations of variable i; this is the transpose of scikit-learn's data
        matrix. Entries may have any sign.
    k : int
        Number of components.
    center : bool
        Whether to subtract the mean of each row, as PCA does. A sparse A is not changed;
        :math:`M = -(AA^\top - r\, m m^\top)` with the row means m is used instead, which loses
        digits if the means are much larger than the deviations.

    Notes
    -----
    A product costs O(nnz(A) k): AA' is not formed.

    References
    ----------
    Zass and Shashua, NIPS 2006; Montanari and Richard, IEEE Trans. Inf. Theory 62 (2016).

    Examples
    --------
    >>> A = np.array([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0]])
    >>> X = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]])
    >>> round(nonnegative_pca(A, 2).value(X), 9)  # -(25 + 4)
    -29.0
    """
    M = negative_gram(A, centered=center)
    # With a single factor, a search over groups of its rows is possible.
    return FactorTrace(M, k) if len(M.factors) == 1 else TraceMin(M, k)


def laplacian_embedding(W: Any, k: int, *, normalized: bool = False) -> TraceMin:
    r"""Return the problem of the nonnegative Laplacian embedding, :math:`M = D - W`.

    D is the diagonal matrix of the row sums of W.

    Parameters
    ----------
    W : array or SciPy sparse matrix of shape (n, n)
        Symmetric, nonnegative similarities; the diagonal does not matter.
    k : int
        Number of clusters.
    normalized : bool
        Whether to use :math:`M = I - D^{-1/2} W D^{-1/2}`, for clusters of equal volume rather than
        equal size: at :math:`x_j = D^{1/2} 1_{C_j} / \|\cdot\|` the value is the normalized cut.

    Notes
    -----
    With free weights, the cost of a cluster is the smallest eigenvalue of its block of M, which is
    at most its cut divided by its size. This is a relaxation of the ratio cut, and a partition of
    smallest Dirichlet energy.
    A product costs O(nnz(W) k).

    References
    ----------
    Luo, Ding, Huang and Li, ICDM 2009; Osting, White and Oudet, SIAM J. Sci. Comput. 36 (2014).

    Examples
    --------
    >>> W = np.kron(np.eye(2), np.ones((2, 2)))  # two components: no edge is cut
    >>> X = np.kron(np.eye(2), np.ones((2, 1))) / np.sqrt(2)
    >>> abs(round(laplacian_embedding(W, 2).value(X), 12))
    0.0
    """
    return TraceMin(laplacian(as_similarity(W), normed=normalized), k)


def ratio_cut(W: Any, k: int, *, evenness: float = 1.0) -> TraceMin:
    r"""Return the problem of the ratio cut of a graph.

    It is the Laplacian embedding with an additional term that favors equal weights,

    .. math:: \mathrm{tr}(X^\top (D - W) X) + \tau \big(1 - \|X^\top 1\|^2 / n\big)

    Parameters
    ----------
    W : array or SciPy sparse matrix of shape (n, n)
        Symmetric, nonnegative similarities.
    k : int
        Number of clusters.
    evenness : float
        Weight :math:`\tau` in units of the mean degree; 0 gives the Laplacian embedding.

    Notes
    -----
    The second term is nonnegative over S+, and zero only if the entries of each column are equal
    and no row is zero. For such X the value is the ratio cut, the sum over the clusters of the
    cut divided by the size. As :math:`\tau` grows, minimizers tend to those of the ratio cut. M is
    :math:`D - W + \tau (I/k - 11^\top/n)`, stored as a sparse matrix and a product.
    A product costs O(nnz(W) k), because the dense term is a product of two vectors.

    References
    ----------
    Hagen and Kahng, IEEE Trans. CAD 11 (1992).

    Examples
    --------
    >>> W = np.ones((4, 4))
    >>> X = np.kron(np.eye(2), np.ones((2, 1))) / np.sqrt(2)
    >>> round(ratio_cut(W, 2).value(X), 12)  # 4 edges are cut, seen from two clusters of 2
    4.0
    """
    check_range(evenness, "evenness", low=0.0)
    M = laplacian(as_similarity(W))
    n = M.shape[0]
    check_shape(n, k, "X")
    tau = evenness * float(M.trace()) / n
    base = as_symmetric(shifted(M, tau / k), "W")
    return TraceMin(SymmetricMap(base, ((np.ones((n, 1)), -tau / n),)), k)


def discriminative_spectral(
    W: Any, mu: float, k: int, *, A: Any, ridge: float = 1.0, normalized: bool = False
) -> TraceMin:
    r"""Return the problem of discriminative spectral clustering, :math:`M = D - W + \mu R`.

    .. math:: \mathrm{tr}(X^\top R X) = \min_{Z, b} \|X - AZ - 1b^\top\|_F^2
              + \gamma \|Z\|_F^2, \qquad
              R = H - \tilde A (\tilde A^\top \tilde A + \gamma I)^{-1} \tilde A^\top,

    with :math:`H = I - 11^\top / n` and :math:`\tilde A = HA`. Clusters that are separated by a
    linear function of the features cost less. If the entries of each column are equal, it is
    :math:`k - 1 - \mathrm{tr}((S_t + \gamma I)^{-1} S_b)` with the total scatter :math:`S_t` of the
    features and the scatter :math:`S_b` of the cluster means, as in discriminant analysis.

    Parameters
    ----------
    W : array or SciPy sparse matrix of shape (n, n)
        Symmetric, nonnegative similarities.
    mu : float
        Weight of R, at least 0.
    k : int
        Number of clusters.
    A : array or SciPy sparse matrix of shape (n, r)
        Features, with one row per object.
    ridge : float
        Regularization :math:`\gamma > 0`.
    normalized : bool
        Whether to use the normalized Laplacian, as in `laplacian_embedding`.

    Notes
    -----
    R is stored as a product with an r x r core; sparse A stays sparse. The setup costs
    O(n r^2 + r^3), so a large number of features should be reduced first. The ridge regression of X
    on A gives labels of new objects.

    References
    ----------
    Yang, Yang, Shen, Zhang, Du and Zhou, IEEE Trans. Knowl. Data Eng. 25 (2013); Yang, Shen, Nie,
    Ji and Zhou, AAAI 2011.

    Examples
    --------
    >>> A = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> X = np.kron(np.eye(2), np.ones((2, 1))) / np.sqrt(2)
    >>> mixed = X[[0, 2, 1, 3]]
    >>> problem = discriminative_spectral(np.zeros((4, 4)), 1.0, 2, A=A)
    >>> problem.value(X) < problem.value(mixed)
    True
    """
    check_range(mu, "mu", low=0.0)
    check_positive(ridge, "ridge")
    M, A = laplacian(as_similarity(W), normed=normalized), as_features(A, "A")
    n = M.shape[0]
    if A.shape[0] != n:
        raise InputError(
            f"`A` has {A.shape[0]} rows, but the graph `W` has {n} vertices. Pass one row of "
            f"features for each vertex."
        )
    base = as_symmetric(shifted(M, mu), "W")
    ones = np.ones((n, 1))
    columns, core = ridge_factor(A, ridge)
    return TraceMin(SymmetricMap(base, ((ones, -mu / n), (columns, -mu * core))), k)
