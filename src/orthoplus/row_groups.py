r"""Groups of rows of the data: sums over groups, and the leading singular vector of each.

A matrix with one entry a row is a label and a weight a row; products with it cost one pass over A,
not k of them.
"""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from orthoplus import kernels
from orthoplus.data_matrix import row_slices, row_squares, times, times_transposed, zero_rows
from orthoplus.protocols import FloatArray, IntArray
from orthoplus.row_blocks import RowBlocks, add_parts

# Two scores this near, in units of the rounding, are equal.
_TIE = 100
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
_ROUNDOFFS = 50
# Steps of the projected power method, and the residual at which it ends: it gains a constant factor
# a step, and the value is exact to the square.
_MAX_POWERS = 500
_POWER_RESIDUAL = 1e-8
# A power step that helped is tried again this much longer.
_LONGER = 1.5
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
    if isinstance(A, RowBlocks):
        return np.asarray(A.reduce(group_sums, labels, weights, args=(k,)))
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
    if isinstance(A, RowBlocks):
        return A.map(group_dots, labels, args=(W,))  # a vector in the form of A
    if isinstance(A, LinearOperator):
        dots = times(A, W.T)[np.arange(len(labels)), labels].astype(np.float64)
        return np.where(labels >= 0, dots, 0.0)
    if issparse(A):
        return kernels.sparse_group_dots((A.data, A.indices, A.indptr), labels, W)
    return kernels.dense_group_dots(A, labels, W)


def group_products(A: Any, labels: IntArray, V: FloatArray) -> FloatArray:
    """A_j'A_j v_j for each group of rows, k x r as V: one pass over A in blocks, O(nnz)."""
    if isinstance(A, RowBlocks):
        return np.asarray(A.reduce(group_products, labels, args=(V,)))
    return group_sums(A, labels, group_dots(A, labels, V), len(V))


def best_column(scores: FloatArray) -> IntArray:
    """The column of each row's largest score; the first among those equal up to rounding.

    Examples
    --------
    >>> best_column(np.array([[1.0, 1.0 + 1e-15], [1.0, 2.0]]))
    array([0, 1])
    """
    top = scores.max(axis=1, keepdims=True)
    near = scores >= top - np.abs(top) * (_TIE * np.finfo(scores.dtype).eps)
    return np.asarray(near.argmax(axis=1))


def unit_rows(W: FloatArray) -> FloatArray:
    """W with rows of unit norm; rows of zeros stay."""
    sizes = np.linalg.norm(W, axis=1, keepdims=True)
    return np.divide(W, sizes, out=np.zeros_like(W), where=sizes > 0)


class Centres(NamedTuple):
    """A start of a search over groups: row i goes to the j with the largest a_i'c_j."""

    vectors: FloatArray  # k x r


class Assigned(NamedTuple):
    """Rows in groups, and whether these are the groups they were in."""

    labels: Any
    scores: Any
    is_same: bool


def assign_rows(A: Any, centres: FloatArray, before: Any = None) -> Assigned:
    """The group of each row and its score there: the largest a_i'c_j, the first among ties.

    A row of zeros has label -1. No group is without a row: one that would be takes the row, of
    those that are not the last of another, that its score fits worst. One pass over A, O(nnz k).
    ``before`` are labels to compare with.
    """
    k = len(centres)
    labels, scores = map_rows(A, _assign_rows, args=(centres,), n_vectors=2)
    old = labels if before is None else before
    counts, n_moved = _reduce(A, _compare_rows, labels, old, args=(k,))
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        labels = give_rows(A, labels, _spare_rows(A, labels, scores, counts, empty), empty)
        _, n_moved = _reduce(A, _compare_rows, labels, old, args=(k,))
    return Assigned(labels, scores, before is not None and int(n_moved) == 0)


def _compare_rows(labels: IntArray, before: IntArray, k: int) -> tuple[IntArray, int]:
    return _count_rows(labels, k), int(np.count_nonzero(labels != before))


