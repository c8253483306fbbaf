r"""Curves on the Stiefel manifold :math:`\{U : U^\top U = I\}`, and the gradient along it."""

from collections.abc import Callable

import numpy as np

from orthoplus.core.types import FloatArray
from orthoplus.geometry.stiefel import polar_factor

# If U'U differs from I by more than this, a point of a curve is orthonormalized again.
_MAX_DRIFT = 1e-13

# ``curve(U, G, t)``: the point at t of a descent curve from U, where f has the gradient G.
Curve = Callable[[FloatArray, FloatArray, float], FloatArray]


def cayley_curve(U: FloatArray, G: FloatArray, t: float) -> FloatArray:
    r"""Return the point at t of the Cayley curve from U in the direction of descent for G.

    .. math:: U(t) = (I + \tfrac t2 W)^{-1} (I - \tfrac t2 W)\, U, \qquad W = GU^\top - UG^\top .

    W is skew-symmetric, so that U(t) has orthonormal columns for every t. It has rank 2k: U(t) is
    computed in O(nk^2) from a system of 2k equations, or of n equations if n < 2k.

    Parameters
    ----------
    U, G : ndarray of shape (n, k)
        A point with orthonormal columns, and the Euclidean gradient there.
    t : float

    Notes
    -----
    Wen and Yin, *A feasible method for optimization with orthogonality constraints*, Math. Program.
    142 (2013), Lemmas 3 and 4. Rounding moves U(t) off the manifold for large t G; it is then
    replaced by its polar factor.

    Examples
    --------
    >>> U = cayley_curve(np.eye(3, 1), np.array([[0.0], [1.0], [0.0]]), 2.0)
    >>> U.ravel() + 0.0  # a quarter turn
    array([ 0., -1.,  0.])
    """
    n, k = U.shape
    if n < 2 * k:
        W = G @ U.T
        half = (0.5 * t) * (W - W.T)
        moved = np.linalg.solve(np.eye(n) + half, U - half @ U)
    else:
        # W = PQ' has rank 2k: by Sherman-Morrison-Woodbury,
        # U(t) = U - t P (I + t/2 Q'P)^-1 Q'U.
        P, Q = np.hstack((G, U)), np.hstack((U, -G))
        core = np.linalg.solve(np.eye(2 * k) + (0.5 * t) * (Q.T @ P), Q.T @ U)
        moved = U - t * (P @ core)
    drift = float(np.linalg.norm(moved.T @ moved - np.eye(k)))
    return np.asarray(moved) if drift <= _MAX_DRIFT else polar_factor(moved)


def polar_curve(U: FloatArray, G: FloatArray, t: float) -> FloatArray:
    """Return the point of the manifold nearest to U - t grad, with grad from `stiefel_gradient`.

    Examples
    --------
    >>> polar_curve(np.eye(2, 1), np.array([[7.0], [1.0]]), 1.0).ravel() * np.sqrt(2)
    array([ 1., -1.])
    """
    return polar_factor(U - t * stiefel_gradient(U, G))


def stiefel_gradient(U: FloatArray, G: FloatArray) -> FloatArray:
    r"""Project G onto the tangent space, :math:`G - U\,\mathrm{sym}(U^\top G)`; O(nk^2).

    Examples
    --------
    >>> stiefel_gradient(np.eye(3, 1), np.array([[5.0], [2.0], [-1.0]])).ravel()
    array([ 0.,  2., -1.])
    """
    inner = U.T @ G
    return np.asarray(G - U @ (0.5 * (inner + inner.T)))
