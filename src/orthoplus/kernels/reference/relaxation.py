"""The pass of the relaxation's ADMM over its n x n matrices, in plain NumPy: the specification."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

__all__ = ["relax_into", "sweep_cuts_into", "worst_cuts"]


def relax_into(
    factors: tuple[FloatArray, FloatArray],
    T: FloatArray,
    offset: FloatArray | None,
    G: FloatArray,
    W: FloatArray,
    weights: tuple[float, float],
) -> FloatArray:
    """Take one step from T, and form the matrix W that is projected next.

    With F = LR', P = max(T - K, 0) and D = T - P, where K is the offset (None for zeros, infinity
    where P is to be 0),

        T <- a F + (1 - a) P + D,   W <- P - D + G / penalty   with the new P and D.

    IN factors (L, R), offset, G, weights (a, 1 / penalty); OUT T (updated), W. Returns the sums of
    squares of F - P, P - old P, P and D.
    """
    over, inverse = weights
    F = factors[0] @ factors[1].T
    P, D = _parts(T, offset)
    T[:] = over * F + (1 - over) * P + D
    old, (P, D) = P, _parts(T, offset)
    W[:] = P - D + inverse * G
    return np.array([np.sum(part * part, dtype=np.float64) for part in (F - P, P - old, P, D)])


def _parts(T: FloatArray, offset: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    P = np.maximum(T if offset is None else T - offset, 0)
    return P, T - P


def sweep_cuts_into(
    cuts: IntArray,
    scale: FloatArray,
    T: FloatArray,
    multipliers: FloatArray,
    offset: FloatArray,
) -> None:
    """Improve the multipliers of all cuts in turn (Hildreth): P = max(T - K, 0) nears them all.

    Cut c has the rows (i, j, l) = cuts[c] and says, for Z_ab = scale_a scale_b P_ab,

        Z_ij + Z_il - Z_ii - Z_jl <= 0,   or   Z_ij - Z_ii <= 0   if l = -1.

    With C its symmetric matrix and K = sum_c m_c C, a step is m_c <- max(0, m_c + <C, P> / |C|^2).

    IN cuts, scale, T; OUT multipliers (updated), offset (K, updated; it may be infinite).
    """
    for c, (i, j, l) in enumerate(cuts):  # noqa: E741
        entries = _entries(i, j, l, scale)
        value = sum(weight * max(T[a, b] - offset[a, b], 0.0) for a, b, weight in entries)
        # Off the diagonal a weight stands for two entries of half of it.
        norm = sum(weight * weight * (1.0 if a == b else 0.5) for a, b, weight in entries)
        change = max(multipliers[c] + value / norm, 0.0) - multipliers[c]
        multipliers[c] += change
        for a, b, weight in entries:
            offset[a, b] += change * weight * (1.0 if a == b else 0.5)
            offset[b, a] = offset[a, b]


def _entries(i: int, j: int, l: int, scale: FloatArray) -> list[tuple[int, int, float]]:  # noqa: E741
    found = [(i, j, scale[i] * scale[j]), (i, i, -scale[i] * scale[i])]
    if l >= 0:
        found += [(i, l, scale[i] * scale[l]), (j, l, -scale[j] * scale[l])]
    return found


def worst_cuts(Z: FloatArray, least: float) -> tuple[IntArray, FloatArray]:
    """Return, for each pair (i, j), the cut of these rows that Z violates most, see below.

    It is the row l = best[i, j] with the largest Z_ij + Z_il - Z_ii - Z_jl, or -1 for the pair
    itself, and that number. Only j and l > j with Z_ij, Z_il > least Z_ii count, else it is 0.
    """
    n = len(Z)
    best, violation = np.full((n, n), -1, dtype=np.int64), np.zeros((n, n))
    for i in range(n):
        rows = np.flatnonzero(Z[i] > least * Z[i, i])
        rows = rows[rows != i]
        for at, j in enumerate(rows):
            violation[i, j] = max(Z[i, j] - Z[i, i], 0.0)
            for l in rows[at + 1 :]:  # noqa: E741
                value = Z[i, j] + Z[i, l] - Z[i, i] - Z[j, l]
                if value > violation[i, j]:
                    best[i, j], violation[i, j] = l, value
    return best, violation
