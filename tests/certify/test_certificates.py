"""Certificates against brute force: no bound above the optimum, no false proof."""

from time import perf_counter

import numpy as np
import pytest
from every_partition import best_trace, random_labels

import orthoplus as op
from orthoplus.certify import eigenvalues, verify_bounds
from orthoplus.certify.api import Search
from orthoplus.certify.between import alternate
from orthoplus.certify.closed_form import closed_form
from orthoplus.certify.model import Model
from orthoplus.problems import ONMF, KIndicators, KMeans, SymmetricONMF, TraceMin, nonnegative_pca


def tiny_data(n, r, rng):
    """Return rows of any kind: random, with zeros, ties, duplicates, of any scale and dtype."""
    A = rng.random((n, r)) if rng.random() < 0.7 else rng.integers(0, 3, (n, r)).astype(float)
    if rng.random() < 0.3:
        A[rng.random((n, r)) < 0.5] = 0.0
    if rng.random() < 0.3:
        A[rng.integers(n)] = A[rng.integers(n)]
    if rng.random() < 0.2:
        A[rng.integers(n)] = 0.0
    if rng.random() < 0.3:  # separated groups: proofs succeed
        A = np.kron(np.eye(3), np.ones((n // 3 + 1, 2)))[:n, :r] + 0.05 * A
    A = A * 10.0 ** rng.choice([-12, 0, 0, 12])
    return A.astype(np.float32 if rng.random() < 0.2 else np.float64)


def onmf(A, k):
    A64 = A.astype(np.float64)
    return ONMF(A, k), lambda: float((A64**2).sum()) - best_trace(A64 @ A64.T, k), (A64**2).sum()


def signed_onmf(A, k):
    A = A - np.float64(0.6) * A.max()
    best = lambda: float((A**2).sum()) - best_trace(A @ A.T, k)  # noqa: E731
    return ONMF(A, k, allow_negative=True), best, (A**2).sum()


def pca(A, k):
    A = A - np.float64(0.3) * A.max()
    return nonnegative_pca(A, k), lambda: -best_trace(A @ A.T, k), (A**2).sum()


def k_means(A, k):
    problem = KMeans(A, k)
    B = problem.A
    total = float((B**2).sum())
    return problem, lambda: total - best_trace(B @ B.T, k, has_row_sums=True), total


def trace_min(A, k):
    rng = np.random.default_rng(A.shape[1])
    M = (A @ A.T).astype(np.float64)
    M = M - rng.random() * 2 * M.mean()
    return TraceMin(M, k), lambda: -best_trace(-M, k), np.abs(M).sum()


def symmetric_onmf(A, k):
    M = (A @ A.T).astype(np.float64)
    size = (M**2).sum() + k
    return SymmetricONMF(M, k), lambda: (M**2).sum() + k - 2 * best_trace(M, k), size


MODELS = [onmf, signed_onmf, pca, k_means, trace_min, symmetric_onmf]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_bound_is_not_above_the_optimum(model, seed):
    rng = np.random.default_rng(seed)
    n_proven = 0
    for _ in range(16):
        n, r, k = int(rng.integers(2, 7)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
        k = min(k, n)
        A = tiny_data(n, r, rng)
        problem, optimum, size = model(A, k)
        labels = random_labels(n, k, rng)
        certificate = op.certify(problem, labels, time_limit=0.5)
        best = optimum()
        rounding = 1e-12 * size + 1e-300
        assert certificate.bound <= best + rounding
        assert certificate.value >= best - rounding
        if certificate.is_optimal:
            assert certificate.value <= best + 1e-7 * abs(best) + rounding
            n_proven += 1
        assert certificate.verify()
    assert n_proven > 0


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_bound_of_k_indicators_is_not_above_the_value_of_any_labels(seed):
    rng = np.random.default_rng(seed)
    for _ in range(6):
        U = np.linalg.qr(rng.standard_normal((6, 2)))[0] * 10.0 ** rng.choice([-3, 0, 3])
        problem = KIndicators(U)
        certificate = op.certify(problem, random_labels(6, 2, rng), time_limit=0.1)
        best = min(op.solve(problem, rng=s).value for s in range(3))
        assert certificate.bound <= best + 1e-12 * (problem.value(np.eye(6, 2)) + 2)
        assert certificate.verify()


def planted(n, r, k, noise, rng):
    """Return rows near k directions, with weights between 1/2 and 1, and their labels."""
    labels = np.arange(n) % k
    A = rng.uniform(0.5, 1.0, (n, 1)) * rng.random((k, r))[labels]
    D = np.abs(rng.standard_normal((n, r)))
    return A + noise * np.linalg.norm(A) / np.linalg.norm(D) * D, labels


@pytest.mark.parametrize("noise", [0.001, 0.05, 0.1])
@pytest.mark.parametrize("r", [20, 300])
def test_closed_form_proves_planted_groups_optimal(noise, r, rng):
    A, labels = planted(200, r, 5, noise, rng)
    certificate = op.certify(ONMF(A, 5), labels)
    assert certificate.is_optimal
    assert certificate.kind == "closed form"
    assert certificate.verify()
    assert "proven optimal" in str(certificate)


def test_closed_form_proves_separated_clusters_optimal(rng):
    labels = np.arange(300) % 4
    A = 10.0 * np.eye(4)[labels] + 0.3 * rng.standard_normal((300, 4))
    certificate = op.certify(KMeans(A, 4), labels)
    assert certificate.is_optimal
    assert certificate.kind == "closed form"
    assert certificate.verify()


def test_wrong_labels_are_not_proven_optimal(rng):
    A, labels = planted(100, 10, 4, 0.05, rng)
    labels[0] = (labels[0] + 1) % 4
    certificate = Search(ONMF(A, 4), labels, deadline=perf_counter() + 5.0)
    for _ in certificate.steps():
        pass
    assert not certificate.certificate().is_optimal


@pytest.mark.parametrize("problem_type", [ONMF, KMeans])
@pytest.mark.parametrize("order", [pytest.param(0, marks=pytest.mark.slow), 450])
def test_all_ways_to_the_eigenvalues_agree(problem_type, order, rng, monkeypatch):
    # With the limit at 0 the eigenvalues come from products, with 450 from the n x n matrix.
    A, labels = planted(420, 6, 3, 0.1, rng)
    if problem_type is KMeans:
        A = 5.0 * np.eye(3)[labels] + 0.3 * A[:, :3]
    problem = problem_type(A, 3)
    expected = op.certify(problem, labels)
    monkeypatch.setattr(eigenvalues, "is_narrow", lambda model: False)
    monkeypatch.setattr(eigenvalues, "MOST_DENSE_ORDER", order)
    monkeypatch.setattr(verify_bounds, "_MOST_ORDER", 0)
    monkeypatch.setattr(verify_bounds, "_MOST_ROWS", order)
    certificate = op.certify(problem, labels)
    assert certificate.kind == expected.kind == "closed form"
    assert certificate.is_optimal
    assert certificate.bound == pytest.approx(expected.bound, rel=1e-9)  # margins differ
    verified = certificate.verify()
    assert verified
    assert verified.is_rigorous == (order > 0)


def test_bound_is_valid_when_the_leading_eigenvalues_nearly_coincide():
    A = np.array([[0, 0, 1], [0, 0, 1], [1, 0, 0], [0, 1, 2], [0, 1, 0.0]])
    certificate = op.certify(KMeans(A, 3), [2, 2, 1, 0, 1], time_limit=1.0)
    assert certificate.bound <= 1.0 + 1e-12  # the optimum, by all partitions


@pytest.mark.parametrize("model", [onmf, signed_onmf, pca, k_means])
@pytest.mark.parametrize("is_narrow", [True, False])
def test_closed_form_is_valid_by_factors_and_densely(model, is_narrow, rng, monkeypatch):
    monkeypatch.setattr(eigenvalues, "is_narrow", lambda model: is_narrow)
    for _ in range(20):
        n, k = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        A = tiny_data(n, int(rng.integers(1, 4)), rng)
        problem, optimum, size = model(A, min(k, n))
        own = Model(problem)
        point = own.refine(alternate(own, random_labels(n, min(k, n), rng)))
        best = optimum()
        for found in closed_form(own, point):
            assert own.to_bound(found.upper) <= best + 1e-12 * size + 1e-300
