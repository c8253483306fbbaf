"""Draw matrices that are hard to cluster: heavy tails, many clusters, near-duplicate profiles."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_shape
from orthoplus.core.types import FloatArray, IntArray

HARD_KINDS = ("pareto", "many", "duplicates", "dominant")

# Exponent of the Pareto distribution of the row norms. Below 2, their squares have no mean.
_TAIL = 1.2
# Amplitude of the noise added to the rows, and of the difference between near-duplicates.
_NOISE, _COPY_NOISE = 0.4, 0.1
# Number of clusters per family of near-duplicates, which share a profile up to `_COPY_NOISE`.
_COPIES = 4
# Weight of the direction common to all rows.
_COMMON = 10.0


@dataclass(frozen=True, eq=False)
class HardClusters:
    """A nonnegative matrix A and the cluster that each row was drawn from.

    The labels are those used to draw A; the best clustering of A may differ from them.

    Examples
    --------
    >>> HardClusters(np.eye(2), np.array([0, 1])).labels
    array([0, 1])
    """

    A: FloatArray
    labels: IntArray


def hard_clusters(kind: str, n: int, r: int, k: int, rng: np.random.Generator) -> HardClusters:
    r"""Draw a matrix on which clustering methods often end in a poor local optimum.

    .. math:: a_i = t_i\, (c_{\pi_i} + \text{noise}), \qquad i = 1, \dots, n,

    with k sparse profiles :math:`c_j \ge 0`, scales :math:`t_i > 0` and labels :math:`\pi_i`.

    Parameters
    ----------
    kind : {"pareto", "many", "duplicates", "dominant"}
        The difficulty, in this order: scales with a Pareto tail, so that a few rows carry most of
        :math:`\|A\|_F^2`; cluster sizes proportional to 1 / j, so that many clusters are small;
        profiles in families of near-duplicates; one direction that is common to all rows and
        carries most of :math:`\|A\|_F^2`.
    n, r, k : int
        A is n x r; the number of clusters is k <= n.
    rng : numpy.random.Generator
        Source of all randomness.

    Examples
    --------
    >>> drawn = hard_clusters("pareto", 1000, 30, 5, np.random.default_rng(0))
    >>> squares = np.sort((drawn.A**2).sum(axis=1))[::-1]
    >>> drawn.A.shape, bool(squares[:50].sum() > 0.5 * squares.sum())
    ((1000, 30), True)
    """
    check_choice(kind, "kind", HARD_KINDS)
    check_shape(n, k, "X")
    check_count(r, "r", low=1)
    profiles = rng.random((k, r)) ** 4
    if kind == "duplicates":
        family = np.arange(k) // _COPIES
        profiles = profiles[family] + _COPY_NOISE * rng.random((k, r))
    sizes = 1.0 / np.arange(1, k + 1) if kind == "many" else np.ones(k)
    labels = rng.choice(k, size=n, p=sizes / sizes.sum())
    scales = 1.0 + rng.pareto(_TAIL, n) if kind == "pareto" else rng.uniform(0.5, 1.5, n)
    A = profiles[labels] + _NOISE * rng.random((n, r)) ** 2
    if kind == "dominant":
        A += _COMMON * rng.random(r)
    return HardClusters(scales[:, None] * A, labels)
