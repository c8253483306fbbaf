"""Reading of data: which storage becomes which matrix, and what is refused, in words."""

import dask.array as da
import h5py
import numpy as np
import pytest
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from every_storage import LIMITED, STORAGES, limit_for
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.data import (
    as_data,
    as_dense_data,
    as_entries,
    as_nonnegative_data,
    check_finite_and_range,
)
from orthoplus.data.dask import DaskMatrix
from orthoplus.data.dense import Dense
from orthoplus.data.operator import Operator
from orthoplus.data.read import is_dask_array, is_stored, reads_in_blocks
from orthoplus.data.sparse import Sparse
from orthoplus.data.stored import Stored
from orthoplus.problems import ONMF

# Storages that are read in blocks of rows.
IN_BLOCKS = (*LIMITED, "dask", "dask, rows in ten chunks", "sparse dask")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (np.asarray, Dense),
        (np.ndarray.tolist, Dense),
        (csr_matrix, Sparse),
        (csc_matrix, Sparse),
        (coo_array, Sparse),
        (aslinearoperator, Operator),
        (da.from_array, DaskMatrix),
    ],
)
def test_type_decides_the_matrix(make, kind, rng):
    A = np.round(rng.random((5, 3)), 1)
    data = as_data(make(A))
    assert type(data) is kind
    np.testing.assert_allclose(data.to_dense(), A)


@pytest.mark.parametrize("storage", STORAGES)
def test_every_storage_has_the_same_entries(storage, rng, tmp_path):
    A = np.round(4 * rng.random((40, 5))) / 4
    given = STORAGES[storage](A, tmp_path)
    limit = limit_for(storage, A)
    assert reads_in_blocks(given, limit.get("memory_limit")) == (storage in IN_BLOCKS)
    assert is_dask_array(given) == ("dask" in storage)
    assert is_stored(given) == (storage in ("hdf5", "zarr") or "dask" in storage)
    np.testing.assert_array_equal(as_data(given, **limit).to_dense(), A)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_and_csr_matrices_are_not_copied(dtype, rng):
    A = rng.random((5, 3)).astype(dtype)
    for array in (A, np.asfortranarray(A), A[::2]):
        assert as_data(array).values is array
    sparse = csr_array(A)
    assert np.shares_memory(as_data(sparse).values.data, sparse.data)
    assert as_data(A, memory_limit="1MB").source is A


def test_other_types_of_numbers_become_float64(tmp_path):
    whole = np.arange(6, dtype=np.int16).reshape(3, 2)
    with h5py.File(tmp_path / "A.h5", "w") as file:
        for form in (whole, csr_array(whole), file.create_dataset("A", data=whole)):
            data = as_data(form)
            assert data.dtype == np.float64
            np.testing.assert_array_equal(data.to_dense(), whole)


def test_limit_cuts_an_array_in_memory_and_leaves_a_sparse_one():
    assert isinstance(as_data(np.eye(3), memory_limit="1MB"), Stored)
    assert isinstance(as_data([[1.0]], memory_limit="1MB"), Dense)
    assert isinstance(as_data(csr_array(np.eye(3)), memory_limit="1MB"), Sparse)
    with pytest.raises(InputError, match="Invalid `memory_limit='much'`"):
        as_data(csr_array(np.eye(3)), memory_limit="much")


def test_repeated_entries_are_added_and_the_input_is_left():
    data, indices, indptr = np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2])
    A = csr_array((data, indices, indptr), shape=(1, 2))
    assert as_data(A).squared_norm() == 9.0
    assert A.nnz == 2


def test_operator_without_transpose_is_explained():
    one_sided = LinearOperator((4, 3), matvec=lambda y: np.ones(4), dtype=float)
    with pytest.raises(InputTypeError, match=r"without products A'X.*rmatmat"):
        as_data(one_sided)
    of_integers = LinearOperator((4, 3), matvec=lambda y: np.ones(4), dtype=int)
    with pytest.raises(InputTypeError, match="LinearOperator of dtype int64: float32 or float64"):
        as_data(of_integers)


