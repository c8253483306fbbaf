"""KIndicatorsClustering of data in row blocks: the answer of the same data in memory."""

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array

import orthoplus as op
from orthoplus.geometry.stiefel import violation

N, K = 1200, 5
# Sums over blocks in another order than in memory.
RTOL = {np.float64: 1e-8, np.float32: 1e-6}


def planted(rng, noise=0.4, n=N, k=K, dtype=np.float64):
    """A rotated orthonormal embedding of k noisy groups, far from their indicators."""
    rows = np.eye(k)[rng.integers(k, size=n)] * rng.uniform(0.5, 1.5, (n, 1))
    U = np.linalg.svd(rows + noise * rng.standard_normal((n, k)), full_matrices=False)[0]
    return (U @ np.linalg.qr(rng.standard_normal((k, k)))[0]).astype(dtype)


def fit(U, **options):
    return op.KIndicatorsClustering(U.shape[1], embedding="precomputed", **options).fit(U)


def assert_same(model, whole, dtype=np.float64):
    np.testing.assert_array_equal(np.asarray(model.labels_), whole.labels_)
    assert model.objective_ == pytest.approx(whole.objective_, rel=RTOL[dtype])
    H = np.asarray(model.indicators_)
    assert H.dtype == whole.indicators_.dtype
    np.testing.assert_allclose(H, whole.indicators_, atol=1e2 * RTOL[dtype])
    np.testing.assert_allclose(model.rotation_, whole.rotation_, atol=1e2 * RTOL[dtype])
    assert violation(H) <= (1e-13 if dtype is np.float64 else 1e-5)
    assert model.n_iter_ == whole.n_iter_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("height", [N, 500, 333])
def test_dask_array_gives_the_answer_of_the_array(height, dtype, rng):
    U = planted(rng, dtype=dtype)
    whole = fit(U)
    with dask.config.set(scheduler="threads"):
        model = fit(da.from_array(U, chunks=(height, 2)))
        assert isinstance(model.labels_, da.Array)
        assert isinstance(model.indicators_, da.Array)
        assert_same(model, whole, dtype)


OPTIONS = {
    "default": {},
    "several starts": {"n_init": 3, "random_state": 1},
    "own method": {"method": op.methods.Polish()},
}


@pytest.mark.parametrize("noise", [0.3, 0.7])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_gives_the_answer_of_the_array(name, noise, rng):
    U, options = planted(rng, noise, n=900, k=8), OPTIONS[name]
    whole = fit(U, **options)
    assert_same(fit(U, memory_limit=30_000, **options), whole)
    assert_same(fit(da.from_array(U, chunks=(400, 8)), **options), whole)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stored_arrays_give_the_answer_of_the_array(dtype, rng, tmp_path):
    U = planted(rng, dtype=dtype)
    whole = fit(U)
    np.save(tmp_path / "U.npy", U)
    zarr.create_array(tmp_path / "U.zarr", data=U, chunks=(300, K))
    with h5py.File(tmp_path / "U.h5", "w") as file:
        for stored in (
            file.create_dataset("U", data=U),
            zarr.open_array(tmp_path / "U.zarr", mode="r"),
            np.load(tmp_path / "U.npy", mmap_mode="r"),
        ):
            assert_same(fit(stored, memory_limit=60_000), whole, dtype)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_embedding_is_made_in_blocks(form, rng):
    A = rng.random((4, 9))[rng.integers(4, size=N)] + 0.2 * rng.standard_normal((N, 9))
    whole = op.KIndicatorsClustering(4, random_state=0).fit(A)
    lazy = da.from_array(A, chunks=(400, 4)).rechunk({1: -1}).map_blocks(form, dtype=A.dtype)
    for model in (
        op.KIndicatorsClustering(4, random_state=0).fit(lazy),
        op.KIndicatorsClustering(4, random_state=0, memory_limit="100kB").fit(A),
    ):
        np.testing.assert_array_equal(np.asarray(model.labels_), whole.labels_)
        assert model.objective_ == pytest.approx(whole.objective_, rel=1e-7)
        np.testing.assert_allclose(np.asarray(model.embedding_), whole.embedding_, atol=1e-7)


DEGENERATE = {
    "indicators": np.repeat(np.eye(3), 4, axis=0) / 2,
    "one column": np.ones((5, 1)) / np.sqrt(5),
    "all negative": -np.repeat(np.eye(3), 4, axis=0) / 2,
    "as many rows as columns": np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + np.eye(3))[0],
    "rows of zeros": np.vstack([np.zeros((4, 3)), np.eye(3)]),
    "zeros": np.zeros((7, 3)),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_embeddings_have_an_answer(name):
    U = DEGENERATE[name]
    model, whole = fit(U, memory_limit=8 * 8 * U.shape[1] * 2), fit(U)
    assert model.objective_ == pytest.approx(whole.objective_, rel=1e-8, abs=1e-12)
    assert violation(model.indicators_) <= 1e-13
    np.testing.assert_array_equal(model.labels_ >= 0, U.any(axis=1))
    if U.any():
        assert set(range(U.shape[1])) <= set(model.labels_.tolist())


@pytest.mark.parametrize("given", [da.ones((9, 3)), np.ones((9, 3))])
def test_neighbors_are_looked_for_in_memory_only(given):
    model = op.KIndicatorsClustering(2, embedding="laplacian", memory_limit="1MB")
    with pytest.raises(ValueError, match="nearest neighbors among rows in memory"):
        model.fit(given)


def test_bad_data_are_named(rng):
    U = planted(rng, n=50)
    with pytest.raises(ValueError, match="too many for n_samples = 3"):
        fit(da.from_array(U[:3], chunks=(2, K)))
    with pytest.raises(ValueError, match='with embedding="precomputed" it is U'):
        op.KIndicatorsClustering(2, embedding="precomputed").fit(da.from_array(U, chunks=(20, K)))
    with pytest.raises(ValueError, match="Invalid `memory_limit='much'`"):
        fit(U, memory_limit="much")
    U[7, 1] = np.nan
    with pytest.raises(ValueError, match="1 entries that are NaN or infinite"):
        fit(da.from_array(U, chunks=(20, K)))
