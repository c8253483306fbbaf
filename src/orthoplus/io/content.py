"""Describe the contents of a file, before and after reading.

Every reader returns a catalog: the arrays of the file with their shapes, which are loaded later.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from orthoplus.core.errors import FileError
from orthoplus.core.types import IntArray

if TYPE_CHECKING:
    from orthoplus.io.imagery import Imagery

# If no key is given, an array with one of these names is preferred.
MATRIX_NAMES = ("X", "A")
LABEL_NAMES = ("labels", "y")
# An array of text has at most this many characters per character of its words, or is small.
_MOST_WIDENING, _SMALL_WIDTH = 16, 1 << 22

Names = tuple[str, ...]


def printable(text: str) -> str:
    r"""Replace the unprintable characters of a text by blanks.

    Text from files is shown in reports and written to headers, where control characters would do
    harm.

    Examples
    --------
    >>> printable("nano\0meters")
    'nano meters'
    """
    return "".join(sign if sign.isprintable() else " " for sign in text)


def text_array(words: Sequence[str]) -> Any:
    """Return words as an array, of Python objects if one word is much longer than most.

    All elements of an array of text have the width of the longest, so that a single long word
    could make an array thousands of times as large as the file.

    Examples
    --------
    >>> text_array(["cat", "dog"])
    array(['cat', 'dog'], dtype='<U3')
    >>> text_array(["cat"] * 10_000 + ["d" * 10_000]).dtype
    dtype('O')
    """
    width = len(words) * max(map(len, words), default=0)
    is_wasteful = width > max(_SMALL_WIDTH, _MOST_WIDENING * sum(map(len, words)))
    return np.array(words, dtype=object if is_wasteful else str)


class Places(NamedTuple):
    """The lines and columns of a file that the entries of a table come from, counted from 1.

    Examples
    --------
    >>> import numpy as np
    >>> Places(np.array([2, 3]), np.array([2, 3]), ("id", "sweet", "sour")).of(1, 1)
    'line 3, column 3 (`sour`)'
    """

    lines: IntArray
    columns: IntArray
    names: Names | None

    def of(self, row: int, column: int) -> str:
        """Return the place of an entry in words, for error messages."""
        number = int(self.columns[column])
        name = "" if self.names is None else self.names[number - 1].strip()
        return f"line {int(self.lines[row])}, column {number}" + (f" (`{name}`)" if name else "")


@dataclass(frozen=True, eq=False)
class Content:
    """An array as read from a file, with names and remarks.

    Attributes
    ----------
    values : ndarray or csr_array
        The numbers; labels may also be text.
    row_names, column_names : tuple of str, optional
        Names given in the file; the columns of an image are its bands.
    notes : tuple of str
        Sentences about what was changed while reading.
    labels : tuple of str, optional
        The true class of each row, if a column of the file holds it.
    summary : str
        One line on what was read and how; empty if nothing had to be inferred.
    places : Places, optional
        Lines and columns of the entries in a text file.
    imagery : Imagery, optional
        Metadata of an image: wavelengths, no-data value, georeference.

    Examples
    --------
    >>> import numpy as np
    >>> content = Content(np.eye(2), column_names=("a", "b"))
    >>> content.values.shape, content.column_names, content.row_names
    ((2, 2), ('a', 'b'), None)
    """

    values: Any
    row_names: Names | None = None
    column_names: Names | None = None
    notes: Names = ()
    labels: Names | None = None
    summary: str = ""
    places: Places | None = None
    imagery: "Imagery | None" = None

    def transposed(self) -> "Content":
        """Return the transposed array; the classes of the rows are dropped.

        So is the advice to transpose it.
        """
        values = self.values.T
        values = values.tocsr() if issparse(values) else values
        notes = tuple(note for note in self.notes if "`--transpose`" not in note)
        said = f"{self.summary}; transposed" if self.summary else ""
        return Content(values, self.column_names, self.row_names, notes, summary=said)


@dataclass(frozen=True)
class Entry:
    """One array of a file: its shape, whether it holds numbers or text, and how to load it.

    ``open`` returns an array that is read in blocks; None if the format does not support that. A
    hidden array is read only by its key.
    """

    shape: tuple[int, ...]
    is_numeric: bool
    load: Callable[[], Content]
    is_text: bool = False
    open: Callable[[], Content] | None = None
    is_hidden: bool = False

    def fits(self, ndims: tuple[int, ...]) -> bool:
        """Return whether the array has one of these numbers of dimensions and a usable type."""
        if 1 in ndims:  # labels: a vector, or a matrix with a single row or column
            return (self.is_numeric or self.is_text) and sum(n != 1 for n in self.shape) <= 1
        return self.is_numeric and len(self.shape) in ndims

    def __str__(self) -> str:
        size = " x ".join(map(str, self.shape)) or "single"
        return f"{size} {'numbers' if self.is_numeric else 'text' if self.is_text else 'objects'}"


Catalog = Mapping[str, Entry]


def choose(
    path: Path, catalog: Catalog, key: str | None, ndims: tuple[int, ...], wanted: str
) -> Entry:
    """Return the entry with this key; by default the only one that fits, or one named X or A."""
    if key is not None:
        if key not in catalog:
            raise FileError(f"`{path}` has no array `{key}`. It has {_listed(catalog)}.")
        if not catalog[key].fits(ndims):
            raise FileError(
                f"`{key}` in `{path}` is {catalog[key]}, not a {wanted}. "
                f"The file has {_listed(catalog)}."
            )
        return catalog[key]
    fitting = {name: entry for name, entry in catalog.items() if entry.fits(ndims)}
    if not fitting:
        raise FileError(f"`{path}` has no {wanted}. It has {_listed(catalog)}.")
    shown = {name: entry for name, entry in fitting.items() if not entry.is_hidden}
    if not shown:
        raise FileError(
            f"`{path}`: only hidden sheets hold data: {_listed(fitting)}. To read one of them, "
            f"write {path.name}:NAME."
        )
    fitting = shown
    preferred = [n for n in (LABEL_NAMES if 1 in ndims else MATRIX_NAMES) if n in fitting]
    if len(fitting) > 1 and not preferred:
        raise FileError(
            f"`{path}` has {len(fitting)} suitable arrays: {_listed(fitting)}. "
            f"Choose one with --key NAME, or write {path.name}:NAME."
        )
    return fitting[preferred[0] if preferred else next(iter(fitting))]


def _listed(catalog: Catalog, most: int = 12) -> str:
    if not catalog:
        return "no arrays"
    shown = [f"`{name}` ({entry})" for name, entry in list(catalog.items())[:most]]
    more = len(catalog) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
