r"""The sets of the paper: OB+ (nonnegative, unit columns) and S+ (also orthonormal columns).

.. math::

    \mathcal{OB}_+ = \{X \ge 0 : \|x_j\|_2 = 1\}, \qquad
    \mathcal{S}_+ = \{X \ge 0 : X^\top X = I\} = \mathcal{OB}_+ \cap \{\|XV\|_F = 1\}.
"""

from collections.abc import Callable

import numpy as np

from orthoplus import kernels
from orthoplus.core.checks import as_matrix, check_positive, check_shape
from orthoplus.core.errors import InputError
from orthoplus.core.types import FloatArray, IntArray

# If all eigenvalues of M'M exceed this fraction of the largest, its root is accurate enough.
_SAFE_EIGENVALUE = 1e-3

# A function that returns a point of S+ for a matrix that Procedure 1 cannot round.
Rounding = Callable[[FloatArray], FloatArray]


def labels_of(X: FloatArray) -> IntArray:
    """Return the column of each row's largest entry, the first among ties; -1 for a zero row.

    The cost is one pass, O(nk).

    Examples
    --------
    >>> labels_of(np.array([[0.6, 0.0], [0.8, 0.6], [0.0, 0.0]]))
    array([ 0,  0, -1])
    """
    return kernels.largest_entries(X)[0]


def cover_columns(labels: IntArray, k: int) -> bool:
    """Return whether each of the k columns has a row.

    Examples
    --------
    >>> cover_columns(np.array([0, 1, -1]), 2), cover_columns(np.array([0, 0, -1]), 2)
    (True, False)
    """
    return bool(np.bincount(labels + 1, minlength=k + 1)[1:].all())


def order_of_appearance(labels: IntArray, k: int) -> IntArray:
    """Return the k columns in the order of their first rows; columns without rows come last.

    Examples
    --------
    >>> order_of_appearance(np.array([2, -1, 0, 2, 1]), 4)
    array([2, 0, 1, 3])
    """
    first = np.full(k, len(labels))
    rows = np.flatnonzero(labels >= 0)
    np.minimum.at(first, labels[rows], rows)
    return np.argsort(first, kind="stable")


