r"""Groups of rows of the data: sums over groups, and the leading singular vector of each.

A matrix with one entry a row is a label and a weight a row; products with it cost one pass over A,
not k of them.
"""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from orthoplus import kernels
from orthoplus.data_matrix import times, times_transposed
from orthoplus.protocols import FloatArray, IntArray

# Two scores this near, in units of the rounding, are equal.
_TIE = 100
# Lanczos vectors of a cycle; a cycle starts from the best vector of the last.
_CYCLE = 16
_MAX_CYCLES = 30
# How often within a cycle the residual is looked at.
_LOOK = 2
# Residual, as a share of the eigenvalue: the eigenvalue is then exact to the square of it.
_RESIDUAL = 1e-11
# Residuals of products in the arithmetic of an operator fall to some roundings of it.
_ROUNDOFFS = 50
# A Lanczos vector this short, as a share of the eigenvalue, is rounding: the space is exhausted.
_BREAKDOWN = 1e-14


def group_sums(A: Any, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    r"""W = A'X for the X with ``weights[i]`` in column ``labels[i]`` of row i, as k x r.

    Rows with label -1 count nowhere. One pass over A, O(nnz); sums in float64.

    Examples
    --------
    >>> group_sums(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 0]), np.array([1.0, 2.0]), 1)
    array([[ 7., 10.]])
    """
    if isinstance(A, LinearOperator):
        X = np.zeros((len(labels), k))
        rows = np.flatnonzero(labels >= 0)
        X[rows, labels[rows]] = weights[rows]
        return times_transposed(A, X).T.astype(np.float64)
    if issparse(A):
        parts = (A.data, A.indices, A.indptr)
        return kernels.sparse_group_sums(parts, labels, weights, (k, A.shape[1]))
    return kernels.dense_group_sums(A, labels, weights, k)


def group_dots(A: Any, labels: IntArray, W: FloatArray) -> FloatArray:
    """a_i'w_j for the group j of each row i, 0 for a row with label -1; W is k x r, O(nnz)."""
    if isinstance(A, LinearOperator):
        dots = times(A, W.T)[np.arange(len(labels)), labels].astype(np.float64)
        return np.where(labels >= 0, dots, 0.0)
    if issparse(A):
        return kernels.sparse_group_dots((A.data, A.indices, A.indptr), labels, W)
    return kernels.dense_group_dots(A, labels, W)


def best_column(scores: FloatArray) -> IntArray:
    """The column of each row's largest score; the first among those equal up to rounding.

    Examples
    --------
    >>> best_column(np.array([[1.0, 1.0 + 1e-15], [1.0, 2.0]]))
    array([0, 1])
    """
    top = scores.max(axis=1, keepdims=True)
    near = scores >= top * (1.0 - _TIE * np.finfo(scores.dtype).eps)
    return np.asarray(near.argmax(axis=1))


def unit_rows(W: FloatArray) -> FloatArray:
    """W with rows of unit norm; rows of zeros stay."""
    sizes = np.linalg.norm(W, axis=1, keepdims=True)
    return np.divide(W, sizes, out=np.zeros_like(W), where=sizes > 0)


def leading_vectors(
    A: Any, labels: IntArray, start: FloatArray, k: int, residual: float | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""The leading left singular vector of the rows of each group, and its squared singular value.

    Parameters
    ----------
    A : nonnegative data matrix of shape (n, r)
    labels : ndarray of shape (n,)
        The group of each row, -1 for none.
    start : ndarray of shape (n,)
        Positive on the groups: then it is not orthogonal to the vector sought, which is nonnegative
        by Perron and Frobenius.
    k : int
        Number of groups.
    residual : float, optional
        Where to stop, as a share of the square; by default near the rounding.

    Returns
    -------
    x : ndarray of shape (n,)
        Nonnegative, of unit norm on each group, 0 where the label is -1; for a group of zero rows
        the start.
    squares : ndarray of shape (k,)
        :math:`\sigma_1(A_j)^2`, 0 for an empty group.

    Notes
    -----
    Lanczos in all groups at once, in cycles of sixteen: a product with all groups is one pass over
    A and back, O(nnz), so that k does not enter but for the small eigenproblems.

    Examples
    --------
    >>> A = np.array([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0]])
    >>> x, squares = leading_vectors(A, np.array([0, 0, 1]), np.ones(3), 2)
    >>> x.round(12), squares.round(12)
    (array([0.6, 0.8, 1. ]), array([25.,  4.]))
    """
    space = _Groups(A, labels, k, _RESIDUAL if residual is None else residual)
    x = space.unit(np.where(labels >= 0, np.abs(start).astype(np.float64), 0.0))
    squares: FloatArray = np.zeros(k)
    for _ in range(_MAX_CYCLES):
        x, squares, is_exact = _lanczos_cycle(space, x)
        if is_exact:
            break
    return x, squares


class _Groups:
    """Vectors over the rows, as one vector a group: their inner products, and the operator AA'."""

    def __init__(self, A: Any, labels: IntArray, k: int, residual: float) -> None:
        self.A, self.k = A, k
        self.labels = np.ascontiguousarray(labels, dtype=np.int64)
        self.index = np.where(self.labels >= 0, self.labels, k)  # those without a group: the last
        own = isinstance(A, LinearOperator)
        eps = float(np.finfo(A.dtype).eps) if own else 0.0
        self.tol = max(residual, _ROUNDOFFS * eps)

    def dots(self, v: FloatArray, w: FloatArray) -> FloatArray:
        sums = np.bincount(self.index, v * w, minlength=self.k + 1)[: self.k]
        return sums.astype(np.float64, copy=False)

    def scale(self, factors: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(np.append(factors, 0.0)[self.index] * v)

    def unit(self, v: FloatArray) -> FloatArray:
        # First by the largest entry: no overflow, no underflow.
        top = np.zeros(self.k + 1)
        np.maximum.at(top, self.index, np.abs(v))
        v = self.scale(_inverse(top[: self.k]), v)
        return self.scale(_inverse(np.sqrt(self.dots(v, v))), v)

    def apply(self, v: FloatArray) -> FloatArray:
        return group_dots(self.A, self.labels, group_sums(self.A, self.labels, v, self.k))


def _lanczos_cycle(space: _Groups, x: FloatArray) -> tuple[FloatArray, FloatArray, bool]:
    """The best vectors of the Krylov spaces of x, their Ritz values, and whether they are exact."""
    basis, T = [x], np.zeros((space.k, _CYCLE, _CYCLE))
    while True:
        s = len(basis) - 1
        w, T[:, s, : s + 1] = _orthogonalise(space, basis, space.apply(basis[s]))
        T[:, :s, s] = T[:, s, :s]
        beta = np.sqrt(space.dots(w, w))
        beta[beta <= _BREAKDOWN * np.abs(T).max(axis=(1, 2))] = 0.0
        is_full = s + 1 == _CYCLE or not beta.any()
        if is_full or (s + 1) % _LOOK == 0:
            values, vectors = np.linalg.eigh(T[:, : s + 1, : s + 1])
            best, squares = vectors[:, :, -1], np.maximum(values[:, -1], 0.0)
            is_exact = bool((beta * np.abs(best[:, -1]) <= space.tol * squares).all())
            if is_full or is_exact:
                return _ritz_vector(space, basis, best), squares, is_exact
        basis.append(space.scale(_inverse(beta), w))


def _orthogonalise(
    space: _Groups, basis: list[FloatArray], w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """w without its part along the basis, twice for the rounding; and its coordinates there."""
    along = np.zeros((space.k, len(basis)))
    for _ in range(2):
        for t, v in enumerate(basis):
            part = space.dots(v, w)
            w = w - space.scale(part, v)
            along[:, t] += part
    return w, along


def _ritz_vector(space: _Groups, basis: list[FloatArray], best: FloatArray) -> FloatArray:
    found = np.zeros_like(basis[0])
    for t, v in enumerate(basis):
        found += space.scale(best[:, t], v)
    # A group of zero rows has no direction of its own.
    lost = np.append(space.dots(found, found) < 0.5, False)
    return space.unit(np.where(lost[space.index], basis[0], np.abs(found)))


def _inverse(numbers: FloatArray) -> FloatArray:
    return np.divide(1.0, numbers, out=np.zeros_like(numbers), where=numbers > 0)
