"""Compiled loops of `reference.relaxation`; F is computed a few rows at a time to fit the cache."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.blocks import for_blocks, partition_rows
from orthoplus.kernels.fused.cache import njit, reordering
from orthoplus.kernels.reference.relaxation import HUGE

# Rows of F computed at a time, and entries after which a ratio is compared with its floor.
_ROWS, _CHECK_INTERVAL = 32, 128

# The four sums of squares are those of F - P, P - old P, P and D.
_compiled = reordering()
_exact = njit(nogil=True)


@_compiled
def _relax(F, T, G, W, over, inverse, sums):  # type: ignore[no-untyped-def]
    # IN F, G, over, inverse; OUT T (updated), W, sums (added to)
    zero = T.dtype.type(0)
    for i in range(T.shape[0]):
        primal = change = size = dual = zero  # sums over one row: float32 is precise enough
        for j in range(T.shape[1]):
            f, t = F[i, j], T[i, j]
            p = max(t, zero)
            t = over * (f - p) + t
            new = max(t, zero)
            d = t - new
            T[i, j] = t
            W[i, j] = new - d + inverse * G[i, j]
            primal += (f - new) * (f - new)
            change += (new - p) * (new - p)
            size += new * new
            dual += d * d
        sums[0] += primal
        sums[1] += change
        sums[2] += size
        sums[3] += dual


@_compiled
def _relax_with_offset(F, T, K, G, W, over, inverse, sums):  # type: ignore[no-untyped-def]
    # IN F, K, G, over, inverse; OUT T (updated), W, sums (added to)
    zero = T.dtype.type(0)
    for i in range(T.shape[0]):
        primal = change = size = dual = zero
        for j in range(T.shape[1]):
            f, t, offset = F[i, j], T[i, j], K[i, j]
            p = max(t - offset, zero)
            t = over * (f - p) + t
            new = max(t - offset, zero)
            d = t - new
            T[i, j] = t
            W[i, j] = new - d + inverse * G[i, j]
            primal += (f - new) * (f - new)
            change += (new - p) * (new - p)
            size += new * new
            dual += d * d
        sums[0] += primal
        sums[1] += change
        sums[2] += size
        sums[3] += dual


def relax_into(
    factors: tuple[FloatArray, FloatArray],
    T: FloatArray,
    offset: FloatArray | None,
    G: FloatArray,
    W: FloatArray,
    weights: tuple[float, float],
) -> FloatArray:
    """Do the step in one pass over T, in threads over blocks of rows."""
    L, Rt = factors[0], factors[1].T
    over, inverse = (T.dtype.type(weight) for weight in weights)
    blocks = partition_rows(*T.shape)
    sums = np.zeros((len(blocks), 4))

    def work(b: int, rows: slice) -> None:
        for start in range(rows.start, rows.stop, _ROWS):
            i = slice(start, min(start + _ROWS, rows.stop))
            F = L[i] @ Rt
            if offset is None:
                _relax(F, T[i], G[i], W[i], over, inverse, sums[b])
            else:
                _relax_with_offset(F, T[i], offset[i], G[i], W[i], over, inverse, sums[b])

    for_blocks(work, blocks)
    return np.asarray(sums.sum(axis=0))


@_exact
def _sweep(cuts, ratios, T, multipliers, K):  # type: ignore[no-untyped-def]
    # IN cuts, ratios, T; OUT multipliers, K (updated)
    # Hildreth's step for each cut: m <- max(0, m + <C, P> / |C|^2), K += (change of m) C.
    for c in range(cuts.shape[0]):
        i, j, l = cuts[c, 0], cuts[c, 1], cuts[c, 2]  # noqa: E741
        ij = ratios[i, j]
        value = ij * max(T[i, j] - K[i, j], 0.0) - max(T[i, i] - K[i, i], 0.0)
        norm = 0.5 * ij * ij + 1.0
        il = jl = 0.0
        if l >= 0:
            il = ratios[i, l]
            jl = -ij * il
            value += il * max(T[i, l] - K[i, l], 0.0) + jl * max(T[j, l] - K[j, l], 0.0)
            norm += 0.5 * (il * il + jl * jl)
        change = max(multipliers[c] + value / norm, 0.0) - multipliers[c]
        if change == 0.0:
            continue
        multipliers[c] += change
        K[i, i] -= change
        K[i, j] += 0.5 * change * ij
        K[j, i] = K[i, j]
        if l >= 0:
            K[i, l] += 0.5 * change * il
            K[l, i] = K[i, l]
            K[j, l] += 0.5 * change * jl
            K[l, j] = K[j, l]


def sweep_cuts_into(
    cuts: IntArray,
    ratios: FloatArray,
    T: FloatArray,
    multipliers: FloatArray,
    offset: FloatArray,
) -> None:
    """Update the multipliers in one compiled loop, one cut after the other."""
    _sweep(cuts, ratios, T, multipliers, offset)


@_compiled
def _worst(P, ratios, first, last, least, best, violation):  # type: ignore[no-untyped-def]
    # IN P, ratios, first, last (rows), least; OUT best, violation (of these rows)
    n, zero = P.shape[0], P.dtype.type(0)
    near, weights = np.empty(n, dtype=P.dtype), np.empty(n, dtype=P.dtype)
    for i in range(first, last):
        top, where = violation[i], best[i]
        floor = max(least[0] * P[i, i], least[1])
        for j in range(n):
            weights[j] = ratios[i, j]
            own = weights[j] * P[i, j]
            top[j] = max(P[i, i] - own, zero)
            near[j] = own if j != i and own > floor else zero
        for l in range(n):  # noqa: E741
            if near[l] > zero:
                # Update the maximum for all j at once: this order of the loops vectorizes, a search
                # for the largest entry of each j would not.
                row, number, own, weight = P[l], np.int32(l), near[l], weights[l]
                for j in range(l):
                    value = own - weight * weights[j] * row[j]
                    is_larger = value > top[j]
                    top[j] = value if is_larger else top[j]
                    where[j] = number if is_larger else where[j]
        for j in range(n):
            top[j] = top[j] + near[j] - P[i, i] if near[j] > zero else zero
            where[j] = where[j] if near[j] > zero else -1


def worst_cuts(
    P: FloatArray, ratios: FloatArray, least: tuple[float, float]
) -> tuple[IntArray, FloatArray]:
    """Find the most violated cuts, in threads over blocks of the first index."""
    n = len(P)
    best, violation = np.full((n, n), -1, dtype=np.int32), np.zeros((n, n), dtype=P.dtype)
    blocks = partition_rows(n, n)
    for_blocks(lambda b, i: _worst(P, ratios, i.start, i.stop, least, best, violation), blocks)
    return best, violation


@_compiled
def _ratios(M, first, last, floor, ratios):  # type: ignore[no-untyped-def]
    # IN M, first, last (rows), floor; OUT ratios (of these rows)
    n = M.shape[0]
    inverse = np.empty(n)
    for i in range(first, last):
        for l in range(n):  # noqa: E741
            inverse[l] = 1.0 / M[i, l] if M[i, l] > 0.0 else HUGE
        for j in range(n):
            # Stop early once the ratio 1 / most is below the floor.
            most, start = 0.0, 0
            while start < n and most * floor <= 1.0:
                stop = min(start + _CHECK_INTERVAL, n)
                for l in range(start, stop):  # noqa: E741
                    most = max(most, M[j, l] * inverse[l])
                start = stop
            ratios[i, j] = 1.0 / most if most > 0.0 and most * floor <= 1.0 else 0.0


def least_ratios(M: FloatArray, floor: float) -> FloatArray:
    """Find the ratios, in threads over blocks of the first index."""
    ratios = np.zeros_like(M)
    blocks = partition_rows(*M.shape)
    for_blocks(lambda b, i: _ratios(M, i.start, i.stop, floor, ratios), blocks)
    return ratios
