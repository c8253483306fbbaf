"""Orthogonal NMF of data with negative entries: only X is nonnegative."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score

import orthoplus as op
from brute_force import supports
from orthoplus import baselines
from orthoplus.data import as_data
from orthoplus.data.groups import best_column
from orthoplus.geometry.stiefel import random_stiefel_plus, violation
from orthoplus.linalg.group_vectors import leading_vectors, nonnegative_vectors
from orthoplus.methods.search.alternation import alternate
from orthoplus.problems import ONMF

# A factor is orthonormal to a few roundings of each of its entries' squares.
FEASIBLE = 1e-13


def best_square(A):
    """max ||A'x||^2 over x >= 0, ||x|| = 1: on the support of the best x it is an eigenvector."""
    best = max(0.0, float((A**2).sum(axis=1).max(initial=0.0)))
    for kept in product([False, True], repeat=len(A)):
        rows = A[np.array(kept)]
        if len(rows) > 1:
            values, vectors = np.linalg.eigh(rows @ rows.T)
            one_sign = (vectors >= 0).all(axis=0) | (vectors <= 0).all(axis=0)
            best = max(best, *values[one_sign], 0.0)
    return best


def planted(rng, n=90, r=12, k=3, noise=0.1):
    groups = rng.permutation(np.arange(n) % k)
    centers = rng.standard_normal((k, r))
    return (0.5 + rng.random((n, 1))) * centers[groups] + noise * rng.standard_normal(
        (n, r)
    ), groups


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_vector_of_a_group_is_the_best_nonnegative_one(rng, convert):
    n_best = 0
    for _ in range(30):
        A = rng.standard_normal((6, 4))
        x, squares = nonnegative_vectors(as_data(convert(A)), np.zeros(6, dtype=int), np.ones(6), 1)
        assert (x >= 0).all()
        assert np.linalg.norm(x) == pytest.approx(1.0, abs=FEASIBLE)
        assert squares[0] == pytest.approx(np.linalg.norm(A.T @ x) ** 2)
        best = best_square(A)
        assert squares[0] <= best * (1 + 1e-12)
        n_best += squares[0] >= best * (1 - 1e-9)
    assert n_best >= 25  # NP-hard in general: three starts miss a few


def test_vectors_never_fall_below_their_start(rng):
    A, labels = rng.standard_normal((40, 6)), rng.integers(-1, 3, size=40)
    for residual in (1e-1, 1e-4, None):
        X = np.zeros((40, 3))
        start = rng.random(40)
        rows = np.flatnonzero(labels >= 0)
        X[rows, labels[rows]] = start[rows]
        X /= np.linalg.norm(X, axis=0)
        first = (np.linalg.norm(A.T @ X, axis=0)) ** 2
        x, squares = nonnegative_vectors(as_data(A), labels, start, 3, residual)
        assert (squares >= first * (1 - 1e-12)).all()
        assert not x[labels < 0].any()


def test_vectors_are_the_leading_ones_when_the_data_are_nonnegative(rng):
    A, labels = rng.random((30, 5)), np.arange(30) % 3
    x, squares = leading_vectors(as_data(A), labels, np.ones(30), 3)
    again, others = nonnegative_vectors(as_data(A), labels, np.ones(30), 3)
    np.testing.assert_allclose(others, squares, rtol=1e-12)
    np.testing.assert_allclose(again, x, atol=1e-7)


def test_groups_of_zeros_or_of_opposite_rows_have_a_unit_vector():
    A = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, -1.0], [-1.0, 1.0], [0.0, 3.0]])
    x, squares = nonnegative_vectors(as_data(A), np.array([0, 0, 1, 1, 2]), np.ones(5), 3)
    assert np.linalg.norm(x[:2]) == pytest.approx(1.0)
    assert sorted(x[2:4]) == [0.0, 1.0]
    np.testing.assert_allclose(squares, [0.0, 2.0, 9.0])
    x, _ = nonnegative_vectors(as_data(A), np.array([0, 0, 1, 1, 2]), -np.ones(5), 3, 1e-3)
    assert np.linalg.norm(x[:2]) == pytest.approx(1.0)


def test_value_and_bound_are_those_of_the_projective_model(rng):
    A = rng.standard_normal((8, 5))
    problem = ONMF(A, 3, allow_negative=True)
    X = random_stiefel_plus(8, 3, rng)
    assert problem.value(X) == pytest.approx(np.linalg.norm(A - X @ X.T @ A) ** 2)
    np.testing.assert_allclose(problem.second_block(X), A.T @ X)
    np.testing.assert_allclose(problem.second_block(2 * X), A.T @ X / 2)  # not clipped
    best_rank = (np.linalg.svd(A, compute_uv=False)[3:] ** 2).sum()
    assert problem.lower_bound() == pytest.approx(best_rank)
    assert problem.value(X) >= best_rank


