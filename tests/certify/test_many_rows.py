"""Blocks, their refinement, and all rows at once: every bound holds and verifies."""

from itertools import pairwise
from threading import Event
from time import perf_counter

import numpy as np
import pytest

import orthoplus as op
from orthoplus.certify import (
    api,
    blocks,
    coarse,
    refining,
    relaxation,
    spectral_bound,
    verify_bounds,
)
from orthoplus.certify.coarse import CoarseStart, split_rows
from orthoplus.certify.model import Model
from orthoplus.certify.relaxation import Relaxation
from orthoplus.problems import ONMF, KMeans
from waiting import PATIENCE


def mixtures(n, rng):
    """Rows between three profiles: no closed form closes the gap."""
    shares = rng.dirichlet([0.3, 0.3, 0.3], n)
    A = shares @ rng.random((3, 8)) + 0.05 * rng.random((n, 8))
    return rng.uniform(0.5, 1.0, (n, 1)) * A


@pytest.fixture
def small(monkeypatch):
    """Let 120 rows be many: blocks of 40, float32, and bounds by a factorization."""
    monkeypatch.setattr(api, "MOST_DENSE_ROWS", 50)
    monkeypatch.setattr(blocks, "_FEWEST_ROWS", 40)
    monkeypatch.setattr(blocks, "_MOST_ROWS", 40)
    monkeypatch.setattr(relaxation, "DOUBLE_ORDER", 30)
    for module in (relaxation, spectral_bound):
        monkeypatch.setattr(module, "ALL_ORDER", 30)
    monkeypatch.setattr(verify_bounds, "_ALL_ROWS", 30)


def is_relaxation(found):
    return found.kind == "relaxation"


@pytest.mark.parametrize("problem_type", [ONMF, KMeans])
def test_all_rows_at_once_are_bounded_and_verify(problem_type, small, rng, monkeypatch, tmp_path):
    monkeypatch.setattr(CoarseStart, "favors_all_rows", lambda self, rows: True)
    monkeypatch.setattr(api, "_MOST_RATIOS", 0)
    monkeypatch.setattr(api, "can_be_compressed", lambda model: False)
    problem = problem_type(mixtures(120, rng), 3)
    monkeypatch.setattr(api, "_COARSE_SHARES", (1e-3, 2e-3))  # of a limit that is never reached
    certificate = op.certify(
        problem,
        op.solve(problem),
        time_limit=PATIENCE,
        callback=is_relaxation,
    )
    assert certificate.kind == "relaxation"
    assert certificate.proof[0].half.dtype == np.float32
    assert certificate.bound <= certificate.best_value
    certificate.save(tmp_path / "proof.npz")
    check = op.Certificate.load(tmp_path / "proof.npz").verify(problem)
    assert check
    assert check.is_rigorous
    # That of the saved S, up to what approximate eigenvectors lose.
    assert check.bound == pytest.approx(certificate.bound, rel=1e-3)


@pytest.mark.parametrize("problem_type", [ONMF, KMeans])
def test_bounds_by_blocks_fall_and_hold_every_row(problem_type, rng, monkeypatch):
    monkeypatch.setattr(blocks, "_FEWEST_ROWS", 20)
    monkeypatch.setattr(blocks, "_MOST_ROWS", 20)
    problem = problem_type(mixtures(80, rng), 2)
    model = Model(problem)
    answer = op.solve(problem)
    point = model.refine(answer.labels)
    found = list(refining.bounds_by_blocks(model, point, perf_counter() + 1.0))
    totals = [upper for upper, _ in found]
    assert all(later <= earlier for earlier, later in pairwise(totals))
    assert totals[-1] >= model.trace(point)
    for _, parts in found:
        assert np.array_equal(np.sort(np.concatenate([p.rows for p in parts])), np.arange(80))
    assert len(found[0][1]) == 4
    # The first bound is by singular values of the blocks, better than their squares.
    assert totals[0] < 0.999 * model.size


def test_merged_block_replaces_its_parents_once_it_is_better(rng):
    problem = ONMF(mixtures(60, rng), 3)
    model = Model(problem)
    point = model.refine(op.solve(problem).labels)
    rows = blocks.cut_rows(point.labels, point.weights, 3)
    parts, stop = [blocks.Block(model, point, own) for own in rows], Event()
    plan = refining._Plan(parts, 1.0, 1.0)
    assert not plan.merge(model, point)  # none is done
    for block in parts:
        block.improve(0.2, perf_counter() + 0.2, stop)
        block.release()
    before = refining._total(plan.blocks)[0]
    assert plan.merge(model, point)
    assert not plan.merge(model, point)  # one is left
    merged = plan.next()
    assert len(merged.rows) == 40
    plan.back(merged)
    assert plan.blocks == parts  # the spectral bound is not better
    merged = plan.next()
    while merged.found.upper >= sum(block.found.upper for block in plan.parents[id(merged)]):
        merged.improve(0.2, np.inf, stop)
    plan.back(merged)
    after, found = refining._total(plan.blocks)
    assert after < before
    assert after >= model.trace(point)
    assert np.array_equal(np.sort(np.concatenate([part.rows for part in found])), np.arange(60))


def test_time_goes_to_the_block_whose_bound_falls_fastest():
    class Stub:
        def __init__(self, rate, loss, is_done=False):
            self.rate, self.loss, self.is_done = rate, loss, is_done

    slow, fast, done = Stub(1.0, 9.0), Stub(2.0, 1.0), Stub(5.0, 5.0, is_done=True)
    new, newer = Stub(np.inf, 1.0), Stub(np.inf, 2.0)
    plan = refining._Plan([slow, fast, done, new, newer], 3.0, 1.0)
    taken = [plan.next() for _ in range(5)]
    assert taken == [newer, new, fast, slow, None]
    assert plan.seconds(new) == 3.0
    assert plan.seconds(fast) == 1.0


def test_groups_of_alike_rows_cannot_be_better_than_all_rows(rng, monkeypatch):
    def run_iterations(relaxation, target, deadline, find_ratios=None):
        """Go on as far on every machine."""
        if find_ratios is not None:
            relaxation.use_ratios(find_ratios())
        relaxation.advance(300)
        yield relaxation.upper_bound()

    monkeypatch.setattr(coarse, "run_relaxation", run_iterations)
    problem = ONMF(mixtures(90, rng), 3)
    model = Model(problem)
    point = model.refine(op.solve(problem).labels)
    start = CoarseStart(model, point, (np.inf, np.inf))
    assert start.cut_optimum <= start.optimum * (1 + 1e-3)
    D = np.zeros((90, start.groups.max() + 1))
    D[np.arange(90), start.groups] = start.scale
    assert np.allclose(D.T @ D, np.eye(D.shape[1]))
    T, penalty = start.lift()
    relaxation = Relaxation(model.dense(), 3)
    relaxation.start_from(T.astype(np.float64), penalty)
    relaxation.advance(300)
    assert relaxation.upper_bound() >= start.optimum * (1 - 1e-3)


@pytest.mark.parametrize("is_scaled", [False, True])
def test_rows_are_split_within_their_groups(is_scaled, rng):
    A = rng.random((50, 3))
    A[10:20], A[30] = A[10], 0.0
    labels = rng.integers(-1, 3, 50)
    groups = split_rows(A, labels, 12, is_scaled=is_scaled)
    assert len(np.unique(groups)) == 12
    assert len(set(zip(groups.tolist(), labels.tolist(), strict=True))) == 12
    single = split_rows(A, labels, 1000, is_scaled=is_scaled)
    assert len(np.unique(single)) <= 50
