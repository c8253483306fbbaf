"""Loops for the Kullback-Leibler divergence, in plain NumPy: the specification.

A matrix is passed as CSR parts (data, indices, indptr); for a dense matrix ``indices`` is empty.
"""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

__all__ = ["move_rows_into", "sampled_products"]

# Least gain of a move, relative to the terms whose difference it is.
MOVE_ROUNDING = 1e-12


def sampled_products(
    indices: IntArray, indptr: IntArray, X: FloatArray, Y: FloatArray
) -> FloatArray:
    """Return x_i'y_l at each entry (i, l) of the pattern, in float64; X is n x k, Y is r x k."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.einsum("pj,pj->p", X[rows], Y[indices], dtype=np.float64)


def move_rows_into(
    parts: tuple[FloatArray, IntArray, IntArray],
    labels: IntArray,
    sums: FloatArray,
    counts: IntArray,
) -> int:
    r"""Sweep over the rows once and move each to the group with the smallest divergence.

    A group with the column sums c_l and the total s contributes -g(c) to the objective, where
    g(c) = sum_l c_l log c_l - s log s. Row a moves from group j to the group m with the largest
    g(c_m + a) - g(c_m), if that exceeds g(c_j) - g(c_j - a) and j keeps at least one row.
    ``labels`` (n), ``sums`` (r x k) and ``counts`` (k), the numbers of rows per group, are updated
    after each move; rows with label -1 stay. Return the number of moves.
    """
    data, indices, indptr = parts
    columns = np.arange(sums.shape[0])
    moved = 0
    for i, j in enumerate(labels):
        row = slice(indptr[i], indptr[i + 1])
        a, l = data[row].astype(np.float64), indices[row] if indices.size else columns  # noqa: E741
        if j < 0 or counts[j] < 2:
            continue
        here = sums[l].T  # k x entries
        totals = sums.sum(axis=0)
        gain = _x_log_x(here + a).sum(axis=1) - _x_log_x(here).sum(axis=1)
        gain -= _x_log_x(totals + a.sum()) - _x_log_x(totals)
        less = np.maximum(here[j] - a, 0.0)
        loss = _x_log_x(here[j]).sum() - _x_log_x(less).sum()
        loss -= _x_log_x(totals[j]) - _x_log_x(np.maximum(totals[j] - a.sum(), 0.0))
        gain[j] = -np.inf
        best = int(gain.argmax())
        if gain[best] > loss + MOVE_ROUNDING * _x_log_x(totals[j] + a.sum()):
            sums[l, j], sums[l, best] = less, here[best] + a
            labels[i] = best
            counts[j] -= 1
            counts[best] += 1
            moved += 1
    return moved


def _x_log_x(x: FloatArray) -> FloatArray:
    return np.asarray(x * np.log(np.where(x > 0, x, 1.0)))
