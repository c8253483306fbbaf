"""Read text tables, ``.csv``, ``.tsv`` and ``.txt``, also compressed (``.gz``)."""

import csv
import io
import itertools
from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.io import guard
from orthoplus.io.content import Catalog, Entry
from orthoplus.io.dialect import (
    BOOLEANS,
    Dialect,
    comment_words,
    find_dialect,
    has_marks,
    is_comment,
    is_number,
    parse_number,
)
from orthoplus.io.late_points import check_points, may_mark_thousands
from orthoplus.io.table_columns import Table, columns_with_role, select_columns
from orthoplus.io.table_options import MISSING_WORDS, TableOptions
from orthoplus.io.table_text import (
    Row,
    find_encoding,
    open_bytes,
    read_rows,
    refuse_others,
    suffix_of,
)

# Types of columns that are read as text.
AS_TEXT = ("text", "code", "empty")
# Larger files are read by pandas if it is installed; for smaller ones its import takes longer.
_LARGE_BYTES = 1 << 23
# Number of rows after which the memory of columns of text is checked again.
_ROWS_AT_ONCE = 1024


def read_table(path: Path, options: TableOptions) -> Catalog:
    """Read the table, split it into data, row names and true classes, and list the result."""
    refuse_others(path)
    encoding, words = find_encoding(path, options.encoding)
    if suffix_of(path) == ".tsv" and options.sep is None:
        options = replace(options, sep="tab")
    dialect = find_dialect(path, encoding, options)
    table = _read_with_pandas(path, encoding, dialect, options)
    if table is None:
        rows = itertools.islice(read_rows(path, encoding, dialect.sep), dialect.n_before, None)
        table = parse_rows(path, check_points(path, rows, dialect, options), dialect, options)
    notes = (*dialect.notes, words) if words else dialect.notes
    table = replace(table, notes=(*notes, *table.notes))
    content = select_columns(path, table, options)
    return {path.stem: Entry(content.values.shape, True, lambda: content)}


def _read_with_pandas(
    path: Path, encoding: str, dialect: Dialect, options: TableOptions
) -> Table | None:
    """Read a large table with pandas; return None without pandas or if the table is unusual.

    The fast path gives up on quotes, blank lines, missing values and text among numbers;
    `parse_rows` then reads them or reports where they are.
    """
    is_plain = dialect.sep != " " and "boolean" not in dialect.kinds and not options.na
    is_large = path.stat().st_size >= _LARGE_BYTES and path.suffix.lower() != ".gz"
    if not (is_plain and is_large) or find_spec("pandas") is None:
        return None
    import pandas as pd

    with open_bytes(path) as raw:  # pandas would silently cut a number off at a zero byte
        if any(b"\0" in block for block in iter(partial(raw.read, 1 << 20), b"")):
            return None
    start = next(itertools.islice(read_rows(path, encoding, dialect.sep), dialect.n_before, None))
    names = column_names(path, dialect, start)
    roles = columns_with_role(path, names, len(dialect.kinds), options)
    kinds = {j: "text" if j in roles else kind for j, kind in enumerate(dialect.kinds)}
    # Since version 3.1, pandas always parses decimal numbers exactly.
    is_exact = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)
    precision: dict[str, Any] = {} if is_exact else {"float_precision": "round_trip"}
    try:
        with io.TextIOWrapper(open_bytes(path), encoding=encoding, newline="") as file:
            # The option `skiprows` would skip too much if lines end with a carriage return.
            for _ in range(start[0] - 1):
                file.readline()
            frame = pd.read_csv(
                file, sep=dialect.sep, decimal=dialect.decimal, header=None,
                dtype={j: np.float64 if kind == "number" else str for j, kind in kinds.items()},
                quoting=csv.QUOTE_NONE, na_filter=False, skip_blank_lines=False, **precision,
            )  # fmt: skip
    except (TypeError, ValueError):
        return None
    columns = [frame[j].to_numpy(np.float64) if kinds[j] == "number" else frame[j].tolist()
               for j in kinds if j in frame]  # fmt: skip
    has_quotes = any('"' in cell for column in columns if isinstance(column, list)
                     for cell in column)  # fmt: skip
    if frame.shape[1] != len(kinds) or has_quotes:
        return None
    if may_mark_thousands(path, encoding, dialect, options):
        return None
    lines = np.arange(len(frame)) + start[0]
    return Table(names, columns, lines)


def column_names(path: Path, dialect: Dialect, first: Row) -> tuple[str, ...] | None:
    """Return a name for each column; the file may omit that of the row names."""
    header, n = dialect.header, len(dialect.kinds)
    if header is not None and not any(header[n:]):  # trailing separators in the header
        header = header[:n]
    if header is None or len(header) == n:
        return header
    if len(header) == n - 1 and dialect.kinds[-1] == "empty":  # trailing separators in the rows
        return (*header, "")
    if len(header) == n - 1 and dialect.kinds[0] in AS_TEXT:
        return ("", *header)  # R omits the name above the row names
    raise FileError(
        f"`{path}`: the header has {len(header)} cells, but line {first[0]} has {len(first[1])}. "
        f"Every column needs a name, and the header must be the first line."
    )


