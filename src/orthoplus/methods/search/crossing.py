"""Combine the solutions of several searches: centers of one and of another, then moves of rows."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from orthoplus import kernels
from orthoplus.core.types import FloatArray
from orthoplus.data import DataMatrix
from orthoplus.data.groups import unit_rows
from orthoplus.linalg.starts import RANK_TOL
from orthoplus.methods.factors import FactorModel
from orthoplus.methods.search.sketch import order_of_rows

# Solutions are crossed if the data have at most this many rows and entries.
_MAX_ROWS, _MAX_ENTRIES = 1 << 13, 1 << 20
# Rows with at least this many times as many columns are written in a basis of their span.
_MIN_WIDTH_RATIO = 3
# Solutions that are kept.
_MAX_SOLUTIONS = 12
# Usual number of children per crossing, at least and at most, and the products n r k of a pass over
# the rows times that number. Few products are spent as long as all searches agree.
_MIN_CHILDREN, _MAX_CHILDREN, _MAX_WORK, _MAX_WORK_AGREED = 2, 64, 3e7, 4e6
# A crossing ends after failures of this share of the usual number of children, and at the latest
# after this many times that number.
_MAX_FAILED_SHARE, _MAX_EXTENSION = 0.6, 4
# Passes of the moves of a child, and alternations after a random change.
_CHILD_PASSES, _KICK_STEPS = 40, 3
# Solutions that differ by less than this share of the sum are the same.
_SAME_SOLUTION = 1e-9


class Pool(NamedTuple):
    """Different solutions, the best first: their centers, m x k x d, and their sums."""

    centers: FloatArray
    sums: FloatArray


class CrossingRows(NamedTuple):
    """All rows of A in a canonical order, unchanged or in a basis A'L of their span."""

    rows: FloatArray  # n x d
    lift: FloatArray  # L, n x d; empty if the rows are those of A

    def centers(self, A: DataMatrix, directions: FloatArray) -> FloatArray:
        """Return unit centers in the coordinates of the rows for directions, k x r."""
        if len(self.lift) == 0:
            return unit_rows(directions)
        return unit_rows(A.times(directions.T).T.astype(np.float64) @ self.lift)

    def directions(self, A: DataMatrix, centers: FloatArray) -> FloatArray:
        """Return the directions, k x r, of centers in the coordinates of the rows."""
        if len(self.lift) == 0:
            return centers
        return np.ascontiguousarray(A.times_transposed(self.lift @ centers.T).T, dtype=np.float64)


def can_cross(model: FactorModel) -> bool:
    """Return whether the rows have entries and are few enough to be read into memory."""
    n, r = model.A.shape
    return model.A.has_entries and n <= _MAX_ROWS and n * r <= _MAX_ENTRIES


def crossing_rows(A: DataMatrix) -> CrossingRows:
    r"""Return all rows in a canonical order, in an orthonormal basis of their span if it is small.

    The inner products of the rows give their coordinates, :math:`AA^\top = V \Lambda V^\top` and
    :math:`B = V \Lambda^{1/2}`. Only singular values at rounding level are lost.
    """
    n, r = A.shape
    if _MIN_WIDTH_RATIO * n > r:
        B = np.asarray(A.to_dense(), dtype=np.float64)
        return CrossingRows(np.ascontiguousarray(B[order_of_rows(B)]), np.zeros((0, 0)))
    G = A.short_gram()
    # Norms and means of inner products do not depend on the order of the rows.
    order = np.lexsort([(G / n).sum(axis=1), np.diagonal(G)])
    values, V = np.linalg.eigh(G)
    is_sound = values > RANK_TOL * values[-1]
    root, V = np.sqrt(values[is_sound]), V[:, is_sound]
    return CrossingRows(np.ascontiguousarray((V * root)[order]), V / root)


def cross(B: FloatArray, pool: Pool, centers: FloatArray | None, rng: np.random.Generator) -> Pool:
    """Add a solution to the pool, if one is given, then children, each after moves of rows.

    In turn, a child is the best solution with a row in place of a center, or takes one of each two
    matching centers of the best solution and another one. A child that ends as a known solution is
    followed by one of the first kind. The loop ends early if no child improves the best solution
    for a while, and continues longer if children do.
    """
    if centers is not None:
        pool, _ = _added(pool, *kernels.settle_rows(B, centers, _CHILD_PASSES))
    usual = n_children(B.size * pool.centers.shape[1], len(pool.sums))
    is_new, n_failures = True, 0
    for number in range(_MAX_EXTENSION * usual):
        if n_failures >= max(_MAX_FAILED_SHARE * usual, _MIN_CHILDREN):
            break
        n_known, most = len(pool.sums), pool.sums[0]
        if number % 2 == 0 or not is_new or n_known == 1:
            child = _changed(B, pool.centers[0], rng)
        else:
            child = child_of(pool.centers[0], pool.centers[rng.integers(1, n_known)], rng)
        # A child that would be the worst is not pursued.
        goal = float(pool.sums[-1])
        pool, is_new = _added(pool, *kernels.settle_rows(B, child, _CHILD_PASSES, goal))
        n_failures = 0 if pool.sums[0] > most else n_failures + 1
    return pool


def n_children(work: float, n_known: int) -> int:
    """Return the usual number of children if a pass costs this number of products."""
    work = max(work, 1.0)  # data without columns
    if n_known == 1:  # all searches agree so far
        return int(min(_MAX_WORK_AGREED / work, _MIN_CHILDREN))
    return int(np.clip(_MAX_WORK / work, _MIN_CHILDREN, _MAX_CHILDREN))


def child_of(one: FloatArray, other: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Match the centers of two solutions by their products; choose one of each pair at random."""
    _, matching = linear_sum_assignment(one @ other.T, maximize=True)
    return np.where(rng.random(len(one))[:, None] < 0.5, one, other[matching])


def _changed(B: FloatArray, centers: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Replace a random center by a row, and alternate.

    The swaps drew rows by their squared residuals, which a few rows may dominate. Here the root of
    them counts.
    """
    squares, top = np.einsum("ij,ij->i", B, B), np.maximum((B @ centers.T).max(axis=1), 0.0)
    mass = np.cumsum(np.sqrt(np.maximum(squares - top * top, 0.0)))
    row = min(int(np.searchsorted(mass, rng.random() * mass[-1], side="right")), len(B) - 1)
    centers = centers.copy()
    centers[rng.integers(len(centers))] = unit_rows(B[row : row + 1])[0]
    return kernels.alternate_centers(B, centers, _KICK_STEPS)[0]


def _added(pool: Pool, centers: FloatArray, total: float) -> tuple[Pool, bool]:
    """Return the pool with another solution, and whether it is a new one."""
    if (np.abs(pool.sums - total) <= _SAME_SOLUTION * total).any():
        return pool, False
    known = pool.centers if len(pool.sums) else np.zeros((0, *centers.shape))
    sums = np.append(pool.sums, total)
    order = np.argsort(-sums, kind="stable")[:_MAX_SOLUTIONS]
    return Pool(np.concatenate([known, centers[None]])[order], sums[order]), True
