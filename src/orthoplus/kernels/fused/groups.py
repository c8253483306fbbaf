"""The products of `reference.groups`, compiled: one pass over the data each, no copy of it."""

import numpy as np
from numba import njit

from orthoplus.protocols import FloatArray, IntArray

# Sums may be reordered for SIMD; NaN and infinity keep their meaning.
_compiled = njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})


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
    r, n = At.shape
    sums = np.empty(W.shape[0] + 1)
    for c in range(r):
        sums[:] = 0.0
        for i in range(n):
            sums[labels[i]] += weights[i] * At[c, i]  # label -1: the last place
        for j in range(W.shape[0]):
            W[j, c] += sums[j]


def dense_group_sums(A: FloatArray, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    W = np.zeros((k, A.shape[1]))
    if A.flags.f_contiguous and not A.flags.c_contiguous:
        _sums_by_columns(A.T, labels, weights, W)
    else:
        _sums_by_rows(A, labels, weights, W)
    return W


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
    dots = np.zeros(A.shape[0])
    if A.flags.f_contiguous and not A.flags.c_contiguous:
        _dots_by_columns(A.T, labels, W, dots)
    else:
        _dots_by_rows(A, labels, W, dots)
    return dots


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
    W = np.zeros(size)
    _sparse_sums(*parts, labels, weights, W)
    return W


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
    dots = np.empty(len(labels))
    _sparse_dots(*parts, labels, W, dots)
    return dots
