r"""The Kullback-Leibler divergence of a nonnegative matrix from a product of two factors.

.. math:: D(A \,\|\, XY^\top) = \sum_{il} a_{il} \log \frac{a_{il}}{m_{il}} - a_{il} + m_{il},
          \qquad M = XY^\top, \quad 0 \log 0 = 0.

For sparse A only the stored entries are used. M is computed for blocks of rows, never as a whole.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from orthoplus import kernels
from orthoplus.core.types import FloatArray
from orthoplus.data.base import DataMatrix
from orthoplus.data.memory import BLOCK_SIZE, MemoryMatrix
from orthoplus.data.sparse import rows_of_csr


def kl_divergence(A: DataMatrix, X: FloatArray, Y: FloatArray) -> float:
    """Return D(A || XY'), infinite if the model is zero at a positive entry of A; O(nnz k).

    Examples
    --------
    >>> from orthoplus.data import as_data
    >>> A = as_data([[2.0, 0.0], [4.0, 0.0]])
    >>> kl_divergence(A, np.array([[1.0], [2.0]]), np.array([[2.0], [0.0]]))
    0.0
    >>> kl_divergence(A, np.array([[1.0], [0.0]]), np.array([[2.0], [0.0]]))
    inf
    """
    return float(A.reduce_rows(_divergence, A.scatter(X), args=(Y,)))


def _divergence(A: MemoryMatrix, X: FloatArray, Y: FloatArray) -> float:
    # D(A || M) = sum a log(a / m) - sum a + sum m, where sum m = (e'X)(Y'e) needs no M.
    total = float(X.sum(axis=0, dtype=np.float64) @ Y.sum(axis=0, dtype=np.float64))
    for _, block, model in _blocks(A.entries(), X, Y):
        data = (block.data if issparse(block) else block).astype(np.float64)
        positive = data > 0
        data, model = data[positive], model[positive]
        if (model <= 0).any():
            return np.inf
        total += float((data * np.log(data / model)).sum()) - float(data.sum())
    return total


def ratio_products(A: DataMatrix, X: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ZY (n x k) and Z'X (r x k) for the entrywise Z = A / XY', 0 / 0 = 0; O(nnz k)."""
    return ratio_rows(A, X, Y), A.reduce_rows(_ratio_columns, A.scatter(X), args=(Y,))


def ratio_rows(A: DataMatrix, X: FloatArray, Y: FloatArray) -> FloatArray:
    """Return only ZY of `ratio_products`."""
    return A.gather(A.map_rows(_ratio_rows, A.scatter(X), args=(Y,)))


def _ratio_rows(A: MemoryMatrix, X: FloatArray, Y: FloatArray) -> FloatArray:
    ZY = np.zeros(X.shape)
    for rows, block, model in _blocks(A.entries(), X, Y):
        ZY[rows] = _over(block, model) @ Y
    return ZY


def _ratio_columns(A: MemoryMatrix, X: FloatArray, Y: FloatArray) -> FloatArray:
    ZtX = np.zeros(Y.shape)
    for rows, block, model in _blocks(A.entries(), X, Y):
        ZtX += _over(block, model).T @ X[rows]
    return ZtX


def ratio_squares(A: DataMatrix, X: FloatArray, Y: FloatArray, D: FloatArray) -> FloatArray:
    """Return (A DY' / (XY')^2) Y, the curvature of D(A || XY') in X along D."""
    return A.gather(A.map_rows(_ratio_squares, A.scatter(X), A.scatter(D), args=(Y,)))


def _ratio_squares(A: MemoryMatrix, X: FloatArray, D: FloatArray, Y: FloatArray) -> FloatArray:
    product = np.zeros(X.shape)
    for rows, block, model in _blocks(A.entries(), X, Y):
        bend = _model(block, D[rows], Y)
        Z = _over(block, model * model, bend)
        product[rows] = Z @ Y
    return product


def ratio_derivatives(
    A: MemoryMatrix, X: FloatArray, Y: FloatArray, D: FloatArray, E: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return minus the derivative of `ratio_products` for X along D and Y along E; O(nnz k).

    It consists of TY - ZE (n x k) and T'X - Z'D (r x k) with the entrywise
    T = A (DY' + XE') / (XY')^2.
    """
    in_x, in_y = np.zeros(X.shape), np.zeros(Y.shape)
    for rows, block, model in _blocks(A.entries(), X, Y):
        bend = _model(block, D[rows], Y)
        other = _model(block, X[rows], E)
        # Z = A / M and its derivative -T = -A dM / M^2, with dM = DY' + XE'.
        squares = np.where(model > 0, model * model, 0.0)
        Z, T = _over(block, model), _over(block, squares, bend + other)
        in_x[rows] = T @ Y - Z @ E
        in_y += T.T @ X[rows] - Z.T @ D[rows]
    return in_x, in_y


def _blocks(A: Any, X: FloatArray, Y: FloatArray) -> Iterator[tuple[slice, Any, FloatArray]]:
    """Yield blocks of rows of A and of the model; for sparse A the model at the stored entries."""
    n, n_entries = A.shape[0], A.nnz if issparse(A) else A.size
    height = max(1, BLOCK_SIZE * n // max(1, n_entries))
    for start in range(0, n, height):
        rows = slice(start, min(start + height, n))
        block = rows_of_csr(A, rows) if issparse(A) else A[rows]
        yield rows, block, _model(block, X[rows], Y)


def _model(A: Any, X: FloatArray, Y: FloatArray) -> FloatArray:
    """Return XY' in float64; for sparse A only at the stored entries."""
    if issparse(A):
        return kernels.sampled_products(A.indices, A.indptr, X, Y)
    return np.asarray(X @ Y.T, dtype=np.float64)


def _over(block: Any, model: FloatArray, factor: FloatArray | float = 1.0) -> Any:
    """Return factor * block / model with the pattern of the block; 0 where the model is 0.

    At such an entry, either the block is zero, or the divergence is infinite without a gradient.
    """
    data = block.data if issparse(block) else block
    quotient = np.where(model > 0, factor * data / np.where(model > 0, model, 1.0), 0.0)
    if not issparse(block):
        return quotient
    return csr_array((quotient, block.indices, block.indptr), shape=block.shape)
