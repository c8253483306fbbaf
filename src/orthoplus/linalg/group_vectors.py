r"""Compute the leading singular vectors of all groups of rows at once.

A product with all groups takes one pass over A and one with its transpose, so that the cost does
not depend on k except for the small eigenproblems.
"""

from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import DataMatrix, Vector
from orthoplus.data.groups import reciprocals, unit_rows
from orthoplus.data.memory import MemoryMatrix

# Number of Lanczos vectors per cycle, and of cycles; a cycle starts from the best vector so far.
_CYCLE = 16
_MAX_CYCLES = 30
# The residual is checked once per this many steps.
_CHECK_INTERVAL = 2
# Residual relative to the eigenvalue; the error of the eigenvalue is the square of it.
_RESIDUAL = 1e-11
# Smaller entries of a unit vector are remainders of the start and are set to zero: otherwise a row
# orthogonal to all others would be assigned to a group by rounding.
_NEGLIGIBLE_ENTRY = 1e-10
# Residuals cannot fall below this many unit roundoffs of the dtype of an operator.
_OPERATOR_ROUNDOFFS = 50
# Largest number of steps of the projected power method, which converges linearly.
_MAX_POWERS = 500
_POWER_RESIDUAL = 1e-8
# An extrapolated power step that helped is lengthened by this factor.
_LONGER = 1.5
# Gram matrices of all groups are formed if they have at most this many entries in total.
_MOST_GRAM = 1 << 21
# If a Lanczos vector is this short relative to the eigenvalue, the Krylov space is exhausted.
_BREAKDOWN = 1e-14


