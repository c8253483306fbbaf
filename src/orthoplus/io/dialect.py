"""Infer how a table is written: separator, decimal sign, header, and the type of each column.

Everything is inferred from the first lines and reported. If the lines can be read in two ways that
give different numbers, the file is refused with a message that names the option that decides.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orthoplus.core.errors import FileError
from orthoplus.io.guard import check_cells
from orthoplus.io.table_options import NONE, TableOptions
from orthoplus.io.table_text import Row, count_cells, read_head, read_rows

# The separators that are tried; " " means any white space.
_CANDIDATES = (",", ";", "\t", "|", " ")
_SEPARATOR_WORDS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'", " ": "white space"}
# Minimum number of columns for which a monotone first row is taken as more than coincidence.
_MONOTONE_COLUMNS = 6
# Minimum number of columns for which 0, 1, 2, ... above integers is certainly a header.
_RUNNING_COLUMNS = 10
# Maximum share of rows in equal steps for which such a first row is more than a coincidence.
_MOST_EVEN_ROWS = 0.02
# A first row of numbers that exceed all values below them by this factor is a header.
_MIN_HEADER_FACTOR = 10.0
# A column with this share of numbers is numeric; each of its other cells is reported as an error.
_NUMBER_SHARE = 0.5

# No two parts of these expressions match the same characters: a long cell takes linear time.
POINT = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)
POINT_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+", re.ASCII)
# Digits that are codes rather than quantities: with leading zeros, or too long for a float64.
_CODE = re.compile(r"0\d+|\d{16,}", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
BOOLEANS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Dialect:
    """How the cells of a table become numbers and words.

    Attributes
    ----------
    sep, decimal : str
        The separator and the decimal sign.
    n_before : int
        Number of rows before the data: comments and the header.
    header : tuple of str, optional
        Names of the columns; the name of the row-name column may be missing, as R writes it.
    kinds : tuple of {"number", "boolean", "text", "code", "empty"}
        Type of each column; the last three are read as text.
    notes : tuple of str
        What was inferred, in words.
    """

    sep: str
    decimal: str
    n_before: int
    header: tuple[str, ...] | None
    kinds: tuple[str, ...]
    notes: tuple[str, ...] = ()


def parse_number(cell: str, decimal: str = ".") -> float | None:
    """Return the number in a cell, or None if it is not a number.

    ``float`` alone would accept too much: ``1_000``, digits of other scripts, ``nan``.

    Examples
    --------
    >>> parse_number(" 2.5e3 "), parse_number("0,25", ","), parse_number("1_000")
    (2500.0, 0.25, None)
    """
    cell = cell.strip()
    if decimal == "," and _COMMA.fullmatch(cell):
        return float(cell.replace(",", "."))
    has_point = decimal == "," and "." in cell
    if has_point or not (POINT.fullmatch(cell) or _INFINITE.fullmatch(cell)):
        return None
    return float(cell)


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell holds a number."""
    return parse_number(cell, decimal) is not None


def has_marks(cell: str) -> bool:
    """Return whether a cell is a number with thousands separators, percent or currency signs.

    Examples
    --------
    >>> has_marks("1,234.5"), has_marks("12 %"), has_marks("2024-05-01")
    (True, True, False)
    """
    cell = re.sub(r"[,'%$€£¥₹\s\u202f\xa0]", "", cell)
    return is_number(cell) or (cell.count(".") > 1 and bool(POINT_THOUSANDS.fullmatch(cell)))


# --- the separator and the decimal sign ----------------------------------------------------------


