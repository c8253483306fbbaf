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
from orthoplus.io.content import Catalog, Content, Entry, Names
from orthoplus.io.table_text import open_bytes

# Length of the shortest possible line: "1 1\n" for an entry, "1\n" for a number of an array.
_LEAST_LINE = {"coordinate": 4, "array": 2}
_MOST_BARCODES = 1 << 26  # bytes that are read of a list of cells


def read_matrix_market(path: Path) -> Catalog:
    """List the matrix of the file, after comparing its declared size with the file."""
    rows, columns, n_lines, form, _, symmetry = mminfo(path)
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
    return {path.stem: Entry((rows, columns), True, lambda: _load(path))}


def _load(path: Path) -> Content:
    guard.read_on_trial(path, "mtx")
    matrix: Any = mmread(path, spmatrix=False)
    notes = _cell_words(path, matrix.shape)
    if not issparse(matrix):
        return Content(np.ascontiguousarray(guard.as_numbers(path, matrix)), notes=notes)
    values = guard.coordinate_rows(path, (matrix.data, *matrix.coords), matrix.shape)
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
