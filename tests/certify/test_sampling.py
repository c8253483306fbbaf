"""Bounds from random blocks: how often they fail, and that they are never called a proof."""

import numpy as np
import pytest
from every_partition import best_trace

import orthoplus as op
from orthoplus.certify import api, sampling
from orthoplus.certify.model import Model
from orthoplus.problems import ONMF, KMeans


def test_upper_mean_fails_no_more_often_than_it_says(rng):
    draws = rng.random((2000, 30)) < 0.1
    fails = [sampling.upper_mean(draw.astype(float), 0.9) < 0.1 for draw in draws]
    assert np.mean(fails) <= 0.1


@pytest.mark.parametrize("problem_type", [ONMF, KMeans])
def test_sampled_bound_holds_about_as_often_as_it_says(problem_type, rng, monkeypatch):
    monkeypatch.setattr(sampling, "_FEWEST_ROWS", 4)
    monkeypatch.setattr(sampling, "_MOST_ROWS", 4)
    # The clock stands still: how many blocks are drawn, and all of them are, whatever the load.
    monkeypatch.setattr(sampling, "perf_counter", lambda: 0.0)
    n_failed = 0
    for seed in range(10):
        A = rng.random((9, 3)) + 2.0 * np.eye(3)[np.arange(9) % 3]
        model = Model(problem_type(A, 2))
        point = model.refine(np.arange(9) % 2)
        best = best_trace(model.dense(), 2, has_row_sums=model.has_row_sums)
        generator = np.random.default_rng(seed)
        n_failed += sampling.sampled_bound(model, point, 0.8, 0.005, generator) < best
    assert n_failed <= 3


def test_sampled_certificate_is_not_a_proof(rng, monkeypatch):
    monkeypatch.setattr(api, "MOST_DENSE_ROWS", 100)
    A = rng.random((2000, 5))
    problem = ONMF(A, 3)
    certificate = op.certify(problem, np.arange(2000) % 3, time_limit=2.0, confidence=0.95, rng=1)
    assert certificate.history[-1].kind in ("spectral", "closed form", "sampled")
    if certificate.kind == "sampled":
        assert certificate.confidence == 0.95
        assert not certificate.is_optimal
        assert "not a proof" in certificate.message
        assert not certificate.verify()


def test_row_residuals_add_up_to_the_value(rng):
    A = rng.random((50, 4)).astype(np.float32)
    model = Model(ONMF(A, 3))
    point = model.refine(np.arange(50) % 3)
    total = sampling.row_residuals(model, point).sum() * model.unit
    assert total == pytest.approx(model.value_of(point), rel=1e-9)  # float64 sums of float32 data
