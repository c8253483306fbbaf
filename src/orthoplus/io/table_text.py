"""The lines of a table of text as rows of cells: compression, encoding, separator."""

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from orthoplus.core.errors import FileError
from orthoplus.io import guard

Row = tuple[int, list[str]]  # the number of its last line, and its cells

_BLOCK = 1 << 20
_QUOTED = re.compile(r'"((?:[^"]|"")*)"(?=\s|$)|(\S+)')
# How files begin that have the name of a table and are something else.
_OTHERS = {
    b"<!doctype html": "a web page, not a table: save the data themselves",
    b"<html": "a web page, not a table: save the data themselves",
    b"<?xml": "XML, not a table: write it as CSV first",
    b"{": "JSON, not a table: write it as CSV first",
    b"version https://git-lfs": "a pointer of Git LFS, not the data: `git lfs pull` gets them",
}
# Bytes that no text has, in any encoding of one byte per letter.
_CONTROL = bytes(set(range(32)) - {9, 10, 12, 13, 26, 27}) + b"\x7f"


def suffix_of(path: Path) -> str:
    """Return the suffix that says the type, in lower case: that before ``.gz``, if it ends so.

    Examples
    --------
    >>> suffix_of(Path("counts.CSV.gz")), suffix_of(Path("counts.txt"))
    ('.csv', '.txt')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, decompressed if its name ends with ``.gz``."""
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return open(path, "rb")


def find_encoding(path: Path, wanted: str | None) -> tuple[str, str]:
    """Return the encoding, and words about it if it is not UTF-8.

    A byte order mark decides, then whether all bytes are UTF-8. Other text without control
    characters is read as Windows-1252: only letters beyond ASCII, in names, could be wrong. All of
    the file is read once, so that what it expands to is known, too.
    """
    decoder, start, bad, has_control, n_bytes = (
        codecs.getincrementaldecoder("utf-8")(),
        b"",
        -1,
        False,
        0,
    )
    with open_bytes(path) as file:
        while block := file.read(_BLOCK):
            start = start or block[:2]
            has_control = has_control or block.translate(None, _CONTROL) != block
            if bad < 0:
                try:
                    decoder.decode(block)
                except UnicodeDecodeError as error:
                    bad = n_bytes + error.start
            n_bytes += len(block)
            guard.check_size(path, (n_bytes // 2,))  # a number and its comma: two bytes of text
    if wanted is not None:
        return wanted, f"encoding {wanted}"
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16", "encoding UTF-16"
    if bad < 0 and not has_control:
        return "utf-8-sig", ""
    if has_control:
        raise FileError(
            f"`{path}` is not text: it has control characters. It is of another type, damaged, or "
            f"in an encoding to be named with --encoding."
        )
    return "cp1252", "encoding Windows-1252, because it is not UTF-8"


def refuse_others(path: Path) -> None:
    """Refuse a file that begins as another type does."""
    with open_bytes(path) as file:
        start = file.read(200).removeprefix(codecs.BOM_UTF8).lstrip().lower()
    for begin, what in _OTHERS.items():
        if start.startswith(begin):
            raise FileError(f"`{path}` is {what}.")


def _split(line: str) -> list[str]:
    """Split at white space, but not inside of double quotes, which are left out.

    Examples
    --------
    >>> _split('"sample 1" 5.1  "u"')
    ['sample 1', '5.1', 'u']
    """
    if '"' not in line:
        return line.split()
    return [word or quoted.replace('""', '"') for quoted, word in _QUOTED.findall(line)]


def read_rows(path: Path, encoding: str, sep: str | None) -> Iterator[Row]:
    """Yield the rows that are not blank; None as separator gives one cell per line."""
    number = 1
    try:
        raw = open_bytes(path)
        with io.TextIOWrapper(raw, encoding=encoding, newline="") as file:
            if sep is None or sep == " ":
                for number, line in enumerate(guard.within_time(path, file, raw.tell), 1):
                    if line.strip():
                        yield number, _split(line) if sep else [line.strip("\r\n")]
                return
            reader = csv.reader(file, delimiter=sep, strict=True)
            for row in guard.within_time(path, reader, raw.tell):
                number = reader.line_num
                if any(cell.strip() for cell in row):
                    yield number, row
    except csv.Error as error:
        raise FileError(f"`{path}`, after line {number}: {error}.") from error
    except UnicodeDecodeError as error:
        raise FileError(
            f"`{path}` is not {encoding} text (byte {error.start}): it is of another type, or in "
            f"another encoding, which --encoding names."
        ) from error
    except EOFError as error:
        raise FileError(f"`{path}` is truncated: its compressed data end early.") from error
