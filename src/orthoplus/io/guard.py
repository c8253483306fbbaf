"""Enforce limits on all readers, so that no file can crash, hang or exhaust the memory.

The size that a file declares is compared with the size of the file and with the memory before any
data are read. Compiled readers first run in a separate process; readers that yield rows in this
process check the CPU time. Indices of sparse matrices are validated.
"""

import json
import logging
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import coo_array, csr_array

from orthoplus.core.errors import FileError, InputError, MissingPackageError
from orthoplus.core.types import IntArray
from orthoplus.data.stored import parse_memory

_LIMIT_VARIABLE = "ORTHOPLUS_MAX_BYTES"
# Where Linux states the memory of a container, in versions 2 and 1 of control groups.
_CONTAINER_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
# Share of the machine's memory that one array may take; the methods need room for work arrays.
MEMORY_SHARE = 0.5
# Largest plausible ratio of declared to stored bytes: compression gives about 1000, and converting
# one byte to float64 gives 8. Declared sizes below `_SMALL_BYTES` are always accepted.
_MOST_EXPANSION, _SMALL_BYTES = 10_000, 1 << 24
# CPU seconds that a trial reading may take, plus as many for every `_TRIAL_BYTES` of the file. The
# limit on wall time is `_BUSY` times that, because the machine may be busy. The factor is large if
# the system limits CPU time: on a loaded machine a process may get a hundredth of a processor.
_TRIAL_SECONDS, _TRIAL_BYTES = 4.0, 1 << 26
_BUSY = 60.0 if hasattr(signal, "SIGXCPU") else 5.0
# Rows that are read one by one may take as long, plus as much for every `_ROW_BYTES` of text: ten
# times what the shortest cells take. The time is checked after every `_ROWS_AT_ONCE` rows.
_ROW_BYTES, _ROWS_AT_ONCE = 1 << 19, 256
# Memory of a short cell of text in a list, with its share of the list.
_CELL_BYTES = 64
# The cells of a row with fewer of them, or with fewer characters, are not counted.
WIDE_ROW = 1 << 16
# Maximum number of arrays or members in one file.
MOST_MEMBERS = 10_000
_TRIAL = Path(__file__).with_name("trial.py")
_LOG = logging.getLogger("orthoplus")
T = TypeVar("T")


def memory_limit() -> int:
    """Return the largest size of an array in bytes: ``ORTHOPLUS_MAX_BYTES``, or half of the memory.

    Examples
    --------
    >>> memory_limit() > 0
    True
    """
    wanted = os.environ.get(_LIMIT_VARIABLE, "")
    if wanted.strip():
        return _parse_limit(wanted)
    return int(MEMORY_SHARE * _machine_memory())


def _parse_limit(wanted: str) -> int:
    try:
        return parse_memory(wanted)
    except InputError:
        raise InputError(
            f"The environment variable {_LIMIT_VARIABLE} is {wanted!r}: it must be a positive "
            f'number of bytes, such as "2000000000" or "2GB".'
        ) from None


def _machine_memory() -> int:
    """Return the bytes of memory of this machine, or of the container that the process is in."""
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        found = [1 << 33]
    for path in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # "max" stands for no limit
            found.append(int(path.read_text(encoding="ascii")))
    return min(n_bytes for n_bytes in found if n_bytes > 0)


def check_regular(path: Path) -> None:
    """Raise `FileError` unless this is the path of a regular file; a pipe would never end."""
    try:
        if path.is_dir():
            raise FileError(f"`{path}` is a folder; a file is expected.")
        if path.is_file():
            return
        if not path.exists():
            raise FileError(f"`{path}` does not exist.")
    except OSError as error:  # such as a name that is too long, or a folder of another user
        raise FileError(f"`{path}` cannot be read: {error.strerror}.") from None
    raise FileError(f"`{path}` is a device or a pipe; a regular file is expected.")


def guarded(path: Path, read: Callable[[], T]) -> T:
    """Run a reader and turn any exception that a damaged file causes into a `FileError`."""
    check_regular(path)
    memory_limit()  # raises here if the variable is wrong: that is not the fault of the file
    try:
        with warnings.catch_warnings(action="ignore"):  # SciPy warns about unusual files
            return read()
    except (FileError, MissingPackageError):
        raise
    except PermissionError:
        raise FileError(f"`{path}` cannot be read: permission denied.") from None
    except MemoryError:
        raise FileError(f"`{path}` does not fit into memory.") from None
    except Exception as error:  # SciPy and h5py raise many exception classes on damaged files
        kinds = path.suffixes[-2:] if path.suffix.lower() == ".gz" else [path.suffix]
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise FileError(
            f"`{path}` cannot be read as a {''.join(kinds).lower()} file: it is damaged or of "
            f"another type ({reason.rstrip('.')})."
        ) from error


