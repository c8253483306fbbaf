r"""The sum of the k largest eigenvalues from above, valid in floating point."""

import numpy as np

from orthoplus.certify.fantope import split_off
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.types import FloatArray


def spectral_bound(H: FloatArray, k: int, unit: FloatArray | None = None) -> float:
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

    Notes
    -----
    All eigenvalues by LAPACK, and a margin for their rounding. O(n^3).

    Examples
    --------
    >>> bound = spectral_bound(np.diag([3.0, 2.0, 1.0]), 2)
    >>> bool(5.0 <= bound < 5.0 + 1e-12)
    True
    """
    fixed, size = 0.0, float(np.linalg.norm(H))
    if unit is not None:
        H, fixed = split_off(H, unit)
        H -= np.outer(unit, unit) * (2 * size)  # the complement of u counts, and no more
        k -= 1
    values = np.linalg.eigvalsh(H)
    # The eigenvalues are those of a matrix within rounding of H, in norm: so is each of them.
    size *= 2 + 3 * k
    return fixed + float(values[len(values) - k :].sum()) + rounding_margin(size, len(H))
