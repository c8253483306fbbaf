"""Dask arrays: the answers of arrays in memory, on every scheduler, with workers that die."""

import dataclasses
import gc
import os
import signal
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from scipy.sparse import csr_array, csr_matrix

import orthoplus as op
from orthoplus.data import as_data
from orthoplus.data.dask import DaskMatrix
from orthoplus.data.groups import assign_rows
from orthoplus.linalg.group_vectors import leading_directions
from orthoplus.methods import SwapSearch
from orthoplus.methods.baselines import BASELINES
from orthoplus.problems import ONMF

N, R, K = 900, 12, 4
ONMF_BASELINES = [name for name in BASELINES if name != "kindap"]  # it is for K-indicators
# Sums over blocks in another order than in memory.
RTOL = 1e-9


def planted(seed=0):
    rng = np.random.default_rng(seed)
    spectra = rng.random((K, R)) ** 4
    labels = rng.integers(K, size=N)
    return (0.2 + rng.random((N, 1))) * spectra[labels] + 0.1 * rng.random((N, R))


def assert_same_model(model, whole, X, data):
    np.testing.assert_array_equal(np.asarray(model.labels_), whole.labels_)
    np.testing.assert_allclose(model.components_, whole.components_, rtol=RTOL)
    np.testing.assert_allclose(np.asarray(model.orthonormal_), whole.orthonormal_, atol=RTOL)
    assert model.reconstruction_err_ == pytest.approx(whole.reconstruction_err_, rel=RTOL)
    assert model.result_.violation <= 1e-14
    assert model.score(X) == pytest.approx(whole.score(data), rel=RTOL)


# Processes that start on a busy machine import for a minute and more: the usual 30 seconds for a
# connection would end the test, not find a fault. No limit of memory: it would restart workers.
PATIENCE = {f"distributed.comm.timeouts.{kind}": "600s" for kind in ("connect", "tcp")}


@pytest.fixture(scope="module")
def client():
    options = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
    with (
        dask.config.set(PATIENCE),
        LocalCluster(n_workers=2, processes=True, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
        with warnings.catch_warnings(action="ignore"):  # killed workers leave sockets open
            client.close()
            cluster.close()
            gc.collect()


@pytest.mark.parametrize(
    ("scheduler", "form"),
    [("threads", np.asarray), ("threads", csr_array), ("synchronous", csr_matrix)],
)
def test_estimator_gives_the_answer_of_the_array(scheduler, form):
    data = planted()
    X = da.from_array(data, chunks=(270, R)).map_blocks(form, dtype=data.dtype)
    with dask.config.set(scheduler=scheduler):
        model = op.OrthogonalNMF(K, random_state=0, n_init=2, with_bound=True).fit(X)
        whole = op.OrthogonalNMF(K, random_state=0, n_init=2, with_bound=True).fit(data)
        assert isinstance(model.labels_, da.Array)
        assert model.gap_ == pytest.approx(whole.gap_, abs=RTOL)
        assert_same_model(model, whole, X, data)
        np.testing.assert_allclose(np.asarray(model.transform(X)), whole.transform(data), rtol=RTOL)


@pytest.mark.parametrize(("form", "is_persisted"), [(np.asarray, True), (csr_array, False)])
def test_cluster_gives_the_answer_of_the_array(client, form, is_persisted):
    data = planted()
    with client.as_current():
        X = da.from_array(data, chunks=(270, R)).map_blocks(form, dtype=data.dtype)
        X = client.persist(X) if is_persisted else X
        model = op.OrthogonalNMF(K, random_state=0, n_init=1).fit(X)
        whole = op.OrthogonalNMF(K, random_state=0, n_init=1).fit(data)
        assert_same_model(model, whole, X, data)
        if form is np.asarray:  # lazily made of what is persisted
            nearest = op.project(X[:, :K] + 0.1)
            expected = op.project(data[:, :K] + 0.1)
            np.testing.assert_array_equal(np.asarray(nearest.labels), expected.labels)


def test_scheduler_of_processes_gives_the_sums_of_the_array():
    data = planted()
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with pool, dask.config.set(scheduler="processes", pool=pool):
        rows = DaskMatrix(da.from_array(data, chunks=(450, R)), "A")
        V = np.random.default_rng(1).random((K, R))
        labels, scores, _ = assign_rows(rows, V)
        sums = rows.group_products(labels, V)
        found = [rows.gather(vector) for vector in (labels, scores)]
    whole = as_data(data)
    expected = assign_rows(whole, V)
    np.testing.assert_array_equal(found[0], expected.labels)
    np.testing.assert_allclose(found[1], expected.scores, rtol=RTOL)
    np.testing.assert_allclose(sums, whole.group_products(expected.labels, V), rtol=RTOL)


def test_columns_in_several_chunks_are_brought_together():
    data = as_data(planted())
    rows = DaskMatrix(da.from_array(data.values, chunks=(200, 5)), "A")
    V = np.random.default_rng(1).random((K, R))
    labels, scores, _ = assign_rows(rows, V)
    expected = assign_rows(data, V)
    np.testing.assert_array_equal(rows.gather(labels), expected.labels)
    sums = rows.group_products(labels, V)
    np.testing.assert_allclose(sums, data.group_products(expected.labels, V))
    ours, theirs = (
        leading_directions(A, own, weights, K)
        for A, own, weights in ((rows, labels, scores), (data, *expected[:2]))
    )
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-12)


def test_nothing_of_the_length_of_the_data_travels(monkeypatch):
    sizes = []
    compute = dask.compute

    def weigh(*wanted, **options):
        found = compute(*wanted, **options)
        for part in found[0] if isinstance(found[0], tuple) else found:
            sizes.append(np.size(part))
        return found

    monkeypatch.setattr(dask, "compute", weigh)
    X = da.from_array(planted(), chunks=(100, R))
    op.solve(ONMF(X, K), method=SwapSearch(sample=50), with_bound=False)
    assert len(sizes) > 10
    assert max(sizes) <= max(K * R, R * R, 50 * R)


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (da.ones((4, 2, 2)), ValueError, r"Pass `X\.reshape\(-1, 2\)`"),
        (da.ones((4, 2), dtype=complex), TypeError, "real numbers are needed"),
        (da.from_array(-np.eye(4), chunks=2), ValueError, "has negative entries"),
        (da.from_array(np.full((4, 2), np.nan)), ValueError, "8 entries that are NaN"),
        (da.ones((9, 2))[da.ones(9) > 0], ValueError, r"call `X\.compute_chunk_sizes\(\)` first"),
    ],
)
def test_bad_arrays_are_named(array, error, message):
    with pytest.raises(error, match=message):
        op.OrthogonalNMF(1).fit(array)


