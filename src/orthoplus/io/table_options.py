"""Options that determine how a table is read; anything left out is inferred from the file."""

from dataclasses import dataclass
from functools import cached_property

from orthoplus.core.errors import InputError

# Value of --index and --label-column that says that no column has this role.
NONE = "none"
# How R, pandas, Excel and people write missing values.
MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "?", ".")
_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}


@dataclass(frozen=True)
class TableOptions:
    """How to read a text table, a spreadsheet or a Parquet file; None means inferred.

    Attributes
    ----------
    header : bool, optional
        Whether the first line has the names of the columns.
    index : str, optional
        The column with the names of the rows: its name, its number from 1, or "none".
    drop : tuple of str
        Columns to leave out, by name or number.
    label_column : str, optional
        The column with the true class of each row, which is not data; "none" if there is none.
    sep : str, optional
        The separator: one character, or "tab", "space", "comma", "semicolon".
    decimal : {".", ","}, optional
        The decimal sign.
    encoding : str, optional
        The encoding of the text.
    missing : {"error", "mask"}
        Whether a missing value is an error or becomes NaN.
    na : tuple of str
        Additional words for missing values; numbers stand for all cells of the same value.
    hidden : {"keep", "drop"}, optional
        Whether to read the hidden rows and columns of a spreadsheet or to leave them out.

    Examples
    --------
    >>> TableOptions(sep="tab").separator == chr(9), TableOptions(na=("-9",)).is_missing(" -9.0 ")
    (True, True)
    """

    header: bool | None = None
    index: str | None = None
    drop: tuple[str, ...] = ()
    label_column: str | None = None
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: str = "error"
    na: tuple[str, ...] = ()
    hidden: str | None = None

    def __post_init__(self) -> None:
        if self.sep is not None and len(self.separator or "") != 1:
            raise InputError(
                f"`--sep {self.sep}` is not a separator; use one character, or tab, space, comma "
                f"or semicolon."
            )
        if self.decimal not in (None, ".", ","):
            raise InputError(f"`--decimal {self.decimal}` is not a decimal sign; use . or ,")
        if self.decimal == "," and self.separator == ",":
            raise InputError(
                "`--sep ,` and `--decimal ,` cannot be combined. Omit `--sep` if the decimal "
                "numbers are quoted."
            )
        if self.missing not in ("error", "mask"):
            raise InputError(f"`--missing {self.missing}` is unknown; use error or mask.")
        if self.hidden not in (None, "keep", "drop"):
            raise InputError(f"`--hidden {self.hidden}` is unknown; use keep or drop.")
        if self.encoding is not None:
            try:
                "".encode(self.encoding)  # codecs that are not of text are refused, too
            except (LookupError, ValueError):  # the name itself may be no valid text
                raise InputError(
                    f"`--encoding {self.encoding}` is unknown; use for example utf-8, cp1252, "
                    f"latin-1 or utf-16."
                ) from None

    @property
    def separator(self) -> str | None:
        """Return the separator as a character."""
        return None if self.sep is None else _SEPARATORS.get(self.sep.lower(), self.sep)

    def is_missing(self, cell: str) -> bool:
        """Return whether the cell stands for a missing value."""
        word = cell.strip()
        if word in MISSING_WORDS or word in self.na:
            return True
        return bool(self.missing_numbers) and _number(word) in self.missing_numbers

    @cached_property
    def missing_numbers(self) -> frozenset[float]:
        """Return the numbers that stand for missing values."""
        return frozenset(x for word in self.na if (x := _number(word)) is not None)


def _number(word: str) -> float | None:
    """Return the number that a word stands for, with a decimal point or comma, or None."""
    try:
        return float(word.replace(",", "."))
    except ValueError:
        return None
