r"""The best vector of each group of rows: leading singular vectors, of all groups at once.

A product with all groups is one pass over A and back, so that k does not enter but for the small
eigenproblems.
"""

from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import DataMatrix, MemoryMatrix
from orthoplus.data.groups import reciprocals, unit_rows

# Lanczos vectors of a cycle; a cycle starts from the best vector of the last.
_CYCLE = 16
_MAX_CYCLES = 30
# How often within a cycle the residual is looked at.
_LOOK = 2
# Residual, as a share of the eigenvalue: the eigenvalue is then exact to the square of it.
_RESIDUAL = 1e-11
# Entries of a unit vector below this are left over from its start: a row that meets no others meets
# none, instead of the group that rounding makes the first.
_LEFT_OVER = 1e-10
# Residuals of products in the arithmetic of an operator fall to some roundings of it.
_OPERATOR_ROUNDOFFS = 50
# Steps of the projected power method, and the residual at which it ends: it gains a constant factor
# a step, and the value is exact to the square.
_MAX_POWERS = 500
_POWER_RESIDUAL = 1e-8
# A power step that helped is tried again this much longer.
_LONGER = 1.5
# Numbers in the Gram matrices of all groups, if they are formed.
_MOST_GRAM = 1 << 21
# A Lanczos vector this short, as a share of the eigenvalue, is rounding: the space is exhausted.
_BREAKDOWN = 1e-14


