"""Pairwise exchanges of a permutation, in plain NumPy: the specification.

f(p) = sum_ij A_ij B_{p(i)p(j)} + sum_i C_{ip(i)} for any real n x n matrices A, B, C; an exchange
of r and s swaps p(r) and p(s).
"""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

__all__ = ["exchange_deltas", "exchange_search_into", "exchange_update_into"]

# Least gain of an exchange relative to n max|A| max|B| + max|C|, above the rounding error.
EXCHANGE_THRESHOLD = 1e-12
# Number of random exchanges before a descent: the minimum, the maximum as a fraction of n, and the
# absolute maximum. Longer kicks did not pay off in measurements on six families of instances.
KICK_LEAST, KICK_SHARE, KICK_MOST = 3, 0.5, 12


def exchange_deltas(A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray) -> FloatArray:
    """Return D_rs = f(p with r and s exchanged) - f(p) for r < s, zero elsewhere; O(n^3).

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
    """Exchange (u, v) = pair in p, and update D for the new permutation; O(n^2).

    For r, s other than u, v only the terms l = u, v of the sum change, O(1) per pair:

        D_rs += (x_r - x_s)(y_s - y_r) + (x'_r - x'_s)(y'_s - y'_r),
        x = A_u. - A_v.,  y = b_v. - b_u.,  x' = A_.u - A_.v,  y' = b_.v - b_.u  (b before).

    The 2n - 3 pairs that contain u or v are recomputed, O(n) each.
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
    """Run an iterated local search: pairwise exchange, then kicks and descents.

    A descent makes the best exchange until none improves f. A kick exchanges some random pairs, the
    pair of step t by ``draws[t]``; if the descent that follows ends above the best permutation so
    far, the kick is undone. The size of the kicks grows by one from the minimum to the maximum and
    then starts again, as it does after an improvement. The search ends after ``len(draws)``
    exchanges; without draws it is the plain pairwise exchange method.

    ``p`` is overwritten with the best permutation, which no exchange improves. Return the change of
    f, at most 0. The cost is O(n^2) per exchange. Among exchanges whose gains agree up to rounding,
    the first one is made: rounding depends on the scale of A, B and C, and the path must not.

    Reference: Stützle, European J. Oper. Res. 174 (2006).
    """
    n, threshold = len(p), exchange_threshold(A, B, C)
    pairs, (least, most) = drawn_pairs(draws, n), kick_sizes(n)
    D = exchange_deltas(A, B, C, p)
    total, _ = _descend_into(A, B, C, p, D, threshold)
    t, kick = 0, least
    while t < len(draws) and n > 1:
        now, now_D = p.copy(), D.copy()
        change = 0.0
        for r, s in pairs[t : t + kick]:
            change += float(now_D[r, s])
            exchange_update_into(A, B, C, now, now_D, (r, s))
        gain, count = _descend_into(A, B, C, now, now_D, threshold)
        t += kick + count
        kick = least if change + gain < -threshold or kick >= most else kick + 1
        if change + gain <= threshold:
            total += change + gain
            p[:], D = now, now_D
    D = exchange_deltas(A, B, C, p)  # recompute: the updates accumulate rounding errors
    return total + _descend_into(A, B, C, p, D, threshold)[0]


def _descend_into(
    A: FloatArray, B: FloatArray, C: FloatArray, p: IntArray, D: FloatArray, threshold: float
) -> tuple[float, int]:
    """Make the best exchange while one improves f; return the change of f and their number."""
    change, count, upper = 0.0, 0, np.triu(np.ones(D.shape, dtype=bool), 1)
    while len(p) > 1:
        least = D[upper].min()
        if least >= -threshold:
            break
        # The bound -threshold excludes pairs that gain by rounding only, which could cycle.
        is_tied = upper & (D <= min(least + threshold, -threshold))
        r, s = divmod(int(is_tied.argmax()), len(p))
        change, count = change + float(D[r, s]), count + 1
        exchange_update_into(A, B, C, p, D, (r, s))
    return change, count


def drawn_pairs(draws: FloatArray, n: int) -> IntArray:
    """Convert each row, two numbers in [0, 1), to a pair r < s; all pairs are equally likely."""
    r, s = (draws[:, 0] * n).astype(np.int64), (draws[:, 1] * (n - 1)).astype(np.int64)
    s += s >= r
    return np.sort(np.column_stack([r, s]), axis=1)


def kick_sizes(n: int) -> tuple[int, int]:
    """Return the smallest and the largest number of exchanges in a kick."""
    return KICK_LEAST, max(KICK_LEAST, min(int(KICK_SHARE * n), KICK_MOST))


def exchange_threshold(A: FloatArray, B: FloatArray, C: FloatArray) -> float:
    """Return the least gain of an exchange that is not attributed to rounding."""
    size = len(A) * np.abs(A).max() * np.abs(B).max() + np.abs(C).max()
    return float(EXCHANGE_THRESHOLD * size)
