"""Weighted samples of rows: unbiased, with the heaviest rows, the same for every storage."""

import numpy as np
import pytest

from every_storage import in_blocks
from orthoplus.data import as_data
from orthoplus.data.sampling import sample_by_squares, uniform_numbers


def heavy_rows(rng, n=60):
    """Return rows with a few that hold most of the squared norm."""
    A = rng.random((n, 3))
    A[:3] *= 30.0
    return A


def test_sums_of_squares_are_unbiased(rng):
    A = as_data(heavy_rows(rng))
    direction = rng.random(3)
    parts = (A.entries() @ direction) ** 2
    found = []
    for seed in range(3000):
        rows, factors = sample_by_squares(A, 12, seed, A.row_squares())
        found.append(np.sum(factors**2 * parts[rows]))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - parts.sum()) < 4.0 * error
    assert error < 0.01 * parts.sum()


def test_the_heaviest_rows_are_kept_with_weight_one(rng):
    A = as_data(heavy_rows(rng))
    for seed in range(20):
        rows, factors = sample_by_squares(A, 10, seed, A.row_squares())
        assert len(rows) == 10
        assert (np.diff(rows) > 0).all()
        assert set(range(3)) <= set(rows)
        np.testing.assert_array_equal(factors[:3], 1.0)
        assert (factors[3:] > 1.0).all()


def test_rows_that_are_missed_are_sampled_more_often(rng):
    A = as_data(np.ones((100, 2)))
    missed = np.zeros(100)
    missed[40] = 1.0
    kept = [40 in sample_by_squares(A, 5, s, A.row_squares(), missed).rows for s in range(50)]
    assert all(kept)


def test_every_storage_has_the_same_sample(rng):
    values = heavy_rows(rng)
    whole, blocks = as_data(values), in_blocks(values)
    one = sample_by_squares(whole, 15, 4, whole.row_squares())
    other = sample_by_squares(blocks, 15, 4, blocks.row_squares())
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_allclose(one.factors, other.factors, rtol=1e-14)


def test_dask_blocks_have_the_same_sample(rng):
    da = pytest.importorskip("dask.array")
    values = heavy_rows(rng)
    whole, lazy = as_data(values), as_data(da.from_array(values, chunks=(13, 3)))
    one = sample_by_squares(whole, 15, 4, whole.row_squares())
    other = sample_by_squares(lazy, 15, 4, lazy.row_squares())
    np.testing.assert_array_equal(one.rows, other.rows)


def test_rows_of_zeros_are_left_out():
    A = as_data(np.diag([1.0, 0.0, 2.0, 0.0, 3.0, 0.0]))
    rows, factors = sample_by_squares(A, 4, 0, A.row_squares())
    np.testing.assert_array_equal(rows, [0, 2, 4])
    np.testing.assert_array_equal(factors, 1.0)


def test_numbers_are_uniform_and_differ_between_seeds():
    one, other = (uniform_numbers(np.arange(20000), seed) for seed in (0, 1))
    assert one.min() > 0.0
    assert one.max() <= 1.0
    counts = np.histogram(one, bins=20, range=(0.0, 1.0))[0]
    assert abs(counts - 1000).max() < 160  # five standard deviations
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
