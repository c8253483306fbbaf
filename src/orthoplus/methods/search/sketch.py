"""The sketch used by swaps: a weighted sample of rows in a few coordinates."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.memory import MemoryMatrix
from orthoplus.data.sampling import sample_by_squares
from orthoplus.linalg.starts import leading_right_vectors
from orthoplus.methods.factors import FactorModel

# Subspace iterations of the sketch. More iterations do not help: the final phase is exact.
_POWER_STEPS = 2
# A unit vector is in the span of a basis if its part outside is at most this.
_INSIDE = 1e-6


class Sketch(NamedTuple):
    """Hold rows of A in an orthonormal basis, scaled by the square roots of their weights.

    Centers within the basis explain the same sum of squares of these rows as of A: exactly if all
    rows are included, otherwise in expectation.
    """

    rows: FloatArray  # m x d
    basis: FloatArray  # r x d


def sketch_rows(
    model: FactorModel, columns: int, sample: int, seed: int, scores: Any = None
) -> Sketch:
    """Return a sketch in the leading right singular vectors, found by subspace iteration.

    ``scores`` are those of the rows in their groups: half of a sample is drawn by their residuals.
    """
    rows = sampled_rows(model, sample, seed, scores)
    basis, _ = leading_right_vectors(rows, columns, np.random.default_rng(seed), _POWER_STEPS)
    return _in_basis(rows, basis)


def refined_sketch(known: Sketch, directions: FloatArray, rows: MemoryMatrix) -> Sketch:
    """Return a sketch whose basis also contains the directions, so that they lose nothing."""
    beyond = directions.T
    for _ in range(2):  # twice because of rounding
        beyond = beyond - known.basis @ (known.basis.T @ beyond)
    # Directions already in the span of the basis would give random columns.
    beyond = beyond[:, np.linalg.norm(beyond, axis=0) > _INSIDE]
    return _in_basis(rows, np.hstack([known.basis, np.linalg.qr(beyond)[0]]))


def sampled_rows(model: FactorModel, sample: int, seed: int, scores: Any = None) -> MemoryMatrix:
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


def _in_basis(rows: MemoryMatrix, basis: FloatArray) -> Sketch:
    B = np.asarray(rows.matmul(basis), dtype=np.float64)
    # Sort the rows canonically, so that the random numbers do not depend on their order.
    return Sketch(np.ascontiguousarray(B[order_of_rows(B)]), basis)


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
