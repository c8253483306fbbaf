r"""Upper bounds on the sum of the k largest eigenvalues, valid in floating point."""

import numpy as np

from orthoplus.certify.factorization import factored_bound
from orthoplus.certify.fantope import split_off, split_off_into
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.types import FloatArray

# All eigenvalues are computed up to this order; beyond it, a factorization is cheaper.
ALL_ORDER = 600
# They are also computed up to this order if the factorization fails.
_LAST_RESORT = 4000


def spectral_bound(
    H: FloatArray,
    k: int,
    unit: FloatArray | None = None,
    V: FloatArray | None = None,
    slack: float = 0.0,
) -> float:
    r"""Bound :math:`\langle H, Z \rangle` from above for every Z of the relaxation.

    .. math:: \sum_{i \le k} \lambda_i(H), \qquad
              \text{or } u^\top H u + \sum_{i < k} \lambda_i(PHP), \quad P = I - uu^\top.

    Parameters
    ----------
    H : ndarray of shape (n, n)
        A symmetric matrix in float64.
    k : int
        The trace of Z.
    unit : ndarray of shape (n,), optional
        A unit vector u with Zu = u for all feasible Z; then the second formula applies.
    V : ndarray of shape (n, m), optional
        Approximate leading eigenvectors of H, or of PHP, with m >= k. If given and n is large, the
        bound is proven by a Cholesky factorization, which overwrites H.
    slack : float
        Allowed excess of a bound from V over the sum, which makes it cheaper.

    Returns
    -------
    bound : float
        Infinity if H is too large to compute all eigenvalues and the factorization fails.

    Notes
    -----
    Computes all eigenvalues by LAPACK and adds a margin for rounding, or calls
    `orthoplus.certify.factorization.factored_bound`. The cost is O(n^3).

    Examples
    --------
    >>> bound = spectral_bound(np.diag([3.0, 2.0, 1.0]), 2)
    >>> bool(5.0 <= bound < 5.0 + 1e-12)
    True
    """
    if V is not None and len(H) > ALL_ORDER:
        backup = H.copy() if len(H) <= _LAST_RESORT else None
        bound = _bound_by_factorization(H, k, unit, V, slack)
        if bound < np.inf or backup is None:
            return bound
        H = backup
    fixed, size = 0.0, float(np.linalg.norm(H))
    if unit is not None:
        H, fixed = split_off(H, unit)
        H -= np.outer(unit, unit) * (2 * size)  # only the complement of u counts
        k -= 1
    values = np.linalg.eigvalsh(H)
    # LAPACK returns the exact eigenvalues of a matrix within rounding of H in norm, so that each
    # eigenvalue has an error of at most that norm (Weyl).
    size *= 2 + 3 * k
    return fixed + float(values[len(values) - k :].sum()) + rounding_margin(size, len(H))


def _bound_by_factorization(
    H: FloatArray, k: int, unit: FloatArray | None, V: FloatArray, slack: float
) -> float:
    if unit is None:
        return factored_bound(H, k, V, slack)
    size = float(np.linalg.norm(H))
    # H changes by uw' + wu', which does not affect <H, Z> if Zu = 0. Hence rounding errors in w do
    # not matter, but those in u and in the subtraction do.
    fixed = split_off_into(H, unit, 2.0 * size)
    margin = k * rounding_margin(8.0 * size, len(H))
    upper = factored_bound(H, k - 1, V - np.outer(unit, unit @ V), slack) if k > 1 else 0.0
    return fixed + upper + margin
