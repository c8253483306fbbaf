"""Random graphs with planted groups."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array

from orthoplus.core.checks import check_range
from orthoplus.core.types import IntArray


class PlantedPartition(NamedTuple):
    """A sparse symmetric adjacency matrix, and the group of each vertex.

    Examples
    --------
    >>> W, labels = planted_partition([3, 2], 1.0, 0.0, np.random.default_rng(0))
    >>> W.toarray()[0], labels
    (array([0., 1., 1., 0., 0.]), array([0, 0, 0, 1, 1]))
    """

    W: Any
    labels: IntArray


def planted_partition(
    sizes: list[int], p_in: float, p_out: float, rng: np.random.Generator
) -> PlantedPartition:
    """Draw a graph at random, with edges more often inside a group than between two.

    Parameters
    ----------
    sizes : list of int
        Vertices of each group.
    p_in, p_out : float
        Probability of an edge inside a group, and between two.
    rng : numpy.random.Generator

    Returns
    -------
    PlantedPartition
        ``W`` in CSR form with ones for edges and no loop; ``labels``, one group after the other.

    Notes
    -----
    Condon and Karp, Random Struct. Algorithms 18 (2001). O(n^2) time, memory by rows.

    Examples
    --------
    >>> graph = planted_partition([3, 2], 1.0, 0.0, np.random.default_rng(0))
    >>> graph.labels, graph.W.nnz
    (array([0, 0, 0, 1, 1]), 8)
    """
    check_range(p_in, "p_in", low=0.0, high=1.0)
    check_range(p_out, "p_out", low=0.0, high=1.0)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    n = len(labels)
    ends = [
        i
        + 1
        + np.flatnonzero(rng.random(n - i - 1) < np.where(labels[i + 1 :] == own, p_in, p_out))
        for i, own in enumerate(labels)
    ]
    tails = np.repeat(np.arange(n), [len(end) for end in ends]).astype(np.int32)
    heads = np.concatenate(ends).astype(np.int32)
    upper = coo_array((np.ones(len(tails)), (tails, heads)), shape=(n, n)).tocsr()
    return PlantedPartition((upper + upper.T).tocsr(), labels)
