"""Compiled active-set method of `reference.fractions`, with threads over row blocks."""

import numpy as np

from orthoplus.core.types import EPS, FloatArray
from orthoplus.kernels.blocks import for_blocks, partition_rows
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.reference.fractions import SLACK_UNITS

# No fast math, because the signs of the multipliers decide.
_exact = njit(nogil=True)


@_exact
def _factorize(G, members, p, L):  # type: ignore[no-untyped-def]
    # IN G, members[:p]; OUT L: Cholesky factor of G on the members; returns whether G is definite
    for s in range(p):
        i = members[s]
        for t in range(s + 1):
            total = G[i, members[t]]
            for q in range(t):
                total -= L[s, q] * L[t, q]
            if t < s:
                L[s, t] = total / L[t, t]
            elif total <= SLACK_UNITS * EPS * G[i, i]:
                return False
            else:
                L[s, s] = np.sqrt(total)
    return True


@_exact
def _substitute(L, p, x):  # type: ignore[no-untyped-def]  # IN L; IN/OUT x: (LL')^-1 x
    for s in range(p):
        for q in range(s):
            x[s] -= L[s, q] * x[q]
        x[s] /= L[s, s]
    for s in range(p - 1, -1, -1):
        for q in range(s + 1, p):
            x[s] -= L[q, s] * x[q]
        x[s] /= L[s, s]


@_exact
def _on_passive_set(b, members, p, sums_to_one, work):  # type: ignore[no-untyped-def]
    # IN all but work = (L, u, v), with L set; OUT u = z on the members; returns the multiplier
    L, u, v = work
    for s in range(p):
        u[s], v[s] = b[members[s]], 1.0
    _substitute(L, p, u)
    if not sums_to_one:
        return 0.0
    _substitute(L, p, v)
    price = (u[:p].sum() - 1.0) / v[:p].sum()
    for s in range(p):
        u[s] -= price * v[s]
    return price


@_exact
def _move(a, members, p, u):  # type: ignore[no-untyped-def]
    # IN u: the target z; IN/OUT a, members: move toward z until an entry is zero; returns the new p
    ratio, first = 2.0, -1
    for s in range(p):
        if u[s] <= 0.0:
            step = a[members[s]] / (a[members[s]] - u[s])
            if step < ratio:
                ratio, first = step, s
    left = 0
    for s in range(p):
        j = members[s]
        a[j] += ratio * (u[s] - a[j])
        if s == first or a[j] <= 0.0:
            a[j] = 0.0
        else:
            members[left] = j
            left += 1
    return left


@_exact
def _entering(G, b, a, members, p, price, barred):  # type: ignore[no-untyped-def]
    # IN all; returns the column with the largest multiplier w_j = b_j - (Ga)_j - lambda, and w_j
    best, top = -1, -np.inf
    for j in range(b.size):
        if a[j] > 0.0 or barred[j]:
            continue
        w = b[j] - price
        for s in range(p):
            w -= G[j, members[s]] * a[members[s]]
        if w > top:
            best, top = j, w
    return best, top


@_exact
def _first_vertex(G, b, a, members):  # type: ignore[no-untyped-def]
    # IN G, b; OUT a, members: the best vertex of the simplex; returns its multiplier
    best, least = 0, np.inf
    for j in range(b.size):
        value = 0.5 * G[j, j] - b[j]
        if value < least:
            best, least = j, value
    a[best], members[0] = 1.0, best
    return b[best] - G[best, best]


@_exact
def _solve_row(G, b, sums_to_one, a, barred, members, work):  # type: ignore[no-untyped-def]
    # IN G, b; OUT a; the others are buffers
    k, p, price = b.size, 0, 0.0
    a[:], barred[:] = 0.0, False
    slack = SLACK_UNITS * EPS * (np.abs(b).max() + np.abs(G).max())
    if sums_to_one:
        price, p = _first_vertex(G, b, a, members), 1
    for _ in range(10 * k):
        new, w = _entering(G, b, a, members, p, price, barred)
        if new < 0 or w <= slack:
            return
        members[p] = new
        if not _factorize(G, members, p + 1, work[0]):
            barred[new] = True
            continue
        trial = _on_passive_set(b, members, p + 1, sums_to_one, work)
        if work[1][p] <= 0.0:  # only by rounding: bar the column until the point has changed
            barred[new] = True
            continue
        p, price = p + 1, trial
        while work[1][:p].min() <= 0.0:
            p = _move(a, members, p, work[1])
            _factorize(G, members, p, work[0])
            price = _on_passive_set(b, members, p, sums_to_one, work)
        for s in range(p):
            a[members[s]] = work[1][s]
        barred[:] = False


@_exact
def _solve_rows(G, B, sums_to_one, out):  # type: ignore[no-untyped-def]  # IN G, B; OUT out
    n, k = B.shape
    a, barred, members = np.empty(k), np.empty(k, dtype=np.bool_), np.empty(k + 1, dtype=np.int64)
    work = (np.empty((k, k)), np.empty(k), np.empty(k))
    for i in range(n):
        _solve_row(G, B[i].astype(np.float64), sums_to_one, a, barred, members, work)
        out[i] = a


def constrained_fractions(G: FloatArray, B: FloatArray, sums_to_one: bool) -> FloatArray:
    """Solve the rows in threads, each by an active-set method."""
    n, k = B.shape
    out, gram = np.empty((n, k), dtype=B.dtype), np.ascontiguousarray(G, dtype=np.float64)
    # A row takes about k^3 operations, so the partition treats it as k^3 entries.
    blocks = partition_rows(n, k**3)
    for_blocks(
        lambda _, rows: _solve_rows(gram, np.ascontiguousarray(B[rows]), sums_to_one, out[rows]),
        blocks,
    )
    return out
