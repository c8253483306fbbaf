"""The exchanges of `reference.exchange`, compiled; B is held with rows and columns in p's order."""

import numpy as np
from numba import njit

from orthoplus.kernels.reference.exchange import TENURE_LOW, TENURE_RANGE, exchange_threshold
from orthoplus.protocols import FloatArray, IntArray

_exact = njit(cache=True, nogil=True)


@_exact
def _permuted(B, p):  # type: ignore[no-untyped-def]  # IN all
    b = np.empty_like(B)
    for i in range(p.size):
        for j in range(p.size):
            b[i, j] = B[p[i], p[j]]
    return b


@_exact
def _sides(M):  # type: ignore[no-untyped-def]  # IN M; a matrix and its transpose, both by rows
    return np.stack((M, M.T))


@_exact
def _deltas_of(A, b, C, p, r, out):  # type: ignore[no-untyped-def]
    # IN A, b: pairs of a matrix and its transpose, C, p, r; OUT out: D_rs for all s, r itself aside
    n = p.size
    out[:] = 0.0
    for side in range(2):
        M, m = A[side], b[side]
        for i in range(n):
            if i != r:  # the sum runs along s, contiguous; s = i is taken back below
                at, to = M[i, r], m[i, r]
                for s in range(n):
                    out[s] += (at - M[i, s]) * (m[i, s] - to)
    M, m = A[0], b[0]
    for s in range(n):
        out[s] -= (M[s, r] - M[s, s]) * (m[s, s] - m[s, r])
        out[s] -= (M[r, s] - M[s, s]) * (m[s, s] - m[r, s])
        out[s] += (M[r, r] - M[s, s]) * (m[s, s] - m[r, r])
        out[s] += (M[r, s] - M[s, r]) * (m[s, r] - m[r, s])
        out[s] += C[r, p[s]] + C[s, p[r]] - C[r, p[r]] - C[s, p[s]]


@_exact
def _deltas(A, b, C, p, D):  # type: ignore[no-untyped-def]  # IN A, b, C, p; OUT D
    row = np.empty(p.size)
    for r in range(p.size):
        _deltas_of(A, b, C, p, r, row)
        D[r, r + 1 :] = row[r + 1 :]


@_exact
def _renew(A, b, C, p, D, r, row):  # type: ignore[no-untyped-def]  # OUT D, row; IN the rest
    _deltas_of(A, b, C, p, r, row)
    for s in range(r):
        D[s, r] = row[s]
    D[r, r + 1 :] = row[r + 1 :]


@_exact
def _update(A, b, C, p, D, u, v):  # type: ignore[no-untyped-def]  # IN A, C, u, v; IN/OUT b, p, D
    n = p.size
    for side in range(2):
        M, m = A[side], b[side]
        x, y = M[u] - M[v], m[v] - m[u]
        for r in range(n):
            x_r, y_r, row = x[r], y[r], D[r]
            for s in range(r + 1, n):
                row[s] += (x_r - x[s]) * (y[s] - y_r)
    for side in range(2):
        m = b[side]
        for i in range(n):
            m[u, i], m[v, i] = m[v, i], m[u, i]
        for i in range(n):
            m[i, u], m[i, v] = m[i, v], m[i, u]
    p[u], p[v] = p[v], p[u]
    row = np.empty(n)
    _renew(A, b, C, p, D, u, row)
    _renew(A, b, C, p, D, v, row)


@_exact
def _choose(D, p, until, t, enough):  # type: ignore[no-untyped-def]  # IN all
    top, first, second = np.inf, -1, -1
    for r in range(p.size):
        for s in range(r + 1, p.size):
            if D[r, s] < top and (D[r, s] < enough or until[r, p[s]] <= t or until[s, p[r]] <= t):
                top, first, second = D[r, s], r, s
    return first, second


@_exact
def _search(A, B, C, p, draws, threshold):  # type: ignore[no-untyped-def]  # IN/OUT p, IN the rest
    n = p.size
    now, b, D = p.copy(), _sides(_permuted(B, p)), np.zeros((n, n))
    A = _sides(A)
    _deltas(A, b, C, now, D)
    gain, least = 0.0, 0.0
    until = np.zeros((n, n), dtype=np.int64)
    for t in range(len(draws)):
        r, s = _choose(D, now, until, t, least - threshold - gain)
        if r < 0:
            continue
        until[r, now[r]] = t + int((TENURE_LOW + TENURE_RANGE * draws[t, 0]) * n) + 1
        until[s, now[s]] = t + int((TENURE_LOW + TENURE_RANGE * draws[t, 1]) * n) + 1
        gain += D[r, s]
        _update(A, b, C, now, D, r, s)
        if gain < least - threshold:
            least = gain
            p[:] = now
    b = _sides(_permuted(B, p))
    _deltas(A, b, C, p, D)
    until[:] = 0
    while True:
        r, s = _choose(D, p, until, 0, 0.0)
        if r < 0 or D[r, s] >= -threshold:
            return least
        least += D[r, s]
        _update(A, b, C, p, D, r, s)


def exchange_deltas(A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray) -> FloatArray:
    D = np.zeros((len(p), len(p)))
    _deltas(_sides(A), _sides(_permuted(B, p)), C, p, D)
    return D


def exchange_update_into(
    A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray, D: FloatArray, pair: tuple[int, int]
) -> None:
    _update(_sides(A), _sides(_permuted(B, p)), C, p, D, *pair)


def exchange_search_into(
    A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray, draws: FloatArray
) -> float:
    return float(_search(A, B, C, p, draws, exchange_threshold(A, B, C)))
