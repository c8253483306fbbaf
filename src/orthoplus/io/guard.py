"""The limits that every reader keeps, so that no file crashes it, hangs it or fills the memory.

A size that a file promises is checked against the file and the memory before anything is read.
Compiled readers read it in a process of their own first; those that yield rows in this process look
at the clock. Indices of sparse matrices are checked.
"""

import json
import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import coo_array, csr_array

from orthoplus.core.errors import FileError
from orthoplus.core.types import IntArray

# Of the machine's memory, what one array may take: the methods need room beside it.
MEMORY_SHARE = 0.5
# Compression expands a byte to a thousand, which become 8 each; a small promise is always believed.
_MOST_EXPANSION, _SMALL_BYTES = 10_000, 1 << 24
# A trial reading may take so many seconds of processor time, and as much again for every so many
# bytes; and a multiple of that by the clock, on a machine that is busy. The multiple is large where
# the system limits processor time: on a machine with much else to do a process gets a hundredth.
_TRIAL_SECONDS, _TRIAL_BYTES = 4.0, 1 << 26
_BUSY = 60.0 if hasattr(signal, "SIGXCPU") else 5.0
# Rows that come one by one may take the same time, and as much again for so many bytes of text: ten
# times what the shortest cells take. How many rows pass between two looks at the clock.
_ROW_BYTES, _ROWS_AT_ONCE = 1 << 19, 256
# Arrays or parts in one file.
MOST_MEMBERS = 10_000
_TRIAL = Path(__file__).with_name("trial.py")
_LOG = logging.getLogger("orthoplus")
T = TypeVar("T")


def memory_limit() -> int:
    """Return the bytes that one array may take: ``ORTHOPLUS_MAX_BYTES``, else half of the memory.

    Examples
    --------
    >>> memory_limit() > 0
    True
    """
    wanted = os.environ.get("ORTHOPLUS_MAX_BYTES", "")
    if wanted.isdigit():
        return int(wanted)
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        memory = 1 << 33
    return int(MEMORY_SHARE * memory)


def check_size(path: Path, shape: tuple[int, ...], dtype: Any = np.float64) -> None:
    """Refuse a promised array that does not fit into memory, or that the file cannot hold.

    Numbers count as the float32 or float64 that they become.
    """
    stored = np.dtype(dtype)
    is_kept = stored.kind in "SUO" or stored == np.float32
    n_bytes = math.prod(shape) * (stored.itemsize if is_kept else 8)  # integers: no overflow
    if n_bytes > (limit := memory_limit()):
        raise FileError(
            f"`{path}` declares {n_bytes / 1e9:.3g} GB of data, but one array may take "
            f"{limit / 1e9:.3g} GB here. Nothing was read. If the file is sound, set "
            f"ORTHOPLUS_MAX_BYTES, or give a smaller part of it."
        )
    size = path.stat().st_size
    if n_bytes > max(_MOST_EXPANSION * size, _SMALL_BYTES):
        raise FileError(
            f"`{path}` declares an array of {n_bytes} bytes, which its {size} bytes cannot hold: "
            f"it is truncated or damaged."
        )


def read_on_trial(path: Path, kind: str) -> dict[str, str]:
    """Return why parts of a file cannot be read, by their keys, after a trial in another process.

    That process has a limit of memory and of time. `FileError` if nothing can be read.
    """
    seconds = _TRIAL_SECONDS * (1.0 + path.stat().st_size / _TRIAL_BYTES)
    limits = [str(memory_limit()), str(math.ceil(seconds))]
    words = [sys.executable, "-P", str(_TRIAL), kind, str(path), *limits]
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    try:
        done = subprocess.run(
            words,
            timeout=_BUSY * seconds,
            capture_output=True,
            check=False,
            env=os.environ | one_thread,
        )
        is_late = hasattr(signal, "SIGXCPU") and done.returncode == -signal.SIGXCPU
    except subprocess.TimeoutExpired:
        is_late = True
    if is_late:
        raise _too_late(path, seconds)
    if done.returncode:
        _LOG.debug("the trial of %s ended with %d", path, done.returncode)
        raise FileError(f"`{path}` makes the library that reads such files crash: it is damaged.")
    failures: dict[str, str] = json.loads(done.stdout)
    refuse_failed(path, failures, "")
    return failures


