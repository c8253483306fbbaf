"""Check the indices of a user's sparse matrix before compiled loops rely on them."""

from typing import Any

import numpy as np

from orthoplus.core.errors import InputError, InputTypeError


def as_csr(A: Any, name: str) -> Any:
    """Return a SciPy sparse matrix as CSR in `canonical` form, after `check_sparse`.

    Examples
    --------
    >>> from scipy.sparse import coo_array
    >>> as_csr(coo_array(np.eye(2)), "A").format
    'csr'
    """
    A = as_compressed(A, name)
    return A if A.format == "csr" else A.tocsr()


def as_compressed(A: Any, name: str) -> Any:
    """Return a SciPy sparse matrix as CSR, or CSC if it is, in `canonical` form.

    It is checked by `check_sparse` first.
    """
    check_sparse(A, name)
    if A.format not in ("csr", "csc"):
        A = A.tocsr()
        check_sparse(A, name)  # a LIL matrix may hold bad indices, too
    return canonical(A)


def canonical(A: Any) -> Any:
    """Return a CSR or CSC matrix with sorted indices and without duplicates; copy only if needed.

    Sums over the stored entries, such as ||A||^2, are wrong if an entry is stored in several parts.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> canonical(csr_array(([2.0, 3.0], [0, 0], [0, 2]), shape=(1, 1))).data
    array([5.])
    """
    if not A.has_canonical_format:
        A = A.copy()
        A.sum_duplicates()
    return A


def check_sparse(A: Any, name: str) -> None:
    """Raise unless the indices of a SciPy sparse matrix lie within its shape.

    SciPy checks the indices when it builds a matrix, but not if its arrays are changed later. Out
    of range indices would let compiled loops access memory outside of the arrays. The check takes
    one pass over the indices.

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
        raise InputTypeError(
            f"`{name}` is a sparse matrix of dtype {A.dtype}: real numbers are needed."
        )
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
    """Check the pointers and indices of a CSR, CSC or BSR matrix; those of BSR count blocks."""
    heights = A.blocksize if A.format == "bsr" else (1, 1)
    shape = tuple(length // height for length, height in zip(A.shape, heights, strict=True))
    major, minor = (1, 0) if A.format == "csc" else (0, 1)
    pointers, indices = A.indptr, A.indices
    is_increasing = pointers.ndim == 1 and len(pointers) == shape[major] + 1 and pointers[0] == 0
    if not is_increasing or (np.diff(pointers) < 0).any():
        raise InputError(
            f"`{name}` is a sparse matrix whose pointers (`indptr`) do not fit its shape "
            f"{A.shape}: they must increase from 0 and have one entry more than there are "
            f"{'columns' if major else 'rows'}. {_ADVICE}"
        )
    # The arrays may be longer than the number of entries; what follows is never read.
    stored = int(pointers[-1])
    if stored > min(len(indices), len(A.data)):
        _check_length(name, min(len(indices), len(A.data)), stored)
    _check_range(name, indices[:stored], shape[minor], "column" if minor else "row")


_ADVICE = "Rebuild it from its entries, for example with `scipy.sparse.coo_array`."


def _check_length(name: str, n_indices: int, n_values: int) -> None:
    if n_indices != n_values:
        raise InputError(
            f"`{name}` is a sparse matrix of {n_values} entries with indices or values for only "
            f"{n_indices}. {_ADVICE}"
        )


def _check_range(name: str, indices: Any, length: int, axis: str) -> None:
    if indices.dtype.kind not in "iu":
        raise InputError(
            f"`{name}` is a sparse matrix with {axis} indices of dtype {indices.dtype}: integers "
            f"are needed. {_ADVICE}"
        )
    if not len(indices) or (0 <= indices.min() and indices.max() < length):
        return
    bad = indices[(indices < 0) | (indices >= length)][0]
    raise InputError(
        f"`{name}` is a sparse matrix with the {axis} index {bad}, but has {length} {axis}s: its "
        f"index arrays were modified or are corrupt. {_ADVICE}"
    )
