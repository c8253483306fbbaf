"""Starts from singular vectors: the formulas, sparse data, and data of low rank."""

from itertools import islice
from unittest import mock

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator

from orthoplus.data import as_data
from orthoplus.data.symmetric import SymmetricMap
from orthoplus.linalg import starts
from orthoplus.linalg.starts import SVD_VARIANTS, eigenvector_starts, signed_left_vectors, svd_start

# Lanczos and dense singular vectors: the gaps of the test matrices are wide.
CLOSE = 1e-8

every_variant = pytest.mark.parametrize("variant", SVD_VARIANTS)


def blocks(rng, n=90, r=80, k=3):
    """Noisy groups, large enough for the Lanczos method."""
    labels = np.arange(n) % k
    return np.eye(k)[labels] @ rng.random((k, r)) + 0.05 * rng.random((n, r))


def nndsvd_by_hand(A, k):
    U, s, Vt = np.linalg.svd(A)
    W = np.zeros((len(A), k))
    W[:, 0] = np.sqrt(s[0]) * np.abs(U[:, 0])
    for j in range(1, k):
        up, vp, un, vn = (np.maximum(z, 0) for z in (U[:, j], Vt[j], -U[:, j], -Vt[j]))
        plus, minus = (np.linalg.norm(u) * np.linalg.norm(v) for u, v in ((up, vp), (un, vn)))
        side, size = (up, plus) if plus >= minus else (un, minus)
        W[:, j] = np.sqrt(s[j] * size) * side / np.linalg.norm(side)
    return W


def test_nndsvd_is_its_formula(rng):
    A = blocks(rng)
    assert np.allclose(svd_start(A, 3, "nndsvd"), nndsvd_by_hand(A, 3), atol=CLOSE)


def test_variants_fill_only_the_zeros(rng):
    A = blocks(rng)
    plain, mean, random = (svd_start(A, 3, v) for v in ("nndsvd", "nndsvda", "nndsvdar"))
    empty = plain == 0
    assert empty.any()
    assert np.allclose(mean[empty], A.mean())
    assert (random[empty] <= A.mean() / 100).all()
    assert len(np.unique(random[empty])) > 1
    assert np.allclose(mean[~empty], plain[~empty], atol=CLOSE)


def test_clipped_has_the_larger_positive_parts_with_unit_columns(rng):
    A = blocks(rng)
    X, U = svd_start(A, 3, "clipped"), signed_left_vectors(as_data(A), 3, rng)
    assert np.allclose(np.linalg.norm(X, axis=0), 1.0)
    assert (
        np.linalg.norm(np.maximum(U, 0), axis=0) >= np.linalg.norm(np.minimum(U, 0), axis=0)
    ).all()
    clipped = np.maximum(U, 0)
    assert np.allclose(X, clipped / np.linalg.norm(clipped, axis=0), atol=CLOSE)
    assert np.allclose(U.T @ U, np.eye(3), atol=CLOSE)


@every_variant
def test_start_is_nonnegative_deterministic_and_the_same_for_sparse_data(variant, rng):
    A = blocks(rng) * (rng.random((90, 80)) < 0.5)
    X = svd_start(A, 4, variant, np.random.default_rng(1))
    assert X.shape == (90, 4)
    assert X.min() >= 0
    assert X.any(axis=0).all()
    assert (X == svd_start(A, 4, variant, np.random.default_rng(1))).all()
    sparse = svd_start(csr_array(A), 4, variant, np.random.default_rng(1))
    assert np.allclose(X, sparse, atol=CLOSE)


@every_variant
@pytest.mark.parametrize(
    "A",
    [np.zeros((6, 4)), np.ones((6, 1)), np.ones((6, 2)), csr_array((100, 80))],
    ids=["zero", "one-column", "rank-one", "sparse-zero"],
)
def test_missing_columns_are_at_random(variant, A):
    X = svd_start(A, 3, variant)
    assert np.isfinite(X).all()
    assert X.any(axis=0).all()


