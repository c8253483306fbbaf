"""What tells clusters apart: distinctive features, typical rows and doubtful rows."""

from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.types import BoolArray, FloatArray, IntArray

# A feature is distinctive if its level is this many times that of the other clusters.
LEAST_RATIO = 1.25
# Ratios beyond this are shown, and ranked, as this one: the others are 0 but for rounding.
MOST_RATIO = 100.0
# A row is doubtful if a second component explains at least this share of what its own explains,
# and leaves at most this many times as much unexplained. The first condition alone would call
# most rows of dense data doubtful (all cosines are large), the second those of sparse data.
_SHARE_EXPLAINED, _TIMES_UNEXPLAINED = 0.8, 1.1
# Cosines of identical components differ by rounding.
_ROUNDING = 1e-12


class RowFit(NamedTuple):
    """The cosine of each row with its own component, the best other component, and its cosine."""

    own: FloatArray
    second: IntArray
    other: FloatArray

    @property
    def is_doubtful(self) -> BoolArray:
        """Whether a second component fits the row almost as well as its own, or better."""
        own, other = self.own**2, self.other**2
        explains = other >= _SHARE_EXPLAINED * own
        leaves = 1.0 - other <= _TIMES_UNEXPLAINED * (1.0 - own) + _ROUNDING
        return np.asarray((self.second >= 0) & explains & leaves)

    def doubtful(self) -> IntArray:
        """Return the doubtful rows, the smallest margin between the two cosines first."""
        rows = np.flatnonzero(self.is_doubtful)
        return rows[np.argsort((self.own - self.other)[rows], kind="stable")]


def cosines(A: Any, components: FloatArray) -> FloatArray:
    """Return the cosine of each row of A with each component; 0 for rows and components of 0."""
    norms = np.linalg.norm(components, axis=1)
    fits = np.asarray(A @ (components / np.where(norms > 0, norms, 1.0)[:, None]).T)
    sizes = np.sqrt(np.asarray((A * A).sum(axis=1), dtype=np.float64)).reshape(-1, 1)
    return np.clip(fits / np.where(sizes > 0, sizes, 1.0), 0.0, 1.0)


def fit_of_rows(angles: FloatArray, labels: IntArray) -> RowFit:
    """Return the own and the best other cosine of each row; without another, -1 and cosine 0.

    Examples
    --------
    >>> fit = fit_of_rows(np.array([[0.9, 0.2], [0.5, 0.49]]), np.array([0, 0]))
    >>> fit.other, fit.is_doubtful
    (array([0.2 , 0.49]), array([False,  True]))
    """
    rows = np.arange(len(labels))
    own = angles[rows, labels]
    if angles.shape[1] < 2:
        return RowFit(own, np.full(len(labels), -1), np.zeros(len(labels)))
    others = angles.copy()
    others[rows, labels] = -1.0
    second = others.argmax(axis=1)
    return RowFit(own, second, others[rows, second])


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
