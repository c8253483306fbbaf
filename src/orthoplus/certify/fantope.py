r"""Projection onto the Fantope :math:`\{F : 0 \preceq F \preceq I, \operatorname{tr} F = k\}`."""

from typing import NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray


class LowRank(NamedTuple):
    r"""The matrix :math:`V \operatorname{diag}(d) V^\top` with orthonormal columns V.

    Examples
    --------
    >>> LowRank(np.eye(2, 1), np.array([0.5])).dense()
    array([[0.5, 0. ],
           [0. , 0. ]])
    """

    vectors: FloatArray
    shares: FloatArray

    def dense(self) -> FloatArray:
        """Return the matrix itself."""
        return np.asarray((self.vectors * self.shares) @ self.vectors.T)


def share_out(values: FloatArray, k: float) -> tuple[FloatArray, float]:
    r"""Project numbers onto :math:`\{0 \le d \le 1, \sum d = k\}`.

    .. math:: d_i = \min(1, \max(0, v_i - \theta)).

    Parameters
    ----------
    values : ndarray of shape (m,)
        Any numbers, m >= k.
    k : float
        The sum, at least 0.

    Returns
    -------
    shares : ndarray of shape (m,)
    threshold : float
        The number theta; further numbers below it would get no share.

    Examples
    --------
    >>> share_out(np.array([5.0, 2.0, 1.5, 0.0]), 2)
    (array([1.  , 0.75, 0.25, 0.  ]), 1.25)
    """
    # The sum falls in theta, and is linear between these points.
    points = np.unique(np.concatenate([values, values - 1.0]))
    low, high = 0, len(points) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if _sum_of_shares(values, points[middle]) >= k:
            low = middle
        else:
            high = middle
    at_low = _sum_of_shares(values, points[low])
    fall = at_low - _sum_of_shares(values, points[high])
    part = min(1.0, max(0.0, (at_low - k) / fall)) if fall > 0 else 0.0
    threshold = float(points[low] + part * (points[high] - points[low]))
    return np.clip(values - threshold, 0.0, 1.0), threshold


def _sum_of_shares(values: FloatArray, threshold: float) -> float:
    return float(np.clip(values - threshold, 0.0, 1.0).sum())


def project_fantope(W: FloatArray, k: int) -> LowRank:
    """Return the nearest point of the Fantope to a symmetric matrix, by all its eigenpairs.

    Examples
    --------
    >>> project_fantope(np.diag([5.0, 2.0, 1.5, 0.0]), 2).dense().diagonal()
    array([1.  , 0.75, 0.25, 0.  ])
    """
    values, vectors = np.linalg.eigh(W)
    shares, _ = share_out(values, k)
    kept = shares > 0
    return LowRank(vectors[:, kept][:, ::-1], shares[kept][::-1])
