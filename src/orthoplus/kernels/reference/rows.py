"""Passes over the rows for the certified projection, in plain NumPy: the specification.

P_ij = max(C_ij, 0)^2 is never formed; weights w enter through ``root = sqrt(w)``.
"""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.pairs import TINY, WINDOW_ROUNDING, Pairs, column_sums

__all__ = [
    "assign_rows",
    "best_partition",
    "column_maxima",
    "gather_pairs",
    "sparse_product",
]


def column_maxima(C: FloatArray) -> FloatArray:
    """Return max_i C_ij for each column j; C may have any memory order."""
    return np.asarray(C.max(axis=0), dtype=np.float64)


def assign_rows(C: FloatArray, root: FloatArray) -> tuple[IntArray, FloatArray]:
    """Assign each row to argmax_j w_j P_ij, where P_ij = max(C_ij, 0)^2 and w = root^2 > 0.

    Return the labels (the first column among ties; -1 for a row without a positive entry) and
    S_j, the sum of P_ij over the rows of j. Then sum_i max_j w_j P_ij = w'S. C may have any memory
    order.
    """
    priced = C * root
    labels = priced.argmax(axis=1)
    labels[~(priced > 0.0).any(axis=1)] = -1
    rows = np.flatnonzero(labels >= 0)
    gain = C[rows, labels[rows]].astype(np.float64) ** 2
    return labels, column_sums(labels[rows], gain, C.shape[1])


def gather_pairs(
    C: FloatArray, root: FloatArray, window: tuple[float, float, int], keep: Pairs
) -> tuple[Pairs, FloatArray]:
    """Run `assign_rows` and collect, in the same pass, the pairs of each row near its maximum.

    With window = (ratio, slack, width) the pairs of row i are those with C_ij > 0 and

        w_j P_ij >= ratio^2 max_l w_l P_il - slack,

    thinned to every s-th of them, s = ceil(number / width), with an offset of i. The maximum and
    the pairs of ``keep`` are always included; the latter keep their shares. For a row without pairs
    in ``keep``, the maximum gets the share 1. A row without a positive entry has no pairs. Return
    the pairs and S.
    """
    ratio, slack, width = window
    labels, sums = assign_rows(C, root)
    start, column, share = [0], list[int](), list[float]()
    for i, best in enumerate(labels):
        kept = slice(keep.start[i], keep.start[i + 1])
        shares = dict(zip(keep.column[kept].tolist(), keep.share[kept].tolist(), strict=True))
        if best >= 0:
            priced = root * C[i]
            bound = np.sqrt(max((ratio * priced[best]) ** 2 - slack, 0.0)) * WINDOW_ROUNDING
            near = np.flatnonzero(priced >= max(bound, TINY))
            step = (len(near) + width - 1) // width
            near = near[(np.arange(len(near)) + i) % step == 0]
            chosen = sorted({*near.tolist(), int(best), *shares})
            column += chosen
            share += [shares.get(j, 0.0) if shares else float(j == best) for j in chosen]
        start.append(len(column))
    at = np.repeat(np.arange(len(labels)), np.diff(start))
    columns = np.array(column, dtype=np.int32)
    gain = C[at, columns].astype(np.float64) ** 2
    return Pairs(np.array(start, dtype=np.int64), columns, gain, np.array(share)), sums


def best_partition(C: FloatArray) -> IntArray:
    """Assign all rows optimally to nonempty columns, by dynamic programming.

    With f_j(T) = (sum_{i in T} P_ij)^(1/2), or max_{i in T} C_ij if that is not positive,

        F_j(U) = max over nonempty T within U of F_{j-1}(U - T) + f_j(T),   F_0(empty) = 0.

    A set of rows is a bit mask. The cost is O(3^n k), so this is for tiny n only.
    """
    n, k = C.shape
    best = np.where(np.arange(1 << n) == 0, 0.0, -np.inf)
    choice = np.zeros((k, 1 << n), dtype=np.int64)
    for j in range(k):
        gain, before = np.zeros(1 << n), best.copy()
        for rows in range(1, 1 << n):
            entries = np.array([C[i, j] for i in range(n) if rows >> i & 1], dtype=np.float64)
            gain[rows] = np.sqrt((np.maximum(entries, 0.0) ** 2).sum())
            if entries.max() <= 0.0:
                gain[rows] = entries.max()
        for rows in range(1 << n):
            parts = [part for part in range(1, rows + 1) if part & rows == part]
            totals = [before[rows ^ part] + gain[part] for part in parts]
            best[rows] = max(totals, default=-np.inf)
            choice[j, rows] = parts[int(np.argmax(totals))] if parts else 0
    return labels_of_choice(choice, n)


def sparse_product(X: FloatArray, U: FloatArray) -> FloatArray:
    """Return X'U for a mostly zero n x k matrix X and an n x r matrix U.

    The cost is O(nk) to find the nonzeros, and O(r) for each.
    """
    return np.asarray(X.T @ U, dtype=np.float64)


def labels_of_choice(choice: IntArray, n: int) -> IntArray:
    """Trace back the sets that `best_partition` chose, from the last column to the first."""
    labels, left = np.empty(n, dtype=np.int64), (1 << n) - 1
    for j in reversed(range(len(choice))):
        part = int(choice[j, left])
        for i in range(n):
            if part >> i & 1:
                labels[i] = j
        left ^= part
    return labels
