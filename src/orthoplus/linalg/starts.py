"""Compute starting points from singular vectors of data or eigenvectors of a matrix."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import qr
from scipy.sparse.linalg import svds

from orthoplus.core.checks import check_choice, check_shape
from orthoplus.core.types import FloatArray
from orthoplus.data import DataMatrix, MemoryMatrix, as_data
from orthoplus.data.groups import Centers
from orthoplus.data.symmetric import SymmetricMap
from orthoplus.geometry.oblique import project_oblique_plus, random_oblique_plus
from orthoplus.geometry.stiefel import round_to_stiefel_plus

SVD_VARIANTS = ("nndsvd", "nndsvda", "nndsvdar", "clipped")

# Matrices with at most this many rows or columns are decomposed with a dense solver.
_DENSE_SIDE = 64
# NNDSVDar replaces zeros by random numbers up to this fraction of the mean.
_RANDOM_SHARE = 0.01
# A'A is formed if A has at most this many columns.
_GRAM_SIDE = 128
# Number of additional columns of a subspace iteration.
_OVERSAMPLING = 8
# Number of its steps if the vectors are the result, not just a start.
_CAREFUL_STEPS = 20
# Squared singular values below this fraction of the largest are attributed to rounding.
RANK_TOL = 1e-12
# A matrix with at least this many entries, and this many times as many rows as columns, is
# decomposed through its triangular factor, which takes no copy of it, if the smallest singular
# value is at least this fraction of the largest: AV / s loses that factor in accuracy.
_LARGE_ENTRIES, _TALL, _SAFE_SHARE = 1 << 20, 4, 1e-6


def svd_start(
    A: Any, k: int, variant: str = "clipped", rng: np.random.Generator | None = None
) -> FloatArray:
    r"""Return a nonnegative start from the k leading singular triplets :math:`(s_j, u_j, v_j)`.

    .. math:: w_j = \sqrt{s_j \|u_j^\pm\| \|v_j^\pm\|}\; u_j^\pm / \|u_j^\pm\|,
              \quad \pm \text{ the sign with the larger } \|u_j^\pm\| \|v_j^\pm\|.

    Parameters
    ----------
    A : nonnegative array, SciPy sparse matrix or LinearOperator of shape (n, r)
        Used through products, unless one side is short.
    k : int
        Number of columns, at most n.
    variant : {"nndsvd", "nndsvda", "nndsvdar", "clipped"}
        "nndsvd" is the formula above; "nndsvda" replaces its zeros by the mean of A; "nndsvdar"
        replaces them by random numbers up to one hundredth of the mean; "clipped" is the start of
        the paper's code, :math:`u_j^\pm` with the sign of larger :math:`\|u_j^\pm\|`, normalized.
    rng : numpy.random.Generator, optional
        Used for NNDSVDar, and for the first Lanczos vector, which only affects the last digits. The
        default has seed 0.

    Returns
    -------
    X : ndarray of shape (n, k)
        Nonnegative, in float32 if A is. The columns are unit vectors for "clipped" only. If A has
        fewer than k triplets, the missing columns are random.

    Notes
    -----
    Boutsidis and Gallopoulos, Pattern Recognition 41 (2008). The cost is one truncated SVD.

    Examples
    --------
    >>> A = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> svd_start(A, 2).round(3)
    array([[0.707, 0.   ],
           [0.707, 0.   ],
           [0.   , 1.   ]])
    """
    check_choice(variant, "variant", SVD_VARIANTS)
    check_shape(A.shape[0], k, "X")
    A = as_data(A, check=False)
    rng = rng or np.random.default_rng(0)
    if variant == "clipped":
        X = np.maximum(signed_left_vectors(A, k, rng), 0.0)
        norms = np.linalg.norm(X, axis=0)
        X = _fill_columns(X / np.where(norms > 0, norms, 1.0), k, rng)
        return X.astype(_dtype_of(A), copy=False)
    X = _fill_columns(_double_svd(*_truncated_svd(A, k, rng)), k, rng)
    empty = X == 0
    if variant == "nndsvda":
        X[empty] = _mean(A)
    elif variant == "nndsvdar":
        X[empty] = _mean(A) * _RANDOM_SHARE * rng.random(np.count_nonzero(empty))
    return X.astype(_dtype_of(A), copy=False)


def leading_centers(A: Any, k: int, rng: np.random.Generator) -> Centers:
    r"""Return the groups of `svd_start` with "clipped" as centers, without vectors of length n.

    .. math:: c_j = \pm v_j / \|(A v_j)^{\pm}\|, \qquad x_j \propto (A c_j)^+,

    where v_j are the leading right singular vectors. They are exact for few columns; otherwise a
    few steps of subspace iteration suffice for a start. If there are fewer than k, the other
    centers are random. This takes a few passes over A.

    Examples
    --------
    >>> A = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    >>> (A @ leading_centers(A, 2, np.random.default_rng(0)).vectors.T).round(3)
    array([[0.447, 0.   ],
           [0.894, 0.   ],
           [0.   , 1.   ]])
    """
    A = as_data(A, check=False)
    r = A.shape[1]
    V = leading_right_vectors(A, k, rng)[0]
    V = np.hstack([V, np.abs(rng.standard_normal((r, k - V.shape[1])))])
    above, below = A.part_squares(V)
    sizes = np.sqrt(np.maximum(above, below))
    signs = np.where(below > above, -1.0, 1.0)
    # The reciprocal of a smaller size would overflow in the precision of A.
    sizes = np.where(sizes >= np.finfo(A.dtype).tiny, sizes, 1.0)
    return Centers(np.ascontiguousarray((V * (signs / sizes)).T))


def leading_right_vectors(
    A: DataMatrix, k: int, rng: np.random.Generator, n_steps: int = 3
) -> tuple[FloatArray, FloatArray]:
    """Return V (r x q) and the q <= min(k, n, r) largest squared singular values, descending."""
    n, r = A.shape
    q = min(k, n, r)
    if n < r and r > _GRAM_SIDE:
        return _right_vectors_from_left(A, q, rng, n_steps)
    if r <= _GRAM_SIDE:
        Q, M = np.eye(r), A.gram()
    else:
        Q = np.linalg.qr(rng.standard_normal((r, min(r, k + _OVERSAMPLING))))[0]
        for _ in range(n_steps):
            Q = np.linalg.qr(A.normal_product(Q))[0]
        M = Q.T @ A.normal_product(Q)
    values, vectors = np.linalg.eigh(0.5 * (M + M.T))
    return Q @ vectors[:, ::-1][:, :q], np.maximum(values[::-1][:q], 0.0)


def _right_vectors_from_left(
    A: DataMatrix, q: int, rng: np.random.Generator, n_steps: int
) -> tuple[FloatArray, FloatArray]:
    """Compute `leading_right_vectors` by subspace iteration on the left side; at most rank(A)."""
    n, r = A.shape
    # Random columns of length r: the answer does not depend on the order of the rows.
    Q = np.linalg.qr(A.times(rng.standard_normal((r, min(n, q + _OVERSAMPLING)))))[0]
    for _ in range(n_steps):
        Q = np.linalg.qr(A.times(A.times_transposed(Q)))[0]
    W = A.times_transposed(Q).astype(np.float64)
    values, vectors = np.linalg.eigh(W.T @ W)  # W is tall: its Gram matrix is cheaper than a QR
    is_sound = values > RANK_TOL * values[-1]
    V = W @ (vectors[:, is_sound] / np.sqrt(values[is_sound]))
    return V[:, ::-1][:, :q], values[is_sound][::-1][:q]


def signed_left_vectors(A: DataMatrix, k: int, rng: np.random.Generator) -> FloatArray:
    r"""Return the leading left singular vectors, each with the sign whose positive part is larger.

    Returns
    -------
    U : ndarray of shape (n, min(k, n, r))
        Orthonormal columns in float64, by descending singular value. If products are expensive, U
        is computed as AV / s from the eigenvectors V of A'A, and the column of a singular value
        that is zero up to rounding is zero.
    """
    if A.has_cheap_products:
        U = _truncated_svd(A, k, rng)[0]
    else:
        V, squares = leading_right_vectors(A, k, rng, _CAREFUL_STEPS)
        is_sound = squares > RANK_TOL * squares[0]
        U = A.times(V * is_sound / np.sqrt(np.where(is_sound, squares, 1.0)))
    positive = np.linalg.norm(np.maximum(U, 0.0), axis=0)
    negative = np.linalg.norm(np.minimum(U, 0.0), axis=0)
    return np.asarray(U * np.where(negative > positive, -1.0, 1.0))


def eigenvector_starts(M: SymmetricMap, k: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    r"""Yield starts in OB+ from the k bottom eigenvectors U of M, without end.

    The first two starts, in the order of their traces, are (a) the positive part of UQ with
    normalized columns, where the rotation Q brings k rows of UQ, chosen by QR with pivoting, as
    close as possible to the identity, and (b) the best k of the positive and negative parts of the
    columns of U. Later starts repeat (a) with rows chosen from a random half.

    Parameters
    ----------
    M : SymmetricMap of shape (n, n)
    k : int
        Number of columns, at most n.
    rng : numpy.random.Generator
        Used for the random halves and for the first Lanczos vector. If Lanczos fails, all starts
        are random.

    Notes
    -----
    Damle, Minden and Ying, Information and Inference 8 (2019). The cost is O(n k^2) in addition to
    the eigenvectors.

    Examples
    --------
    >>> M = SymmetricMap(-np.kron(np.eye(2), np.ones((2, 2))))
    >>> next(eigenvector_starts(M, 2, np.random.default_rng(0))).round(3).max(axis=1)
    array([0.707, 0.707, 0.707, 0.707])
    """
    n = M.shape[0]
    check_shape(n, k, "X")
    found = M.eigenpairs(k, rng.standard_normal(n))
    if found is None:
        while True:
            yield random_oblique_plus(n, k, rng)
    U = found[1]
    first = [project_oblique_plus(U @ _rotation(U)), _best_parts(M, U)]
    rounded = [round_to_stiefel_plus(X) for X in first]
    # The start whose rounded point has the smaller trace <MX, X> comes first.
    order = np.argsort([float(np.vdot(M @ X, X)) for X in rounded], kind="stable")
    yield from (first[i] for i in order)
    while True:
        rows = rng.permutation(n)[: max(k, n // 2)]
        yield project_oblique_plus(U @ _rotation(U[rows]))


def _best_parts(M: SymmetricMap, U: FloatArray) -> FloatArray:
    """Return the k cheapest among the normalized positive and negative parts of the columns."""
    parts = np.maximum(np.hstack([U, -U]), 0.0)
    sizes = np.linalg.norm(parts, axis=0)  # 0 also for a part of entries whose squares underflow
    parts = parts[:, sizes > 0.0] / sizes[sizes > 0.0]
    costs = np.einsum("ij,ij->j", parts, M @ parts)
    return np.asarray(parts[:, np.argsort(costs, kind="stable")[: U.shape[1]]])


def _rotation(U: FloatArray) -> FloatArray:
    """Return the orthogonal Q that makes PQ symmetric positive semidefinite.

    P consists of k well-conditioned rows of U.
    """
    pivots = qr(U.T, mode="r", pivoting=True)[1][: U.shape[1]]
    left, _, right = np.linalg.svd(U[pivots].T)
    return np.asarray(left @ right)


def _truncated_svd(
    A: DataMatrix, k: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return U (n x q), s and V (r x q) for the q = min(k, n, r) largest singular values."""
    short = min(A.shape)
    if short <= max(_DENSE_SIDE, 2 * k):
        U, s, Vt = _thin_svd(A, k)
    elif not A.probe_rows().any():
        U, s, Vt = np.eye(A.shape[0], k), np.zeros(k), np.eye(k, A.shape[1])
    else:
        U, s, Vt = svds(A.as_operator(), k=k, v0=rng.standard_normal(short))
    order = np.argsort(-s, kind="stable")[:k]
    U, s, V = (part.astype(np.float64, copy=False) for part in (U[:, order], s[order], Vt[order].T))
    return U, s, V


