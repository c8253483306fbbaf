r"""The set :math:`\Delta(X) = \{Z \ge 0 : x_j^\top z_j = 1\}` and its projection, section 5."""

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray


def project_delta(X: FloatArray, C: FloatArray) -> FloatArray:
    r"""Project C onto :math:`\Delta(X) = \{Z \ge 0 : x_j^\top z_j = 1\}`, column by column.

    .. math:: z_j = \max(c_j + \lambda_j x_j, 0), \qquad
              x_j^\top \max(c_j + \lambda_j x_j, 0) = 1.

    Parameters
    ----------
    X : ndarray of shape (n, k)
        A point of OB+, or any nonnegative matrix without a zero column.
    C : ndarray of shape (n, k)
        The matrix to project; not modified.

    Returns
    -------
    Z : ndarray of shape (n, k)
        The nearest point of Delta(X).

    Notes
    -----
    The left side is convex, nondecreasing and piecewise linear in lambda. Newton's method, started
    at the root of its fully active piece, decreases monotonically to the root and is exact after
    finitely many steps. Each step is one pass over a column of C and of X.

    Examples
    --------
    >>> X = np.array([[0.6], [0.8]])
    >>> Z = project_delta(X, np.array([[2.0], [-3.0]]))
    >>> bool(np.isclose(X[:, 0] @ Z[:, 0], 1.0)), bool(Z.min() >= 0)
    (True, True)
    """
    Xt, Ct = transposed(X), transposed(C.astype(X.dtype, copy=False))
    out = np.empty_like(Xt)
    kernels.project_delta_into(Ct, Xt, out)
    return transposed(out)


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
    The cost is O(nk). See ``docs/paper.md``, row "HS-Jacobian".

    Examples
    --------
    >>> X = np.array([[0.6], [0.8]])
    >>> D = delta_jacobian(X, np.ones((2, 1)), np.array([[1.0], [0.0]]))
    >>> D.round(3).ravel(), abs(round(float(X[:, 0] @ D[:, 0]), 12))
    (array([ 0.64, -0.48]), 0.0)
    """
    Xt = transposed(X)
    out = np.empty_like(Xt)
    kernels.project_face_into(Xt, transposed(Z), transposed(H), out)
    return transposed(out)


def transposed(M: FloatArray) -> FloatArray:
    """Return M' in C order, in which a column of M is contiguous; the kernels here take it so.

    Examples
    --------
    >>> transposed(np.eye(3, 2)).flags.c_contiguous
    True
    """
    return np.ascontiguousarray(M.T)
