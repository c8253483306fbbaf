"""Compiled loops over OB+ of `reference.oblique`: one pass over memory each.

In all loops ``pull`` is the entry of weight * rowmean(X) that is added to a row of the gradient.
"""

from collections.abc import Callable

import numpy as np

from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.kernels.blocks import PARALLEL_SIZE, for_blocks, partition_rows
from orthoplus.kernels.fused.cache import njit, reordering
from orthoplus.kernels.reference.oblique import SQUARES_MAX, SQUARES_MIN

_compiled = reordering()


def _summed(
    work: Callable[[slice, FloatArray], None], X: FloatArray, shape: tuple[int, ...]
) -> FloatArray:
    """Return sums of this shape over the rows of X, computed in blocks.

    ``work(rows, sums)`` computes those of a block; ``sums`` is initialized with zeros.
    """
    blocks = partition_rows(*X.shape)
    partial = np.zeros((len(blocks), *shape))
    if len(blocks) == 1:
        work(blocks[0], partial[0])
        return partial[0]
    for_blocks(lambda b, rows: work(rows, partial[b]), blocks)
    return np.asarray(partial.sum(axis=0))


@_compiled
def _row_energy(X, out):  # type: ignore[no-untyped-def]  # IN X; OUT out[0]
    n, k = X.shape
    energy = 0.0
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += X[i, j]
        energy += total * total
    out[0] = energy / k


def row_energy(X: FloatArray) -> float:
    """Sum the squared row sums over blocks of rows."""
    return float(_summed(lambda r, out: _row_energy(X[r], out), X, (1,))[0])


@_compiled
def _gradient_step(X, G, weight, alpha, T, squares):  # type: ignore[no-untyped-def]
    # IN X, G, weight, alpha; OUT T, squares (added to)
    n, k = X.shape
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += X[i, j]
        pull = alpha * weight * total / k
        for j in range(k):
            T[i, j] = max(X[i, j] - alpha * G[i, j] - pull, 0.0)
            t = np.float64(T[i, j])  # the stored value: in float32 it may be rounded to zero
            squares[j] += t * t


def gradient_step_into(
    X: FloatArray, G: FloatArray, weight: float, alpha: float, out: FloatArray
) -> FloatArray:
    """Step, clip and sum the squares in one pass over X and G."""
    return _summed(
        lambda r, sums: _gradient_step(X[r], G[r], weight, alpha, out[r], sums), X, X.shape[1:]
    )


@_compiled
def _normalize_step(T, scale, X, out):  # type: ignore[no-untyped-def]
    # IN scale, X; IN/OUT T; OUT out[0:4]
    n, k = X.shape
    step_sq, energy, cross_new, cross_old = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        old, new = 0.0, 0.0
        for j in range(k):
            x = X[i, j]
            t = T[i, j] * scale[j]
            T[i, j] = t
            s = t - x
            step_sq += s * s
            old += x
            new += t
        change = new - old
        energy += new * new
        cross_new += change * new
        cross_old += change * old
    out[0] = step_sq
    out[1] = energy / k
    out[2] = cross_new / k
    out[3] = cross_old / k


def normalize_step_into(
    T: FloatArray, scale: FloatArray, X: FloatArray
) -> tuple[float, float, float, float]:
    """Scale the columns and form the four products in the same pass."""
    sums = _summed(lambda r, out: _normalize_step(T[r], scale, X[r], out), X, (4,))
    step_sq, energy, cross_new, cross_old = sums.tolist()
    return step_sq, energy, cross_new, cross_old


def projected_step_into(
    X: FloatArray, G: FloatArray, weight: float, alpha: float, out: FloatArray
) -> tuple[float, float, float, float] | None:
    """Step and normalize in two passes; return None if a column norm is 0 or extreme."""
    if X.size < PARALLEL_SIZE:  # skip the overhead of blocks
        column_squares, sums = np.zeros(X.shape[1]), np.empty(4)
        _gradient_step(X, G, weight, alpha, out, column_squares)
        if not (column_squares.min() >= SQUARES_MIN and column_squares.max() <= SQUARES_MAX):
            return None
        _normalize_step(out, 1.0 / np.sqrt(column_squares), X, sums)
        step_sq, energy, cross_new, cross_old = sums.tolist()
        return step_sq, energy, cross_new, cross_old
    squares = gradient_step_into(X, G, weight, alpha, out)
    if squares.min() < SQUARES_MIN or squares.max() > SQUARES_MAX:
        return None
    return normalize_step_into(out, 1.0 / np.sqrt(squares), X)


@_compiled
def _secant_products(X_new, G_new, weight_new, X, G, weight, out):  # type: ignore[no-untyped-def]
    # IN all matrices and weights; OUT out[0:2]
    n, k = X.shape
    step_change, change_sq = 0.0, 0.0
    for i in range(n):
        total_new, total = 0.0, 0.0
        for j in range(k):
            total_new += X_new[i, j]
            total += X[i, j]
        pull = (weight_new * total_new - weight * total) / k
        for j in range(k):
            z = np.float64(G_new[i, j]) - G[i, j] + pull
            step_change += (np.float64(X_new[i, j]) - X[i, j]) * z
            change_sq += z * z
    out[0] = step_change
    out[1] = change_sq


