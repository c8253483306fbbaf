"""The certified projection onto S+: brute force, edge cases, properties, planted instances."""

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from orthoplus import kernels
from orthoplus.core.status import Status
from orthoplus.datasets import planted_projection
from orthoplus.projection import certify, passes, project_stiefel_plus
from orthoplus.projection.dual import pairs_of_labels, scaled_dual
from orthoplus.projection.prices import price_rows
from orthoplus.projection.search import evaluate, give_rows

# Sums of a few hundred squares agree to some units of 1e-16 each.
ROUNDING = 1e-12


@cache
def row_sets(n, k):
    """For each assignment of n rows to k non-empty columns, the rows of each column as bits."""
    labels = np.array(list(itertools.product(range(k), repeat=n)))
    sets = np.stack([((labels == j) << np.arange(n)).sum(axis=1) for j in range(k)], axis=1)
    return sets[(sets > 0).all(axis=1)]


def brute_force(C):
    """max <C, X> over S+ by trying all supports."""
    n, k = C.shape
    members = ((np.arange(1 << n)[:, None] >> np.arange(n)) & 1).astype(bool)
    norms = np.sqrt(members @ np.maximum(C, 0.0) ** 2)
    largest = np.where(members[:, :, None], C, -np.inf).max(axis=1)
    gain = np.where(largest > 0.0, norms, largest)
    return gain[row_sets(n, k), np.arange(k)].sum(axis=1).max()


def small_matrix(rng, kind):
    k = rng.integers(1, 5)
    n = rng.integers(k, 8)
    C = rng.standard_normal((n, k))
    if kind == "uniform":
        C = rng.random((n, k))
    elif kind == "integers":
        C = rng.integers(-2, 3, (n, k)).astype(float)
    elif kind == "negative column":
        C[:, 0] = -np.abs(C[:, 0])
    elif kind == "duplicate columns":
        C[:, -1] = C[:, 0]
    elif kind == "zero and negative rows":
        C[rng.integers(n)], C[rng.integers(n)] = 0.0, -1.0
    elif kind == "few positive":
        C = np.where(rng.random((n, k)) < 0.3, 1.0, -1.0) * rng.random((n, k))
    elif kind == "heavy tails":
        C = rng.standard_t(1, (n, k))
    return C


KINDS = [
    "normal",
    "uniform",
    "integers",
    "negative column",
    "duplicate columns",
    "zero and negative rows",
    "few positive",
    "heavy tails",
]


def assert_feasible(result, shape):
    X = result.X
    assert X.shape == shape
    assert (X >= 0.0).all()
    np.testing.assert_allclose(X.T @ X, np.eye(shape[1]), atol=1e-14)
    assert ((X > 0.0).sum(axis=1) <= 1).all()
    np.testing.assert_array_equal(result.labels >= 0, X.any(axis=1))


def assert_honest(result, C):
    assert_feasible(result, C.shape)
    size = float(np.abs(C).max())
    inner = float((C.astype(np.float64) * result.X).sum())
    assert inner == pytest.approx(result.value, rel=ROUNDING, abs=ROUNDING * size)
    assert result.bound >= result.value
    assert (result.status is Status.CERTIFIED) == (result.gap <= 1e-12)


@pytest.mark.parametrize("tiny_rows", [10, 0])  # 0: the method for large matrices
@pytest.mark.parametrize("kind", KINDS)
def test_projection_is_the_brute_force_optimum_when_certified(kind, tiny_rows, monkeypatch):
    monkeypatch.setattr(certify, "TINY_ROWS", tiny_rows)
    rng = np.random.default_rng(KINDS.index(kind))
    n_optimal = 0
    for _ in range(300):
        C = small_matrix(rng, kind)
        result, best = project_stiefel_plus(C), brute_force(C)
        margin = ROUNDING * max(np.abs(C).max(), abs(best))
        assert_honest(result, C)
        assert result.bound >= best - margin
        is_optimal = abs(result.value - best) <= margin
        assert is_optimal or result.status is Status.GAP_LEFT
        n_optimal += is_optimal
    assert n_optimal >= (300 if tiny_rows else 285)


