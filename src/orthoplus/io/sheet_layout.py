"""Find what the cells of a sheet do not show: hidden rows and columns, merged cells, formulas.

openpyxl does not report these for sheets that it reads row by row, so the XML is scanned once more.
Nothing is stored but what is found, so that the scan needs little memory.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO
from xml.parsers import expat

from orthoplus.core.errors import FileError
from orthoplus.io import guard
from orthoplus.io.table_text import Row

_BLOCK = 1 << 16
_TRUE = ("1", "true")
_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d+)", re.ASCII)
# Text of a cell whose formula has no stored value, as programs write that do not compute.
FORMULA = "=formula"


@dataclass
class Layout:
    """What a sheet holds besides values; rows and columns are counted from 1.

    Attributes
    ----------
    hidden_rows : set of int
        Rows that are hidden, by hand or by a filter.
    hidden_columns : list of (int, int)
        First and last column of each hidden range.
    merged : list of str
        References of merged cells, such as ``A2:A3``.
    formulas : set of (int, int)
        Row and column of each formula without a stored value.
    """

    hidden_rows: set[int] = field(default_factory=set)
    hidden_columns: list[tuple[int, int]] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    formulas: set[tuple[int, int]] = field(default_factory=set)

    def hides_column(self, column: int) -> bool:
        """Return whether the column is hidden."""
        return any(first <= column <= last for first, last in self.hidden_columns)


def column_number(reference: str) -> int:
    """Return the number from 1 of the column of a cell.

    Examples
    --------
    >>> column_number("A1"), column_number("AB7")
    (1, 28)
    """
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise FileError(f"`{reference[:20]}` is not the reference of a cell: the sheet is damaged.")
    number = 0
    for letter in found[1]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


class _Scanner:
    """Handlers of the XML parser, with the place in the sheet."""

    def __init__(self) -> None:
        self.layout = Layout()
        self.row = self.column = 0
        self.has_formula = self.has_value = self.is_in_value = False

    def start(self, name: str, about: dict[str, str]) -> None:
        tag = name.rpartition(":")[2]
        is_hidden = about.get("hidden") in _TRUE
        if tag == "c":
            self.column = column_number(about["r"]) if "r" in about else self.column + 1
            self.has_formula, self.has_value = False, about.get("t") == "str"
        elif tag == "f":
            self.has_formula = True
        elif tag == "v":
            self.is_in_value = True
        elif tag == "row":
            self.row, self.column = int(about.get("r", self.row + 1)), 0
            if is_hidden:
                self.layout.hidden_rows.add(self.row)
        elif tag == "col" and is_hidden:
            self.layout.hidden_columns.append((int(about["min"]), int(about["max"])))
        elif tag == "mergeCell":
            self.layout.merged.append(about["ref"])

    def text(self, _: str) -> None:
        self.has_value = self.has_value or self.is_in_value

    def end(self, name: str) -> None:
        tag = name.rpartition(":")[2]
        if tag == "v":
            self.is_in_value = False
        elif tag == "c" and self.has_formula and not self.has_value:
            self.layout.formulas.add((self.row, self.column))


def scan_layout(path: Path, file: IO[bytes], n_bytes: int) -> Layout:
    """Scan the XML of a sheet of at most ``n_bytes`` bytes."""
    scanner, parser = _Scanner(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = scanner.start, scanner.end
    parser.CharacterDataHandler = scanner.text

    def refuse(*_: object) -> None:
        raise FileError(f"`{path}` declares XML entities, which spreadsheets do not have.")

    parser.EntityDeclHandler = refuse
    blocks: Iterable[bytes] = iter(partial(file.read, _BLOCK), b"")
    for block in guard.within_time(path, blocks, lambda: n_bytes):
        parser.Parse(block)
    parser.Parse(b"", True)
    return scanner.layout


def show_rows(
    path: Path, title: str, rows: list[Row], layout: Layout, hidden: str | None = "refuse"
) -> tuple[list[Row], tuple[str, ...]]:
    """Return the rows that are data, and notes; ``hidden`` is "keep", "drop" or None.

    Cells of hidden columns become empty rather than removed, so that the numbers of the other
    columns do not change. With None, hidden data raise `FileError`, also with
    "refuse", for files to which the option does not apply.
    """
    width = max((len(row) for _, row in rows), default=0)
    hidden_rows = [number for number, _ in rows if number in layout.hidden_rows]
    columns = [
        j for j in range(width)
        if layout.hides_column(j + 1) and any(row[j].strip() for _, row in rows)
    ]  # fmt: skip
    if not hidden_rows and not columns:
        return rows, ()
    what = " and ".join(filter(None, (
        _counted("row", [str(number) for number in hidden_rows]),
        _counted("column", [str(j + 1) for j in columns]),
    )))  # fmt: skip
    if hidden in (None, "refuse"):
        advice = "Pass --hidden keep to read them, or --hidden drop to leave them out."
        if hidden == "refuse":
            advice = "Unhide them in the file, or delete them."
        raise FileError(
            f"`{path}`: sheet `{title}` has data that are hidden, by hand or by a filter: {what}. "
            f"{advice}"
        )
    if hidden == "keep":
        return rows, (f"hidden, but read: {what}",)
    shown = [
        (number, ["" if j in columns else cell for j, cell in enumerate(row)])
        for number, row in rows
        if number not in layout.hidden_rows
    ]
    return shown, (f"hidden, left out: {what}",)


def _counted(name: str, numbers: list[str]) -> str:
    """Return the number of rows or columns in words, with the first of them."""
    if not numbers:
        return ""
    shown = ", ".join(numbers[:3]) + (", ..." if len(numbers) > 3 else "")
    return f"1 {name} ({shown})" if len(numbers) == 1 else f"{len(numbers)} {name}s ({shown})"


def merged_words(layout: Layout) -> tuple[str, ...]:
    """Return a remark on merged cells, of which only the first one holds the value."""
    if not layout.merged:
        return ()
    shown = ", ".join(layout.merged[:3]) + (", ..." if len(layout.merged) > 3 else "")
    return (
        f"The sheet has merged cells ({shown}): only the first of them holds the value, the others "
        f"were read as empty.",
    )
