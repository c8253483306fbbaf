"""Recognize tables in long form, with one entry of a matrix per line, which are not data.

Such lines hold a row, a column and a value (user, item, rating), or the two ends of an edge.
"""

import re
from collections.abc import Sequence

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

Column = FloatArray | list[str]

# Minimum number of lines, and the maximum share of distinct keys among them, for which pairs of
# keys that never repeat are more than coincidence. Of n pairs of k x k equally likely ones, none
# repeats with a probability of about exp(-n^2 / 2 k^2), which is below 0.001 for k <= n / 4.
_LEAST_LINES, _KEY_SHARE = 20, 0.25
# Minimum number of lines, and the minimum share of distinct pairs, if the names say it.
_LEAST_NAMED, _PAIR_SHARE = 4, 0.5
# Names of columns that hold the rows and the columns of a matrix, without "id" at the end.
_ROW_NAMES = frozenset(
    "id index key name user customer client reader viewer member person reviewer row rows i doc "
    "document text sample cell barcode patient subject station site country source "
    "from fromnode src node1 head".split()
)
_COLUMN_NAMES = frozenset(
    "item movie film product book song artist track article anime game business column columns col "
    "cols j word term token gene feature variable attribute metric measure parameter analyte "
    "taxon species otu target to tonode dst dest destination node2 tail".split()
)
_SUFFIX = re.compile(r"[ _.-]?(ids?|idx|index|no|nr|num|number|name|names|code)$")
_TIMES = re.compile(r".*(time|date).*", re.IGNORECASE)
_LONGEST_NAME = 60
_TIMESTAMP = 1e8  # seconds since 1970 are larger


def find_long_form(names: Sequence[str] | None, columns: Sequence[Column]) -> int:
    """Return 3 for lines of row, column and value, 2 for lines of pairs, and 0 for other tables.

    A fourth column may hold the time. The first two columns hold integers or words that repeat,
    in pairs that do not repeat; fewer repetitions are enough if their names are those of keys.

    Examples
    --------
    >>> users, items = np.repeat(np.arange(8.0), 5), np.tile(np.arange(5.0), 8)
    >>> find_long_form(None, [users, items, np.linspace(1, 5, 40)])
    3
    >>> find_long_form(("height", "width"), [users, users])
    0
    """
    n, width = len(columns[0]) if columns else 0, len(columns)
    if width == 4 and _holds_times(columns[3], None if names is None else names[3]):
        width = 3
    if width not in (2, 3) or (width == 3 and isinstance(columns[2], list)):
        return 0
    if width == 2 and any(isinstance(column, list) for column in columns):
        return 0  # row names and one column, or only words
    keys = [codes for column in columns[:2] if (codes := _codes(column)) is not None]
    if len(keys) < 2:
        return 0
    counts = [int(codes.max()) + 1 for codes in keys]
    n_pairs = len(np.unique(keys[0] * counts[1] + keys[1]))
    if names is not None and _are_keys(names[0], names[1]):
        is_long = n >= _LEAST_NAMED and max(counts) < n and n_pairs >= _PAIR_SHARE * n
    else:
        is_long = n >= _LEAST_LINES and max(counts) <= _KEY_SHARE * n and n_pairs == n
    return width if is_long and min(counts) > 1 else 0


def _codes(column: Column) -> IntArray | None:
    """Return the number of the distinct value in each line; None for numbers that are not keys."""
    if not len(column):
        return None
    if isinstance(column, list):
        return np.unique(np.array(column), return_inverse=True)[1].astype(np.int64)
    is_key = np.isfinite(column).all() and (column == np.round(column)).all()
    if not is_key or (column < 0).any():
        return None
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


def _are_keys(first: str, second: str) -> bool:
    """Return whether the names are those of the rows and the columns of a matrix, or vice versa."""
    one, other = _stem(first), _stem(second)
    return (one in _ROW_NAMES and other in _COLUMN_NAMES) or (
        one in _COLUMN_NAMES and other in _ROW_NAMES
    )


def _stem(name: str) -> str:
    word = name.strip().lower()[:_LONGEST_NAME]
    return re.sub(r"[^a-z0-9]", "", _SUFFIX.sub("", word) or word)


def _holds_times(column: Column, name: str | None) -> bool:
    if name is not None and _TIMES.fullmatch(name[:_LONGEST_NAME]):
        return True
    return not isinstance(column, list) and bool((column > _TIMESTAMP).all())


def long_form_words(titles: Sequence[str], width: int) -> str:
    """Return what is wrong with a table in long form and what to do; titles name its columns."""
    if width == 2:
        return (
            f"each line seems to hold a pair ({titles[0]}, {titles[1]}), such as an edge of a "
            f"graph, instead of a row of a matrix. Save the pairs as a sparse matrix, .mtx or "
            f".npz, with one entry per pair. Pass --index none if the columns are data."
        )
    return (
        f"the table seems to be in long form: each line holds one entry of a matrix (row: "
        f"{titles[0]}, column: {titles[1]}, value: {titles[2]}). Write one line per row, with "
        f"pandas by `table.pivot(index=..., columns=..., values=...)`, or save a sparse matrix "
        f"as .mtx. Pass --index none if the columns are data."
    )
