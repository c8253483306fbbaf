"""Loops over the n x n matrices of the relaxation (ADMM and cuts), in NumPy: the specification."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

__all__ = ["least_ratios", "relax_into", "sweep_cuts_into", "worst_cuts"]

# Replaces 1 / 0; unlike infinity, its product with 0 is still 0.
HUGE = 1e300


def relax_into(
    factors: tuple[FloatArray, FloatArray],
    T: FloatArray,
    offset: FloatArray | None,
    G: FloatArray,
    W: FloatArray,
    weights: tuple[float, float],
) -> FloatArray:
    """Perform one ADMM step from T, and compute the matrix W to project next.

    With F = LR', P = max(T - K, 0) and D = T - P, where K is the offset (None for zeros, infinite
    at entries where P must be 0),

        T <- a F + (1 - a) P + D,   W <- P - D + G / penalty   with the new P and D.

    IN factors (L, R), offset, G, weights (a, 1 / penalty); OUT T (updated), W. Return the sums of
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
    """Update the multipliers of all cuts in turn (Hildreth's method for P = max(T - K, 0)).

    Cut c has the rows (i, j, l) = cuts[c] and is the inequality, with the ratios R,

        R_ij P_ij + R_il P_il - P_ii - R_ij R_il P_jl <= 0,   or for l = -1   R_ij P_ij - P_ii <= 0.

    With C its symmetric matrix and K = sum_c m_c C, a step is m_c <- max(0, m_c + <C, P> / |C|^2).

    IN cuts, ratios, T; OUT multipliers (updated), offset (K, updated; it may be infinite).
    """
    for c, (i, j, l) in enumerate(cuts):  # noqa: E741
        entries = _entries(i, j, l, ratios)
        value = sum(weight * max(T[a, b] - offset[a, b], 0.0) for a, b, weight in entries)
        # An off-diagonal weight is split evenly between the two symmetric entries.
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
    """Return the most violated cut for each pair (i, j), see `sweep_cuts_into`.

    ``best[i, j]`` is the row l with the largest R_ij P_ij + R_il P_il - P_ii - R_ij R_il P_jl, or
    -1 if the cut without a third row is violated more; ``violation[i, j]`` is that number. Only j
    and l > j for which R_ij P_ij and R_il P_il exceed ``least[0]`` P_ii and ``least[1]`` are
    considered; otherwise the violation is 0. P is symmetric.
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
    """Return the smallest ratio M_il / M_jl over the l with M_jl > 0, for all i and j.

    M is nonnegative. Ratios below ``floor`` are set to 0, as are those for a zero row j.
    """
    ratios = np.zeros_like(M)
    for i, row in enumerate(M):
        # min_l M_il / M_jl = 1 / max_l (M_jl / M_il); M_il = 0 < M_jl gives the ratio 0.
        inverse = np.divide(1.0, row, out=np.full(len(M), HUGE), where=row > 0)
        most = (M * inverse).max(axis=1)
        useful = (most > 0) & (most * floor <= 1)
        ratios[i, useful] = 1.0 / most[useful]
    return ratios
