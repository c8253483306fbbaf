"""Recognize columns that are not data: running numbers, axes, identifiers, classes, totals."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from orthoplus.core.types import FloatArray

# Minimum number of rows for which running numbers, few distinct values, and a monotone column,
# respectively, are taken as more than coincidence.
_RUNNING_ROWS, _CLASS_ROWS, _AXIS_ROWS = 5, 10, 8
# Maximum number of distinct classes, absolute and relative to the number of rows.
_MOST_CLASSES, _CLASS_SHARE = 60, 0.5
# Maximum number of distinct integers that pass for classes in a column without a name.
_MOST_BARE_CLASSES = 20
_ROUNDING = 1e-9
# Relative rounding of a printed mean, and the least relative spread of a column that varies.
_PRINTED, _SPREAD = 1e-3, 0.05
# Longer names have no meaning; the time of the expressions below is quadratic in the length.
_LONGEST_NAME = 200

# Only the last part distinguishes case: `userID` ends with an identifier, `paid` does not.
_IDENTIFIER = re.compile(
    r"(?i:(.*[ _.-])?(id|ids|idx|index|key|no|nr|num|number|row|rows|rownames?|record|uid|uuid|"
    r"guid|barcode|accession|#|sample|unnamed: ?\d+))|\w*[a-z0-9](Id|ID)"
)
# Names of codes, which are not quantities even if they occur several times.
_CODE = re.compile(
    r"(?i:(.*[ _.-])?(id|ids|uid|uuid|guid|zip|(zip|post|postal)[ _-]?code|plz|phone|fips|sku|isbn|"
    r"ean|upc|subject|patient|participant))|\w*[a-z0-9](Id|ID)"
)
# Names of columns of years and of dates, and of rows that summarize others.
_YEAR = re.compile(r"(.*[ _.-])?(years?|yr|jahr)([ _.(\[].*)?", re.IGNORECASE)
_DATE = re.compile(
    r"(.*[ _.-])?(dates?|datum|day|time|timestamp|datetime)([ _.(\[].*)?", re.IGNORECASE
)
_SUMMARY = re.compile(
    r"((grand|sub|over|column|row)?[ -]?(totals?|all)|(total )?sums?|means?|averages?|avg|medians?|"
    r"std|stdev|st(an)?d(ard)?\.? ?dev(iation)?|gesamt(summe)?|summe|mittelwert|durchschnitt|somme|"
    r"moyenne|promedio)\W*",
    re.IGNORECASE,
)
# Names of rows that summarize others if there are several of them.
_STATISTIC = re.compile(r"(min|max)(imum)?\W*|count\W*|n|sd|25 ?%|50 ?%|75 ?%", re.IGNORECASE)
# A number with a unit, a currency, an error or a footnote, which a spreadsheet cannot compute with.
_QUANTITY = re.compile(
    r"[<>≤≥~≈]?\s?((?:[$€£¥₹]|[A-Z]{3}\s)?)\s?([+-]?\d+(?:[.,]\d+)*)\s?"
    r"(%|[$€£¥₹*°]+|[°µ]?[A-Za-z]{1,4}(?:/[A-Za-z]{1,4})?|(?:±|\+/-)\s?[\d.,]+|\([\d.,]+\))?"
)
_MOST_UNITS, _LONGEST_QUANTITY = 3, 40
# Numbers that stand for missing values, if all others of a column are at most a tenth.
_SENTINELS = (999.0, 9999.0, 99999.0, 999999.0, 9999999.0, 1e20, 1e30)
_CLASS = re.compile(
    r"(.*[ _.-])?(label|labels|class|classes|target|species|category|clusters?|group|diagnosis|"
    r"variety|y|truth|ground_truth|cell_?type|type|kind|outcome|leiden|louvain)",
    re.IGNORECASE,
)
# Names of axes such as time and wavelength, along which the rows are measured.
_AXIS = re.compile(
    r"(.*[ _.-])?(years?|dates?|datetime|time|timestamp|days?|months?|weeks?|hours?|jahr|datum|"
    r"zeit|wavelengths?|wavenumbers?|frequency|freq|m/z|mz|wellenl\w+)([ _.(\[].*)?",
    re.IGNORECASE,
)
_FEATURES = re.compile(
    r"features?|variables?|attributes?|parameters?|metabolites?|proteins?|#?otu([ _]?ids?)?|"
    r"taxon|taxa",
    re.IGNORECASE,
)
_GENES = re.compile(r"genes?|gene[ _]?(id|ids|names?|symbols?)|geneid|symbols?|ensembl.*|probe.*",
                    re.IGNORECASE)  # fmt: skip


def _has_meaning(name: str, meaning: re.Pattern[str]) -> bool:
    return len(name) <= _LONGEST_NAME and meaning.fullmatch(name) is not None


def names_identifiers(name: str) -> bool:
    """Return whether this is a usual name of a column of identifiers.

    Examples
    --------
    >>> names_identifiers("sample_id"), names_identifiers("weight")
    (True, False)
    """
    return _has_meaning(name, _IDENTIFIER)


def names_classes(name: str) -> bool:
    """Return whether this is a usual name of a column of true classes.

    Examples
    --------
    >>> names_classes("Cell_Type"), names_classes("weight")
    (True, False)
    """
    return _has_meaning(name, _CLASS)


def is_running(column: FloatArray) -> bool:
    """Return whether the values are 0, 1, 2, ... or 1, 2, 3, ..., in this order.

    Examples
    --------
    >>> is_running(np.arange(1.0, 7.0)), is_running(np.array([1.0, 2, 4, 5, 6]))
    (True, False)
    """
    n = len(column)
    if n < _RUNNING_ROWS or column[0] not in (0.0, 1.0):
        return False
    return bool(np.array_equal(column, np.arange(n) + column[0]))


def is_permuted(column: FloatArray) -> bool:
    """Return whether the values are 0, ..., n - 1 or 1, ..., n, in any order."""
    return is_running(np.sort(column))


def holds_codes(column: FloatArray, name: str | None) -> bool:
    """Return whether a column has the name of codes and holds integers, which may repeat.

    A column that is mostly zero rather counts how often a word such as "phone" occurs.

    Examples
    --------
    >>> holds_codes(np.array([10001.0, 94103.0, 10001.0]), "zip code")
    True
    >>> holds_codes(np.array([20.0, 35.0, 20.0]), "paid")
    False
    """
    if name is None or not _has_meaning(name, _CODE):
        return False
    return _is_whole(column) and bool(2 * np.count_nonzero(column) > len(column))


def holds_dates(column: FloatArray, name: str | None) -> bool:
    """Return whether a column has the name of dates and holds years, dates or timestamps.

    Dates are integers such as 20240131, timestamps count seconds since 1970, or fractions of them.

    Examples
    --------
    >>> holds_dates(np.array([2021.0, 2019.0, 2021.0]), "year")
    True
    >>> holds_dates(np.array([30.0, 7.0, 14.0]), "stay in days")
    False
    """
    if name is None or not _is_whole(column):
        return False
    if _has_meaning(name, _YEAR):
        return bool(((column >= 1500) & (column <= 2200)).all())
    months, days = column // 100 % 100, column % 100
    are_dates = (column > 1.8e7) & (column < 2.2e7) & (months >= 1) & (months <= 12)
    are_dates &= (days >= 1) & (days <= 31)
    return _has_meaning(name, _DATE) and bool(are_dates.all() or (column > 1e8).all())


def _is_whole(column: FloatArray) -> bool:
    return bool(np.isfinite(column).all() and (column == np.round(column)).all())


def is_unique_whole(column: FloatArray) -> bool:
    """Return whether the values are distinct integers."""
    return _is_whole(column) and len(np.unique(column)) == len(column)


def is_axis(column: FloatArray, name: str | None, *, is_first: bool) -> bool:
    """Return whether a column looks like an axis such as years, times or wavelengths.

    An axis is strictly monotone. It must also have the name of an axis, or be the first column
    and have equal steps or many rows.

    Examples
    --------
    >>> is_axis(np.arange(400.0, 450.0, 10), None, is_first=True)
    True
    >>> is_axis(np.array([2016.0, 2018.0, 2021.0]), "year", is_first=False)
    True
    """
    if len(column) < 3 or not np.isfinite(column).all():
        return False
    steps = np.diff(column)
    if not ((steps > 0).all() or (steps < 0).all()):
        return False
    if name is not None and _has_meaning(name, _AXIS):
        return True
    is_even = bool(np.ptp(steps) <= _ROUNDING * np.abs(steps).max()) and len(column) > 4
    return is_first and (is_even or len(column) >= _AXIS_ROWS)


def has_classes(column: FloatArray | list[str]) -> bool:
    """Return whether the column has few enough distinct values to hold classes."""
    if not isinstance(column, list):
        if not _is_whole(column):
            return False
        n_classes, n = len(np.unique(column)), len(column)
    else:
        n_classes, n = len(set(column)), len(column)
    if n < _CLASS_ROWS:
        return n_classes < n
    return n_classes <= min(_MOST_CLASSES, _CLASS_SHARE * n)


def repeats(column: Sequence[str]) -> bool:
    """Return whether words repeat so often that they do not name the rows.

    Examples
    --------
    >>> repeats(["f", "m", "m", "f"]), repeats(["a", "b", "c", "c"])
    (True, False)
    """
    return len(column) > 3 and 2 * len(set(column)) <= len(column)


def holds_quantities(column: Sequence[str]) -> bool:
    """Return whether all words are numbers with the same few units, signs or errors.

    Examples
    --------
    >>> holds_quantities(["12 cm", "7.5 cm"]), holds_quantities(["1A", "1B", "2C", "2D"])
    (True, False)
    """
    found = [
        len(cell) <= _LONGEST_QUANTITY and _QUANTITY.fullmatch(cell.strip()) for cell in column
    ]
    if not found or not all(found):
        return False
    parts = [match.groups() for match in found if match]
    units = {(before, re.sub(r"[\d.,]+", "", after or "")) for before, _, after in parts}
    has_units = all(before or after for before, after in units)
    return has_units and len(units) <= _MOST_UNITS and len(units) < len(parts)


def bare_classes(columns: Sequence[FloatArray | list[str]]) -> int | None:
    """Return the first or last column if it is the only one that looks like class numbers.

    Tables without a header often store the class there, as integers starting at 0 or 1.

    Examples
    --------
    >>> sizes = np.linspace(3.0, 4.0, 12) ** 2
    >>> bare_classes([np.repeat([1.0, 2.0, 3.0], 4), sizes])
    0
    """
    found = [j for j, column in enumerate(columns) if _counts_classes(column)]
    is_plain = len(columns) > 1 and len(found) == 1 and found[0] in (0, len(columns) - 1)
    return found[0] if is_plain else None


def _counts_classes(column: FloatArray | list[str]) -> bool:
    if isinstance(column, list) or len(column) < _CLASS_ROWS or not has_classes(column):
        return False
    values = np.unique(column)
    is_counted = values[0] in (0.0, 1.0) and np.array_equal(
        values, values[0] + np.arange(len(values))
    )
    return bool(is_counted and 2 <= len(values) <= _MOST_BARE_CLASSES)


def remarks_on(
    values: FloatArray, rows: Sequence[str] | None, columns: Sequence[str] | None, corner: str
) -> tuple[str, ...]:
    """Return remarks to read before clustering: totals, repeated names, genes as rows."""
    found = []
    if _is_total(values):
        name = "The last row" if rows is None else f"The last row (`{rows[-1]}`)"
        found.append(f"{name} is the sum of all others; if it is a total, remove it from the file.")
    elif _is_mean(values):
        name = "The last row" if rows is None else f"The last row (`{rows[-1]}`)"
        found.append(f"{name} is the mean of all others; if it summarizes them, remove it.")
    else:
        found.extend(_summary_words(rows or ()))
    total = _total_column(values)
    if total is not None:
        name = str(total + 1) if columns is None else columns[total]
        found.append(
            f"Column `{name}` is the sum of all others; if it is a total, leave it out with "
            f"`--drop`."
        )
    found.extend(_sentinel_words(values, columns))
    if columns is not None and len(set(columns)) < len(columns):
        twice = sorted(name for name, count in Counter(columns).items() if count > 1)
        found.append(f"Several columns have the same name: {', '.join(twice[:5])}.")
    if _has_meaning(corner, _GENES):
        found.append("The rows are genes: `--transpose` clusters the samples instead.")
    elif _has_meaning(corner, _FEATURES):
        found.append(
            f"The rows seem to be features (`{corner}`): `--transpose` clusters the columns."
        )
    return tuple(found)


def _summary_words(rows: Sequence[str]) -> tuple[str, ...]:
    """Return a remark on the rows that are called totals, means or the like."""
    named = list(dict.fromkeys(name for name in rows if _has_meaning(name.strip(), _SUMMARY)))
    weak = list(dict.fromkeys(name for name in rows if _has_meaning(name.strip(), _STATISTIC)))
    named += weak if len(named) + len(weak) > 1 else []
    if not named:
        return ()
    listed = ", ".join(f"`{name}`" for name in named[:3]) + (", ..." if len(named) > 3 else "")
    return (
        f"Rows named {listed} seem to summarize others; if they do, remove them from the file.",
    )


def _is_total(values: FloatArray) -> bool:
    if len(values) < 3 or values.shape[1] < 2:
        return False
    above = values[:-1].sum(axis=0)
    return bool(above.all() and np.allclose(values[-1], above, rtol=_ROUNDING, atol=0.0))


def _is_mean(values: FloatArray) -> bool:
    """Return whether the last row is the mean of the others, up to rounding of printed numbers.

    At least two columns must vary, because the mean of equal numbers says nothing.
    """
    if len(values) < 4 or not np.isfinite(values).all():
        return False
    others = values[:-1]
    means = others.mean(axis=0)
    varies = others.std(axis=0) > _SPREAD * np.abs(means)
    is_close = np.allclose(values[-1], means, rtol=_PRINTED, atol=0.0)
    return bool(is_close and np.count_nonzero(varies) > 1)


def _sentinel_words(values: FloatArray, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return a remark on a number such as 9999 that is far above the others of its column."""
    for j in range(values.shape[1]):
        top = np.nanmax(values[:, j], initial=0.0)
        if top not in _SENTINELS:
            continue
        rest = values[values[:, j] < top, j]
        if rest.size and rest.max() <= top / 10:
            name = str(j + 1) if columns is None else columns[j]
            return (
                f"Column `{name}` has the value {top:g}, far above its others (at most "
                f"{rest.max():g}). If it stands for a missing value, pass `--na {top:g} --missing "
                f"mask`.",
            )
    return ()


def _total_column(values: FloatArray) -> int | None:
    """Return the first or last column if it is the sum of the others."""
    if len(values) < 3 or values.shape[1] < 3:
        return None
    for j in (values.shape[1] - 1, 0):  # `_is_total` looks at the last row of the transpose
        if _is_total(np.column_stack([np.delete(values, j, axis=1), values[:, j]]).T):
            return j
    return None
