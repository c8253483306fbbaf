"""The kernels of the projection: fused = reference over types, orders, threads and shapes."""

import itertools

import numpy as np
import pytest

from orthoplus.kernels import fused, reference
from orthoplus.kernels.pairs import Pairs
from orthoplus.projection.dual import held_pairs, no_pairs, pair_sums

SHAPES = [(1, 1), (7, 1), (5, 5), (40, 6), (300, 37)]
KINDS = ["normal", "integers", "negative", "zero"]


def matrix(shape, kind, dtype=np.float64, order="C"):
    rng = np.random.default_rng(3)
    made = {
        "normal": rng.standard_normal(shape),
        "integers": rng.integers(-1, 3, shape),  # many ties
        "negative": -rng.random(shape),
        "zero": np.zeros(shape),
    }
    return np.asarray(made[kind], dtype=dtype, order=order)


def roots(k):
    return np.random.default_rng(4).uniform(0.5, 2.0, k)


def assert_same_pairs(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_passes_agree_with_the_reference(shape, kind, dtype, order):
    C, root = matrix(shape, kind, dtype, order), roots(shape[1])
    np.testing.assert_array_equal(fused.column_maxima(C), reference.column_maxima(C))
    labels, sums = fused.assign_rows(C, root)
    expected_labels, expected_sums = reference.assign_rows(C, root)
    np.testing.assert_array_equal(labels, expected_labels)
    np.testing.assert_allclose(sums, expected_sums, rtol=1e-13)  # order of addition
    keep = no_pairs(shape[0])
    for window in ((0.5, 0.0, 4), (1.0, 0.3, 50), (0.0, 0.0, 2)):
        pairs, sums = fused.gather_pairs(C, root, window, keep)
        expected, expected_sums = reference.gather_pairs(C, root, window, keep)
        assert_same_pairs(pairs, expected)
        np.testing.assert_allclose(sums, expected_sums, rtol=1e-13)
        keep = held_pairs(spread(pairs))


def spread(pairs):
    """Shares over all pairs of a row, so that the next pass has several to keep."""
    row = np.repeat(np.arange(len(pairs.start) - 1), np.diff(pairs.start))
    return pairs._replace(share=1.0 / np.diff(pairs.start)[row])


def test_assign_rows_takes_the_first_of_ties_and_none_without_positive_entry():
    C = np.array([[1.0, 1.0], [-1.0, 0.0], [0.0, 2.0]])
    labels, sums = fused.assign_rows(C, np.ones(2))
    np.testing.assert_array_equal(labels, [0, -1, 1])
    np.testing.assert_array_equal(sums, [1.0, 4.0])


def test_gather_pairs_always_has_the_maximum_and_what_is_kept():
    C, root = matrix((60, 9), "normal"), roots(9)
    keep = Pairs(np.arange(61), np.full(60, 4, dtype=np.int32), np.zeros(60), np.ones(60))
    pairs, _ = fused.gather_pairs(C, root, (1.0, 0.0, 1), keep)
    labels, _ = fused.assign_rows(C, root)
    for i in np.flatnonzero(labels >= 0):
        here = slice(pairs.start[i], pairs.start[i + 1])
        assert pairs.column[here].tolist() == sorted({4, labels[i]})
        assert pairs.share[here].sum() == 1.0


@pytest.mark.parametrize("threads", ["1", "2", "3"])
def test_passes_have_the_same_bits_for_any_number_of_threads(threads, monkeypatch):
    C, root = np.random.default_rng(0).standard_normal((30000, 41)), roots(41)
    window, keep = (0.95, 0.0, 8), no_pairs(len(C))
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "1")
    expected_pairs, expected_sums = fused.gather_pairs(C, root, window, keep)
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", threads)
    pairs, sums = fused.gather_pairs(C, root, window, keep)
    assert_same_pairs(pairs, expected_pairs)
    np.testing.assert_array_equal(sums, expected_sums)
    np.testing.assert_array_equal(fused.assign_rows(C, root)[1], sums)


@pytest.fixture(params=["normal", "integers"])
def problem(request):
    """Pairs, their open rows, a first choice and its sums."""
    C, root = matrix((40, 6), request.param), roots(6)
    pairs, sums = reference.gather_pairs(C, root, (0.3, 0.0, 6), no_pairs(40))
    rows = np.flatnonzero(np.diff(pairs.start) > 1)
    chosen = np.full(40, -1)
    row = np.repeat(np.arange(40), np.diff(pairs.start))
    held = np.flatnonzero(pairs.share)
    chosen[row[held]] = held
    return pairs, rows, chosen, sums, root**2


def copies(*arrays):
    return [array.copy() for array in arrays]


def test_transfer_shares_agrees_with_the_reference(problem):
    pairs, rows, _, sums, _ = problem
    results = []
    for kernels in (fused, reference):
        mine, total = pairs._replace(share=pairs.share.copy()), sums.copy()
        gaps = [kernels.transfer_shares_into(rows, mine, total) for _ in range(5)]
        results.append((gaps, mine.share, total))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)  # w * p against p / (2 sqrt)


