"""What a file holds, before and after it is read.

Every format gives a catalog: the arrays of the file with their shapes, none of them read yet.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scipy.sparse import issparse

from orthoplus.core.errors import FileError
from orthoplus.core.types import IntArray

if TYPE_CHECKING:
    from orthoplus.io.imagery import Imagery

# Without a key, an array of one of these names is preferred to the others.
MATRIX_NAMES = ("X", "A")
LABEL_NAMES = ("labels", "y")

Names = tuple[str, ...]


def printable(text: str) -> str:
    r"""Return a text of a file with blanks for what cannot be shown: reports and headers hold it.

    Examples
    --------
    >>> printable("nano\0meters")
    'nano meters'
    """
    return "".join(sign if sign.isprintable() else " " for sign in text)


class Places(NamedTuple):
    """Where the entries of a table stand in its file, as an editor shows it.

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
        """Return the place of an entry in words."""
        number = int(self.columns[column])
        name = "" if self.names is None else self.names[number - 1].strip()
        return f"line {int(self.lines[row])}, column {number}" + (f" (`{name}`)" if name else "")


@dataclass(frozen=True, eq=False)
class Content:
    """Hold an array as read from a file.

    Attributes
    ----------
    values : ndarray or csr_array
        Numbers; for labels also text.
    row_names, column_names : tuple of str, optional
        If the file has them; for a cube the column names are those of the bands.
    notes : tuple of str
        What was changed on the way, in words.
    labels : tuple of str, optional
        The true class of each row, if a column of the file holds it.
    summary : str
        What was read and how, in one line; empty if there was nothing to find out.
    places : Places, optional
        Where the entries stand in a file of lines.
    imagery : Imagery, optional
        What an image file says beside its numbers: wavelengths, no data, where it lies.

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
        """Return the array with rows and columns exchanged; classes of the rows are left out."""
        values = self.values.T
        values = values.tocsr() if issparse(values) else values
        return Content(values, self.column_names, self.row_names, self.notes, summary=self.summary)


@dataclass(frozen=True)
class Entry:
    """Describe one array of a file: its shape, whether it holds numbers or text, how to read it.

    ``open`` gives an array that is read in blocks, if the format has any.
    """

    shape: tuple[int, ...]
    is_numeric: bool
    load: Callable[[], Content]
    is_text: bool = False
    open: Callable[[], Content] | None = None

    def fits(self, ndims: tuple[int, ...]) -> bool:
        """Tell whether it can be what is wanted."""
        if 1 in ndims:  # labels: a vector, also as a matrix of one row or column
            return (self.is_numeric or self.is_text) and sum(n != 1 for n in self.shape) <= 1
        return self.is_numeric and len(self.shape) in ndims

    def __str__(self) -> str:
        size = " x ".join(map(str, self.shape)) or "single"
        return f"{size} {'numbers' if self.is_numeric else 'text' if self.is_text else 'objects'}"


Catalog = Mapping[str, Entry]


def choose(
    path: Path, catalog: Catalog, key: str | None, ndims: tuple[int, ...], wanted: str
) -> Entry:
    """Return the entry with this key; without one, the only one that fits, or one called X or A."""
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
    preferred = [n for n in (LABEL_NAMES if 1 in ndims else MATRIX_NAMES) if n in fitting]
    if len(fitting) > 1 and not preferred:
        raise FileError(
            f"`{path}` has {len(fitting)} arrays that could be meant: {_listed(fitting)}. "
            f"Name one with --key, or as {path.name}:NAME."
        )
    return fitting[preferred[0] if preferred else next(iter(fitting))]


def _listed(catalog: Catalog, most: int = 12) -> str:
    if not catalog:
        return "no arrays at all"
    shown = [f"`{name}` ({entry})" for name, entry in list(catalog.items())[:most]]
    more = len(catalog) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