def test_empty_chunks_hold_no_row():
    data = planted()
    kept = da.from_array(data, chunks=(90, R))
    kept = kept[da.from_array((np.arange(N) % 300) < 60, chunks=90)]
    assert 0 in kept.compute_chunk_sizes().chunks[0]
    rows = DaskMatrix(kept, "A")
    assert 0 not in rows.heights
    expected = data[(np.arange(N) % 300) < 60]
    assert rows.shape == expected.shape
    np.testing.assert_array_equal(rows.to_dense(), expected)
    model = op.OrthogonalNMF(K, random_state=0).fit(kept)
    whole = op.OrthogonalNMF(K, random_state=0).fit(expected)
    assert_same_model(model, whole, kept, expected)


def test_integers_become_float64_and_float32_stays():
    assert DaskMatrix(da.ones((4, 2), dtype=np.uint8), "A").to_dense().dtype == np.float64
    assert DaskMatrix(da.ones((4, 2), dtype=np.float32), "A").to_dense().dtype == np.float32


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_penalty_method_gives_the_answer_of_the_array(form):
    data = planted()
    X = da.from_array(data, chunks=(270, R)).map_blocks(form, dtype=data.dtype)
    method = op.EP4Orth(penalty_growth=2.0)
    ours, whole = (op.solve(ONMF(A, K), method=method) for A in (X, data))
    np.testing.assert_array_equal(ours.labels, whole.labels)
    np.testing.assert_allclose(ours.weights, whole.weights, rtol=1e-6)
    assert ours.value == pytest.approx(whole.value, rel=RTOL)
    assert ours.bound == pytest.approx(whole.bound, rel=RTOL)


