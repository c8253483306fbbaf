"""Which columns of a table are data: row names, identifiers, true classes and gaps are not.

A column that is plainly not data is set aside, and that is said. One that may or may not be is
refused, with the options that decide: nothing is clustered in silence.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.io import column_shapes as shapes
from orthoplus.io.content import Content, Places
from orthoplus.io.table_options import NONE, TableOptions

# Text that differs in this share of the rows names them.
_NAME_SHARE = 0.9

_DIGITS = re.compile(r"\d*", re.ASCII)


@dataclass(frozen=True, eq=False)
class Table:
    """A table as read: its columns in the order of the file.

    Attributes
    ----------
    names : tuple of str, optional
        The names of the columns; None without a header.
    columns : list
        One array of float64 per column of numbers, one list of str per column of text.
    lines : ndarray of int
        The line of the file that each row ends on.
    notes : tuple of str
        What was found so far, in words.
    """

    names: tuple[str, ...] | None
    columns: Sequence[FloatArray | list[str]]
    lines: IntArray
    notes: tuple[str, ...] = ()

    def title(self, j: int) -> str:
        """Return the name of a column, for a sentence."""
        name = "" if self.names is None else self.names[j].strip()
        return f"column {j + 1} (`{name[:40]}`)" if name else f"column {j + 1}"

    def is_empty(self, j: int) -> bool:
        """Return whether a column has neither a name nor a value, as after a last separator."""
        column, has_name = self.columns[j], self.names is not None and self.names[j].strip() != ""
        return not has_name and isinstance(column, list) and not any(map(str.strip, column))

    def option(self, j: int) -> str:
        """Return what stands for a column on the command line: its name if that is unique."""
        name = "" if self.names is None else self.names[j].strip()
        is_plain = name != "" and self.names is not None and self.names.count(self.names[j]) == 1
        return (f"'{name}'" if re.search(r"[^\w.-]", name) else name) if is_plain else str(j + 1)

    def find(self, path: Path, column: str, option: str) -> int:
        """Return the number of a column, from 0, by its name or its number from 1."""
        return find_column(path, self.names, len(self.columns), column, option)


def find_column(
    path: Path, names: tuple[str, ...] | None, n_columns: int, column: str, option: str
) -> int:
    """Return the number of a column, from 0, by its name or its number from 1."""
    stripped = [] if names is None else [name.strip() for name in names]
    column = column.strip()
    if stripped.count(column) == 1:
        return stripped.index(column)
    if stripped.count(column) > 1:
        raise FileError(
            f"`{option} {column}`: {stripped.count(column)} columns of `{path}` have that name. "
            f"Give the number of the column, from 1."
        )
    if column.isdigit() and 1 <= int(column) <= n_columns:
        return int(column) - 1
    known = ", ".join(stripped[:12]) + (", ..." if len(stripped) > 12 else "")
    has = f"It has {known}." if known else f"It has {n_columns} columns, from 1."
    raise FileError(f"`{option} {column}`: `{path}` has no such column. {has}")


def columns_with_role(
    path: Path, names: tuple[str, ...] | None, n_columns: int, options: TableOptions
) -> set[int]:
    """Return the columns that the options say are not data; they are read as text, as written."""
    asked = [(column, "--drop") for column in options.drop]
    asked += [(options.label_column, "--label-column"), (options.index, "--index")]  # type: ignore[list-item]
    return {
        find_column(path, names, n_columns, column, option)
        for column, option in asked
        if column not in (None, NONE)
    }


def select_columns(path: Path, table: Table, options: TableOptions) -> Content:
    """Return the data of a table, its row names and its true classes, and say what was found."""
    dropped = {table.find(path, column, "--drop") for column in options.drop}
    labels = _asked(path, table, options.label_column, "--label-column")
    index = _asked(path, table, options.index, "--index")
    _check_apart(path, table, index, labels, dropped)
    notes: list[str] = []
    empty = {j for j in range(len(table.columns)) if table.is_empty(j)} - dropped
    taken = dropped | empty | {j for j in (index, labels) if j is not None}
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
    _refuse_text(path, table, kept)
    return _content(path, table, kept, (index, labels), notes)


def _asked(path: Path, table: Table, column: str | None, option: str) -> int | None:
    if column is None or column == NONE:
        return None
    return table.find(path, column, option)


def _check_apart(
    path: Path, table: Table, index: int | None, labels: int | None, dropped: set[int]
) -> None:
    """Refuse two roles for one column."""
    for one, j in (("--index", index), ("--label-column", labels)):
        if j is not None and j in dropped:
            raise FileError(f"`{one}` and `--drop` both name {table.title(j)} of `{path}`.")
    if index is not None and index == labels:
        raise FileError(f"`--index` and `--label-column` both name {table.title(index)}.")


def _find_index(path: Path, table: Table, taken: set[int], notes: list[str]) -> int | None:
    """Return the column with row names, if one plainly is; refuse one that may be."""
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
                f"`{path}`: {table.title(j)} holds {kind}, which are not data. Pass --drop "
                f"{table.option(j)}, or --index {table.option(j)} if they name the rows, or "
                f"--index none if they are data."
            )
        found, said = j, f"{said}, which holds {kind}"
    if found is not None:
        notes.append(said)
    return found


def _kind_of_index(column: FloatArray, name: str | None, *, is_first: bool) -> tuple[str, bool]:
    """Return what a column of numbers may hold that is not data, and whether it is plain."""
    is_unique = shapes.is_unique_whole(column)
    is_named = name is not None and bool(shapes.IDENTIFIER.fullmatch(name)) and is_unique
    is_unnamed = is_first and name == "" and is_unique
    if shapes.is_running(column):
        return "running numbers", is_unnamed or is_named or (is_first and name is None)
    if is_named or is_unnamed:
        return "identifiers", True
    if shapes.is_axis(column, name, is_first=is_first):
        return "numbers that only rise or fall, as dates, times and wavelengths do", False
    return "", False


def _leading_names(table: Table, taken: set[int]) -> int | None:
    """Return 0 if the first column is text that names the rows."""
    first = table.columns[0]
    if 0 in taken or not isinstance(first, list) or len(table.columns) < 2:
        return None
    name = "" if table.names is None else table.names[0].strip()
    if (
        shapes.CLASS.fullmatch(name)
        and not shapes.IDENTIFIER.fullmatch(name)
        and shapes.has_classes(first)
    ):
        return None
    is_rest_text = all(isinstance(column, list) for column in table.columns[1:])
    return None if is_rest_text else 0


def _find_labels(path: Path, table: Table, taken: set[int], notes: list[str]) -> int | None:
    """Return the column of true classes, if one plainly is; refuse one that may be."""
    for j, column in enumerate(table.columns):
        name = "" if table.names is None else table.names[j].strip()
        if (
            j in taken
            or not name
            or not shapes.CLASS.fullmatch(name)
            or not shapes.has_classes(column)
        ):
            continue
        if isinstance(column, list):
            notes.append(f"true classes from {table.title(j)}, not clustered")
            return j
        raise FileError(
            f"`{path}`: {table.title(j)} may hold classes, which are not data. Pass "
            f"--label-column {table.option(j)} to compare with them, --drop {table.option(j)}, or "
            f"--label-column none if it is data."
        )
    bare = [j for j in range(len(table.columns)) if j not in taken]
    place = shapes.bare_classes([table.columns[j] for j in bare]) if table.names is None else None
    if place is None:
        return None
    raise FileError(
        f"`{path}`: {table.title(bare[place])} may hold classes, as the only column of few whole "
        f"numbers. Pass --label-column {bare[place] + 1} to compare with them, --drop "
        f"{bare[place] + 1}, or --label-column none if it is data."
    )


def _refuse_text(path: Path, table: Table, kept: list[int]) -> None:
    """Refuse columns of words among the data."""
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
        raise FileError(f"`{path}` has no columns of numbers left: there is nothing to read.")
    values = np.column_stack([np.asarray(table.columns[j]) for j in kept])
    names = None
    if table.names is not None:
        names = tuple(table.names[j].strip() or f"column {j + 1}" for j in kept)
    index, labels = (None if j is None else _words(table.columns[j]) for j in roles)
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
    return Content(values, index, names, remarks, labels, said, places)


def _words(column: FloatArray | list[str]) -> tuple[str, ...]:
    """Return a column as words; whole numbers without a decimal point."""
    if isinstance(column, list):
        return tuple(cell.strip() for cell in column)
    return tuple(
        str(int(x)) if np.isfinite(x) and x == round(x) else repr(x) for x in column.tolist()
    )
