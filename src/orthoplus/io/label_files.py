"""Read files that accompany a matrix: true classes, names of rows and columns."""

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from orthoplus.core.errors import FileError
from orthoplus.io import guard
from orthoplus.io.column_shapes import names_classes, names_identifiers
from orthoplus.io.content import Content, text_array
from orthoplus.io.dialect import CORNER_WORDS, is_number, parse_number
from orthoplus.io.spreadsheets import read_label_rows
from orthoplus.io.table_columns import find_column
from orthoplus.io.table_text import Row, find_encoding, read_rows, suffix_of

# Titles of a column of names, in addition to those of identifiers; R writes an x.
_TITLES = CORNER_WORDS | {
    "",
    "x",
    "barcodes",
    "cells",
    "symbol",
    "symbols",
    "term",
    "word",
    "words",
}


def read_table_labels(
    path: Path, key: str | None = None, rows: Sequence[str] | None = None
) -> Content:
    """Read labels, numbers or words, one per line or from a column of a table.

    Of several columns, the key selects one by its name or its number from 1. Without a key, it is
    the column named ``label``, ``class``, ``cluster``, ``target`` or the like, else the second of
    two. Of the other columns, the one with the names ``rows`` of the data names the rows.
    """
    lines, key = _read_cells(path, key)
    width = len(lines[0][1])
    names = None
    has_header = suffix_of(path) == ".parquet"
    if (
        has_header
        or any(names_classes(cell.strip()) for cell in lines[0][1])
        or (key and not key.isdecimal())
    ):
        names, lines = tuple(cell.strip() for cell in lines[0][1]), lines[1:]
    column = _label_column(path, names, width, key)
    notes = () if names is None else (f"`{names[column]}` is a header",)
    cells = [[cell.strip() for cell in row] for _, row in lines]
    index = _index_column(cells, names, column, rows)
    found = None if index is None else tuple(row[index] for row in cells)
    return Content(text_array([row[column] for row in cells]), found, notes=notes)


def _index_column(
    cells: list[list[str]], names: tuple[str, ...] | None, column: int, rows: Sequence[str] | None
) -> int | None:
    """Return the column that names the rows, or None.

    It has at least half of the names of the data, or the title of such a column, or is the first.
    The first is not taken for names if its title is another one and it holds numbers.
    """
    others = [j for j in range(len(cells[0]) if cells else 0) if j != column]
    known = set(rows or ())
    shared = {j: len(known & {row[j] for row in cells}) for j in others}
    best = max(others, key=lambda j: shared[j], default=None)
    if best is None or (known and 2 * shared[best] >= len(known)):
        return best
    titled = others if names is None else [j for j in others if _is_title(names[j])]
    if titled:
        return titled[0]
    has_numbers = all(is_number(row[others[0]]) for row in cells)
    return None if has_numbers else others[0]


def _is_title(cell: str) -> bool:
    """Return whether a word is the title of a column of names."""
    return cell.strip().lower() in _TITLES or names_identifiers(cell.strip())


def _label_column(path: Path, names: tuple[str, ...] | None, width: int, key: str | None) -> int:
    if key is not None:
        return find_column(path, names, width, key, f"--labels {path.name}:{key}, column")
    named = [j for j, name in enumerate(names or ()) if names_classes(name)]
    if len(named) == 1 or width <= 2:
        return named[0] if len(named) == 1 else width - 1
    columns = f"{width} columns" if names is None else ", ".join(names[:12])
    raise FileError(
        f"`{path}` has several columns that may hold the labels: {columns}. Name one as "
        f"{path.name}:COLUMN, by its name or its number from 1."
    )


def _read_cells(path: Path, key: str | None = None) -> tuple[list[Row], str | None]:
    """Read the rows of a file of labels, all of the same length, and return the column wanted.

    That is the key, except that the key of a spreadsheet may name a sheet.
    """
    if suffix_of(path) in (".xlsx", ".parquet"):
        return read_label_rows(path, key)
    encoding, _ = find_encoding(path, None)
    start = [row[0] for _, row in itertools.islice(read_rows(path, encoding, None), 2)]
    signs = "\t" if suffix_of(path) in (".txt", ".tsv") else ",;\t"
    sep = max(signs, key="".join(start).count)
    is_plain = suffix_of(path) == ".txt" and sep not in "".join(start)
    if is_plain and start and start[-1].startswith('"'):  # R writes "1" "word"
        is_plain, sep = False, " "
    rows = list(guard.within_memory(path, read_rows(path, encoding, None if is_plain else sep)))
    if not rows:
        raise FileError(f"`{path}` is empty.")
    if {len(row) for _, row in rows[1:]} == {len(rows[0][1]) + 1}:
        rows[0][1].insert(0, "")  # R omits the title above the row names
    for line, row in rows:
        if len(row) != len(rows[0][1]):
            raise FileError(
                f"`{path}`, line {line} has {len(row)} cells, line {rows[0][0]} has "
                f"{len(rows[0][1])}; all lines must have the same number."
            )
    return rows, key


