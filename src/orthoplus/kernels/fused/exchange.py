"""Compiled exchanges of `reference.exchange`; B is stored with its rows and columns in order p."""

from typing import NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.reference.exchange import drawn_pairs, exchange_threshold, kick_sizes

_exact = njit(nogil=True)


class _State(NamedTuple):
    """A permutation p, B in its order (and its transpose if not symmetric), and the deltas D."""

    b: FloatArray
    p: IntArray
    D: FloatArray


@_exact
def _renew(A, C, b, p, D, r, row):  # type: ignore[no-untyped-def]
    # IN A, b (a matrix and, if not symmetric, its transpose), C, p, r; OUT D: all pairs with r, row
    n, twice = p.size, 2.0 / len(A)  # rows and columns of a symmetric matrix give equal sums
    for s in range(n):
        row[s] = 0.0
    for side in range(len(A)):
        M, m = A[side], b[side]
        for i in range(n):
            if i != r:  # the inner loop over s is contiguous; s = i is subtracted below
                at, to = M[i, r], m[i, r]
                for s in range(n):
                    row[s] += (at - M[i, s]) * (m[i, s] - to)
        for s in range(n):
            row[s] -= (M[s, r] - M[s, s]) * (m[s, s] - m[s, r])
    M, m = A[0], b[0]
    for s in range(n):
        own = (M[r, r] - M[s, s]) * (m[s, s] - m[r, r]) + (M[r, s] - M[s, r]) * (m[s, r] - m[r, s])
        row[s] = twice * row[s] + own + C[r, p[s]] + C[s, p[r]] - C[r, p[r]] - C[s, p[s]]
    for s in range(r):
        D[s, r] = row[s]
    for s in range(r + 1, n):
        D[r, s] = row[s]


# Only loops: a slice or a new array takes as long to compile as a dozen loops.
@_exact
def _walk(A, C, b, p, D, kicks, space, threshold):  # type: ignore[no-untyped-def]
    # IN A, C, kicks, threshold; IN/OUT b, p, D; OUT space: work arrays. Makes the exchanges of
    # kicks, then the best exchange while it improves f; returns the change of f and the number of
    # exchanges.
    n, change, count, twice = p.size, 0.0, 0, 2.0 / len(A)
    row, x, y = space[0], space[1], space[2]
    while True:
        u = v = -1
        if count < len(kicks):
            u, v = kicks[count, 0], kicks[count, 1]
        else:
            least = np.inf
            for r in range(n):
                pairs, top = D[r, r + 1 :], np.inf
                for s in range(pairs.size):
                    top = min(top, pairs[s])
                row[r] = top
                least = min(least, top)
            if not least < -threshold:
                return change, count
            # Take the first pair whose gain equals the best one up to rounding.
            enough, u = min(least + threshold, -threshold), 0
            while row[u] > enough:
                u += 1
            v = u + 1
            while D[u, v] > enough:
                v += 1
        change, count = change + D[u, v], count + 1
        # Pairs without u and v: D_rs += (x_r - x_s)(y_s - y_r), in O(1) each.
        for side in range(len(A)):
            for r in range(n):
                x[r] = A[side, u, r] - A[side, v, r]
                y[r] = twice * (b[side, v, r] - b[side, u, r])
            for r in range(n):
                x_r, y_r, pairs = x[r], y[r], D[r, r + 1 :]
                x_s, y_s = x[r + 1 :], y[r + 1 :]  # indices from zero let the compiler vectorize
                for s in range(pairs.size):
                    pairs[s] += (x_r - x_s[s]) * (y_s[s] - y_r)
        p[u], p[v] = p[v], p[u]
        for side in range(len(A)):
            for i in range(n):
                b[side, u, i], b[side, v, i] = b[side, v, i], b[side, u, i]
            for i in range(n):
                b[side, i, u], b[side, i, v] = b[side, i, v], b[side, i, u]
        for end in range(2):  # pairs with u or v are recomputed, in O(n) each
            _renew(A, C, b, p, D, u if end == 0 else v, row)


def _sides(M: FloatArray, count: int) -> FloatArray:
    """Stack M and, if ``count`` is two, its transpose."""
    return np.stack([M, M.T][:count])


def _start(
    A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray, D: FloatArray | None = None
) -> tuple[FloatArray, _State]:
    """Return the sides of A and the state of p, which shares its array; compute D if not given."""
    count = 1 if (A == A.T).all() and (B == B.T).all() else 2
    state = _State(_sides(B[np.ix_(p, p)], count), p, np.zeros(C.shape) if D is None else D)
    sides = _sides(A, count)
    if D is None:
        _renew_all(sides, C, state)
    return sides, state


def _renew_all(A: FloatArray, C: FloatArray, state: _State) -> None:
    row = np.empty(len(C))
    for r in range(len(C)):
        _renew(A, C, *state, r, row)


def exchange_deltas(A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray) -> FloatArray:
    """Compute the deltas of all n (n - 1) / 2 exchanges."""
    return _start(A, B, C, p)[1].D


def exchange_update_into(
    A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray, D: FloatArray, pair: tuple[int, int]
) -> None:
    """Update p and D for one exchange, in O(1) per pair that excludes its two indices."""
    sides, state = _start(A, B, C, p, D)
    _walk(sides, C, *state, np.array([pair]), np.empty((3, len(p))), np.inf)  # no descent


def exchange_search_into(
    A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray, draws: FloatArray
) -> float:
    """Run kicks and descents with B kept in the order of p."""
    n, threshold, (least, most) = len(p), exchange_threshold(A, B, C), kick_sizes(len(p))
    pairs, space = drawn_pairs(draws, n), np.empty((3, n))
    A, now = _start(A, B, C, p)
    total, _ = _walk(A, C, *now, pairs[:0], space, threshold)
    kept = _State(now.b.copy(), now.p.copy(), now.D.copy())
    t, kick = 0, least
    while t < len(pairs) and n > 1:
        change, count = _walk(A, C, *now, pairs[t : t + kick], space, threshold)
        t += max(kick, count)
        kick = least if change < -threshold or kick >= most else kick + 1
        is_kept = change <= threshold
        total += change if is_kept else 0.0
        for part, other in zip(kept, now, strict=True) if is_kept else zip(now, kept, strict=True):
            part[...] = other
    _renew_all(A, C, now)  # recompute: the updates accumulate rounding errors
    return float(total + _walk(A, C, *now, pairs[:0], space, threshold)[0])
