"""The projection of matrices in row blocks: certified, and that of the matrix in memory."""

import dask.array as da
import h5py
import numpy as np
import pytest
import zarr

import orthoplus as op
from orthoplus.data.stored import Stored
from orthoplus.projection import merged, project_stiefel_plus
from orthoplus.projection.merged import project_row_blocks

N = 6000


def kinds(rng):
    return {
        "uniform": rng.random((N, 6)),
        "gaussian": rng.standard_normal((N, 4)),
        "float32": rng.standard_normal((N, 5)).astype(np.float32),
        "one column": rng.standard_normal((N, 1)),
        "mostly negative": rng.standard_normal((N, 3)) - 1.5,
    }


@pytest.fixture(autouse=True)
def few_open_rows(monkeypatch):
    monkeypatch.setattr(merged, "OPEN_ROWS", 600)
    monkeypatch.setattr(merged, "SAMPLE_ROWS", 500)


@pytest.mark.parametrize("kind", kinds(np.random.default_rng(0)))
def test_blocks_give_the_certified_point(kind, rng):
    C = kinds(rng)[kind]
    ours = op.project(C, memory_limit=200_000, tol=1e-11)
    whole = op.project(C, tol=1e-11)
    assert whole.status is op.Status.CERTIFIED
    assert ours.status is op.Status.CERTIFIED
    assert ours.value == pytest.approx(whole.value, rel=2e-11)
    assert ours.bound >= whole.value * (1 - 1e-14)
    assert float(np.vdot(C, ours.X)) == pytest.approx(ours.value, rel=1e-6)
    assert ours.violation <= (1e-6 if C.dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("seed", range(10))
def test_bound_is_one_where_it_is_tight_and_rows_are_few(seed, monkeypatch):
    # So few rows that the exact optimum is known, and so few of them open that passes must work.
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((40, 3))
    C[:3] = np.abs(C[:3])
    monkeypatch.setattr(merged, "OPEN_ROWS", 8)
    exact = project_stiefel_plus(C)
    ours = project_row_blocks(Stored(C, 8 * 3 * 8 * 7), tol=1e-12, max_passes=100)
    assert exact.status is op.Status.CERTIFIED
    assert ours.value <= exact.value * (1 + 1e-13) <= ours.bound * (1 + 2e-13)
    if ours.status is op.Status.CERTIFIED:
        assert ours.value == pytest.approx(exact.value, rel=1e-11)


def test_dask_and_stored_arrays(tmp_path, rng):
    C = rng.random((N, 5))
    whole = op.project(C)
    lazy = op.project(da.from_array(C, chunks=(1700, 2)))
    assert isinstance(lazy.labels, da.Array)
    np.testing.assert_array_equal(np.asarray(lazy.labels), whole.labels)
    np.testing.assert_allclose(np.asarray(lazy.weights), whole.weights, rtol=1e-12)
    np.save(tmp_path / "C.npy", C)
    zarr.create_array(tmp_path / "C.zarr", data=C, chunks=(900, 5))
    with h5py.File(tmp_path / "C.h5", "w") as file:
        for stored in (
            file.create_dataset("C", data=C),
            zarr.open_array(tmp_path / "C.zarr", mode="r"),
            np.load(tmp_path / "C.npy", mmap_mode="r"),
        ):
            found = op.project(stored, memory_limit=100_000)
            np.testing.assert_array_equal(found.labels, whole.labels)
            np.testing.assert_allclose(found.weights, whole.weights, rtol=1e-12)


def test_columns_that_cannot_be_decided_are_named(rng):
    C = rng.random((N, 3))
    C[:, 1] = -1.0
    with pytest.raises(ValueError, match="Column 1 of `C` has no positive entry"):
        op.project(C, memory_limit="1MB")
    with pytest.raises(ValueError, match="Column 1 of `C` has no positive entry"):
        op.project(da.from_array(C, chunks=(1700, 3)))
    C[N // 2, 0] = np.nan
    with pytest.raises(ValueError, match="1 entries that are NaN or infinite"):
        op.project(da.from_array(C, chunks=(1700, 3)))
    with pytest.raises(ValueError, match="gives each column of `C` a positive entry"):
        op.project(np.eye(N, 1) * np.ones(3), memory_limit="1MB")
    with pytest.raises(ValueError, match="largest entry of `C` is 2e"):
        op.project(rng.random((N, 2)) * 1e200 + 1e200, memory_limit="1MB")
