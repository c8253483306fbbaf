"""The point of S+ that belongs to groups of counts, with its factors and its gradient."""

import math
from typing import Any, Protocol

import numpy as np

from orthoplus.core.outer_method import Answer
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.base import Vector
from orthoplus.data.count_groups import missed_of_profiles
from orthoplus.data.groups import normalized_entries, support_labels


class CountModel(Protocol):
    """Attributes that the alternation needs of a problem, which is KLONMF."""

    A: DataMatrix

    @property
    def row_sums(self) -> Any:
        """Return the row sums of A, a vector of the data."""

    @property
    def constant(self) -> float:
        """Return the difference of f and the divergence of the groups."""


def answer_of_groups(
    model: CountModel, labels: Vector, sums: FloatArray, is_row_optimal: bool | None
) -> Answer:
    """Return the groups with optimal weights, without forming an n x k matrix.

    ``sums`` are the k x r column sums of the groups.
    """
    A, k = model.A, len(sums)
    # Number the groups by their first rows, so that the result does not depend on the search.
    order = _appearance(A, labels, k)
    weights = normalized_entries(A, labels, model.row_sums, k)
    labels = support_labels(A, labels, weights)
    # Y = C / (sum of x_i) per group, so that X Y' has the column sums C of the group.
    heights = A.reduce_rows(_column_sums, labels, weights, args=(k,), vectors_only=True)
    Y = sums / np.where(heights > 0, heights, 1.0)[:, None]
    levels = Y.sum(axis=1)
    left, whole = A.reduce_rows(
        _gradient_squares, labels, weights, model.row_sums, args=(levels,), vectors_only=True
    )
    return Answer(
        point=A.point(labels, weights, k).renumbered(order),
        Y=np.ascontiguousarray(Y[order].T, dtype=A.dtype),
        value=missed_of_profiles(A, labels, sums),
        stationarity=math.sqrt(float(left)),
        gradient_size=math.sqrt(float(whole)) or 1.0,
        is_row_optimal=is_row_optimal,
    )


def _appearance(A: DataMatrix, labels: Vector, k: int) -> IntArray:
    """Return the groups in the order of their first rows."""
    first = A.reduce_rows(
        _first_rows,
        labels,
        A.row_indices(),
        args=(k, len(A)),
        combine=np.minimum,
        vectors_only=True,
    )
    return np.argsort(first, kind="stable")


def _first_rows(labels: IntArray, numbers: IntArray, k: int, n: int) -> IntArray:
    # Groups without rows sort last.
    first = np.full(k, n, dtype=np.int64)
    kept = np.flatnonzero(labels >= 0)
    np.minimum.at(first, labels[kept], numbers[kept])
    return first


def _column_sums(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    kept = np.flatnonzero(labels >= 0)
    return np.bincount(labels[kept], weights[kept].astype(np.float64), k).astype(np.float64)


def _gradient_squares(
    labels: IntArray, weights: FloatArray, sizes: FloatArray, levels: FloatArray
) -> tuple[float, float]:
    """Return the squared norms of the gradient on the support and of its part e'y_j.

    On the support, the gradient is e'y_j - r_i / x_i, where r_i is the sum of row i. A zero row of
    X belongs to a zero row of A, where a positive entry would increase D.
    """
    kept = np.flatnonzero(labels >= 0)
    # The gradient is e'y_j - r_i / x_i: two parts of equal size cancel at the optimum.
    parts = levels[labels[kept]]
    gradient = parts - sizes[kept] / weights[kept].astype(np.float64)
    return float(gradient @ gradient), float(parts @ parts)
