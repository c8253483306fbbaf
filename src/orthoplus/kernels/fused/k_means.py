"""Compiled searches of `reference.k_means`; a sweep is one pass over the rows."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.fused.cache import reordering, reordering_inlined
from orthoplus.kernels.reference.k_means import GAIN

_compiled, _inlined = reordering(), reordering_inlined()


@_inlined
def _distance(A, i, centers, j):  # type: ignore[no-untyped-def]
    total = 0.0
    for t in range(A.shape[1]):
        step = A[i, t] - centers[j, t]
        total += step * step
    return total


@_inlined
def _mean(A, labels, centers, sizes):  # type: ignore[no-untyped-def]
    # IN A, labels; OUT centers, sizes; returns the size of the smallest cluster
    k, d = centers.shape
    for j in range(k):
        sizes[j] = 0.0
        for t in range(d):
            centers[j, t] = 0.0
    for i in range(A.shape[0]):
        sizes[labels[i]] += 1.0
        for t in range(d):
            centers[labels[i], t] += A[i, t]
    least = np.inf
    for j in range(k):
        least = min(least, sizes[j])
        for t in range(d):
            centers[j, t] /= max(sizes[j], 1.0)
    return least


@_inlined
def _inertia(A, labels, centers):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(A.shape[0]):
        total += _distance(A, i, centers, labels[i])
    return total


@_inlined
def _sweep(A, labels, centers, sizes):  # type: ignore[no-untyped-def]
    # IN A; OUT labels, centers, sizes (updated); returns the decrease of the inertia
    # A row leaves its cluster l if n_l / (n_l - 1) |a - c_l|^2 exceeds the smallest
    # n_j / (n_j + 1) |a - c_j|^2 (Hartigan).
    k, d = centers.shape
    gain = 0.0
    for i in range(A.shape[0]):
        own = labels[i]
        if sizes[own] < 2.0:
            continue
        left = sizes[own] / (sizes[own] - 1.0) * _distance(A, i, centers, own)
        least, to = np.inf, own
        for j in range(k):
            if j != own:
                cost = sizes[j] / (sizes[j] + 1.0) * _distance(A, i, centers, j)
                if cost < least:
                    least, to = cost, j
        if not least < left * (1.0 - GAIN):
            continue
        for t in range(d):
            centers[own, t] -= (A[i, t] - centers[own, t]) / (sizes[own] - 1.0)
            centers[to, t] += (A[i, t] - centers[to, t]) / (sizes[to] + 1.0)
        sizes[own] -= 1.0
        sizes[to] += 1.0
        labels[i] = to
        gain += left - least
    return gain


@_inlined
def _alternate(A, labels, centers, sizes, value, n_sweeps, goal):  # type: ignore[no-untyped-def]
    # IN A, value, n_sweeps, goal; OUT labels, centers, sizes (updated); returns the inertia
    for sweep in range(n_sweeps):
        gain = _sweep(A, labels, centers, sizes)
        value -= gain
        if gain == 0.0 or (goal > -np.inf and value - (n_sweeps - 1 - sweep) * gain >= goal):
            break  # gains decrease from sweep to sweep: the goal is out of reach
    return value


@_inlined
def _near(A, labels, centers, own, second, beyond, loss):  # type: ignore[no-untyped-def]
    # IN A, labels, centers; OUT own: distance to the own center, second, beyond: the second nearest
    # center and its distance, loss: increase of the inertia if a center is removed
    k = centers.shape[0]
    for j in range(k):
        loss[j] = 0.0
    for i in range(A.shape[0]):
        own[i] = _distance(A, i, centers, labels[i])
        beyond[i] = np.inf
        for j in range(k):
            if j != labels[i]:
                distance = _distance(A, i, centers, j)
                if distance < beyond[i]:
                    beyond[i], second[i] = distance, j
        loss[labels[i]] += beyond[i] - own[i]


@_inlined
def _at_rank(loss, rank):  # type: ignore[no-untyped-def]
    # Returns the index of the entry at this position of a stable sort.
    for j in range(loss.size):
        before = 0
        for other in range(loss.size):
            if loss[other] < loss[j] or (loss[other] == loss[j] and other < j):
                before += 1
        if before == rank:
            return j
    return 0


@_inlined
def _row_at(own, share):  # type: ignore[no-untyped-def]
    # Returns the first row at which the cumulative sum exceeds this share of the total.
    whole = 0.0
    for i in range(own.size):
        whole += own[i]
    mass = 0.0
    for i in range(own.size):
        mass += own[i]
        if mass > share * whole:
            return i
    return own.size - 1


@_compiled
def _search(A, labels, centers, sizes, draws, n_sweeps):  # type: ignore[no-untyped-def]
    # IN A, draws, n_sweeps; OUT labels, centers, sizes (updated); returns the inertia and the
    # number of failed trials since the last success
    n, k = A.shape[0], centers.shape[0]
    _mean(A, labels, centers, sizes)
    value, failed, is_new = _inertia(A, labels, centers), 0, True
    own, beyond = np.empty(n), np.empty(n)
    second = np.zeros(n, dtype=np.int64)
    loss = np.empty(k)
    new, means, counts = labels.copy(), centers.copy(), sizes.copy()
    for trial in range(draws.shape[0]):
        if is_new:
            _near(A, labels, centers, own, second, beyond, loss)
            is_new = False
        failed += 1
        removed = _at_rank(loss, min(int(k * draws[trial, 0] * draws[trial, 0]), k - 1))
        row = _row_at(own, draws[trial, 1])
        # Rows of the removed center go to their second nearest one; the center reappears at `row`
        # and takes all rows that are closer to it.
        for i in range(n):
            is_removed = labels[i] == removed
            there = beyond[i] if is_removed else own[i]
            new[i] = second[i] if is_removed else labels[i]
            if i == row or _distance(A, i, A, row) < there:
                new[i] = removed
        if _mean(A, new, means, counts) == 0.0:
            continue
        first = _inertia(A, new, means)
        if _alternate(A, new, means, counts, first, n_sweeps, value) < value * (1.0 - GAIN):
            for i in range(n):
                labels[i] = new[i]
            _mean(A, labels, centers, sizes)
            value, failed, is_new = _inertia(A, labels, centers), 0, True
    return value, failed


def move_k_means(A: FloatArray, labels: IntArray, k: int, n_sweeps: int) -> tuple[IntArray, float]:
    """Sweep over the rows; centers are updated at each move and recomputed at the end."""
    labels = labels.astype(np.int64)
    centers, sizes = np.zeros((k, A.shape[1])), np.zeros(k)
    _mean(A, labels, centers, sizes)
    value = _inertia(A, labels, centers)
    _alternate(A, labels, centers, sizes, value, n_sweeps, -np.inf)
    _mean(A, labels, centers, sizes)
    return labels, float(_inertia(A, labels, centers))


def swap_k_means(
    A: FloatArray, labels: IntArray, k: int, draws: FloatArray, n_sweeps: int
) -> tuple[IntArray, float, int]:
    """Try one swap per draw and sweep after each, until its goal is out of reach."""
    labels = labels.astype(np.int64)
    centers, sizes = np.zeros((k, A.shape[1])), np.zeros(k)
    value, failed = _search(A, labels, centers, sizes, draws, n_sweeps)
    return labels, float(value), int(failed)