@pytest.mark.parametrize("kind", ["normal", "few positive"])
def test_projection_of_a_square_matrix_is_the_best_permutation(kind):
    rng = np.random.default_rng(0)
    for k in (1, 2, 3, 4):
        C = rng.standard_normal((k, k)) - (kind == "few positive")
        result = project_stiefel_plus(C)
        assert result.status is Status.CERTIFIED
        assert result.value == pytest.approx(brute_force(C), rel=ROUNDING)


@pytest.mark.parametrize("k", [10, 50, 100, 400])
@pytest.mark.parametrize("xi", [0.5, 0.95, 1.0])
def test_projection_recovers_planted_instances_with_a_proof(k, xi):
    planted = planted_projection(2000, k, xi, np.random.default_rng(k))
    result = project_stiefel_plus(planted.C)
    np.testing.assert_array_equal(result.labels, planted.labels)
    np.testing.assert_allclose(result.X, planted.X, rtol=1e-12)
    assert result.status is Status.CERTIFIED
    assert result.gap <= 2e-14  # the bound is rounded up by 64 roundings
    assert result.value == pytest.approx(planted.value, rel=1e-14)


def plain_matrix(kind, n, k):
    rng = np.random.default_rng(1)
    return {
        "uniform": lambda: rng.random((n, k)),
        "normal": lambda: rng.standard_normal((n, k)),
        "stiefel": lambda: np.linalg.qr(rng.standard_normal((n, k)))[0],
        "heavy tails": lambda: rng.standard_t(3, (n, k)),
        "low rank": lambda: rng.standard_normal((n, 10)) @ rng.standard_normal((10, k)),
    }[kind]()


@pytest.mark.parametrize("kind", ["uniform", "normal", "stiefel", "heavy tails", "low rank"])
@pytest.mark.parametrize("shape", [(500, 5), (2000, 50), (12000, 10)])
def test_projection_leaves_a_small_gap_when_nothing_is_planted(kind, shape):
    C = plain_matrix(kind, *shape)
    result = project_stiefel_plus(C)
    assert_honest(result, C)
    assert result.gap <= 1e-5
    assert result.passes <= 105  # the limit, and the last step beyond it


@pytest.mark.parametrize("seed", range(5))
def test_projection_branches_on_heavy_rows_until_certified(seed):
    C = np.random.default_rng(seed).standard_t(1.5, (2000, 50))
    result = project_stiefel_plus(C)
    assert_honest(result, C)
    assert result.status is Status.CERTIFIED


@pytest.mark.parametrize("rank", [2, 3, 8])
@pytest.mark.parametrize("seed", range(15))
def test_prices_of_rows_keep_the_optimum_between_value_and_bound(rank, seed):
    rng = np.random.default_rng([rank, seed])
    C = rng.standard_normal((10, rank)) @ rng.random((rank, 3)) + 0.2
    maxima = kernels.column_maxima(C)
    if (maxima <= 0.0).any():
        pytest.skip("prices need a positive entry in every column")
    search = passes.run(C, maxima, passes.start_search(C, maxima), passes.Budget(1e-12, 100))
    pairs, _ = kernels.gather_pairs(
        C, np.sqrt(search.weights), (1.0, search.gap * 1.001, 3), pairs_of_labels(np.full(10, -1))
    )
    priced = price_rows(pairs, search, passes.Budget(0.0))
    optimum = evaluate(C, kernels.best_partition(C)).value
    assert search.best.value <= priced.best.value <= optimum * (1 + 1e-13)
    assert optimum * (1 - 1e-13) <= priced.bound <= search.bound
    assert evaluate(C, priced.best.labels).value == pytest.approx(priced.best.value, rel=1e-13)


@pytest.mark.parametrize(("rank", "seed"), [(3, 2), (5, 8), (20, 4)])
def test_projection_leaves_a_small_gap_when_the_matrix_has_low_rank(rank, seed):
    rng = np.random.default_rng(seed)
    result = project_stiefel_plus(
        rng.standard_normal((2000, rank)) @ rng.standard_normal((rank, 50))
    )
    assert result.gap <= 1e-5


def test_branching_only_lowers_the_bound(monkeypatch):
    for seed in range(20):
        C = np.random.default_rng(seed).standard_t(1.0, (60, 8))
        result = project_stiefel_plus(C)
        with monkeypatch.context() as patch:
            patch.setattr(certify, "branch", lambda core, search, known, budget: search)
            plain = project_stiefel_plus(C)
        assert plain.value * (1.0 - ROUNDING) <= result.value <= plain.bound
        assert plain.value * (1.0 - ROUNDING) <= result.bound <= plain.bound


