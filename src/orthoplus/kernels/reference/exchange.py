"""Pairwise exchanges of a permutation, in plain NumPy: the specification.

f(p) = sum_ij A_ij B_{p(i)p(j)} + sum_i C_{ip(i)} for any real n x n matrices A, B, C; an exchange
of r and s swaps p(r) and p(s).
"""

import numpy as np

from orthoplus.protocols import FloatArray, IntArray

__all__ = ["exchange_deltas", "exchange_search_into", "exchange_update_into"]

# An exchange must gain this share of n max|A| max|B| + max|C|: rounding alone must not move.
EXCHANGE_THRESHOLD = 1e-12
# How long a pair that was left may not come back, in units of n (Taillard, 1991).
TENURE_LOW, TENURE_RANGE = 0.9, 0.2


def exchange_deltas(A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray) -> FloatArray:
    """D_rs = f(p with r and s exchanged) - f(p) for r < s, zero elsewhere; O(n^3).

    With b_ij = B_{p(i)p(j)}

        D_rs = (A_rr - A_ss)(b_ss - b_rr) + (A_rs - A_sr)(b_sr - b_rs)
             + sum_{l not r, s} (A_lr - A_ls)(b_ls - b_lr) + (A_rl - A_sl)(b_sl - b_rl)
             + C_{rp(s)} + C_{sp(r)} - C_{rp(r)} - C_{sp(s)}.
    """
    n, b = len(p), B[np.ix_(p, p)]
    D = np.zeros((n, n))
    for r in range(n):
        for s in range(r + 1, n):
            D[r, s] = _delta(A, b, C[:, p], r, s)
    return D


def _delta(A: FloatArray, b: FloatArray, c: FloatArray, r: int, s: int) -> float:
    others = np.arange(len(A))
    others = others[(others != r) & (others != s)]
    columns = (A[others, r] - A[others, s]) @ (b[others, s] - b[others, r])
    rows = (A[r, others] - A[s, others]) @ (b[s, others] - b[r, others])
    own = (A[r, r] - A[s, s]) * (b[s, s] - b[r, r]) + (A[r, s] - A[s, r]) * (b[s, r] - b[r, s])
    return float(columns + rows + own + c[r, s] + c[s, r] - c[r, r] - c[s, s])


def exchange_update_into(
    A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray, D: FloatArray, pair: tuple[int, int]
) -> None:
    """Exchange (u, v) = pair in p, and make D the differences of the new permutation; O(n^2).

    For r, s other than u, v only the terms l = u, v of the sum have changed, O(1) a pair:

        D_rs += (x_r - x_s)(y_s - y_r) + (x'_r - x'_s)(y'_s - y'_r),
        x = A_u. - A_v.,  y = b_v. - b_u.,  x' = A_.u - A_.v,  y' = b_.v - b_.u  (b before).

    The 2n - 3 pairs with u or v are computed anew, O(n) each.
    """
    u, v = pair
    b = B[np.ix_(p, p)]
    for x, y in ((A[u] - A[v], b[v] - b[u]), (A[:, u] - A[:, v], b[:, v] - b[:, u])):
        D += np.triu(np.subtract.outer(x, x) * -np.subtract.outer(y, y), 1)
    p[u], p[v] = p[v], p[u]
    b, c = B[np.ix_(p, p)], C[:, p]
    for r in range(len(p)):
        for s in range(r + 1, len(p)):
            if {r, s} & {u, v}:
                D[r, s] = _delta(A, b, c, r, s)


def exchange_search_into(
    A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray, draws: FloatArray
) -> float:
    """Tabu search for ``len(draws)`` steps, then descent from the best permutation it met.

    A step makes the best exchange that is allowed, up or down. An exchange of r and s is forbidden
    while both r -> p(s) and s -> p(r) are: what is left at step t stays forbidden up to
    t + (0.9 + 0.2 draw) n. One that leads below the best value so far is always allowed. Without
    draws it is the plain pairwise exchange method.

    Taillard, Parallel Computing 17 (1991). ``p`` becomes the best permutation, from which no
    exchange gains; returns the change of f, at most 0. O(n^2) a step. Ties: the first pair.
    """
    n = len(p)
    threshold = exchange_threshold(A, B, C)
    now, D = p.copy(), exchange_deltas(A, B, C, p)
    gain, least = 0.0, 0.0
    until = np.zeros((n, n), dtype=np.int64)
    upper = np.triu(np.ones((n, n), dtype=bool), 1)
    for t, (one, other) in enumerate(draws):
        back = until[:, now] > t  # [r, s]: whether r -> p(s) is forbidden
        allowed = upper & (~(back & back.T) | (gain + D < least - threshold))
        if not allowed.any():
            continue
        r, s = divmod(int(np.where(allowed, D, np.inf).argmin()), n)
        until[r, now[r]] = t + int((TENURE_LOW + TENURE_RANGE * one) * n) + 1
        until[s, now[s]] = t + int((TENURE_LOW + TENURE_RANGE * other) * n) + 1
        gain += D[r, s]
        exchange_update_into(A, B, C, now, D, (r, s))
        if gain < least - threshold:
            least, p[:] = gain, now
    D = exchange_deltas(A, B, C, p)
    while n > 1:
        r, s = divmod(int(np.where(upper, D, np.inf).argmin()), n)
        if D[r, s] >= -threshold:
            break
        least += D[r, s]
        exchange_update_into(A, B, C, p, D, (r, s))
    return float(least)


def exchange_threshold(A: FloatArray, B: FloatArray, C: FloatArray) -> float:
    """What an exchange must gain to count."""
    size = len(A) * np.abs(A).max() * np.abs(B).max() + np.abs(C).max()
    return float(EXCHANGE_THRESHOLD * size)
