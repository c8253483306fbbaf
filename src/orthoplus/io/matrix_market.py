"""Read Matrix Market files, ``.mtx``, with SciPy: coordinate (sparse) and array (dense)."""

import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import mminfo, mmread
from scipy.sparse import issparse

from orthoplus.core.errors import FileError
from orthoplus.io import guard
from orthoplus.io.content import Catalog, Content, Entry, Names, printable
from orthoplus.io.table_text import open_bytes

# Length of the shortest possible line: "1 1\n" for an entry, "1\n" for a number of an array.
_LEAST_LINE = {"coordinate": 4, "array": 2}
# Words of an entry: its place, and its value.
_PLACE_WORDS, _VALUE_WORDS = {"coordinate": 2, "array": 0}, {"pattern": 0, "complex": 2}
# The characters of the numbers of each type, and of real numbers with NaN and infinity.
_DIGITS, _BLANKS = b"0123456789", b" \t\r\n\v\f"
_SIGNS = {"pattern": _DIGITS, "integer": _DIGITS + b"+-", "unsigned-integer": _DIGITS}
_REAL_SIGNS = _DIGITS + b"+-.eEnNaAiIfFtTyY"
# A table that makes every character of a word an x, and anything else a blank.
_AS_WORDS = bytes(b" x"[sign not in _BLANKS] for sign in range(256))
_BLOCK = 1 << 20
_MOST_BARCODES = 1 << 26  # bytes that are read of a list of cells


def read_matrix_market(path: Path) -> Catalog:
    """List the matrix of the file, after comparing its declared size with the file."""
    start = _skip_header(path)
    rows, columns, n_lines, form, field, symmetry = mminfo(path)
    if form == "array":
        guard.check_size(path, (rows, columns))
        n_lines = rows * columns if symmetry == "general" else rows * (rows - 1) // 2
    guard.check_size(path, (rows + columns,))
    if n_lines * _LEAST_LINE[form] > path.stat().st_size + 1:
        raise FileError(
            f"`{path}` declares {n_lines} entries, more than its {path.stat().st_size} bytes can "
            f"hold: it is truncated or damaged."
        )
    guard.check_size(path, (n_lines, 3))
    n_words = n_lines * (_PLACE_WORDS[form] + _VALUE_WORDS.get(field, 1))
    if form == "array" and symmetry in ("symmetric", "hermitian"):
        n_words += rows * _VALUE_WORDS.get(field, 1)  # the diagonal
    _check_entries(path, start, n_words, field)
    return {path.stem: Entry((rows, columns), True, lambda: _load(path, symmetry))}


def _skip_header(path: Path) -> int:
    """Return where the entries begin; refuse long lines, which SciPy would copy several times."""
    with open(path, "rb") as file:
        while line := file.readline(_BLOCK):
            if len(line) == _BLOCK:
                raise FileError(
                    f"`{path}` has a line of more than {_BLOCK} characters before its entries: it "
                    f"is damaged or of another type."
                )
            if line.strip() and not line.lstrip().startswith(b"%"):
                break  # the sizes of the matrix
        return file.tell()


def _check_entries(path: Path, start: int, n_words: int, field: str) -> None:
    """Refuse entries of another type than declared, of which SciPy would read the first part."""
    allowed = _SIGNS.get(field, _REAL_SIGNS) + _BLANKS
    n_found, before = 0, b" "
    with open(path, "rb") as file:
        file.seek(start)
        while block := file.read(_BLOCK):
            wrong = block.translate(None, allowed)
            if wrong:
                raise FileError(
                    f"`{path}` declares numbers of type {field}, but an entry has the character "
                    f"`{printable(wrong[:1].decode('latin-1'))}`. Correct the type in its first "
                    f"line, or the numbers: real ones are written as 1000, 0.5 or 1.5e-3."
                )
            n_found += (before + block).translate(_AS_WORDS).count(b" x")
            before = block[-1:]
    if n_found > n_words:
        raise FileError(
            f"`{path}` has {n_found} numbers below its header, which declares {n_words}: it has "
            f"too many entries, or the type in its first line, {field}, is wrong."
        )


def _load(path: Path, symmetry: str) -> Content:
    guard.read_on_trial(path, "mtx")
    matrix: Any = mmread(path, spmatrix=False)
    notes = _cell_words(path, matrix.shape)
    if not issparse(matrix):
        return Content(np.ascontiguousarray(guard.as_numbers(path, matrix)), notes=notes)
    values = guard.coordinate_rows(path, (matrix.data, *matrix.coords), matrix.shape)
    if symmetry != "general" and values.nnz < matrix.nnz:
        raise FileError(
            f"`{path}` is declared as {symmetry}, but has an entry more than once, or on both "
            f"sides of the diagonal, so that the values would be added. Store one triangle, or "
            f"declare the matrix as general if it is complete."
        )
    return Content(values, notes=notes)


def _cell_words(path: Path, shape: tuple[int, int]) -> Names:
    """Return a remark if the columns are cells, as in the folders that Cell Ranger writes."""
    for name in ("barcodes.tsv", "barcodes.tsv.gz"):
        with suppress(OSError, EOFError, zlib.error), open_bytes(path.with_name(name)) as file:
            n_lines = len(file.read(_MOST_BARCODES).splitlines())
            if n_lines == shape[1] != shape[0]:
                return (
                    f"`{name}` next to the file has one line per column, so the columns are cells. "
                    f"`--transpose` clusters them instead of the genes.",
                )
    return ()