def check_size(path: Path, shape: tuple[int, ...], dtype: Any = np.float64) -> None:
    """Refuse a declared array that does not fit into memory, or that the file cannot contain.

    Numbers are counted in the type they are read in or converted to, whichever is larger.
    """
    stored = np.dtype(dtype)
    is_kept = stored.kind in "SUO" or stored == np.float32
    n_bytes = math.prod(shape) * (
        stored.itemsize if is_kept else max(8, stored.itemsize)
    )  # Python ints cannot overflow
    if n_bytes > (limit := memory_limit()):
        raise FileError(
            f"`{path}` declares {n_bytes / 1e9:.3g} GB of data, more than the limit of "
            f"{limit / 1e9:.3g} GB for one array. If the file is intact, raise the limit with the "
            f"environment variable ORTHOPLUS_MAX_BYTES, or pass a smaller part of the data."
        )
    size = path.stat().st_size
    if n_bytes > max(_MOST_EXPANSION * size, _SMALL_BYTES):
        raise FileError(
            f"`{path}` declares an array of {n_bytes} bytes, but has only {size} bytes: it is "
            f"truncated or damaged."
        )


def read_on_trial(path: Path, kind: str) -> dict[str, str]:
    """Read a file on trial in another process, and return why parts of it cannot be read, by key.

    The process has limits on memory and time, so that a damaged file can only crash or hang that
    process. Raise `FileError` if nothing can be read.
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
        raise FileError(f"`{path}` is damaged: the library that reads such files crashed on it.")
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


def check_cells(path: Path, n_cells: int) -> None:
    """Refuse a table if its cells would take too much memory as text."""
    if n_cells > (most := memory_limit() // _CELL_BYTES):
        raise FileError(
            f"`{path}` has more than {most} cells that are kept as text, which exceeds the limit "
            f"of {memory_limit() / 1e9:.3g} GB. If the file is intact, raise the limit with the "
            f"environment variable ORTHOPLUS_MAX_BYTES, or pass fewer rows or columns."
        )


def within_memory(
    path: Path, rows: Iterable[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows of cells that the caller keeps; refuse the file if they take too much memory."""
    n_cells = 0
    for count, (number, row) in enumerate(rows, 1):
        n_cells += len(row) + 2  # the row itself takes as much as two cells
        if count % _ROWS_AT_ONCE == 0:
            check_cells(path, n_cells)
        yield number, row


def _too_late(path: Path, seconds: float) -> FileError:
    return FileError(
        f"`{path}` could not be read within {math.ceil(seconds)} seconds: it is probably damaged. "
        f"Save the data again, for example as .npz."
    )


def check_members(path: Path, n_members: int) -> None:
    """Refuse a file with too many members to list in a reasonable time."""
    if n_members > MOST_MEMBERS:
        raise FileError(f"`{path}` has {n_members} members; at most {MOST_MEMBERS} are supported.")


def refuse_failed(path: Path, failures: dict[str, str], key: str) -> None:
    """Raise `FileError` if the trial found that the array with this key cannot be read."""
    if key in failures:
        what = f"`{key}` in `{path}`" if key else f"`{path}`"
        raise FileError(f"{what} cannot be read ({failures[key]}): it is damaged or too large.")


def as_numbers(path: Path, values: Any) -> Any:
    """Convert the values to float32 or float64; refuse anything but real numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        kind = "complex numbers" if array.dtype.kind == "c" else f"data of type {array.dtype}"
        raise FileError(f"`{path}` holds {kind}; real numbers are required.")
    return array.astype(np.float32 if array.dtype == np.float32 else np.float64, copy=False)


def as_indices(path: Path, values: Any, name: str) -> IntArray:
    """Convert the values to a vector of integers; refuse anything else."""
    array = np.asarray(values).reshape(-1)
    if array.dtype.kind not in "iu":
        raise FileError(f"`{path}`: the {name} of its sparse array are not integers.")
    return array.astype(np.int64)


def compressed_rows(
    path: Path, parts: tuple[Any, Any, Any], shape: tuple[int, int], by_row: bool
) -> csr_array:
    """Build a CSR array from (data, indices, indptr) by rows or columns, and check every index.

    SciPy does not check these arrays; invalid indices would make its compiled loops read outside
    of them.
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
    """Build a CSR array from (data, row, column), and check every index."""
    check_size(path, (sum(shape),))
    rows, columns = as_indices(path, parts[1], "rows"), as_indices(path, parts[2], "columns")
    _check_indices(path, rows, shape[0], "row")
    _check_indices(path, columns, shape[1], "column")
    data = as_numbers(path, parts[0]).reshape(-1)
    return coo_array((data, (rows, columns)), shape=shape).tocsr()


def _check_indices(path: Path, indices: IntArray, length: int, axis: str) -> None:
    """Raise `FileError` if an index is outside 0, ..., length - 1; the message names the first."""
    bad = np.flatnonzero((indices < 0) | (indices >= length))
    if bad.size:
        raise FileError(
            f"`{path}`: its sparse array has the {axis} index {indices[bad[0]]} (entry "
            f"{bad[0]}), but {length} {axis}s. The file is damaged."
        )
