"""Draw random graphs with planted groups of vertices."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array

from orthoplus.core.checks import check_range
from orthoplus.core.types import IntArray


class PlantedPartition(NamedTuple):
    """A sparse symmetric adjacency matrix and the group of each vertex.

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
    """Draw a random graph whose edges are more likely within groups than between them.

    Parameters
    ----------
    sizes : list of int
        Number of vertices of each group.
    p_in, p_out : float
        Probability of an edge within a group, and between two groups.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    PlantedPartition
        ``W``, a CSR array with ones for edges and a zero diagonal, and the sorted ``labels``.

    Notes
    -----
    It takes O(n^2) time and O(n + edges) memory. The model is due to Condon and Karp, Random
    Struct. Algorithms 18 (2001).

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
    # For each vertex i, its neighbors among the later vertices: the upper triangle of W.
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