EDGES = {
    "all zero": np.zeros((30, 4)),
    "all negative": -1.0 - np.arange(80.0).reshape(20, 4) % 7,
    "constant": np.ones((32, 4)),
    "constant, uneven": np.ones((31, 4)),
    "constant, tall": np.ones((4001, 50)),
    "one column": np.linspace(-1, 1, 25)[:, None],
    "one negative column": -np.linspace(1, 2, 25)[:, None],
    "rank one": np.outer(np.linspace(0.1, 1, 40), np.linspace(1, 2, 5)),
    "duplicate columns": np.repeat(np.random.default_rng(0).random((30, 2)), 3, axis=1),
    "only one positive row": np.where(np.arange(30)[:, None] == 7, 1.0, -1.0) * np.ones((30, 6)),
    "only one positive entry": np.where(np.arange(120).reshape(30, 4) == 5, 1.0, -1.0),
    "one positive row, many columns": np.where(np.arange(90)[:, None] == 7, 1.0, -1.0)
    * np.ones((90, 60)),
    "negative columns": np.random.default_rng(1).random((40, 6)) * [1, 1, -1, 1, -1, -1],
    "nearly square": np.random.default_rng(2).standard_normal((31, 30)),
    "zero rows": np.random.default_rng(3).random((40, 5)) * (np.arange(40) % 2)[:, None],
    "scales that differ": np.random.default_rng(4).random((50, 5)) * 10.0 ** -np.arange(0, 100, 20),
    "scales beyond underflow": np.random.default_rng(4).random((50, 3)) * [1.0, 1e-170, 1e-300],
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_projection_is_feasible_and_honest_at_the_edges(name, dtype):
    C = EDGES[name].astype(dtype)
    before = C.copy()
    assert_honest(project_stiefel_plus(C), C)
    np.testing.assert_array_equal(C, before)


@pytest.mark.parametrize(
    "name", ["all zero", "all negative", "constant", "one column", "one negative column"]
)
def test_projection_is_certified_where_the_relaxation_is_tight(name):
    assert project_stiefel_plus(EDGES[name]).status is Status.CERTIFIED


def test_negative_column_belongs_to_the_bound():
    planted = planted_projection(300, 5, 0.8, np.random.default_rng(0))
    rows = np.random.default_rng(1).random((20, 5)) * -1.0
    C = np.column_stack([np.vstack([planted.C, rows]), np.full(320, -3.0)])
    result = project_stiefel_plus(C)
    assert result.status is Status.CERTIFIED
    assert result.value == pytest.approx(planted.value - 3.0, rel=ROUNDING)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-30, 1e200, 1e300])
def test_projection_scales_with_its_matrix(scale):
    C = np.random.default_rng(0).standard_normal((200, 6))
    plain, scaled = project_stiefel_plus(C), project_stiefel_plus(C * scale)
    np.testing.assert_array_equal(plain.labels, scaled.labels)
    assert scaled.value == pytest.approx(plain.value * scale, rel=ROUNDING)
    assert scaled.bound == pytest.approx(plain.bound * scale, rel=ROUNDING)


@pytest.mark.parametrize("scale", [1e-40, 1e-20, 3e38])
def test_projection_scales_with_its_matrix_in_single_precision(scale):
    C = (np.random.default_rng(0).random((200, 5)) * scale).astype(np.float32)
    assert_honest(project_stiefel_plus(C), C)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_projection_is_the_same_for_any_memory_order_and_from_a_file(dtype, tmp_path):
    C = np.random.default_rng(0).standard_normal((30000, 40)).astype(dtype)
    mapped = np.lib.format.open_memmap(tmp_path / "C.npy", mode="w+", dtype=dtype, shape=C.shape)
    mapped[:] = C
    mapped.flush()
    expected = project_stiefel_plus(C)
    wide = np.zeros((30000, 80), dtype=dtype)
    wide[:, ::2] = C
    for other in (np.asfortranarray(C), np.load(tmp_path / "C.npy", mmap_mode="r"), wide[:, ::2]):
        result = project_stiefel_plus(other)
        np.testing.assert_array_equal(result.weights, expected.weights)
        assert (result.value, result.bound) == (expected.value, expected.bound)


