"""Tables of text, ``.csv`` and ``.tsv``: with or without a header and row names."""

import csv
import itertools
from array import array
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.io import guard
from orthoplus.io.content import Catalogue, Content, Entry, Names

_DELIMITERS = ",;\t"
# A larger file is read by pandas, if that is installed: to import it takes half a second.
_LARGE_BYTES = 1 << 23

Row = tuple[int, list[str]]  # the number of its last line, and its cells


class Layout(NamedTuple):
    """What the first rows say: the lines of the header, cells in a row, names of the columns."""

    n_skipped: int
    n_cells: int
    has_names: bool
    columns: Names


def read_table(path: Path) -> Catalogue:
    """List the table; its first row is a header, its first column names, if they are not numbers.

    A number and its comma take at least two bytes of text, and eight in memory.
    """
    guard.check_size(path, (path.stat().st_size // 2,))
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = _rows(path, file)
        start = list(itertools.islice(rows, 2))
        layout = _layout(path, start)
        body = itertools.chain(start[layout.n_skipped > 0 :], rows)
        content = _read_with_pandas(path, layout) or _parse(path, body, layout)
    return {path.stem: Entry(content.values.shape, True, lambda: content)}


def read_text_labels(path: Path) -> Content:
    """Read labels, numbers or words: the last column of a table, the whole line of a ``.txt``.

    A first one that is called ``label``, ``labels``, ``class``, ``cluster`` or ``y`` is a header.
    """
    guard.check_size(path, (path.stat().st_size,))
    with open(path, encoding="utf-8-sig", newline="") as file:
        words = [row[-1].strip() for _, row in _rows(path, file)]
    if words and words[0].lower() in ("label", "labels", "class", "cluster", "y"):
        words = words[1:]
    if not words:
        raise FileError(f"`{path}` is empty.")
    return Content(np.array(words))


def _rows(path: Path, file: IO[str]) -> Iterator[Row]:
    """Yield the rows that are not blank; a ``.txt`` has one cell in each."""
    number = 1
    try:
        if path.suffix.lower() == ".txt":
            yield from ((n, [line]) for n, line in enumerate(file, 1) if line.strip())
            return
        reader = csv.reader(file, delimiter=_delimiter(path), strict=True)
        for row in reader:
            number = reader.line_num
            if any(cell.strip() for cell in row):
                yield number, row
    except csv.Error as error:
        raise FileError(f"`{path}`, after line {number}: {error}.") from error
    except UnicodeDecodeError as error:
        raise FileError(
            f"`{path}` is not UTF-8 text (byte {error.start}): it is of another type, or saved in "
            f"another encoding. Save it as UTF-8."
        ) from error


def _delimiter(path: Path) -> str:
    with open(path, encoding="utf-8-sig", newline="") as file:
        first = file.readline()
    return "\t" if path.suffix.lower() == ".tsv" else max(_DELIMITERS, key=first.count)


def _layout(path: Path, start: list[Row]) -> Layout:
    """Return the layout; a header has a cell that is not a number, beyond its first or alone."""
    if not start:
        raise FileError(f"`{path}` is empty.")
    (line, header), (_, cells) = start[0], start[-1]
    if all(_is_number(cell) for cell in (header[1:] or header)):
        cells, header, line = header, [], 0
    elif len(start) < 2:
        raise FileError(f"`{path}` has a header and no rows.")
    has_names = len(cells) > 1 and not _is_number(cells[0])
    n_numbers = len(cells) - has_names
    if not header:
        return Layout(0, len(cells), has_names, tuple(str(i + 1) for i in range(n_numbers)))
    if len(header) not in (len(cells), n_numbers):  # R leaves out the corner above row names
        raise FileError(
            f"`{path}`: its header has {len(header)} cells, line {start[1][0]} has {len(cells)}: "
            f"every column needs a name."
        )
    return Layout(line, len(cells), has_names, tuple(header[len(header) - n_numbers :]))


def _read_with_pandas(path: Path, layout: Layout) -> Content | None:
    """Read a large table fast; None without pandas, or if anything in it is unusual.

    Quotes, gaps and words among the numbers are errors here; `_parse` reads or explains them.
    """
    if path.stat().st_size < _LARGE_BYTES or find_spec("pandas") is None:
        return None
    import pandas as pd

    with open(path, "rb") as raw:  # pandas would end a number at a zero byte
        if any(b"\0" in block for block in iter(partial(raw.read, 1 << 20), b"")):
            return None
    is_name = [layout.has_names and i == 0 for i in range(layout.n_cells)]
    try:
        table = pd.read_csv(
            path, sep=_delimiter(path), header=None, skiprows=layout.n_skipped,
            dtype={i: str if is_name[i] else np.float64 for i in range(layout.n_cells)},
            encoding="utf-8-sig", quoting=csv.QUOTE_NONE, na_filter=False,
            float_precision="round_trip",
        )  # fmt: skip
    except (TypeError, ValueError):  # later versions of pandas may drop `float_precision`
        return None
    names = tuple(table[0].tolist()) if layout.has_names else None
    if table.shape[1] != layout.n_cells or (names and any('"' in name for name in names)):
        return None
    values = table.iloc[:, int(layout.has_names) :].to_numpy(np.float64)
    return Content(
        np.ascontiguousarray(values), names, layout.columns if layout.n_skipped else None
    )


def _parse(path: Path, body: Iterator[Row], layout: Layout) -> Content:
    """Read the rows one by one, and say where one is wrong."""
    first, values, names = 0, array("d"), []
    for line, row in body:
        first = first or line
        if len(row) != layout.n_cells:
            raise FileError(
                f"`{path}`, line {line} has {len(row)} cells, line {first} has {layout.n_cells}: "
                f"every row needs as many."
            )
        if layout.has_names:
            names.append(row[0])
        try:
            values.extend(map(float, row[layout.has_names :]))
        except ValueError:
            raise FileError(_bad_cell(path, line, row, layout)) from None
    matrix = np.frombuffer(values, dtype=np.float64).reshape(-1, layout.n_cells - layout.has_names)
    return Content(matrix, tuple(names) or None, layout.columns if layout.n_skipped else None)


def _bad_cell(path: Path, line: int, row: list[str], layout: Layout) -> str:
    index = next(i for i in range(layout.has_names, len(row)) if not _is_number(row[i]))
    cell, name = row[index].strip(), layout.columns[index - layout.has_names]
    what = f"`{cell[:40]}` is not a number" if cell else "the cell is empty"
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
