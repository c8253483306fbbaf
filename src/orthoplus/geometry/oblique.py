"""The set OB+ of nonnegative matrices with unit columns."""

import numpy as np

from orthoplus import kernels
from orthoplus.core.checks import as_matrix, check_shape
from orthoplus.core.errors import InputError
from orthoplus.core.types import FloatArray
from orthoplus.geometry.delta import project_delta


def project_oblique_plus(C: FloatArray) -> FloatArray:
    r"""Project onto :math:`\mathcal{OB}_+ = \{X \ge 0 : \|x_j\|_2 = 1\}`.

    .. math:: x_j = c_j^+ / \|c_j^+\|_2 \text{ if } \max_i c_{ij} > 0,
              \text{ else } e_{\arg\max_i c_{ij}}.

    Parameters
    ----------
    C : ndarray of shape (n, k)
        Any real matrix; not modified.

    Returns
    -------
    X : ndarray of shape (n, k)
        A nearest point. In a column without a positive entry, the first of tied maxima is used, so
        that a zero column becomes the first unit vector.

    Notes
    -----
    This is the projection of eq. (5.3); it costs O(nk). Columns are scaled by their largest entry
    first, so that entries of any magnitude neither overflow nor underflow.

    Examples
    --------
    >>> project_oblique_plus(np.array([[3.0, -2.0], [4.0, -1.0]]))
    array([[0.6, 0. ],
           [0.8, 1. ]])
    """
    C = as_matrix(C, "C")
    if len(C) == 0:
        raise InputError(f"`C` has shape {C.shape}: at least one row is needed.")
    top = C.max(axis=0)
    # Divide by the largest entry first: the squares of the norm cannot overflow then.
    X = np.maximum(C, 0.0) / np.where(top > 0, top, 1.0)
    X /= np.where(top > 0, np.linalg.norm(X, axis=0), 1.0)
    # If c_j <= 0, <c_j, x> over the unit sphere is largest at e_i with the largest entry c_ij.
    empty = np.flatnonzero(top <= 0)
    X[C[:, empty].argmax(axis=0), empty] = 1.0
    return X


def project_tangent(X: FloatArray, W: FloatArray) -> FloatArray:
    r"""Project W onto :math:`T(X) = \{D : x_j^\top d_j = 0,\ x_j + d_j \ge 0\} = \Delta(X) - X`.

    Examples
    --------
    >>> X = np.array([[1.0], [0.0]])
    >>> project_tangent(X, np.array([[5.0], [2.0]]))
    array([[0.],
           [2.]])
    """
    return np.asarray(project_delta(X, X + W) - X)


def riemannian_gradient(X: FloatArray, G: FloatArray) -> FloatArray:
    r"""Return the gradient on the oblique manifold, (2.5): :math:`G - X \mathrm{Diag}(X^\top G)`.

    X is a point of OB+ and G the Euclidean gradient, both of shape (n, k). The cost is O(nk).

    Examples
    --------
    >>> riemannian_gradient(np.eye(3, 1), np.array([[5.0], [2.0], [-1.0]])).ravel()
    array([ 0.,  2., -1.])
    """
    return np.asarray(G - X * kernels.column_dots(X, G))


def random_oblique_plus(n: int, k: int, rng: np.random.Generator) -> FloatArray:
    """Draw a random point of OB+: each column uniform on the nonnegative part of the sphere.

    Examples
    --------
    >>> X = random_oblique_plus(5, 2, np.random.default_rng(0))
    >>> X.shape, bool(np.allclose((X * X).sum(axis=0), 1.0))
    ((5, 2), True)
    """
    check_shape(n, k, "X")
    X = np.abs(rng.standard_normal((n, k)))
    return np.asarray(X / np.linalg.norm(X, axis=0))
