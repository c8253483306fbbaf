"""Read spreadsheets (``.xlsx``) with openpyxl, and Parquet files with pyarrow."""

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.extras import require
from orthoplus.core.types import FloatArray
from orthoplus.io import guard
from orthoplus.io.content import Catalog, Content, Entry
from orthoplus.io.dialect import describe_rows, find_decimal
from orthoplus.io.sheet_layout import (
    FORMULA,
    Layout,
    merged_words,
    scan_layout,
    show_rows,
)
from orthoplus.io.table_columns import Table, select_columns
from orthoplus.io.table_options import TableOptions
from orthoplus.io.table_text import HEAD_ROWS, Row
from orthoplus.io.text_tables import parse_rows

StoredRow = tuple[int, list[Any]]  # the number of a row, and its cells

# Larger integers are read as identifiers: neighbors would be equal as float64.
_MOST_EXACT = 2**53
# Bytes of memory per byte of XML: a cell of a few bytes becomes a Python object.
_PER_BYTE = 16


class Sheet(NamedTuple):
    """A sheet: its title, its rows that are not blank, and what these do not show."""

    title: str
    rows: list[StoredRow]
    layout: Layout
    is_hidden: bool


def read_spreadsheet(path: Path, options: TableOptions) -> Catalog:
    """List the nonempty sheets by name."""
    sheets = read_sheets(path)
    hidden = [sheet.title for sheet in sheets if sheet.is_hidden]
    catalog = {}
    for sheet in sheets:
        load = partial(_load_sheet, path, sheet, options, [] if sheet.is_hidden else hidden)
        shape = (len(sheet.rows), max(len(row) for _, row in sheet.rows))
        catalog[sheet.title] = Entry(shape, True, load, is_hidden=sheet.is_hidden)
    return catalog