def _thin_svd(A: DataMatrix, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return at least min(k, n, r) leading singular triplets of a matrix with a short side."""
    n, r = A.shape
    if A.has_entries and n >= _TALL * r and n * r >= _LARGE_ENTRIES:
        _, s, Vt = np.linalg.svd(A.reduce_rows(_triangle, combine=_stacked_triangle))
        q = min(k, r)
        if s[q - 1] > _SAFE_SHARE * s[0]:
            return A.times(Vt[:q].T / s[:q]), s[:q], Vt[:q]
    U, s, Vt = np.linalg.svd(A.to_dense(), full_matrices=False)
    return U, s, Vt


def _triangle(block: MemoryMatrix) -> FloatArray:
    """Return R of a QR factorization of the rows, some of them at a time."""
    R: FloatArray = np.zeros((0, block.shape[1]))
    for part in block.slices(block.shape[1]):
        R = _stacked_triangle(R, part.to_dense())
    return R


def _stacked_triangle(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return R of the rows of two matrices together, in float64."""
    return np.asarray(np.linalg.qr(np.vstack([one, other]), mode="r"))


def _dtype_of(A: DataMatrix) -> type[np.floating[Any]]:
    return np.float32 if A.dtype == np.float32 else np.float64


def _mean(A: DataMatrix) -> float:
    return float(A.gather(A.row_sums()).sum()) / (A.shape[0] * A.shape[1])


def _double_svd(U: FloatArray, s: FloatArray, V: FloatArray) -> FloatArray:
    """Return the left factor of NNDSVD, table 1 of Boutsidis and Gallopoulos."""
    W = np.zeros_like(U)
    for j in range(U.shape[1]):
        sides = [(np.maximum(t * U[:, j], 0.0), np.maximum(t * V[:, j], 0.0)) for t in (1, -1)]
        weights = [float(np.linalg.norm(u) * np.linalg.norm(v)) for u, v in sides]
        best = int(weights[1] > weights[0])
        side = sides[best][0]
        W[:, j] = np.sqrt(s[j] * weights[best]) * side / (float(np.linalg.norm(side)) or 1.0)
    return W


def _fill_columns(X: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """Extend X to k columns; zero or missing columns become random unit vectors."""
    full = np.zeros((X.shape[0], k))
    full[:, : X.shape[1]] = X
    missing = np.flatnonzero(~full.any(axis=0))
    random = np.abs(rng.standard_normal((X.shape[0], len(missing))))
    full[:, missing] = random / np.linalg.norm(random, axis=0)
    return full
