"""The pass of `reference.relaxation`, compiled: F is formed a few rows at a time, in the cache."""

import numpy as np

from orthoplus.core.types import FloatArray
from orthoplus.kernels.blocks import for_blocks, partition_rows
from orthoplus.kernels.fused.cache import njit

# Rows of F that are formed at a time.
_ROWS = 32

# Sums may be reordered for SIMD; infinity keeps its meaning.
_compiled = njit(nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})


@_compiled
def _relax(F, T, G, W, over, inverse, sums):  # type: ignore[no-untyped-def]
    # IN F, G, over, inverse; OUT T (updated), W, sums (added to)
    zero = T.dtype.type(0)
    for i in range(T.shape[0]):
        primal = change = size = dual = zero  # of one row: float32 is enough
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
