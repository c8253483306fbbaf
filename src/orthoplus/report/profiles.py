"""What tells clusters apart: distinctive features, typical rows and doubtful rows."""

from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

# A feature is distinctive if its level is this many times that of the other clusters.
LEAST_RATIO = 1.25
# Ratios beyond this are shown, and ranked, as this one: the others are 0 but for rounding.
MOST_RATIO = 100.0


def cosines(A: Any, components: FloatArray) -> FloatArray:
    """Return the cosine of each row of A with each component; 0 for rows and components of 0."""
    norms = np.linalg.norm(components, axis=1)
    fits = np.asarray(A @ (components / np.where(norms > 0, norms, 1.0)[:, None]).T)
    sizes = np.sqrt(np.asarray((A * A).sum(axis=1), dtype=np.float64)).reshape(-1, 1)
    return np.clip(fits / np.where(sizes > 0, sizes, 1.0), 0.0, 1.0)


def typical_rows(own: FloatArray, labels: IntArray, k: int, most: int) -> list[IntArray]:
    """Return the rows of each cluster with the largest cosine with its component, best first."""
    order = np.argsort(-own, kind="stable")
    return [order[labels[order] == j][:most] for j in range(k)]


def levels_of(components: FloatArray, weights: FloatArray, labels: IntArray) -> FloatArray:
    """Return the components times the mean weight of their rows: in the units of one row."""
    k = len(components)
    sums, sizes = np.bincount(labels, weights, k), np.bincount(labels, minlength=k)
    return np.asarray((sums / np.maximum(sizes, 1))[:, None] * components)


def presence_of(A: Any, labels: IntArray, k: int) -> FloatArray:
    """Return the share of the rows of each cluster in which each feature is not 0."""
    found = np.zeros((k, A.shape[1]))
    for j in np.unique(labels):
        rows = A[np.flatnonzero(labels == j)]
        found[j] = np.asarray((rows != 0).sum(axis=0)).ravel() / rows.shape[0]
    return found


def ratios_of(levels: FloatArray) -> FloatArray:
    """Return each level over the mean level of the other clusters, at most `MOST_RATIO`.

    Empty clusters count neither as one nor as another; a feature that is 0 everywhere has the
    ratio 0, and so has everything if there is one cluster.

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
    """Return the features that set a cluster apart, best first.

    They are ranked by the logarithm of the ratio, weighted by the share of the rows that have the
    feature: a rare word that one row alone has is not what a cluster is about. Units play no role.
    If no level is high, those that are low, but not 0, tell the cluster apart.
    """
    logs = np.log(np.where(ratios > 0, ratios, 1.0))
    for sign in (1.0, -1.0):
        scores = presence * np.where(sign * logs >= np.log(LEAST_RATIO), sign * logs, 0.0)
        order = np.argsort(-scores, kind="stable")[:most]
        if scores[order[0]] > 0:
            return order[scores[order] > 0]
    return order[:0]
