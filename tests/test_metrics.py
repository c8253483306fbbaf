"""Metrics against hand counts, and the definition written out."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from orthoplus import metrics
from orthoplus.data import dense
from orthoplus.geometry.stiefel import random_stiefel_plus, violation

# Truth 3 + 3, clusters {0, 0, 1} and {0, 1, 1}.
TRUE = [0, 0, 0, 1, 1, 1]
PRED = [4, 4, 9, 9, 9, 4]


def test_clustering_metrics_closed_form():
    third = 1 / 3
    mixed = -(third * np.log2(third) + 2 * third * np.log2(2 * third))  # entropy of (1/3, 2/3)
    assert metrics.purity(TRUE, PRED) == pytest.approx(4 / 6)
    assert metrics.entropy(TRUE, PRED) == pytest.approx(mixed)
    assert metrics.nmi(TRUE, PRED) == pytest.approx(1 - mixed)


def test_clustering_metrics_are_perfect_when_only_the_names_differ():
    names = np.array(["b", "a", "c"])[[0, 0, 1, 2, 2]]
    assert metrics.purity([2, 2, 0, 1, 1], names) == 1.0
    assert metrics.entropy([2, 2, 0, 1, 1], names) == 0.0
    assert metrics.nmi([2, 2, 0, 1, 1], names) == pytest.approx(1.0)


def test_minus_one_is_a_cluster_of_its_own():
    with_holes = [0, 0, -1, 1, 1, -1]
    renamed = [0, 0, 2, 1, 1, 2]
    for metric in (metrics.purity, metrics.entropy, metrics.nmi):
        assert metric(TRUE, with_holes) == metric(TRUE, renamed)
    assert metrics.purity(TRUE, with_holes) == pytest.approx(5 / 6)


def test_entropy_is_divided_by_the_log_of_the_number_of_classes():
    # One cluster that holds four equal classes is as mixed as can be.
    assert metrics.entropy([0, 1, 2, 3], [0, 0, 0, 0]) == 1.0


def test_single_class_and_single_cluster():
    assert metrics.entropy([3, 3, 3], [0, 1, 1]) == 0.0
    assert metrics.nmi([3, 3, 3], [0, 0, 0]) == 1.0
    assert metrics.nmi([3, 3, 3], [0, 1, 1]) == 0.0


@given(
    st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 5)), min_size=1, max_size=40),
)
def test_nmi_is_its_definition_written_out(pairs):
    true, pred = np.array(pairs).T
    n, mutual, entropies = len(true), 0.0, [0.0, 0.0]
    for i, j in set(pairs):
        both = np.mean((true == i) & (pred == j))
        mutual += both * np.log2(both / (np.mean(true == i) * np.mean(pred == j)))
    for side, labels in enumerate((true, pred)):
        shares = np.unique(labels, return_counts=True)[1] / n
        entropies[side] = -(shares * np.log2(shares)).sum()
    wanted = 1.0 if max(entropies) == 0.0 else mutual / max(entropies)
    assert metrics.nmi(true, pred) == pytest.approx(wanted, abs=1e-12)  # sums of 30 logarithms


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=40))
def test_clustering_metrics_lie_between_zero_and_one(pairs):
    true, pred = np.array(pairs).T
    for metric in (metrics.purity, metrics.entropy, metrics.nmi):
        assert -1e-12 <= metric(true, pred) <= 1 + 1e-12  # rounding of the sums


@pytest.mark.parametrize("metric", [metrics.purity, metrics.entropy, metrics.nmi])
@pytest.mark.parametrize(
    ("true", "pred", "message"),
    [
        ([0, 1], [0, 1, 1], "`labels_true` has 2 labels, `labels_pred` has 3"),
        ([], [], "`labels_true` has shape"),
        ([[0, 1]], [0, 1], "one-dimensional"),
    ],
)
def test_clustering_metrics_say_what_is_wrong(metric, true, pred, message):
    with pytest.raises(ValueError, match=message):
        metric(true, pred)


def test_spectral_angle_closed_form():
    estimated, reference = [[1.0, 1.0], [0.0, 3.0]], [[5.0, 0.0], [0.0, 1.0]]
    assert metrics.spectral_angle_distance(estimated, reference) == pytest.approx(np.pi / 8)


def test_spectral_angle_matches_in_any_order(rng):
    reference = rng.random((4, 9))
    order = np.array([2, 0, 3, 1])
    estimated = reference[order] * np.array([[1.0], [2.0], [0.5], [1e200]])
    assert metrics.spectral_angle_distance(estimated, reference) == pytest.approx(0, abs=1e-15)
    assert metrics.spectral_angle_distance(estimated, reference, matched=False) > 0.1
    np.testing.assert_array_equal(order[metrics.match_spectra(estimated, reference)], range(4))


def test_spectral_angle_keeps_the_digits_of_a_small_angle():
    tilted = [[1.0, 1e-10]]
    assert metrics.spectral_angle_distance(tilted, [[1.0, 0.0]]) == pytest.approx(1e-10, rel=1e-9)


@pytest.mark.parametrize(
    ("estimated", "reference", "message"),
    [
        (np.ones((2, 3)), np.ones((3, 3)), "`estimated` has shape"),
        (np.array([[1.0, 1.0], [0.0, 0.0]]), np.ones((2, 2)), "spectrum of zeros, row 1"),
        (np.ones((2, 2)), np.full((2, 2), np.nan), "NaN or infinite"),
    ],
)
def test_spectral_angle_says_what_is_wrong(estimated, reference, message):
    with pytest.raises(ValueError, match=message):
        metrics.spectral_angle_distance(estimated, reference)


def test_feasibility_is_the_violation(rng):
    X = rng.standard_normal((6, 3))
    by_hand = np.linalg.norm(X.T @ X - np.eye(3)) + np.linalg.norm(np.minimum(X, 0))
    assert metrics.feasibility(X) == pytest.approx(by_hand)
    assert violation(random_stiefel_plus(6, 3, rng)) < 1e-15


@pytest.mark.parametrize("as_data", [np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_residual_is_its_definition(rng, as_data, dtype):
    A = rng.integers(0, 9, size=(8, 5)).astype(dtype)
    X = random_stiefel_plus(8, 3, rng, n_zero_rows=1)
    direct = np.linalg.norm(A - X @ X.T @ A)
    assert metrics.residual(as_data(A), X) == pytest.approx(direct, rel=1e-6)  # float32 data
    relative = metrics.residual(as_data(A), X, relative=True)
    assert relative == pytest.approx(direct / np.linalg.norm(A), rel=1e-6)


def test_residual_rounds_an_infeasible_factor():
    A = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    X = np.array([[0.5, 0.1], [1.0, 0.2], [0.3, 2.0]])
    assert metrics.residual(A, X) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("as_data", [np.asarray, sp.csr_array])
def test_residual_after_refit_is_what_the_groups_can_reach(rng, as_data):
    A, labels = rng.random((9, 6)), np.repeat([0, 1, 2], 3)
    X = np.eye(3)[labels] * rng.random((9, 1))
    missed = [np.linalg.svd(A[labels == j], compute_uv=False)[1:] for j in range(3)]
    best = np.linalg.norm(np.concatenate(missed))
    assert metrics.residual(as_data(A), X, refit=True) == pytest.approx(best)
    assert metrics.residual(as_data(A), X) >= best


def test_residual_of_an_exact_factorization_is_at_rounding_level(rng):
    X = random_stiefel_plus(40, 3, rng)
    A = X @ rng.random((3, 30))
    assert metrics.residual(A, X) <= 1e-14 * np.linalg.norm(A)


def test_residual_in_blocks_of_rows_is_the_same(rng, monkeypatch):
    A, X = rng.random((10, 4)), random_stiefel_plus(10, 2, rng)
    whole = metrics.residual(A, X)
    monkeypatch.setattr(dense, "_RESIDUAL_SIZE", 12)
    assert metrics.residual(A, X) == pytest.approx(whole)


def test_relative_residual_of_nothing_is_zero():
    assert metrics.residual(np.zeros((3, 2)), np.eye(3, 2), relative=True) == 0.0


@pytest.mark.parametrize(
    ("A", "X", "message"),
    [
        (np.ones((3, 2)), np.eye(2), "`X` has 2 rows, `A` has 3"),
        (np.ones((3, 2)), -np.eye(3, 2), "negative entries"),
        (np.full((3, 2), np.nan), np.eye(3, 2), "NaN or infinite"),
        (sp.csr_array([[np.inf], [1.0]]), np.eye(2), "NaN or infinite"),
    ],
)
def test_residual_says_what_is_wrong(A, X, message):
    with pytest.raises(ValueError, match=message):
        metrics.residual(A, X)


def test_residual_of_a_dask_array_is_that_of_the_array(rng):
    da = pytest.importorskip("dask.array")
    A, X = rng.random((30, 5)), rng.random((30, 2))
    found = metrics.residual(da.from_array(A, chunks=(7, 5)), X)
    assert found == pytest.approx(metrics.residual(A, X), rel=1e-12)
