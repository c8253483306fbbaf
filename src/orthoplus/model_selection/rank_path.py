"""Orthogonal NMF for increasing ranks, each started from the previous one."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix, as_data
from orthoplus.data.groups import assign_block, unit_rows
from orthoplus.geometry.stiefel import assemble
from orthoplus.linalg.starts import leading_right_vectors, svd_start
from orthoplus.methods.search.alternation import ROUGH, alternate_groups
from orthoplus.methods.search.swap_search import SwapSearch
from orthoplus.problems import ONMF
from orthoplus.run.api import solve

# Columns of the sketch for all ranks: per center of the largest rank, and extra ones.
_COLUMNS_PER_CENTER, _SPARE_COLUMNS = 3, 20
# The sketch pays off if A has at least this many times as many entries.
_LEAST_RATIO = 3


class PathPoint(NamedTuple):
    """Hold the factorization of one rank: unit centers (k x r), labels, unexplained share.

    A row of zeros has the label -1.
    """

    k: int
    centers: FloatArray
    labels: IntArray
    unexplained: float


def fit_path(
    A: DataMatrix, ranks: Sequence[int], *, n_init: int, seed: int, allow_negative: bool = False
) -> Iterator[PathPoint]:
    """Yield a factorization for each of the increasing ranks.

    The unexplained share never increases with the rank.

    The first search of each rank starts from the groups of the previous rank, with the
    worst-fitting rows as new groups; the other searches have their own starts. If A has many
    columns, the searches use the coordinates of the rows in the leading singular vectors, computed
    once for all ranks, and each ends with the exact alternation on A.
    """
    before: _Groups | None = None
    sketch = _sketch(A, ranks[-1], np.random.default_rng(seed))
    for k in ranks:
        problem = ONMF(A, k, allow_negative=allow_negative)
        X0 = svd_start(A, k) if before is None else _extended(problem, before)
        searched = problem if sketch is None else ONMF(sketch, k, allow_negative=True)
        method = SwapSearch(n_init=n_init, seed=seed)
        found = solve_to_the_end(searched, X0, method=method)
        labels, weights = np.asarray(found.labels), np.asarray(found.weights)
        after = _Groups(labels, weights, np.asarray(found.Y).T, found.value)
        if sketch is not None:
            after = _ended(problem, labels, weights)
            if before is not None and not after.value <= before.value:  # the sketch was worse
                after = _ended(problem, *kernels.largest_entries(X0))
        before = after
        centers = unit_rows(after.centers)
        share = max(0.0, after.value) / (problem.total or 1.0)  # the value may round below 0
        yield PathPoint(k, centers, nearest_centers(A, centers), share)


def solve_to_the_end(problem: Problem, X0: FloatArray | None = None, **options: Any) -> Result:
    """Solve without a bound; on Ctrl-C, raise KeyboardInterrupt to end the whole selection."""
    result = solve(problem, X0, with_bound=False, **options)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


class _Groups(NamedTuple):
    """Hold a point of S+, the rows of its second factor (k x r), and its value."""

    labels: IntArray
    weights: FloatArray
    centers: FloatArray
    value: float


def _sketch(A: DataMatrix, k: int, rng: np.random.Generator) -> DataMatrix | None:
    """Return the rows in coordinates of the leading right singular vectors, if that pays off."""
    columns = _COLUMNS_PER_CENTER * k + _SPARE_COLUMNS
    if not A.has_cheap_products or A.n_stored < _LEAST_RATIO * A.shape[0] * columns:
        return None
    V, _ = leading_right_vectors(A, columns, rng)
    return as_data(A.times(V), "X")


def _ended(problem: ONMF, labels: IntArray, weights: FloatArray) -> _Groups:
    """Return the groups at the fixed point of the exact alternation on all columns."""
    # Approximate vectors suffice: a power step follows, and the value is exact for the point.
    found = alternate_groups(problem, labels, weights, with_moves=False, stages=(ROUGH,))
    labels, weights = np.asarray(found.labels), np.asarray(found.weights)
    W = problem.A.group_sums(labels, weights, problem.shape[1])
    return _Groups(labels, weights, W, found.value)


def nearest_centers(A: DataMatrix, centers: FloatArray) -> IntArray:
    """Return the center with the largest cosine for each row; -1 for a row of zeros."""
    labels, _ = A.map_rows(assign_block, args=(centers,), n_vectors=2)
    return A.gather(labels)


def _extended(problem: ONMF, before: _Groups) -> FloatArray:
    """Return the groups of a smaller rank, with new columns for the worst-fitting rows."""
    k, labels = problem.shape[1], np.array(before.labels)
    weights = np.array(before.weights, dtype=np.float64)
    sizes = np.linalg.norm(before.centers, axis=1)
    fits = np.where(labels >= 0, weights * sizes[labels], 0.0)
    missed = problem.A.gather(problem.row_squares) - fits**2
    counts = np.bincount(labels[weights > 0], minlength=k)
    new = len(before.centers)
    for row in np.argsort(-missed, kind="stable"):
        if new == k:
            break
        # A group must not lose its only row.
        if weights[row] > 0 and counts[labels[row]] == 1:
            continue
        counts[labels[row]] -= weights[row] > 0
        labels[row], weights[row], counts[new] = new, 1.0, 1
        new += 1
    return assemble(labels, weights.astype(before.weights.dtype), k)