def test_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="Choose one of nndsvd"):
        svd_start(np.eye(3), 2, "pca")
    with pytest.raises(ValueError, match="more columns than rows"):
        svd_start(np.eye(3), 4)


# --- eigenvectors ---------------------------------------------------------------------------------


def test_eigenvector_starts_are_in_oblique_plus_and_repeatable(rng):
    B = rng.standard_normal((40, 40))
    M = SymmetricMap(B + B.T)
    one, two = (list(islice(eigenvector_starts(M, 4, np.random.default_rng(3)), 5)) for _ in "ab")
    for X, again in zip(one, two, strict=True):
        assert X.shape == (40, 4)
        assert X.min() >= 0
        np.testing.assert_allclose(np.linalg.norm(X, axis=0), 1.0, rtol=1e-14)
        np.testing.assert_array_equal(X, again)


def test_first_eigenvector_start_is_the_solution_when_blocks_do_not_interact(rng):
    sizes = [30, 40, 50]
    labels = np.repeat(np.arange(3), sizes)
    M = SymmetricMap(csr_array(-np.where(labels[:, None] == labels, 1.0, 0.0)))
    X = next(eigenvector_starts(M, 3, rng))
    np.testing.assert_allclose(X.max(axis=1), np.repeat(1 / np.sqrt(sizes), sizes), atol=CLOSE)
    assert len(set(zip(labels.tolist(), X.argmax(axis=1).tolist(), strict=True))) == 3


def test_first_eigenvector_start_splits_a_vector_of_both_signs_where_that_is_better():
    u = np.array([1.0, 2.0, -1.0, -2.0]) / np.sqrt(10)
    X = next(eigenvector_starts(SymmetricMap(-np.outer(u, u)), 2, np.random.default_rng(0)))
    parts = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 2.0]]) / np.sqrt(5)
    assert min(np.abs(X - parts).max(), np.abs(X - parts[:, ::-1]).max()) <= 1e-12


def test_zero_matrix_has_eigenvector_starts(rng):
    for n in (5, 100):
        X = next(eigenvector_starts(SymmetricMap(csr_array((n, n))), 3, rng))
        np.testing.assert_allclose(np.linalg.norm(X, axis=0), 1.0)


@pytest.mark.parametrize("as_stored", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_vectors_of_a_large_tall_matrix_are_those_of_the_whole_decomposition(
    rng, monkeypatch, as_stored, dtype
):
    A = as_data(as_stored(blocks(rng, n=3000, r=12, k=4).astype(dtype)))
    whole = signed_left_vectors(A, 4, rng)
    monkeypatch.setattr(starts, "_LARGE_ENTRIES", 1)
    monkeypatch.setattr(np.linalg, "svd", mock.Mock(side_effect=np.linalg.svd))
    thin = signed_left_vectors(A, 4, rng)
    assert np.linalg.svd.call_args.args[0].shape == (12, 12)
    np.testing.assert_allclose(thin, whole, atol=2e-5 if dtype == "float32" else 1e-11)
    np.testing.assert_allclose(thin.T @ thin, np.eye(4), atol=2e-6)


def test_a_large_matrix_of_low_rank_is_decomposed_as_a_whole(rng, monkeypatch):
    A = rng.random((400, 2)) @ rng.random((2, 9))
    monkeypatch.setattr(starts, "_LARGE_ENTRIES", 1)
    U = signed_left_vectors(as_data(A), 3, rng)
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("make", [as_data, csr_array, aslinearoperator])
def test_rows_that_sum_to_zero_are_not_zero(make, rng):
    half = rng.integers(-4, 5, (90, 40)).astype(float)
    half[3] = 0.0
    A = np.hstack([half, -half])
    assert not A.sum(axis=1).any()
    data = as_data(make(A))
    assert np.array_equal(data.zero_rows(np.arange(90)), np.arange(90) == 3)
    U = np.linalg.svd(A)[0][:, :2]
    found = signed_left_vectors(data, 2, rng)
    np.testing.assert_allclose(np.abs(found.T @ U), np.eye(2), atol=1e-9)
