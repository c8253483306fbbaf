"""Branch and bound in the certified projection: what it closes, its budget, its symmetries."""

import itertools

import numpy as np
import pytest

import orthoplus as op
from orthoplus import kernels
from orthoplus.bench import projection_exact
from orthoplus.bench.table import Session
from orthoplus.core.status import Status
from orthoplus.projection import (
    branch,
    certify,
    core,
    lattice,
    passes,
    project_stiefel_plus,
    row_counts,
)
from orthoplus.projection.relaxed_node import Decisions, relax
from orthoplus.projection.search import evaluate


def greedy_counts(gains, n):
    """max sum_j sqrt(p_j n_j) over whole n_j >= 1 of sum n: the next row where it gains most."""
    counts = np.ones(len(gains))
    for _ in range(n - len(gains)):
        counts[np.argmax(np.sqrt(gains * (counts + 1.0)) - np.sqrt(gains * counts))] += 1.0
    return float(np.sqrt(gains * counts).sum())


@pytest.mark.parametrize("shape", [(31, 4), (103, 10), (1001, 20)])
def test_constant_matrices_are_dealt_out_evenly_with_a_proof(shape):
    n, k = shape
    result = op.project(np.ones(shape))
    assert result.status is Status.CERTIFIED
    assert result.value == pytest.approx(greedy_counts(np.ones(k), n), rel=1e-13)


@pytest.mark.parametrize("shape", [(50, 6), (203, 10), (37, 3)])
def test_equal_rows_are_interchangeable(shape):
    row = np.random.default_rng(shape[0]).random(shape[1]) + 0.2
    result = op.project(np.tile(row, (shape[0], 1)))
    assert result.status is Status.CERTIFIED
    assert result.value == pytest.approx(greedy_counts(row**2, shape[0]), rel=1e-13)
    assert result.n_iter <= 100  # not one node for each way to order the rows


@pytest.mark.parametrize("seed", range(4))
def test_few_kinds_of_rows_are_certified_or_nearly_so(seed):
    rng = np.random.default_rng(seed)
    C = rng.random((10, 5))[rng.integers(10, size=150)]
    usual, larger = op.project(C), op.project(C, max_passes=3000)
    assert usual.gap <= 1e-6
    assert larger.status is Status.CERTIFIED


@pytest.mark.parametrize("seed", range(5))
def test_binary_matrices_are_certified(seed):
    rng = np.random.default_rng(seed)
    C = (rng.random((int(rng.integers(11, 120)), int(rng.integers(2, 8)))) < 0.4).astype(float)
    result = op.project(C)
    assert result.status is Status.CERTIFIED
    # One row more or less in a column changes the value by more than rounding: check it exactly.
    counts = np.bincount(result.labels[result.labels >= 0], minlength=C.shape[1])
    assert result.value == pytest.approx(np.sqrt(counts).sum(), rel=1e-13)


@pytest.mark.parametrize("shape", [(60, 4), (200, 10), (500, 25)])
def test_matrices_of_rank_one_with_many_rows_per_column_are_certified(shape):
    rng = np.random.default_rng(shape[0])
    result = op.project(np.outer(rng.random(shape[0]), rng.random(shape[1]) + 0.5))
    assert result.status is Status.CERTIFIED


@pytest.mark.parametrize("seed", range(4))
def test_columns_without_positive_entry_are_branched_on(seed):
    rng = np.random.default_rng(seed)
    C = rng.random((40, 6)) * [1, 1, -1, 1, -1, -1]
    result = op.project(C)
    assert result.status is Status.CERTIFIED
    assert result.n_iter > 5  # the relaxation alone leaves a gap


@pytest.mark.parametrize("seed", range(3))
def test_whole_numbers_of_rows_bound_matrices_that_are_nearly_constant(seed):
    C = 1.0 + 1e-3 * np.random.default_rng(seed).standard_normal((31, 4))
    found, search = open_problem(C)
    assert row_counts.rows_almost_decide(found)
    relaxed = relax(found, Decisions(), 1e-12)
    sharper = row_counts.solve_row_counts(found, relaxed)
    # 7 or 8 rows for each column and no broken number: almost all of the gap.
    assert search.best.value <= sharper.bound
    assert sharper.bound - search.best.value < 0.05 * (relaxed.bound - search.best.value)


def test_gains_that_differ_do_not_let_the_number_of_rows_decide():
    found, _ = open_problem(np.random.default_rng(0).random((80, 8)))
    assert not row_counts.rows_almost_decide(found)


KINDS = {
    "nearly constant": lambda rng, n, k: 1.0 + 1e-2 * rng.standard_normal((n, k)),
    "normal": lambda rng, n, k: rng.standard_normal((n, k)),
    "rank one": lambda rng, n, k: np.outer(rng.random(n), rng.random(k)),
    "binary": lambda rng, n, k: (rng.random((n, k)) < 0.4).astype(float),
    "few kinds": lambda rng, n, k: rng.standard_normal((4, k))[rng.integers(4, size=n)],
    "negative column": lambda rng, n, k: rng.random((n, k)) * np.where(np.arange(k) == 0, -1, 1),
    "few positive": lambda rng, n, k: rng.random((n, k)) - 0.85,
    "contested": lambda rng, n, k: rng.random((n, k)) * (np.arange(n) < k + 1)[:, None] - 1e-3,
}


