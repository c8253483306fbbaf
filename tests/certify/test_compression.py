"""Compression: bounds that are valid, fall with every split, and can be checked."""

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from every_partition import random_labels
from test_certificates import k_means, onmf, pca, planted, signed_onmf, tiny_data

import orthoplus as op
from every_storage import STORAGES, in_blocks
from orthoplus.certify import api, micro_groups
from orthoplus.certify.between import Setting
from orthoplus.certify.closed_form import closed_form
from orthoplus.certify.compression import Compression, bounds_by_compression
from orthoplus.certify.factored import gram_sums
from orthoplus.certify.model import Model
from orthoplus.certify.relaxation import Relaxation
from orthoplus.certify.verify_compression import upper_compressed
from orthoplus.certify.verify_data import CheckedData
from orthoplus.data import as_data
from orthoplus.problems import ONMF, KMeans
from waiting import PATIENCE


def dense_multipliers(model, proof):
    """Return S, n x n, from the formulas."""
    base, micro, T = proof
    n = model.n
    A = model.factor.to_dense().astype(np.float64) * model.scale
    G = A @ base.centers
    S = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            a, b = base.labels[i], base.labels[j]
            if a < 0 or b < 0:
                continue
            v, w = base.levels[a, b] * base.weights[i] - G[i, b], 0.0
            w = base.levels[b, a] * base.weights[j] - G[j, a]
            if model.has_row_sums:
                v, w = v + G[i, a], w + G[j, b]
            if a != b:
                S[i, j] = base.couplings[a, b] * max(v, 0.0) * max(w, 0.0)
            S[i, j] += T[micro[i], micro[j]] * base.weights[i] * base.weights[j]
    return S


def eigenvalue_bound(model, S):
    """Return the bound of S by all eigenvalues of M + S, and 0."""
    H, k = model.dense() + S, model.k
    if not model.has_row_sums:
        return np.maximum(np.linalg.eigvalsh(H)[-k:], 0.0).sum()
    n = len(H)
    P = np.eye(n) - 1 / n
    values = np.linalg.eigvalsh(P @ H @ P - (1 + np.linalg.norm(H)) / n)
    return H.sum() / n + np.maximum(values[n - k + 1 :], 0.0).sum()


