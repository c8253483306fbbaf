"""KIndicatorsClustering of data in row blocks: the answer of the same data in memory."""

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array

import orthoplus as op
from orthoplus.data.block_matrix import BlockMatrix
from orthoplus.data.stored import Stored
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.geometry.stiefel import violation
from orthoplus.methods import indicators_in_blocks as blocks
from orthoplus.methods.indicators_in_blocks import IndicatorsInBlocks
from orthoplus.problems import KIndicators
from orthoplus.projection import merged

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


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.7])
def test_the_penalty_method_runs_not_the_polish_alone(noise, rng):
    U = planted(rng, noise, n=900, k=8)
    model, whole = fit(U, memory_limit=30_000), fit(U)
    if noise < 0.7:
        assert_same(model, whole)
    else:  # in memory a search over supports follows, which moves a few rows
        assert (np.asarray(model.labels_) != whole.labels_).mean() <= 0.1
        assert whole.objective_ <= model.objective_ <= whole.objective_ * (1.0 + 1e-2)
        alone = fit(U, method=op.methods.Polish())
        assert abs(alone.objective_ / whole.objective_ - 1) > 1e-6


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


def test_many_rows_are_projected_in_blocks(rng, monkeypatch):
    for module in (blocks, merged):
        monkeypatch.setattr(module, "OPEN_ROWS", 300)
    U = planted(rng, 0.3)
    model, whole = fit(da.from_array(U, chunks=(400, K))), fit(U)
    assert_same(model, whole)


DEGENERATE = {
    "indicators": np.repeat(np.eye(3), 4, axis=0) / 2,
    "one column": np.ones((5, 1)) / np.sqrt(5),
    "all negative": -np.repeat(np.eye(3), 4, axis=0) / 2,
    "as many rows as columns": np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + np.eye(3))[0],
    "rows of zeros": np.vstack([np.zeros((4, 3)), np.eye(3)]),
    "zeros": np.zeros((7, 3)),
}


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_embeddings_have_an_answer(name, is_large, monkeypatch):
    U = DEGENERATE[name]
    if is_large:
        monkeypatch.setattr(blocks, "OPEN_ROWS", 0)
    model, whole = fit(U, memory_limit=8 * 8 * U.shape[1] * 2), fit(U)
    assert model.objective_ == pytest.approx(whole.objective_, rel=1e-8, abs=1e-12)
    assert violation(model.indicators_) <= 1e-13
    assert sorted(set(model.labels_)) == list(range(U.shape[1]))


def test_a_column_that_cannot_be_projected_in_blocks_ends_the_polish(rng, monkeypatch):
    monkeypatch.setattr(blocks, "OPEN_ROWS", 0)
    problem = IndicatorsInBlocks(Stored(np.zeros((7, 3)), 8 * 8 * 3 * 2))
    first = blocks.unit_groups(problem, np.arange(7) % 3, np.ones(7))
    ours = blocks.polish_groups(problem, first, op.methods.Polish())
    assert ours.value == pytest.approx(3.0)


def test_a_row_of_zeros_is_called_back(rng):
    U = planted(rng, 0.3, n=60, k=3)
    problem = IndicatorsInBlocks(Stored(U, 8 * 8 * 3 * 20))
    best = fit(U)
    labels = np.where(np.arange(60) < 12, -1, best.labels_)
    first = blocks.unit_groups(problem, labels, (labels >= 0).astype(float))
    ours = blocks.refine_groups(problem, first)
    X = np.zeros((60, 3))
    X[np.arange(60), labels] = first.weights
    whole = op.methods.refine.refine(KIndicators(U), X)
    assert (ours.labels[:12] >= 0).any()
    assert ours.value == pytest.approx(KIndicators(U).value(whole), rel=1e-12)
    np.testing.assert_array_equal(ours.labels, op.geometry.labels_of(whole))


@pytest.mark.parametrize("after", [0, 4])
def test_interrupted_run_returns_the_best_so_far(after, rng, monkeypatch):
    U = planted(rng)
    step, calls = BlockMatrix.stepped, []

    def interrupted(self, *args):
        calls.append(0)
        if len(calls) > after:
            raise KeyboardInterrupt
        return step(self, *args)

    monkeypatch.setattr(BlockMatrix, "stepped", interrupted)
    model = fit(U, memory_limit=60_000)
    start = op.geometry.keep_largest(project_oblique_plus(U))
    assert model.objective_ < KIndicators(U).value(start)
    assert violation(model.indicators_) <= 1e-13


def test_interrupted_polish_returns_the_rounded_point(rng, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(blocks, "_nearest", interrupted)
    U = planted(rng)
    model = fit(U, memory_limit=60_000)
    start = op.geometry.keep_largest(project_oblique_plus(U))
    assert model.objective_ < KIndicators(U).value(start)


@pytest.mark.parametrize(
    "options", [{"embedding": "laplacian"}, {"n_init": 2}, {"method": op.methods.Polish()}]
)
def test_what_needs_memory_is_refused(options):
    with pytest.raises(ValueError, match="one start and the default method only: bring it into"):
        op.KIndicatorsClustering(2, **options).fit(da.ones((9, 3)))
    with pytest.raises(ValueError, match="A Dask array, or other data in blocks of rows, is"):
        op.KIndicatorsClustering(2, memory_limit="1MB", **options).fit(np.ones((9, 3)))


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