class GroupedRows:
    """Interface of a problem of the form ``constant - ||A'X||^2`` for searches over row groups.

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
        """Return the squared norms ||a_i||^2 of the rows, as a vector of A."""
        return self.A.row_squares()

    def group_vectors(
        self, labels: IntArray, start: FloatArray, residual: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        r"""Return a nonnegative unit vector x_j for each group, and :math:`\|A_j^\top x_j\|^2`.

        It is the leading left singular vector, or that of `nonnegative_vectors` if products of rows
        may be negative.
        """
        find = nonnegative_vectors if self.allow_negative else leading_vectors
        return find(self.A, labels, start, self.k, residual)

    def group_directions(
        self, labels: Vector, start: Any, residual: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        r"""Return unit vectors along :math:`y_j = A_j^\top x_j`, of shape (k, r), and squares.

        The x_j are those of `group_vectors`. A may be read in blocks of rows; labels and start are
        vectors of A.
        """
        if not self.allow_negative:
            return leading_directions(self.A, labels, start, self.k, residual)
        x, squares = nonnegative_vectors(self.A, labels, start, self.k, residual)
        return unit_rows(self.A.group_sums(labels, x, self.k)), squares


def leading_directions(
    A: DataMatrix, labels: Vector, weights: Vector, k: int, residual: float | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Return the leading *right* singular vector of the rows of each group, and its squared value.

    Parameters
    ----------
    A, labels, k, residual
        As in `leading_vectors`; A may be read in blocks of rows.
    weights : vector of length n
        The start. Entries that are not positive are replaced by 1, because the solution may be
        positive there.

    Returns
    -------
    V : ndarray of shape (k, r)
        Nonnegative rows of unit norm; 0 for a group of zero rows.
    squares : ndarray of shape (k,)

    Notes
    -----
    If kr < n, Lanczos runs on the k x r matrices V with one pass over A per step, so that no
    vector of length n is created; otherwise it runs on X. Data with few columns that is not in
    memory takes one pass, to compute the Gram matrix of each group.
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
    return np.where(V > _NEGLIGIBLE_ENTRY, V, 0.0), squares


def has_group_grams(A: DataMatrix, k: int) -> bool:
    """Return whether the Gram matrices of k groups cost less than several passes over the data."""
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
        Must be positive on the groups; then it is not orthogonal to the solution, which is
        nonnegative by the Perron-Frobenius theorem.
    k : int
        Number k of groups.
    residual : float, optional
        Residual at which to stop, relative to the square; by default close to rounding.

    Returns
    -------
    x : ndarray of shape (n,)
        Nonnegative, with unit norm on each group, and 0 for rows with label -1. For a group of zero
        rows it is the start.
    squares : ndarray of shape (k,)
        :math:`\sigma_1(A_j)^2`, 0 for an empty group.

    Notes
    -----
    Lanczos runs in all groups at once, with restarts after sixteen steps. A product with all groups
    takes O(nnz), independent of k except for the small eigenproblems.

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

    The result is a local maximizer: the leading left singular vector of A_j need not be
    nonnegative, and finding the best nonnegative vector is NP-hard.

    Parameters
    ----------
    A, labels, k
        As in `leading_vectors`; A may have negative entries.
    start : ndarray of shape (n,)
        Its positive part is the start; a group without a positive entry starts at the row of
        largest norm.
    residual : float, optional
        Residual at which to stop, relative to the square. By default it is as small as the method
        allows, and the best of three starts is returned: the given one, and the positive and
        negative parts of the leading singular vector.

    Returns
    -------
    x, squares
        As in `leading_vectors`; the squares are not below those of the start.

    Notes
    -----
    This is the projected power method, :math:`x \gets (A_jA_j^\top x)^+` normalized. It never
    decreases the square, since :math:`A_jA_j^\top` is positive semidefinite. Between two steps, an
    extrapolation along the last step is tried. A step takes two products with all groups, O(nnz).

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
    """Protocol of a space with one vector per group: inner products, scaling, and an operator."""

    k: int
    tol: float
    is_signed: bool

    def dots(self, v: FloatArray, w: FloatArray) -> FloatArray: ...
    def scale(self, factors: FloatArray, v: FloatArray) -> FloatArray: ...
    def unit(self, v: FloatArray) -> FloatArray: ...
    def apply(self, v: FloatArray) -> FloatArray: ...


def _tolerance(A: DataMatrix, residual: float) -> float:
    # Sums over entries are in float64; products of an operator have its own precision.
    return (
        residual
        if A.has_entries
        else max(residual, _OPERATOR_ROUNDOFFS * float(np.finfo(A.dtype).eps))
    )


class _Directions:
    """Space of the right singular vectors (k x r) with the operator A_j'A_j."""

    is_signed = False

    def __init__(self, A: DataMatrix, labels: Vector, k: int, residual: float) -> None:
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
    """Space of vectors over the rows, one vector per group, with the operator A_jA_j'."""

    def __init__(
        self, A: DataMatrix, labels: IntArray, k: int, residual: float, *, is_signed: bool = False
    ) -> None:
        self.A, self.k, self.is_signed = A, k, is_signed
        self.labels = np.ascontiguousarray(A.gather(labels), dtype=np.int64)
        self._own_labels = A.scatter(self.labels)
        self.index = np.where(self.labels >= 0, self.labels, k)  # rows without a group
        self.tol = _tolerance(A, residual)

    def dots(self, v: FloatArray, w: FloatArray) -> FloatArray:
        sums = np.bincount(self.index, v * w, minlength=self.k + 1)[: self.k]
        return sums.astype(np.float64, copy=False)

    def scale(self, factors: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(np.append(factors, 0.0)[self.index] * v)

    def unit(self, v: FloatArray) -> FloatArray:
        # Scale by the largest entry first, to avoid overflow and underflow.
        top = np.zeros(self.k + 1)
        np.maximum.at(top, self.index, np.abs(v))
        v = self.scale(reciprocals(top[: self.k]), v)
        return self.scale(reciprocals(np.sqrt(self.dots(v, v))), v)

    def apply(self, v: FloatArray) -> FloatArray:
        A, labels = self.A, self._own_labels
        return A.gather(A.group_dots(labels, A.group_sums(labels, A.scatter(v), self.k)))


def _positive_start(space: _Groups, start: FloatArray) -> FloatArray:
    """Normalize the positive part in each group; use the longest row if the part is zero."""
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
    """Return the leading Ritz vectors of the Krylov spaces of x, their values, and convergence."""
    basis, T = [x], np.zeros((space.k, _CYCLE, _CYCLE))
    while True:
        s = len(basis) - 1
        w, T[:, s, : s + 1] = _orthogonalize(space, basis, space.apply(basis[s]))
        T[:, :s, s] = T[:, s, :s]
        beta = np.sqrt(space.dots(w, w))
        beta[beta <= _BREAKDOWN * np.abs(T).max(axis=(1, 2))] = 0.0
        is_full = s + 1 == _CYCLE or not beta.any()
        if is_full or (s + 1) % _CHECK_INTERVAL == 0:
            values, vectors = np.linalg.eigh(T[:, : s + 1, : s + 1])
            best, squares = vectors[:, :, -1], np.maximum(values[:, -1], 0.0)
            is_exact = bool((beta * np.abs(best[:, -1]) <= space.tol * squares).all())
            if is_full or is_exact:
                return _ritz_vector(space, basis, best), squares, is_exact
        basis.append(space.scale(reciprocals(beta), w))


def _orthogonalize(
    space: _Space, basis: list[FloatArray], w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Orthogonalize w against the basis, twice for accuracy; return w and its coordinates."""
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
    # For a group of zero rows the Ritz vector is arbitrary: keep the start.
    lost = (space.dots(found, found) < 0.5).astype(np.float64)
    if not space.is_signed:
        found = np.abs(found)
    return space.unit(space.scale(lost, basis[0]) + space.scale(1.0 - lost, found))


def _start_sums(A: MemoryMatrix, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Compute `group_sums` with 1 for weights that are not positive, so that no start is zero."""
    return A.group_sums(labels, np.where(weights > 0, weights, weights.dtype.type(1)), k)