@pytest.mark.parametrize("model", [onmf, signed_onmf, pca, k_means])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_bounds_by_compression_are_valid_fall_and_follow_from_s(model, seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n = int(rng.integers(3, 7))
        k = min(int(rng.integers(1, 4)), n)
        problem, optimum, size = model(tiny_data(n, int(rng.integers(1, 4)), rng), k)
        own = Model(problem)
        point = own.refine(random_labels(n, k, rng))
        best, rounding = optimum(), 1e-12 * size + 1e-300
        uppers = []
        for upper, proof in bounds_by_compression(own, point, None, perf_counter() + 0.1):
            assert own.to_bound(upper) <= best + rounding
            S = dense_multipliers(own, proof)
            assert S.min() >= -1e-13 * max(np.abs(S).max(), 1.0)
            checked = upper_compressed(CheckedData(problem, own.unit), proof)
            # S_0 of a random partition may be large: then rounding is as well.
            exact, margin = eigenvalue_bound(own, S), 10 * checked.margin + 1e-12
            assert exact - 1e-12 * (1.0 + np.abs(S).max()) <= upper <= exact + margin
            assert abs(checked.total - upper) <= margin
            uppers.append(upper)
        assert uppers == sorted(uppers, reverse=True)


def between_groups(n, r, k, rng):
    """Return rows near k directions and rows between two of them, and labels."""
    A, labels = planted(n, r, k, 0.3, rng)
    A[: n // 5] += rng.random((n // 5, 1)) * A[rng.integers(n, size=n // 5)]
    return A, labels


@pytest.mark.parametrize("problem_type", [ONMF, KMeans])
def test_bound_with_a_micro_group_for_each_row_is_that_of_the_relaxation(problem_type, rng):
    A, labels = between_groups(20, 3, 3, rng)
    model = Model(problem_type(A, 3))
    point = model.refine(labels)
    setting = Setting(model, point)
    run = Compression(setting, setting.levels(0.0, 1.0), gram_sums(model))
    run.micro, run.groups, run.T = np.arange(20), point.labels, np.zeros((20, 20))
    run._look()
    run._Y = np.zeros((len(run.frame.K), 1))
    upper, _ = run.improve(np.inf, 1e-6)
    # T of single rows is any S: this is the relaxation, without its cuts.
    relaxation = Relaxation(model.dense(), 3, has_row_sums=model.has_row_sums)
    relaxation._add_cuts = lambda: None
    relaxation.advance(600)
    expected = relaxation.upper_bound()
    assert upper == pytest.approx(expected, abs=1e-2 * (run.bound(0.0 * run.T) - expected))


def test_compression_begins_at_the_closed_form(rng):
    A, labels = between_groups(40, 6, 3, rng)
    model = Model(ONMF(A, 3))
    point = model.refine(labels)
    *_, closed = closed_form(model, point)
    run = Compression(Setting(model, point), closed.proof.levels, gram_sums(model))
    assert run.bound(np.zeros((3, 3))) == pytest.approx(closed.upper, rel=1e-9)
    run.improve(np.inf, 0.03)
    before = run.upper
    assert before < closed.upper
    while run.split(np.inf):
        # The same S: T is copied to the parts of a micro group.
        assert run.bound(run.T) == pytest.approx(before, rel=1e-9)
        before = run.improve(np.inf, 0.03)[0]
    assert before < 0.5 * (closed.upper - model.trace(point)) + model.trace(point)


@pytest.fixture
def compressed(monkeypatch):
    """Let `certify` use nothing but compression after the closed form."""
    monkeypatch.setattr(api, "MOST_DENSE_ROWS", 50)
    monkeypatch.setattr(api, "can_be_cut", lambda model: False)


def certify_by_compression(problem):
    """Stop after a few improvements, however long they take."""
    return op.certify(
        problem, op.solve(problem), time_limit=PATIENCE, callback=lambda found: found.gap < 0.18
    )


@pytest.mark.parametrize("problem_type", [ONMF, KMeans])
def test_certificate_by_compression_verifies_and_is_saved(problem_type, compressed, rng, tmp_path):
    A, _ = between_groups(200, 6, 3, rng)
    problem = problem_type(A, 3)
    certificate = certify_by_compression(problem)
    assert certificate.kind == "compression"
    assert certificate.verify().is_rigorous
    certificate.save(tmp_path / "proof.npz")
    loaded = op.Certificate.load(tmp_path / "proof.npz")
    assert loaded.verify(problem)
    assert loaded.proof.multipliers.shape == certificate.proof.multipliers.shape


def test_tampered_compression_does_not_verify(compressed, rng):
    A, _ = between_groups(200, 6, 3, rng)
    problem = ONMF(A, 3)
    certificate = certify_by_compression(problem)
    proof = certificate.proof
    T, micro = proof.multipliers, proof.micro
    one_sided = T.copy()
    one_sided[0, 1] += 1.0
    other_group = next(i for i in range(200) if proof.base.labels[i] != proof.base.labels[0])
    mixed = np.where(np.arange(200) == 0, micro[other_group], micro)
    tampered = [
        proof._replace(multipliers=T - 0.01 * np.abs(T).max()),
        proof._replace(multipliers=1.1 * np.maximum(T, 0.0)),
        proof._replace(multipliers=one_sided),
        proof._replace(multipliers=np.full_like(T, np.nan)),
        proof._replace(multipliers=T[:-1, :-1]),
        proof._replace(micro=mixed),
        proof._replace(micro=np.roll(micro, 1)),
        proof._replace(base=proof.base._replace(weights=-proof.base.weights)),
        proof._replace(base=proof.base._replace(levels=0.5 * proof.base.levels)),
        proof._replace(base=proof.base._replace(couplings=-proof.base.couplings)),
    ]
    for broken in tampered:
        assert not replace(certificate, proof=broken).verify()
    assert not replace(certificate, bound=1.001 * certificate.bound).verify()
    with pytest.raises(op.InputError, match="different problem"):
        certificate.verify(ONMF(A + 0.01, 3))


@pytest.mark.parametrize("storage", STORAGES)
def test_same_bound_by_compression_in_every_storage(storage, rng, tmp_path):
    A, labels = between_groups(60, 4, 3, rng)
    data = in_blocks(A) if storage == "blocks" else as_data(STORAGES[storage](A, tmp_path))
    uppers = []
    for matrix in (A, data):
        model = Model(ONMF(matrix, 3))
        point = model.refine(labels)
        setting = Setting(model, point)
        run = Compression(setting, setting.levels(0.0, 1.0), gram_sums(model))
        for _ in range(3):
            run.improve(np.inf, 0.1)
            run.split(np.inf)
        uppers.append(run.upper)
        proof, problem = run.proof, model.problem
    assert uppers[1] == pytest.approx(uppers[0], rel=1e-6)  # iterations depend on rounding
    checked = upper_compressed(CheckedData(problem, model.unit), proof)
    assert checked.total == pytest.approx(uppers[1], rel=1e-9)


@pytest.mark.parametrize("problem_type", [ONMF, KMeans])
def test_sample_of_rows_proves_a_bound_for_all(problem_type, rng, monkeypatch):
    monkeypatch.setattr(micro_groups, "_MOST_SAMPLED", 60)
    A, labels = between_groups(400, 5, 3, rng)
    problem = problem_type(A, 3)
    model = Model(problem)
    point = model.refine(labels)
    first = next(closed_form(model, point)).upper
    found = list(bounds_by_compression(model, point, None, perf_counter() + PATIENCE))
    upper, proof = found[-1]
    assert model.trace(point) <= upper < 0.5 * (first - model.trace(point)) + model.trace(point)
    checked = upper_compressed(CheckedData(problem, model.unit), proof)
    assert checked.total == pytest.approx(upper, rel=1e-8)


def test_compression_does_not_depend_on_the_scale(rng):
    A, labels = between_groups(60, 4, 3, rng)
    bounds = []
    for scale in (1.0, 2.0**-40, 2.0**40):
        model = Model(ONMF(A * scale, 3))
        setting = Setting(model, model.refine(labels))
        run = Compression(setting, setting.levels(0.0, 1.0), gram_sums(model))
        run.improve(np.inf, 0.1)
        run.split(np.inf)
        bounds.append(run.improve(np.inf, 0.1)[0])
    assert bounds[0] == bounds[1] == bounds[2]  # powers of two change no digit