def read_sheets(path: Path) -> list[Sheet]:
    """Read the nonempty sheets, within limits of time and memory."""
    openpyxl = require("openpyxl", "Reading .xlsx files", extra="tables")
    with zipfile.ZipFile(path) as archive:
        guard.check_members(path, len(archive.infolist()))
        n_bytes = sum(member.file_size for member in archive.infolist())
        guard.check_size(path, (n_bytes // 8 * _PER_BYTE,))
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    sheets = []
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # the size declared in the file may be wrong
        with zipfile.ZipFile(path) as archive, archive.open(_member(sheet)) as file:
            layout = scan_layout(path, file, n_bytes)
        rows = list(_stored_rows(path, sheet, n_bytes, layout))
        if rows:
            # Rows may end early, and are made equally long.
            guard.check_size(path, (len(rows), max(len(row) for _, row in rows)))
            sheets.append(Sheet(sheet.title, rows, layout, sheet.sheet_state != "visible"))
    return sheets


def _member(sheet: Any) -> str:
    """Return the name of the member of the archive that holds a sheet."""
    return str(sheet._worksheet_path).lstrip("/")


def _stored_rows(path: Path, sheet: Any, n_bytes: int, layout: Layout) -> Iterator[StoredRow]:
    """Yield the rows that are not blank, within limits of time and memory.

    A row may say that it is the billionth, or a cell the last of a row, in a few bytes: openpyxl
    fills up what lies before.
    """
    n_cells = 0
    stored = guard.within_time(path, sheet.iter_rows(values_only=True), lambda: n_bytes)
    for number, cells in enumerate(stored, 1):
        row = list(cells)
        if layout.formulas:
            for j, cell in enumerate(row, 1):
                row[j - 1] = FORMULA if (number, j) in layout.formulas else cell
        while row and (row[-1] is None or str(row[-1]).strip() == ""):
            row.pop()
        if row:
            n_cells += len(row)
            guard.check_size(path, (n_cells,))
            yield number, row


def _find_decimal(path: Path, sheet: Sheet, options: TableOptions) -> tuple[str, str]:
    """Return the decimal sign of the cells that are text, as in a text table, and a note."""
    words = [
        (number, [cell if isinstance(cell, str) else "" for cell in row])
        for number, row in sheet.rows[1 : HEAD_ROWS + 1]
    ]
    return find_decimal(path, words, "\t", options)


def text_rows(sheet: Sheet, decimal: str = ".") -> list[Row]:
    """Return the rows as text, made equally long: a sheet stores each up to its last value."""
    width = max(len(row) for _, row in sheet.rows)
    return [
        (number, [_cell_text(cell, decimal) for cell in row] + [""] * (width - len(row)))
        for number, row in sheet.rows
    ]


def _cell_text(cell: Any, decimal: str) -> str:
    """Convert a cell to text that gives the same number when parsed with this decimal sign."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, (int, float)):
        return repr(cell).replace(".", decimal)
    return cell if isinstance(cell, str) else str(cell)


def _load_sheet(path: Path, sheet: Sheet, options: TableOptions, hidden: list[str]) -> Content:
    sign, said = _find_decimal(path, sheet, options)
    rows, words = show_rows(path, sheet.title, text_rows(sheet, sign), sheet.layout, options.hidden)
    if not rows:
        raise FileError(f"`{path}`: all rows of sheet `{sheet.title}` are hidden.")
    notes = tuple(filter(None, (said, *words)))
    dialect = describe_rows(path, rows[:HEAD_ROWS], options, (",", sign), words=notes)
    table = parse_rows(path, iter(rows[dialect.n_before :]), dialect, options)
    content = select_columns(path, replace(table, notes=dialect.notes), options)
    remarks = list(merged_words(sheet.layout))
    if hidden:
        listed = ", ".join(f"`{title}`" for title in hidden[:3]) + ", ..." * (len(hidden) > 3)
        remarks.append(f"Hidden sheets were not read: {listed}. {path.name}:NAME reads one.")
    return replace(content, notes=(*remarks, *content.notes))


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


def read_label_rows(path: Path, key: str | None) -> tuple[list[Row], str | None]:
    """Read the rows of a spreadsheet or Parquet file of labels as text, and return the column.

    The key names a column, a sheet, or both as ``SHEET/COLUMN``. The first row of a Parquet file
    is its header.
    """
    if path.suffix.lower() == ".parquet":
        return _parquet_rows(path), key
    sheets = {sheet.title: sheet for sheet in read_sheets(path)}
    shown = [title for title, sheet in sheets.items() if not sheet.is_hidden]
    if not sheets:
        raise FileError(f"`{path}` is empty.")
    named = [title for title in sheets if key is not None and f"{key}/".startswith(f"{title}/")]
    if not named and len(shown) != 1:
        raise FileError(
            f"`{path}` has {len(shown)} sheets that are not hidden: {', '.join(shown[:12])}. Name "
            f"one as {path.name}:SHEET or {path.name}:SHEET/COLUMN."
        )
    title = max(named, key=len, default=shown[0] if shown else "")
    column = key[len(title) + 1 :] if key is not None and named else key
    rows, _ = show_rows(path, title, text_rows(sheets[title]), sheets[title].layout)
    if sheets[title].layout.formulas:
        raise FileError(
            f"`{path}`: sheet `{title}` holds formulas without stored values. Open the file in a "
            f"spreadsheet program and save it, so that the values are stored."
        )
    return rows, column or None


def _parquet_rows(path: Path) -> list[Row]:
    parquet = require("pyarrow.parquet", "Reading .parquet files", extra="tables")
    guard.read_on_trial(path, "parquet")
    arrow = parquet.ParquetFile(path).read()
    stored = _stored_index(arrow)  # pandas stores its index last
    order = [*stored, *(name for name in arrow.column_names if name not in stored)]
    columns = [["" if x is None else str(x) for x in arrow.column(j).to_pylist()] for j in order]
    header = ["" if name.startswith("__index_level") else name for name in order]
    return list(enumerate([header, *map(list, zip(*columns, strict=True))], 1))
