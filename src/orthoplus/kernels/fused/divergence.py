"""The loops of `reference.divergence`, compiled."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.reference.divergence import MOVE_ROUNDING

_compiled = njit(nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
# Gains are compared: no fast mathematics.
_exact = njit(nogil=True)


@_compiled
def _sampled_products(indices, indptr, X, Y, out):  # type: ignore[no-untyped-def]
    # IN all but out; OUT out
    k = X.shape[1]
    for i in range(indptr.size - 1):
        for at in range(indptr[i], indptr[i + 1]):
            total = 0.0
            for j in range(k):
                total += np.float64(X[i, j]) * Y[indices[at], j]
            out[at] = total


def sampled_products(
    indices: IntArray, indptr: IntArray, X: FloatArray, Y: FloatArray
) -> FloatArray:
    out = np.empty(indices.size)
    X, Y = np.ascontiguousarray(X), np.ascontiguousarray(Y)
    _sampled_products(indices, indptr, X, Y, out)
    return out


@_exact
def _x_log_x(x):  # type: ignore[no-untyped-def]
    return x * np.log(x) if x > 0.0 else 0.0


@_exact
def _gains(entries, columns, own, state, gain):  # type: ignore[no-untyped-def]
    # IN entries, columns, own, state = (sums, terms, totals); OUT gain; returns loss and best group
    sums, terms, totals = state
    gain[:] = 0.0
    loss, size = 0.0, 0.0
    for at in range(entries.size):
        a, c = np.float64(entries[at]), columns[at]
        size += a
        for j in range(gain.size):
            gain[j] += _x_log_x(sums[c, j] + a) - terms[c, j]
        loss += terms[c, own] - _x_log_x(max(sums[c, own] - a, 0.0))
    loss -= _x_log_x(totals[own]) - _x_log_x(max(totals[own] - size, 0.0))
    best = -1
    for j in range(gain.size):
        gain[j] -= _x_log_x(totals[j] + size) - _x_log_x(totals[j])
        if j != own and (best < 0 or gain[j] > gain[best]):
            best = j
    return loss + MOVE_ROUNDING * _x_log_x(totals[own] + size), best


@_exact
def _move(entries, columns, own, best, state):  # type: ignore[no-untyped-def]
    # IN all but state; IN/OUT state = (sums, terms, totals)
    sums, terms, totals = state
    for at in range(entries.size):
        a, c = np.float64(entries[at]), columns[at]
        sums[c, own] = max(sums[c, own] - a, 0.0)
        sums[c, best] += a
        terms[c, own], terms[c, best] = _x_log_x(sums[c, own]), _x_log_x(sums[c, best])
        totals[own] = max(totals[own] - a, 0.0)
        totals[best] += a


@_exact
def _move_rows(parts, labels, counts, state):  # type: ignore[no-untyped-def]
    # IN parts = (data, indices, indptr); IN/OUT labels, counts, state = (sums, terms, totals)
    data, indices, indptr = parts
    every = np.arange(state[0].shape[0]).astype(indices.dtype)
    gain, moved = np.empty(counts.size), 0
    for i in range(labels.size):
        own, low, high = labels[i], indptr[i], indptr[i + 1]
        if own < 0 or counts[own] < 2:
            continue
        columns = indices[low:high] if indices.size > 0 else every
        loss, best = _gains(data[low:high], columns, own, state, gain)
        if best >= 0 and gain[best] > loss:
            _move(data[low:high], columns, own, best, state)
            counts[own] -= 1
            counts[best] += 1
            labels[i] = best
            moved += 1
    return moved


def move_rows_into(
    parts: tuple[FloatArray, IntArray, IntArray], labels: IntArray, sums: FloatArray
) -> int:
    terms = sums * np.log(np.where(sums > 0, sums, 1.0))
    counts = np.bincount(labels[labels >= 0], minlength=sums.shape[1])
    return int(_move_rows(parts, labels, counts, (sums, terms, sums.sum(axis=0))))
