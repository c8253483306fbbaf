"""What a file holds, before and after it is read, and the one error of the readers.

Every format gives a catalogue: the arrays of the file with their sizes, none of them read yet. What
is too large, or no array of numbers, is refused from the catalogue alone.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from orthoplus.core.errors import FileError
from orthoplus.core.types import IntArray

# Of the machine's memory, what one array may take: the methods need room beside it.
MEMORY_SHARE = 0.5
# Without a key, an array of one of these names is preferred to the others.
MATRIX_NAMES = ("X", "A")
LABEL_NAMES = ("labels", "y")

Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Content:
    """An array as read from a file.

    Attributes
    ----------
    values : ndarray or csr_array
        Numbers; for labels also text.
    row_names, column_names : tuple of str, optional
        Where the file has them; for a cube the column names are those of the bands.
    notes : tuple of str
        What was changed on the way, in words.

    Examples
    --------
    >>> content = Content(np.eye(2), column_names=("a", "b"))
    >>> content.values.shape, content.column_names, content.row_names
    ((2, 2), ('a', 'b'), None)
    """

    values: Any
    row_names: Names | None = None
    column_names: Names | None = None
    notes: Names = ()


@dataclass(frozen=True)
class Entry:
    """One array of a file: its shape, whether it holds numbers or text, and how to read it."""

    shape: tuple[int, ...]
    is_numeric: bool
    load: Callable[[], Content]
    is_text: bool = False


Catalogue = Mapping[str, Entry]


def memory_limit() -> int:
    """Bytes that one array may take: ``ORTHOPLUS_MAX_BYTES``, else half of the memory.

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


def check_bytes(path: Path, n_bytes: int) -> None:
    """Refuse what would not fit, from the declared size, before anything is read."""
    if n_bytes > (limit := memory_limit()):
        raise FileError(
            f"`{path}` declares {n_bytes / 1e9:.3g} GB of data, but one array may take "
            f"{limit / 1e9:.3g} GB here. Nothing was read. If the file is sound, set "
            f"ORTHOPLUS_MAX_BYTES, or give a smaller part of it."
        )


def byte_count(shape: tuple[int, ...], itemsize: int) -> int:
    """The size of an array, in whole numbers that do not overflow."""
    count = itemsize
    for length in shape:
        count *= int(length)
    return count


def choose(
    path: Path, catalogue: Catalogue, key: str | None, ndims: tuple[int, ...], wanted: str
) -> tuple[str, Entry]:
    """The entry with this key; without one, the only one that fits, or one called X or A."""
    if key is not None:
        if key not in catalogue:
            raise FileError(f"`{path}` has no array `{key}`. It has {_listed(catalogue)}.")
        entry = catalogue[key]
        if not _fits(entry, ndims):
            raise FileError(
                f"`{key}` in `{path}` is {_described(entry)}, which is no {wanted}. "
                f"The file has {_listed(catalogue)}."
            )
        return key, entry
    fitting = {name: entry for name, entry in catalogue.items() if _fits(entry, ndims)}
    if not fitting:
        raise FileError(f"`{path}` has no {wanted}. It has {_listed(catalogue)}.")
    preferred = [n for n in (LABEL_NAMES if 1 in ndims else MATRIX_NAMES) if n in fitting]
    if len(fitting) > 1 and not preferred:
        raise FileError(
            f"`{path}` has {len(fitting)} arrays that could be meant: {_listed(fitting)}. "
            f"Name one with --key, or as {path.name}:NAME."
        )
    name = preferred[0] if preferred else next(iter(fitting))
    return name, fitting[name]


def _fits(entry: Entry, ndims: tuple[int, ...]) -> bool:
    if 1 in ndims:  # labels: a vector, also as a matrix of one row or column
        return (entry.is_numeric or entry.is_text) and sum(n != 1 for n in entry.shape) <= 1
    return entry.is_numeric and len(entry.shape) in ndims


def _described(entry: Entry) -> str:
    size = " x ".join(map(str, entry.shape)) or "single"
    kind = "numbers" if entry.is_numeric else "text" if entry.is_text else "objects"
    return f"{size} {kind}"


def _listed(catalogue: Catalogue, most: int = 12) -> str:
    if not catalogue:
        return "no arrays at all"
    shown = [f"`{name}` ({_described(entry)})" for name, entry in list(catalogue.items())[:most]]
    more = len(catalogue) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def compressed_rows(
    path: Path, parts: tuple[Any, IntArray, IntArray], shape: tuple[int, int], by_row: bool
) -> csr_array:
    """A CSR array from (data, indices, indptr), by rows or by columns, every index checked first.

    SciPy trusts these arrays; its compiled loops would read outside of them.
    """
    data, indices, indptr = (np.asarray(part).reshape(-1) for part in parts)
    rows, columns = shape if by_row else shape[::-1]
    check_bytes(path, 8 * (rows + columns))
    for name, part in (("indices", indices), ("indptr", indptr)):
        if part.dtype.kind not in "iu":
            raise FileError(f"`{path}`: the {name} of its sparse array are no whole numbers.")
    indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)
    if len(indptr) != rows + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise FileError(
            f"`{path}`: the row pointers of its sparse array do not fit its {rows} "
            f"{'rows' if by_row else 'columns'}. The file is damaged."
        )
    if not len(data) == len(indices) == indptr[-1]:
        raise FileError(
            f"`{path}`: its sparse array has {len(data)} values, {len(indices)} indices and "
            f"pointers to {indptr[-1]}: these must agree. The file is damaged."
        )
    check_indices(path, indices, columns, "column" if by_row else "row")
    matrix = csr_array((as_numbers(path, data), indices, indptr), shape=(rows, columns))
    if not by_row:
        matrix = matrix.T.tocsr()
    matrix.sum_duplicates()
    return matrix


def check_indices(path: Path, indices: IntArray, length: int, axis: str) -> None:
    """Raise if an index is outside 0, ..., length - 1, naming the first one."""
    bad = np.flatnonzero((indices < 0) | (indices >= length))
    if bad.size:
        raise FileError(
            f"`{path}`: its sparse array has the {axis} index {indices[bad[0]]} (entry "
            f"{bad[0]}), but {length} {axis}s. The file is damaged."
        )


def as_numbers(path: Path, values: Any) -> Any:
    """The values as float32 or float64; complex numbers and the rest are refused."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        kind = "complex numbers" if array.dtype.kind == "c" else f"data of type {array.dtype}"
        raise FileError(f"`{path}` holds {kind}: real numbers are needed.")
    return array.astype(np.float32 if array.dtype == np.float32 else np.float64, copy=False)
