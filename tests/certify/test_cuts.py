"""The inequalities that the relaxation adds: they hold, help, and are checked."""

from dataclasses import replace

import numpy as np
import pytest
from every_partition import best_trace

import orthoplus as op
from orthoplus.certify import api
from orthoplus.certify.branch import value_of
from orthoplus.certify.cuts import Cuts, ratio_bounds
from orthoplus.certify.relaxation import Relaxation
from orthoplus.problems import ONMF
from waiting import PATIENCE

KINDS = {
    "uniform": lambda rng: rng.random((6, 3)),
    "ties": lambda rng: rng.integers(0, 3, (6, 2)).astype(float),
    "near each other": lambda rng: 1.0 + 0.2 * rng.random((6, 3)),
    "with zeros": lambda rng: rng.random((6, 3)) * (rng.random((6, 3)) < 0.6),
}


def every_triple(n):
    i, j, l = (part.ravel() for part in np.meshgrid(*3 * [np.arange(n)]))  # noqa: E741
    kept = (i != j) & (i != l) & (j < l)
    pairs = [(a, b, -1) for a in range(n) for b in range(n) if a != b]
    return np.vstack([np.stack([i, j, l], axis=1)[kept], pairs])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_cuts_hold_for_the_best_weights_of_every_partition(kind, seed):
    rng = np.random.default_rng(seed)
    A = KINDS[kind](rng)
    ratios = ratio_bounds(A @ A.T, 3)
    if ratios is None:
        pytest.skip("no useful ratio")
    cuts = every_triple(6)
    for _ in range(30):
        labels = rng.permutation(np.append(np.arange(3), rng.integers(3, size=3)))
        X = value_of(A @ A.T, labels, 3, has_row_sums=False).X
        Z = X @ X.T
        for i, j, l in cuts:  # noqa: E741
            one = Cuts(*(np.array([row]) for row in (i, j, l)), np.ones(1)).matrix(6, ratios)
            assert np.vdot(one, Z) <= 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_bounds_with_cuts_are_not_below_the_optimum(kind, seed):
    rng = np.random.default_rng(seed)
    A = KINDS[kind](rng)
    M, k = A @ A.T, 2
    relaxation = Relaxation(M, k, ratios=ratio_bounds(M, 3))
    best = best_trace(M, k)
    for _ in range(8):
        relaxation.advance(20)
        assert relaxation.upper_bound() >= best - 1e-12 * np.trace(M)


def test_cuts_close_more_of_the_gap_and_the_certificate_is_verified(rng):
    profiles = rng.random((3, 12))
    A = (rng.dirichlet(np.full(3, 0.7), 60) @ profiles) * rng.uniform(0.5, 1.0, (60, 1))
    M = A @ A.T
    bounds = []
    for ratios in (None, ratio_bounds(M, 12)):
        relaxation = Relaxation(M, 3, ratios=ratios)
        relaxation.advance(600)
        bounds.append(np.trace(M) - relaxation.upper_bound())
    assert bounds[1] > 1.01 * bounds[0]
    problem = ONMF(A, 3)
    certificate = op.certify(
        problem,
        op.solve(problem),
        time_limit=PATIENCE,
        callback=lambda found: found.kind == "relaxation" and len(found.proof[0].cuts) > 0,
    )
    assert certificate.verify()
    part = certificate.proof[0]
    larger = replace(certificate, proof=(part._replace(ratios=part.ratios * 1.05),))
    assert "larger than the data allow" in str(larger.verify().failures)
    negative = replace(certificate, proof=(part._replace(multipliers=-part.multipliers),))
    assert not negative.verify()


def test_data_of_any_sign_have_no_cuts(rng):
    A = rng.standard_normal((20, 3))
    problem = ONMF(A, 3, allow_negative=True)
    certificate = op.certify(
        problem, op.solve(problem), callback=lambda found: found.kind == "relaxation"
    )
    assert certificate.kind == "relaxation"
    assert len(certificate.proof[0].cuts) == 0


def test_text_like_data_have_no_useful_ratios(rng):
    A = rng.random((40, 200)) * (rng.random((40, 200)) < 0.05)
    assert ratio_bounds(A @ A.T, 200) is None


def test_cuts_tighten_the_relaxation_and_verify(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    # Mixtures of two profiles: the relaxation without cuts leaves a gap.
    share = np.sort(rng.random(60))[:, None]
    A = rng.uniform(0.5, 1.0, (60, 1)) * (share * [1.0, 0.2, 0.5] + (1 - share) * [0.2, 1.0, 0.6])
    A += 0.02 * rng.random(A.shape)
    problem = ONMF(A, 2)
    answer = op.solve(problem)
    monkeypatch.setattr(api, "_MOST_BRANCHED", 0)
    with_cuts = op.certify(
        problem, answer, time_limit=PATIENCE, callback=lambda found: found.gap < 0.02
    )
    monkeypatch.setattr(api, "_MOST_RATIOS", 0)
    without = op.certify(problem, answer, time_limit=PATIENCE)
    assert with_cuts.gap < 0.5 * without.gap
    assert len(with_cuts.proof[0].multipliers) > 0
    with_cuts.save(tmp_path / "proof.npz")
    check = op.Certificate.load(tmp_path / "proof.npz").verify(problem)
    assert check
    assert check.is_rigorous
    part = with_cuts.proof[0]
    tampered = part._replace(multipliers=2.0 * part.multipliers)
    object.__setattr__(with_cuts, "proof", (tampered,))
    assert not with_cuts.verify()
