"""Starts for clusters of counts: a sketch of their square roots, and swaps of single groups."""

from typing import NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix, MemoryMatrix
from orthoplus.data.base import Vector
from orthoplus.data.count_groups import log_profiles, row_entropies, square_roots
from orthoplus.data.groups import unit_rows
from orthoplus.linalg.starts import leading_right_vectors
from orthoplus.methods.search.sketch import order_of_rows

# Candidate rows of a swap.
_CANDIDATES = 3
# Columns of the sketch per group and in addition, and subspace iterations for its basis.
_SKETCH_COLUMNS, _SPARE, _POWER_STEPS = 2, 8, 2


def sample_counts(A: DataMatrix, sizes: Vector, most: int, seed: int) -> MemoryMatrix:
    """Return all rows if there are at most ``most``, else a sample weighted by row sums.

    Rows without entries are drawn only if there are too few others.
    """
    n = len(A)
    if n <= most:
        return A.in_memory()
    weights = A.gather(sizes)
    # The rows with the largest u^(1/w) form a weighted sample without replacement (Efraimidis and
    # Spirakis); the logarithm avoids underflow.
    uniform = np.random.default_rng(seed).random(n)
    keys = np.log(uniform) / np.where(weights > 0, weights, np.finfo(np.float64).tiny)
    return A.sample_rows(np.sort(np.argpartition(-keys, most)[:most]))


class CountSketch(NamedTuple):
    """Hold the square roots of sampled counts in the span of their leading singular vectors.

    A row of square roots has the squared norm :math:`r_i`, the sum of the row. The cosine of two
    such rows is the Bhattacharyya coefficient of their profiles, so orthogonal NMF of them
    approximates the clusters of smallest divergence. Singular vectors remove most of the noise of
    single rows, which hides small groups from seeds drawn by the divergence of rows.
    """

    rows: FloatArray  # m x d, in an order that does not depend on the order of the data
    order: IntArray  # row of the sample for each row of the sketch

    def centers_of(self, labels: IntArray, k: int) -> FloatArray:
        """Return the directions of the sums over groups of the sample."""
        own = labels[self.order]
        sums = np.zeros((k, self.rows.shape[1]))
        np.add.at(sums, own[own >= 0], self.rows[own >= 0])
        return unit_rows(sums)

    def labels_of(self, centers: FloatArray) -> IntArray:
        """Return the group of each row of the sample, -1 for a row of zeros."""
        labels = np.empty(len(self.order), dtype=np.int64)
        scores = self.rows @ centers.T
        labels[self.order] = np.where(self.rows.any(axis=1), scores.argmax(axis=1), -1)
        return labels


def sketch_counts(A: MemoryMatrix, k: int, seed: int) -> CountSketch:
    """Return the sketch of these rows, with a few columns per group."""
    roots = square_roots(A)
    columns = min(_SKETCH_COLUMNS * k + _SPARE, *A.shape)
    rng = np.random.default_rng(seed)
    basis, _ = leading_right_vectors(roots, columns, rng, _POWER_STEPS)
    rows = np.asarray(roots.matmul(basis), dtype=np.float64)
    order = order_of_rows(rows)
    return CountSketch(np.ascontiguousarray(rows[order]), order)


def swap_profile(
    A: MemoryMatrix, sums: FloatArray, smoothing: float, rng: np.random.Generator
) -> FloatArray:
    """Return the sums of groups after replacing a dispensable group by a row.

    The removed group is one of the few whose rows lose least in their second-best groups. The new
    row is drawn with probability proportional to its divergence from the others. The cost is O(nnz
    k).
    """
    k, rows = len(sums), np.arange(len(A))
    scores = A.matmul(log_profiles(sums, smoothing).T).astype(np.float64)
    own = scores.argmax(axis=1)
    first = scores[rows, own].copy()
    scores[rows, own] = -np.inf
    # A single group has no runner-up, and removing it counts as no loss.
    second = scores.max(axis=1) if k > 1 else np.minimum(first, np.asarray(row_entropies(A)))
    # Loss of removing a group: each of its rows falls back to its second-best group.
    losses = np.bincount(own, first - second, minlength=k)
    gone = int(np.argsort(losses, kind="stable")[rng.integers(min(_CANDIDATES, k))])
    # Log-likelihoods without the removed group; new rows are drawn by what is left of the
    # divergence.
    fits = np.where(own == gone, second, first)
    missed = np.maximum(np.asarray(row_entropies(A)) - fits, 0.0)
    drawn = _draw_rows(missed, rng, rows)
    taken = A.take_rows(drawn).astype(np.float64)
    new = A.matmul(log_profiles(taken, smoothing, sums.sum(axis=0)).T).astype(np.float64)
    best = int(np.maximum(new, fits[:, None]).sum(axis=0).argmax())
    swapped = sums.copy()
    swapped[gone] = taken[best]
    return swapped


def _draw_rows(missed: FloatArray, rng: np.random.Generator, others: IntArray) -> IntArray:
    # If nothing is left to explain, any remaining row will do.
    total = missed.sum()
    if total > 0:
        return rng.choice(len(missed), size=_CANDIDATES, p=missed / total)
    return rng.choice(others, size=1)