def find_separator(path: Path, encoding: str, options: TableOptions) -> tuple[str, str]:
    """Return the separator, and a note about it unless it is the usual one."""
    if options.separator is not None:
        _check_separator(path, encoding, options)
        return options.separator, ""
    line, first = next(read_rows(path, encoding, None), (0, [""]))
    named = re.fullmatch(r"sep=(.)", first[0].strip('\ufeff "')) if line == 1 else None
    if named is not None:  # Excel declares the separator in a first line such as `sep=;`
        return named[1], f"separator {_SEPARATOR_WORDS.get(named[1], named[1])}"
    scores = {sep: _score(path, encoding, sep, options) for sep in _CANDIDATES}
    if scores["\t"][0] == 1.0:  # blanks within cells that are separated by tabs
        scores.pop(" ")
    best = max(scores, key=lambda sep: scores[sep])
    if scores[best] == (0.0, 0.0, 0):
        check_cells(path, max(count_cells(first[0], sep) for sep in _CANDIDATES))
        return ",", ""
    return best, "" if best == "," else f"separator {_SEPARATOR_WORDS[best]}"


def _check_separator(path: Path, encoding: str, options: TableOptions) -> None:
    """Refuse a separator that does not occur, if another one gives equally long numeric rows."""
    if options.decimal is not None or _score(path, encoding, options.separator or "", options)[2]:
        return
    for sep in _CANDIDATES[:-1]:
        n_equal, n_numbers, _ = _score(path, encoding, sep, options)
        if sep != options.separator and n_equal == 1.0 and n_numbers >= _NUMBER_SHARE:
            raise FileError(
                f"`--sep {options.sep}`: this separator does not occur in `{path}`, whose cells "
                f"seem to be separated by {_SEPARATOR_WORDS[sep]}. Omit --sep to detect it."
            )


def _score(path: Path, encoding: str, sep: str, options: TableOptions) -> tuple[float, float, int]:
    """Rate a separator by (share of rows of equal length, share of numeric cells, columns).

    Scores are compared as tuples, so the number of columns matters only in case of a tie.
    """
    try:
        rows = [row for _, row in read_head(path, encoding, sep) if not is_comment(row)]
    except FileError:  # with this separator, a quote is not closed
        return 0.0, 0.0, 0
    counts = Counter(map(len, rows))
    width, n_equal = max(counts.items(), key=lambda item: (item[1], item[0]), default=(1, 0))
    if width < 2:
        return 0.0, 0.0, 0
    cells = [cell for row in rows for cell in row]
    good = sum(
        options.is_missing(cell) or is_number(cell) or is_number(cell, ",") for cell in cells
    )
    return n_equal / len(rows), good / len(cells), width


def find_decimal(
    path: Path, rows: Sequence[Row], sep: str, options: TableOptions
) -> tuple[str, str]:
    """Return the decimal sign, and a note about it if it is a comma."""
    if options.decimal is not None:
        return options.decimal, "decimal comma" if options.decimal == "," else ""
    cells = [(line, j, cell.strip()) for line, row in rows for j, cell in enumerate(row)]
    commas = [place for place in cells if _COMMA.fullmatch(place[2])]
    points = [place for place in cells if "." in place[2] and POINT.fullmatch(place[2])]
    if not commas:
        # Where decimal commas are usual, semicolons separate cells and points mark thousands:
        # 1.234 is then ambiguous if all numbers with a point look like that.
        if points and sep in ";\t" and all(POINT_THOUSANDS.fullmatch(p[2]) for p in points):
            raise FileError(thousands_words(path, points[0], "."))
        return ".", ""
    line, column, cell = commas[0]
    if points:
        other = points[0]
        raise FileError(
            f"`{path}` has numbers with a decimal comma (`{cell}`, line {line}, column "
            f"{column + 1}) and with a point (`{other[2]}`, line {other[0]}, column "
            f"{other[1] + 1}). Use one decimal sign throughout, and no thousands separators."
        )
    if all(_THOUSANDS.fullmatch(place[2]) for place in commas):
        raise FileError(thousands_words(path, commas[0], ","))
    return ",", "decimal comma"


