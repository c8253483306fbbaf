"""Find what distinguishes clusters: distinctive features, typical and doubtful rows."""

from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

# Smallest ratio to the mean level of the other clusters for which a feature is distinctive.
LEAST_RATIO = 1.25
# Larger ratios are capped: the level in the other clusters is then 0 up to rounding.
MOST_RATIO = 100.0


def cosines(A: Any, components: FloatArray) -> FloatArray:
    """Return the cosine of each row of A with each component; 0 if one of them is zero."""
    norms = np.linalg.norm(components, axis=1)
    fits = np.asarray(A @ (components / np.where(norms > 0, norms, 1.0)[:, None]).T)
    sizes = np.sqrt(np.asarray((A * A).sum(axis=1), dtype=np.float64)).reshape(-1, 1)
    return np.clip(fits / np.where(sizes > 0, sizes, 1.0), 0.0, 1.0)


def typical_rows(own: FloatArray, labels: IntArray, k: int, most: int) -> list[IntArray]:
    """Return the rows of each cluster that have the largest cosine with its component."""
    order = np.argsort(-own, kind="stable")
    return [order[labels[order] == j][:most] for j in range(k)]


def levels_of(components: FloatArray, weights: FloatArray, labels: IntArray) -> FloatArray:
    """Return the components times the mean weight of their rows, in the units of one row."""
    k = len(components)
    sums, sizes = np.bincount(labels, weights, k), np.bincount(labels, minlength=k)
    return np.asarray((sums / np.maximum(sizes, 1))[:, None] * components)


def presence_of(A: Any, labels: IntArray, k: int) -> FloatArray:
    """Return the share of rows of each cluster in which each feature is nonzero."""
    found = np.zeros((k, A.shape[1]))
    for j in np.unique(labels):
        rows = A[np.flatnonzero(labels == j)]
        found[j] = np.asarray((rows != 0).sum(axis=0)).ravel() / rows.shape[0]
    return found


def ratios_of(levels: FloatArray) -> FloatArray:
    """Return the ratio of each level to the mean of the other clusters, capped at `MOST_RATIO`.

    Empty clusters are ignored. The ratio is 0 for a feature that is 0 everywhere, and if there is
    only one cluster.

    Examples
    --------
    >>> ratios_of(np.array([[4.0, 1.0, 0.0], [2.0, 1.0, 3.0], [0.0, 1.0, 0.0]]))
    array([[  4.,   1.,   0.],
           [  1.,   1., 100.],
           [  0.,   1.,   0.]])
    """
    n_used = int(levels.any(axis=1).sum())
    if n_used < 2:
        return np.zeros_like(levels)
    others = (levels.sum(axis=0) - levels) / (n_used - 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = np.where(levels > 0, levels / np.maximum(others, 0.0), 0.0)
    return np.minimum(ratios, MOST_RATIO)


def distinctive(ratios: FloatArray, presence: FloatArray, most: int) -> IntArray:
    """Return the features that distinguish a cluster, best first.

    They are ranked by the logarithm of the ratio times the share of rows that have the feature, so
    that a word in a single row does not describe a cluster. The ranking does not depend on units.
    If no level is high, low but nonzero levels are returned.
    """
    logs = np.log(np.where(ratios > 0, ratios, 1.0))
    for sign in (1.0, -1.0):
        scores = presence * np.where(sign * logs >= np.log(LEAST_RATIO), sign * logs, 0.0)
        order = np.argsort(-scores, kind="stable")[:most]
        if scores[order[0]] > 0:
            return order[scores[order] > 0]
    return order[:0]
