"""Products of the data with a matrix that has one entry per row, in plain NumPy: the specification.

Row i belongs to group ``labels[i]``, or to no group if the label is negative. Sums are in float64.
"""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

__all__ = [
    "best_columns",
    "dense_group_dots",
    "dense_group_sums",
    "sparse_group_dots",
    "sparse_group_sums",
]

# Two scores that differ by at most this many unit roundoffs count as equal.
TIE = 100


def best_columns(scores: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the column of each row's largest score, the first among ties, and the score there."""
    top = scores.max(axis=1, keepdims=True)
    near = scores >= top - np.abs(top) * (TIE * np.finfo(scores.dtype).eps)
    labels = np.asarray(near.argmax(axis=1))
    return labels, scores[np.arange(len(scores)), labels]


def dense_group_sums(A: FloatArray, labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Return the k x r matrix with W_j = sum of weights[i] * A[i] over the rows i of group j."""
    W = np.zeros((k, A.shape[1]))
    for j in range(k):
        rows = np.flatnonzero(labels == j)
        W[j] = weights[rows] @ A[rows].astype(np.float64)
    return W


def dense_group_dots(A: FloatArray, labels: IntArray, W: FloatArray) -> FloatArray:
    """Return A[i]'W_j for the group j of each row i, and 0 for a row without a group."""
    dots = np.einsum("ij,ij->i", A, W[labels], dtype=np.float64)
    return np.where(labels >= 0, dots, 0.0)


def sparse_group_sums(
    parts: tuple[FloatArray, IntArray, IntArray],
    labels: IntArray,
    weights: FloatArray,
    size: tuple[int, int],
) -> FloatArray:
    """Compute `dense_group_sums` for CSR parts (data, indices, indptr); size = (k, r)."""
    data, indices, indptr = parts
    rows = np.repeat(np.arange(len(labels)), np.diff(indptr))
    kept = labels[rows] >= 0
    W = np.zeros(size)
    np.add.at(W, (labels[rows[kept]], indices[kept]), weights[rows[kept]] * data[kept])
    return W


def sparse_group_dots(
    parts: tuple[FloatArray, IntArray, IntArray], labels: IntArray, W: FloatArray
) -> FloatArray:
    """Compute `dense_group_dots` for CSR parts (data, indices, indptr)."""
    data, indices, indptr = parts
    rows = np.repeat(np.arange(len(labels)), np.diff(indptr))
    dots = np.bincount(rows, data * W[labels[rows], indices], minlength=len(labels))
    return np.where(labels >= 0, dots, 0.0)
