"""Find points that may mark thousands after the first rows of a text table."""

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from orthoplus.core.errors import FileError
from orthoplus.io.dialect import POINT, POINT_THOUSANDS, Dialect, thousands_words
from orthoplus.io.table_options import TableOptions
from orthoplus.io.table_text import Row, open_bytes, read_head

# A cell of a line with a single point that may mark thousands.
_THOUSANDS_CELL = re.compile(r"(?<![^;\t ])[+-]?[1-9]\d{0,2}\.\d{3}(?![^;\t\s])", re.ASCII)


def check_points(
    path: Path, rows: Iterable[Row], dialect: Dialect, options: TableOptions
) -> Iterator[Row]:
    """Yield the rows; raise `FileError` at the end if all points in them may mark thousands.

    The first rows, of which `find_decimal` judges, may be without a point.
    """
    first: tuple[int, int, str] | None = None
    is_open = options.decimal is None and dialect.decimal == "." and dialect.sep in ";\t"
    for line, row in rows:
        yield line, row
        for j, cell in enumerate(row if is_open else ()):
            word = cell.strip() if "." in cell else ""
            if not POINT.fullmatch(word) or "." not in word:
                continue
            if not POINT_THOUSANDS.fullmatch(word):
                is_open = False
                break
            first = first or (line, j, word)
    if is_open and first is not None:
        raise FileError(thousands_words(path, first, "."))


def may_mark_thousands(path: Path, encoding: str, dialect: Dialect, options: TableOptions) -> bool:
    """Return whether `check_points` has to look at points that occur only after the first rows."""
    if options.decimal is not None or dialect.decimal == "," or dialect.sep not in ";\t":
        return False
    head = itertools.islice(read_head(path, encoding, dialect.sep), dialect.n_before, None)
    if _have_points(head):
        return False
    with io.TextIOWrapper(open_bytes(path), encoding=encoding) as file:
        return any("." in line and _has_thousands(line) for line in file)


def _has_thousands(line: str) -> bool:
    """Return whether a cell between semicolons or tabs has a point that may mark thousands.

    Examples
    --------
    >>> _has_thousands("12;1.234"), _has_thousands("12;1.25;0.125;a1.234")
    (True, False)
    """
    return bool(_THOUSANDS_CELL.search(line))


def _have_points(rows: Iterable[Row]) -> bool:
    """Return whether a number has a decimal point, or points for thousands."""
    cells = (cell.strip() for _, row in rows for cell in row if "." in cell)
    return any(map(POINT.fullmatch, cells))