def thousands_words(path: Path, place: tuple[int, int, str], sign: str) -> str:
    """Return the message about a cell whose sign may be decimal or mark thousands."""
    return (
        f"`{path}`, line {place[0]}, column {place[1] + 1}: `{place[2]}` is ambiguous: a decimal "
        f"number, or an integer with a thousands separator. Pass --decimal {sign} if it is "
        f"decimal; otherwise remove the thousands separators."
    )


# --- the header ----------------------------------------------------------------------------------


def kinds_of(rows: Sequence[list[str]], decimal: str, options: TableOptions) -> tuple[str, ...]:
    """Return the type of each column, decided by the majority of its nonmissing cells."""
    width = Counter(map(len, rows)).most_common(1)[0][0]
    columns = zip(*(row for row in rows if len(row) == width), strict=True)
    return tuple(_kind(column, decimal, options) for column in columns)


def _kind(cells: Sequence[str], decimal: str, options: TableOptions) -> str:
    known = [cell.strip() for cell in cells if not options.is_missing(cell)]
    if not known:
        return "number"
    if all(cell.lower() in BOOLEANS for cell in known):
        return "boolean"
    if options.index != NONE and _are_codes(known):
        return "code"
    n_numbers = sum(is_number(cell, decimal) or has_marks(cell) for cell in known)
    return "number" if n_numbers >= _NUMBER_SHARE * len(known) else "text"


def _comes_again(first: list[str], body: Sequence[list[str]], j: int) -> bool:
    """Return whether a word of the first row occurs below it, too, and so is not a column name."""
    word = first[j].strip() if j < len(first) else ""
    return word != "" and any(j < len(row) and row[j].strip() == word for row in body)


def _are_codes(cells: Sequence[str]) -> bool:
    return any(map(_CODE.fullmatch, cells)) and all(cell.isdecimal() for cell in cells)


def find_header(
    path: Path, rows: Sequence[Row], decimal: str, options: TableOptions
) -> tuple[bool, str]:
    """Return whether the first row is a header, and a note if that had to be inferred.

    A header has a word above a column of numbers. A first row with numbers above all numeric
    columns may still be a header: years, wavelengths, or the running numbers that pandas writes.
    """
    if options.header is not None:
        return options.header, "header as given" if options.header else "no header, as given"
    if len(rows) < 2:
        return _is_lone_header(path, rows, decimal, options), ""
    first, body = rows[0][1], [row for _, row in rows[1:]]
    kinds = kinds_of(body, decimal, options)
    if len(first) == len(kinds) - 1:  # R omits the name above the row names
        return True, "header found"
    if any(kind == "text" and _comes_again(first, body, j) for j, kind in enumerate(kinds)):
        return False, ""
    above = [
        cell for cell, kind in zip(first, kinds, strict=False)
        if kind != "text" and not options.is_missing(cell)
    ]  # fmt: skip
    if any(not is_number(cell, decimal) and cell.strip().lower() not in BOOLEANS for cell in above):
        return True, "header found"
    if "number" not in kinds or not above or any(cell.lower() in BOOLEANS for cell in above):
        return False, ""
    return _is_numeric_header(path, rows, kinds, decimal)


def _is_lone_header(path: Path, rows: Sequence[Row], decimal: str, options: TableOptions) -> bool:
    cells = rows[0][1]
    if all(options.is_missing(cell) or is_number(cell, decimal) for cell in cells[1:] or cells):
        return False
    raise FileError(f"`{path}` has a header but no rows.")


