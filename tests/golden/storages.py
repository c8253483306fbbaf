"""The data of the golden record: planted matrices, drawn from a seed, in every storage.

Every storage holds the same numbers, so that a difference between two storages is one of the code.
The groups are far apart: the answers stay the same under another rounding.
"""

from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator

STORAGES = ("c", "f", "float32", "csr", "operator", "memmap", "hdf5", "zarr", "dask")
# Storages that are read in blocks of rows if there is a memory limit.
LIMITED = ("memmap", "hdf5", "zarr")
# Least rows in a block. A block takes an eighth of the memory limit.
BLOCK_ROWS = 20
_BLOCK_SHARE = 8


def make_groups(rng, n=90, r=18, k=3, noise=0.08):
    """Return a sparse nonnegative matrix whose rows are near to k directions.

    The directions overlap in a few entries; each has n/k rows, in random order.
    """
    spectra = np.kron(np.eye(k), np.ones(r // k)) * rng.uniform(0.5, 1.5, (k, r))
    spectra += 0.2 * rng.random((k, r)) * (rng.random((k, r)) < 0.3)
    labels = rng.permutation(np.arange(n) % k)
    A = rng.uniform(0.5, 1.5, (n, 1)) * spectra[labels]
    return A + noise * rng.random((n, r)) * (rng.random((n, r)) < 0.5)


def make_signed(rng, n=90, r=18, k=3):
    """Return a matrix of both signs: rows along k directions, with positive weights, and noise."""
    directions = np.linalg.qr(rng.standard_normal((r, k)))[0].T
    labels = rng.permutation(np.arange(n) % k)
    return rng.uniform(0.5, 1.5, (n, 1)) * directions[labels] + 0.02 * rng.standard_normal((n, r))


def make_noisy(rng, n=90, r=20, k=4):
    """Return groups under so much noise that a search has work to do, and three rows of zeros."""
    A = make_groups(rng, n, r, k, noise=1.5)
    A[rng.choice(n, 3, replace=False)] = 0.0
    return A


def make_points(rng, n=90, r=6, k=3, *, radius=0.3):
    """Return points in k balls that are far apart."""
    labels = rng.permutation(np.arange(n) % k)
    return 4.0 * np.eye(k, r)[labels] + radius * rng.standard_normal((n, r))


def make_graph(rng, n=60, k=3):
    """Return a symmetric matrix of similarities with k groups and a few weak edges between them."""
    labels = rng.permutation(np.arange(n) % k)
    within = rng.uniform(0.5, 1.5, (n, n)) * (labels[:, None] == labels)
    W = within + 0.1 * rng.random((n, n)) * (rng.random((n, n)) < 0.1)
    W = np.triu(W, 1)
    return W + W.T


def make_basis(rng, n=90, k=3):
    """Return an orthonormal basis of a space near to that of k indicators."""
    labels = rng.permutation(np.arange(n) % k)
    H = rng.uniform(0.7, 1.3, (n, 1)) * np.eye(k)[labels] + 0.05 * rng.standard_normal((n, k))
    rotation = np.linalg.qr(rng.standard_normal((k, k)))[0]
    return np.linalg.qr(H)[0] @ rotation


def make_scores(rng, n=80, k=4):
    """Return a matrix near to a point of S+; every column has positive entries."""
    labels = rng.permutation(np.arange(n) % k)
    return rng.uniform(0.5, 1.5, (n, 1)) * np.eye(k)[labels] + 0.2 * rng.standard_normal((n, k))


def make_flows(rng, n=7):
    """Return a symmetric matrix of whole numbers, of which no two are likely to be equal."""
    F = np.triu(rng.integers(1, 200, (n, n)), 1).astype(float)
    return F + F.T


def store(A, storage, folder, name="A"):
    """Return the matrix A in this storage; files are written into the folder."""
    path = Path(folder) / f"{name}.{storage}"
    if storage in _IN_MEMORY:
        return _IN_MEMORY[storage](A)
    return _ON_DISK[storage](A, path)


def limit_for(A, storage):
    """Return the option ``memory_limit`` that cuts A into blocks, for storages that are cut."""
    if storage not in LIMITED:
        return {}
    line = int(np.prod(A.shape[1:])) * 8
    return {"memory_limit": _BLOCK_SHARE * _block_lines(A) * line}


def _block_lines(A):
    """Return the lines in a block: rows of a matrix, or of the image."""
    return max(BLOCK_ROWS, len(A) // 6) if A.ndim == 2 else 2


def _as_memmap(A, path):
    np.save(path.with_suffix(".npy"), A)
    return np.load(path.with_suffix(".npy"), mmap_mode="r")


def _as_hdf5(A, path):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("A", data=A, chunks=_chunks(A))
    return h5py.File(path, "r")["A"]


def _as_zarr(A, path):
    import zarr

    stored = zarr.create_array(str(path), shape=A.shape, dtype=A.dtype, chunks=_chunks(A))
    stored[...] = A
    return stored


def _chunks(A):
    return (min(_block_lines(A) // 2, len(A)), *A.shape[1:])


def _as_dask(A):
    import dask.array as da

    return da.from_array(A, chunks=(max(1, len(A) // 4 + 1), *A.shape[1:]))


_IN_MEMORY = {
    "c": np.ascontiguousarray,
    "f": np.asfortranarray,
    "float32": lambda A: A.astype(np.float32),
    "csr": csr_array,
    "operator": aslinearoperator,
    "dask": _as_dask,
}
_ON_DISK = {"memmap": _as_memmap, "hdf5": _as_hdf5, "zarr": _as_zarr}
