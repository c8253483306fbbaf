"""Compiled products of `reference.groups`: one pass over the data each, without copying it.

Large matrices are split over threads by rows, or by columns if those are contiguous.
"""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.blocks import for_blocks, partition_rows
from orthoplus.kernels.fused.cache import njit, reordering
from orthoplus.kernels.reference.groups import TIE

# Least number of rows of a block per group: with fewer rows, adding the partial sums of the blocks
# takes as long as computing them.
_ROWS_PER_GROUP = 8

_compiled = reordering()


# No fast math, because scores are compared and ties must stay ties.
_exact = njit(nogil=True)


@_exact
def _best_columns(scores, tie, labels, best):  # type: ignore[no-untyped-def]
    # IN scores, tie; OUT labels, best
    n, k = scores.shape
    whole = n - n % 4
    for i in range(0, whole, 4):  # four rows at a time: a comparison waits for the one before it
        a, b, c, d = scores[i, 0], scores[i + 1, 0], scores[i + 2, 0], scores[i + 3, 0]
        for j in range(1, k):
            a, b = max(a, scores[i, j]), max(b, scores[i + 1, j])
            c, d = max(c, scores[i + 2, j]), max(d, scores[i + 3, j])
        best[i], best[i + 1], best[i + 2], best[i + 3] = a, b, c, d
    for i in range(whole, n):
        best[i] = scores[i, 0]
        for j in range(1, k):
            best[i] = max(best[i], scores[i, j])
    for i in range(n):
        top = best[i]
        floor = top - abs(top) * tie
        j = 0
        while not scores[i, j] >= floor and j < k - 1:
            j += 1
        labels[i], best[i] = j, scores[i, j]


def best_columns(scores: FloatArray) -> tuple[IntArray, FloatArray]:
    """Find the largest score of each row, in threads over blocks of rows."""
    labels, best = np.empty(len(scores), dtype=np.int64), np.empty(len(scores), scores.dtype)
    tie = scores.dtype.type(TIE * np.finfo(scores.dtype).eps)

    def work(b: int, i: slice) -> None:
        _best_columns(np.ascontiguousarray(scores[i]), tie, labels[i], best[i])

    for_blocks(work, partition_rows(*scores.shape))
    return labels, best


@_compiled
def _sums_by_rows(A, labels, weights, W):  # type: ignore[no-untyped-def]
    # IN A (rows contiguous), labels, weights; OUT W (k x r, added to)
    n, r = A.shape
    for i in range(n):
        j, x = labels[i], weights[i]
        if j >= 0 and x != 0.0:
            for c in range(r):
                W[j, c] += x * A[i, c]


@_compiled
def _sums_by_columns(At, labels, weights, W):  # type: ignore[no-untyped-def]
    # IN At (r x n, the columns of A contiguous), labels, weights; OUT W (k x r, added to)
    # Eight columns at a time: an addition to a group waits for the one before it.
    r, n = At.shape
    sums = np.empty((W.shape[0] + 1, 8))
    for first in range(0, r, 8):
        sums[:] = 0.0
        if first + 8 <= r:
            for i in range(n):
                j, x = labels[i], weights[i]  # label -1: the last place
                for t in range(8):
                    sums[j, t] += x * At[first + t, i]
        else:
            for c in range(first, r):
                for i in range(n):
                    sums[labels[i], c - first] += weights[i] * At[c, i]
        for j in range(W.shape[0]):
            for c in range(first, min(first + 8, r)):
                W[j, c] += sums[j, c - first]