@pytest.mark.parametrize("kind", KINDS)
def test_branching_ends_at_the_optimum_over_all_assignments(kind):
    rng = np.random.default_rng(list(KINDS).index(kind))
    n_certified = 0
    for _ in range(12):
        n, k = int(rng.integers(11, 13)), int(rng.integers(2, 5))
        C = KINDS[kind](rng, n, k)
        optimum = evaluate(C, kernels.best_partition(C)).value  # O(3^n k): none of the bounds
        result = project_stiefel_plus(C, max_passes=3000)
        assert result.bound >= optimum - 1e-14 * result.size
        assert result.value <= optimum + 1e-13 * result.size
        if result.status is Status.CERTIFIED:
            assert result.value == pytest.approx(optimum, rel=1e-12, abs=1e-12 * result.size)
            n_certified += 1
    assert n_certified >= 10


@pytest.mark.parametrize("seed", [0, 2])
def test_a_larger_budget_closes_what_the_usual_one_leaves_open(seed):
    C = np.random.default_rng(seed).standard_normal((21, 20))
    usual, larger = op.project(C), op.project(C, max_passes=20_000)
    assert usual.status is Status.GAP_LEFT
    assert larger.status is Status.CERTIFIED
    assert larger.value >= usual.value
    assert larger.bound <= usual.bound
    assert usual.n_iter <= 102 < larger.n_iter


def test_the_gap_never_grows_with_the_budget():
    C = np.random.default_rng(3).random((60, 25))
    gaps = [op.project(C, max_passes=passes).gap for passes in (5, 20, 100, 400, 1000)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(gaps))


def test_a_time_limit_ends_branching_and_alone_lifts_the_limit_of_passes():
    C = np.random.default_rng(2).standard_normal((31, 30))
    short = op.project(C, time_limit=0.3)
    assert short.status is Status.GAP_LEFT  # without the limit: some thousand nodes
    assert short.bound >= short.value
    assert op.project(C, time_limit=1e-9).status is Status.GAP_LEFT
    small = np.random.default_rng(0).standard_normal((21, 20))
    assert op.project(small).status is Status.GAP_LEFT
    assert op.project(small, time_limit=np.inf).status is Status.CERTIFIED


def test_the_message_of_a_gap_names_what_closes_it():
    for option in ("`max_passes`", "`time_limit`", "`tol`"):
        assert option in Status.GAP_LEFT.message


def open_problem(C):
    maxima = kernels.column_maxima(C)
    search = passes.run(C, maxima, passes.start_search(C, maxima), passes.Budget(1e-12, 100))
    return core.open_core(C, maxima, search, 1 << 18)


def test_rows_that_are_equal_form_one_kind():
    rows = np.random.default_rng(0).random((3, 4))
    C = rows[np.repeat(np.arange(3), 11)]
    found, _ = open_problem(C)
    kinds = found.counts[np.cumsum(found.counts).astype(int) > (found.members < 0).sum()]
    assert set(kinds) <= {11.0}
    assert (found.members >= 0).sum() == kinds.sum()


def test_decisions_only_lower_the_bound_and_their_children_cover_the_parent():
    C = np.random.default_rng(1).standard_normal((21, 20))
    found, _search = open_problem(C)
    root = relax(found, Decisions(), 1e-12)
    split = branch._split(found, root)
    up, down = (
        relax(found, Decisions(limits=((side, split.pair, split.count + 1.0 - side),)), 1e-12)
        for side in (0, 1)
    )
    for child in (up, down):
        assert child.bound <= root.bound * (1.0 + 1e-12)
        low, high = child.limits
        assert ((low <= child.share) & (child.share <= high)).all()
    assert up.share[split.pair] >= split.count + 1.0
    assert down.share[split.pair] <= split.count
    best = project_stiefel_plus(C, max_passes=20_000).value
    assert max(up.bound, down.bound) >= best


def test_chords_bound_sums_on_a_lattice():
    C = np.random.default_rng(3).integers(0, 3, (40, 4)).astype(float)
    found, search = open_problem(C)
    sums = lattice.find_lattice(found)
    np.testing.assert_array_equal(sums.unit, 1.0)
    relaxed = relax(found, Decisions(), 1e-12)
    chords = lattice.solve_chords(sums, found, relaxed)
    assert search.best.value <= chords.bound < relaxed.bound


def test_gains_without_a_common_measure_have_no_lattice():
    found, _ = open_problem(np.random.default_rng(0).random((21, 20)))
    assert lattice.find_lattice(found) is None


@pytest.mark.parametrize("kind", projection_exact.KINDS)
def test_a_share_of_the_brute_force_check_finds_no_fault(kind, monkeypatch):
    monkeypatch.setattr(projection_exact, "QUICK_COUNT", 100)
    for method in projection_exact.METHODS:
        figures = projection_exact.check_kind(kind, method, Session(quick=True, seed=7))
        assert (figures["faults"], figures["note"]) == (0, "")
        assert figures["certified"] >= 96.0
    assert certify.TINY_ROWS == projection_exact.METHODS["all supports"]
