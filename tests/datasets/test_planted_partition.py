"""Random graphs with planted groups."""

import numpy as np
import pytest

from orthoplus.datasets import planted_partition


def test_graph_is_simple_and_has_the_given_densities(rng):
    sizes = [80, 50, 30]
    W, labels = planted_partition(sizes, 0.4, 0.1, rng)
    dense = W.toarray()
    assert (dense == dense.T).all()
    assert not dense.diagonal().any()
    assert set(np.unique(dense)) == {0.0, 1.0}
    assert np.bincount(labels).tolist() == sizes
    upper = np.triu(np.ones_like(dense, dtype=bool), 1)
    same = labels[:, None] == labels
    # Five standard deviations of thousands of coins.
    assert dense[upper & same].mean() == pytest.approx(0.4, abs=0.04)
    assert dense[upper & ~same].mean() == pytest.approx(0.1, abs=0.02)


def test_graph_is_one_that_scikit_learn_takes(rng):
    W, _ = planted_partition([5, 5], 0.9, 0.1, rng)
    assert W.indices.dtype == W.indptr.dtype == np.int32


def test_probabilities_are_checked(rng):
    with pytest.raises(ValueError, match=r"`p_in=2\.0` is out of range"):
        planted_partition([2], 2.0, 0.0, rng)