class GroupedRows:
    """What a problem of the form ``constant - ||A'X||^2`` tells a search over groups of rows.

    Attributes
    ----------
    A : data matrix of shape (n, r)
    k : int
    allow_negative : bool
        Whether products of two rows of A may be negative.
    """

    A: DataMatrix
    k: int
    allow_negative: bool

    @cached_property
    def row_squares(self) -> FloatArray:
        """||a_i||^2 for each row of A; a vector in the form of A."""
        return self.A.row_squares()

    def group_vectors(
        self, labels: IntArray, start: FloatArray, residual: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        r"""Return a nonnegative unit vector x_j for each group, and :math:`\|A_j^\top x_j\|^2`.

        The leading left singular vector, or `nonnegative_vectors` for data of any sign.
        """
        find = nonnegative_vectors if self.allow_negative else leading_vectors
        return find(self.A, labels, start, self.k, residual)

    def group_directions(
        self, labels: Any, start: Any, residual: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        r"""Return unit vectors along :math:`y_j = A_j^\top x_j`, of shape (k, r), and squares.

        For the x_j of `group_vectors`; A may be in row blocks, labels and start in their form.
        """
        if not self.allow_negative:
            return leading_directions(self.A, labels, start, self.k, residual)
        x, squares = nonnegative_vectors(self.A, labels, start, self.k, residual)
        return unit_rows(self.A.group_sums(labels, x, self.k)), squares


def leading_directions(
    A: DataMatrix, labels: Any, weights: Any, k: int, residual: float | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Return the leading *right* singular vector of the rows of each group, and its squared value.

    Parameters
    ----------
    A, labels, k, residual
        As in `leading_vectors`; A may be in row blocks.
    weights : vector of n numbers
        The start; 1 stands for those that are not positive, since no entry of the vector sought
        need be zero.

    Returns
    -------
    V : ndarray of shape (k, r)
        Nonnegative rows of unit norm; 0 for a group of zero rows.
    squares : ndarray of shape (k,)

    Notes
    -----
    Lanczos over the k x r matrices V, one pass over A per step, if these are shorter than the n
    entries of X: then nothing of length n is made. Otherwise over X. Narrow data that is not in
    memory takes one pass, for the Gram matrix of each group.
    """
    n, r = A.shape
    if has_group_grams(A, k):
        V, squares = _gram_directions(A.reduce_rows(_group_grams, labels, args=(k,)))
    elif k * r > n:
        weights = A.gather(weights)
        start = np.where(weights > 0, weights, weights.dtype.type(1))
        x, squares = leading_vectors(A, labels, start, k, residual)
        V = unit_rows(A.group_sums(labels, x, k))
    else:
        space = _Directions(A, labels, k, _RESIDUAL if residual is None else residual)
        first = A.reduce_rows(_start_sums, labels, weights, args=(k,))
        V, squares = _leading(space, first)
    return np.where(V > _LEFT_OVER, V, 0.0), squares


def has_group_grams(A: DataMatrix, k: int) -> bool:
    """Return whether the Gram matrices of k groups cost less than passes over the data."""
    r = A.shape[1]
    return A.has_entries and not A.has_cheap_products and not A.has_gaps and k * r * r <= _MOST_GRAM


def _group_grams(A: MemoryMatrix, labels: IntArray, k: int) -> FloatArray:
    """Return A_j'A_j for each group, of shape (k, r, r), in float64."""
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(k + 1))
    parts = (A.sample_rows(order[low:high]) for low, high in pairwise(edges))
    return np.stack([part.gram() for part in parts])


def _gram_directions(grams: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the leading eigenvectors, nonnegative by Perron and Frobenius, and eigenvalues."""
    values, vectors = np.linalg.eigh(grams)
    squares = np.maximum(values[:, -1], 0.0)
    return np.where(squares[:, None] > 0, np.abs(vectors[:, :, -1]), 0.0), squares


def leading_vectors(
    A: DataMatrix, labels: IntArray, start: FloatArray, k: int, residual: float | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Return the leading left singular vector of the rows of each group, and its squared value.

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
    >>> from orthoplus.data import as_data
    >>> A = as_data([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0]])
    >>> x, squares = leading_vectors(A, np.array([0, 0, 1]), np.ones(3), 2)
    >>> x.round(12), squares.round(12)
    (array([0.6, 0.8, 1. ]), array([25.,  4.]))
    """
    space = _Groups(A, labels, k, _RESIDUAL if residual is None else residual)
    first = np.abs(A.gather(start)).astype(np.float64)
    x, squares = _leading(space, np.where(space.labels >= 0, first, 0.0))
    return A.scatter(x), squares


def nonnegative_vectors(
    A: DataMatrix, labels: IntArray, start: FloatArray, k: int, residual: float | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Return a nonnegative principal vector of the rows of each group, for data of any sign.

    .. math:: \max \|A_j^\top x\|_2^2 \quad \text{s.t.} \quad x \ge 0,\ \|x\|_2 = 1,

    locally: the leading left singular vector of A_j need not be nonnegative, and finding the best
    nonnegative one is NP-hard.

    Parameters
    ----------
    A, labels, k
        As in `leading_vectors`; A may have negative entries.
    start : ndarray of shape (n,)
        Its positive part is the start; that of a group without is the row with the largest norm.
    residual : float, optional
        Where to stop, as a share of the square. By default as exact as the method gets, and the
        best of three starts: the given one, and both parts of the leading singular vector.

    Returns
    -------
    x, squares
        As in `leading_vectors`; the squares are not below those of the start.

    Notes
    -----
    Projected power method, :math:`x \gets (A_jA_j^\top x)^+` normalized, which never lowers the
    square since :math:`A_jA_j^\top` is positive semidefinite; between two steps a longer one along
    the last is tried. Two products with all groups a step, O(nnz).

    Examples
    --------
    >>> from orthoplus.data import as_data
    >>> A = as_data([[3.0, 0.0], [-4.0, 0.0], [0.0, -2.0]])
    >>> x, squares = nonnegative_vectors(A, np.array([0, 0, 1]), np.ones(3), 2)
    >>> x, squares
    (array([0., 1., 1.]), array([16.,  4.]))
    """
    rough = _POWER_RESIDUAL if residual is None else residual
    space = _Groups(A, labels, k, rough, is_signed=True)
    starts = [A.gather(start)]
    if residual is None:
        noise = np.random.default_rng(0).standard_normal(len(space.labels))
        whole, _ = _leading(space, np.where(space.labels >= 0, noise, 0.0))
        starts += [whole, -whole]
    runs = [_project_powers(space, _positive_start(space, first)) for first in starts]
    best = np.argmax([squares for _, squares in runs], axis=0)
    chosen = np.append(best, 0)[space.index]
    x = np.choose(chosen, [x for x, _ in runs])
    return A.scatter(x), np.choose(best, [squares for _, squares in runs])


def _leading(space: "_Space", start: FloatArray) -> tuple[FloatArray, FloatArray]:
    x = space.unit(start)
    squares: FloatArray = np.zeros(space.k)
    for _ in range(_MAX_CYCLES):
        x, squares, is_exact = _lanczos_cycle(space, x)
        if is_exact:
            break
    return x, squares


class _Space(Protocol):
    """One vector for each group: their inner products, and an operator."""

    k: int
    tol: float
    is_signed: bool

    def dots(self, v: FloatArray, w: FloatArray) -> FloatArray: ...
    def scale(self, factors: FloatArray, v: FloatArray) -> FloatArray: ...
    def unit(self, v: FloatArray) -> FloatArray: ...
    def apply(self, v: FloatArray) -> FloatArray: ...


def _tolerance(A: DataMatrix, residual: float) -> float:
    # Sums over entries are in float64, products of an operator in its own arithmetic.
    return (
        residual
        if A.has_entries
        else max(residual, _OPERATOR_ROUNDOFFS * float(np.finfo(A.dtype).eps))
    )


class _Directions:
    """Right singular vectors, k x r, and the operator A_j'A_j."""

    is_signed = False

    def __init__(self, A: DataMatrix, labels: Any, k: int, residual: float) -> None:
        self.A, self.labels, self.k = A, labels, k
        self.tol = _tolerance(A, residual)

    def dots(self, v: FloatArray, w: FloatArray) -> FloatArray:
        return np.einsum("jc,jc->j", v, w)

    def scale(self, factors: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(factors[:, None] * v)

    def unit(self, v: FloatArray) -> FloatArray:
        v = self.scale(reciprocals(np.abs(v).max(axis=1, initial=0.0)), v)
        return self.scale(reciprocals(np.sqrt(self.dots(v, v))), v)

    def apply(self, v: FloatArray) -> FloatArray:
        return self.A.group_products(self.labels, v)


class _Groups:
    """Vectors over the rows, as one vector a group: their inner products, and the operator AA'."""

    def __init__(
        self, A: DataMatrix, labels: IntArray, k: int, residual: float, *, is_signed: bool = False
    ) -> None:
        self.A, self.k, self.is_signed = A, k, is_signed
        self.labels = np.ascontiguousarray(A.gather(labels), dtype=np.int64)
        self._own_labels = A.scatter(self.labels)
        self.index = np.where(self.labels >= 0, self.labels, k)  # those without a group: the last
        self.tol = _tolerance(A, residual)

    def dots(self, v: FloatArray, w: FloatArray) -> FloatArray:
        sums = np.bincount(self.index, v * w, minlength=self.k + 1)[: self.k]
        return sums.astype(np.float64, copy=False)

    def scale(self, factors: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(np.append(factors, 0.0)[self.index] * v)

    def unit(self, v: FloatArray) -> FloatArray:
        # First by the largest entry: no overflow, no underflow.
        top = np.zeros(self.k + 1)
        np.maximum.at(top, self.index, np.abs(v))
        v = self.scale(reciprocals(top[: self.k]), v)
        return self.scale(reciprocals(np.sqrt(self.dots(v, v))), v)

    def apply(self, v: FloatArray) -> FloatArray:
        A, labels = self.A, self._own_labels
        return A.gather(A.group_dots(labels, A.group_sums(labels, A.scatter(v), self.k)))


def _positive_start(space: _Groups, start: FloatArray) -> FloatArray:
    """Return the positive part with unit groups; the longest row alone for a group without one."""
    x = np.where(space.labels >= 0, np.maximum(start, 0.0), 0.0).astype(np.float64)
    bare = np.append(np.bincount(space.index, x, minlength=space.k + 1)[: space.k] <= 0, False)
    if bare.any():
        sizes = np.where(bare[space.index], space.A.gather(space.A.row_squares()), -1.0)
        order = np.argsort(-sizes, kind="stable")
        groups, first = np.unique(space.index[order], return_index=True)
        x[order[first[bare[groups]]]] = 1.0
    return space.unit(x)


def _project_powers(space: _Groups, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Run the projected power method from a nonnegative start with unit groups."""
    image = space.apply(x)
    squares, length = space.dots(x, image), np.ones(space.k)
    for _ in range(_MAX_POWERS):
        forward = np.maximum(image, 0.0)
        left = forward - space.scale(squares, x)
        if (np.sqrt(space.dots(left, left)) <= space.tol * squares).all():
            break
        stays = np.append(squares <= 0, False)[space.index]  # zero rows have no direction
        step = space.unit(np.where(stays, x, forward))
        image = space.apply(step)
        squares = space.dots(step, image)
        trial = space.unit(np.maximum(step + space.scale(length, step - x), 0.0))
        trial_image = space.apply(trial)
        trial_squares = space.dots(trial, trial_image)
        helps = trial_squares > squares
        length = np.where(helps, _LONGER * length, 1.0)
        squares = np.where(helps, trial_squares, squares)
        rows = np.append(helps, False)[space.index]
        x, image = np.where(rows, trial, step), np.where(rows, trial_image, image)
    return x, squares


def _lanczos_cycle(space: _Space, x: FloatArray) -> tuple[FloatArray, FloatArray, bool]:
    """Return the best vectors of the Krylov spaces of x, Ritz values, and if they are exact."""
    basis, T = [x], np.zeros((space.k, _CYCLE, _CYCLE))
    while True:
        s = len(basis) - 1
        w, T[:, s, : s + 1] = _orthogonalize(space, basis, space.apply(basis[s]))
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
        basis.append(space.scale(reciprocals(beta), w))


def _orthogonalize(
    space: _Space, basis: list[FloatArray], w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Take from w its part along the basis, twice for the rounding; return its coordinates, too."""
    along = np.zeros((space.k, len(basis)))
    for _ in range(2):
        for t, v in enumerate(basis):
            part = space.dots(v, w)
            w = w - space.scale(part, v)
            along[:, t] += part
    return w, along


def _ritz_vector(space: _Space, basis: list[FloatArray], best: FloatArray) -> FloatArray:
    found = np.zeros_like(basis[0])
    for t, v in enumerate(basis):
        found += space.scale(best[:, t], v)
    # A group of zero rows has no direction of its own.
    lost = (space.dots(found, found) < 0.5).astype(np.float64)
    if not space.is_signed:
        found = np.abs(found)
    return space.unit(space.scale(lost, basis[0]) + space.scale(1.0 - lost, found))


def _start_sums(A: MemoryMatrix, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """`group_sums` with 1 for weights that are not positive: no group is left without a start."""
    return A.group_sums(labels, np.where(weights > 0, weights, weights.dtype.type(1)), k)