def test_transfer_shares_increases_the_objective_and_closes_the_gap(problem):
    pairs, rows, _, sums, _ = problem
    mine, total = pairs._replace(share=pairs.share.copy()), sums.copy()
    values = []
    for _ in range(2000):
        gap = fused.transfer_shares_into(rows, mine, total)
        values.append(np.sqrt(total).sum())
    assert (np.diff(values) >= -1e-13).all()
    assert gap <= 1e-9 * values[-1]
    np.testing.assert_allclose(pair_sums(mine, 6), total, rtol=1e-10)
    filled = np.flatnonzero(np.diff(mine.start))
    np.testing.assert_allclose(np.add.reduceat(mine.share, mine.start[filled]), 1.0, rtol=1e-12)


def test_single_moves_agree_with_the_reference(problem):
    pairs, rows, chosen, sums, _ = problem
    results = []
    for kernels in (fused, reference):
        pick, total = copies(chosen, sums)
        results.append((kernels.single_moves_into(rows, pairs, pick, total), pick, total))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("problem", ["normal"], indirect=True)  # among ties any move may be made
def test_chain_moves_agree_with_the_reference(problem):
    pairs, rows, chosen, sums, weights = problem
    weights = weights * np.sqrt((1 / weights).sum() / (4 * weights @ sums))
    results = []
    for kernels in (fused, reference):
        pick, total = copies(chosen, sums)
        results.append((kernels.chain_moves_into(rows, pairs, pick, total, weights), pick, total))
    assert results[0][0] == results[1][0] > 0
    np.testing.assert_array_equal(results[0][1], results[1][1])
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=1e-12)


def test_moves_increase_the_value(problem):
    pairs, rows, chosen, sums, weights = problem
    pick, total = copies(chosen, sums)
    values = [np.sqrt(total).sum()]
    for _ in range(3):
        fused.single_moves_into(rows, pairs, pick, total)
        values.append(np.sqrt(total).sum())
        fused.chain_moves_into(rows, pairs, pick, total, weights)
        values.append(np.sqrt(total).sum())
    assert (np.diff(values) >= -1e-14).all()
    held = pick[pick >= 0]
    sums = np.bincount(pairs.column[held], weights=pairs.gain[held], minlength=6)
    np.testing.assert_allclose(sums, total, rtol=1e-12)


@pytest.mark.parametrize("max_nodes", [5, 10**6])
def test_search_rows_agrees_with_the_reference(problem, max_nodes):
    pairs, rows, chosen, sums, weights = problem
    weights = weights * np.sqrt((1 / weights).sum() / (4 * weights @ sums))
    results = []
    for kernels in (fused, reference):
        pick, total = copies(chosen, sums)
        done = kernels.search_rows_into(rows[:7], pairs, pick, total, weights, max_nodes)
        results.append((done, np.sqrt(total).sum()))
    assert results[0][0] == results[1][0] == (max_nodes > 5)
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-12)
    assert results[0][1] >= np.sqrt(sums).sum() * (1 - 1e-14)


def test_search_rows_agrees_with_the_reference_when_no_row_is_left_out(rng):
    """Without other rows the sums start from nothing, and must not become whole numbers."""
    gains = rng.random((8, 2))
    start, column = np.arange(0, 17, 2), np.tile(np.arange(2, dtype=np.int32), 8)
    pairs = Pairs(start, column, gains.ravel(), np.zeros(16))
    chosen = start[:-1] + rng.integers(2, size=8)
    sums = np.bincount(column[chosen], pairs.gain[chosen], minlength=2)
    weights = 0.5 / np.sqrt(gains.sum(axis=0) / 2)
    results = []
    for kernels in (fused, reference):
        pick, total = copies(chosen, sums)
        assert kernels.search_rows_into(np.arange(8), pairs, pick, total, weights, 10**6)
        results.append((pick.tolist(), total))
    assert results[0][0] == results[1][0] != chosen.tolist()
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-12)


