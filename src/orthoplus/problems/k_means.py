"""k-means as a problem over S+."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from orthoplus.bounds import rounding_margin
from orthoplus.checks import as_matrix, check_positive, check_shape
from orthoplus.geometry import assemble, cover_columns
from orthoplus.protocols import FloatArray, IntArray, Problem
from orthoplus.spectral_sum import sum_of_squares


@dataclass(frozen=True, eq=False)
class KMeans(Problem):
    r"""k-means: max :math:`\mathrm{tr}(X^\top AA^\top X)` over X in S+ with :math:`XX^\top e = e`.

    The last equation says that the entries of a column are equal, :math:`x_{ij} \in \{0,
    n_j^{-1/2}\}` for clusters of :math:`n_j` rows; there the inertia of k-means is

    .. math:: \sum_j \sum_{i \in C_j} \|a_i - c_j\|^2 = \|A\|_F^2 - \|A^\top X\|_F^2,

    and :math:`n - \|X^\top e\|^2 \ge 0` over S+ measures how far it is from holding. So

    .. math:: f(X) = \|A\|_F^2 - \|A^\top X\|_F^2 + \mu (n - \|X^\top e\|^2)

    is the inertia at the indicator matrix of any labels, and its minimum is not above the least.

    Parameters
    ----------
    A : array of shape (n, r)
        Of any sign, one sample a row. The mean of the rows is taken off, which changes no inertia.
    k : int
    weight : float, optional
        mu; by default the largest squared norm of a row. As it grows the minimisers become
        indicator matrices, and harder to find.

    Notes
    -----
    Ding, He and Simon, *On the equivalence of nonnegative matrix factorization and spectral
    clustering* (2005). f is the residual of orthogonal NMF of A with one more column,
    :math:`\sqrt{\mu} e`. Where mu is at least the largest squared norm of a row, no entry of
    :math:`AA^\top + \mu ee^\top` is negative and `refine` is exact.
    A value or gradient costs O(nrk) for A of n x r.

    Examples
    --------
    >>> A = np.array([[0.0], [1.0], [9.0], [11.0]])
    >>> problem = KMeans(A, 2)
    >>> round(problem.value(problem.indicator(np.array([0, 0, 1, 1]))), 9)
    2.5
    """

    A: FloatArray
    k: int
    weight: float | None = None

    def __post_init__(self) -> None:
        A = as_matrix(self.A, "A").astype(np.float64, copy=False)
        check_shape(A.shape[0], self.k, "X")
        A = A - A.mean(axis=0)
        weight = self.weight
        if weight is None:
            weight = self._largest(A) or 1.0
        check_positive(weight, "weight")
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "weight", float(weight))

    @staticmethod
    def _largest(A: FloatArray) -> float:
        return float(np.einsum("ij,ij->i", A, A).max())

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[0], self.k

    @cached_property
    def _extended(self) -> FloatArray:
        """A with the column sqrt(mu) e."""
        ones = np.full((len(self.A), 1), np.sqrt(self.weight or 0.0))
        return np.hstack([self.A, ones])

    @cached_property
    def _total(self) -> float:
        return float(np.vdot(self._extended, self._extended))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        W = self._extended.T @ X
        return self._total - float(np.vdot(W, W)), -2.0 * (self._extended @ W)

    def value(self, X: FloatArray) -> float:
        W = self._extended.T @ X
        return self._total - float(np.vdot(W, W))

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return np.asarray(-2.0 * (self._extended @ (self._extended.T @ D)))

    @cached_property
    def lipschitz(self) -> float:
        """Twice the largest squared singular value."""
        return 2.0 * float(np.linalg.norm(self._extended, 2)) ** 2

    def majoriser(self, X: FloatArray) -> FloatArray:
        """-grad f / 2: f is concave."""
        return np.asarray(self._extended @ (self._extended.T @ X))

    def refine(self, X: FloatArray) -> FloatArray | None:
        """The leading left singular vector of the rows of each cluster, section 4 (ii)."""
        if self.weight is None or self.weight < self._largest(self.A):
            return None
        refined = np.zeros_like(X)
        for j in range(self.k):
            rows = np.flatnonzero(X[:, j] > 0)
            left = np.linalg.svd(self._extended[rows], full_matrices=False)[0][:, 0]
            refined[rows, j] = np.abs(left) / np.linalg.norm(left)
        return refined

    def lower_bound(self) -> float:
        """The best residual of rank k of the extended matrix, less a margin for rounding."""
        largest = sum_of_squares(self._extended, self.k, self._total).upper
        return max(self._total - largest - 0.5 * self.rounding(), 0.0)

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float:
        return 2.0 * rounding_margin(self._total, sum(self._extended.shape), dtype)

    def indicator(self, labels: IntArray) -> FloatArray:
        """The X of these labels with equal entries in a column; every cluster needs a row."""
        labels, (n, k) = np.asarray(labels), self.shape
        if labels.shape != (n,) or labels.dtype.kind not in "iu":
            raise ValueError(
                f"`labels` has shape {labels.shape} and dtype {labels.dtype}: a whole number for "
                f"each of the {n} rows is needed."
            )
        if labels.min() < 0 or labels.max() >= k or not cover_columns(labels, k):
            raise ValueError(
                f"`labels` has the values {np.unique(labels).tolist()}: each of 0 to {k - 1} is "
                f"needed, and no other. `np.unique(labels, return_inverse=True)[1]` numbers groups."
            )
        return assemble(labels.astype(np.int64), np.ones(n), k)

    def inertia(self, labels: IntArray) -> float:
        """The sum of squared distances of the rows to the mean of their cluster."""
        return self.value(self.indicator(labels))
