"""Tables of text, ``.csv`` and ``.tsv``: with or without a header and row names."""

import csv
import itertools
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from orthoplus.io.content import Catalogue, Content, Entry, FileError, check_bytes

_DELIMITERS = ",;\t"
# A number and its comma take at least two bytes of text, and eight in memory.
_GROWTH = 4


def read_table(path: Path) -> Catalogue:
    """The table; the first row is a header, the first column names, where they are no numbers."""
    check_bytes(path, _GROWTH * path.stat().st_size)
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = _rows(path, file)
        first = list(itertools.islice(rows, 2))
        if not first:
            raise FileError(f"`{path}` is empty.")
        content = _parse(path, first, rows)
    return {path.stem: Entry(content.values.shape, True, lambda: content)}


def read_text_labels(path: Path) -> Content:
    """Labels, numbers or words: the last column of a table, the whole line of a ``.txt``.

    A first one that is called ``label``, ``labels``, ``class``, ``cluster`` or ``y`` is a header.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        if path.suffix.lower() == ".txt":
            words = [line.strip() for line in file if line.strip()]
        else:
            words = [row[-1].strip() for _, row in _rows(path, file)]
    if words and words[0].lower() in ("label", "labels", "class", "cluster", "y"):
        words = words[1:]
    if not words:
        raise FileError(f"`{path}` is empty.")
    return Content(np.array(words))


def _rows(path: Path, file: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of each line that is not blank."""
    number = 1
    try:
        first = next(file, "")
        delimiter = "\t" if path.suffix.lower() == ".tsv" else max(_DELIMITERS, key=first.count)
        reader = csv.reader(itertools.chain([first], file), delimiter=delimiter, strict=True)
        for row in reader:
            number = reader.line_num
            if any(cell.strip() for cell in row):
                yield number, row
    except csv.Error as error:
        raise FileError(f"`{path}`, after line {number}: {error}.") from error
    except UnicodeDecodeError as error:
        raise FileError(
            f"`{path}` is no UTF-8 text (byte {error.start}): it is of another type, or saved in "
            f"another encoding. Save it as UTF-8."
        ) from error


def _parse(
    path: Path, first: list[tuple[int, list[str]]], rest: Iterator[tuple[int, list[str]]]
) -> Content:
    header = _header(first)
    body = itertools.chain(first[1:] if header else first, rest)
    number, cells = next(body, (0, []))
    if not cells:
        raise FileError(f"`{path}` has a header and no rows.")
    has_names = not _is_number(cells[0]) and len(cells) > 1
    columns = _column_names(header, len(cells), has_names)
    values, names = array("d"), []
    for line, row in itertools.chain([(number, cells)], body):
        if len(row) != len(cells):
            raise FileError(
                f"`{path}`, line {line} has {len(row)} cells, line {number} has {len(cells)}: "
                f"every row needs as many."
            )
        if has_names:
            names.append(row[0])
        try:
            values.extend(map(float, row[1:] if has_names else row))
        except ValueError:
            raise FileError(_bad_cell(path, line, row, columns, has_names)) from None
    matrix = np.frombuffer(values, dtype=np.float64).reshape(-1, len(cells) - has_names)
    return Content(matrix, tuple(names) or None, columns if header else None)


def _header(first: list[tuple[int, list[str]]]) -> list[str] | None:
    """The first line, if it holds a cell beyond its first that is no number."""
    cells = first[0][1]
    if len(cells) == 1:
        return None if _is_number(cells[0]) else cells
    return None if all(_is_number(cell) for cell in cells[1:]) else cells


def _column_names(header: list[str] | None, n_cells: int, has_names: bool) -> tuple[str, ...]:
    """The names of the columns with numbers; R leaves out the corner above the row names."""
    if header is None:
        return tuple(str(number + 1) for number in range(n_cells - has_names))
    return tuple(header[1:] if has_names and len(header) == n_cells else header)


def _bad_cell(
    path: Path, line: int, row: list[str], columns: tuple[str, ...], has_names: bool
) -> str:
    index = next(i for i in range(has_names, len(row)) if not _is_number(row[i]))
    cell = row[index].strip()
    name = columns[index - has_names] if index - has_names < len(columns) else str(index + 1)
    what = f"`{cell[:40]}` is no number" if cell else "the cell is empty"
    advice = (
        "Write decimal points instead of commas."
        if _is_number(cell.replace(",", ".", 1))
        else "Every cell but the header and the row names must be a number."
    )
    return f"`{path}`, row {line}, column {index + 1} (`{name.strip()[:40]}`): {what}. {advice}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
