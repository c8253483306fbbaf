"""The passes of `reference.ratio_cuts`, compiled."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.blocks import for_blocks, partition_rows
from orthoplus.kernels.fused.cache import njit

# Products may be reordered for SIMD; infinity keeps its meaning.
_compiled = njit(nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
_exact = njit(nogil=True)
# Columns that are worked on at a time, so that they stay in the cache.
_COLUMNS = 512
# Smaller ratios count as 0.
_LEAST_RATIO = 1e-150


@_compiled
def _ratios(M, inverse, first, last, R):  # type: ignore[no-untyped-def]
    # IN M, inverse (of M, infinite where it is 0), first, last (rows); OUT R (of these rows)
    n = M.shape[0]
    for i in range(first, last):
        for j in range(n):
            R[i, j] = np.inf
    for start in range(0, n, _COLUMNS):
        stop = min(start + _COLUMNS, n)
        for i in range(first, last):
            for j in range(n):
                least = R[i, j]
                for m in range(start, stop):
                    least = min(least, M[i, m] * inverse[j, m])
                R[i, j] = least


def row_ratios(M: FloatArray) -> FloatArray:
    n = len(M)
    # A column with M_jm = 0 does not count: its quotient is infinite. Where M_im = 0 the quotients
    # are so small that they become 0 in the end; 0 times infinity would not be a number.
    inverse = np.divide(1.0, M, out=np.full_like(M, np.inf), where=M > 0)
    R = np.empty((n, n))
    padded = np.where(M > 0, M, np.finfo(np.float64).tiny)
    for_blocks(lambda b, i: _ratios(padded, inverse, i.start, i.stop, R), partition_rows(n, n))
    R[~(np.isfinite(R) & (R > _LEAST_RATIO))] = 0.0
    return R


@_exact
def _sweep(cuts, R, T, multipliers, K):  # type: ignore[no-untyped-def]
    # IN cuts, R, T; OUT multipliers, K (updated)
    for c in range(cuts.shape[0]):
        i, j, l = cuts[c, 0], cuts[c, 1], cuts[c, 2]  # noqa: E741
        ij = R[i, j]
        value = ij * max(T[i, j] - K[i, j], 0.0) - max(T[i, i] - K[i, i], 0.0)
        norm = 0.5 * ij * ij + 1.0
        il = jl = 0.0
        if l >= 0:
            il, jl = R[i, l], -ij * R[i, l]
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


def sweep_ratio_cuts_into(
    cuts: IntArray, R: FloatArray, T: FloatArray, multipliers: FloatArray, offset: FloatArray
) -> None:
    _sweep(cuts, R, T, multipliers, offset)


@_exact
def _worst(Z, R, first, last, least, best, violation):  # type: ignore[no-untyped-def]
    # IN Z, R, first, last (rows), least; OUT best, violation (of these rows)
    n = Z.shape[0]
    rows, scaled = np.empty(n, dtype=np.int64), np.empty(n)
    for i in range(first, last):
        own = Z[i, i]
        if not own > 0:
            continue
        count = 0
        for j in range(n):
            scaled[j] = R[i, j] * Z[i, j] / own
            if j != i and scaled[j] > least:
                rows[count] = j
                count += 1
        for at in range(count):
            j = rows[at]
            top, where = max(scaled[j] - 1.0, 0.0), -1
            for other in range(at + 1, count):
                l = rows[other]  # noqa: E741
                value = scaled[j] + scaled[l] - 1.0 - R[i, j] * R[i, l] * Z[j, l] / own
                if value > top:
                    top, where = value, l
            best[i, j], violation[i, j] = where, top


def worst_ratio_cuts(Z: FloatArray, R: FloatArray, least: float) -> tuple[IntArray, FloatArray]:
    n = len(Z)
    best, violation = np.full((n, n), -1, dtype=np.int64), np.zeros((n, n))
    blocks = partition_rows(n, n)
    for_blocks(lambda b, i: _worst(Z, R, i.start, i.stop, least, best, violation), blocks)
    return best, violation