@pytest.mark.parametrize("name", ONMF_BASELINES)
def test_baseline_gives_the_answer_of_the_array(name):
    data = planted()[:90]
    method = BASELINES[name]()
    if hasattr(method, "max_iter"):
        method = dataclasses.replace(method, max_iter=6)
    X = da.from_array(data, chunks=(40, 7))
    ours, whole = (
        op.solve(ONMF(A, K), method=method, with_bound=False, search=False) for A in (X, data)
    )
    np.testing.assert_array_equal(np.asarray(ours.labels), whole.labels)
    assert ours.value == pytest.approx(whole.value, rel=1e-7)


def test_rank_is_that_of_the_array():
    data = planted()[:120]
    options = {"n_splits": 3, "n_init": 1, "random_state": 0}
    ours, whole = (
        op.select_rank(A, range(2, 6), **options)
        for A in (da.from_array(data, chunks=(50, R)), data)
    )
    assert ours.k == whole.k == K
    for one, other in zip(ours.rows, whole.rows, strict=True):
        np.testing.assert_allclose(np.array(one, float), np.array(other, float), rtol=1e-6)


def test_resumed_from_a_file_equals_uninterrupted(tmp_path):
    problem, method = ONMF(da.from_array(planted(), chunks=(200, R)), K), SwapSearch(n_init=4)
    whole = op.solve(problem, method=method, with_bound=False)
    op.solve(
        problem,
        method=method,
        with_bound=False,
        checkpoint=tmp_path / "run.npz",
        callback=lambda state: state.n_iter == 3,
    )
    assert os.path.getsize(tmp_path / "run.npz") < 8 * 30 * N  # the sketch; no vector of the rows
    resumed = op.solve(problem, method=method, with_bound=False, resume=tmp_path / "run.npz")
    assert resumed.n_iter == whole.n_iter
    np.testing.assert_array_equal(np.asarray(resumed.labels), np.asarray(whole.labels))
    np.testing.assert_allclose(np.asarray(resumed.weights), np.asarray(whole.weights), rtol=RTOL)


def test_vectors_of_a_cluster_come_back(client):
    data = planted()
    with client.as_current():
        A = as_data(da.from_array(data, chunks=(450, R)).persist())
        one = A.map_rows(row_sums)
        np.testing.assert_array_equal(A.gather(one), data.sum(axis=1))
        np.testing.assert_array_equal(np.asarray(A.collect(one, np.float64)), data.sum(axis=1))
        two = A.map_rows(row_sums_twice, n_vectors=2)[1]
        np.testing.assert_array_equal(A.gather(two), 2 * data.sum(axis=1))


def row_sums(block):
    return block.to_dense().sum(axis=1)


def row_sums_twice(block):
    return row_sums(block), 2 * row_sums(block)


def test_indicators_on_a_cluster_are_those_of_the_array(client):
    data = planted()
    whole = op.KIndicatorsClustering(K, random_state=0).fit(data)
    with client.as_current():
        X = da.from_array(data, chunks=(450, R)).persist()
        model = op.KIndicatorsClustering(K, random_state=0).fit(X)
        np.testing.assert_array_equal(np.asarray(model.labels_), whole.labels_)
        assert model.objective_ == pytest.approx(whole.objective_, rel=1e-7)


def block_or_death(block, armed):
    """The block; but the first process to ask for one once the file is there dies."""
    try:
        os.unlink(armed)
    except FileNotFoundError:
        return block
    os.kill(os.getpid(), signal.SIGKILL)


# The last of this module: it leaves the cluster with another worker.
@pytest.mark.filterwarnings("ignore")
def test_worker_that_is_killed_costs_time_not_the_answer(client, tmp_path):
    data, armed = planted(), tmp_path / "armed"
    method, seen = SwapSearch(n_init=1), []
    with client.as_current():
        X = da.from_array(data, chunks=(250, R)).map_blocks(
            block_or_death, str(armed), dtype=data.dtype
        )
        before = set(client.run(os.getpid).values())

        def arm(state):
            seen.append(state.n_iter)
            if len(seen) == 1:
                armed.touch()  # the next pass over the data loses a worker and what it held

        result = op.solve(ONMF(X, K), method=method, callback=arm, with_bound=False)
        labels, weights = np.asarray(result.labels), np.asarray(result.weights)
        assert not armed.exists()
        assert before != set(client.run(os.getpid).values())
    whole = op.solve(ONMF(data, K), method=method, with_bound=False)
    np.testing.assert_array_equal(labels, whole.labels)
    np.testing.assert_allclose(weights, whole.weights, rtol=RTOL)
    assert result.value == pytest.approx(whole.value, rel=RTOL)