def map_rows(
    A: Any, work: Any, *vectors: Any, args: tuple[Any, ...] = (), n_vectors: int = 1
) -> Any:
    """The vectors that ``work(A, *vectors, *args)`` gives, block by block where A is in blocks."""
    if isinstance(A, RowBlocks):
        return A.map(work, *vectors, args=args, n_vectors=n_vectors)
    return work(A, *vectors, *args)


def _reduce(A: Any, work: Any, *vectors: Any, args: tuple[Any, ...] = ()) -> Any:
    """A sum over vectors alone."""
    if isinstance(A, RowBlocks):
        return A.reduce(work, *vectors, args=args, with_blocks=False)
    return work(*vectors, *args)


def reduce_rows(
    A: Any, work: Any, *vectors: Any, args: tuple[Any, ...] = (), combine: Any = add_parts
) -> Any:
    """``work(A, *vectors, numbers, *args)`` with the numbers of the rows, combined over blocks."""
    if isinstance(A, RowBlocks):
        return A.reduce(work, *vectors, A.numbers(), args=args, combine=combine)
    return work(A, *vectors, np.arange(A.shape[0]), *args)


def give_rows(A: Any, labels: Any, rows: IntArray, groups: IntArray) -> Any:
    """The labels with those of some rows replaced."""
    numbers = A.numbers() if isinstance(A, RowBlocks) else np.arange(A.shape[0])
    return map_rows(A, _give_rows, labels, numbers, args=(rows, groups))


def count_rows(A: Any, labels: Any, k: int) -> IntArray:
    """The number of rows of each group."""
    return np.asarray(_reduce(A, _count_rows, labels, args=(k,)))