def test_estimator_finds_the_optimum_of_tiny_instances(rng):
    for _ in range(5):
        A = rng.standard_normal((6, 4))
        problem = ONMF(A, 2, allow_negative=True)
        best = problem.total - max(
            sum(best_square(A[H[:, j] > 0]) for j in range(2)) for H in supports(6, 2)
        )
        model = op.OrthogonalNMF(2, allow_negative=True, random_state=0)
        error = model.fit(A).reconstruction_err_ ** 2
        assert error == pytest.approx(best, rel=1e-9)


def test_penalty_method_finds_signed_groups(rng):
    A, groups = planted(rng)
    problem = ONMF(A, 3, allow_negative=True)
    result = op.solve(problem, method=op.EP4Orth(penalty_growth=1.5), rng=0)
    assert adjusted_rand_score(groups, result.labels) == 1.0
    assert result.Y.min() < 0
    assert result.bound <= result.value


def test_alternation_never_raises_the_value_and_is_a_fixed_point(rng):
    A = rng.standard_normal((40, 6))
    problem = ONMF(A, 4, allow_negative=True)
    for _ in range(5):
        X0 = random_stiefel_plus(40, 4, rng)
        X, value = alternate(problem, X0)
        assert value <= problem.value(X0)
        assert value == pytest.approx(problem.value(X), rel=1e-10)
        assert violation(X) <= FEASIBLE
        scores = A @ (A.T @ X / np.linalg.norm(A.T @ X, axis=0))
        own = (scores * (X > 0)).sum(axis=1)
        assert (np.maximum(scores.max(axis=1), 0.0) <= own + 1e-6).all()


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
@pytest.mark.parametrize("orthogonal", ["samples", "features"])
def test_estimator_finds_signed_groups(rng, convert, orthogonal):
    A, groups = planted(rng)
    data = convert(A if orthogonal == "samples" else A.T)
    model = op.OrthogonalNMF(
        3, orthogonal=orthogonal, allow_negative=True, random_state=0, with_bound=True
    )
    W = model.fit_transform(data)
    found = model.labels_ if orthogonal == "samples" else model.orthonormal_.argmax(axis=1)
    assert adjusted_rand_score(groups, found) == 1.0
    assert violation(model.orthonormal_) <= FEASIBLE
    dense = A if orthogonal == "samples" else A.T
    missed = np.linalg.norm(dense - model.inverse_transform(W))
    assert model.reconstruction_err_ == pytest.approx(missed, rel=1e-7)
    assert model.bound_ <= model.reconstruction_err_
    assert model.score(data) == pytest.approx(1 - missed**2 / np.linalg.norm(A) ** 2, rel=1e-7)


def test_row_and_its_negative_are_not_of_one_group(rng):
    center = rng.standard_normal(6)
    A = np.outer([1.0, 2.0, 1.5, -1.0, -2.0], center)
    model = op.OrthogonalNMF(2, allow_negative=True, random_state=0).fit(A)
    assert adjusted_rand_score([0, 0, 0, 1, 1], model.labels_) == 1.0
    assert model.reconstruction_err_ == pytest.approx(0.0, abs=1e-6)


def test_sample_that_fits_no_component_has_a_label_and_no_weight():
    A = np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.1, 2.0]])
    model = op.OrthogonalNMF(2, allow_negative=True, random_state=0).fit(A)
    new = np.array([[-1.0, -3.0]])
    assert not model.transform(new).any()
    assert model.predict(new)[0] == model.labels_[0]  # the larger, -1 and not -3


@pytest.mark.parametrize("n", [3, 4, 6])
def test_factor_is_feasible_when_there_are_few_rows(rng, n):
    for A in (rng.standard_normal((n, 2)), -np.ones((n, 2)), np.zeros((n, 2))):
        model = op.OrthogonalNMF(3, allow_negative=True, random_state=0)
        W = model.fit_transform(A)
        assert violation(model.orthonormal_) <= FEASIBLE
        assert np.isfinite(model.components_).all()
        missed = np.linalg.norm(A - model.inverse_transform(W))
        assert model.reconstruction_err_ == pytest.approx(missed, abs=1e-7)
        if n == 3:  # a row for each column
            assert missed == pytest.approx(0.0, abs=1e-7)


def test_best_column_of_negative_scores_is_the_largest():
    np.testing.assert_array_equal(
        best_column(np.array([[-3.0, -1.0], [-1.0, -1.0 - 1e-15]])), [1, 0]
    )


def test_error_for_negative_data_names_the_option():
    with pytest.raises(ValueError, match="allow_negative=True"):
        ONMF(-np.ones((3, 2)), 1)
    with pytest.raises(ValueError, match=r"Negative values.*allow_negative=True"):
        op.OrthogonalNMF(1).fit(-np.ones((3, 2)))


@pytest.mark.parametrize("method", [baselines.OPNMF(), baselines.UONMF()], ids=["opnmf", "uonmf"])
def test_multiplicative_rivals_say_that_they_cannot(rng, method):
    with pytest.raises(TypeError, match="Use SwapSearch or EP4Orth"):
        op.solve(ONMF(rng.standard_normal((5, 3)), 2, allow_negative=True), method=method)
