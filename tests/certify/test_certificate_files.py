"""Certificates on disk, in every storage, and those that somebody has tampered with."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import orthoplus as op
from every_storage import STORAGES, in_blocks
from orthoplus.certify import api, blocks, refining
from orthoplus.certify.certificate import DensePart
from orthoplus.data import as_data
from orthoplus.problems import ONMF, KMeans, SymmetricONMF, TraceMin
from waiting import PATIENCE


def is_relaxation(found):
    return found.kind == "relaxation"


def separated(n, r, k, rng):
    labels = np.arange(n) % k
    return np.kron(np.eye(k), np.ones((1, r // k)))[labels] + 0.1 * rng.random((n, r)), labels


PROBLEMS = {
    "closed form": lambda A: ONMF(A, 3),
    "k-means": lambda A: KMeans(A, 3),
    "trace": lambda A: TraceMin(-A @ A.T, 3),
    "similarity": lambda A: SymmetricONMF(A @ A.T, 3),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_saved_certificate_verifies_against_its_problem(name, rng, tmp_path):
    A, labels = separated(60, 6, 3, rng)
    problem = PROBLEMS[name](A)
    certificate = op.certify(problem, labels, time_limit=PATIENCE)
    certificate.save(tmp_path / "proof.npz")
    loaded = op.Certificate.load(tmp_path / "proof.npz")
    assert loaded.verify(problem)
    assert str(loaded) == str(certificate)
    assert loaded.is_optimal
    assert loaded.agreement == certificate.agreement
    assert loaded.history == certificate.history
    with pytest.raises(op.InputError, match="Pass the problem"):
        loaded.verify()


def test_certificate_of_a_relaxation_is_saved_with_its_half(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(api, "_MOST_BRANCHED", 0)
    A = rng.random((30, 4))
    for problem in (ONMF(A, 3), KMeans(A, 3)):
        certificate = op.certify(
            problem, np.arange(30) % 3, time_limit=PATIENCE, callback=is_relaxation
        )
        assert certificate.kind == "relaxation"
        certificate.save(tmp_path / "proof.npz")
        loaded = op.Certificate.load(tmp_path / "proof.npz")
        assert loaded.verify(problem)
        assert len(loaded.proof[0].half) == 30 * 31 // 2


def test_certificate_of_another_problem_is_refused(rng, tmp_path):
    A, labels = separated(60, 6, 3, rng)
    certificate = op.certify(ONMF(A, 3), labels)
    for other in (ONMF(A + 0.01, 3), ONMF(A, 2), ONMF(A[:50], 3)):
        with pytest.raises(op.InputError, match="different problem"):
            certificate.verify(other)


def test_tampered_certificates_do_not_verify(rng):
    A, labels = separated(60, 6, 3, rng)
    certificate = op.certify(ONMF(A, 3), labels)
    better = replace(certificate, bound=certificate.bound * 1.01)
    assert "The proof gives the bound" in better.verify().failures[0]
    cheaper = replace(certificate, value=certificate.value * 0.99)
    assert "The value of the answer" in cheaper.verify().failures[0]
    couplings = -certificate.proof.couplings
    assert not replace(certificate, proof=certificate.proof._replace(couplings=couplings)).verify()
    weaker = certificate.proof._replace(levels=0.5 * certificate.proof.levels)
    assert not replace(certificate, proof=weaker).verify()


def test_tampered_claims_do_not_verify(rng, tmp_path):
    """Everything that a certificate says is checked, not only what the proof proves."""
    problem = ONMF(rng.random((12, 4)), 3)
    stop = {"callback": lambda found: found.kind == "closed form", "time_limit": PATIENCE}
    answered = op.certify(problem, op.solve(problem), **stop)
    improved = op.certify(problem, np.arange(12) % 3, callback=lambda found: found.improved)
    assert not answered.improved
    assert answered.gap > 1e-3
    assert improved.improved
    other = np.roll(improved.labels, 1)
    for certificate, claims in [
        (answered, {"gap": 0.0}),
        (answered, {"gap": 0.5 * answered.gap}),
        (answered, {"gap": None}),
        (answered, {"bound": 0.5 * answered.bound}),
        (answered, {"best_value": 0.9 * answered.value}),
        (answered, {"best_value": 0.9 * answered.value, "improved": True}),
        (answered, {"labels": np.roll(answered.labels, 1)}),
        (improved, {"best_value": 0.99 * improved.best_value}),
        (improved, {"improved": False}),
        (improved, {"labels": other}),
        (improved, {"gap": 0.0}),
    ]:
        certificate.save(tmp_path / "right.npz")
        assert op.Certificate.load(tmp_path / "right.npz").verify(problem)
        replace(certificate, **claims).save(tmp_path / "wrong.npz")
        assert not op.Certificate.load(tmp_path / "wrong.npz").verify(problem), claims


def test_tampered_half_does_not_verify(rng, monkeypatch):
    monkeypatch.setattr(api, "_MOST_BRANCHED", 0)
    A = rng.random((30, 4))
    certificate = op.certify(
        ONMF(A, 3), np.arange(30) % 3, time_limit=PATIENCE, callback=is_relaxation
    )
    (part,) = certificate.proof
    for half in (-part.half, 0.5 * part.half):
        assert not replace(certificate, proof=(part._replace(half=half),)).verify()


def test_proofs_of_something_else_do_not_verify(rng):
    """A poor answer is claimed to be optimal, with proofs whose bounds are far too large."""
    labels = np.arange(30) % 3
    A = rng.random((30, 4))
    no_cuts = {
        "cuts": np.zeros((0, 3), int),
        "multipliers": np.zeros(0),
        "ratios": np.zeros((0, 2)),
    }
    none = DensePart(rows=np.zeros(0, int), half=np.zeros(0), **no_cuts)
    for problem in (ONMF(A, 3), KMeans(A, 3), TraceMin(-A @ A.T, 3)):
        poor = op.certify(problem, labels, callback=lambda found: True).judge(labels)
        assert poor.verify()
        claims = {"bound": poor.value, "gap": 0.0, "best_value": poor.value, "improved": False}
        lie = replace(poor, **claims, labels=poor.answer)
        assert lie.is_optimal
        for changes in (
            *({"unit": poor.unit * factor} for factor in (1e-20, 1e16, 1e20, 1e300)),
            *({"proof": (none._replace(rows=np.arange(m)),)} for m in (3, 6, 29)),
            {"proof": (none._replace(rows=np.full(3, 0)),)},
            {"proof": ()},
            {"proof": (none._replace(half=np.ones(5)),)},
            {"proof": (none._replace(half=np.full(465, np.inf)),)},
        ):
            with np.errstate(all="ignore"):
                assert not replace(lie, **changes).verify(), changes


def test_damaged_file_is_refused_in_words(tmp_path):
    (tmp_path / "proof.npz").write_bytes(b"nothing")
    with pytest.raises(op.InputError, match="not a certificate"):
        op.Certificate.load(tmp_path / "proof.npz")
    with pytest.raises(FileNotFoundError):
        op.Certificate.load(tmp_path / "missing.npz")


@pytest.mark.parametrize("storage", STORAGES)
def test_same_certificate_in_every_storage(storage, rng, tmp_path):
    A, labels = separated(90, 6, 3, rng)
    expected = op.certify(ONMF(A, 3), labels, time_limit=PATIENCE)
    data = in_blocks(A) if storage == "blocks" else as_data(STORAGES[storage](A, tmp_path))
    problem = ONMF(data, 3)
    certificate = op.certify(problem, labels, time_limit=PATIENCE)
    assert certificate.is_optimal
    assert certificate.kind == "closed form"
    assert certificate.bound == pytest.approx(expected.bound, rel=1e-11)  # other orders of sums
    assert certificate.verify()
    assert expected.verify(problem)


def test_operator_and_float32_are_certified(rng):
    A, labels = separated(90, 6, 3, rng)
    certificate = op.certify(ONMF(aslinearoperator(A), 3), labels)
    assert certificate.is_optimal
    assert certificate.verify()
    single = op.certify(ONMF(A.astype(np.float32), 3), labels)
    assert single.is_optimal
    assert single.verify()


@pytest.mark.parametrize("problem_type", [ONMF, KMeans])
def test_blocks_bound_the_whole_and_verify(problem_type, rng, monkeypatch, tmp_path):
    monkeypatch.setattr(api, "MOST_DENSE_ROWS", 50)
    monkeypatch.setattr(api, "can_be_compressed", lambda model: False)
    monkeypatch.setattr(blocks, "_MOST_ROWS", 60)
    monkeypatch.setattr(refining, "_MOST_MERGED", 0)
    monkeypatch.setattr(api, "fits_in_memory", lambda model: False)
    A, _ = separated(150, 6, 3, rng)
    A += 3.0 * rng.random(A.shape)  # no closed form closes the gap
    problem = problem_type(A, 3)
    answer = op.solve(problem)
    certificate = op.certify(
        problem, answer, time_limit=60.0, callback=lambda found: found.kind == "blocks"
    )
    assert certificate.bound <= certificate.best_value
    assert certificate.kind == "blocks"
    assert len(certificate.proof) == 3
    certificate.save(tmp_path / "proof.npz")
    assert op.Certificate.load(tmp_path / "proof.npz").verify(problem)
    assert not replace(certificate, proof=certificate.proof[:2]).verify()