def within_time(path: Path, rows: Iterable[T], n_bytes: Callable[[], int]) -> Iterator[T]:
    """Yield the rows; refuse the file if they take more processor time than its text may.

    ``n_bytes`` gives the bytes of text up to the current row.
    """
    start = time.thread_time()
    for count, row in enumerate(rows):
        if count % _ROWS_AT_ONCE == 0:
            spent = time.thread_time() - start
            if spent > (seconds := _TRIAL_SECONDS * (1.0 + n_bytes() / _ROW_BYTES)):
                raise _too_late(path, seconds)
        yield row


def _too_late(path: Path, seconds: float) -> FileError:
    return FileError(
        f"`{path}` could not be read within {math.ceil(seconds)} seconds: it is probably damaged. "
        f"Save the data again, for example as .npz."
    )


def check_members(path: Path, n_members: int) -> None:
    """Refuse a file of more parts than any of ours has: to list them alone would take long."""
    if n_members > MOST_MEMBERS:
        raise FileError(f"`{path}` has {n_members} parts; at most {MOST_MEMBERS} are read.")


def refuse_failed(path: Path, failures: dict[str, str], key: str) -> None:
    """Raise if the trial found that this part cannot be read."""
    if key in failures:
        what = f"`{key}` in `{path}`" if key else f"`{path}`"
        raise FileError(f"{what} cannot be read ({failures[key]}): it is damaged, or too large.")


def as_numbers(path: Path, values: Any) -> Any:
    """Return the values as float32 or float64; refuse all but real numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        kind = "complex numbers" if array.dtype.kind == "c" else f"data of type {array.dtype}"
        raise FileError(f"`{path}` holds {kind}: real numbers are needed.")
    return array.astype(np.float32 if array.dtype == np.float32 else np.float64, copy=False)


def as_indices(path: Path, values: Any, name: str) -> IntArray:
    """Return the values as a vector of whole numbers, or refuse them."""
    array = np.asarray(values).reshape(-1)
    if array.dtype.kind not in "iu":
        raise FileError(f"`{path}`: the {name} of its sparse array are not whole numbers.")
    return array.astype(np.int64)


def compressed_rows(
    path: Path, parts: tuple[Any, Any, Any], shape: tuple[int, int], by_row: bool
) -> csr_array:
    """Return a CSR array from (data, indices, indptr) by rows or columns, every index checked.

    SciPy trusts these arrays; its compiled loops would read outside of them.
    """
    rows, columns = shape if by_row else shape[::-1]
    check_size(path, (rows + columns,))
    data = as_numbers(path, parts[0]).reshape(-1)
    indices, indptr = as_indices(path, parts[1], "indices"), as_indices(path, parts[2], "indptr")
    if len(indptr) != rows + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise FileError(
            f"`{path}`: the pointers of its sparse array do not fit its {rows} "
            f"{'rows' if by_row else 'columns'}. The file is damaged."
        )
    if not len(data) == len(indices) == indptr[-1]:
        raise FileError(
            f"`{path}`: its sparse array has {len(data)} values, {len(indices)} indices and "
            f"pointers to {indptr[-1]}: these must agree. The file is damaged."
        )
    _check_indices(path, indices, columns, "column" if by_row else "row")
    matrix = csr_array((data, indices, indptr), shape=(rows, columns))
    matrix = matrix if by_row else matrix.T.tocsr()
    matrix.sum_duplicates()
    return matrix


def coordinate_rows(path: Path, parts: tuple[Any, Any, Any], shape: tuple[int, int]) -> csr_array:
    """Return a CSR array from (data, row, column), every index checked."""
    check_size(path, (sum(shape),))
    rows, columns = as_indices(path, parts[1], "rows"), as_indices(path, parts[2], "columns")
    _check_indices(path, rows, shape[0], "row")
    _check_indices(path, columns, shape[1], "column")
    data = as_numbers(path, parts[0]).reshape(-1)
    return coo_array((data, (rows, columns)), shape=shape).tocsr()


def _check_indices(path: Path, indices: IntArray, length: int, axis: str) -> None:
    """Raise if an index is outside 0, ..., length - 1, naming the first one."""
    bad = np.flatnonzero((indices < 0) | (indices >= length))
    if bad.size:
        raise FileError(
            f"`{path}`: its sparse array has the {axis} index {indices[bad[0]]} (entry "
            f"{bad[0]}), but {length} {axis}s. The file is damaged."
        )
