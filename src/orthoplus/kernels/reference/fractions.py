"""Least squares over the nonnegative orthant or the unit simplex, row by row: the specification."""

import numpy as np

from orthoplus.core.types import FloatArray

__all__ = ["constrained_fractions"]

# A multiplier or a pivot of the Cholesky factorization counts as positive if it exceeds this many
# unit roundoffs.
SLACK_UNITS = 64.0


def constrained_fractions(G: FloatArray, B: FloatArray, sums_to_one: bool) -> FloatArray:
    """Minimize a'Ga / 2 - b_i'a over a >= 0, and sum(a) = 1 if requested, for each row of B.

    This is the active-set method of Lawson and Hanson. On the passive set P, the multiplier and the
    minimizer are

        u = G_P^-1 b_P,  v = G_P^-1 e,  lambda = (e'u - 1) / e'v (or 0),  z = u - lambda v.

    The point moves toward z until an entry becomes zero and leaves P. Once z > 0, the column with
    the largest w_j = b_j - (Ga)_j - lambda > 0 enters P. At the end all w_j <= 0 up to rounding,
    which proves that a is the minimizer. It is unique if G is positive definite; a column that is
    linearly dependent on those of P cannot improve the point and does not enter. Computations are
    in float64; the result has the dtype of B.
    """
    rows = [_solve_row(G, np.asarray(b, dtype=np.float64), sums_to_one) for b in B]
    return np.array(rows, dtype=B.dtype).reshape(B.shape)


def _solve_row(G: FloatArray, b: FloatArray, sums_to_one: bool) -> FloatArray:
    k = len(b)
    a: FloatArray = np.zeros(k)
    passive, barred = np.zeros(k, dtype=bool), np.zeros(k, dtype=bool)
    slack = SLACK_UNITS * np.finfo(np.float64).eps * (np.abs(b).max() + np.abs(G).max())
    multiplier = 0.0
    if sums_to_one:
        # Start at the best vertex e_j of the simplex, where the objective is G_jj / 2 - b_j.
        first = int(np.argmin(0.5 * np.diag(G) - b))
        a[first], passive[first], multiplier = 1.0, True, b[first] - G[first, first]
    for _ in range(10 * k):
        w = np.where(passive | barred, -np.inf, b - G @ a - multiplier)
        new = int(w.argmax())
        if w[new] <= slack:
            break
        passive[new] = True
        if not _is_definite(G, passive):
            passive[new], barred[new] = False, True
            continue
        z, price = _on_passive_set(G, b, passive, sums_to_one)
        if z[new] <= 0.0:  # only by rounding: bar the column until the point has changed
            passive[new], barred[new] = False, True
            continue
        while (z[passive] <= 0.0).any():
            # Go from a toward z as far as a stays nonnegative.
            leaving = np.flatnonzero(passive & (z <= 0.0))
            ratios = a[leaving] / (a[leaving] - z[leaving])
            a += ratios.min() * (z - a)
            a[leaving[ratios.argmin()]] = 0.0
            passive &= a > 0.0
            a[~passive] = 0.0
            z, price = _on_passive_set(G, b, passive, sums_to_one)
        a, multiplier, barred = z, price, np.zeros(k, dtype=bool)
    return a


def _is_definite(G: FloatArray, passive: np.ndarray) -> bool:
    try:
        L = np.linalg.cholesky(G[np.ix_(passive, passive)])
    except np.linalg.LinAlgError:
        return False
    floor = SLACK_UNITS * np.finfo(np.float64).eps * np.diag(G)[passive]
    return bool((np.diag(L) ** 2 > floor).all())


def _on_passive_set(
    G: FloatArray, b: FloatArray, passive: np.ndarray, sums_to_one: bool
) -> tuple[FloatArray, float]:
    """Return the minimizer that is zero outside the passive set, and its multiplier."""
    block, z, price = G[np.ix_(passive, passive)], np.zeros(len(b)), 0.0
    u, v = np.linalg.solve(block, np.column_stack([b[passive], np.ones(passive.sum())])).T
    if sums_to_one:
        price = (u.sum() - 1.0) / v.sum()
    z[passive] = u - price * v
    return z, price
