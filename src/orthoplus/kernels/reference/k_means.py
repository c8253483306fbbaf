"""Moves of single rows and swaps of centers for k-means, in plain NumPy: the specification."""

from typing import NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

__all__ = ["move_k_means", "swap_k_means"]

# A decrease of the inertia, or of one of its terms, below this fraction is attributed to rounding.
GAIN = 1e-12


class _Clusters(NamedTuple):
    labels: IntArray
    centers: FloatArray
    sizes: FloatArray


def move_k_means(A: FloatArray, labels: IntArray, k: int, n_sweeps: int) -> tuple[IntArray, float]:
    """Move single rows while the inertia decreases; return the new labels and the inertia.

    A row a of a cluster with n_l rows and mean c_l moves to the cluster j with the smallest
    n_j / (n_j + 1) |a - c_j|^2, if that is below n_l / (n_l - 1) |a - c_l|^2 (Hartigan's method).
    The means are updated after each move. No cluster becomes empty.

    IN A, labels (each of 0 to k - 1 occurs), n_sweeps: the largest number of sweeps over all rows.
    """
    found = _clusters_of(A, labels.copy(), k)
    value = _inertia(A, found)
    value = _alternate(A, found, value, n_sweeps, -np.inf)
    return found.labels, _inertia(A, _clusters_of(A, found.labels, k))


def swap_k_means(
    A: FloatArray, labels: IntArray, k: int, draws: FloatArray, n_sweeps: int
) -> tuple[IntArray, float, int]:
    """Remove one center and place it at a row, and keep the swap if the inertia decreases.

    A trial uses two numbers u and v in [0, 1). The centers are sorted by the increase of the
    inertia that their removal causes, and the one at position k u^2 is removed. The new center is
    the first row at which the cumulative sum of squared distances exceeds v times the total. Rows
    are assigned to their nearest centers, then `move_k_means` runs for at most ``n_sweeps`` sweeps
    and is abandoned if it cannot reach the goal.

    IN A, labels, draws of shape (trials, 2), n_sweeps. Return the new labels, their inertia, and
    the number of failed trials since the last success.
    """
    best = _clusters_of(A, labels.copy(), k)
    value, n_failed = _inertia(A, best), 0
    for u, v in draws:
        trial = _swapped(A, best, u, v)
        n_failed += 1
        if trial is None:
            continue
        new = _alternate(A, trial, _inertia(A, trial), n_sweeps, value)
        if new < value * (1 - GAIN):
            best = _clusters_of(A, trial.labels, k)
            value, n_failed = _inertia(A, best), 0
    return best.labels, value, n_failed


def _clusters_of(A: FloatArray, labels: IntArray, k: int) -> _Clusters:
    sums = np.zeros((k, A.shape[1]))
    np.add.at(sums, labels, A)
    sizes = np.bincount(labels, minlength=k).astype(np.float64)
    return _Clusters(labels, sums / np.maximum(sizes, 1.0)[:, None], sizes)


def _distances(A: FloatArray, centers: FloatArray) -> FloatArray:
    return np.asarray(((A[:, None, :] - centers) ** 2).sum(axis=2))


def _inertia(A: FloatArray, found: _Clusters) -> float:
    return float(((A - found.centers[found.labels]) ** 2).sum())


def _alternate(A: FloatArray, found: _Clusters, value: float, n_sweeps: int, goal: float) -> float:
    """Sweep over the rows in place; return the inertia."""
    for sweep in range(n_sweeps):
        gain = sum(_move(A[i], i, found) for i in range(len(A)))
        value -= gain
        if gain == 0.0 or value - (n_sweeps - 1 - sweep) * gain >= goal > -np.inf:
            break  # gains decrease from sweep to sweep: the goal is out of reach
    return value


def _move(a: FloatArray, i: int, found: _Clusters) -> float:
    labels, centers, sizes = found
    own = int(labels[i])
    if sizes[own] < 2:
        return 0.0
    # Increase of the inertia if the row joins a cluster, and decrease if it leaves its own.
    costs = sizes / (sizes + 1) * ((a - centers) ** 2).sum(axis=1)
    left = sizes[own] / (sizes[own] - 1) * float(((a - centers[own]) ** 2).sum())
    costs[own] = np.inf
    to = int(np.argmin(costs))
    if not costs[to] < left * (1 - GAIN):
        return 0.0
    centers[own] -= (a - centers[own]) / (sizes[own] - 1)
    centers[to] += (a - centers[to]) / (sizes[to] + 1)
    sizes[own] -= 1
    sizes[to] += 1
    labels[i] = to
    return float(left - costs[to])


def _swapped(A: FloatArray, best: _Clusters, u: float, v: float) -> _Clusters | None:
    """Return the clusters after a swap, or None if one became empty."""
    labels, k = best.labels, len(best.centers)
    distances = _distances(A, best.centers)
    rows = np.arange(len(A))
    own = distances[rows, labels]
    distances[rows, labels] = np.inf
    second = distances.argmin(axis=1)
    loss = np.bincount(labels, distances[rows, second] - own, minlength=k)
    removed = int(np.argsort(loss, kind="stable")[min(int(k * u * u), k - 1)])
    mass = np.cumsum(own)
    row = min(int(np.searchsorted(mass, v * mass[-1], side="right")), len(A) - 1)
    new = np.where(labels == removed, second, labels)
    there = np.where(labels == removed, distances[rows, second], own)
    # The removed center reappears at `row` and takes all rows that are closer to it.
    moved = ((A - A[row]) ** 2).sum(axis=1) < there
    moved[row] = True
    new[moved] = removed
    found = _clusters_of(A, new, k)
    return found if found.sizes.all() else None
