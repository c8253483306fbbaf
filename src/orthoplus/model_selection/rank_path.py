"""Orthogonal NMF for one rank after the other, each started from the one before."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.groups import best_column, unit_rows
from orthoplus.geometry.stiefel import assemble
from orthoplus.linalg.starts import svd_start
from orthoplus.methods.search.swap_search import SwapSearch
from orthoplus.problems import ONMF
from orthoplus.run.api import solve


class PathPoint(NamedTuple):
    """The factorisation of one rank: unit centres (k x r), labels, unexplained share of squares."""

    k: int
    centres: FloatArray
    labels: IntArray
    unexplained: float


def fit_path(
    A: Any, ranks: Sequence[int], *, n_init: int, seed: int, allow_negative: bool = False
) -> Iterator[PathPoint]:
    """A factorisation for each of the ranks, which must rise; what is unexplained never does.

    The first search of each rank starts from the groups of the one before, and from the rows that
    these fit worst as groups of their own; the other searches start by themselves.
    """
    before: Result | None = None
    for k in ranks:
        problem = ONMF(A, k, allow_negative=allow_negative)
        X0 = svd_start(A, k) if before is None else _extended(problem, before)
        method = SwapSearch(n_init=n_init, seed=seed)
        before = solve(problem, X0, method=method, with_bound=False)
        centres = unit_rows(np.asarray(before.Y).T)
        labels = nearest_centres(A, centres)
        yield PathPoint(k, centres, labels, before.value / (problem.total or 1.0))


def nearest_centres(A: DataMatrix, centres: FloatArray) -> IntArray:
    """The centre with the largest cosine, for each row."""
    return best_column(A.times(centres.T))


def _extended(problem: ONMF, before: Result) -> FloatArray:
    """The groups of a smaller rank, and new columns for the rows that are fitted worst."""
    k, labels = problem.shape[1], np.array(before.labels)
    weights = np.array(before.weights, dtype=np.float64)
    sizes = np.linalg.norm(np.asarray(before.Y), axis=0)
    fits = np.where(labels >= 0, weights * sizes[labels], 0.0)
    missed = problem.A.gather(problem.row_squares) - fits**2
    counts = np.bincount(labels[weights > 0], minlength=k)
    new = before.n_columns
    for row in np.argsort(-missed, kind="stable"):
        if new == k:
            break
        if weights[row] > 0 and counts[labels[row]] == 1:
            continue
        counts[labels[row]] -= weights[row] > 0
        labels[row], weights[row], counts[new] = new, 1.0, 1
        new += 1
    return assemble(labels, weights.astype(before.weights.dtype), k)
