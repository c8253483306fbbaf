"""Decide which columns of a table are data, as opposed to row names, identifiers and classes.

A column that is clearly not data is left out, and this is reported. If it is unclear, the file is
refused with a message that names the deciding options: nothing is clustered silently.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.io import column_shapes as shapes
from orthoplus.io.content import Content, Places
from orthoplus.io.dialect import CORNER_WORDS
from orthoplus.io.long_form import find_long_form, long_form_words
from orthoplus.io.sheet_layout import FORMULA
from orthoplus.io.table_options import NONE, TableOptions

# A text column with at least this share of distinct values names the rows.
_NAME_SHARE = 0.9

_MOST_DIGITS = 10  # of the number of a column
_DIGITS = re.compile(r"\d*", re.ASCII)


@dataclass(frozen=True, eq=False)
class Table:
    """A table as read, with the columns in the order of the file.

    Attributes
    ----------
    names : tuple of str, optional
        The names of the columns; None without a header.
    columns : list
        A float64 array for each numeric column, a list of str for each text column.
    lines : ndarray of int
        The last line of the file that each row occupies.
    notes : tuple of str
        Remarks collected so far.
    """

    names: tuple[str, ...] | None
    columns: Sequence[FloatArray | list[str]]
    lines: IntArray
    notes: tuple[str, ...] = ()

    def title(self, j: int) -> str:
        """Return the number and name of a column, for messages."""
        name = "" if self.names is None else self.names[j].strip()
        return f"column {j + 1} (`{name[:40]}`)" if name else f"column {j + 1}"

    def is_empty(self, j: int) -> bool:
        """Return whether a column has no name and no values, as after a trailing separator."""
        column, has_name = self.columns[j], self.names is not None and self.names[j].strip() != ""
        return not has_name and isinstance(column, list) and not any(map(str.strip, column))

    def option(self, j: int) -> str:
        """Return how to refer to a column on the command line: by its name if that is unique."""
        name = "" if self.names is None else self.names[j].strip()
        is_plain = name != "" and self.names is not None and self.names.count(self.names[j]) == 1
        return (f"'{name}'" if re.search(r"[^\w.-]", name) else name) if is_plain else str(j + 1)

    def find(self, path: Path, column: str, option: str) -> int:
        """Return the index of a column given by its name or by its number from 1."""
        return find_column(path, self.names, len(self.columns), column, option)


def find_column(
    path: Path, names: tuple[str, ...] | None, n_columns: int, column: str, option: str
) -> int:
    """Return the index of a column given by its name or by its number from 1."""
    stripped = [] if names is None else [name.strip() for name in names]
    column = column.strip()
    if stripped.count(column) == 1:
        return stripped.index(column)
    if stripped.count(column) > 1:
        raise FileError(
            f"`{option} {column}`: {stripped.count(column)} columns of `{path}` have that name. "
            f"Pass the number of the column instead, counting from 1."
        )
    if column.isdecimal() and len(column) < _MOST_DIGITS and 1 <= int(column) <= n_columns:
        return int(column) - 1
    known = ", ".join(stripped[:12]) + (", ..." if len(stripped) > 12 else "")
    has = f"Its columns are {known}." if known else f"Its columns are 1 to {n_columns}."
    raise FileError(f"`{option} {column}`: `{path}` has no such column. {has}")


def columns_with_role(
    path: Path, names: tuple[str, ...] | None, n_columns: int, options: TableOptions
) -> set[int]:
    """Return the columns that the options exclude from the data; they are read verbatim as text."""
    asked = [(column, "--drop") for column in options.drop]
    asked += [(options.label_column, "--label-column"), (options.index, "--index")]  # type: ignore[list-item]
    return {
        find_column(path, names, n_columns, column, option)
        for column, option in asked
        if column not in (None, NONE)
    }


def select_columns(path: Path, table: Table, options: TableOptions) -> Content:
    """Split a table into data, row names and true classes, and report what was inferred."""
    dropped = {table.find(path, column, "--drop") for column in options.drop}
    labels = _asked(path, table, options.label_column, "--label-column")
    index = _asked(path, table, options.index, "--index")
    _check_apart(path, table, index, labels, dropped)
    notes: list[str] = []
    empty = {j for j in range(len(table.columns)) if table.is_empty(j)} - dropped
    taken = dropped | empty | {j for j in (index, labels) if j is not None}
    if options.index != NONE and options.label_column is None:
        _refuse_long_form(path, table, [j for j in range(len(table.columns)) if j not in taken])
    if index is None and options.index is None:
        index = _find_index(path, table, taken, notes)
    elif index is not None:
        notes.append(f"row names from {table.title(index)}")
    taken |= set() if index is None else {index}
    if labels is None and options.label_column is None:
        labels = _find_labels(path, table, taken, notes)
    elif labels is not None:
        notes.append(f"true classes from {table.title(labels)}")
    taken |= set() if labels is None else {labels}
    if dropped:
        notes.append(f"left out: {', '.join(table.title(j) for j in sorted(dropped))}")
    if empty:
        notes.append(f"empty: {', '.join(table.title(j) for j in sorted(empty))}")
    kept = [j for j in range(len(table.columns)) if j not in taken]
    _refuse_formulas(path, table, [*kept, index, labels])
    _refuse_text(path, table, kept)
    return _content(path, table, kept, (index, labels), notes)


def _refuse_long_form(path: Path, table: Table, columns: list[int]) -> None:
    """Raise `FileError` if each line holds one entry of a matrix; names of lines may precede."""
    first = table.columns[columns[0]] if columns else []
    is_named = (
        len(set(first)) == len(first) if isinstance(first, list) else shapes.is_running(first)
    )
    columns = columns[int(is_named) :]
    names = None if table.names is None else [table.names[j] for j in columns]
    width = find_long_form(names, [table.columns[j] for j in columns])
    if width:
        titles = [table.title(j) for j in columns]
        raise FileError(f"`{path}`: {long_form_words(titles, width)}")


def _asked(path: Path, table: Table, column: str | None, option: str) -> int | None:
    if column is None or column == NONE:
        return None
    return table.find(path, column, option)


def _check_apart(
    path: Path, table: Table, index: int | None, labels: int | None, dropped: set[int]
) -> None:
    """Refuse options that give one column two roles."""
    for one, j in (("--index", index), ("--label-column", labels)):
        if j is not None and j in dropped:
            raise FileError(f"`{one}` and `--drop` both name {table.title(j)} of `{path}`.")
    if index is not None and index == labels:
        raise FileError(f"`--index` and `--label-column` both name {table.title(index)}.")


def _find_index(path: Path, table: Table, taken: set[int], notes: list[str]) -> int | None:
    """Return the column of row names, or None; raise `FileError` if it is unclear."""
    found = _leading_names(table, taken)
    said = "row names from the first column"
    for j, column in enumerate(table.columns):
        is_only = len(table.columns) - len(taken) < 2
        if j in taken or j == found or isinstance(column, list) or is_only:
            continue
        name = None if table.names is None else table.names[j].strip()
        kind, is_plain = _kind_of_index(column, name, is_first=j == 0)
        if not kind:
            continue
        if j > 0 or found is not None or not is_plain:
            raise FileError(
                f"`{path}`: {table.title(j)} seems to hold {kind}, which are not data. Pass --drop "
                f"{table.option(j)} to leave it out, --index {table.option(j)} if it names the "
                f"rows, or --index none if it is data."
            )
        found, said = j, f"{said}, which holds {kind}"
    if found is not None:
        notes.append(said)
    return found


def _kind_of_index(column: FloatArray, name: str | None, *, is_first: bool) -> tuple[str, bool]:
    """Return what a numeric column may hold instead of data, and whether that is certain."""
    is_unique = shapes.is_unique_whole(column)
    is_named = name is not None and shapes.names_identifiers(name) and is_unique
    is_unnamed = is_first and name == "" and is_unique
    if shapes.is_running(column):
        return "running numbers", is_unnamed or is_named or (is_first and name is None)
    if is_named or is_unnamed:
        return "identifiers", True
    if shapes.is_axis(column, name, is_first=is_first):
        return "increasing or decreasing numbers such as dates, times or wavelengths", False
    if is_first and name is None and shapes.is_permuted(column):
        return "the numbers of the rows in another order", False
    if shapes.holds_codes(column, name):
        return "codes or identifiers", False
    if shapes.holds_dates(column, name):
        return "years, dates or timestamps", False
    return "", False


def _leading_names(table: Table, taken: set[int]) -> int | None:
    """Return 0 if the first column is text that names the rows, else None."""
    first = table.columns[0]
    if 0 in taken or not isinstance(first, list) or len(table.columns) < 2:
        return None
    name = "" if table.names is None else table.names[0].strip()
    if (
        shapes.names_classes(name)
        and not shapes.names_identifiers(name)
        and shapes.has_classes(first)
    ):
        return None
    is_title = name.lower() in CORNER_WORDS or shapes.names_identifiers(name)
    has_title = is_title or (table.names is not None and name == "")
    if not has_title and (shapes.repeats(first) or shapes.holds_quantities(first)):
        return None  # `_refuse_text` asks for its role
    is_rest_text = all(isinstance(column, list) for column in table.columns[1:])
    return None if is_rest_text else 0


def _find_labels(path: Path, table: Table, taken: set[int], notes: list[str]) -> int | None:
    """Return the column of true classes, or None; raise `FileError` if it is unclear."""
    for j, column in enumerate(table.columns):
        name = "" if table.names is None else table.names[j].strip()
        if (
            j in taken
            or not name
            or not shapes.names_classes(name)
            or not shapes.has_classes(column)
        ):
            continue
        if isinstance(column, list):
            notes.append(f"true classes from {table.title(j)}, not clustered")
            return j
        raise FileError(
            f"`{path}`: {table.title(j)} may hold classes, which are not data. Pass "
            f"--label-column {table.option(j)} to compare with them, --drop {table.option(j)} to "
            f"leave it out, or --label-column none if it is data."
        )
    bare = [j for j in range(len(table.columns)) if j not in taken]
    place = shapes.bare_classes([table.columns[j] for j in bare]) if table.names is None else None
    if place is None:
        return None
    raise FileError(
        f"`{path}`: {table.title(bare[place])} may hold classes: it is the only column with few "
        f"distinct integers. Pass --label-column {bare[place] + 1} to compare with them, --drop "
        f"{bare[place] + 1} to leave it out, or --label-column none if it is data."
    )


def _refuse_formulas(path: Path, table: Table, columns: Iterable[int | None]) -> None:
    """Raise `FileError` if a column of text holds formulas whose values are unknown."""
    for j in columns:
        column = [] if j is None else table.columns[j]
        if j is not None and isinstance(column, list) and FORMULA in column:
            raise FileError(
                f"`{path}`: {table.title(j)} holds formulas without stored values. Open the file "
                f"in a spreadsheet program and save it, so that the values are stored, or leave "
                f"the column out with --drop {table.option(j)}."
            )


def _refuse_text(path: Path, table: Table, kept: list[int]) -> None:
    """Raise `FileError` if a column of the data holds text."""
    for j in kept:
        column = table.columns[j]
        if not isinstance(column, list):
            continue
        example = next((cell.strip() for cell in column if cell.strip()), "")
        n_words = len(set(column))
        advice = (
            f"--index {table.option(j)} if it names the rows"
            if n_words >= _NAME_SHARE * len(column)
            else f"--label-column {table.option(j)} if it holds true classes"
        )
        what = f"words (`{example[:40]}`), not numbers"
        if shapes.holds_quantities(column):
            what = f"numbers with units or signs (`{example[:40]}`); remove these from the file"
            advice = f"--index {table.option(j)} if it names the rows"
        elif shapes.repeats(column):
            advice += f", or --index {table.option(j)} if it names the rows"
        if all(_DIGITS.fullmatch(cell.strip()) for cell in column):
            what = f"codes (`{example[:40]}`), which are not data"
            advice += ", or --index none if it is data"
        raise FileError(
            f"`{path}`: {table.title(j)} holds {what}. Pass --drop {table.option(j)} to leave it "
            f"out, or {advice}."
        )


def _content(
    path: Path,
    table: Table,
    kept: list[int],
    roles: tuple[int | None, int | None],
    notes: list[str],
) -> Content:
    if not kept:
        raise FileError(f"`{path}` has no numeric columns left to read.")
    values = np.column_stack([np.asarray(table.columns[j]) for j in kept])
    names = None
    if table.names is not None:
        names = tuple(table.names[j].strip() or f"column {j + 1}" for j in kept)
    index, labels = (None if j is None else _words(table.columns[j]) for j in roles)
    is_unnamed = index is not None and index.count("") == 1 and index[-1] == ""
    if index is not None:
        index = tuple(
            name or f"line {line}" for name, line in zip(index, table.lines.tolist(), strict=True)
        )
    if labels is not None and "" in labels:
        notes.append(f"{labels.count('')} without a class")
    n_missing = int(np.isnan(values).sum())
    if n_missing:
        notes.append(f"{n_missing} missing values")
    said = "; ".join([f"{len(values)} rows, {len(kept)} columns", *notes, *table.notes])
    places = Places(table.lines, np.array(kept) + 1, table.names)
    corner = "" if table.names is None or roles[0] is None else table.names[roles[0]].strip()
    remarks = shapes.remarks_on(values, index, names, corner)
    if is_unnamed and not any("The last row" in remark for remark in remarks):
        remarks += ("The last row has no name; if it summarizes the others, remove it.",)
    return Content(values, index, names, remarks, labels, said, places)


def _words(column: FloatArray | list[str]) -> tuple[str, ...]:
    """Return a column as text; integers have no decimal point."""
    if isinstance(column, list):
        return tuple(cell.strip() for cell in column)
    return tuple(
        str(int(x)) if np.isfinite(x) and x == round(x) else repr(x) for x in column.tolist()
    )