def parse_rows(path: Path, body: Iterator[Row], dialect: Dialect, options: TableOptions) -> Table:
    """Parse the rows one by one; errors name the line and the column."""
    kinds, n = dialect.kinds, len(dialect.kinds)
    numeric: list[int] = []
    numbers, lines = array("d"), array("q")
    words: dict[int, list[str]] = {}
    names: tuple[str, ...] | None = None
    n_comments = 0
    for line, row in body:
        if len(row) == 1 < n and is_comment(row):
            n_comments += 1
            continue
        if not lines:
            names = column_names(path, dialect, (line, row))
            roles = columns_with_role(path, names, n, options)
            words = {j: [] for j in range(n) if j in roles or kinds[j] in AS_TEXT}
            numeric = [j for j in range(n) if j not in words]
            _refuse_second_header(path, (line, row), [j for j in numeric if j < len(row)], dialect)
        if len(row) != n:
            raise FileError(
                f"`{path}`, line {line} has {len(row)} cells, but "
                f"{f'line {lines[0]} has' if lines else 'most lines have'} {n}; all rows must have "
                f"the same number of cells."
            )
        for j, column in words.items():
            column.append(row[j])
        for j in numeric:
            numbers.append(_cell(path, line, row, (j, names), dialect, options))
        lines.append(line)
        if words and len(lines) % _ROWS_AT_ONCE == 0:
            guard.check_cells(path, len(words) * len(lines))
    matrix = np.frombuffer(numbers, dtype=np.float64).reshape(len(lines), len(numeric))
    columns: dict[int, FloatArray | list[str]] = dict(words)
    columns |= {j: matrix[:, place] for place, j in enumerate(numeric)}
    ends: IntArray = np.array(lines, dtype=np.int64)
    notes = tuple(filter(None, (comment_words(n_comments),)))
    return Table(names, [columns[j] for j in range(n)], ends, notes)


def _refuse_second_header(path: Path, row: Row, numeric: list[int], dialect: Dialect) -> None:
    """Refuse a line of words between the header and lines of numbers."""
    cells = [row[1][j].strip() for j in numeric if row[1][j].strip()]
    has_numbers = any(is_number(cell, dialect.decimal) or has_marks(cell) for cell in cells)
    is_plain = any(cell.lower() in (*BOOLEANS, *map(str.lower, MISSING_WORDS)) for cell in cells)
    if dialect.header is not None and len(cells) > 1 and not has_numbers and not is_plain:
        raise FileError(
            f"`{path}`, line {row[0]} ({', '.join(cells[:3])}) has words where the following lines "
            f"have numbers. If it is a second header, such as units, remove it from the file."
        )


def _cell(
    path: Path,
    line: int,
    row: list[str],
    place: tuple[int, tuple[str, ...] | None],
    dialect: Dialect,
    options: TableOptions,
) -> float:
    """Return the number in a cell, NaN if it is missing and masked; else raise `FileError`."""
    j, names = place
    cell = row[j]
    number = parse_number(cell, dialect.decimal)
    if number is not None and not (options.na and options.is_missing(cell)):
        return number
    if dialect.kinds[j] == "boolean" and cell.strip().lower() in BOOLEANS:
        return BOOLEANS[cell.strip().lower()]
    is_missing = options.is_missing(cell)
    if is_missing and options.missing == "mask":
        return float("nan")
    name = f" (`{names[j].strip()[:40]}`)" if names is not None and names[j].strip() else ""
    raise FileError(
        f"`{path}`, line {line}, column {j + 1}{name}: {_complaint(cell, is_missing, dialect)}"
    )


def _complaint(cell: str, is_missing: bool, dialect: Dialect) -> str:
    word = cell.strip()[:40]
    if is_missing:
        what = f"`{word}` stands for a missing value" if word else "the cell is empty"
        return (
            f"{what}. Fill it in, pass --missing mask to ignore missing cells, or leave the "
            f"column out with --drop."
        )
    if word.startswith("="):
        return (
            "the cell holds a formula without a stored value. Open the file in a spreadsheet "
            "program and save it, so that the values are stored, or leave the column out with "
            "--drop."
        )
    other = "," if dialect.decimal == "." else "."
    if is_number(word, other):
        return (
            f"`{word}` is not a number with the decimal sign `{dialect.decimal}`. If the sign is "
            f"wrong, pass `--decimal {other}`."
        )
    if has_marks(word):
        return f"`{word}` is not a plain number. Remove thousands, percent and currency signs."
    return (
        f"`{word}` is not a number. Leave the column out with --drop, or pass --na '{word}' if it "
        f"stands for a missing value."
    )
