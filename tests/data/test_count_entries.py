"""Counts are recognized, in every storage, by the same rule."""

import numpy as np
import pytest
import scipy.sparse as sp

from orthoplus.data import as_data
from orthoplus.data.count_entries import count_facts

STORAGES = {
    "dense": as_data,
    "csr": lambda A: as_data(sp.csr_array(A)),
    "blocks": lambda A: as_data(A, memory_limit=4000),
}


@pytest.fixture
def counts(rng):
    return rng.poisson(rng.gamma(0.3, 1.0, size=(60, 1)) * rng.random(20)).astype(np.float64)


@pytest.mark.parametrize("storage", STORAGES)
def test_counts_are_recognized_and_their_dispersion_is_that_of_the_definition(counts, storage):
    facts = count_facts(STORAGES[storage](counts))
    assert facts.are_counts
    assert facts.dispersion == pytest.approx(counts.var(axis=0).sum() / counts.mean(axis=0).sum())
    assert facts.dispersion > 1


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("change", ["halves", "negative", "all positive", "only 0 and 1"])
def test_other_data_are_no_counts(counts, storage, change):
    others = {
        "halves": 0.5 * counts,
        "negative": -counts,
        "all positive": counts + 2,
        "only 0 and 1": np.minimum(counts, 1),
    }
    assert not count_facts(STORAGES[storage](others[change])).are_counts
