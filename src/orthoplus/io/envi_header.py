"""Parse the text header of an ENVI image; every field is validated."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.types import FloatArray
from orthoplus.io.content import Names, printable

# Longest header that is read, and most digits of an integer in it.
_MOST_BYTES, _MOST_DIGITS = 1 << 24, 12


@dataclass(frozen=True)
class Header:
    """The fields of a header, as text; lists are joined to one line and keep their braces.

    Examples
    --------
    >>> header = Header(Path("a.hdr"), {"bands": "3", "bbl": "{1, 0, 1}", "gain": "high"})
    >>> header.count("bands", 1), header.numbers("bbl", 3).tolist(), header.names("bbl")
    (3, [1.0, 0.0, 1.0], ('1', '0', '1'))
    >>> header.number("gain")
    Traceback (most recent call last):
    orthoplus.core.errors.FileError: `a.hdr` has `gain = high`; a number is expected.
    """

    path: Path
    fields: Mapping[str, str]

    def text(self, name: str, default: str) -> str:
        """Return a field without braces."""
        return self.fields.get(name, default).strip("{} ") or default

    def count(self, name: str, least: int, *, optional: bool = False) -> int:
        """Return an integer; 0 if it is optional and missing."""
        text = self.fields.get(name, "0" if optional else "")
        is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        if not is_number or int(text) < least:
            what = f"has `{name} = {text[:40]}`" if text else f"does not say `{name}`"
            raise FileError(f"`{self.path}` {what}; an integer of at least {least} is expected.")
        return int(text)

    def number(self, name: str) -> float | None:
        """Return a number, which may be NaN or infinite; None if the field is missing."""
        text = self.text(name, "")
        if not text:
            return None
        try:
            return float(text)
        except ValueError:
            raise FileError(
                f"`{self.path}` has `{name} = {text[:40]}`; a number is expected."
            ) from None

    def names(self, name: str) -> Names | None:
        """Return the entries of a list in braces, or None."""
        text = self.fields.get(name, "")
        if not text.startswith("{"):
            return None
        return tuple(part.strip() for part in text[1:-1].split(","))

    def numbers(self, name: str, length: int) -> FloatArray | None:
        """Return a list of ``length`` finite numbers; None if the field is missing."""
        if name not in self.fields:
            return None
        names = self.names(name) or ()
        try:
            values = [float(part) for part in names]
        except ValueError:
            values = [math.nan]
        if len(values) != length or not np.isfinite(values).all():
            raise FileError(
                f"`{self.path}`: `{name}` has {len(names)} entries; it must list {length} numbers "
                f"in braces, one per band."
            )
        return np.array(values)


def read_header(path: Path) -> Header:
    """Read a header; a value in braces may span several lines."""
    if path.stat().st_size > _MOST_BYTES:
        raise FileError(f"`{path}` is too large for an ENVI header.")
    text = path.read_text(encoding="utf-8", errors="replace").lstrip("\ufeff")
    if not text.startswith("ENVI"):
        raise FileError(f"`{path}` is not an ENVI header: its first line must be `ENVI`.")
    fields: dict[str, str] = {}
    lines = iter(text[4:].splitlines())
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or line.lstrip().startswith(";"):
            continue
        parts = [value.strip()]
        if parts[0].startswith("{"):
            while "}" not in parts[-1] and (more := next(lines, None)) is not None:
                parts.append(more.strip())
            inside = " ".join(parts)[1:].partition("}")[0]
            parts = [f"{{{inside.strip()}}}"]
        fields[" ".join(name.lower().split())] = printable(parts[0])
    return Header(path, fields)