def test_projection_has_the_same_bits_for_one_and_two_threads(monkeypatch):
    C = np.random.default_rng(0).random((120000, 20))
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", threads)
        results.append(project_stiefel_plus(C))
    assert results[0].value == results[1].value
    assert results[0].bound == results[1].bound
    np.testing.assert_array_equal(results[0].weights, results[1].weights)


def test_projection_needs_less_than_its_limit_of_passes():
    C = np.random.default_rng(0).random((3000, 30))
    result = project_stiefel_plus(C, max_passes=2)
    assert_honest(result, C)
    assert result.status is Status.GAP_LEFT


small_arrays = st.tuples(st.integers(1, 4), st.integers(0, 12)).flatmap(
    lambda size: arrays(
        np.float64, (size[0] + size[1], size[0]), elements=st.floats(-4, 4, width=16)
    )
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(C=small_arrays, seed=st.integers(0, 2**31))
def test_no_random_feasible_point_exceeds_the_bound(C, seed):
    result = project_stiefel_plus(C)
    assert_feasible(result, C.shape)
    rng, (n, k) = np.random.default_rng(seed), C.shape
    for _ in range(20):
        labels = rng.integers(k, size=n)
        labels[rng.permutation(n)[:k]] = np.arange(k)
        value = evaluate(C, labels).value
        assert value <= result.bound + ROUNDING * (1.0 + abs(value))
        if result.status is Status.CERTIFIED:
            assert value <= result.value + ROUNDING * (1.0 + abs(value))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(C=small_arrays, seed=st.integers(0, 2**31))
def test_certified_value_does_not_depend_on_the_order_of_rows_and_columns(C, seed):
    rng = np.random.default_rng(seed)
    permuted = C[rng.permutation(C.shape[0])][:, rng.permutation(C.shape[1])]
    one, other = project_stiefel_plus(C), project_stiefel_plus(permuted)
    if one.status is other.status is Status.CERTIFIED:
        assert one.value == pytest.approx(other.value, rel=ROUNDING, abs=ROUNDING)
    assert one.bound >= other.value - ROUNDING * (1.0 + abs(one.bound))


def test_dual_bound_holds_for_any_weights():
    rng = np.random.default_rng(0)
    for _ in range(100):
        C = rng.standard_normal((7, 3))
        root = rng.lognormal(sigma=1.0, size=3)
        _, sums = kernels.assign_rows(C, root)
        if (C.max(axis=0) > 0.0).all():
            bound, _ = scaled_dual(root, sums, np.full(3, True))
            assert bound >= brute_force(C)


def test_give_rows_is_the_best_matching():
    rng = np.random.default_rng(0)
    C, price = rng.standard_normal((30, 8)), rng.random(30)
    columns = np.array([1, 4, 6])
    rows, total = give_rows(C, columns, price)
    merit = C[:, columns] - price[:, None]
    best = max(merit[list(t), [0, 1, 2]].sum() for t in itertools.permutations(range(30), 3))
    assert total == pytest.approx(best)
    assert merit[rows, [0, 1, 2]].sum() == pytest.approx(best)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_optimal_start_is_proved_in_one_pass(dtype, rng):
    C = planted_projection(200, 5, 0.5, rng).C.astype(dtype)
    best = project_stiefel_plus(C)
    again = project_stiefel_plus(C, start=best.labels)
    assert again.status is Status.CERTIFIED
    assert again.passes == 2.0  # the maxima of the columns, and the proof
    assert (again.labels == best.labels).all()
    assert again.value == pytest.approx(best.value, rel=ROUNDING)
    assert again.bound >= best.value * (1.0 - ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
def test_value_does_not_depend_on_the_start(kind, rng):
    for _ in range(20):
        C = np.vstack([small_matrix(rng, kind)[:, :1] for _ in range(6)])
        C = np.hstack([C, rng.permutation(C)])
        if len(C) <= certify.TINY_ROWS:
            continue
        start = rng.integers(-1, 2, len(C))
        plain, started = project_stiefel_plus(C), project_stiefel_plus(C, start=start)
        assert started.bound >= plain.value - ROUNDING * plain.size
        if plain.status is started.status is Status.CERTIFIED:
            assert started.value == pytest.approx(plain.value, rel=ROUNDING, abs=ROUNDING)