def secant_products(
    new: tuple[FloatArray, FloatArray, float], old: tuple[FloatArray, FloatArray, float]
) -> tuple[float, float]:
    """Form both products in one pass, without storing S or Z."""
    (X_new, G_new, w_new), (X, G, w) = new, old
    sums = _summed(
        lambda r, out: _secant_products(X_new[r], G_new[r], w_new, X[r], G[r], w, out), X, (2,)
    )
    step_change, change_sq = sums.tolist()
    return step_change, change_sq


@_compiled
def _column_dots(A, B, dots):  # type: ignore[no-untyped-def]  # IN A, B; OUT dots (added to)
    n, k = A.shape
    for i in range(n):
        for j in range(k):
            dots[j] += A[i, j] * B[i, j]


def column_dots(A: FloatArray, B: FloatArray) -> FloatArray:
    """Sum the products of the columns over blocks of rows, in float64."""
    if A.size < PARALLEL_SIZE:  # skip the overhead of blocks
        dots = np.zeros(A.shape[1])
        _column_dots(A, B, dots)
        return dots
    return _summed(lambda r, dots: _column_dots(A[r], B[r], dots), A, A.shape[1:])


@_compiled
def _multipliers(X, G, weight, dots):  # type: ignore[no-untyped-def]
    # IN X, G, weight; OUT dots (added to)
    n, k = X.shape
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += X[i, j]
        pull = weight * total / k
        for j in range(k):
            dots[j] += X[i, j] * (G[i, j] + pull)


def multipliers(X: FloatArray, G: FloatArray, weight: float) -> FloatArray:
    """Form diag(X'(G + weight rowmean(X))) in one pass, row by row."""
    return _summed(lambda r, dots: _multipliers(X[r], G[r], weight, dots), X, X.shape[1:])


@_compiled
def _stationarity_sq(X, G, weight, multiplier, unit, out):  # type: ignore[no-untyped-def]
    # IN X, G, weight, multiplier, unit; OUT out[0]
    n, k = X.shape
    residual = 0.0
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += X[i, j]
        pull = weight * total / k
        for j in range(k):
            x = X[i, j]
            r = min(np.float64(x), (G[i, j] + pull - x * multiplier[j]) / unit)
            residual += r * r
    out[0] = residual


def stationarity_sq(
    X: FloatArray, G: FloatArray, weight: float, multiplier: FloatArray, unit: float
) -> float:
    """Sum the squared residuals of (4.1) in one pass, row by row."""
    sums = _summed(
        lambda r, out: _stationarity_sq(X[r], G[r], weight, multiplier, unit, out), X, (1,)
    )
    return float(sums[0])


@_compiled
def _restrict(X, G, support, T, out):  # type: ignore[no-untyped-def]
    # IN X, G, support; OUT T, out[0]
    n, k = X.shape
    strays = 0
    for i in range(n):
        for j in range(k):
            T[i, j] = G[i, j] if support[i, j] else 0.0
            strays += X[i, j] != 0.0 and not support[i, j]
    out[0] = strays


def restrict_into(X: FloatArray, G: FloatArray, support: BoolArray, out: FloatArray) -> int:
    """Copy G on the support and count the nonzeros of X elsewhere in one pass."""
    sums = _summed(lambda r, n: _restrict(X[r], G[r], support[r], out[r], n), X, (1,))
    return int(sums[0])


@_compiled
def _largest_entries(X, labels, entries):  # type: ignore[no-untyped-def]
    # IN X; OUT labels, entries
    n, k = X.shape
    for i in range(n):
        top = X[i, 0]
        for j in range(1, k):
            top = max(top, X[i, j])
        labels[i], entries[i] = -1, 0
        if top > 0:
            j = 0
            while X[i, j] != top:
                j += 1
            labels[i], entries[i] = j, top


def largest_entries(X: FloatArray) -> tuple[IntArray, FloatArray]:
    """Find the largest entry of each row, in threads over blocks of rows."""
    n, k = X.shape
    labels, entries = np.empty(n, dtype=np.intp), np.empty(n, dtype=X.dtype)
    for_blocks(lambda b, r: _largest_entries(X[r], labels[r], entries[r]), partition_rows(n, k))
    return labels, entries


@_compiled
def _gather(C, labels, out):  # type: ignore[no-untyped-def]  # IN C, labels; OUT out
    for i in range(labels.size):
        out[i] = C[i, labels[i]] if labels[i] >= 0 else 0


def gather(C: FloatArray, labels: IntArray) -> FloatArray:
    """Read one entry of C per row."""
    out = np.empty(len(labels), dtype=C.dtype)
    _gather(C, labels, out)
    return out


@njit(nogil=True)  # no fast math: merging the two divisions could overflow
def _assemble(labels, weights, X, top, norms):  # type: ignore[no-untyped-def]
    # IN labels, weights; OUT X, top, norms (both initialized with zeros)
    n, k = X.shape
    for i in range(n):
        if labels[i] >= 0 and weights[i] > top[labels[i]]:
            top[labels[i]] = weights[i]
    for i in range(n):
        if labels[i] >= 0:
            entry = weights[i] / top[labels[i]]
            norms[labels[i]] += entry * entry
    for j in range(k):
        norms[j] = np.sqrt(norms[j])
    for i in range(n):
        for j in range(k):
            X[i, j] = 0.0
        if labels[i] >= 0:
            X[i, labels[i]] = weights[i] / top[labels[i]] / norms[labels[i]]


def assemble(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Write the weights, sum the squares and normalize the columns in one compiled loop."""
    X = np.empty((len(labels), k), dtype=weights.dtype)
    _assemble(labels, weights, X, np.zeros(k), np.zeros(k))
    return X
