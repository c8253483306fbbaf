"""Groups of rows in every storage: those of the matrix in memory, and their definitions."""

import numpy as np
import pytest

from every_storage import FORMS, WITH_ENTRIES
from orthoplus.data.dense import Dense
from orthoplus.data.groups import (
    assign_rows,
    best_column,
    column_entries,
    count_rows,
    give_rows,
    stationarity_of_groups,
    support_labels,
    unit_rows,
)

N, R, K = 23, 6, 3


@pytest.fixture
def A(rng):
    """Rows of which two are zero."""
    A = rng.random((N, R)) * (rng.random((N, R)) < 0.6)
    A[[1, 9]] = 0.0
    return A


@pytest.mark.parametrize("form", FORMS)
def test_rows_go_to_the_largest_score(form, A, rng):
    centers = unit_rows(rng.random((K, R)))
    M = FORMS[form](A)
    found = assign_rows(M, centers)
    scores = A @ centers.T
    expected = np.where(A.any(axis=1), scores.argmax(axis=1), -1)
    assert set(expected) == {-1, 0, 1, 2}  # else rows would be given
    np.testing.assert_array_equal(M.gather(found.labels), expected)
    np.testing.assert_allclose(M.gather(found.scores), scores.max(axis=1), atol=1e-14)
    assert not found.is_same
    assert assign_rows(M, centers, found.labels).is_same
    other = M.scatter(np.where(np.arange(N) == 5, (expected + 1) % K, expected))
    assert not assign_rows(M, centers, other).is_same
    np.testing.assert_array_equal(
        count_rows(M, found.labels, K), np.bincount(expected[expected >= 0], minlength=K)
    )


@pytest.mark.parametrize("form", WITH_ENTRIES)
def test_empty_groups_take_the_rows_that_are_fitted_worst(form, A):
    centers = np.vstack([np.ones((1, R)), -np.ones((2, R))]) / np.sqrt(R)
    M = FORMS[form](A)
    found = assign_rows(M, centers)
    missed = (A**2).sum(axis=1) - (A @ centers[0]) ** 2
    expected = np.where(A.any(axis=1), 0, -1)
    expected[np.argsort(-missed, kind="stable")[:2]] = [1, 2]
    np.testing.assert_array_equal(M.gather(found.labels), expected)


@pytest.mark.parametrize("form", FORMS)
def test_entries_are_the_scores_with_unit_columns(form, A, rng):
    labels, V = rng.integers(-1, K, size=N), unit_rows(rng.random((K, R)) - 0.2)
    V[2] = 0.0  # the rows of this group are not met: equal entries
    M = FORMS[form](A)
    squares = np.array([2.0, 3.0, 0.0])
    x = M.gather(column_entries(M, M.scatter(labels), V, squares))
    for j in range(K):
        own = labels == j
        raw = np.ones(own.sum()) if j == 2 else np.maximum(A[own] @ V[j], 0.0)
        np.testing.assert_allclose(x[own], raw / np.linalg.norm(raw), atol=1e-14)
    assert not x[labels < 0].any()


@pytest.mark.parametrize("form", FORMS)
def test_labels_are_given_and_taken(form, A, rng):
    labels, weights = rng.integers(K, size=N), rng.random(N) * (rng.random(N) < 0.5)
    M = FORMS[form](A)
    own = M.scatter(labels)
    rows, groups = np.array([0, 7, N - 1]), np.array([2, 0, 1])
    expected = labels.copy()
    expected[rows] = groups
    np.testing.assert_array_equal(M.gather(give_rows(M, own, rows, groups)), expected)
    np.testing.assert_array_equal(M.gather(own), labels)  # left as they were
    found = support_labels(M, own, M.scatter(weights))
    np.testing.assert_array_equal(M.gather(found), np.where(weights > 0, labels, -1))


@pytest.mark.parametrize("form", FORMS)
def test_stationarity_is_that_of_the_gradient(form, A, rng):
    labels = rng.integers(-1, K, size=N)
    weights = np.where(labels >= 0, rng.random(N), 0.0)
    X = np.zeros((N, K))
    X[np.arange(N), labels] = weights
    W = X.T @ A
    sizes = (W**2).sum(axis=1)
    gradient = 2 * (weights * sizes[labels] - (A * W[labels]).sum(axis=1))
    expected = np.linalg.norm(gradient[labels >= 0])
    M = FORMS[form](A)
    found = stationarity_of_groups(M, M.scatter(labels), M.scatter(weights), W)
    assert found == pytest.approx(expected, rel=1e-12)


def test_first_of_equal_scores_is_taken():
    scores = np.array([[1.0, 1.0 + 1e-15], [1.0, 2.0], [0.0, 0.0]])
    np.testing.assert_array_equal(best_column(scores), [0, 1, 0])
    np.testing.assert_array_equal(
        unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0, 0]]
    )
    found = assign_rows(Dense(np.ones((4, 2))), np.eye(2))
    assert sorted(found.labels) == [0, 0, 0, 1]  # all tie; the second group takes one
