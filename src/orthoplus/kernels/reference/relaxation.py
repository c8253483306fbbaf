"""The pass of the relaxation's ADMM over its n x n matrices, in plain NumPy: the specification."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

__all__ = ["least_ratios", "relax_into", "sweep_cuts_into", "worst_cuts"]

# In place of the reciprocal of 0: a product with 0 is still 0.
HUGE = 1e300


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
    ratios: FloatArray,
    T: FloatArray,
    multipliers: FloatArray,
    offset: FloatArray,
) -> None:
    """Improve the multipliers of all cuts in turn (Hildreth): P = max(T - K, 0) nears them all.

    Cut c has the rows (i, j, l) = cuts[c] and says, with the ratios R,

        R_ij P_ij + R_il P_il - P_ii - R_ij R_il P_jl <= 0,   or for l = -1   R_ij P_ij - P_ii <= 0.

    With C its symmetric matrix and K = sum_c m_c C, a step is m_c <- max(0, m_c + <C, P> / |C|^2).

    IN cuts, ratios, T; OUT multipliers (updated), offset (K, updated; it may be infinite).
    """
    for c, (i, j, l) in enumerate(cuts):  # noqa: E741
        entries = _entries(i, j, l, ratios)
        value = sum(weight * max(T[a, b] - offset[a, b], 0.0) for a, b, weight in entries)
        # Off the diagonal a weight stands for two entries of half of it.
        norm = sum(weight * weight * (1.0 if a == b else 0.5) for a, b, weight in entries)
        change = max(multipliers[c] + value / norm, 0.0) - multipliers[c]
        multipliers[c] += change
        for a, b, weight in entries:
            offset[a, b] += change * weight * (1.0 if a == b else 0.5)
            offset[b, a] = offset[a, b]


def _entries(i: int, j: int, l: int, ratios: FloatArray) -> list[tuple[int, int, float]]:  # noqa: E741
    found = [(i, j, ratios[i, j]), (i, i, -1.0)]
    if l >= 0:
        found += [(i, l, ratios[i, l]), (j, l, -ratios[i, j] * ratios[i, l])]
    return found


def worst_cuts(
    P: FloatArray, ratios: FloatArray, least: tuple[float, float]
) -> tuple[IntArray, FloatArray]:
    """Return, for each pair (i, j), the cut of these rows that P violates most, see above.

    It is the row l = best[i, j] with the largest R_ij P_ij + R_il P_il - P_ii - R_ij R_il P_jl, or
    -1 for the pair itself, and that number. Only j and l > j with R_ij P_ij, R_il P_il above
    ``least[0]`` P_ii and ``least[1]`` count, else it is 0. P is symmetric.
    """
    n = len(P)
    best, violation = np.full((n, n), -1, dtype=np.int64), np.zeros((n, n))
    for i in range(n):
        near = ratios[i] * P[i]
        rows = np.flatnonzero(near > max(least[0] * P[i, i], least[1]))
        rows = rows[rows != i]
        for at, j in enumerate(rows):
            violation[i, j] = max(near[j] - P[i, i], 0.0)
            for l in rows[at + 1 :]:  # noqa: E741
                value = near[j] + near[l] - P[i, i] - ratios[i, j] * ratios[i, l] * P[j, l]
                if value > violation[i, j]:
                    best[i, j], violation[i, j] = l, value
    return best, violation


def least_ratios(M: FloatArray, floor: float) -> FloatArray:
    """Return the least M_il / M_jl over the l with M_jl > 0, for all i and j.

    M has no negative entry. Ratios below ``floor`` are 0, as are those for a row j of zeros.
    """
    ratios = np.zeros_like(M)
    for i, row in enumerate(M):
        # Where M_il is 0, any positive M_jl makes the ratio 0.
        inverse = np.divide(1.0, row, out=np.full(len(M), HUGE), where=row > 0)
        most = (M * inverse).max(axis=1)
        useful = (most > 0) & (most * floor <= 1)
        ratios[i, useful] = 1.0 / most[useful]
    return ratios
