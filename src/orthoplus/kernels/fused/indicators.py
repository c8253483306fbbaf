"""Compiled `reference.indicators`: a whole alternation in one call."""

import math

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.fused.cache import reordering, reordering_inlined

_compiled = reordering()
_inner = reordering_inlined(no_cpython_wrapper=True, no_cfunc_wrapper=True)

# Newton-Schulz steps T <- T (3 I - T'T) / 2 until T'T - I is at most this in the Frobenius norm; a
# further step squares it. A singular value of 1e-4 of the largest takes about 28 steps.
_NEARLY_ORTHOGONAL, _MAX_STEPS = 1e-8, 30
# States of the extrapolation: the first Y does not come from a target, a residual is known or not.
_FIRST, _UNKNOWN, _KNOWN = 0, 1, 2


@_inner
def _polar(M, T, G, S):  # type: ignore[no-untyped-def]
    # IN M; OUT T: its polar factor; G, S: work arrays. Returns whether the steps converged.
    k = len(M)
    rows, columns = 0.0, 0.0
    for i in range(k):
        row, column = 0.0, 0.0
        for j in range(k):
            row += abs(M[i, j])
            column += abs(M[j, i])
        rows, columns = max(rows, row), max(columns, column)
    size = math.sqrt(rows) * math.sqrt(columns)  # at least the largest singular value
    if not 0.0 < size < np.inf:
        return False
    for i in range(k):
        for j in range(k):
            T[i, j] = M[i, j] / size
    for step in range(_MAX_STEPS):
        for i in range(k):  # G = T T', symmetric
            for j in range(i + 1):
                total = 0.0
                for c in range(k):
                    total += T[i, c] * T[j, c]
                G[i, j] = G[j, i] = total
        size, error = 1.0, 0.0
        if step == 0:  # scale T again by the largest row sum of T T', a sharper bound
            size = 0.0
            for i in range(k):
                row = 0.0
                for j in range(k):
                    row += abs(G[i, j])
                size = max(size, row)
        for i in range(k):  # G = T T' - I
            for j in range(k):
                T[i, j] /= math.sqrt(size)
                G[i, j] = G[i, j] / size - (1.0 if i == j else 0.0)
                error += G[i, j] * G[i, j]
        for i in range(k):  # S = T - G T / 2
            for c in range(k):
                S[i, c] = T[i, c]
            for j in range(k):
                half = 0.5 * G[i, j]
                for c in range(k):
                    S[i, c] -= half * T[j, c]
        for i in range(k):
            for c in range(k):
                T[i, c] = S[i, c]
        if error <= _NEARLY_ORTHOGONAL * _NEARLY_ORTHOGONAL:
            return True
    return False


@_inner
def _aim(T, best, target, last, residuals, known, is_better):  # type: ignore[no-untyped-def]
    # IN T, known, is_better; IN/OUT the others: the next target, by the secant of two residuals
    k, moved, along = len(T), 0.0, 0.0
    if is_better and known != _FIRST:
        for i in range(k):
            for j in range(k):
                residual = T[i, j] - target[i, j]
                change = residual - residuals[i, j]
                moved += change * change
                along += change * residual
                residuals[i, j] = residual
    share = along / moved if known == _KNOWN and moved > 0.0 else 0.0
    for i in range(k):
        for j in range(k):
            if is_better:
                best[i, j] = T[i, j]
                target[i, j] = T[i, j] - share * (T[i, j] - last[i, j])
                last[i, j] = T[i, j]
            else:
                target[i, j] = best[i, j]


@_compiled
def _alternate(U, labels, weights, M, T, G, S, best, target, last, residuals, limits):  # type: ignore[no-untyped-def]
    # IN U, labels, limits: iterations, gain; IN/OUT weights; the others are k x k work arrays. All
    # k x k matrices are transposed. Returns whether the weights are those of a converged Y.
    n, k = U.shape
    fit, known, is_last = -np.inf, _FIRST, False
    for n_iter in range(int(limits[0]) + 1):
        is_last = n_iter == int(limits[0])
        if not is_last:
            for j in range(k):  # row j of M: the weighted sum of the rows of U in column j
                for c in range(k):
                    M[j, c] = 0.0
            for i in range(n):
                j, x = labels[i], weights[i]
                if j >= 0:
                    for c in range(k):
                        M[j, c] += x * U[i, c]
            if not _polar(M, T, G, S):
                return False
            new = 0.0
            for i in range(k):
                for j in range(k):
                    new += M[i, j] * T[i, j]
            if abs(new - fit) <= limits[1] * new:
                return True
            is_better = new > fit
            _aim(T, best, target, last, residuals, known, is_better)
            fit = new if is_better else fit
            known = _UNKNOWN if known == _FIRST or not is_better else _KNOWN
        for j in range(k):  # G[0] : squares of the columns
            G[0, j] = 0.0
        for i in range(n):  # the best weights for the target, at the end for the best Y
            j, total = labels[i], 0.0
            if j >= 0:
                for c in range(k):
                    total += (best[j, c] if is_last else target[j, c]) * U[i, c]
                total = max(total, 0.0)
                G[0, j] += total * total
            weights[i] = total
        for j in range(k):
            if not 0.0 < G[0, j] < np.inf:
                return False
            G[0, j] = 1.0 / math.sqrt(G[0, j])
        for i in range(n):
            if labels[i] >= 0:
                weights[i] *= G[0, labels[i]]
    return True


def alternate_indicators(
    U: FloatArray, labels: IntArray, weights: FloatArray, limits: tuple[int, float]
) -> FloatArray | None:
    """Alternate without returning to Python; U is contiguous by rows, in float64."""
    weights, k = weights.astype(np.float64), U.shape[1]
    work = np.zeros((8, k, k))
    bounds = (float(limits[0]), float(limits[1]))
    return weights if _alternate(U, labels, weights, *work, bounds) else None
