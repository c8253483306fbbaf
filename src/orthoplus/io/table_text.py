"""Split the lines of a text table into rows of cells: compression, encoding, separator."""

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

Row = tuple[int, list[str]]  # the number of the last line of the row, and its cells

# Number of rows that are inspected to describe a table, and of their cells.
HEAD_ROWS, _HEAD_CELLS = 500, 1 << 20
# This many rows are inspected even if they are very wide.
_LEAST_ROWS = 20
_BLOCK = 1 << 20
# The quantifiers are possessive: to go back would gain nothing, and takes 130 bytes per character.
_QUOTED = re.compile(r'"((?:[^"]++|"")*+)"(?=\s|$)|(\S+)')
# How other types of files start that are sometimes saved under the name of a table.
_OTHERS = {
    b"<!doctype html": "a web page, not a table; download the data file itself",
    b"<html": "a web page, not a table; download the data file itself",
    b"<?xml": "XML, not a table; convert it to CSV first",
    b"{": "JSON, not a table; convert it to CSV first",
    b"version https://git-lfs": "a Git LFS pointer, not the data; run `git lfs pull`",
    b"%%matrixmarket": "a Matrix Market file; give it the ending .mtx",
    b"@relation": "an ARFF file, not a table; remove its header, or convert it to CSV first",
    b"pk\x03\x04": "an Excel workbook or a ZIP archive; give it the ending .xlsx, or extract it",
    b"\x1f\x8b": "compressed; give it the ending .csv.gz",
    b"par1": "a Parquet file; give it the ending .parquet",
    b"\x89hdf": "an HDF5 file; give it the ending .h5",
}
_PRINTED = re.compile(rb"\[\s*[\[{\d\"-]|array\(")  # JSON, or an array as Python prints it
# Control characters, which occur in no text with a single-byte encoding.
_CONTROL = bytes(set(range(32)) - {9, 10, 12, 13, 26, 27}) + b"\x7f"


def suffix_of(path: Path) -> str:
    """Return the suffix that determines the type, in lower case, ignoring a final ``.gz``.

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
    """Open a file, and decompress it if its name ends with ``.gz``."""
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return open(path, "rb")


def find_encoding(path: Path, wanted: str | None) -> tuple[str, str]:
    """Return the encoding, and a note about it if it is not UTF-8.

    A byte order mark decides first, then whether all bytes are valid UTF-8. Other text without
    control characters is read as Windows-1252; at worst, non-ASCII letters in names are wrong.
    The whole file is read once, which also checks its size after decompression.
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
            start = start or block[:4]
            has_control = has_control or block.translate(None, _CONTROL) != block
            if bad < 0:
                try:
                    decoder.decode(block)
                except UnicodeDecodeError as error:
                    bad = n_bytes + error.start
            n_bytes += len(block)
            guard.check_size(path, (n_bytes // 2,))  # a number takes at least two bytes, as "1,"
    if wanted is not None:
        return wanted, f"encoding {wanted}"
    if start in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "utf-32", "encoding UTF-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", "encoding UTF-16"
    if bad < 0 and not has_control:
        return "utf-8-sig", ""
    if has_control:
        raise FileError(
            f"`{path}` is not text: it contains control characters. It is damaged, of another "
            f"type, or in an encoding that must be given with --encoding."
        )
    return "cp1252", "encoding Windows-1252, because it is not UTF-8"


def refuse_others(path: Path) -> None:
    """Raise `FileError` if a file starts like one of another type."""
    with open_bytes(path) as file:
        start = file.read(200).removeprefix(codecs.BOM_UTF8).lstrip().lower()
    for begin, what in _OTHERS.items():
        if start.startswith(begin):
            raise FileError(f"`{path}` is {what}.")
    if _PRINTED.match(start):
        raise FileError(f"`{path}` is JSON or a printed array; save the numbers as CSV.")


def _split(path: Path, line: str) -> list[str]:
    """Split at white space except within double quotes, which are removed.

    As in `csv.reader`, a cell longer than `csv.field_size_limit` is an error.

    Examples
    --------
    >>> _split(Path("samples.txt"), '"sample 1" 5.1  "u"')
    ['sample 1', '5.1', 'u']
    """
    if len(line) > guard.WIDE_ROW:  # the cells take far more memory than the line
        guard.check_cells(path, count_cells(line, " "))
    if '"' in line:
        cells = [word or quoted.replace('""', '"') for quoted, word in _QUOTED.findall(line)]
    else:
        cells = line.split()
    if len(line) > (longest := csv.field_size_limit()) and max(map(len, cells)) > longest:
        raise csv.Error(f"field larger than field limit ({longest})")
    return cells


def count_cells(line: str, sep: str) -> int:
    """Return an upper bound on the number of cells in a line, without making them.

    Examples
    --------
    >>> count_cells('"a b"  c', " "), count_cells('"a,b",c', ",")
    (2, 3)
    """
    return sum(1 for _ in _QUOTED.finditer(line)) if sep == " " else line.count(sep) + 1


class _Lines:
    """Iterate over the lines of a file, and refuse a row that would take too much memory.

    A row may extend over several lines if their ends are quoted: `csv.reader` yields it when it is
    complete, so that its cells are counted here, before they are split.
    """

    def __init__(self, path: Path, file: Iterator[str], sep: str) -> None:
        self.path, self.file, self.sep = path, file, sep
        self.start_row()

    def start_row(self) -> None:
        """Forget the cells of the lines that made up the last row."""
        self.n_cells, self.next_check = 0, guard.WIDE_ROW

    def __iter__(self) -> Iterator[str]:
        for line in self.file:
            self.n_cells += count_cells(line, self.sep)
            if self.n_cells > self.next_check:
                guard.check_cells(self.path, self.n_cells)
                self.next_check = self.n_cells + guard.WIDE_ROW
            yield line


def read_rows(path: Path, encoding: str, sep: str | None) -> Iterator[Row]:
    """Yield the rows that are not blank; with ``sep=None``, each line is one cell."""
    number = 1
    try:
        raw = open_bytes(path)
        with io.TextIOWrapper(raw, encoding=encoding, newline="") as file:
            if sep is None or sep == " ":
                for number, line in enumerate(guard.within_time(path, file, raw.tell), 1):
                    if line.strip():
                        yield number, _split(path, line) if sep else [line.strip("\r\n")]
                return
            lines = _Lines(path, file, sep)
            reader = csv.reader(lines, delimiter=sep, strict=True)
            for row in guard.within_time(path, reader, raw.tell):
                number = reader.line_num
                lines.start_row()
                if any(cell.strip() for cell in row):
                    yield number, row
    except csv.Error as error:
        raise FileError(f"`{path}`, after line {number}: {error}.") from error
    except UnicodeDecodeError as error:
        raise FileError(
            f"`{path}` is not {encoding} text (byte {error.start}): it is of another type, or in "
            f"another encoding; pass it with --encoding."
        ) from error
    except EOFError as error:
        raise FileError(f"`{path}` is truncated: its compressed data end too early.") from error


def read_head(path: Path, encoding: str, sep: str) -> Iterator[Row]:
    """Yield the first rows: `HEAD_ROWS`, or fewer if they are so wide that they would fill memory.

    The rows are kept several times, as text, while the table is described.
    """
    n_cells = 0
    for count, (number, row) in enumerate(read_rows(path, encoding, sep), 1):
        yield number, row
        n_cells += len(row)
        if count >= HEAD_ROWS or (n_cells >= _HEAD_CELLS and count >= _LEAST_ROWS):
            return
