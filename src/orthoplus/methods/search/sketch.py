"""The sketch that swaps look at: rows of the data, sampled by weight, in a few coordinates."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.base import MemoryMatrix
from orthoplus.data.sampling import sample_by_squares
from orthoplus.linalg.starts import leading_right_vectors
from orthoplus.methods.factors import FactorModel

# Subspace iterations of the sketch; more change nothing that the exact end does not.
_POWER_STEPS = 2
# A unit vector with no more than this outside of a basis is inside.
_INSIDE = 1e-6


class Sketch(NamedTuple):
    """Rows of A in an orthonormal basis, with the square roots of their weights as factors.

    The sum of squares that centers within the basis explain of the rows is what they explain of A:
    exactly if all rows are there, otherwise in expectation.
    """

    rows: FloatArray  # m x d
    basis: FloatArray  # r x d


def sketch_rows(
    model: FactorModel, columns: int, sample: int, seed: int, scores: Any = None
) -> Sketch:
    """Return a sketch in the leading right singular vectors; by subspace iteration.

    ``scores`` are those of the rows in their groups: half of a sample is by what they miss.
    """
    rows = sampled_rows(model, sample, seed, scores)
    basis, _ = leading_right_vectors(rows, columns, np.random.default_rng(seed), _POWER_STEPS)
    return _in_basis(rows, basis)


def refined_sketch(known: Sketch, directions: FloatArray, rows: MemoryMatrix) -> Sketch:
    """Return a sketch whose basis holds the directions as well: they lose nothing in it."""
    beyond = directions.T
    for _ in range(2):  # twice for the rounding
        beyond = beyond - known.basis @ (known.basis.T @ beyond)
    beyond = beyond[:, np.linalg.norm(beyond, axis=0) > _INSIDE]
    return _in_basis(rows, np.hstack([known.basis, np.linalg.qr(beyond)[0]]))


def sampled_rows(model: FactorModel, sample: int, seed: int, scores: Any = None) -> MemoryMatrix:
    """Return all rows, or a weighted sample of them times the square roots of their weights."""
    A: DataMatrix = model.A
    if len(A) <= sample or not A.has_entries:
        return A.in_memory()
    missed = None
    if scores is not None:
        missed = A.map_vectors(_missed, model.row_squares, scores)
    found = sample_by_squares(A, sample, seed, model.row_squares, missed)
    if len(found.rows) == 0:  # zeros only
        return A.sample_rows(np.arange(sample))
    rows = A.sample_rows(found.rows).scale_rows(found.factors.astype(A.dtype))
    return rows.in_memory()


def _missed(squares: FloatArray, scores: FloatArray) -> FloatArray:
    return np.maximum(squares - np.maximum(scores, 0.0).astype(np.float64) ** 2, 0.0)


def _in_basis(rows: MemoryMatrix, basis: FloatArray) -> Sketch:
    B = np.asarray(rows.matmul(basis), dtype=np.float64)
    # In an order of their own the rows meet the same random numbers, however they came.
    return Sketch(np.ascontiguousarray(B[_order_of_rows(B)]), basis)


def _order_of_rows(B: FloatArray) -> IntArray:
    """Return the lexicographic order; columns after the first count among its ties only."""
    order = np.argsort(B[:, 0], kind="stable")
    first = B[order, 0]
    is_tie = np.zeros(len(B) + 1, dtype=bool)  # whether a row equals the one before it
    is_tie[1:-1] = first[1:] == first[:-1]
    tied = np.flatnonzero(is_tie[1:] | is_tie[:-1])
    rows = order[tied]
    order[tied] = rows[np.lexsort(B[rows].T[::-1])]
    return order


def sampled_centers(B: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """Return k rows, each sampled by what those before it leave of its squared norm."""
    squares = np.einsum("ij,ij->i", B, B)
    chosen: list[int] = []
    left = squares.copy()
    for _ in range(k):
        mass = left.sum()
        row = rng.choice(len(B), p=left / mass) if mass > 0 else rng.integers(len(B))
        chosen.append(int(row))
        unit = B[row] / (np.sqrt(squares[row]) or 1.0)
        left = np.minimum(left, np.maximum(squares - np.maximum(B @ unit, 0.0) ** 2, 0.0))
    return B[chosen]