def flips_problem(seed, per_column):
    """Columns with flips in the order of their cost; some cost nothing, some sums are far off."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, per_column + 1, 5)
    start = np.concatenate([[0], np.cumsum(sizes)])
    cost = [np.sort(rng.exponential(0.002, m) * (rng.random(m) < 0.8)) for m in sizes]
    shift = rng.uniform(-0.25, 0.25, start[-1])
    weights = rng.uniform(0.2, 0.3, 5)
    sums = 0.25 / weights**2 + rng.uniform(-0.3, 0.3, 5)
    return start, np.concatenate(cost), shift, sums, weights


@pytest.mark.parametrize("seed", range(20))
def test_cheapest_flips_are_the_best_of_all_sets(seed):
    start, cost, shift, sums, weights = problem = flips_problem(seed, 8)
    least, is_flipped = fused.cheapest_flips(*problem)
    expected, expected_flips = reference.cheapest_flips(*problem)
    np.testing.assert_allclose(least, expected, rtol=1e-12)
    np.testing.assert_array_equal(is_flipped, expected_flips)
    for j in range(5):
        here = slice(start[j], start[j + 1])
        count = here.stop - here.start
        bits = np.arange(2**count) >> np.arange(count)[:, None] & 1
        reached = sums[j] + shift[here] @ bits
        values = cost[here] @ bits + weights[j] * (np.sqrt(reached) - 0.5 / weights[j]) ** 2
        assert least[j] == pytest.approx(values.min(), rel=1e-12, abs=1e-15)


def test_cheapest_flips_are_a_lower_bound_when_there_are_too_many():
    start, cost, shift = np.array([0, 16]), np.full(16, 1e-6), np.full(16, 0.01)
    problem = start, cost, shift, np.array([0.9]), np.array([0.5])
    least, _ = fused.cheapest_flips(*problem)
    np.testing.assert_allclose(least, reference.cheapest_flips(*problem)[0], rtol=1e-12)
    values = [m * 1e-6 + 0.5 * (np.sqrt(0.9 + 0.01 * m) - 1.0) ** 2 for m in range(17)]
    assert 0.0 < least[0] <= min(values)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 2), (6, 3), (6, 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_best_partition_agrees_with_the_reference(shape, kind):
    C = matrix(shape, kind)
    np.testing.assert_array_equal(fused.best_partition(C), reference.best_partition(C))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (40, 6), (300, 37)])
def test_sparse_product_agrees_with_the_reference(shape, dtype, order):
    rng = np.random.default_rng(5)
    n, k = shape
    U = np.asarray(rng.standard_normal((n, k)), dtype=dtype, order=order)
    X = np.asarray(rng.random((n, k)) * (rng.random((n, k)) < 0.1), dtype=dtype, order=order)
    # Sums of n terms of size one; the reference adds in the precision of its arguments.
    tol = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(fused.sparse_product(X, U), reference.sparse_product(X, U), atol=tol)


def counted_problem(seed):
    """Pairs of kinds of rows, whole limits that leave room, counts, kinds of the pairs, and k."""
    rng = np.random.default_rng(seed)
    n, k = 12, 5
    columns = [np.sort(rng.choice(k, rng.integers(1, k + 1), replace=False)) for _ in range(n)]
    start = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
    column = np.concatenate(columns).astype(np.int32)
    gain = rng.random(len(column)) * (rng.random(len(column)) < 0.9)
    counts = rng.integers(1, 6, n).astype(float)
    kind = np.repeat(np.arange(n), np.diff(start))
    share = np.zeros(len(column))
    for c in range(n):  # whole shares with the sum of the counts
        np.add.at(share, rng.integers(start[c], start[c + 1], int(counts[c])), 1.0)
    low = np.floor(share * rng.random(len(share)))
    high = share + rng.integers(0, 3, len(share))
    return Pairs(start, column, gain, share), np.stack([low, high]), counts, kind, k


@pytest.mark.parametrize("seed", range(8))
def test_counts_are_balanced_within_their_limits_as_in_the_reference(seed):
    pairs, limits, counts, kind, k = counted_problem(seed)
    results = []
    for kernels in (fused, reference):
        mine = pairs._replace(share=pairs.share.copy())
        sums = pair_sums(mine, k)
        values = [np.sqrt(sums).sum()]
        for _ in range(4):
            kernels.balance_counts_into(mine, limits, sums, 3, 0.0)
            values.append(np.sqrt(pair_sums(mine, k)).sum())
        assert all(b >= a * (1 - 1e-14) for a, b in itertools.pairwise(values))
        assert ((limits[0] <= mine.share) & (mine.share <= limits[1])).all()
        np.testing.assert_allclose(np.bincount(kind, mine.share), counts, rtol=1e-12)
        np.testing.assert_allclose(sums, pair_sums(mine, k), rtol=1e-12, atol=1e-14)
        results.append(mine.share)
    np.testing.assert_allclose(*results, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(8))
def test_capped_tops_are_the_largest_sums_within_the_limits(seed):
    from scipy.optimize import linprog

    pairs, limits, counts, _, k = counted_problem(seed)
    weights = np.random.default_rng(seed).random(k) + 0.1
    tops, last = fused.capped_tops(pairs, limits, counts, weights)
    expected = reference.capped_tops(pairs, limits, counts, weights)
    np.testing.assert_allclose(tops, expected[0], rtol=1e-13)
    np.testing.assert_array_equal(last, expected[1])
    for c, total in enumerate(counts):
        here = slice(pairs.start[c], pairs.start[c + 1])
        priced = weights[pairs.column[here]] * pairs.gain[here]
        ones = np.ones((1, len(priced)))
        solved = linprog(-priced, A_eq=ones, b_eq=[total], bounds=limits[:, here].T)
        assert tops[c] == pytest.approx(-solved.fun, rel=1e-9, abs=1e-12)
