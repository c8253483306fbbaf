"""Groups of rows from the solution of a relaxation."""

from typing import Any

import numpy as np

from orthoplus.core.point import column_ranks
from orthoplus.core.types import FloatArray, IntArray


def group_rows(rows: FloatArray, k: int) -> IntArray:
    """Group the rows of a matrix by their directions, into k groups that are not empty.

    The first centers are long rows far from each other; alternating between centers and labels
    follows. Groups are numbered by their first rows.

    Examples
    --------
    >>> group_rows(np.array([[1.0, 0.1], [2.0, 0.0], [0.1, 1.0], [0.0, 0.0]]), 2)
    array([0, 0, 1, 0])
    """
    centers = _far_rows(rows, k)
    labels = np.argmax(rows @ centers.T, axis=1)
    for _ in range(20):
        centers = np.stack([_direction(rows[labels == j]) for j in range(k)])
        old, labels = labels, np.argmax(rows @ centers.T, axis=1)
        if np.array_equal(labels, old):
            break
    labels = _fill_groups(labels, np.einsum("ij,ij->i", rows, centers[labels]), k)
    _, first = np.unique(labels, return_index=True)
    return column_ranks(np.argsort(first))[labels]


def _far_rows(rows: FloatArray, k: int) -> FloatArray:
    """Return k unit vectors: the longest row, then each time the longest off those before."""
    rest, found = rows.copy(), []
    for _ in range(k):
        chosen = int(np.argmax(np.einsum("ij,ij->i", rest, rest)))
        found.append(_unit(rows[chosen]))
        direction = _unit(rest[chosen])
        rest -= np.outer(rest @ direction, direction)
    return np.stack(found)


def _direction(rows: FloatArray) -> FloatArray:
    """Return the unit vector of the sum of the rows, zeros if there is none."""
    return _unit(rows.sum(axis=0))


def _unit(vector: FloatArray) -> FloatArray:
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm > 0 else vector


def _fill_groups(labels: IntArray, scores: FloatArray, k: int) -> IntArray:
    """Give each empty group the row that fits its own group least, from groups of two or more."""
    labels = labels.copy()
    order: list[Any] = np.argsort(scores, kind="stable").tolist()
    for empty in np.setdiff1d(np.arange(k), labels):
        counts = np.bincount(labels, minlength=k)
        row = next(i for i in order if counts[labels[i]] > 1)
        labels[row] = empty
        order.remove(row)
    return labels
