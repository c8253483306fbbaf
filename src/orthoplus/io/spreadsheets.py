"""Read spreadsheets (``.xlsx``) with openpyxl, and Parquet files with pyarrow."""

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.extras import require
from orthoplus.core.types import FloatArray
from orthoplus.io import guard
from orthoplus.io.content import Catalog, Content, Entry
from orthoplus.io.dialect import HEAD_ROWS, describe_rows
from orthoplus.io.table_columns import Table, select_columns
from orthoplus.io.table_options import TableOptions
from orthoplus.io.table_text import Row
from orthoplus.io.text_tables import parse_rows

# Larger integers are read as identifiers: neighbors would be equal as float64.
_MOST_EXACT = 2**53
# Bytes of memory per byte of XML: a cell of a few bytes becomes a Python object.
_PER_BYTE = 16


def read_spreadsheet(path: Path, options: TableOptions) -> Catalog:
    """List the nonempty sheets by name."""
    openpyxl = require("openpyxl", "Reading .xlsx files", extra="tables")
    with zipfile.ZipFile(path) as archive:
        guard.check_members(path, len(archive.infolist()))
        n_bytes = sum(member.file_size for member in archive.infolist())
        guard.check_size(path, (n_bytes // 8 * _PER_BYTE,))
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    catalog = {}
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # the size declared in the file may be wrong
        rows = list(_sheet_rows(path, sheet, n_bytes, options.decimal or "."))
        if rows:
            shape = (len(rows), max(len(row) for _, row in rows))
            guard.check_size(path, shape)  # rows may end early, and are made equally long
            load = partial(_load_sheet, path, _padded(rows, shape[1]), options)
            catalog[sheet.title] = Entry(shape, True, load)
    return catalog


def _sheet_rows(path: Path, sheet: Any, n_bytes: int, decimal: str) -> Iterator[Row]:
    """Yield the rows that are not blank, within limits of time and memory.

    A row may say that it is the billionth, or a cell the last of a row, in a few bytes: openpyxl
    fills up what lies before.
    """
    n_cells = 0
    stored = guard.within_time(path, sheet.iter_rows(values_only=True), lambda: n_bytes)
    for number, cells in enumerate(stored, 1):
        row = [_cell_text(cell, decimal) for cell in cells]
        while row and not row[-1].strip():
            row.pop()
        if row:
            n_cells += len(row)
            guard.check_size(path, (n_cells,))
            yield number, row


def _padded(rows: list[Row], width: int) -> list[Row]:
    """Pad the rows to equal length: a sheet stores each row up to its last nonempty cell."""
    return [(number, row + [""] * (width - len(row))) for number, row in rows]


def _cell_text(cell: Any, decimal: str) -> str:
    """Convert a cell to text that gives the same number when parsed with this decimal sign."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, (int, float)):
        return repr(cell).replace(".", decimal)
    return cell if isinstance(cell, str) else str(cell)


def _load_sheet(path: Path, rows: list[Row], options: TableOptions) -> Content:
    dialect = describe_rows(path, rows[:HEAD_ROWS], options, (",", options.decimal or "."))
    table = parse_rows(path, iter(rows[dialect.n_before :]), dialect, options)
    table = replace(table, notes=dialect.notes)
    return select_columns(path, table, options)


def read_parquet(path: Path, options: TableOptions) -> Catalog:
    """List the table of a Parquet file; an index stored by pandas names the rows."""
    parquet = require("pyarrow.parquet", "Reading .parquet files", extra="tables")
    guard.read_on_trial(path, "parquet")
    file = parquet.ParquetFile(path)
    shape = (file.metadata.num_rows, len(file.schema_arrow.names))
    guard.check_size(path, shape)
    content = _load_parquet(path, file, options)
    return {path.stem: Entry(content.values.shape, True, lambda: content)}


def _load_parquet(path: Path, file: Any, options: TableOptions) -> Content:
    arrow = file.read()
    stored, numbers = _stored_index(arrow), _stored_range(arrow)
    order = [name for name in arrow.column_names if name not in stored]
    columns = [_column(path, name, arrow.column(name), options) for name in order]
    if stored or (numbers is not None and options.index is None):
        # The index becomes the first column, as in a text table.
        parts = [map(str, arrow.column(name).to_pylist()) for name in stored]
        parts = parts or [map(str, numbers or ())]
        columns.insert(0, ["/".join(words) for words in zip(*parts, strict=True)])
        order.insert(0, "/".join(stored))
        options = options if options.index is not None else replace(options, index="1")
    names = tuple("" if name.startswith("__index_level") else name for name in order)
    return select_columns(path, Table(names, columns, np.arange(arrow.num_rows) + 1), options)


def _stored_index(arrow: Any) -> list[str]:
    """Return the columns in which pandas stored its index."""
    stored = (arrow.schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in stored if isinstance(name, str) and name in arrow.column_names]


def _stored_range(arrow: Any) -> range | None:
    """Return the row numbers that pandas stored as a range; None for 0, 1, 2, ...

    Part of a larger data frame keeps its numbers, such as 100, 101, ... or 0, 2, 4, ...
    """
    stored = (arrow.schema.pandas_metadata or {}).get("index_columns", [])
    if len(stored) != 1 or not isinstance(stored[0], dict):
        return None
    ends: list[Any] = [stored[0].get(name) for name in ("start", "stop", "step")]
    if not all(isinstance(end, int) for end in ends) or ends[2] == 0:
        return None
    numbers = range(*ends)
    has_length = -((numbers.start - numbers.stop) // numbers.step) == arrow.num_rows
    return numbers if has_length and (numbers.start, numbers.step) != (0, 1) else None


def _column(path: Path, name: str, column: Any, options: TableOptions) -> FloatArray | list[str]:
    """Return numbers as float64 and anything else as text.

    A missing number is an error, unless the options mask it.
    """
    from pyarrow import types

    kind = column.type
    if types.is_integer(kind) and any(abs(x or 0) > _MOST_EXACT for x in column.to_pylist()):
        return ["" if x is None else str(x) for x in column.to_pylist()]
    is_real = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if is_real or types.is_boolean(kind):
        values = np.array([np.nan if x is None else float(x) for x in column.to_pylist()])
        values[np.isin(values, list(options.missing_numbers))] = np.nan
        gaps = np.flatnonzero(np.isnan(values))
        if gaps.size and options.missing == "error":
            raise FileError(
                f"`{path}`, row {gaps[0] + 1}, column `{name}`: the value is missing. Fill it in, "
                f"or pass --missing mask to ignore missing cells."
            )
        return values
    return ["" if x is None else str(x) for x in column.to_pylist()]