def names_of(path: Path, count: int, option: str) -> tuple[str, ...]:
    r"""Read one name per line from the first column that does not just number the lines.

    An additional first line is a header if it has the title of a column of names.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "genes.tsv").write_text("g1\tActb\ng2\tCd3e\n")
    ...     names_of(Path(folder, "genes.tsv"), 2, "--column-names")
    ('g1', 'g2')
    """
    rows = [[cell.strip() for cell in row] for _, row in _read_cells(path)[0]]
    if len(rows) == count + 1 and any(map(_is_title, rows[0])):
        rows = rows[1:]
    is_numbered = len(rows[0]) > 1 and _numbered([row[0] for row in rows]) is not None
    names = tuple(row[int(is_numbered)] for row in rows)
    if len(names) != count:
        axis, other = ("row", "column") if option == "--row-names" else ("column", "row")
        raise FileError(
            f"`{option} {path}` has {len(names)} names, but the data have {count} {axis}s. Give "
            f"one name per line, without a header; are these the names of the {other}s?"
        )
    return names


def align(
    names: Sequence[str] | None, others: Sequence[str] | None, path: Path
) -> list[int] | None:
    """Return the order that sorts rows named ``others`` as in ``names``; None to keep them.

    If no name matches, or the data have no names, rows named 0, ..., n - 1 or 1, ..., n are sorted
    by these numbers. `FileError` is raised if only some of the names match, or none of several
    words, or if names repeat in another order than in the data.

    Examples
    --------
    >>> align(["a", "b", "c"], ["c", "a", "b"], Path("labels.csv"))
    [1, 2, 0]
    >>> align(None, ["3", "1", "2"], Path("labels.csv"))
    [1, 2, 0]
    """
    if others is None or (names is not None and list(names) == list(others)):
        return None
    places = {name: i for i, name in enumerate(others)}
    n_known = sum(name in places for name in names or ())
    if n_known == 0:
        plain = None if names is None else _plain_numbers(names), _plain_numbers(others)
        if plain != (names, others):
            return align(*plain, path)
        return _by_number(names, others, path)
    for all_names in (names or (), others):
        twice = next((name for name, count in Counter(all_names).items() if count > 1), None)
        if twice is not None:
            raise FileError(
                f"`{path}` does not name the rows in the order of the data, and `{twice}` occurs "
                f"more than once, so that labels cannot be assigned to rows. Use unique names, or "
                f"the order of the data."
            )
    missing = [name for name in names or () if name not in places]
    if missing:
        raise FileError(
            f"`{path}` has labels for {n_known} of the {n_known + len(missing)} rows of the data, "
            f"but not for `{missing[0]}`; every row needs a label."
        )
    return [places[name] for name in names or ()]


def _plain_numbers(names: Sequence[str]) -> Sequence[str]:
    """Return names that are all integers in their shortest form, as 7 for 007 and 7.0."""
    numbers = [parse_number(name) for name in names]
    if any(number is None or number % 1 for number in numbers):
        return names
    return tuple(str(int(number)) for number in numbers if number is not None)


def _numbered(names: Sequence[str]) -> list[int] | None:
    """Return the order of rows that are named 0, ..., n - 1 or 1, ..., n; None for other names."""
    places = {name: i for i, name in enumerate(names)}
    for start in (0, 1):
        numbers = [str(i) for i in range(start, start + len(names))]
        if places.keys() == set(numbers):
            return [places[number] for number in numbers]
    return None


def _by_number(names: Sequence[str] | None, others: Sequence[str], path: Path) -> list[int] | None:
    """Return the order of rows that are named by their numbers; None to keep them."""
    order = _numbered(others)
    if order is not None:
        return None if order == list(range(len(others))) else order
    if len(set(others)) < len(others):  # not names
        return None
    are_numbers = all(map(is_number, others))
    if names and not are_numbers:
        raise FileError(
            f"`{path}` names its rows (`{others[0]}`), but none of these names occurs in "
            f"the data (`{names[0]}`). Use the same names, or remove the names from the labels if "
            f"they are in the order of the data."
        )
    if are_numbers and all(map(str.isdecimal, others)) and not _is_sorted(others):
        raise FileError(
            f"`{path}` numbers its rows ({', '.join(others[:3])}, ...), but the data do not have "
            f"these numbers, so that the order is unknown. Remove the numbers from the labels if "
            f"they are in the order of the data."
        )
    return None


def _is_sorted(names: Sequence[str]) -> bool:
    return all(int(one) < int(other) for one, other in itertools.pairwise(names))
