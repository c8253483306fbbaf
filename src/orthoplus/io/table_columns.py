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
from orthoplus.io.content import Content, Places
from orthoplus.io.table_options import NONE, TableOptions

# Rows from which a column of running numbers, or of few classes, is not chance.
_RUNNING_ROWS, _CLASS_ROWS = 5, 10
# A column of classes has at most this many, and at most this share of the rows.
_MOST_CLASSES, _CLASS_SHARE = 60, 0.5
# Text that differs in this share of the rows names them.
_NAME_SHARE = 0.9

_IDENTIFIER = re.compile(
    r"(.*[ _.-])?(id|ids|idx|index|key|no|nr|num|number|row|rows|rownames?|record|uid|uuid|guid|"
    r"barcode|accession|#|sample|unnamed: ?\d+)|\w+(Id|ID)",
    re.IGNORECASE,
)
_CLASS = re.compile(
    r"(.*[ _.-])?(label|labels|class|classes|target|species|category|cluster|group|diagnosis|"
    r"variety|y|truth|ground_truth|cell_?type|type|kind|outcome)",
    re.IGNORECASE,
)


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

    def option(self, j: int) -> str:
        """Return what stands for a column on the command line: its name if that is unique."""
        name = "" if self.names is None else self.names[j].strip()
        is_plain = name != "" and self.names is not None and self.names.count(self.names[j]) == 1
        return (f"'{name}'" if re.search(r"[^\w.-]", name) else name) if is_plain else str(j + 1)

    def find(self, path: Path, column: str, option: str) -> int:
        """Return the number of a column, from 0, by its name or its number from 1."""
        stripped = [] if self.names is None else [name.strip() for name in self.names]
        if stripped.count(column.strip()) == 1:
            return stripped.index(column.strip())
        if stripped.count(column.strip()) > 1:
            raise FileError(
                f"`{option} {column}`: {stripped.count(column.strip())} columns of `{path}` have "
                f"that name. Give the number of the column, from 1."
            )
        if column.strip().isdigit() and 1 <= int(column) <= len(self.columns):
            return int(column) - 1
        known = ", ".join(stripped[:12]) + (", ..." if len(stripped) > 12 else "")
        has = f"It has {known}." if known else f"It has {len(self.columns)} columns, from 1."
        raise FileError(f"`{option} {column}`: `{path}` has no such column. {has}")


def select_columns(path: Path, table: Table, options: TableOptions) -> Content:
    """Return the data of a table, its row names and its true classes, and say what was found."""
    dropped = {table.find(path, column, "--drop") for column in options.drop}
    labels = _asked(path, table, options.label_column, "--label-column")
    index = _asked(path, table, options.index, "--index")
    _check_apart(path, table, index, labels, dropped)
    notes: list[str] = []
    taken = dropped | {j for j in (index, labels) if j is not None}
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
    named = _leading_names(table, taken)
    for j, column in enumerate(table.columns):
        if j in taken or j == named or isinstance(column, list):
            continue
        name = None if table.names is None else table.names[j].strip()
        is_running = _is_running(column)
        is_identifier = name is not None and bool(_IDENTIFIER.fullmatch(name))
        is_identifier = is_identifier and _is_unique_whole(column)
        is_unnamed = j == 0 and name == "" and _is_unique_whole(column)
        is_plain = is_unnamed or is_identifier or (is_running and j == 0 and name is None)
        if is_plain and named is None and j == 0:
            kind = "running numbers" if is_running else "identifiers"
            notes.append(f"row names from the first column, which holds {kind}")
            return j
        if is_running or is_identifier:
            what = "running numbers" if is_running else "identifiers"
            raise FileError(
                f"`{path}`: {table.title(j)} holds {what}, which are not data. Pass --drop "
                f"{table.option(j)}, or --index {table.option(j)} if they name the rows, or "
                f"--index none if they are data."
            )
    if named is not None:
        notes.append("row names from the first column")
    return named


def _leading_names(table: Table, taken: set[int]) -> int | None:
    """Return 0 if the first column is text that names the rows."""
    first = table.columns[0]
    if 0 in taken or not isinstance(first, list) or len(table.columns) < 2:
        return None
    name = "" if table.names is None else table.names[0].strip()
    if _CLASS.fullmatch(name) and not _IDENTIFIER.fullmatch(name) and _has_classes(first):
        return None
    is_rest_text = all(isinstance(column, list) for column in table.columns[1:])
    return None if is_rest_text else 0


def _is_running(column: FloatArray) -> bool:
    """Return whether the numbers are 0, 1, 2, ... or 1, 2, 3, ..., in this order."""
    n = len(column)
    if n < _RUNNING_ROWS or column[0] not in (0.0, 1.0):
        return False
    return bool(np.array_equal(column, np.arange(n) + column[0]))


def _is_unique_whole(column: FloatArray) -> bool:
    is_whole = bool(np.isfinite(column).all() and (column == np.round(column)).all())
    return is_whole and len(np.unique(column)) == len(column)


def _find_labels(path: Path, table: Table, taken: set[int], notes: list[str]) -> int | None:
    """Return the column of true classes, if one plainly is; refuse one that may be."""
    for j, column in enumerate(table.columns):
        name = "" if table.names is None else table.names[j].strip()
        if j in taken or not name or not _CLASS.fullmatch(name) or not _has_classes(column):
            continue
        if isinstance(column, list):
            notes.append(f"true classes from {table.title(j)}, not clustered")
            return j
        raise FileError(
            f"`{path}`: {table.title(j)} may hold classes, which are not data. Pass "
            f"--label-column {table.option(j)} to compare with them, --drop {table.option(j)}, or "
            f"--label-column none if it is data."
        )
    return None


def _has_classes(column: FloatArray | list[str]) -> bool:
    """Return whether the values repeat as classes do."""
    if not isinstance(column, list):
        if not (np.isfinite(column).all() and (column == np.round(column)).all()):
            return False
        n_classes, n = len(np.unique(column)), len(column)
    else:
        n_classes, n = len(set(column)), len(column)
    if n < _CLASS_ROWS:
        return n_classes < n
    return n_classes <= min(_MOST_CLASSES, _CLASS_SHARE * n)


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
        raise FileError(
            f"`{path}`: {table.title(j)} holds words (`{example[:40]}`), not numbers. Pass --drop "
            f"{table.option(j)} to leave it out, or {advice}."
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
    names = None if table.names is None else tuple(table.names[j].strip() for j in kept)
    index, labels = (None if j is None else _words(table.columns[j]) for j in roles)
    n_missing = int(np.isnan(values).sum())
    if n_missing:
        notes.append(f"{n_missing} missing values")
    said = "; ".join([f"{len(values)} rows, {len(kept)} columns", *notes, *table.notes])
    places = Places(table.lines, np.array(kept) + 1, table.names)
    return Content(
        values, index, names, labels=labels, summary=said, places=places,
    )  # fmt: skip


def _words(column: FloatArray | list[str]) -> tuple[str, ...]:
    """Return a column as words; whole numbers without a decimal point."""
    if isinstance(column, list):
        return tuple(cell.strip() for cell in column)
    return tuple(
        str(int(x)) if np.isfinite(x) and x == round(x) else repr(x) for x in column.tolist()
    )
