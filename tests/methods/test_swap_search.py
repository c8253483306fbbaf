"""The default search for orthogonal NMF: against brute force, the alternation, and itself."""

from itertools import product
from unittest import mock

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator

import orthoplus as op
from every_storage import in_blocks
from orthoplus.data import as_data
from orthoplus.data.groups import assign_rows, power_step, unit_rows
from orthoplus.data.stored import Stored
from orthoplus.datasets import HARD_KINDS, hard_clusters
from orthoplus.geometry.stiefel import assemble, random_stiefel_plus, violation
from orthoplus.linalg.starts import svd_start
from orthoplus.methods import SwapSearch
from orthoplus.methods.baselines import EMONMF
from orthoplus.methods.search.alternation import alternate, alternate_directions, alternate_from
from orthoplus.methods.search.sketch import order_of_rows, refined_sketch, sketch_rows
from orthoplus.problems import ONMF

SEARCH = "orthoplus.methods.search.swap_search"


def best_share(A, k):
    """The largest sum of squared leading singular values over all groups of the rows."""
    best = 0.0
    for labels in product(range(k), repeat=len(A)):
        groups = [A[np.array(labels) == j] for j in range(k)]
        if all(len(group) for group in groups):
            best = max(best, sum(np.linalg.norm(group, 2) ** 2 for group in groups))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_finds_the_optimum_of_tiny_problems(seed):
    rng = np.random.default_rng(seed)
    A, k = rng.random((7, 4)) ** 3, 2 + seed % 2
    result = op.solve(ONMF(A, k), method=SwapSearch(n_init=8))
    assert result.value == pytest.approx(np.linalg.norm(A) ** 2 - best_share(A, k), abs=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_recovers_planted_groups(noise, rng):
    B = random_stiefel_plus(300, 6, rng)
    A = B @ rng.random((6, 40))
    A = A / np.linalg.norm(A) + noise * rng.random(A.shape) / np.sqrt(A.size)
    result = op.solve(ONMF(A, 6), svd_start(A, 6), method=SwapSearch())
    planted = ONMF(A, 6).value(ONMF(A, 6).refine(B))
    assert result.value <= planted + 1e-12
    assert result.success
    assert result.violation <= 1e-14


@pytest.mark.parametrize("seed", range(5))
def test_never_worse_than_the_alternation_from_the_same_start(seed):
    rng = np.random.default_rng(seed)
    A = rng.random((60, 12)) ** 4
    X0 = svd_start(A, 5)
    em = op.solve(ONMF(A, 5), X0, method=EMONMF(start="given"))
    ours = op.solve(ONMF(A, 5), X0, method=SwapSearch(n_init=1))
    assert ours.value <= em.value + 1e-10


def test_value_never_rises_and_every_state_is_feasible(rng):
    problem = ONMF(rng.random((80, 10)) ** 2, 4)
    method = SwapSearch()
    state, values = method.init(problem, problem.start(rng)), []
    for _ in range(30):
        values.append(state.value)
        assert violation(state.X) <= 1e-14
        assert problem.value(state.X) == pytest.approx(state.value, abs=1e-10)
        state = method.step(problem, state)
    assert (np.diff(values) <= 0).all()


@pytest.mark.parametrize("form", [csr_array, aslinearoperator, np.asfortranarray, np.float32])
def test_every_form_of_the_data_gives_the_same_groups(form, rng):
    A = random_stiefel_plus(60, 4, rng) @ rng.random((4, 15)) + 1e-3 * rng.random((60, 15))
    one, other = (op.solve(ONMF(form_of(A), 4), svd_start(A, 4)) for form_of in (np.asarray, form))
    assert op.metrics.purity(one.labels, other.labels) == 1.0  # in any order
    tol = (1e-6 if form is np.float32 else 1e-12) * np.linalg.norm(A) ** 2
    assert other.value == pytest.approx(one.value, abs=tol)


def test_same_seed_same_bits_and_another_seed_another_search(rng):
    problem = ONMF(rng.random((200, 20)), 6)
    one, same, other = (
        op.solve(problem, svd_start(problem.A, 6), method=SwapSearch(seed=seed, n_init=2))
        for seed in (0, 0, 1)
    )
    assert one.weights.tobytes() == same.weights.tobytes()
    assert one.state.n_trials != other.state.n_trials or one.value != other.value


def test_a_sample_of_the_rows_is_enough_for_planted_groups(rng):
    A = random_stiefel_plus(500, 3, rng) @ rng.random((3, 12))
    result = op.solve(ONMF(A, 3), method=SwapSearch(sample=50))
    assert result.value <= 1e-12 * np.linalg.norm(A) ** 2
    assert result.state.sketch.shape[0] == 50


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_zero_rows_and_too_few_others(rows, rng):
    A = np.zeros((5, 4))
    A[:rows] = rng.random((rows, 4))
    result = op.solve(ONMF(A, 3), method=SwapSearch())
    assert result.violation <= 1e-14
    assert result.value == pytest.approx(0.0, abs=1e-12)


def test_duplicate_rows_and_one_column(rng):
    A = np.ones((6, 1))
    result = op.solve(ONMF(A, 2), method=SwapSearch())
    assert result.value == pytest.approx(0.0, abs=1e-12)
    assert sorted(set(result.labels)) == [0, 1]


def test_interrupt_keeps_the_best_point(rng):
    problem = ONMF(rng.random((100, 10)), 4)
    calls = []

    def stop_early(state):
        calls.append(state.value)
        return len(calls) == 2

    result = op.solve(problem, method=SwapSearch(), callback=stop_early)
    assert result.status is op.Status.CALLBACK
    assert result.value <= calls[0] + 1e-12


def test_alternation_ends_where_no_row_fits_another_column_better(rng):
    A = rng.random((70, 9))
    problem = ONMF(A, 5)
    X, value = alternate(problem, random_stiefel_plus(70, 5, rng))
    assert problem.value(X) == pytest.approx(value)
    Y = A.T @ X
    scores = A @ (Y / np.linalg.norm(Y, axis=0))
    own = scores[np.arange(70), X.argmax(axis=1)]
    assert (own >= scores.max(axis=1) - 1e-9).all()


def test_no_column_is_left_without_a_row():
    A = as_data([[2.0, 0.0], [1.0, 0.1], [3.0, 0.0], [0.0, 0.0]])
    labels, _, _ = assign_rows(A, np.array([[1.0, 0.1], [0.5, 0.05]]))
    assert labels[3] == -1
    assert set(labels[:3]) == {0, 1}
    X = assemble(labels, np.ones(4), 2)
    assert violation(X) <= 1e-15


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("n_init", 0, "`n_init=0` is out of range"),
        ("patience", 0, "`patience=0` is out of range"),
        ("sketch", -1.0, "`sketch=-1.0` is out of range"),
        ("sample", 2.5, "`sample=2.5` is not an integer"),
        ("max_iter", 0, "`max_iter=0` is out of range"),
    ],
)
def test_options_out_of_range(option, value, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SwapSearch(**{option: value})


def test_other_problems_are_refused():
    with pytest.raises(TypeError, match=r"cannot solve Projection\. Pass a problem such as ONMF"):
        op.solve(op.problems.Projection(np.eye(4, 2)), method=SwapSearch())


@pytest.mark.parametrize("kind", HARD_KINDS)
@pytest.mark.parametrize("sample", [60, 4096])
def test_more_starts_are_never_worse(kind, sample):
    for seed in range(3):
        A = hard_clusters(kind, 150, 12, 6, np.random.default_rng(seed)).A
        problem = ONMF(A, 6)
        values = [
            op.solve(
                problem, method=SwapSearch(n_init=m, sample=sample, seed=seed), with_bound=False
            ).value
            for m in (1, 2, 5)
        ]
        rounding = 1e-14 * problem.total
        assert values[0] >= values[1] - rounding
        assert values[1] >= values[2] - rounding


@pytest.mark.parametrize("sample", [60, 4096])
def test_never_worse_than_the_point_it_is_given(sample, rng):
    for _ in range(5):
        problem = ONMF(hard_clusters("pareto", 120, 10, 5, rng).A, 5)
        X0 = problem.refine(random_stiefel_plus(120, 5, rng))
        found = op.solve(problem, X0, method=SwapSearch(n_init=1, sample=sample))
        assert found.value <= problem.value(X0) + 1e-12 * problem.total


def test_a_small_sample_sees_the_rows_that_matter(rng):
    A = 1e-3 * rng.random((2000, 8))
    A[[17, 903, 1500]] = 10.0 * np.eye(3, 8)  # nearly all of the squared norm
    result = op.solve(ONMF(A, 3), method=SwapSearch(sample=40))
    assert len(set(result.labels[[17, 903, 1500]])) == 3
    squares = (A**2).sum(axis=1)
    assert result.value <= squares.sum() - squares[[17, 903, 1500]].sum()


def test_a_sample_of_the_rows_misses_little_of_heavy_tails():
    A = hard_clusters("pareto", 1200, 15, 8, np.random.default_rng(5)).A
    problem = ONMF(A, 8)
    all_rows, some = (op.solve(problem, method=SwapSearch(sample=m)).value for m in (4096, 300))
    assert some <= 1.05 * all_rows


def test_passes_over_data_in_blocks_are_few(rng):
    A = in_blocks(
        random_stiefel_plus(900, 5, rng) @ rng.random((5, 20)) + 1e-3 * rng.random((900, 20)), 100
    )
    with mock.patch.object(Stored, "blocks", autospec=True, side_effect=Stored.blocks) as passes:
        result = op.solve(ONMF(A, 5), method=SwapSearch(sample=200))
    assert result.success
    assert passes.call_count <= 25


def test_one_pass_settles_as_a_power_step_of_all_groups(rng):
    A, V = rng.random((40, 6)), unit_rows(rng.random((3, 6)))
    W, squares, counts = power_step(in_blocks(A), V)
    labels = (A @ V.T).argmax(axis=1)
    scores = (A @ V.T).max(axis=1)
    for j in range(3):
        np.testing.assert_allclose(W[j], scores[labels == j] @ A[labels == j])
        assert squares[j] == pytest.approx((scores[labels == j] ** 2).sum())
        assert counts[j] == (labels == j).sum()


def test_settled_directions_explain_more_than_they_did(rng):
    problem = ONMF(rng.random((80, 7)) ** 3, 4)
    V = unit_rows(rng.random((4, 7)))
    before = power_step(problem.A, V)[1].sum()
    found = alternate_directions(problem, V)
    assert found.explained >= before
    assert found.explained <= problem.total - alternate_from(problem, found).value + 1e-12


def test_a_refined_sketch_keeps_the_sum_of_exact_directions(rng):
    A = rng.random((60, 30)) ** 3
    problem = ONMF(A, 4)
    first = sketch_rows(problem, 10, 4096, 0)
    V = alternate_directions(problem, unit_rows(rng.random((4, 30)))).directions
    B, basis, _ = refined_sketch(first, V, problem.A)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    explained = (np.maximum(B @ (V @ basis).T, 0.0).max(axis=1) ** 2).sum()
    assert explained == pytest.approx(power_step(problem.A, V)[1].sum(), rel=1e-12)


@pytest.mark.parametrize("levels", [1, 2, 5, 1000])
def test_order_of_sketched_rows_is_lexicographic(levels, rng):
    B = rng.integers(levels, size=(60, 4)).astype(float)
    np.testing.assert_array_equal(order_of_rows(B), np.lexsort(B.T[::-1]))


@pytest.mark.parametrize("sample", [50, 4096])
def test_a_round_that_loses_on_all_rows_is_undone(sample, rng):
    """Swaps that gain in a sketch of some rows may lose on the others."""
    means = np.eye(4, 10) + 0.1
    A = means[np.arange(200) % 4] * (1.0 + 0.1 * rng.random((200, 1)))
    A += 0.05 * rng.random(A.shape)
    real = SwapSearch._swap

    def spoil(self, problem, state):
        """Merge two groups and split another one: no move of a single row leaves that point."""
        state = real(self, problem, state)
        if state.n_rounds == 0:
            return state
        merged = np.array([means[0] + means[1], means[2], A[3], A[7]])
        centers = unit_rows(merged @ state.fine_basis)
        return state._replace(centers=centers, n_trials=10**6, n_failures=10**5)

    method = SwapSearch(n_init=1, sample=sample)
    labels = np.array([0, 0, 1, 2] * 25 + [0, 0, 1, 3] * 25)
    X0 = assemble(labels, 1.0 / np.sqrt(np.bincount(labels)[labels]), 4)
    with (
        mock.patch(f"{SEARCH}.can_cross", return_value=False),
        mock.patch.object(SwapSearch, "_swap", spoil),
    ):
        spoiled = op.solve(ONMF(A, 4), X0, method=method)
    whole = op.solve(ONMF(A, 4), X0, method=method)
    assert whole.value < 0.9 * alternate(ONMF(A, 4), X0)[1]
    assert spoiled.value == pytest.approx(whole.value, rel=1e-9)


def test_several_candidates_find_better_groups_than_one():
    rng = np.random.default_rng(0)
    # Eight clusters in two families, which can be joined to four groups in many ways.
    means = rng.random((2, 120))[np.arange(8) % 2] + 0.25 * rng.random((8, 120))
    A = means[rng.integers(8, size=1000)] * (0.5 + rng.random((1000, 1)))
    problem, sums = ONMF(A + 0.1 * rng.random(A.shape), 4), []
    for most in (1, 4):
        with (
            mock.patch("orthoplus.methods.search.sketch._MAX_CANDIDATES", most),
            mock.patch(f"{SEARCH}.can_cross", return_value=False),
        ):
            methods = [SwapSearch(n_init=2, seed=seed) for seed in range(8)]
            sums.append(sum(op.solve(problem, method=method).value for method in methods))
    assert sums[1] < 0.999 * sums[0]


@pytest.mark.parametrize(
    ("shape", "k", "rows"),
    [
        ((50_000, 20), 3, 4 * 4096),  # few centers and short rows
        ((50_000, 80), 10, 3 * 4096),
        ((50_000, 250), 3, 2 * 4096),  # longer rows
        ((50_000, 80), 30, 4096),  # many centers
        ((50_000, 5_000), 3, 4096),
    ],
)
def test_few_centers_and_short_rows_are_sampled_more_often(shape, k, rows):
    problem = mock.Mock(A=mock.Mock(shape=shape), shape=(shape[0], k))
    assert SwapSearch()._n_sampled(problem) == rows
