"""Build symmetric matrices from similarities and features; sparse input stays sparse."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack, issparse

from orthoplus.core.checks import as_matrix, check_entry_size, check_finite
from orthoplus.core.errors import InputError
from orthoplus.core.sparse_checks import as_csr
from orthoplus.core.types import FloatArray
from orthoplus.data.symmetric import SymmetricMap, as_symmetric


def negative_gram(A: Any, *, centered: bool) -> SymmetricMap:
    """Return -AA' as a product, with the row mean of A subtracted if ``centered``.

    A sparse A is not changed; the mean is a second factor.
    """
    A = as_features(A, "A")
    if not centered:
        return SymmetricMap(None, ((A, -1.0),))
    mean = np.asarray(A.mean(axis=1)).reshape(-1, 1)
    if issparse(A):
        return SymmetricMap(None, ((A, -1.0), (mean, float(A.shape[1]))))
    return SymmetricMap(None, ((A - mean, -1.0),))


def shifted(M: Any, shift: float) -> Any:
    """Return M + shift I, sparse if M is."""
    n = M.shape[0]
    return M + shift * (eye_array(n, format="csr") if issparse(M) else np.eye(n))


def ridge_factor(A: Any, ridge: float) -> tuple[Any, FloatArray]:
    """Return B and C with BCB' = HA (A'HA + ridge I)^-1 A'H; B is HA, or [A 1] for sparse A."""
    n, r = A.shape
    mean = np.asarray(A.mean(axis=0)).reshape(-1)
    if not issparse(A):
        centered = A - mean
        return centered, np.linalg.inv(centered.T @ centered + ridge * np.eye(r))
    gram = (A.T @ A).toarray() - n * np.outer(mean, mean)
    centering = np.vstack([np.eye(r), -mean])  # HA = [A 1] times this
    core = centering @ np.linalg.inv(gram + ridge * np.eye(r)) @ centering.T
    return hstack([A, csr_array(np.ones((n, 1)))], format="csr"), core


def as_matrix_or_sparse(A: Any, name: str) -> Any:
    """Return a finite matrix of float64, dense or CSR."""
    if issparse(A):
        A = as_csr(A, name).astype(np.float64)
        check_finite(A.data, name)
        return A
    return as_matrix(A, name).astype(np.float64, copy=False)


def as_features(A: Any, name: str) -> Any:
    """Return `as_matrix_or_sparse`, and raise if products AA'X would leave the range of float64.

    Examples
    --------
    >>> as_features([[1e100], [1.0]], "A")
    Traceback (most recent call last):
    orthoplus.InputError: `A` has entries as large as 1e+100: products of such numbers are ...
    """
    A = as_matrix_or_sparse(A, name)
    entries = A.data if issparse(A) else A
    if entries.size:
        check_entry_size(max(float(entries.max()), -float(entries.min())), A.dtype, name)
    return A


def as_similarity(W: Any, name: str = "W") -> Any:
    """Return a symmetric nonnegative matrix of float64, dense or CSR."""
    W = as_symmetric(as_matrix_or_sparse(W, name), name)
    smallest = W.min() if min(W.shape) else 0.0
    if smallest < 0:
        raise InputError(
            f"`{name}` has negative entries (the smallest is {smallest:.3g}): similarities are "
            f"needed. For a matrix with entries of both signs, use TraceMin(M, k)."
        )
    return W
