r"""Draw weighted samples of rows, to estimate sums of squares over all rows.

Priority sampling (Duffield, Lund and Thorup, J. ACM 54, 2007): row i with the importance
:math:`q_i > 0` gets the priority :math:`q_i / u_i`, :math:`u_i` uniform in (0, 1]. The m rows with
the largest priorities are kept, :math:`\tau` is the next one, and

.. math:: \sum_{i \in S} \max(1, \tau / q_i)\, f_i \quad \text{estimates} \quad \sum_i f_i

without bias for every f. Rows with :math:`q_i \ge \tau` are always kept, with weight 1.
"""

from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import DataMatrix


class RowSample(NamedTuple):
    """Sampled rows in ascending order, and the square roots of their weights.

    The estimated sum consists of the squared norms of the rows multiplied by these factors.
    """

    rows: IntArray
    factors: FloatArray


def sample_by_squares(
    A: DataMatrix, m: int, seed: int, squares: Any, missed: Any | None = None
) -> RowSample:
    """Sample m < n rows by their squared norms or, if given, by the mean of these and residuals.

    ``squares`` and ``missed`` (the squared residuals) are vectors of the data matrix. The data is
    not read. The random number of a row depends only on the seed and on its index, not on the
    storage.
    """
    vectors = (squares, squares if missed is None else missed)
    sums = A.reduce_rows(_sum_both, *vectors, vectors_only=True)
    levels = tuple(0.5 / total if total > 0 else 0.0 for total in map(float, sums))
    args = (levels, m + 1, seed)
    priorities, rows, importance, _ = A.reduce_rows(
        _first_priorities, *vectors, A.row_indices(), args=args, combine=_merge, vectors_only=True
    )
    # Rows of importance zero have no priority and are left out.
    threshold = priorities[m] if len(rows) > m else 0.0
    kept = np.argsort(rows[:m])
    weights = np.maximum(1.0, threshold / importance[:m][kept])
    return RowSample(rows[:m][kept], np.sqrt(weights))


def uniform_numbers(indices: IntArray, seed: int) -> FloatArray:
    """Return a number in (0, 1] for each index, by splitmix64 of the index and the seed.

    Examples
    --------
    >>> uniform_numbers(np.arange(3), 0).round(3)
    array([0.652, 0.701, 0.387])
    """
    # A hash of (seed, index) instead of a generator: the number does not depend on blocks.
    with np.errstate(over="ignore"):
        x = (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x += _mixed(np.array([seed], dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15))
        x = _mixed(x)
    return np.asarray(((x >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53)


def _mixed(x: Any) -> Any:
    # The finalizer of splitmix64.
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _sum_both(squares: FloatArray, missed: FloatArray) -> tuple[float, float]:
    return float(squares.sum()), float(missed.sum())


_Priorities = tuple[FloatArray, IntArray, FloatArray, int]


def _first_priorities(
    squares: FloatArray,
    missed: FloatArray,
    indices: IntArray,
    levels: tuple[float, float],
    most: int,
    seed: int,
) -> _Priorities:
    """Return the largest priorities in descending order, with their rows and importance."""
    importance = levels[0] * squares + levels[1] * missed
    priorities = importance / uniform_numbers(indices, seed)
    return _largest(priorities, indices, importance, most)


def _merge(one: _Priorities, other: _Priorities) -> _Priorities:
    priorities, rows, importance = (
        np.concatenate(pair) for pair in zip(one[:3], other[:3], strict=True)
    )
    return _largest(priorities, rows, importance, one[3])


def _largest(
    priorities: FloatArray, rows: IntArray, importance: FloatArray, most: int
) -> _Priorities:
    if len(rows) > most:  # keep all candidates for the first `most`, including ties
        edge = np.partition(priorities, len(rows) - most)[len(rows) - most]
        near = np.flatnonzero(priorities >= edge)
        priorities, rows, importance = priorities[near], rows[near], importance[near]
    order = np.lexsort((rows, -priorities))[:most]
    order = order[importance[order] > 0]
    return priorities[order], rows[order], importance[order], most
