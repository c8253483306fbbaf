"""The hot loops in plain NumPy: the specification that `fused` is tested against.

All matrices are n x k. ``weight`` multiplies the row-mean part of a gradient: with V = e / sqrt(k),
X V V' is the row mean of X repeated k times, so the gradient of the penalised objective is
``G + weight * rowmean(X)`` and never needs a product with the k x k matrix VV'.
"""

import numpy as np

from orthoplus.kernels.reference_pairs import (
    TINY,
    WINDOW_ROUNDING,
    Pairs,
    chain_moves_into,
    search_rows_into,
    single_moves_into,
    transfer_shares_into,
)
from orthoplus.protocols import FloatArray, IntArray

__all__ = [
    "assign_rows",
    "best_partition",
    "chain_moves_into",
    "column_dots",
    "column_maxima",
    "delta_point_into",
    "delta_sums",
    "gather_pairs",
    "gradient_step_into",
    "normalise_step_into",
    "row_argmax",
    "row_energy",
    "search_rows_into",
    "secant_product",
    "single_moves_into",
    "stationarity_sq",
    "transfer_shares_into",
]


def row_energy(X: FloatArray) -> float:
    """||X V||_F^2 = sum_i (sum_j X_ij)^2 / k for V = e / sqrt(k)."""
    sums = X.sum(axis=1, dtype=np.float64)
    return float(sums @ sums) / X.shape[1]


def gradient_step_into(
    X: FloatArray, G: FloatArray, weight: float, alpha: float, out: FloatArray
) -> FloatArray:
    """out = max(X - alpha (G + weight rowmean(X)), 0); returns its k column sums of squares."""
    mean = X.mean(axis=1, keepdims=True, dtype=np.float64)
    gradient = G + weight * mean
    np.maximum(X - alpha * gradient, 0.0, out=out, casting="same_kind")
    return np.einsum("ij,ij->j", out, out, dtype=np.float64)


def normalise_step_into(
    T: FloatArray, scale: FloatArray, X: FloatArray
) -> tuple[float, float, float, float]:
    """T = T diag(scale), in place; with S = T - X returns what the step-size rule needs.

    <S, S>, ||T V||^2, <S, T V V'>, <S, X V V'> for V = e / sqrt(k).
    """
    np.multiply(T, scale, out=T, casting="same_kind")
    k = X.shape[1]
    S = T.astype(np.float64) - X
    new, old = T.sum(axis=1, dtype=np.float64), X.sum(axis=1, dtype=np.float64)
    change = S.sum(axis=1)
    return (
        float((S * S).sum()),
        float(new @ new) / k,
        float(change @ new) / k,
        float(change @ old) / k,
    )


def secant_product(X_new: FloatArray, X: FloatArray, G_new: FloatArray, G: FloatArray) -> float:
    """<X_new - X, G_new - G>, the curvature seen along the last step."""
    S = X_new.astype(np.float64) - X
    return float((S * (G_new.astype(np.float64) - G)).sum())


def column_dots(A: FloatArray, B: FloatArray) -> FloatArray:
    """diag(A'B): the k inner products of the columns."""
    return np.einsum("ij,ij->j", A, B, dtype=np.float64)


def stationarity_sq(X: FloatArray, G: FloatArray, weight: float, multiplier: FloatArray) -> float:
    """||min(X, G + weight rowmean(X) - X diag(multiplier))||_F^2, the square of eq. (4.1)."""
    mean = X.mean(axis=1, keepdims=True, dtype=np.float64)
    residual = np.minimum(X, G + weight * mean - X * multiplier)
    return float((residual * residual).sum())


def row_argmax(X: FloatArray) -> IntArray:
    """The column of the largest entry of each row, the smallest column among ties."""
    return np.asarray(X.argmax(axis=1))


def delta_sums(C: FloatArray, X: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """phi_j = x_j'max(c_j + shift_j x_j, 0) and its slope in shift_j, for each column j."""
    moved = C + X * shift
    positive = moved > 0
    value = np.einsum("ij,ij->j", X, np.where(positive, moved, 0.0), dtype=np.float64)
    slope = np.einsum("ij,ij->j", X, np.where(positive, X, 0.0), dtype=np.float64)
    return value, slope


def delta_point_into(C: FloatArray, X: FloatArray, shift: FloatArray, out: FloatArray) -> None:
    """out = max(C + X diag(shift), 0)."""
    np.maximum(C + X * shift, 0.0, out=out, casting="same_kind")


def column_maxima(C: FloatArray) -> FloatArray:
    """max_i C_ij for each column j; C in any memory order."""
    return np.asarray(C.max(axis=0), dtype=np.float64)


def assign_rows(C: FloatArray, root: FloatArray) -> tuple[IntArray, FloatArray]:
    """Give each row to argmax_j w_j P_ij, P_ij = max(C_ij, 0)^2 and w = root^2 > 0.

    Returns the labels (the smallest column among ties; -1 for a row without positive entry) and
    S_j = sum of P_ij over the rows of j. Then sum_i max_j w_j P_ij = w'S. C in any memory order.
    """
    priced = C * root
    labels = priced.argmax(axis=1)
    labels[~(priced > 0.0).any(axis=1)] = -1
    rows = np.flatnonzero(labels >= 0)
    gain = C[rows, labels[rows]].astype(np.float64) ** 2
    sums = np.bincount(labels[rows], weights=gain, minlength=C.shape[1])
    return labels, sums.astype(np.float64)  # an empty count is of integers


def gather_pairs(
    C: FloatArray, root: FloatArray, window: tuple[float, float, int], keep: Pairs
) -> tuple[Pairs, FloatArray]:
    """`assign_rows` and, in the same pass, the pairs of each row that come near its maximum.

    With window = (ratio, slack, width) the pairs of row i are those with C_ij > 0 and

        w_j P_ij >= ratio^2 max_l w_l P_il - slack,

    every s-th of them, s = ceil(number / width), counted from i; and always the maximum and the
    pairs of ``keep``, whose shares they inherit (a row that has none there: all to the maximum). A
    row without positive entry has no pairs. Returns the pairs and S.
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
    """The labels of the best assignment of all rows to non-empty columns, by dynamic programming.

    With f_j(T) = (sum_{i in T} P_ij)^(1/2), or max_{i in T} C_ij where that is not positive,

        F_j(U) = max over non-empty T within U of F_{j-1}(U - T) + f_j(T),   F_0(empty) = 0.

    Sets of rows are bits of an integer: O(3^n k), for tiny n only.
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
    return _labels_of_choice(choice, n)


def _labels_of_choice(choice: IntArray, n: int) -> IntArray:
    labels, left = np.empty(n, dtype=np.int64), (1 << n) - 1
    for j in reversed(range(len(choice))):
        part = int(choice[j, left])
        for i in range(n):
            if part >> i & 1:
                labels[i] = j
        left ^= part
    return labels
