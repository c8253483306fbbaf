r"""The sum of the k largest eigenvalues from above, valid in floating point."""

import numpy as np

from orthoplus.certify.factorization import factored_bound
from orthoplus.certify.fantope import split_off, split_off_into
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.types import FloatArray

# Up to this order all eigenvalues are computed; beyond a factorization is cheaper.
ALL_ORDER = 600
# Up to this order they are, if the factorization breaks off.
_LAST_RESORT = 4000


def spectral_bound(
    H: FloatArray,
    k: int,
    unit: FloatArray | None = None,
    V: FloatArray | None = None,
    slack: float = 0.0,
) -> float:
    r"""Return a number above :math:`\langle H, Z \rangle` for every Z of the relaxation.

    .. math:: \sum_{i \le k} \lambda_i(H), \qquad
              \text{or } u^\top H u + \sum_{i < k} \lambda_i(PHP), \quad P = I - uu^\top.

    Parameters
    ----------
    H : ndarray of shape (n, n)
        A symmetric matrix in float64.
    k : int
        The trace of Z.
    unit : ndarray of shape (n,), optional
        A vector u of unit length with Zu = u; the second formula holds for these Z.
    V : ndarray of shape (n, m), optional
        About the leading eigenvectors of H, or of PHP, m >= k. With them a Cholesky factorization
        proves the bound for larger n, and H is destroyed.
    slack : float
        How far above the sum a bound from V may be, to be had sooner.

    Returns
    -------
    bound : float
        Infinity if a matrix is too large for all eigenvalues and the factorization breaks off.

    Notes
    -----
    All eigenvalues by LAPACK, and a margin for their rounding; or
    `orthoplus.certify.factorization.factored_bound`. O(n^3).

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
        H -= np.outer(unit, unit) * (2 * size)  # the complement of u counts, and no more
        k -= 1
    values = np.linalg.eigvalsh(H)
    # The eigenvalues are those of a matrix within rounding of H, in norm: so is each of them.
    size *= 2 + 3 * k
    return fixed + float(values[len(values) - k :].sum()) + rounding_margin(size, len(H))


def _bound_by_factorization(
    H: FloatArray, k: int, unit: FloatArray | None, V: FloatArray, slack: float
) -> float:
    if unit is None:
        return factored_bound(H, k, V, slack)
    size = float(np.linalg.norm(H))
    # H changes by uw' + wu', which counts for no Z with Zu = 0: the roundings of w do not matter,
    # those of u and of what is subtracted do.
    fixed = split_off_into(H, unit, 2.0 * size)
    margin = k * rounding_margin(8.0 * size, len(H))
    upper = factored_bound(H, k - 1, V - np.outer(unit, unit @ V), slack) if k > 1 else 0.0
    return fixed + upper + margin
