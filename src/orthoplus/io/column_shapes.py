"""What the values of a column look like: running numbers, an axis, identifiers, classes, totals."""

import re
from collections.abc import Sequence

import numpy as np

from orthoplus.core.types import FloatArray

# Rows from which a column of running numbers, or of few classes, is not chance; and from which
# numbers that only rise or only fall are not.
_RUNNING_ROWS, _CLASS_ROWS, _AXIS_ROWS = 5, 10, 8
# A column of classes has at most this many, and at most this share of the rows.
_MOST_CLASSES, _CLASS_SHARE = 60, 0.5
# Without a name, whole numbers from 0 or 1 on pass for classes if there are at most this many.
_MOST_BARE_CLASSES = 20
_ROUNDING = 1e-9

IDENTIFIER = re.compile(
    r"(.*[ _.-])?(id|ids|idx|index|key|no|nr|num|number|row|rows|rownames?|record|uid|uuid|guid|"
    r"barcode|accession|#|sample|unnamed: ?\d+)|\w+(Id|ID)",
    re.IGNORECASE,
)
CLASS = re.compile(
    r"(.*[ _.-])?(label|labels|class|classes|target|species|category|clusters?|group|diagnosis|"
    r"variety|y|truth|ground_truth|cell_?type|type|kind|outcome|leiden|louvain)",
    re.IGNORECASE,
)
# Names of axes, along which rows are measured.
_AXIS = re.compile(
    r"(.*[ _.-])?(years?|dates?|datetime|time|timestamp|days?|months?|weeks?|hours?|jahr|datum|"
    r"zeit|wavelengths?|wavenumbers?|frequency|freq|m/z|mz|wellenl\w+)([ _.(\[].*)?",
    re.IGNORECASE,
)
_GENES = re.compile(r"genes?|gene[ _]?(id|ids|names?|symbols?)|geneid|symbols?|ensembl.*|probe.*",
                    re.IGNORECASE)  # fmt: skip


def is_running(column: FloatArray) -> bool:
    """Return whether the numbers are 0, 1, 2, ... or 1, 2, 3, ..., in this order.

    Examples
    --------
    >>> is_running(np.arange(1.0, 7.0)), is_running(np.array([1.0, 2, 4, 5, 6]))
    (True, False)
    """
    n = len(column)
    if n < _RUNNING_ROWS or column[0] not in (0.0, 1.0):
        return False
    return bool(np.array_equal(column, np.arange(n) + column[0]))


def is_unique_whole(column: FloatArray) -> bool:
    """Return whether the numbers are whole and differ from each other."""
    is_whole = bool(np.isfinite(column).all() and (column == np.round(column)).all())
    return is_whole and len(np.unique(column)) == len(column)


def is_axis(column: FloatArray, name: str | None, *, is_first: bool) -> bool:
    """Return whether the rows seem to be measured along this column: years, times, wavelengths.

    The first column only rises or only falls, in equal steps or over many rows; or a column has
    the name of an axis, and rises or falls.

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
    if name is not None and _AXIS.fullmatch(name):
        return True
    is_even = bool(np.ptp(steps) <= _ROUNDING * np.abs(steps).max()) and len(column) > 4
    return is_first and (is_even or len(column) >= _AXIS_ROWS)


def has_classes(column: FloatArray | list[str]) -> bool:
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


def bare_classes(columns: Sequence[FloatArray | list[str]]) -> int | None:
    """Return the first or last column if it alone holds whole numbers from 0 or 1 on, repeated.

    Tables without a header often have the class there, as a number.

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
    """Return what to know before clustering: totals, names that repeat, genes as rows."""
    found = []
    if _is_total(values):
        name = "The last row" if rows is None else f"The last row (`{rows[-1]}`)"
        found.append(f"{name} is the sum of all others: if it is a total, take it out of the file.")
    total = _total_column(values)
    if total is not None:
        name = str(total + 1) if columns is None else columns[total]
        found.append(
            f"Column `{name}` is the sum of all others: if it is a total, leave it out with "
            f"`--drop`."
        )
    if columns is not None and len(set(columns)) < len(columns):
        twice = sorted({name for name in columns if list(columns).count(name) > 1})
        found.append(f"Several columns have the same name: {', '.join(twice[:5])}.")
    if _GENES.fullmatch(corner):
        found.append("The rows are genes: `--transpose` clusters the samples instead.")
    return tuple(found)


def _is_total(values: FloatArray) -> bool:
    if len(values) < 3 or values.shape[1] < 2:
        return False
    above = values[:-1].sum(axis=0)
    return bool(above.all() and np.allclose(values[-1], above, rtol=_ROUNDING, atol=0.0))


def _total_column(values: FloatArray) -> int | None:
    """Return the first or last column if it is the sum of the others."""
    if len(values) < 3 or values.shape[1] < 3:
        return None
    for j in (values.shape[1] - 1, 0):
        if _is_total(np.column_stack([np.delete(values, j, axis=1), values[:, j]]).T):
            return j
    return None
