"""k-means as a problem over S+."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from orthoplus import kernels
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.checks import as_matrix, check_entry_size, check_positive, check_shape
from orthoplus.core.errors import InputError
from orthoplus.core.problem import Problem
from orthoplus.core.trace_form import TraceForm
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.dense import Dense
from orthoplus.geometry.stiefel import assemble, cover_columns, labels_of
from orthoplus.linalg.k_means import search_k_means
from orthoplus.linalg.row_gains import entries_of, trace_gains
from orthoplus.linalg.spectral_sum import sum_of_squares

# The default weight, in units of the largest squared norm of a row.
_EVENNESS = 1e4
# Limits of the power method for the weights; each step reduces the error by about the weight.
_MAX_POWERS, _POWER_CHANGE = 1000, 1e-15


@dataclass(frozen=True, eq=False)
class KMeans(Problem):
    r"""k-means: max :math:`\mathrm{tr}(X^\top AA^\top X)` over X in S+ with :math:`XX^\top e = e`.

    The last equation requires that the positive entries of a column are equal,
    :math:`x_{ij} \in \{0, n_j^{-1/2}\}` for clusters of :math:`n_j` rows. For such X the inertia of
    k-means is

    .. math:: \sum_j \sum_{i \in C_j} \|a_i - c_j\|^2 = \|A\|_F^2 - \|A^\top X\|_F^2,

    and :math:`n - \|X^\top e\|^2 \ge 0` measures the violation of the equation over S+. Hence

    .. math:: f(X) = \|A\|_F^2 - \|A^\top X\|_F^2 + \mu (n - \|X^\top e\|^2)

    is the inertia at the indicator matrix of any labels, and its minimum is at most the smallest
    inertia.

    Parameters
    ----------
    A : array of shape (n, r)
        Data with one sample per row. The mean of the rows is subtracted, which does not change the
        inertia.
    k : int
        Number of clusters.
    weight : float, optional
        The weight mu; by default 10^4 times the largest squared norm of a row. Then f is below the
        inertia of the same labels by a relative 1e-4 at most, so that a minimizer of f is one of
        k-means. A smaller weight makes f easier to minimize over OB+, but the entries of a column
        differ more.

    Notes
    -----
    Ding, He and Simon, *On the equivalence of nonnegative matrix factorization and spectral
    clustering* (2005). f is the residual of orthogonal NMF of A with one more column,
    :math:`\sqrt{\mu} e`. If mu is at least the largest squared norm of a row, no entry of
    :math:`AA^\top + \mu ee^\top` is negative and `refine` is exact.
    A value or gradient costs O(nrk) for A of n x r.

    Examples
    --------
    >>> A = np.array([[0.0], [1.0], [9.0], [11.0]])
    >>> problem = KMeans(A, 2)
    >>> round(problem.value(problem.indicator(np.array([0, 0, 1, 1]))), 9)
    2.5
    """

    has_exact_gains: ClassVar[bool] = True
    is_column_symmetric: ClassVar[bool] = True

    A: FloatArray
    k: int
    weight: float | None = None

    def __post_init__(self) -> None:
        A = as_matrix(self.A, "A").astype(np.float64, copy=False)
        if not A.shape[1]:
            raise InputError(f"`A` has shape {A.shape}: at least one column is needed.")
        check_shape(A.shape[0], self.k, "X")
        object.__setattr__(self, "k", int(self.k))  # NumPy integers overflow
        # Only large entries are refused: squares that underflow belong to distances of zero.
        check_entry_size(max(1.0, float(A.max()), -float(A.min())), A.dtype, "A")
        A = A - A.mean(axis=0)
        weight = self.weight
        if weight is None:
            weight = _EVENNESS * self._largest(A) or 1.0
        check_positive(weight, "weight")
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "weight", float(weight))

    @staticmethod
    def _largest(A: FloatArray) -> float:
        return float(np.einsum("ij,ij->i", A, A).max())

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, k) for n rows of A."""
        return self.A.shape[0], self.k

    @cached_property
    def _extended(self) -> FloatArray:
        """Return A with the additional column sqrt(mu) e."""
        ones = np.full((len(self.A), 1), np.sqrt(self.weight or 0.0))
        return np.hstack([self.A, ones])

    @cached_property
    def _total(self) -> float:
        return float(np.vdot(self._extended, self._extended))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return the total - ||W||^2 with W = B'X, and -2BW, for the extended data B."""
        W = self._extended.T @ X
        return self._total - float(np.vdot(W, W)), -2.0 * (self._extended @ W)

    def value(self, X: FloatArray) -> float:
        """Return the total - ||B'X||_F^2 for the extended data B."""
        W = self._extended.T @ X
        return self._total - float(np.vdot(W, W))

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return -2BB'D, which does not depend on X."""
        return np.asarray(-2.0 * (self._extended @ (self._extended.T @ D)))

    @cached_property
    def lipschitz(self) -> float:
        """Return twice the largest squared singular value."""
        return 2.0 * float(np.linalg.norm(self._extended, 2)) ** 2

    @property
    def value_lipschitz(self) -> float:
        """Return sqrt(k) times the constant of the gradient, which is zero at X = 0."""
        return float(self.k**0.5 * self.lipschitz)

    def majorizer(self, X: FloatArray) -> FloatArray:
        """Return -grad f / 2, because f is concave."""
        return np.asarray(self._extended @ (self._extended.T @ X))

    def refine(self, X: FloatArray) -> FloatArray | None:
        """Return the leading left singular vector of the rows of each cluster, section 4 (ii)."""
        if self.weight is None or self.weight < self._largest(self.A):
            return None
        labels, x = entries_of(X)
        # Power method in all clusters at once: y_j = sum of x_i a_i, then x_i ~ a_i'y_j.
        for _ in range(_MAX_POWERS):
            Y = kernels.dense_group_sums(self._extended, labels, x, self.k)
            power = np.where(labels >= 0, kernels.dense_group_dots(self._extended, labels, Y), 0.0)
            norms = np.sqrt(np.bincount(labels + 1, power**2, minlength=self.k + 1))
            norms[0] = 1.0
            if not norms.all():  # the squares of tiny entries underflow
                return None
            power /= norms[labels + 1]
            change, x = float(np.abs(power - x).max()), power
            if change <= _POWER_CHANGE:
                break
        return assemble(labels, x.astype(X.dtype, copy=False), self.k)

    def move_gains(self, X: FloatArray) -> FloatArray:
        r"""Return the exact decrease of the inertia by each move (Hartigan and Wong).

        .. math:: \frac{n_l}{n_l - 1} \|a_i - c_l\|^2 - \frac{n_j}{n_j + 1} \|a_i - c_j\|^2 .

        For a small weight, where f differs more from the inertia, it is the decrease of f.
        """
        if (self.weight or 0.0) < _EVENNESS * self._largest(self.A):
            row_squares = np.einsum("ij,ij->i", self._extended, self._extended)
            return trace_gains(*entries_of(X), -self.majorizer(X), -row_squares)
        labels = labels_of(X)
        sizes = np.bincount(labels[labels >= 0], minlength=self.k).astype(np.float64)
        centers = (
            kernels.dense_group_sums(self.A, labels, np.ones(len(labels)), self.k) / sizes[:, None]
        )
        row_squares = np.einsum("ij,ij->i", self.A, self.A)
        # |a_i - c_j|^2 = |a_i|^2 - 2 a_i'c_j + |c_j|^2, clipped against rounding below zero.
        squares = row_squares[:, None] + (centers**2).sum(axis=1)
        distances = np.maximum(squares - 2.0 * (self.A @ centers.T), 0.0)
        own = np.maximum(labels, 0)
        others = sizes[own] - 1.0
        lost = distances[np.arange(len(labels)), own] * sizes[own] / np.maximum(others, 1.0)
        lost[(others == 0.0) & (labels >= 0)] = -np.inf  # no cluster may become empty
        lost = np.where(labels < 0, row_squares + (self.weight or 0.0), lost)
        gains = np.full((len(labels), self.k + 1), -np.inf)  # every row stays in a cluster
        gains[:, :-1] = lost[:, None] - sizes / (sizes + 1.0) * distances
        gains[labels >= 0, labels[labels >= 0]] = -np.inf
        return gains

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Return the indicator matrix of the labels that `search_k_means` finds."""
        return self.indicator(search_k_means(self.A, self.k, rng))

    def starts(self, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield results of `start` with new random numbers, without end."""
        while True:
            yield self.start(rng)

    def lower_bound(self) -> float:
        """Return the best rank-k residual of the extended matrix, minus a margin for rounding."""
        largest = sum_of_squares(self._extended, self.k, self._total).upper
        return max(self._total - largest - 0.5 * self.rounding(), 0.0)

    def trace_form(self) -> TraceForm:
        """Return the inertia, ||A||^2 - <AA', XX'> over the X with equal entries in a column."""
        A = Dense(self.A)
        total = A.squared_norm()
        return TraceForm(self.k, lambda v: total - v, total, least=0.0, factor=A, has_row_sums=True)

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float:
        """Return twice the rounding margin of two products with the extended data."""
        return 2.0 * rounding_margin(self._total, sum(self._extended.shape), dtype)

    def indicator(self, labels: IntArray) -> FloatArray:
        """Return the X of these labels with equal entries per column; every cluster needs a row."""
        labels, (n, k) = np.asarray(labels), self.shape
        if labels.shape != (n,) or labels.dtype.kind not in "iu":
            raise InputError(
                f"`labels` has shape {labels.shape} and dtype {labels.dtype}: one integer per "
                f"row is needed, {n} in total."
            )
        if labels.min() < 0 or labels.max() >= k or not cover_columns(labels, k):
            raise InputError(
                f"`labels` has the values {np.unique(labels).tolist()}: each of 0 to {k - 1} is "
                f"needed, and no other. Renumber them by "
                f"`np.unique(labels, return_inverse=True)[1]`."
            )
        return assemble(labels.astype(np.int64), np.ones(n), k)

    def inertia(self, labels: IntArray) -> float:
        """Return the sum of squared distances of the rows to the mean of their cluster."""
        return self.value(self.indicator(labels))
