"""Sparse matrices of users: every index is checked before a compiled loop follows it."""

from typing import Any

import numpy as np

from orthoplus.core.errors import InputError, InputTypeError


def as_csr(A: Any, name: str) -> Any:
    """Return a SciPy sparse matrix as CSR, after `check_sparse`.

    Examples
    --------
    >>> from scipy.sparse import coo_array
    >>> as_csr(coo_array(np.eye(2)), "A").format
    'csr'
    """
    A = as_compressed(A, name)
    return A if A.format == "csr" else A.tocsr()


def as_compressed(A: Any, name: str) -> Any:
    """Return a SciPy sparse matrix as CSR, or as it is if it is CSC, after `check_sparse`."""
    check_sparse(A, name)
    if A.format in ("csr", "csc"):
        return A
    rows = A.tocsr()
    check_sparse(rows, name)  # lists of lists, too, hold any number
    return rows


def check_sparse(A: Any, name: str) -> None:
    """Raise unless the indices of a SciPy sparse matrix lie within its shape.

    SciPy checks them when it makes a matrix, but not when a part of it is replaced, and its loops
    and ours would read or write outside of the arrays. One pass over the indices.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> A = csr_array(np.eye(2))
    >>> A.indices[0] = 7
    >>> check_sparse(A, "A")
    Traceback (most recent call last):
    orthoplus.InputError: `A` is a sparse matrix with the column index 7, but has 2 columns: ...
    """
    if A.dtype.kind not in "fiub":
        raise InputTypeError(f"`{name}` is a sparse matrix of {A.dtype}: real numbers are needed.")
    if len(A.shape) != 2:
        raise InputError(
            f"`{name}` is a sparse array of shape {A.shape}: a matrix of two dimensions is needed."
        )
    if A.format == "coo":
        for axis, indices in enumerate(A.coords):
            _check_length(name, len(indices), len(A.data))
            _check_range(name, indices, A.shape[axis], "column" if axis else "row")
    elif A.format in ("csr", "csc", "bsr"):
        _check_compressed(A, name)


def _check_compressed(A: Any, name: str) -> None:
    """Check pointers and indices by rows, by columns, or of the blocks of BSR."""
    heights = A.blocksize if A.format == "bsr" else (1, 1)
    shape = tuple(length // height for length, height in zip(A.shape, heights, strict=True))
    major, minor = (1, 0) if A.format == "csc" else (0, 1)
    pointers, indices = A.indptr, A.indices
    is_increasing = pointers.ndim == 1 and len(pointers) == shape[major] + 1 and pointers[0] == 0
    if not is_increasing or (np.diff(pointers) < 0).any():
        raise InputError(
            f"`{name}` is a sparse matrix whose pointers (`indptr`) do not fit its shape "
            f"{A.shape}: they must rise from 0, one for each {'column' if major else 'row'} and "
            f"one more. {_ADVICE}"
        )
    stored = int(pointers[-1])
    if stored > min(len(indices), len(A.data)):
        _check_length(name, min(len(indices), len(A.data)), stored)
    _check_range(name, indices[:stored], shape[minor], "column" if minor else "row")


_ADVICE = "Make it again from its entries, for example with `scipy.sparse.coo_array`."


def _check_length(name: str, n_indices: int, n_values: int) -> None:
    if n_indices != n_values:
        raise InputError(
            f"`{name}` is a sparse matrix of {n_values} entries with the indices or values of "
            f"{n_indices}. {_ADVICE}"
        )


def _check_range(name: str, indices: Any, length: int, axis: str) -> None:
    if indices.dtype.kind not in "iu":
        raise InputError(f"`{name}` is a sparse matrix whose {axis} indices are {indices.dtype}.")
    if not len(indices) or (0 <= indices.min() and indices.max() < length):
        return
    bad = indices[(indices < 0) | (indices >= length)][0]
    raise InputError(
        f"`{name}` is a sparse matrix with the {axis} index {bad}, but has {length} {axis}s: it "
        f"was changed by hand, or is damaged. {_ADVICE}"
    )
