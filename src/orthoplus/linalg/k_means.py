"""Search for a good k-means clustering by seeding, moves of single rows and swaps of centers."""

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray, IntArray

# Number of seeded starts, of which the best is used; largest number of sweeps over the rows per
# start, the smallest number for large data, and the number of sweeps per swap.
_STARTS, _MOST_SWEEPS, _FEWEST_SWEEPS, _SWAP_SWEEPS = 5, 100, 10, 15
# The search ends after _PATIENCE failed swaps per center, or when it has compared _MOST_WORK
# coordinates of rows with centers, assuming _MEAN_SWEEPS sweeps per swap.
_PATIENCE, _MOST_WORK, _MEAN_SWEEPS = 30, 1e9, 6
# Number of swaps per center between two checks of the failures.
_BATCH = 5


def search_k_means(
    A: FloatArray, k: int, rng: np.random.Generator, labels: IntArray | None = None
) -> IntArray:
    """Return labels of small inertia, which no move of a single row decreases unless A is large.

    Parameters
    ----------
    A : ndarray of shape (n, r)
    k : int
        Number of clusters, at most n; no cluster is empty.
    rng : Generator
        Source of random numbers; the result does not depend on the order of the rows.
    labels : ndarray of int, shape (n,), optional
        Labels from 0 to k - 1 to start from; the result is not worse.

    Notes
    -----
    The initial centers are rows sampled by their squared distance from the earlier ones
    (k-means++); then single rows move while the inertia decreases (Hartigan). The best of several
    such starts is improved by swaps, see `orthoplus.kernels.reference.k_means`.

    Examples
    --------
    >>> A = np.array([[0.0], [1.0], [9.0], [11.0]])
    >>> labels = search_k_means(A, 2, np.random.default_rng(0))
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    order = np.lexsort(A.T)
    B = np.ascontiguousarray(A[order], dtype=np.float64)
    affordable = int(_MOST_WORK / (max(B.size, 1) * k))  # sweeps over all rows
    n_starts = min(_STARTS, max(1, affordable // _FEWEST_SWEEPS))
    starts = [_seeded(B, k, rng) for _ in range(n_starts)]
    if labels is not None:
        starts.append(labels[order])
    n_sweeps = min(_MOST_SWEEPS, max(_FEWEST_SWEEPS, affordable // n_starts))
    settled = [kernels.move_k_means(B, start, k, n_sweeps) for start in starts]
    best, _ = min(settled, key=lambda found: found[1])
    most = affordable / _MEAN_SWEEPS
    n_trials = n_failed = 0
    while n_failed < _PATIENCE * k and n_trials < most:
        draws = rng.random((_BATCH * k, 2))
        best, _, failed = kernels.swap_k_means(B, best, k, draws, _SWAP_SWEEPS)
        n_trials += len(draws)
        n_failed = n_failed + failed if failed == len(draws) else failed
    best, _ = kernels.move_k_means(B, best, k, n_sweeps)
    found = np.empty(len(A), dtype=np.int64)
    found[order] = best
    return found


def _seeded(A: FloatArray, k: int, rng: np.random.Generator) -> IntArray:
    """Sample k rows and return the label of the nearest one; an empty cluster takes a row."""
    nearest, labels = np.full(len(A), np.inf), np.zeros(len(A), dtype=np.int64)
    for center in range(k):
        mass = np.cumsum(np.where(np.isfinite(nearest), nearest, 1.0))
        row = min(int(np.searchsorted(mass, rng.random() * mass[-1], side="right")), len(A) - 1)
        distances = np.einsum("ij,ij->i", A - A[row], A - A[row])
        labels = np.where(distances < nearest, center, labels)
        nearest = np.minimum(distances, nearest)
    for empty in np.flatnonzero(np.bincount(labels, minlength=k) == 0):
        counts = np.bincount(labels, minlength=k)
        labels[np.flatnonzero(counts[labels] > 1)[0]] = empty
    return labels
