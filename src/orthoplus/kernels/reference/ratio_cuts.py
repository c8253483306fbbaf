"""The passes over cuts of orthogonal NMF, in plain NumPy: the specification."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

__all__ = ["row_ratios", "sweep_ratio_cuts_into", "worst_ratio_cuts"]


def row_ratios(M: FloatArray) -> FloatArray:
    """Return R_ij, the smallest M_im / M_jm over all m with M_jm > 0; 0 if there is no such m.

    IN M, with nonnegative entries.
    """
    R = np.zeros_like(M)
    for i, row in enumerate(M):
        quotients = np.divide(row, M, out=np.full_like(M, np.inf), where=M > 0)
        R[i] = quotients.min(axis=1)
    R[~np.isfinite(R)] = 0.0
    return R


def sweep_ratio_cuts_into(
    cuts: IntArray, R: FloatArray, T: FloatArray, multipliers: FloatArray, offset: FloatArray
) -> None:
    """Improve the multipliers of all cuts in turn (Hildreth): P = max(T - K, 0) nears them all.

    Cut c has the rows (i, j, l) = cuts[c] and says

        R_ij P_ij + R_il P_il - P_ii - R_ij R_il P_jl <= 0,  or  R_ij P_ij - P_ii <= 0  if l = -1.

    With C its symmetric matrix and K = sum_c m_c C, a step is m_c <- max(0, m_c + <C, P> / |C|^2).

    IN cuts, R, T; OUT multipliers (updated), offset (K, updated).
    """
    for c, (i, j, l) in enumerate(cuts):  # noqa: E741
        entries = [(i, j, R[i, j]), (i, i, -1.0)]
        if l >= 0:
            entries += [(i, l, R[i, l]), (j, l, -R[i, j] * R[i, l])]
        value = sum(weight * max(T[a, b] - offset[a, b], 0.0) for a, b, weight in entries)
        # Off the diagonal a weight stands for two entries of half of it.
        norm = sum(weight * weight * (1.0 if a == b else 0.5) for a, b, weight in entries)
        change = max(multipliers[c] + value / norm, 0.0) - multipliers[c]
        multipliers[c] += change
        for a, b, weight in entries:
            offset[a, b] += change * weight * (1.0 if a == b else 0.5)
            offset[b, a] = offset[a, b]


def worst_ratio_cuts(Z: FloatArray, R: FloatArray, least: float) -> tuple[IntArray, FloatArray]:
    """Return, for each pair (i, j), the cut of these rows that Z violates most, see above.

    It is the row l = best[i, j] with the largest left side, or -1 for the pair itself, and that
    number over Z_ii. Only j and l > j with R_ij Z_ij, R_il Z_il > least Z_ii > 0 count, else it is
    0.

    IN Z, R.
    """
    n = len(Z)
    best, violation = np.full((n, n), -1, dtype=np.int64), np.zeros((n, n))
    for i in range(n):
        if not Z[i, i] > 0:
            continue
        scaled = R[i] * Z[i] / Z[i, i]
        rows = np.flatnonzero(scaled > least)
        rows = rows[rows != i]
        for at, j in enumerate(rows):
            violation[i, j] = max(scaled[j] - 1.0, 0.0)
            for l in rows[at + 1 :]:  # noqa: E741
                value = scaled[j] + scaled[l] - 1.0 - R[i, j] * R[i, l] * Z[j, l] / Z[i, i]
                if value > violation[i, j]:
                    best[i, j], violation[i, j] = l, value
    return best, violation
