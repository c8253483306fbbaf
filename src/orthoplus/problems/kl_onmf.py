"""Orthogonal NMF with the Kullback-Leibler divergence."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from orthoplus.core.checks import check_shape
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import as_counts
from orthoplus.data.count_groups import (
    ENTRY_ARRAYS,
    independence_divergence,
    row_entropies,
    sum_groups,
    x_log_x,
)
from orthoplus.data.divergence import kl_divergence, ratio_products, ratio_rows, ratio_squares
from orthoplus.data.memory import MemoryMatrix
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.geometry.stiefel import assemble, labels_of
from orthoplus.linalg.starts import leading_centers, svd_start


@dataclass(frozen=True, eq=False)
class KLONMF(Problem):
    r"""min :math:`D(A \,\|\, XY^\top)` over X in S+, Y >= 0: orthogonal NMF for counts.

    .. math:: D(A \,\|\, M) = \sum_{il} a_{il} \log \frac{a_{il}}{m_{il}} - a_{il} + m_{il}.

    For fixed clusters the optimum has a closed form: the model of cluster j is (row sums) x
    (column sums) / total of its rows, so that up to a constant

    .. math:: \min D = -\sum_j \sum_l c_{jl} \log \frac{c_{jl}}{\sum_m c_{jm}}, \qquad
              c_j = \sum_{i \in C_j} a_i.

    Parameters
    ----------
    A : nonnegative array, SciPy sparse matrix or DataMatrix of shape (n, r)
        The data. Only the stored entries of a sparse matrix are used. h5py datasets, Zarr arrays
        and Dask arrays are read in blocks of rows, see `orthoplus.data.as_data`. The divergence is
        infinite if a nonzero row of A has a zero row in X.
    k : int
        Number of columns of X.

    Notes
    -----
    See Nkurunziza, Nahayo and Gillis, arXiv 2410.07786. Up to constants, the objective is the
    negative log-likelihood of Poisson counts, or of a mixture of multinomials with hard labels.
    For X in S+ the best Y is :math:`y_j = c_j / \sum_{i \in C_j} x_{ij}`; elsewhere a row counts in
    each cluster by its share, which makes f smooth for X > 0. Because f is infinite at some points
    of OB+, it has no Lipschitz constant, and `value_lipschitz` is None. A pass costs O(nnz k). The
    recommended method is `orthoplus.methods.KLAlternating`.

    Examples
    --------
    >>> A = np.array([[1.0, 3.0, 0.0], [2.0, 6.0, 0.0], [0.0, 0.0, 5.0]])
    >>> problem = KLONMF(A, 2)
    >>> X = problem.refine(np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]]))
    >>> abs(round(problem.value(X), 12))
    0.0
    """

    has_exact_gains: ClassVar[bool] = True
    is_column_symmetric: ClassVar[bool] = True

    A: Any
    k: int

    def __post_init__(self) -> None:
        A = as_counts(self.A)
        check_shape(A.shape[0], self.k, "X")
        object.__setattr__(self, "k", int(self.k))  # NumPy integers overflow
        object.__setattr__(self, "A", A)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, k) for n rows of A."""
        return self.A.shape[0], self.k

    @cached_property
    def row_sums(self) -> Any:
        """Return the row sums of A as a vector of the data matrix."""
        return self.A.row_sums()

    @cached_property
    def total(self) -> float:
        """Return the divergence of A from (row sums) x (column sums) / total, a single cluster.

        The ratio of f to it is the unexplained fraction of the data.
        """
        return independence_divergence(self.A)

    @cached_property
    def constant(self) -> float:
        """Return the difference of f and `orthoplus.data.count_groups.group_divergence`."""
        return float(self.A.reduce_rows(_sum_of, row_entropies(self.A), vectors_only=True))

    def value(self, X: FloatArray) -> float:
        """Return D(A || XY') with the best Y for this X."""
        return kl_divergence(self.A, X, self.second_block(X))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return D(A || XY(X)') and its gradient, including the part from Y(X), 0 over S+."""
        Y, rows, sizes = self.second_block(X), _row_totals(X), X.sum(axis=0, dtype=np.float64)
        ZY, ZtX = ratio_products(self.A, X, Y)
        in_y = (sizes - ZtX) / _or_one(sizes)  # the gradient in Y, over the size of its column
        # The chain rule through y_j = (sum of s_ij a_i) / size_j: one term from the shares s_ij,
        # one from the size of the column.
        through = self.A.times(in_y)
        shares = X / _or_one(rows)
        gradient = Y.sum(axis=0, dtype=np.float64) - ZY - np.einsum("lj,lj->j", Y, in_y)
        gradient += (through - (through * shares).sum(axis=1, keepdims=True)) / _or_one(rows)
        return kl_divergence(self.A, X, Y), gradient.astype(X.dtype, copy=False)

    def second_block(self, X: FloatArray) -> FloatArray:
        """Return y_j = (sum of s_ij a_i) / (sum of x_ij), with shares s_ij = x_ij / (row sum).

        Over S+ a share is 0 or 1, and this is the minimizer.
        """
        shares = X / _or_one(_row_totals(X))
        Y = self.A.times_transposed(shares) / _or_one(X.sum(axis=0, dtype=np.float64))
        return np.asarray(Y, dtype=X.dtype)

    def freeze(self, X: FloatArray) -> Problem:
        """Return D(A || XY') in X alone, with the best Y for this X."""
        return KLFit(self.A, self.second_block(X))

    def refine(self, X: FloatArray) -> FloatArray:
        """Return weights proportional to row sums of A; a cluster of zero rows keeps its own."""
        labels, sizes = labels_of(X), self.A.gather(self.row_sums)
        kept = np.flatnonzero(labels >= 0)
        own = np.bincount(labels[kept], sizes[kept], minlength=self.k) > 0
        weights = np.where(own[labels], sizes, X.max(axis=1))
        return assemble(labels, weights.astype(X.dtype, copy=False), self.k)

    def move_gains(self, X: FloatArray) -> FloatArray:
        r"""Return exact gains by the closed form, in O(nnz k) for all moves.

        A cluster with the total s contributes :math:`s \log s - \sum_l c_l \log c_l`. A nonzero row
        must stay in a cluster.
        """
        labels = labels_of(X)
        sums = sum_groups(self.A, self.A.scatter(labels), self.k)
        counts = np.bincount(labels[labels >= 0], minlength=self.k)
        gains = self.A.map_rows(_move_gains, self.A.scatter(labels), args=(sums, counts))
        return np.asarray(self.A.gather(gains))

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Return NNDSVD with zeros replaced by the mean and unit columns; f is finite there."""
        if self.A.has_cheap_products:
            X = svd_start(self.A, self.k, "nndsvd", rng).astype(np.float64)
        else:
            centers = leading_centers(self.A, self.k, rng).vectors
            X = project_oblique_plus(self.A.times(centers.T)).astype(np.float64)
        # Use the mean of X, not of A as in NNDSVDa, because X scales with the square root of A.
        mean = X.mean()
        X = np.where(X > 0, X, mean) + 1e-3 * mean
        return np.asarray(X / np.linalg.norm(X, axis=0), dtype=self.A.dtype)


@dataclass(frozen=True, eq=False)
class KLFit(Problem):
    r"""D(A || XY') for a fixed Y, with the gradient :math:`e (e^\top Y) - ZY`, Z = A / XY'."""

    A: Any
    Y: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, k) for n rows of A and k columns of Y."""
        return self.A.shape[0], self.Y.shape[1]

    def value(self, X: FloatArray) -> float:
        """Return D(A || XY') for the fixed Y."""
        return kl_divergence(self.A, X, self.Y)

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return D(A || XY') and the gradient e(e'Y) - ZY with Z = A / XY'."""
        gradient = self.Y.sum(axis=0, dtype=np.float64) - ratio_rows(self.A, X, self.Y)
        return self.value(X), gradient.astype(X.dtype, copy=False)

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return ((A / (XY')^2) o DY') Y, summed over the stored entries of A."""
        return ratio_squares(self.A, X, self.Y, D).astype(D.dtype, copy=False)

    def second_block(self, X: FloatArray) -> FloatArray:
        """Return the fixed Y."""
        return self.Y


def _sum_of(vector: FloatArray) -> float:
    return float(vector.sum())


def _move_gains(
    A: MemoryMatrix, labels: IntArray, sums: FloatArray, counts: IntArray
) -> FloatArray:
    gains = np.empty((len(labels), len(sums) + 1))
    for part in A.entry_ranges(ENTRY_ARRAYS):
        gains[part] = _gains_of_rows(A.rows(part), labels[part], sums, counts)
    return gains


def _gains_of_rows(
    A: MemoryMatrix, labels: IntArray, sums: FloatArray, counts: IntArray
) -> FloatArray:
    data, indices, indptr = A.csr_parts()
    k, rows = len(sums), np.repeat(np.arange(len(labels)), np.diff(indptr))
    is_dense = data.size > 0 and not indices.size
    columns = indices if not is_dense else np.tile(np.arange(A.shape[1]), len(labels))
    entries, sizes = data.astype(np.float64), A.row_sums()
    totals, gains = sums.sum(axis=1), np.full((len(labels), k + 1), -np.inf)

    def change(before: FloatArray, after: FloatArray) -> FloatArray:
        terms = x_log_x(after) - x_log_x(before)
        return np.asarray(np.bincount(rows, terms, minlength=len(labels)), dtype=np.float64)

    # Loss of the own group, g(c_l) - g(c_l - a), and gain of group j, g(c_j + a) - g(c_j), where
    # g(c) = sum_l c_l log c_l - s log s.
    own = np.maximum(labels, 0)
    here = sums[own[rows], columns]
    loss = change(np.maximum(here - entries, 0.0), here)
    loss -= x_log_x(totals[own]) - x_log_x(np.maximum(totals[own] - sizes, 0.0))
    loss[labels < 0] = 0.0
    loss[(labels >= 0) & (counts[own] < 2)] = np.inf
    for j in range(k):
        there = sums[j, columns]
        gain = change(there, there + entries)
        gain -= x_log_x(totals[j] + sizes) - x_log_x(totals[j : j + 1])
        gains[:, j] = np.where(labels == j, -np.inf, gain - loss)
    return gains


def _row_totals(X: FloatArray) -> FloatArray:
    return np.asarray(X.sum(axis=1, keepdims=True, dtype=np.float64))


def _or_one(numbers: FloatArray) -> FloatArray:
    """Replace 0 by 1 in a denominator whose numerator is also 0."""
    return np.where(numbers > 0, numbers, 1.0)
