"""The sketch used by swaps: a weighted sample of rows in a few coordinates, and starts in it."""

from typing import NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.base import Vector
from orthoplus.data.groups import unit_rows
from orthoplus.data.memory import MemoryMatrix
from orthoplus.data.sampling import sample_by_squares
from orthoplus.linalg.starts import leading_right_vectors
from orthoplus.methods.factors import FactorModel

# Subspace iterations of the sketch. More iterations do not help: the final phase is exact.
_POWER_STEPS = 2
# Alternations per swap, and for an initial set of centers.
TRIAL_STEPS, FIRST_STEPS = 4, 30
# Maximum number of sets of rows that compete to start a search, and of their rows in total: with
# many centers, the swaps of one set take longer and already change it a lot. The sketch must have
# fewer entries than A by the last number times the number of sets, so that a trial costs little
# compared with a pass over A.
_MAX_CANDIDATES, _CANDIDATE_ROWS, _SIZE_RATIO = 4, 16, 3
# Default number of sampled rows. It is multiplied by at most the second number, as long as a row of
# the sketch takes at most the third number of products, and the sampled rows have at most the
# fourth number of entries.
_SAMPLE = 4096
_MAX_TIMES, _WORK_PER_ROW, _SAMPLED_ENTRIES = 4, 1024, 1 << 21
# A unit vector is in the span of a basis if its part outside is at most this.
_INSIDE = 1e-5


class Sketch(NamedTuple):
    """Hold rows of A in an orthonormal basis, scaled by the square roots of their weights.

    Centers within the basis explain the same sum of squares of these rows as of A: exactly if all
    rows are included, otherwise in expectation.
    """

    rows: FloatArray  # m x d, in a canonical order
    basis: FloatArray  # r x d
    order: IntArray  # the rows of A in that order; empty for a sample


def sketch_rows(
    model: FactorModel, columns: int, sample: int, seed: int, scores: Vector = None
) -> Sketch:
    """Return a sketch in the leading right singular vectors, found by subspace iteration.

    ``scores`` are those of the rows in their groups: half of a sample is drawn by their residuals.
    """
    rows = sampled_rows(model, sample, seed, scores)
    basis, _ = leading_right_vectors(rows, columns, np.random.default_rng(seed), _POWER_STEPS)
    B = np.asarray(rows.matmul(basis), dtype=np.float64)
    # Sort the rows canonically, so that the random numbers do not depend on their order.
    order = order_of_rows(B)
    is_sample = len(rows) < len(model.A)
    return Sketch(np.ascontiguousarray(B[order]), basis, order[:0] if is_sample else order)


def refined_sketch(known: Sketch, directions: FloatArray, rows: MemoryMatrix) -> Sketch:
    """Return a sketch whose basis also contains the directions, so that they lose nothing.

    ``rows`` are all rows of A, or another sample if the known sketch is one of a sample.
    """
    beyond = directions.T - known.basis @ (known.basis.T @ directions.T)
    # Directions already in the span of the basis would give random columns. The others are
    # orthogonal to the basis up to the unit roundoff divided by this norm.
    beyond = beyond[:, np.linalg.norm(beyond, axis=0) > _INSIDE]
    new = np.linalg.qr(beyond)[0]
    basis = np.hstack([known.basis, new])
    if len(known.order) == 0:
        B = np.asarray(rows.matmul(basis), dtype=np.float64)
        return Sketch(np.ascontiguousarray(B[order_of_rows(B)]), basis, known.order)
    B = np.asarray(rows.matmul(new), dtype=np.float64)[known.order]
    return Sketch(np.hstack([known.rows, B]), basis, known.order)


def sample_size(n_columns: int, products: int) -> int:
    """Return the number of sampled rows: more if rows are short and trials take few products."""
    entries = max(_SAMPLE * n_columns, 1)
    times = min(_MAX_TIMES, _WORK_PER_ROW // max(products, 1), _SAMPLED_ENTRIES // entries)
    return _SAMPLE * max(times, 1)


def sampled_rows(model: FactorModel, sample: int, seed: int, scores: Vector = None) -> MemoryMatrix:
    """Return all rows, or a weighted sample scaled by the square roots of the weights."""
    A: DataMatrix = model.A
    if len(A) <= sample or not A.has_entries:
        return A.in_memory()
    missed = None
    if scores is not None:
        missed = A.map_vectors(_missed, model.row_squares, scores)
    found = sample_by_squares(A, sample, seed, model.row_squares, missed)
    if len(found.rows) == 0:  # all rows are zero
        return A.sample_rows(np.arange(sample))
    rows = A.sample_rows(found.rows).scale_rows(found.factors.astype(A.dtype))
    return rows.in_memory()


def _missed(squares: FloatArray, scores: FloatArray) -> FloatArray:
    return np.maximum(squares - np.maximum(scores, 0.0).astype(np.float64) ** 2, 0.0)


def order_of_rows(B: FloatArray) -> IntArray:
    """Return the lexicographic order; only ties in the first column look at the others."""
    if B.shape[1] == 0:
        return np.arange(len(B))
    order = np.argsort(B[:, 0], kind="stable")
    first = B[order, 0]
    is_tie = np.zeros(len(B) + 1, dtype=bool)  # whether a row equals the one before it
    is_tie[1:-1] = first[1:] == first[:-1]
    tied = np.flatnonzero(is_tie[1:] | is_tie[:-1])
    rows = order[tied]
    order[tied] = rows[np.lexsort(B[rows].T[::-1])]
    return order


def sampled_centers(B: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """Draw k rows with probability proportional to their residual after the previous ones."""
    squares = np.einsum("ij,ij->i", B, B)
    chosen: list[int] = []
    left = squares.copy()
    for _ in range(k):
        mass = left.sum()
        row = rng.choice(len(B), p=left / mass) if mass > 0 else rng.integers(len(B))
        chosen.append(int(row))
        unit = B[row] / (np.sqrt(squares[row]) or 1.0)
        # What remains of each row after the best nonnegative multiple of any chosen row.
        left = np.minimum(left, np.maximum(squares - np.maximum(B @ unit, 0.0) ** 2, 0.0))
    return B[chosen]


def count_candidates(B: FloatArray, n_entries: int, k: int) -> int:
    """Return how many sets of rows compete: more if k is small and A has many more entries than B.

    The number of entries of A is ``n_entries``.
    """
    most = min(n_entries / max(B.size, 1) / _SIZE_RATIO, _CANDIDATE_ROWS / k)
    return int(np.clip(most, 1, _MAX_CANDIDATES))


def best_candidate(
    B: FloatArray, k: int, n_candidates: int, n_swaps: int, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Return the best centers and their sum of several sets of sampled rows, each after swaps.

    A single set needs no comparison and hence no swaps here.
    """
    best: tuple[FloatArray, float] = (np.empty((0, 0)), -np.inf)
    for _ in range(n_candidates):
        # k-means++ in the sketch: rows drawn by what the previous ones leave.
        centers = unit_rows(sampled_centers(B, k, rng))
        centers, total = kernels.alternate_centers(B, centers, FIRST_STEPS)
        if n_candidates > 1:
            draws = rng.random((n_swaps, 2))
            centers, total, _ = kernels.search_swaps(B, centers, draws, TRIAL_STEPS)
        best = max(best, (centers, total), key=lambda found: found[1])
    return best
