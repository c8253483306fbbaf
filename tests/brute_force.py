"""Enumerate all supports of S+ for tiny n to find the optimum without a solver."""

from itertools import product

import numpy as np


def supports(n, k, *, full=False):
    """All points of S+ with equal entries in each column: one for each support.

    ``full`` keeps those without a zero row only.
    """
    for deal in product(range(k) if full else range(-1, k), repeat=n):
        H = (np.array(deal)[:, None] == np.arange(k)).astype(float)
        if H.any(axis=0).all():
            yield H / np.linalg.norm(H, axis=0)


def random_on_support(H, rng):
    """A random point of S+ whose support is that of H."""
    X = np.where(H > 0, rng.random(H.shape) + 1e-3, 0.0)
    return X / np.linalg.norm(X, axis=0)


def minimize_over_supports(problem):
    """(value, X) of the best refined point, and the refined points of all supports."""
    points = [problem.refine(H) for H in supports(*problem.shape)]
    best = min(points, key=problem.value)
    return problem.value(best), best, points
