"""Crossing of solutions: children, the pool, and what it gains over single searches."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import orthoplus as op
from orthoplus.data import as_data
from orthoplus.data.groups import unit_rows
from orthoplus.methods import SwapSearch
from orthoplus.methods.search import crossing
from orthoplus.methods.search.crossing import Pool, can_cross, child_of, cross
from orthoplus.problems import ONMF


def test_a_child_takes_one_center_of_each_matching_pair(rng):
    one = np.eye(4)
    other = unit_rows(one + 0.1 * rng.random((4, 4)))[[2, 0, 3, 1]]
    matched = other[[1, 3, 0, 2]]
    children = [child_of(one, other, rng) for _ in range(20)]
    for child in children:
        is_of_one = (child == one).all(axis=1)
        np.testing.assert_array_equal(child, np.where(is_of_one[:, None], one, matched))
    assert len({child.tobytes() for child in children}) > 5


def test_the_pool_has_different_solutions_with_the_best_first(rng):
    B = rng.random((150, 8))
    pool = Pool(np.zeros((0, 0, 0)), np.zeros(0))
    best = -np.inf
    for start in range(4):
        pool = cross(B, pool, unit_rows(B[5 * start : 5 * start + 5]), rng)
        assert pool.sums[0] >= best
        best = pool.sums[0]
    assert 2 <= len(pool.sums) <= 12
    assert (np.diff(pool.sums) < 0).all()
    tops = (np.maximum((B @ pool.centers[0].T).max(axis=1), 0.0) ** 2).sum()
    assert tops == pytest.approx(pool.sums[0], rel=1e-5)


def test_crossing_gains_where_no_structure_helps(rng, monkeypatch):
    problem = ONMF(rng.random((200, 15)), 6)
    crossed = op.solve(problem, method=SwapSearch(), with_bound=False).value
    monkeypatch.setattr(crossing, "_MAX_ROWS", 0)
    assert crossed < op.solve(problem, method=SwapSearch(), with_bound=False).value


def test_order_of_the_rows_does_not_matter(rng):
    A = rng.random((120, 9))
    order = rng.permutation(120)
    one, other = (op.solve(ONMF(rows, 4), with_bound=False) for rows in (A, A[order]))
    assert other.value == pytest.approx(one.value, rel=1e-12)
    assert op.metrics.purity(one.labels[order], other.labels) == 1.0


def test_only_small_data_with_entries_are_crossed(rng):
    assert can_cross(ONMF(as_data(rng.random((20, 3))), 2))
    assert not can_cross(ONMF(as_data(rng.random((8193, 1))), 2))


def test_data_on_disk_are_crossed_as_those_in_memory(rng, tmp_path):
    A = rng.random((200, 15))
    np.save(tmp_path / "A.npy", A)
    stored = as_data(np.load(tmp_path / "A.npy", mmap_mode="r"), memory_limit="10kB")
    one, other = (op.solve(ONMF(data, 6), with_bound=False) for data in (A, stored))
    np.testing.assert_array_equal(np.asarray(other.labels), one.labels)


@pytest.mark.parametrize("as_stored", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_few_rows_with_many_columns_lose_nothing(rng, as_stored):
    A = rng.random((20, 90)) ** 3
    data = as_data(as_stored(A))
    found = crossing.crossing_rows(data)
    assert found.rows.shape == (20, 20)
    order = np.argsort((A**2).sum(axis=1))
    np.testing.assert_allclose(found.rows @ found.rows.T, (A @ A.T)[np.ix_(order, order)])
    centers = unit_rows(rng.standard_normal((3, 20)))
    directions = found.directions(data, centers)
    np.testing.assert_allclose(found.rows @ centers.T, A[order] @ directions.T, atol=1e-12)
    np.testing.assert_allclose(found.centers(data, directions), centers, atol=1e-12)


def test_rows_of_low_rank_have_as_many_coordinates(rng):
    A = rng.random((12, 3)) @ rng.random((3, 80))
    found = crossing.crossing_rows(as_data(A))
    assert found.rows.shape == (12, 3)
    assert crossing.crossing_rows(as_data(np.zeros((4, 30)))).rows.shape == (4, 0)


@pytest.mark.parametrize("r", [0, 40])
def test_data_without_columns_or_entries_are_solved(r):
    assert op.solve(ONMF(np.zeros((5, r)), 2), with_bound=False).value == 0.0


@pytest.mark.parametrize("scale", [2.0**-200, 2.0**200])
def test_scale_of_wide_data_does_not_matter(rng, scale):
    A = rng.random((30, 100)) ** 4
    one, other = (op.solve(ONMF(rows, 5), with_bound=False) for rows in (A, scale * A))
    np.testing.assert_array_equal(other.labels, one.labels)