def _is_numeric_header(
    path: Path, rows: Sequence[Row], kinds: tuple[str, ...], decimal: str
) -> tuple[bool, str]:
    """Decide whether a first row with numbers above all numeric columns is a header.

    Raise `FileError` if it could be either.
    """
    first = rows[0][1]
    columns = [
        j
        for j, (cell, kind) in enumerate(zip(first, kinds, strict=False))
        if kind == "number" and is_number(cell, decimal)
    ]
    corner = first[0].strip()
    numbers = [_value(first[j], decimal) for j in columns]
    shown = ", ".join(first[j].strip() for j in columns[:4]) + (", ..." if len(columns) > 4 else "")
    # An empty corner above row names: pandas writes this.
    if corner == "" and 0 not in columns and any(row[0].strip() for _, row in rows[1:]):
        return True, f"header found: {shown}"
    steps = {float(later - sooner) for sooner, later in itertools.pairwise(numbers)}
    is_running = len(numbers) > 2 and numbers[0] in (0.0, 1.0) and steps == {1.0}
    has_decimals = any(
        _value(row[j], decimal) % 1 for _, row in rows[1:] for j in columns if j < len(row)
    )
    if is_running and (has_decimals or len(numbers) >= _RUNNING_COLUMNS):
        return True, f"header found: the running numbers {shown}"
    has_names = kinds[0] == "text" and corner != ""
    if has_names and corner.lower() in CORNER_WORDS:
        return True, f"header found: {shown}"
    if not (is_running or _looks_like_names(rows, columns, numbers, decimal)):
        return False, ""
    raise FileError(
        f"`{path}`: the first line ({shown}) may be a header of numbers or the first row of data. "
        f"Pass --header or --no-header."
    )


# Names of the column of row names, found in the corner of a table.
CORNER_WORDS = frozenset(
    "name names row rows rowname rownames id ids index key sample samples sample_id gene genes "
    "gene_id feature features item items country region city state province station site subject "
    "patient cell barcode document doc file image spectrum pixel date time year observation".split()
)


def _looks_like_names(
    rows: Sequence[Row], columns: list[int], numbers: list[float], decimal: str
) -> bool:
    """Return whether the first row differs from the others as a header of numbers does.

    It is monotone, and its numbers are far larger than their columns, or integers above decimal
    numbers; or it has many columns, and few rows of the body are monotone; or it holds integers in
    equal steps, such as years, and hardly any row of the body does.
    """
    if len(numbers) < 2 or not _is_monotone(numbers):
        return False
    body = [[_value(row[j], decimal) for j in columns if j < len(row)] for _, row in rows[1:]]
    body = [row for row in body if len(row) == len(columns)]
    is_whole = all(number == round(number) for number in numbers)
    has_decimals = any(value != round(value) for row in body for value in row if abs(value) < 1e300)
    ranges = [(min(column), max(column)) for column in zip(*body, strict=True)]
    pairs = list(zip(numbers, ranges, strict=True))
    is_outside = all(not low <= number <= high for number, (low, high) in pairs)
    is_far = all(
        abs(number) > _MIN_HEADER_FACTOR * max(-low, high) for number, (low, high) in pairs
    )
    if is_far or (is_outside and is_whole and has_decimals):
        return True
    if is_whole and _is_even(numbers) and sum(map(_is_even, body)) <= _MOST_EVEN_ROWS * len(body):
        return True
    is_rare = sum(map(_is_monotone, body)) <= 0.2 * len(body)
    return is_rare and (len(numbers) >= _MONOTONE_COLUMNS or (is_whole and has_decimals))


def _is_monotone(numbers: Sequence[float]) -> bool:
    steps = [later - sooner for sooner, later in itertools.pairwise(numbers)]
    return all(step > 0 for step in steps) or all(step < 0 for step in steps)


def _is_even(numbers: Sequence[float]) -> bool:
    steps = {later - sooner for sooner, later in itertools.pairwise(numbers)}
    return len(numbers) > 2 and len(steps) == 1 and steps != {0.0}


def _value(cell: str, decimal: str) -> float:
    return parse_number(cell, decimal) or 0.0


# --- the whole dialect ---------------------------------------------------------------------------


def is_comment(row: Sequence[str]) -> bool:
    """Return whether a line starts with # or, as in MATLAB, with %."""
    return row[0].lstrip().startswith(("#", "%"))


