"""Random starts for clusters of counts: rows that are far apart in Kullback-Leibler divergence."""

from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix, MemoryMatrix
from orthoplus.data.count_groups import log_profiles, row_entropies

# Candidate rows per seed.
_CANDIDATES = 3


def sample_counts(A: DataMatrix, sizes: Any, most: int, seed: int) -> MemoryMatrix:
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


def seed_profiles(
    A: MemoryMatrix, k: int, smoothing: float, rng: np.random.Generator
) -> FloatArray:
    """Draw k rows of A, each with probability proportional to its divergence so far.

    The divergence is from the best smoothed profile of the rows drawn before. Of a few candidates,
    the one that reduces the total divergence most is taken. The cost is O(nnz k).
    """
    least = np.asarray(row_entropies(A))
    mean = A.group_sums(np.zeros(len(A), dtype=np.int64), np.ones(len(A)), 1)[0]
    fits: FloatArray | None = None  # largest log-likelihood of each row
    chosen: list[int] = []
    for _ in range(k):
        # The divergence of a row from its best profile: entropy bound minus log-likelihood. Chosen
        # rows cannot be drawn again.
        missed = A.row_sums() if fits is None else np.maximum(least - fits, 0.0)
        missed[chosen] = 0.0
        drawn = _draw_rows(missed, rng, np.setdiff1d(np.arange(len(A)), chosen))
        profiles = log_profiles(A.take_rows(drawn).astype(np.float64), smoothing, mean)
        new = A.matmul(profiles.T).astype(np.float64)
        new = new if fits is None else np.maximum(new, fits[:, None])
        # The candidate that increases the total log-likelihood most becomes the next seed.
        best = int(new.sum(axis=0).argmax())
        chosen.append(int(drawn[best]))
        fits = new[:, best]
    return A.take_rows(np.array(chosen)).astype(np.float64)


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
