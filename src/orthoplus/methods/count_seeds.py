"""Random starts for clusters of counts: rows far apart in the Kullback-Leibler divergence."""

from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix, MemoryMatrix
from orthoplus.data.count_groups import log_profiles, row_entropies

# Rows that are tried for each seed.
_CANDIDATES = 3


def sample_counts(A: DataMatrix, sizes: Any, most: int, seed: int) -> MemoryMatrix:
    """Return all rows if there are no more than ``most``, otherwise so many, drawn by their sums.

    Rows without entries are not drawn unless there are too few others.
    """
    n = len(A)
    if n <= most:
        return A.in_memory()
    weights = A.gather(sizes)
    # The largest u^(1/w) are a draw by weights without replacement: Efraimidis and Spirakis.
    uniform = np.random.default_rng(seed).random(n)
    keys = np.log(uniform) / np.where(weights > 0, weights, np.finfo(np.float64).tiny)
    return A.sample_rows(np.sort(np.argpartition(-keys, most)[:most]))


def seed_profiles(
    A: MemoryMatrix, k: int, smoothing: float, rng: np.random.Generator
) -> FloatArray:
    """Return k rows of A, each drawn by what the smoothed profiles of those before it miss.

    Of a few rows that are drawn, that which leaves least is taken. O(nnz k).
    """
    least = np.asarray(row_entropies(A))
    mean = A.group_sums(np.zeros(len(A), dtype=np.int64), np.ones(len(A)), 1)[0]
    fits: FloatArray | None = None  # the largest log-likelihood of each row
    chosen: list[int] = []
    for _ in range(k):
        missed = A.row_sums() if fits is None else np.maximum(least - fits, 0.0)
        missed[chosen] = 0.0
        drawn = _draw_rows(missed, rng, np.setdiff1d(np.arange(len(A)), chosen))
        profiles = log_profiles(A.take_rows(drawn).astype(np.float64), smoothing, mean)
        new = A.matmul(profiles.T).astype(np.float64)
        new = new if fits is None else np.maximum(new, fits[:, None])
        best = int(new.sum(axis=0).argmax())
        chosen.append(int(drawn[best]))
        fits = new[:, best]
    return A.take_rows(np.array(chosen)).astype(np.float64)


def swap_profile(
    A: MemoryMatrix, sums: FloatArray, smoothing: float, rng: np.random.Generator
) -> FloatArray:
    """Return the sums of groups with one of them, that is missed little, replaced by a row.

    One of the few groups that their rows can do without best goes; the row is drawn by what the
    others miss of it. O(nnz k).
    """
    k, rows = len(sums), np.arange(len(A))
    scores = A.matmul(log_profiles(sums, smoothing).T).astype(np.float64)
    own = scores.argmax(axis=1)
    first = scores[rows, own].copy()
    scores[rows, own] = -np.inf
    second = scores.max(axis=1) if k > 1 else np.minimum(first, np.asarray(row_entropies(A)))
    losses = np.bincount(own, first - second, minlength=k)
    gone = int(np.argsort(losses, kind="stable")[rng.integers(min(_CANDIDATES, k))])
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
    total = missed.sum()
    if total > 0:
        return rng.choice(len(missed), size=_CANDIDATES, p=missed / total)
    return rng.choice(others, size=1)
