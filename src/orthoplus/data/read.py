"""Convert input of any supported type to a data matrix; no other module inspects types."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from orthoplus.core.checks import as_data_matrix, check_entry_size, check_finite
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.sparse_checks import as_csr
from orthoplus.data.base import DataMatrix
from orthoplus.data.dense import Dense
from orthoplus.data.memory import MemoryMatrix
from orthoplus.data.operator import Operator
from orthoplus.data.sparse import Sparse
from orthoplus.data.stored import (
    DEFAULT_LIMIT,
    Stored,
    check_source,
    is_sparse_on_disk,
    parse_memory,
)


def as_data(
    A: Any, name: str = "A", *, memory_limit: int | str | None = None, check: bool = True
) -> DataMatrix:
    """Convert data of any supported type to a checked `DataMatrix`, copied only if needed.

    Parameters
    ----------
    A : array-like, SciPy sparse matrix or LinearOperator of shape (n, r), or DataMatrix
        Also a Dask array, an h5py dataset or a Zarr array; stored arrays may be images of
        shape (height, width, r). A dense or CSR matrix of float32 or float64 is not copied; other
        dtypes are converted to float64, other sparse formats to CSR. Duplicate entries of a sparse
        matrix are summed. Sign and finiteness of a LinearOperator cannot be checked.
    name : str
        Name of the argument in error messages.
    memory_limit : int or str, optional
        Memory, in bytes or as a string such as "512MB", for the rows that are read at a time and
        the arrays computed from them. Vectors with one entry per row are added to it. For a Dask
        array the chunks decide instead; a sparse matrix in memory stays there. The default is "1GB"
        for a stored array; an array in memory is read in blocks only if a limit is given.
    check : bool
        Whether to check the entries. Types and the indices of sparse matrices are always checked.

    Examples
    --------
    >>> as_data([[1, 0], [0, -2]]).dtype
    dtype('float64')
    >>> type(as_data(np.eye(3), memory_limit="1MB")).__name__
    'Stored'
    """
    if check:
        return _checked(A, name, memory_limit)[0]
    return _wrap(A, name, memory_limit, check=False)


def as_nonnegative_data(
    A: Any,
    name: str = "A",
    *,
    memory_limit: int | str | None = None,
    advice: str = "Shift or clip the data.",
) -> DataMatrix:
    """Convert with `as_data`, and raise an error that ends in ``advice`` for negative entries.

    Examples
    --------
    >>> as_nonnegative_data([[1, 0], [0, -2]])
    Traceback (most recent call last):
    orthoplus.InputError: `A` has negative entries (the smallest is -2): ...
    """
    data, least = _checked(A, name, memory_limit)
    if least < 0:
        raise InputError(
            f"`{data.name or name}` has negative entries (the smallest is {least:.3g}): "
            f"orthogonal NMF needs A >= 0. {advice}"
        )
    return data


def as_counts(A: Any, name: str = "A") -> DataMatrix:
    """Convert to nonnegative data whose entries can be read, in any storage.

    Examples
    --------
    >>> as_counts([[2, 0], [1, 3]]).has_entries
    True
    """
    data = as_nonnegative_data(A, name)
    if not data.has_entries:
        raise InputTypeError(
            f"`{name}` is a LinearOperator: the divergence needs the entries of {name}. Pass a "
            f"dense or sparse matrix, or use ONMF({name}, k)."
        )
    return data


def as_entries(A: Any, name: str = "A", *, instead: str) -> MemoryMatrix:
    """Convert to nonnegative data in memory; the error for other storages names ``instead``.

    Examples
    --------
    >>> as_entries([[2, 0], [1, 3]], instead="ONMF(A, k)").shape
    (2, 2)
    """
    data = as_nonnegative_data(A, name)
    if not data.has_entries or not isinstance(data, MemoryMatrix):
        kind = "read in blocks of rows" if data.has_entries else "a LinearOperator"
        raise InputTypeError(
            f"`{name}` is {kind}: the divergence needs the entries of {name} in memory. Pass a "
            f"dense or sparse matrix, or use {instead}."
        )
    return data


def as_dense_data(C: Any, name: str, *, memory_limit: int | str | None = None) -> DataMatrix:
    """Convert to finite dense data in memory or in blocks of rows; entries may have any size.

    Examples
    --------
    >>> as_dense_data([[2.0, -1e300], [1.0, 3.0]], "C").shape
    (2, 2)
    """
    data = _wrap(C, name, memory_limit, check=True)
    if isinstance(data, (Sparse, Operator)):
        return Dense(as_data_matrix(C, name))  # raises the error with advice
    n_bad = 0 if isinstance(data, Dense) else data.least_and_largest()[0]
    _check_no_bad(n_bad, name)
    return data


def check_finite_and_range(data: DataMatrix, name: str) -> float:
    """Return the minimum of 0 and all entries; raise if an entry is nonfinite or out of range.

    Examples
    --------
    >>> float(check_finite_and_range(as_data([[2.0, -1.0], [1.0, 3.0]]), "A"))
    -1.0
    """
    n_bad, least, most = data.least_and_largest()
    _check_no_bad(n_bad, name)
    check_entry_size(max(-least, most), data.dtype, name)
    return least


def _check_no_bad(n_bad: int, name: str) -> None:
    if n_bad:
        raise InputError(
            f"`{name}` has {n_bad} entries that are NaN or infinite. Remove or impute them first."
        )


def reads_in_blocks(value: Any, memory_limit: int | str | None = None) -> bool:
    """Return whether `as_data` would read this in blocks of rows."""
    if isinstance(value, DataMatrix) or is_dask_array(value) or is_stored(value):
        return True
    return isinstance(value, np.ndarray) and memory_limit is not None


def is_dask_array(value: Any) -> bool:
    """Return whether this is a Dask array."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "dask") and hasattr(value, "chunks")