def dense_group_sums(A: FloatArray, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Sum the rows of each group, by blocks of rows or, in Fortran order, of columns."""
    n, r = A.shape
    A = np.asarray(A)  # Numba does not know memory maps
    if A.flags.f_contiguous and not A.flags.c_contiguous:
        W = np.zeros((k, r))
        for_blocks(
            lambda b, c: _sums_by_columns(A.T[c], labels, weights, W[:, c]), partition_rows(r, n)
        )
        return W
    blocks = partition_rows(n, r, _ROWS_PER_GROUP * k)
    partial = np.zeros((len(blocks), k, r))
    for_blocks(lambda b, i: _sums_by_rows(A[i], labels[i], weights[i], partial[b]), blocks)
    return _added(partial)


def _added(partial: FloatArray) -> FloatArray:
    """Sum over the blocks in their order, and overwrite the first with the result."""
    for part in partial[1:]:
        partial[0] += part
    return partial[0]


@_compiled
def _dots_by_rows(A, labels, W, out):  # type: ignore[no-untyped-def]  # IN A, labels, W; OUT out
    n, r = A.shape
    for i in range(n):
        j, total = labels[i], 0.0
        if j >= 0:
            for c in range(r):
                total += W[j, c] * A[i, c]
        out[i] = total


@_compiled
def _dots_by_columns(At, labels, W, out):  # type: ignore[no-untyped-def]
    # IN At (r x n), labels, W; OUT out (added to)
    r, n = At.shape
    values = np.zeros(W.shape[0] + 1)
    for c in range(r):
        for j in range(W.shape[0]):
            values[j] = W[j, c]
        for i in range(n):
            out[i] += values[labels[i]] * At[c, i]


def dense_group_dots(A: FloatArray, labels: IntArray, W: FloatArray) -> FloatArray:
    """Multiply each row by the vector of its group, following the memory order of A."""
    dots = np.zeros(A.shape[0])
    A = np.asarray(A)
    work = _dots_by_rows
    if A.flags.f_contiguous and not A.flags.c_contiguous:
        work = _transposed_dots
    for_blocks(lambda b, i: work(A[i], labels[i], W, dots[i]), partition_rows(*A.shape))
    return dots


def _transposed_dots(A: FloatArray, labels: IntArray, W: FloatArray, out: FloatArray) -> None:
    _dots_by_columns(A.T, labels, W, out)


@_compiled
def _sparse_sums(data, indices, indptr, labels, weights, W):  # type: ignore[no-untyped-def]
    # IN all but W; OUT W (k x r, added to)
    for i in range(labels.size):
        j, x = labels[i], weights[i]
        if j >= 0 and x != 0.0:
            for at in range(indptr[i], indptr[i + 1]):
                W[j, indices[at]] += x * data[at]


def sparse_group_sums(
    parts: tuple[FloatArray, IntArray, IntArray],
    labels: IntArray,
    weights: FloatArray,
    size: tuple[int, int],
) -> FloatArray:
    """Sum the stored entries of each group, by blocks of rows."""
    data, indices, indptr = parts
    n = len(labels)
    least = (
        _ROWS_PER_GROUP * size[0] * size[1] * n // max(1, len(data))
    )  # rows that hold this many entries
    blocks = partition_rows(n, max(1, len(data) // max(1, n)), least)
    partial = np.zeros((len(blocks), *size))

    def work(b: int, i: slice) -> None:
        rows = indptr[i.start : i.stop + 1]
        _sparse_sums(data, indices, rows, labels[i], weights[i], partial[b])

    for_blocks(work, blocks)
    return _added(partial)


@_compiled
def _sparse_dots(data, indices, indptr, labels, W, out):  # type: ignore[no-untyped-def]
    # IN all but out; OUT out
    for i in range(labels.size):
        j, total = labels[i], 0.0
        if j >= 0:
            for at in range(indptr[i], indptr[i + 1]):
                total += W[j, indices[at]] * data[at]
        out[i] = total


def sparse_group_dots(
    parts: tuple[FloatArray, IntArray, IntArray], labels: IntArray, W: FloatArray
) -> FloatArray:
    """Multiply the stored entries of each row by the vector of its group."""
    data, indices, indptr = parts
    n = len(labels)
    dots = np.empty(n)

    def work(b: int, i: slice) -> None:
        _sparse_dots(data, indices, indptr[i.start : i.stop + 1], labels[i], W, dots[i])

    for_blocks(work, partition_rows(n, max(1, len(data) // max(1, n))))
    return dots
