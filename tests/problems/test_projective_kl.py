"""Projective NMF with the Kullback-Leibler divergence: values, where it is infinite, answers."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array, issparse
from scipy.sparse.linalg import aslinearoperator

import orthoplus as op
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.methods.refine import refine
from orthoplus.problems import KLONMF, ProjectiveKL


def divergence(A, M):
    """D(A || M) by its definition, 0 log 0 = 0."""
    total = 0.0
    for a, m in zip(A.ravel(), M.ravel(), strict=True):
        if a > 0:
            total += a * np.log(a / m) if m > 0 else np.inf
        total += m - a
    return total


def counts(rng, n=7, r=5):
    return rng.poisson(2.0, (n, r)) + 1.0 * np.eye(n, r)


@pytest.mark.parametrize("convert", [np.asarray, csr_array, csc_array])
def test_value_is_the_divergence_from_the_projection(convert, rng):
    A = counts(rng)
    problem = ProjectiveKL(convert(A), 3)
    assert issparse(problem.A.entries()) == (convert is not np.asarray)
    for X in (random_oblique_plus(7, 3, rng), random_stiefel_plus(7, 3, rng)):
        expected = divergence(A, X @ X.T @ A)
        assert problem.value(X) == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(problem.second_block(X), A.T @ X, rtol=1e-13)


def test_value_is_zero_where_the_data_are_a_projection_of_themselves(rng):
    X = random_stiefel_plus(8, 3, rng)
    A = X @ rng.random((3, 6))
    assert abs(ProjectiveKL(A, 3).value(X)) <= 1e-13
    assert ProjectiveKL(A, 3).value(random_stiefel_plus(8, 3, rng)) > 1e-3


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_sparse_and_float32_have_the_derivatives_of_dense_data(convert, rng):
    A, X, D = counts(rng), random_oblique_plus(7, 3, rng), rng.standard_normal((7, 3))
    dense = ProjectiveKL(A, 3)
    for dtype, tol in ((np.float64, 1e-12), (np.float32, 1e-4)):
        problem = ProjectiveKL(convert(A.astype(dtype)), 3)
        value, gradient = problem.value_and_gradient(X.astype(dtype))
        assert gradient.dtype == dtype
        assert value == pytest.approx(dense.value(X), rel=tol)
        size = np.abs(dense.value_and_gradient(X)[1]).max()
        np.testing.assert_allclose(gradient, dense.value_and_gradient(X)[1], atol=tol * size)
        product, wanted = problem.hessp(X.astype(dtype), D.astype(dtype)), dense.hessp(X, D)
        np.testing.assert_allclose(product, wanted, atol=tol * np.abs(wanted).max())


def test_blocks_of_rows_add_up(monkeypatch, rng):
    A, X, D = counts(rng), random_oblique_plus(7, 3, rng), rng.standard_normal((7, 3))
    whole = ProjectiveKL(A, 3)
    expected = whole.value(X), whole.value_and_gradient(X)[1], whole.hessp(X, D)
    monkeypatch.setattr("orthoplus.data.divergence.BLOCK_SIZE", 10)  # two rows at a time
    for got, wanted in zip(
        (whole.value(X), whole.value_and_gradient(X)[1], whole.hessp(X, D)), expected, strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_value_is_infinite_exactly_where_a_row_with_data_has_no_entry(rng):
    A = counts(rng)
    A[2] = 0.0
    problem = ProjectiveKL(A, 2)
    for row in range(7):
        X = random_stiefel_plus(7, 2, rng)
        X[row] = 0.0
        X /= np.linalg.norm(X, axis=0)
        value, gradient = problem.value_and_gradient(X)
        assert np.isinf(value) == (row != 2)
        assert value > 0
        assert np.isfinite(gradient).all()
    assert problem.value_lipschitz is None
    assert np.isfinite(problem.value(problem.start(np.random.default_rng(0))))


def test_no_answer_leaves_a_row_with_data_out(rng):
    A = csr_array(counts(rng, 40, 12) * (rng.random((40, 12)) < 0.3))
    has_data = np.asarray(A.sum(axis=1)).ravel() > 0
    assert not has_data.all()
    result = op.solve(ProjectiveKL(A, 3))
    assert np.isfinite(result.value)
    assert (result.labels[has_data] >= 0).all()


def test_value_is_at_least_that_with_a_free_second_factor(rng):
    A = counts(rng)
    for _ in range(20):
        X = random_stiefel_plus(7, 3, rng)
        assert KLONMF(A, 3).value(X) <= ProjectiveKL(A, 3).value(X) + 1e-12


def test_answer_is_the_best_of_all_groupings_of_clear_groups():
    rng = np.random.default_rng(1)
    profiles = np.array([[9.0, 6.0, 1.0, 0.5], [0.5, 1.0, 7.0, 9.0]])
    A = rng.poisson(profiles[[0, 0, 0, 1, 1, 1]] * rng.uniform(1, 3, (6, 1))) + 0.5
    problem = ProjectiveKL(A, 2)
    best = np.inf
    for deal in product(range(2), repeat=6):
        H = np.eye(2)[list(deal)]
        if H.any(axis=0).all():
            best = min(best, problem.value(refine(problem, H / np.linalg.norm(H, axis=0))))
    result = op.solve(problem)
    assert result.value == pytest.approx(best, rel=1e-9)
    assert len(set(result.labels[:3])) == len(set(result.labels[3:])) == 1


def test_multiplicative_update_is_not_below_the_answer(rng):
    labels = np.repeat(np.arange(3), 20)
    A = rng.poisson(8 * rng.random((3, 15))[labels] ** 3) + 0.1
    problem = ProjectiveKL(A, 3)
    result = op.solve(problem)
    update = op.baselines.OPNMF(divergence="kl", max_iter=500)
    other = op.solve(op.problems.ONMF(A, 3), method=update)
    assert result.value <= problem.value(refine(problem, other.X)) * (1 + 1e-9)


def test_data_that_cannot_be_used_are_explained(tmp_path):
    with pytest.raises(TypeError, match=r"needs the entries of A in memory.*use ONMF\(A, k, q"):
        ProjectiveKL(aslinearoperator(np.eye(3)), 2)
    with pytest.raises(ValueError, match="negative entries"):
        ProjectiveKL(-np.eye(3), 2)
    with pytest.raises(ValueError, match="more columns than rows"):
        ProjectiveKL(np.eye(3), 4)
