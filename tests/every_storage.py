"""Provide the same matrix in every storage that `orthoplus.data` reads."""

import dask.array as da
import h5py
import numpy as np
import zarr
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator

from orthoplus.data.dask import DaskMatrix
from orthoplus.data.dense import Dense
from orthoplus.data.operator import Operator
from orthoplus.data.sparse import Sparse
from orthoplus.data.stored import Stored

# Rows of a block, so that small matrices have several.
HEIGHT = 4


def limit_of(width, height=HEIGHT):
    """Return the memory limit that gives blocks of this many rows."""
    return 8 * height * width * 8


def in_blocks(A, height=HEIGHT):
    """Return the array in blocks of rows."""
    return Stored(A, limit_of(A.shape[1], height))


def uneven_chunks(n):
    """Return heights of chunks: one with a single row, empty ones, and two with the rest."""
    rest = max(n - 1, 0)
    return (0, min(n, 1), rest // 2, 0, rest - rest // 2)


def as_dask(A, heights=None):
    """Return a Dask array with these chunks of rows, and two chunks of columns."""
    n, r = A.shape
    columns = (r,) if r == 1 else (r // 2, r - r // 2)
    return da.from_array(A, chunks=(heights or uneven_chunks(n), columns))


def as_sparse_dask(A):
    """Return a Dask array of CSR chunks, an empty one and one of one row among them."""
    rows = da.from_array(A, chunks=(uneven_chunks(len(A)), (A.shape[1],)))
    return rows.map_blocks(csr_array, dtype=A.dtype)


def _twice_half(block, halves):
    return block.scaled_rows(halves)


def _derived(blocks, A):
    return blocks.derive(_twice_half, blocks.scatter(np.full(len(A), 0.5, dtype=A.dtype)))


# Name -> the data matrix of an array.
FORMS = {
    "dense": Dense,
    "fortran": lambda A: Dense(np.asfortranarray(A)),
    "strided": lambda A: Dense(np.repeat(A, 2, axis=1)[:, ::2]),
    "sparse": lambda A: Sparse(csr_array(A)),
    "operator": lambda A: Operator(aslinearoperator(A)),
    "stored": in_blocks,
    "stored, one block": lambda A: in_blocks(A, len(A)),
    "stored, fortran": lambda A: in_blocks(np.asfortranarray(A), 1),
    "derived": lambda A: _derived(in_blocks(2 * A), A),
    "dask": lambda A: DaskMatrix(as_dask(A), "A"),
    "sparse dask": lambda A: DaskMatrix(as_sparse_dask(A), "A"),
    "derived of sparse dask": lambda A: _derived(DaskMatrix(as_sparse_dask(2 * A), "A"), A),
}
WITH_ENTRIES = [form for form in FORMS if form != "operator"]
BLOCKED = [form for form in FORMS if "stored" in form or "derived" in form or "dask" in form]
IN_MEMORY = [form for form in FORMS if form not in BLOCKED]


def _as_hdf5(A, folder):
    stored = h5py.File(folder / "A.h5", "w").create_dataset("A", data=A, chunks=(8, A.shape[1]))
    return stored


def _as_memory_map(A, folder):
    np.save(folder / "A.npy", A)
    return np.load(folder / "A.npy", mmap_mode="r")


# Name -> what a user passes to an estimator, of an array and a folder for files.
STORAGES = {
    "memory": lambda A, _: A,
    "fortran": lambda A, _: np.asfortranarray(A),
    "csr": lambda A, _: csr_array(A),
    "csc": lambda A, _: csr_array(A).tocsc(),
    "blocks": lambda A, _: A,
    "memory map": _as_memory_map,
    "hdf5": _as_hdf5,
    "zarr": lambda A, folder: zarr.create_array(folder / "A.zarr", data=A, chunks=(8, A.shape[1])),
    "dask": lambda A, _: as_dask(A),
    "dask, rows in ten chunks": lambda A, _: da.from_array(A, chunks=(-(-len(A) // 10), -1)),
    "sparse dask": lambda A, _: as_sparse_dask(A),
}
# Storages that are cut into blocks by a limit.
LIMITED = ("blocks", "memory map", "hdf5", "zarr")


def limit_for(storage, A, height=16):
    """Return the option of an estimator that has this storage read in blocks."""
    return {"memory_limit": limit_of(A.shape[1], height)} if storage in LIMITED else {}
