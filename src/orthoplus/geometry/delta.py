r"""The set :math:`\Delta(X) = \{Z \ge 0 : x_j^\top z_j = 1\}` and its projection, section 5."""

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray, Linear

# Newton's method on a convex piecewise-linear function is exact after at most one step per
# breakpoint; in practice it takes fewer than ten.
_MAX_NEWTON = 200
_TINY = 1e-300


def project_delta(X: FloatArray, C: FloatArray) -> FloatArray:
    r"""Project C onto :math:`\Delta(X) = \{Z \ge 0 : x_j^\top z_j = 1\}`, column by column.

    .. math:: z_j = \max(c_j + \lambda_j x_j, 0), \qquad
              x_j^\top \max(c_j + \lambda_j x_j, 0) = 1.

    Parameters
    ----------
    X : ndarray of shape (n, k)
        A point of OB+, or any nonnegative matrix without a zero column.
    C : ndarray of shape (n, k)

    Returns
    -------
    Z : ndarray of shape (n, k)

    Notes
    -----
    The left side is convex, nondecreasing and piecewise linear in lambda. Newton's method, started
    at the root of its fully active piece, decreases monotonically to the root and is exact after
    finitely many steps. Each step is one pass over C and X for all columns.

    Examples
    --------
    >>> X = np.array([[0.6], [0.8]])
    >>> Z = project_delta(X, np.array([[2.0], [-3.0]]))
    >>> bool(np.isclose(X[:, 0] @ Z[:, 0], 1.0)), bool(Z.min() >= 0)
    (True, True)
    """
    C = np.ascontiguousarray(C, dtype=X.dtype)
    shift = (1.0 - kernels.column_dots(X, C)) / kernels.column_dots(X, X)
    for _ in range(_MAX_NEWTON):
        value, slope = kernels.delta_sums(C, X, shift)
        lower = shift - (value - 1.0) / np.maximum(slope, _TINY)  # slope 0 implies value 0: no step
        moving = lower < shift - 1e-15 * (1.0 + np.abs(shift))
        if not moving.any():
            break
        shift = np.where(moving, lower, shift)
    Z = np.empty_like(C)
    kernels.delta_point_into(C, X, shift, Z)
    return Z


def delta_jacobian(X: FloatArray, Z: FloatArray, H: FloatArray) -> FloatArray:
    r"""Apply the HS generalized Jacobian of the projection onto Delta(X) to H.

    .. math:: \mathcal{P}(H) = \Xi(H) - \Xi(X) M, \qquad
              M_{jj} = \frac{x_j^\top \Xi[h_j]}{x_j^\top \Xi[x_j]},

    where :math:`\Xi` keeps the entries at which the projected point Z is positive. It is the
    orthogonal projector onto ``{D : D = 0 where Z = 0, x_j'd_j = 0}``.

    Parameters
    ----------
    X, Z, H : ndarray of shape (n, k)
        The point that defines Delta(X), a projected point ``Z = project_delta(X, C)``, and a
        direction.

    Returns
    -------
    D : ndarray of shape (n, k)

    Notes
    -----
    O(nk). ``docs/paper.md``, row "HS-Jacobian".

    Examples
    --------
    >>> X = np.array([[0.6], [0.8]])
    >>> D = delta_jacobian(X, np.ones((2, 1)), np.array([[1.0], [0.0]]))
    >>> D.round(3).ravel(), abs(round(float(X[:, 0] @ D[:, 0]), 12))
    (array([ 0.64, -0.48]), 0.0)
    """
    return delta_projector(X, Z)(H)


def delta_projector(X: FloatArray, Z: FloatArray) -> Linear:
    """Return H -> `delta_jacobian` (X, Z, H), for many products at one Z.

    Examples
    --------
    >>> X = np.array([[0.6], [0.8]])
    >>> delta_projector(X, np.array([[1.0], [0.0]]))(np.ones((2, 1))).round(12).ravel()
    array([0., 0.])
    """
    free = (Z > 0).astype(X.dtype)
    kept = free * X
    size = kernels.column_dots(kept, kept)
    scale = 1.0 / np.where(size > 0, size, 1.0)

    def project(H: FloatArray) -> FloatArray:
        masked = free * H
        masked -= kept * (kernels.column_dots(kept, masked) * scale)
        return masked

    return project
