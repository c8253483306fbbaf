"""Read files that accompany a matrix: true classes, names of rows and columns."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.io.column_shapes import names_classes
from orthoplus.io.content import Content
from orthoplus.io.dialect import is_number
from orthoplus.io.table_columns import find_column
from orthoplus.io.table_text import Row, find_encoding, read_rows, suffix_of


def read_text_labels(path: Path, key: str | None = None) -> Content:
    """Read labels, numbers or words, one per line or from a column of a table.

    Of several columns, the key selects one by its name or its number from 1. Without a key, it is
    the column named ``label``, ``class``, ``cluster``, ``target`` or the like, else the second of
    two. The first of the other columns names the rows.
    """
    rows = _read_cells(path)
    width = len(rows[0][1])
    names = None
    if any(names_classes(cell.strip()) for cell in rows[0][1]) or (key and not key.isdecimal()):
        names, rows = tuple(cell.strip() for cell in rows[0][1]), rows[1:]
    column = _label_column(path, names, width, key)
    index = next((j for j in range(width) if j != column), None)
    notes = () if names is None else (f"`{names[column]}` is a header",)
    words = np.array([row[column].strip() for _, row in rows])
    if index is None:
        return Content(words, notes=notes)
    return Content(words, tuple(row[index].strip() for _, row in rows), notes=notes)


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


def _read_cells(path: Path) -> list[Row]:
    """Read the rows of a file of labels, all of the same length."""
    encoding, _ = find_encoding(path, None)
    _, first = next(read_rows(path, encoding, None), (0, [""]))
    signs = "\t" if suffix_of(path) in (".txt", ".tsv") else ",;\t"
    sep = max(signs, key=first[0].count)
    is_plain = suffix_of(path) == ".txt" and sep not in first[0]
    rows = list(read_rows(path, encoding, None if is_plain else sep))
    if not rows:
        raise FileError(f"`{path}` is empty.")
    for line, row in rows:
        if len(row) != len(rows[0][1]):
            raise FileError(
                f"`{path}`, line {line} has {len(row)} cells, line {rows[0][0]} has "
                f"{len(rows[0][1])}; all lines must have the same number."
            )
    return rows


def names_of(path: Path, count: int, option: str) -> tuple[str, ...]:
    r"""Read one name per line from the first column; an additional first line is a header.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "genes.tsv").write_text("g1\tActb\ng2\tCd3e\n")
    ...     names_of(Path(folder, "genes.tsv"), 2, "--column-names")
    ('g1', 'g2')
    """
    names = [row[0].strip() for _, row in _read_cells(path)]
    names = names[1:] if len(names) == count + 1 else names
    if len(names) != count:
        axis, other = ("row", "column") if option == "--row-names" else ("column", "row")
        raise FileError(
            f"`{option} {path}` has {len(names)} names, but the data have {count} {axis}s. Give "
            f"one name per line; are these the names of the {other}s?"
        )
    return tuple(names)


def align(
    names: Sequence[str] | None, others: Sequence[str] | None, path: Path
) -> list[int] | None:
    """Return the order that sorts rows named ``others`` as in ``names``; None to keep them.

    If no name matches, or the data have no names, rows named 0, ..., n - 1 or 1, ..., n are sorted
    by these numbers. None is also returned if names repeat. If only some of the names match, or
    none of several words, `FileError` is raised.

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
    if len(places) < len(others) or len(set(names or ())) < len(names or ()):
        return None
    if n_known == 0:
        return _by_number(names, places, path)
    missing = [name for name in names or () if name not in places]
    if missing:
        raise FileError(
            f"`{path}` has labels for {n_known} of the {n_known + len(missing)} rows of the data, "
            f"but not for `{missing[0]}`; every row needs a label."
        )
    return [places[name] for name in names or ()]


def _by_number(names: Sequence[str] | None, places: dict[str, int], path: Path) -> list[int] | None:
    """Return the order of rows that are named by their numbers; None for other numbers."""
    n = len(places)
    for start in (0, 1):
        numbers = [str(i) for i in range(start, start + n)]
        if list(places) == numbers:
            return None
        if places.keys() == set(numbers):
            return [places[number] for number in numbers]
    if names and not all(map(is_number, places)):
        raise FileError(
            f"`{path}` names its rows (`{next(iter(places))}`), but none of these names occurs in "
            f"the data (`{names[0]}`). Use the same names, or remove the names from the labels if "
            f"they are in the order of the data."
        )
    return None
