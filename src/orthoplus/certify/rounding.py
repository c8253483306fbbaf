"""Rounding of the solution of a relaxation to groups of rows."""

from typing import Any

import numpy as np

from orthoplus.core.point import column_ranks
from orthoplus.core.types import FloatArray, IntArray


def group_rows(rows: FloatArray, k: int) -> IntArray:
    """Group the rows of a matrix by direction into k nonempty groups.

    The initial centers are long rows far from each other; then centers and labels are updated in
    turn. Groups are numbered in the order of their first rows.

    Examples
    --------
    >>> group_rows(np.array([[1.0, 0.1], [2.0, 0.0], [0.1, 1.0], [0.0, 0.0]]), 2)
    array([0, 0, 1, 0])
    """
    centers = _far_rows(rows, k)
    labels = np.argmax(rows @ centers.T, axis=1)
    for _ in range(20):
        centers = np.stack([_unit(rows[labels == j].sum(axis=0)) for j in range(k)])
        old, labels = labels, np.argmax(rows @ centers.T, axis=1)
        if np.array_equal(labels, old):
            break
    labels = _fill_groups(labels, np.einsum("ij,ij->i", rows, centers[labels]), k)
    _, first = np.unique(labels, return_index=True)
    return column_ranks(np.argsort(first))[labels]


def _far_rows(rows: FloatArray, k: int) -> FloatArray:
    """Return k unit vectors: repeatedly the row that is longest orthogonal to the previous ones."""
    rest, found = rows.copy(), []
    for _ in range(k):
        chosen = int(np.argmax(np.einsum("ij,ij->i", rest, rest)))
        found.append(_unit(rows[chosen]))
        # Gram-Schmidt: remove the chosen direction from all rows.
        direction = _unit(rest[chosen])
        rest -= np.outer(rest @ direction, direction)
    return np.stack(found)


def _unit(vector: FloatArray) -> FloatArray:
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm > 0 else vector


def _fill_groups(labels: IntArray, scores: FloatArray, k: int) -> IntArray:
    """Move the worst-fitting row of a group of two or more rows to each empty group."""
    labels = labels.copy()
    order: list[Any] = np.argsort(scores, kind="stable").tolist()
    for empty in np.setdiff1d(np.arange(k), labels):
        counts = np.bincount(labels, minlength=k)
        row = next(i for i in order if counts[labels[i]] > 1)
        labels[row] = empty
        order.remove(row)
    return labels