def _assign_rows(A: Any, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    parts = [_assign_slice(part, centres) for part in row_slices(A, len(centres))]
    labels, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
    return labels, scores


def _assign_slice(A: Any, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    table = times(A, centres.T)
    labels = best_column(table)
    scores = table[np.arange(len(table)), labels]
    idle = np.flatnonzero(scores == 0)
    labels[idle[zero_rows(A, idle)]] = -1
    return labels, scores


def _count_rows(labels: IntArray, k: int) -> IntArray:
    return np.bincount(labels[labels >= 0], minlength=k)


def _give_rows(
    A: Any, labels: IntArray, numbers: IntArray, rows: IntArray, groups: IntArray
) -> IntArray:
    inside = (rows >= numbers[0]) & (rows <= numbers[-1]) if len(numbers) else rows < 0
    labels = labels.copy()
    labels[rows[inside] - numbers[0]] = groups[inside]
    return labels


def _spare_rows(A: Any, labels: Any, scores: Any, counts: IntArray, empty: IntArray) -> IntArray:
    """A row for each of the empty groups."""
    most = len(empty) + len(counts)  # at most one row of each group is its last
    worst = reduce_rows(A, _worst_rows, labels, scores, args=(most,), combine=_keep_worst)
    counts = counts.copy()
    rows: list[int] = []
    for _, row, label in zip(*worst[:3], strict=True):
        if len(rows) < len(empty) and (label < 0 or counts[label] > 1):
            rows.append(row)
            if label >= 0:
                counts[label] -= 1
    return np.array(rows, dtype=np.int64)


_Worst = tuple[FloatArray, IntArray, IntArray, int]


def _worst_rows(
    A: Any, labels: IntArray, scores: FloatArray, numbers: IntArray, most: int
) -> _Worst:
    """What is missed of the rows that are fitted worst, their numbers and labels."""
    missed = np.maximum(row_squares(A) - np.maximum(scores, 0.0).astype(np.float64) ** 2, 0.0)
    return _sorted_worst(missed, numbers, labels, most)


def _keep_worst(one: _Worst, other: _Worst) -> _Worst:
    missed, rows, labels = (np.concatenate(pair) for pair in zip(one[:3], other[:3], strict=True))
    return _sorted_worst(missed, rows, labels, one[3])


def _sorted_worst(missed: FloatArray, rows: IntArray, labels: IntArray, most: int) -> _Worst:
    order = np.lexsort((rows, -missed))[:most]
    return missed[order], rows[order], labels[order], most


def _start_sums(A: Any, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """`group_sums` with 1 for weights that are not positive: no group is left without a start."""
    return group_sums(A, labels, np.where(weights > 0, weights, weights.dtype.type(1)), k)


def column_entries(A: Any, labels: Any, V: FloatArray, squares: FloatArray) -> Any:
    r"""The entries :math:`x_i = a_i^\top v_j / \sigma_j` of X, at least 0, its columns normalised.

    A group of rows that v_j does not meet has equal entries.
    """
    k = len(V)
    raw = map_rows(A, _raw_entries, labels, args=(V, _inverse(np.sqrt(squares))))
    sums = _reduce(A, _column_squares, labels, raw, args=(k,))
    counts = count_rows(A, labels, k)
    return map_rows(A, _unit_entries, labels, raw, args=(_inverse(np.sqrt(sums)), counts))


def _raw_entries(A: Any, labels: IntArray, V: FloatArray, inverse: FloatArray) -> FloatArray:
    dots = np.maximum(group_dots(A, labels, V), 0.0)
    return np.where(labels >= 0, dots * inverse[labels], 0.0)


def _column_squares(labels: IntArray, entries: FloatArray, k: int) -> FloatArray:
    used = labels >= 0
    squares = entries[used].astype(np.float64) ** 2
    return np.bincount(labels[used], squares, minlength=k).astype(np.float64)


def _unit_entries(
    A: Any, labels: IntArray, raw: FloatArray, inverse: FloatArray, counts: IntArray
) -> FloatArray:
    level = np.where(inverse > 0, 0.0, 1.0 / np.sqrt(np.maximum(counts, 1)))
    entries = np.where(labels >= 0, raw * inverse[labels] + level[labels], 0.0)
    return entries.astype(A.dtype, copy=False)


def support_labels(A: Any, labels: Any, weights: Any) -> Any:
    """The labels of the rows with a positive weight, -1 for the others."""
    return map_rows(A, _support_labels, labels, weights)


def _support_labels(A: Any, labels: IntArray, weights: FloatArray) -> IntArray:
    return np.where(weights > 0, labels, -1)


def stationarity_of_groups(A: Any, labels: Any, weights: Any, W: FloatArray) -> float:
    r"""The residual of (2.6) at an X of S+ for :math:`\|A - XX^\top A\|_F^2`, with W = (A'X)'.

    On the support the gradient is :math:`2 (x_i \|w_j\|^2 - a_i^\top w_j)`, and tangent; a row
    that is not on it has no score above 0. One pass over A.
    """
    sizes = np.einsum("jc,jc->j", W, W)
    if isinstance(A, RowBlocks):
        total = A.reduce(_gradient_squares, labels, weights, args=(W, sizes))
    else:
        total = _gradient_squares(A, labels, weights, W, sizes)
    return 2.0 * math.sqrt(float(total))


def _gradient_squares(
    A: Any, labels: IntArray, weights: FloatArray, W: FloatArray, sizes: FloatArray
) -> float:
    gradient = weights * sizes[labels] - group_dots(A, labels, W)
    gradient[labels < 0] = 0.0
    return float(gradient @ gradient)


def leading_directions(
    A: Any, labels: Any, weights: Any, k: int, residual: float | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""The leading *right* singular vector of the rows of each group, and its squared value.

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
    Lanczos over the k x r matrices V, one pass over A a step, where these are shorter than the n
    entries of X, and always for row blocks: then nothing of length n is made. Otherwise over X.
    """
    n, r = A.shape
    if k * r > n and not isinstance(A, RowBlocks):
        start = np.where(weights > 0, weights, weights.dtype.type(1))
        x, squares = leading_vectors(A, labels, start, k, residual)
        V = unit_rows(group_sums(A, labels, x, k))
    else:
        space = _Directions(A, labels, k, _RESIDUAL if residual is None else residual)
        if isinstance(A, RowBlocks):
            first = A.reduce(_start_sums, labels, weights, args=(k,))
        else:
            first = _start_sums(A, labels, weights, k)
        V, squares = _leading(space, first)
    return np.where(V > _LEFT_OVER, V, 0.0), squares


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
    return _leading(space, np.where(labels >= 0, np.abs(start).astype(np.float64), 0.0))


def nonnegative_vectors(
    A: Any, labels: IntArray, start: FloatArray, k: int, residual: float | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""A nonnegative principal vector of the rows of each group, for data of any sign.

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
    Projected power method, :math:`x \gets (A_jA_j^\top x)^+` normalised, which never lowers the
    square since :math:`A_jA_j^\top` is positive semidefinite; between two steps a longer one along
    the last is tried. Two products with all groups a step, O(nnz).

    Examples
    --------
    >>> A = np.array([[3.0, 0.0], [-4.0, 0.0], [0.0, -2.0]])
    >>> x, squares = nonnegative_vectors(A, np.array([0, 0, 1]), np.ones(3), 2)
    >>> x, squares
    (array([0., 1., 1.]), array([16.,  4.]))
    """
    rough = _POWER_RESIDUAL if residual is None else residual
    space = _Groups(A, labels, k, rough, is_signed=True)
    starts = [start]
    if residual is None:
        noise = np.random.default_rng(0).standard_normal(len(labels))
        whole, _ = _leading(space, np.where(labels >= 0, noise, 0.0))
        starts += [whole, -whole]
    runs = [_project_powers(space, _positive_start(space, first)) for first in starts]
    best = np.argmax([squares for _, squares in runs], axis=0)
    chosen = np.append(best, 0)[space.index]
    x = np.choose(chosen, [x for x, _ in runs])
    return x, np.choose(best, [squares for _, squares in runs])


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


def _tolerance(A: Any, residual: float) -> float:
    own = isinstance(A, LinearOperator)
    return max(residual, _ROUNDOFFS * float(np.finfo(A.dtype).eps) if own else 0.0)


class _Directions:
    """Right singular vectors, k x r, and the operator A_j'A_j."""

    is_signed = False

    def __init__(self, A: Any, labels: Any, k: int, residual: float) -> None:
        self.A, self.labels, self.k = A, labels, k
        self.tol = _tolerance(A, residual)

    def dots(self, v: FloatArray, w: FloatArray) -> FloatArray:
        return np.einsum("jc,jc->j", v, w)

    def scale(self, factors: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(factors[:, None] * v)

    def unit(self, v: FloatArray) -> FloatArray:
        v = self.scale(_inverse(np.abs(v).max(axis=1, initial=0.0)), v)
        return self.scale(_inverse(np.sqrt(self.dots(v, v))), v)

    def apply(self, v: FloatArray) -> FloatArray:
        return group_products(self.A, self.labels, v)


class _Groups:
    """Vectors over the rows, as one vector a group: their inner products, and the operator AA'."""

    def __init__(
        self, A: Any, labels: IntArray, k: int, residual: float, *, is_signed: bool = False
    ) -> None:
        self.A, self.k, self.is_signed = A, k, is_signed
        self.labels = np.ascontiguousarray(labels, dtype=np.int64)
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
        v = self.scale(_inverse(top[: self.k]), v)
        return self.scale(_inverse(np.sqrt(self.dots(v, v))), v)

    def apply(self, v: FloatArray) -> FloatArray:
        return group_dots(self.A, self.labels, group_sums(self.A, self.labels, v, self.k))


def _positive_start(space: _Groups, start: FloatArray) -> FloatArray:
    """The positive part with unit groups; the longest row alone for a group without one."""
    x = np.where(space.labels >= 0, np.maximum(start, 0.0), 0.0).astype(np.float64)
    bare = np.append(np.bincount(space.index, x, minlength=space.k + 1)[: space.k] <= 0, False)
    if bare.any():
        sizes = np.where(bare[space.index], row_squares(space.A), -1.0)
        order = np.argsort(-sizes, kind="stable")
        groups, first = np.unique(space.index[order], return_index=True)
        x[order[first[bare[groups]]]] = 1.0
    return space.unit(x)


def _project_powers(space: _Groups, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The projected power method from a nonnegative start with unit groups."""
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
    space: _Space, basis: list[FloatArray], w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """w without its part along the basis, twice for the rounding; and its coordinates there."""
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


def _inverse(numbers: FloatArray) -> FloatArray:
    return np.divide(1.0, numbers, out=np.zeros_like(numbers), where=numbers > 0)