@pytest.mark.parametrize("storage", STORAGES)
def test_entries_that_cannot_be_used_are_named(storage, rng, tmp_path):
    A = rng.random((40, 3))
    limit = limit_for(storage, A)
    for number, message in (
        (np.nan, "`A` has 1 entries that are NaN or infinite"),
        (-np.inf, "`A` has 1 entries that are NaN or infinite"),
        (1e200, "`A` has entries as large as 1e"),
    ):
        bad = A.copy()
        bad[30, 1] = number
        folder = tmp_path / str(number)
        folder.mkdir()
        given = STORAGES[storage](bad, folder)
        with pytest.raises(ValueError, match=message):
            as_data(given, **limit)
        wrapped = as_data(given, **limit, check=False)
        with pytest.raises(ValueError, match=message):
            as_data(wrapped)  # what was only wrapped is checked when it is used
        with pytest.raises(ValueError, match=message):
            check_finite_and_range(wrapped, "A")


@pytest.mark.parametrize("storage", STORAGES)
def test_negative_entries_are_refused_with_advice(storage, rng, tmp_path):
    A = rng.random((40, 3))
    A[30, 1] = -2.0
    given, limit = STORAGES[storage](A, tmp_path), limit_for(storage, A)
    assert check_finite_and_range(as_data(given, **limit), "A") == -2.0
    with pytest.raises(InputError, match=r"the smallest is -2\): .* Take another."):
        as_nonnegative_data(given, **limit, advice="Take another.")
    with pytest.raises(InputError, match="the smallest is -2"):
        as_nonnegative_data(as_data(given, **limit))


def test_dask_arrays_that_are_not_matrices_are_explained():
    for array, message in (
        (da.ones((4, 2, 2)), r"Pass `A\.reshape\(-1, 2\)`"),
        (da.ones((9, 2))[da.ones(9) > 0], r"unknown length: call `A\.compute_chunk_sizes\(\)` fi"),
        (da.ones((0, 2)), r"shape \(0, 2\): a matrix"),
    ):
        with pytest.raises(InputError, match=message):
            as_data(array)
    with pytest.raises(InputTypeError, match="dtype complex128: real numbers are needed"):
        as_data(da.ones((4, 2), dtype=complex))


@pytest.mark.parametrize("storage", IN_BLOCKS)
def test_divergence_says_that_it_needs_the_entries_in_memory(storage, rng, tmp_path):
    A = rng.random((40, 3))
    data = as_data(STORAGES[storage](A, tmp_path), **limit_for(storage, A))
    with pytest.raises(InputTypeError, match=r"`A` is read in blocks of rows.*or use ONMF"):
        as_entries(data, instead="ONMF(A, k)")


def test_divergence_reads_what_is_in_memory(rng):
    A = rng.random((4, 3))
    assert as_entries(A, instead="").entries() is A
    with pytest.raises(InputTypeError, match="`A` is a LinearOperator"):
        as_entries(aslinearoperator(A), instead="ONMF(A, k)")


def test_dense_data_is_wanted_for_the_projection(rng):
    C = rng.standard_normal((6, 2))
    assert isinstance(as_dense_data(C, "C"), Dense)
    assert isinstance(as_dense_data(da.from_array(C), "C"), DaskMatrix)
    assert isinstance(as_dense_data(1e200 * C, "C", memory_limit="1MB"), Stored)  # of any size
    with pytest.raises(TypeError, match="sparse"):
        as_dense_data(csr_array(C), "C")
    C[2, 1] = np.nan
    for bad, limit in ((C, None), (C, "1MB"), (da.from_array(C), None)):
        with pytest.raises(ValueError, match="NaN or infinite"):
            as_dense_data(bad, "C", memory_limit=limit)


def test_rows_on_disk_are_held_to_the_same_range(rng, tmp_path):
    dense = rng.random((40, 5))
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["small"], file["fair"] = 1e-200 * dense, dense
        with pytest.raises(ValueError, match=r"`A` has .*: products of such numbers"):
            ONMF(file["small"], 2)
        assert ONMF(file["fair"], 2).total == pytest.approx((dense**2).sum())