def is_stored(value: Any) -> bool:
    """Return whether this is an array on disk: of h5py, of Zarr, or of a backed AnnData.

    Examples
    --------
    >>> is_stored(np.eye(2)), is_stored([[1.0]])
    (False, False)
    """
    has_all = all(hasattr(value, name) for name in ("shape", "dtype", "chunks", "__getitem__"))
    return (has_all or is_sparse_on_disk(value)) and not isinstance(value, np.ndarray)


def _checked(A: Any, name: str, memory_limit: int | str | None) -> tuple[DataMatrix, float]:
    """Return the checked data, and the minimum of 0 and all entries."""
    if isinstance(A, DataMatrix):
        return A, check_finite_and_range(A, A.name or name)
    data = _wrap(A, name, memory_limit, check=True)
    if isinstance(data, Operator):
        return _checked_operator(data, name), 0.0
    if isinstance(data, Sparse):
        check_finite(data.values.data, name)
    return data, check_finite_and_range(data, name)


def _wrap(A: Any, name: str, memory_limit: int | str | None, *, check: bool) -> DataMatrix:
    if memory_limit is not None:
        parse_memory(memory_limit)
    if isinstance(A, DataMatrix):
        return A
    found = _wrapped(A, name, memory_limit, check=check)
    found.name = name
    return found


def _wrapped(A: Any, name: str, memory_limit: int | str | None, *, check: bool) -> DataMatrix:
    if isinstance(A, LinearOperator):
        return Operator(A)
    if issparse(A):
        A = as_csr(A, name)  # compiled loops rely on the indices, whoever checked the entries
        return Sparse(A if A.dtype in (np.float32, np.float64) else A.astype(np.float64))
    if is_dask_array(A):
        from orthoplus.data.dask import DaskMatrix

        return DaskMatrix(A, name)
    if reads_in_blocks(A, memory_limit):
        check_source(A, name)
        return Stored(A, memory_limit or DEFAULT_LIMIT)
    return Dense(as_data_matrix(A, name, check=check))


def _checked_operator(data: Operator, name: str) -> Operator:
    if data.dtype not in (np.float32, np.float64):
        raise InputTypeError(
            f"`{name}` is a LinearOperator of dtype {data.dtype}: float32 or float64 is needed. "
            f"Create it with `dtype=np.float64`."
        )
    try:
        data.values.rmatmat(np.zeros((data.shape[0], 1), dtype=data.dtype))
    except (NotImplementedError, TypeError) as error:
        raise InputTypeError(
            f"`{name}` is a LinearOperator without products A'X, which are needed as well as AY. "
            f"Define `rmatmat` (or `rmatvec`) too."
        ) from error
    return data
