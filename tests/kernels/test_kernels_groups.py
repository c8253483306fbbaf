"""Products with a matrix of one entry a row: compiled against the specification, and by hand."""

import threading

import numpy as np
import pytest
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from orthoplus.kernels import fused, reference
from orthoplus.kernels.blocks import for_blocks
from orthoplus.kernels.threads import limited_threads, n_threads
from waiting import PATIENCE

K = 3
# Sums of at most a hundred numbers of size one, in float64 for either dtype.
ROUNDING = 1e-13


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 4), (60, 33), (5, 0)])
def test_group_products_agree(dtype, order, shape, rng):
    A = rng.random(shape).astype(dtype) * (rng.random(shape) < 0.6)
    A = np.repeat(A, 2, axis=1)[:, ::2] if order == "strided" else np.array(A, order=order)
    labels = rng.integers(-1, K, size=shape[0])
    weights, W = rng.random(shape[0]), rng.random((K, shape[1]))
    S = csr_array(A)
    parts = (S.data, S.indices, S.indptr)
    X = np.zeros((shape[0], K))
    kept = np.flatnonzero(labels >= 0)
    X[kept, labels[kept]] = weights[kept]
    sums = (A.T.astype(np.float64) @ X).T
    dots = np.where(labels >= 0, (A.astype(np.float64) * W[labels]).sum(axis=1), 0.0)
    for module in (fused, reference):
        for found, expected in (
            (module.dense_group_sums(A, labels, weights, K), sums),
            (module.sparse_group_sums(parts, labels, weights, (K, shape[1])), sums),
            (module.dense_group_dots(A, labels, W), dots),
            (module.sparse_group_dots(parts, labels, W), dots),
        ):
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, expected, atol=ROUNDING)


@pytest.mark.parametrize("form", ["C", "F", "csr"])
def test_group_products_have_the_same_bits_for_any_number_of_threads(form, rng, monkeypatch):
    n, r = 40_000, 40  # above PARALLEL_SIZE: several blocks
    A = rng.random((n, r)) * (rng.random((n, r)) < 0.8)
    S = csr_array(A)
    labels, weights, W = rng.integers(-1, K, size=n), rng.random(n), rng.random((K, r))
    found = []
    for threads in ("1", "2", "2"):
        monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", threads)
        if form == "csr":
            parts = (S.data, S.indices, S.indptr)
            sums = fused.sparse_group_sums(parts, labels, weights, (K, r))
            dots = fused.sparse_group_dots(parts, labels, W)
        else:
            sums = fused.dense_group_sums(np.array(A, order=form), labels, weights, K)
            dots = fused.dense_group_dots(np.array(A, order=form), labels, W)
        found.append((sums.tobytes(), dots.tobytes()))
    assert found[0] == found[1] == found[2]
    expected = reference.dense_group_sums(A, labels, weights, K)
    np.testing.assert_allclose(sums, expected, rtol=1e-11)
    np.testing.assert_allclose(dots, reference.dense_group_dots(A, labels, W), atol=ROUNDING)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 1), (300, 7), (0, 3), (600_000, 2)])
def test_best_columns_agree_and_ties_go_to_the_first(dtype, order, shape, rng):
    scores = np.array(rng.integers(-2, 3, size=shape), dtype=dtype, order=order)
    scores *= 1 + rng.integers(0, 200, size=shape).astype(dtype) * np.finfo(dtype).eps
    before = scores.copy()
    labels, best = fused.best_columns(scores)
    expected = reference.best_columns(scores)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_array_equal(best, expected[1])
    assert best.dtype == dtype
    np.testing.assert_array_equal(scores, before)
    by_hand = fused.best_columns(np.array([[0.3, 0.1 + 0.2, -1.0], [-2.0, -1.0, -1.0]], dtype))
    np.testing.assert_array_equal(by_hand[0], [0, 1])


def test_blas_has_one_thread_while_ours_run(monkeypatch):
    controller = ThreadpoolController().select(user_api="blas")
    seen = []

    def look(number, rows):
        seen.extend(library["num_threads"] for library in controller.info())

    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "2")
    with controller.limit(limits=2):
        for_blocks(look, [slice(0, 1), slice(1, 2)])
        after = {library["num_threads"] for library in controller.info()}
    assert set(seen) == {1}
    assert after == {2}


def test_threads_are_limited_where_others_run_beside(monkeypatch):
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "4")
    with limited_threads(3):
        with limited_threads(1):
            assert n_threads() == 1
        assert n_threads() == 3
    assert n_threads() == 4


def test_a_pass_within_a_pass_takes_no_further_threads(monkeypatch):
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "2")
    seen = []
    blocks = [slice(0, 1), slice(1, 2)]

    def outer(number, rows):
        for_blocks(lambda inner, _: seen.append((number, inner, n_threads())), blocks)

    done = threading.Thread(target=for_blocks, args=(outer, blocks), daemon=True)
    done.start()
    done.join(timeout=PATIENCE)
    assert not done.is_alive()
    assert sorted(seen) == [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_moves_of_rows_do_not_depend_on_blocks(monkeypatch, is_sparse):
    from orthoplus.kernels.fused import divergence

    A = np.random.default_rng(0).integers(0, 4, (60, 9)).astype(float)
    A[10:20] = 0.0  # blocks without entries, if they are short
    rows = csr_array(A)
    parts = (A.ravel(), np.zeros(0, dtype=np.int32), 9 * np.arange(61))
    parts = (rows.data, rows.indices, rows.indptr) if is_sparse else parts
    found = []
    for n_entries in (10**6, 1, 7, 100):
        monkeypatch.setattr(divergence, "_ENTRIES_AT_ONCE", n_entries)
        labels = np.arange(60) % 4
        sums = np.ascontiguousarray(np.stack([A[labels == j].sum(axis=0) for j in range(4)]).T)
        n_moved = divergence.move_rows_into(parts, labels, sums, np.full(4, 15))
        found.append((n_moved, labels.tolist(), sums.tolist()))
    assert found[0][0] > 0
    assert all(other == found[0] for other in found[1:])