def assemble(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Build the matrix with ``weights[i]`` in column ``labels[i]`` of row i, columns normalized.

    Rows with label -1 are zero. Every column needs a positive weight. The cost is O(n), plus that
    of the zeros.

    Examples
    --------
    >>> assemble(np.array([0, 1, 0, -1]), np.array([3.0, 2.0, 4.0, 1.0]), 2)
    array([[0.6, 0. ],
           [0. , 1. ],
           [0.8, 0. ],
           [0. , 0. ]])
    """
    return kernels.assemble(labels, weights, k)


def fit_support(labels: IntArray, entries: FloatArray, k: int) -> FloatArray:
    """Maximize <C, X> over the X of S+ with this support, for entries C_{i, label(i)}, section 4.

    x_j is the normalized positive part of c_j on the rows of j. If it is zero, x_j is the unit
    vector of the largest entry, the first among ties. Every column needs a row. The cost is O(n),
    plus that of the zeros.

    Examples
    --------
    >>> fit_support(np.array([0, 0, 1, 1]), np.array([3.0, 4.0, -2.0, -1.0]), 2)
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 0. ],
           [0. , 1. ]])
    """
    weights = fit_weights(labels, entries, k)
    return assemble(np.where(weights > 0, labels, -1), weights, k)


def fit_weights(labels: IntArray, entries: FloatArray, k: int) -> FloatArray:
    """Return the weights of the rows in `fit_support` before normalization; O(n + k).

    Examples
    --------
    >>> fit_weights(np.array([0, 0, 1, 1]), np.array([3.0, 4.0, -2.0, -1.0]), 2)
    array([3., 4., 0., 1.])
    """
    weights = np.where(labels >= 0, np.maximum(entries, 0.0), 0.0)
    if cover_columns(np.where(weights > 0, labels, -1), k):
        return weights
    rows = np.flatnonzero(labels >= 0)
    columns, own = labels[rows], entries[rows]
    # A column without a positive entry gets weight 1 in the first row with its largest entry.
    top = np.full(k, -np.inf)
    np.maximum.at(top, columns, own)
    alone = np.flatnonzero((top[columns] <= 0) & (own == top[columns]))
    weights[rows[alone[np.unique(columns[alone], return_index=True)[1]]]] = 1.0
    return weights


def polar_factor(M: FloatArray) -> FloatArray:
    r"""Project onto the matrices with orthonormal columns, by :math:`M = LSR^\top \mapsto LR^\top`.

    The result maximizes :math:`\langle M, Y \rangle` over these matrices (Procrustes problem); the
    maximum is the sum of the singular values. The cost is O(nk^2), by the eigenvectors of M'M if M
    is well conditioned, else by an SVD.

    Examples
    --------
    >>> polar_factor(np.array([[0.0, -2.0], [5.0, 0.0]])).round(12) + 0.0
    array([[ 0., -1.],
           [ 1.,  0.]])
    """
    values, vectors = np.linalg.eigh(M.T @ M)
    if values[0] > _SAFE_EIGENVALUE * values[-1]:
        Y = M @ ((vectors / np.sqrt(values)) @ vectors.T)
        return np.asarray(1.5 * Y - Y @ (0.5 * (Y.T @ Y)))  # a Newton step squares the error
    left, _, right = np.linalg.svd(M, full_matrices=False)
    return np.asarray(left @ right)


def round_to_stiefel_plus(X: FloatArray, *, otherwise: Rounding | None = None) -> FloatArray:
    r"""Round a point of OB+ to S+: Procedure 1.

    Keep the largest entry of each row (the smallest column among ties) and normalize the columns.
    If a column has no entry left, the result is :math:`I_{n,k}`, step S3 of the procedure, or that
    of ``otherwise``.

    Parameters
    ----------
    X : ndarray of shape (n, k)
        A nonnegative matrix; negative entries count as zero.
    otherwise : callable, optional
        Function ``otherwise(X) -> X`` that returns a point of S+ if a column has no entry left, in
        place of :math:`I_{n,k}`, which is unrelated to X. `solve` passes a function that returns
        the nearest point of S+ found by a few passes of `orthoplus.project`.

    Returns
    -------
    XR : ndarray of shape (n, k)
        A point of S+ with ``||XR - X|| <= rounding_constant(k) * sqrt(||XV||^2 - 1)``.

    Notes
    -----
    See Lemma 3.2. No column is left empty if ``||XV||^2 - 1 < min(VV') = 1/k``; otherwise the bound
    holds for any point of S+. The cost is O(nk). For the nearest point of S+ use
    `orthoplus.project`.

    Examples
    --------
    >>> round_to_stiefel_plus(np.array([[0.6, 0.0], [0.8, 0.6], [0.0, 0.8]]))
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 1. ]])
    """
    X = as_matrix(X, "X")
    check_shape(X.shape[0], X.shape[1], "X")
    return keep_largest(X, otherwise)


def keep_largest(X: FloatArray, otherwise: Rounding | None = None) -> FloatArray:
    """Apply Procedure 1 as in `round_to_stiefel_plus`, without checking the input.

    Examples
    --------
    >>> keep_largest(np.array([[0.6, 0.0], [0.8, 0.6], [0.0, 0.8]]))
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 1. ]])
    """
    n, k = X.shape
    labels, entries = kernels.largest_entries(X)
    if cover_columns(labels, k):
        return assemble(labels, entries, k)
    return np.eye(n, k, dtype=X.dtype) if otherwise is None else otherwise(X)


def rounding_constant(k: int, q: float = 2.0, *, omega: float | None = None) -> float:
    r"""Return :math:`\varrho_q = (2k \tilde\varrho_q / \underline\omega)^{1/2}` of Lemma 3.2.

    Parameters
    ----------
    k : int
        Number of columns.
    q : float
        Exponent of :math:`\zeta_q(X) = \|XV\|_F^q - 1`.
    omega : float, optional
        Smallest entry of VV'; 1/k for the default V = e / sqrt(k).

    Examples
    --------
    >>> rounding_constant(2)  # sqrt(2k / (1/k)) = sqrt(2) k
    2.8284271247461903
    """
    check_positive(q, "q")
    root = np.sqrt(k)
    if q >= 2:
        factor = 1.0
    elif q >= 1:
        factor = (root + 1) / q
    else:
        factor = 2 * root * (root + 1) / (q * (q + 1))
    return float(np.sqrt(2 * k * factor / (1.0 / k if omega is None else omega)))


def rounding_error_bound(X: FloatArray, q: float = 2.0) -> float:
    r"""Bound the distance from X to S+ by :math:`\varrho_q \sqrt{\zeta_q(X)}`, Lemma 3.2.

    The bound is for V = e / sqrt(k), and X must be in OB+. The exponent 1/2 cannot be improved. The
    cost is one pass, O(nk).

    Examples
    --------
    >>> from orthoplus.geometry import random_oblique_plus
    >>> X = random_oblique_plus(20, 3, np.random.default_rng(0))
    >>> bool(np.linalg.norm(round_to_stiefel_plus(X) - X) <= rounding_error_bound(X))
    True
    >>> rounding_error_bound(np.eye(4, 2))
    0.0
    """
    X = as_matrix(X, "X")
    zeta = max(kernels.row_energy(X) ** (q / 2) - 1.0, 0.0)
    return rounding_constant(X.shape[1], q) * float(np.sqrt(zeta))


def violation(X: FloatArray) -> float:
    r"""Return the violation :math:`\|X^\top X - I\|_F + \|\min(X, 0)\|_F`, section 6.2.1.

    The cost is O(nk) if X has at most one nonzero entry per row, and O(nk^2) otherwise.

    Examples
    --------
    >>> violation(np.eye(3, 2))
    0.0
    """
    X = as_matrix(X, "X")
    negative = float(np.linalg.norm(np.minimum(X, 0.0)))
    if (np.count_nonzero(X, axis=1) <= 1).all():
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
        return float(np.linalg.norm(squares - 1.0)) + negative
    X = X.astype(np.float64, copy=False)
    return float(np.linalg.norm(X.T @ X - np.eye(X.shape[1]))) + negative


def random_stiefel_plus(
    n: int, k: int, rng: np.random.Generator, *, n_zero_rows: int = 0
) -> FloatArray:
    """Draw a random point of S+ by assigning rows to columns at random, with no column empty.

    Parameters
    ----------
    n, k : int
        Shape, 1 <= k <= n.
    rng : numpy.random.Generator
        Source of random numbers.
    n_zero_rows : int
        Number of zero rows, at most n - k.

    Examples
    --------
    >>> X = random_stiefel_plus(6, 2, np.random.default_rng(0), n_zero_rows=1)
    >>> violation(X) < 1e-15, int((X > 0).sum())
    (True, 5)
    """
    check_shape(n, k, "X")
    if not 0 <= n_zero_rows <= n - k:
        raise InputError(f"`n_zero_rows={n_zero_rows}` must be between 0 and n - k = {n - k}.")
    rows = rng.permutation(n)[: n - n_zero_rows]
    # The first k rows cover all columns; the others are assigned at random.
    columns = np.concatenate([np.arange(k), rng.integers(k, size=len(rows) - k)])
    X = np.zeros((n, k))
    X[rows, columns] = np.abs(rng.standard_normal(len(rows))) + np.finfo(float).tiny
    return np.asarray(X / np.linalg.norm(X, axis=0))


def in_linearized_cone(X: FloatArray, D: FloatArray, *, tol: float = 1e-10) -> bool:
    r"""Return whether D is in the linearized cone of S+ at X, (2.2).

    The conditions are ``x_j'd_j = 0``, D = 0 at the zeros of the nonzero rows of X, and D >= 0 on
    the zero rows of X.

    Examples
    --------
    >>> X = np.eye(3, 2)
    >>> in_linearized_cone(X, np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]))
    True
    >>> in_linearized_cone(X, np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))  # in row 0 of X
    False
    """
    scale = tol * float(np.abs(D).max(initial=0.0))
    zero_row = ~X.any(axis=1)
    beside = (X == 0) & X.any(axis=1, keepdims=True)
    return bool(
        (np.abs(np.einsum("ij,ij->j", X, D)) <= scale).all()
        and (np.abs(D[beside]) <= scale).all()
        and (D[zero_row] >= -scale).all()
    )


def in_tangent_cone(X: FloatArray, D: FloatArray, *, tol: float = 1e-10) -> bool:
    """Return whether D is in the tangent cone of S+ at X, (2.3).

    D must be in the linearized cone and have at most one nonzero entry on each zero row of X.

    Examples
    --------
    >>> X = np.eye(3, 2)
    >>> D = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    >>> in_linearized_cone(X, D), in_tangent_cone(X, D)
    (True, False)
    """
    scale = tol * float(np.abs(D).max(initial=0.0))
    moving = (np.abs(D[~X.any(axis=1)]) > scale).sum(axis=1)
    return in_linearized_cone(X, D, tol=tol) and bool((moving <= 1).all())
