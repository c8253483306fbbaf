"""Matrix Market, ``.mtx``: coordinate (sparse) and array (dense).

Read here and not by SciPy, whose compiled parser crashes on some damaged files.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy.sparse import coo_array

from orthoplus.io.content import Catalogue, Content, Entry, FileError, check_bytes, check_indices

_BANNER = "%%matrixmarket"
_KINDS = ("coordinate", "array")
_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = {"general": 0.0, "symmetric": 1.0, "skew-symmetric": -1.0}
# The shortest lines: two indices of an entry, one number of an array.
_LEAST_LINE = {"coordinate": 4, "array": 2}


@dataclass(frozen=True)
class Header:
    """The banner and the line of sizes; ``mirror`` is the sign of the entries across."""

    kind: str
    field: str
    mirror: float
    shape: tuple[int, int]
    n_lines: int


def read_matrix_market(path: Path) -> Catalogue:
    """The one matrix of the file; its declared size is checked against the length of the file."""
    with open(path, encoding="ascii") as file:
        header = _read_header(path, file)
    rows, columns = header.shape
    check_bytes(path, 8 * (rows * columns if header.kind == "array" else rows + columns))
    check_bytes(path, 24 * header.n_lines)
    if header.n_lines * _LEAST_LINE[header.kind] > path.stat().st_size + 1:
        raise FileError(
            f"`{path}` declares {header.n_lines} entries, more than its {path.stat().st_size} "
            f"bytes can hold: it is truncated or damaged."
        )
    return {path.stem: Entry(header.shape, True, lambda: _load(path))}


def _read_header(path: Path, file: IO[str]) -> Header:
    words = file.readline().lower().split()
    if len(words) != 5 or words[0] != _BANNER or words[1] != "matrix":
        raise FileError(
            f"`{path}` is no Matrix Market file: its first line must be `%%MatrixMarket matrix "
            f"...` with the kind, the type and the symmetry."
        )
    _, _, kind, field, symmetry = words
    for word, known in ((kind, _KINDS), (field, _FIELDS), (symmetry, tuple(_SYMMETRIES))):
        if word not in known:
            raise FileError(f"`{path}` says `{word}`; read are {', '.join(known)}.")
    line = "%"
    while line.startswith("%") or (line and not line.strip()):
        line = file.readline()
    sizes = line.split()
    if len(sizes) != (3 if kind == "coordinate" else 2) or not all(s.isdigit() for s in sizes):
        raise FileError(f"`{path}`: `{line.strip()[:40]}` are not the sizes of a matrix.")
    rows, columns = int(sizes[0]), int(sizes[1])
    mirror = _SYMMETRIES[symmetry]
    if mirror and rows != columns:
        raise FileError(f"`{path}` is {symmetry} but has {rows} rows and {columns} columns.")
    count = _stored(rows, columns, mirror) if kind == "array" else int(sizes[2])
    return Header(kind, field, mirror, (rows, columns), count)


def _stored(rows: int, columns: int, mirror: float) -> int:
    """Numbers that an array file holds: all, or those on and below (or only below) the diagonal."""
    if not mirror:
        return rows * columns
    return rows * (rows + 1) // 2 if mirror > 0 else rows * (rows - 1) // 2


def _load(path: Path) -> Content:
    with open(path, encoding="ascii") as file:
        header = _read_header(path, file)
        width = 1 if header.kind == "array" else 2 if header.field == "pattern" else 3
        table = np.empty((0, width))
        if header.n_lines:
            table = np.loadtxt(file, comments="%", ndmin=2, max_rows=header.n_lines + 1)
    if table.shape != (header.n_lines, width):
        raise FileError(
            f"`{path}` has {table.shape[0]} lines of {table.shape[1]} numbers, its header declares "
            f"{header.n_lines} of {width}: it is truncated or damaged."
        )
    return Content(_dense(header, table[:, 0]) if width == 1 else _sparse(path, header, table))


def _dense(header: Header, numbers: Any) -> Any:
    rows, columns = header.shape
    if not header.mirror:
        return np.ascontiguousarray(numbers.reshape(columns, rows).T)
    matrix = np.zeros(header.shape)
    column, row = np.triu_indices(rows, k=int(header.mirror < 0))  # by columns, below the diagonal
    matrix[row, column] = numbers
    matrix[column, row] = header.mirror * numbers
    return matrix


def _sparse(path: Path, header: Header, table: Any) -> Any:
    places = table[:, :2]
    if not (np.abs(places) < 2**53).all() or (places != np.floor(places)).any():
        raise FileError(f"`{path}` has indices that are no whole numbers.")
    row, column = (places.astype(np.int64) - 1).T
    check_indices(path, row, header.shape[0], "row")
    check_indices(path, column, header.shape[1], "column")
    values = table[:, 2] if table.shape[1] == 3 else np.ones(len(table))
    if header.mirror:
        across = row != column
        values = np.concatenate([values, header.mirror * values[across]])
        row, column = np.append(row, column[across]), np.append(column, row[across])
    return coo_array((values, (row, column)), shape=header.shape).tocsr()
