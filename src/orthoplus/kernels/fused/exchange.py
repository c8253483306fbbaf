"""The exchanges of `reference.exchange`, compiled; B is held with rows and columns in p's order."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.reference.exchange import drawn_pair, exchange_threshold, kick_sizes

_exact = njit(nogil=True)
_drawn_pair = _exact(drawn_pair)


@_exact
def _permuted(B, p):  # type: ignore[no-untyped-def]  # IN all
    b = np.empty_like(B)
    for i in range(p.size):
        for j in range(p.size):
            b[i, j] = B[p[i], p[j]]
    return b


@_exact
def _sides(M, count):  # type: ignore[no-untyped-def]  # IN all; M, and its transpose where count = 2
    sides = np.empty((count, *M.shape))
    sides[0] = M
    if count == 2:
        sides[1] = M.T
    return sides


@_exact
def _deltas_of(A, b, C, p, r, out):  # type: ignore[no-untyped-def]
    # IN A, b: the sides of a matrix, C, p, r; OUT out: D_rs for all s, r itself aside
    n = p.size
    out[:] = 0.0
    for side in range(len(A)):
        M, m = A[side], b[side]
        for i in range(n):
            if i != r:  # the sum runs along s, contiguous; s = i is taken back below
                at, to = M[i, r], m[i, r]
                for s in range(n):
                    out[s] += (at - M[i, s]) * (m[i, s] - to)
        for s in range(n):
            out[s] -= (M[s, r] - M[s, s]) * (m[s, s] - m[s, r])
    twice = 2.0 / len(A)  # a symmetric matrix has one side, which counts twice
    M, m = A[0], b[0]
    for s in range(n):
        own = (M[r, r] - M[s, s]) * (m[s, s] - m[r, r]) + (M[r, s] - M[s, r]) * (m[s, r] - m[r, s])
        out[s] = twice * out[s] + own + C[r, p[s]] + C[s, p[r]] - C[r, p[r]] - C[s, p[s]]


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
    twice = 2.0 / len(A)
    for side in range(len(A)):
        M, m = A[side], b[side]
        x, y = M[u] - M[v], twice * (m[v] - m[u])
        for r in range(n):  # slices: indices from zero let the compiler vectorise
            x_r, y_r, row, x_s, y_s = x[r], y[r], D[r, r + 1 :], x[r + 1 :], y[r + 1 :]
            for s in range(row.size):
                row[s] += (x_r - x_s[s]) * (y_s[s] - y_r)
    for side in range(len(A)):
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
def _best(D, tops, threshold):  # type: ignore[no-untyped-def]  # IN D, threshold; OUT tops
    # The first pair that gains as much as the best one, but for rounding; r = -1 if none gains.
    n, least = len(D), np.inf
    for r in range(n - 1):
        row, top = D[r, r + 1 :], np.inf
        for s in range(row.size):
            top = min(top, row[s])
        tops[r] = top
        least = min(least, top)
    if least >= -threshold:
        return -1, -1
    enough = min(least + threshold, -threshold)
    for r in range(n - 1):
        if tops[r] <= enough:
            for s in range(r + 1, n):
                if D[r, s] <= enough:
                    return r, s
    return -1, -1


@_exact
def _descend(A, b, C, p, D, threshold):  # type: ignore[no-untyped-def]
    # IN A, C, threshold; IN/OUT b, p, D; the change of f and the number of exchanges
    change, count, tops = 0.0, 0, np.empty(len(D))
    while True:
        r, s = _best(D, tops, threshold)
        if r < 0:
            return change, count
        change += D[r, s]
        count += 1
        _update(A, b, C, p, D, r, s)


@_exact
def _search(A, b, C, p, draws, threshold, kicks):  # type: ignore[no-untyped-def]
    # IN/OUT b, p; IN the rest
    n, n_steps = p.size, len(draws)
    D = np.zeros((n, n))
    _deltas(A, b, C, p, D)
    total, _ = _descend(A, b, C, p, D, threshold)
    kept_b, kept_p, kept_D = b.copy(), p.copy(), D.copy()
    t, kick = 0, kicks[0]
    while t < n_steps and n > 1:
        change = 0.0
        for i in range(t, min(t + kick, n_steps)):
            r, s = _drawn_pair(draws[i], n)
            change += D[r, s]
            _update(A, b, C, p, D, r, s)
        gain, count = _descend(A, b, C, p, D, threshold)
        change += gain
        t += kick + count
        kick = kicks[0] if change < -threshold or kick >= kicks[1] else kick + 1
        if change <= threshold:
            total += change
            kept_b[:], kept_p[:], kept_D[:] = b, p, D
        else:
            b[:], p[:], D[:] = kept_b, kept_p, kept_D
    _deltas(A, b, C, p, D)  # anew: the updates have rounded
    return total + _descend(A, b, C, p, D, threshold)[0]


def _count_sides(A: FloatArray, B: FloatArray) -> int:
    return 1 if (A == A.T).all() and (B == B.T).all() else 2


def exchange_deltas(A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray) -> FloatArray:
    D, count = np.zeros((len(p), len(p))), _count_sides(A, B)
    _deltas(_sides(A, count), _sides(_permuted(B, p), count), C, p, D)
    return D


def exchange_update_into(
    A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray, D: FloatArray, pair: tuple[int, int]
) -> None:
    count = _count_sides(A, B)
    _update(_sides(A, count), _sides(_permuted(B, p), count), C, p, D, *pair)


def exchange_search_into(
    A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray, draws: FloatArray
) -> float:
    count = _count_sides(A, B)
    sides = _sides(A, count), _sides(_permuted(B, p), count)
    return float(_search(*sides, C, p, draws, exchange_threshold(A, B, C), kick_sizes(len(p))))