def split_comments(rows: Sequence[Row]) -> tuple[int, list[Row]]:
    """Return the number of leading comment rows, and the remaining rows.

    A row that starts with # and has as many cells as the next one is the header, or a row of data
    if these cells are numbers.
    """
    n = next((i for i, (_, row) in enumerate(rows) if not is_comment(row)), 0)
    n = next((i for i in range(n) if _has_numbers(rows[i][1], len(rows[n][1]))), n)
    if n and n < len(rows) and not is_comment(rows[n][1]):
        line, last = rows[n - 1]
        cells = [last[0].lstrip().lstrip("#%").strip(), *last[1:]]
        cells = cells if cells[0] or len(cells) == len(rows[n][1]) else cells[1:]
        if len(cells) == len(rows[n][1]) and len(cells) > 1:
            return n - 1, [(line, cells), *rows[n:]]
    return n, list(rows[n:])


def _has_numbers(row: Sequence[str], width: int) -> bool:
    """Return whether a row has this many cells: a name that starts with # or %, then numbers."""
    has_name = not is_number(row[0].strip().lstrip("#% "))
    are_numbers = all(is_number(cell) or is_number(cell, ",") for cell in row[1:])
    return len(row) == width > 1 and has_name and are_numbers


def find_dialect(path: Path, encoding: str, options: TableOptions) -> Dialect:
    """Infer the dialect of a text table."""
    sep, separator_words = find_separator(path, encoding, options)
    head = list(read_head(path, encoding, sep))
    n_named = int(bool(head) and re.fullmatch(r"sep=.?", "".join(head[0][1]).strip()) is not None)
    n_comments, rows = split_comments(head[n_named:])
    if not rows:
        raise FileError(f"`{path}` is empty.")
    decimal, decimal_words = find_decimal(path, rows[1:] or rows, sep, options)
    return describe_rows(
        path, rows, options, (sep, decimal), n_named + n_comments,
        (separator_words, decimal_words, comment_words(n_comments)),
    )  # fmt: skip


def describe_rows(
    path: Path,
    rows: Sequence[Row],
    options: TableOptions,
    signs: tuple[str, str] = (",", "."),
    n_before: int = 0,
    words: tuple[str, ...] = (),
) -> Dialect:
    """Infer the dialect of rows whose separator and decimal sign are known."""
    has_header, header_words = find_header(path, rows, signs[1], options)
    body = [row for _, row in rows[has_header:]]
    if not body:
        raise FileError(f"`{path}` has a header but no rows.")
    header = tuple(cell.strip() for cell in rows[0][1]) if has_header else None
    kinds = kinds_of(body, signs[1], options)
    if header is not None and len(header) == len(kinds) - 1 and _counts_up(body):
        kinds = ("code", *kinds[1:])  # row numbers written by R, without a column name
    return Dialect(
        sep=signs[0],
        decimal=signs[1],
        n_before=n_before + has_header,
        header=header,
        kinds=_mark_empty(body, kinds, header),
        notes=tuple(filter(None, (header_words, *words))),
    )


def _counts_up(body: Sequence[list[str]]) -> bool:
    start = int(body[0][0].strip() == "1")
    is_running = all(row[0].strip() == str(i) for i, row in enumerate(body, start))
    return len(body) > 2 and is_running


def _mark_empty(
    body: Sequence[list[str]], kinds: tuple[str, ...], header: tuple[str, ...] | None
) -> tuple[str, ...]:
    """Return the types of the columns, with "empty" for those without a name and values."""
    rows = [row for row in body if len(row) == len(kinds)]
    is_empty = [not any(row[j].strip() for row in rows) for j in range(len(kinds))]
    names = (*(header or ()), *[""] * len(kinds))
    return tuple("empty" if is_empty[j] and not names[j] else kind for j, kind in enumerate(kinds))


def comment_words(n_comments: int) -> str:
    """Return a note about skipped comment lines, or an empty text."""
    lines = "1 comment line" if n_comments == 1 else f"{n_comments} comment lines"
    return f"{lines} skipped" if n_comments else ""
