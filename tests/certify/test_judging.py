"""Certificates of other answers to the same problem, and answers that a proof improves."""

from dataclasses import replace

import numpy as np
import pytest

import orthoplus as op
from orthoplus.problems import ONMF, KMeans, SymmetricONMF, TraceMin, nonnegative_pca
from waiting import PATIENCE


@pytest.fixture
def poor(rng):
    """A problem, and a certificate of labels that can be improved."""
    problem = KMeans(rng.standard_normal((30, 2)), 3)
    return problem, op.certify(problem, np.arange(30) % 3, time_limit=PATIENCE)


def test_a_poor_partition_is_improved_and_the_certificate_says_so(poor):
    problem, certificate = poor
    assert certificate.improved
    assert certificate.best_value == pytest.approx(problem.inertia(certificate.labels))
    assert "better partition" in certificate.message
    assert "better partition" in str(certificate)


def test_the_better_partition_is_judged_by_the_same_proof(poor):
    _, certificate = poor
    better = certificate.judge(certificate.labels)
    assert better.value == pytest.approx(certificate.best_value)
    assert better.bound == pytest.approx(certificate.bound)
    assert better.gap < certificate.gap
    assert not better.improved
    assert better.verify().value == pytest.approx(better.value)
    assert "better partition" not in str(better)


def test_a_worse_answer_keeps_the_better_labels(poor):
    problem, certificate = poor
    worse = certificate.judge(certificate.labels).judge(np.arange(30) // 10)
    assert worse.improved
    assert worse.value == pytest.approx(problem.inertia(np.arange(30) // 10))
    assert np.array_equal(worse.labels, certificate.labels)
    assert worse.gap == pytest.approx(worse.value / worse.bound - 1)


def test_agreement_is_that_of_the_judged_answer():
    A = np.array([[3.0, 0.1], [4.0, 0.0], [0.1, 2.0], [0.0, 3.0]])
    certificate = op.certify(ONMF(A, 2), [0, 1, 1, 1])
    assert certificate.agreement is None
    better = certificate.judge(certificate.labels)
    assert better.is_optimal
    assert better.agreement == 1.0


def test_solve_goes_on_from_a_certificate(rng):
    problem = ONMF(rng.random((40, 5)), 4)
    certificate = op.certify(problem, np.arange(40) % 4, callback=lambda found: found.improved)
    X = certificate.best_X()
    assert np.abs(X.T @ X - np.eye(4)).max() < 1e-12
    assert problem.value(X) == pytest.approx(certificate.best_value)
    assert op.solve(problem, X).value <= certificate.best_value * (1 + 1e-12)


def test_certificate_from_a_file_needs_its_problem_to_judge(poor, tmp_path):
    problem, certificate = poor
    certificate.save(tmp_path / "proof.npz")
    loaded = op.Certificate.load(tmp_path / "proof.npz")
    with pytest.raises(op.InputError, match="Pass the problem"):
        loaded.judge(loaded.labels)
    with pytest.raises(op.InputError, match="different problem"):
        loaded.best_X(KMeans(problem.A + np.arange(2) * np.arange(30)[:, None], 3))
    judged = loaded.judge(loaded.labels, problem)
    assert judged.gap == pytest.approx(certificate.judge(certificate.labels).gap)


KINDS = {
    "k-means": lambda A: KMeans(A, 2),
    "onmf": lambda A: ONMF(A, 2, allow_negative=True),
    "components": lambda A: nonnegative_pca(A, 2),
    "trace": lambda A: TraceMin(-A @ A.T, 2),
    "similarity": lambda A: SymmetricONMF(A @ A.T, 2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_bound_is_not_applied_to_another_problem(kind, rng):
    """The bound is used as it is, so that another f and any change of the data matter."""
    half = rng.integers(-5, 5, (200, 3)).astype(float)
    A = np.vstack([half, -half])  # centered exactly, as k-means does
    labels = np.arange(400) % 2
    certificate = op.certify(KINDS[kind](A), labels, callback=lambda found: True)
    assert certificate.judge(labels, KINDS[kind](np.asfortranarray(A))).value == certificate.value
    changed = A.copy()
    changed[7, 1] += 1e-6
    others = [make(A) for name, make in KINDS.items() if name != kind]
    for other in [KINDS[kind](changed), *others]:
        with pytest.raises(op.InputError, match="different problem"):
            certificate.judge(labels, other)


def test_a_bound_above_the_value_of_an_answer_is_an_error(poor):
    _, certificate = poor
    wrong = replace(certificate, bound=1.01 * certificate.best_value)
    with pytest.raises(ArithmeticError, match="bug in orthoplus"):
        wrong.judge(certificate.labels)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimator_takes_over_a_better_partition_only_if_asked_to():
    A = np.random.default_rng(3).random((60, 8))
    model = op.OrthogonalNMF(5, method="ep4orth", max_iter=1, random_state=3).fit(A)
    before, labels = model.result_.value, model.labels_.copy()
    certificate = model.certify(A, time_limit=PATIENCE, callback=lambda found: found.improved)
    assert certificate.improved
    assert model.result_.value == before
    assert np.array_equal(model.labels_, labels)
    model.improve(A, certificate)
    assert model.result_.value <= certificate.best_value * (1 + 1e-12) < before
    assert model.reconstruction_err_**2 == pytest.approx(model.result_.value)
    W = model.transform(A)
    assert ((A - W @ model.components_) ** 2).sum() == pytest.approx(model.result_.value)
    again = model.result_
    assert model.improve(A, certificate).result_ is again


def test_row_moves_of_the_former_partition_say_nothing_about_a_better_one():
    A = np.random.default_rng(1).random((40, 8))
    problem = ONMF(A, 6)
    model = op.OrthogonalNMF(6).fit(A)
    model.result_ = replace(model.result_, value=2.0 * model.result_.value, is_row_optimal=True)
    certificate = op.certify(problem, op.solve(problem), callback=lambda found: True)
    assert model.improve(A, certificate).result_.value <= certificate.value * (1 + 1e-12)
    assert model.result_.is_row_optimal is None
