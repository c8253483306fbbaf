"""Rows of zeros: no cluster, and no say in the agreement of partitions."""

import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score

import orthoplus as op
from orthoplus.data import as_data
from orthoplus.model_selection.agreement import (
    co_assignment,
    matched_cosine,
    partition_agreement,
    summarize_runs,
)
from orthoplus.model_selection.hidden_entries import column_weights, predict_columns
from orthoplus.model_selection.rank_path import PathPoint

N, N_EMPTY = 40, 60


@pytest.fixture
def with_empty_rows(rng):
    """Clustered rows, more rows of zeros among them, and which are zero."""
    A = rng.random((3, 12))[np.arange(N) % 3] ** 2 + 0.05 * rng.random((N, 12))
    is_empty = rng.permutation(np.arange(N + N_EMPTY) >= N)
    padded = np.zeros((N + N_EMPTY, 12))
    padded[~is_empty] = A
    return padded, is_empty


@pytest.mark.parametrize("options", [
    {}, {"split": "columns"}, {"loss": "kullback-leibler"}, {"allow_negative": True},
], ids=["rows", "columns", "counts", "signs"])  # fmt: skip
def test_selected_labels_are_those_of_the_estimator(with_empty_rows, options):
    A, is_empty = with_empty_rows
    if "allow_negative" in options:
        A = A - 0.2 * (A > 0)
    found = op.select_rank(A, [3], n_splits=2, **options)
    np.testing.assert_array_equal(found.labels < 0, is_empty)
    own = {name: value for name, value in options.items() if name != "split"}
    labels = op.OrthogonalNMF(3, random_state=0, **own).fit(A).labels_
    assert adjusted_rand_score(found.labels, labels) == 1.0


@pytest.mark.parametrize("container", [
    csr_array, lambda A: da.from_array(A, chunks=(17, 12)), lambda A: as_data(A, memory_limit=4000),
], ids=["csr", "dask", "blocks"])  # fmt: skip
def test_storage_does_not_matter(with_empty_rows, container):
    A, _ = with_empty_rows
    found = op.select_rank(container(A), [2, 3], n_splits=2)
    np.testing.assert_array_equal(found.labels, op.select_rank(A, [2, 3], n_splits=2).labels)


def test_noise_is_not_stable_because_of_empty_rows(rng):
    # All halves agree that the rows of zeros belong together; nothing else do they agree on.
    A = rng.random((200, 15))
    A[:120] = 0
    found = op.select_rank(A, [5], n_splits=3).rows[0].stability
    assert found < 0.5
    assert found == pytest.approx(
        op.select_rank(A[120:], [5], n_splits=3).rows[0].stability, abs=0.2
    )
    by_columns = op.select_rank(A, [5], n_splits=3, split="columns").rows[0].stability
    assert by_columns < 0.3


@pytest.mark.parametrize("k", [3, 5])
def test_consensus_is_that_of_the_rows_with_data(with_empty_rows, k):
    A, is_empty = with_empty_rows
    found = op.consensus(A, k, n_runs=4)
    assert (found.labels[is_empty] == -1).all()
    assert (found.agreement[is_empty] == 1).all()
    assert (found.labels[~is_empty] >= 0).all()
    assert found.stability.shape == found.cosines.shape == (k,)
    if k == 3:  # every run finds the planted clusters
        assert found.score == 1.0
        np.testing.assert_array_equal(found.stability, np.ones(3))


def test_summary_ignores_rows_without_a_cluster(rng):
    centers = np.eye(3)
    runs = [PathPoint(3, centers, rng.integers(3, size=30), share) for share in (0.1, 0.2, 0.3)]
    plain = summarize_runs(runs)
    place = np.sort(rng.permutation(50)[:30])

    def padded(labels):
        wide = np.full(50, -1)
        wide[place] = labels
        return wide

    found = summarize_runs([run._replace(labels=padded(run.labels)) for run in runs])
    np.testing.assert_array_equal(found.labels, padded(plain.labels))
    np.testing.assert_allclose(found.stability, plain.stability)
    np.testing.assert_allclose(found.agreement[place], plain.agreement)
    assert found.score == pytest.approx(plain.score)
    votes = np.array([run.labels for run in runs])
    np.testing.assert_allclose(
        co_assignment(padded(plain.labels), np.array([*map(padded, votes)]), 3),
        co_assignment(plain.labels, votes, 3),
    )


def test_agreement_of_nothing_is_full():
    nothing = np.full(4, -1)
    assert partition_agreement(nothing, nothing) == 1.0


def test_row_that_one_half_lacks_is_not_compared(rng):
    labels, others = rng.integers(3, size=(2, 20))
    weights = 0.1 + rng.random((2, 20))
    labels[3], others[7] = -1, -1
    weights[0, 3] = weights[1, 7] = 0.0
    both = np.delete(np.arange(20), [3, 7])
    assert partition_agreement(labels, others) == adjusted_rand_score(labels[both], others[both])
    columns = [np.zeros((20, 3)), np.zeros((20, 3))]
    for X, own, sizes in zip(columns, (labels, others), weights, strict=True):
        X[np.arange(20)[own >= 0], own[own >= 0]] = sizes[own >= 0]
        X /= np.linalg.norm(X, axis=0)
    cosines = columns[0].T @ columns[1]
    orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    best = max(cosines[[0, 1, 2], order].mean() for order in orders)
    assert matched_cosine((labels, others), tuple(weights), 3) == pytest.approx(best)


def test_hidden_columns_are_predicted_as_without_the_empty_rows(with_empty_rows):
    A, is_empty = with_empty_rows
    labels = np.full(len(A), -1)
    labels[~is_empty] = np.arange(N) % 3
    centers = np.abs(np.linalg.qr(A.T)[0].T[:3])

    def share(A, labels):
        point = PathPoint(3, centers, labels, 0.0)
        folds = [np.arange(len(A))[i::3] for i in range(3)]
        weights = column_weights(as_data(A), point)
        assert (weights[labels < 0] == 0).all()
        return predict_columns([as_data(A[fold]) for fold in folds], point, weights, folds)

    # Zeros at the end keep the folds of the other rows.
    order = np.r_[np.flatnonzero(~is_empty), np.flatnonzero(is_empty)]
    assert share(A[order], labels[order]) == pytest.approx(share(A[~is_empty], labels[~is_empty]))


def test_exact_fit_leaves_nothing_unexplained():
    found = op.select_rank(np.outer(np.arange(1.0, 21.0), np.arange(1.0, 7.0)), [1, 2], n_splits=2)
    assert all(row.unexplained >= 0 for row in found.rows)
    assert "-0.0000" not in str(found)
