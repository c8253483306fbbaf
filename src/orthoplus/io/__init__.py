"""Read matrices, image cubes and labels from files of all common formats, one format per module.

Any defect of a file raises `FileError` with a clear message. Pickles are never loaded, and sizes
are checked before any data are read (`orthoplus.io.guard`).
"""

import os
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TypeVar

import numpy as np
from scipy.sparse import issparse

from orthoplus.core.errors import FileError
from orthoplus.io import guard
from orthoplus.io.content import Catalog, Content, choose
from orthoplus.io.envi import IMAGE_SUFFIXES, find_header, read_envi
from orthoplus.io.geotiff import read_geotiff
from orthoplus.io.guard import memory_limit
from orthoplus.io.hdf5 import read_hdf5
from orthoplus.io.label_files import align, names_of, read_table_labels
from orthoplus.io.matlab import read_mat
from orthoplus.io.matrix_market import read_matrix_market
from orthoplus.io.numpy_files import read_npy, read_npz
from orthoplus.io.spreadsheets import read_parquet, read_spreadsheet
from orthoplus.io.table_options import TableOptions
from orthoplus.io.table_text import suffix_of
from orthoplus.io.text_tables import read_table

# Readers of tables take `TableOptions`; all other readers take the path alone.
TABLE_READERS: dict[str, Callable[[Path, TableOptions], Catalog]] = {
    ".csv": read_table,
    ".tsv": read_table,
    ".txt": read_table,
    ".xlsx": read_spreadsheet,
    ".parquet": read_parquet,
}
READERS: dict[str, Callable[[Path], Catalog]] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".mat": read_mat,
    ".mtx": read_matrix_market,
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
    ".h5ad": read_hdf5,
    ".tif": read_geotiff,
    ".tiff": read_geotiff,
    **dict.fromkeys((".hdr", *IMAGE_SUFFIXES), read_envi),
}
T = TypeVar("T")

SUFFIXES = (*READERS, *TABLE_READERS)
_TEXT = (".csv", ".tsv", ".txt")
# Options of some tables without a meaning for others.
_UNUSED_OPTIONS = {
    **dict.fromkeys(_TEXT, ("hidden",)),
    ".xlsx": ("sep", "encoding"),
    ".parquet": ("header", "sep", "decimal", "encoding", "hidden"),
}

__all__ = [
    "SUFFIXES",
    "Content",
    "FileError",
    "TableOptions",
    "align",
    "memory_limit",
    "read_cube",
    "read_labels",
    "read_matrix",
    "read_names",
    "split_key",
]


def split_key(name: str) -> tuple[Path, str | None]:
    """Split ``file.h5ad:layers/raw`` into path and key, unless a file of that full name exists.

    Examples
    --------
    >>> split_key("cells.h5ad:layers/raw")[1]
    'layers/raw'
    >>> split_key("cells.csv")[1] is None
    True
    """
    path = Path(name)
    head, colon, key = name.rpartition(":")
    if os.path.exists(path) or not colon or suffix_of(Path(head)) not in SUFFIXES:
        return path, None
    return Path(head), key


def read_matrix(
    path: str | PathLike[str], key: str | None = None, table: TableOptions | None = None
) -> Content:
    r"""Read a matrix, dense or CSR, with the names of its rows and columns if the file has them.

    Parameters
    ----------
    path : str or path-like
        A file of a type in `SUFFIXES`.
    key : str, optional
        Name of the array in a file with several arrays; by default the only one, or one named X
        or A.
    table : TableOptions, optional
        How to read a table (.csv, .tsv, .txt, .xlsx, .parquet); by default inferred from the file.

    Returns
    -------
    Content
        ``values`` has shape (n, r). ``summary`` says how a table was read: its header, row names,
        separator, decimal sign, and the columns that were left out.

    Notes
    -----
    The size declared by the file is checked against `memory_limit` before the data are read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "fruit.csv")
    ...     _ = path.write_text("name,sweet,sour\napple,3,1\nlemon,0,5\n")
    ...     fruit = read_matrix(path)
    >>> fruit.values
    array([[3., 1.],
           [0., 5.]])
    >>> fruit.row_names, fruit.column_names
    (('apple', 'lemon'), ('sweet', 'sour'))
    """
    content = _read(Path(path), key, (2,), "matrix of numbers", table)
    if 0 in content.values.shape:
        raise FileError(f"`{path}` holds an empty matrix of shape {content.values.shape}.")
    return content


def read_cube(
    path: str | PathLike[str], key: str | None = None, *, in_blocks: bool = False
) -> Content:
    """Read a dense image (height, width, bands) or matrix (pixels, bands).

    Parameters
    ----------
    path : str or path-like
        A file of a type in `SUFFIXES`, or the data file next to an ENVI header.
    key : str, optional
        As in `read_matrix`.
    in_blocks : bool
        Whether to leave an ENVI or GeoTIFF image on disk; ``values`` is then an array-like that
        `orthoplus.unmix` reads in blocks of lines.

    Returns
    -------
    Content
        The column names are the names of the bands. For an ENVI or GeoTIFF image, ``imagery``
        holds wavelengths, units and georeference; values are scaled as the file specifies, bad
        bands are left out, and pixels without data are zero.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "scene.npy"), np.ones((4, 5, 3)))
    ...     scene = read_cube(Path(folder, "scene.npy"))
    >>> scene.values.shape
    (4, 5, 3)
    """
    wanted = "image (height, width, bands) or matrix (pixels, bands)"
    content = _read(Path(path), key, (2, 3), wanted, in_blocks=in_blocks)
    if issparse(content.values):
        raise FileError(f"`{path}` holds a sparse matrix; an image must be dense.")
    if 0 in content.values.shape:
        raise FileError(f"`{path}` holds an empty image of shape {content.values.shape}.")
    return content


def read_labels(
    path: str | PathLike[str], key: str | None = None, rows: tuple[str, ...] | None = None
) -> Content:
    r"""Read a vector of labels, numbers or text, from a file or from one column of a table.

    For a table, ``key`` names the column, and ``rows`` are the names of the rows of the data, by
    which the column of row names is found; see `orthoplus.io.label_files`. For other files the key
    names the array, as in `read_matrix`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels.txt")
    ...     _ = path.write_text("cat\ndog\ncat\n")
    ...     labels = read_labels(path)
    >>> labels.values.tolist()
    ['cat', 'dog', 'cat']
    """
    file = Path(path)
    if suffix_of(file) in TABLE_READERS:
        return guard.guarded(file, lambda: read_table_labels(file, key, rows))
    content = _read(file, key, (1,), "vector of labels")
    return Content(np.ravel(content.values), content.row_names)


def read_names(path: str | PathLike[str], count: int, option: str) -> tuple[str, ...]:
    r"""Read the names of ``count`` rows or columns, one per line; errors mention ``option``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "genes.txt")
    ...     _ = path.write_text("Actb\nCd3e\n")
    ...     read_names(path, 2, "--column-names")
    ('Actb', 'Cd3e')
    """
    file = Path(path)
    return guard.guarded(file, lambda: names_of(file, count, option))


def _read(
    path: Path,
    key: str | None,
    ndims: tuple[int, ...],
    wanted: str,
    table: TableOptions | None = None,
    *,
    in_blocks: bool = False,
) -> Content:
    guard.check_regular(path)
    suffix = suffix_of(path)
    is_packed = path.suffix.lower() == ".gz" and suffix not in _TEXT
    is_known = suffix in SUFFIXES or find_header(path) is not None
    if not is_known or is_packed:
        raise FileError(
            f"`{path}`: unsupported file type `{''.join(path.suffixes[-2:]) or 'none'}`. "
            f"Supported: {', '.join(SUFFIXES)}, .csv.gz, .tsv.gz, .txt.gz."
        )
    is_plain = table is None or replace(table, missing="error") == TableOptions()
    if not is_plain and suffix not in TABLE_READERS:
        raise FileError(
            f"`{path}` is not a table: --header, --index, --drop, --sep and the other table "
            f"options apply to {', '.join(TABLE_READERS)} files only."
        )
    for option in _UNUSED_OPTIONS.get(suffix, ()) if table is not None else ():
        if getattr(table, option) is not None:
            raise FileError(f"`{path}`: --{option} does not apply to {suffix} files; omit it.")

    def read() -> Content:
        entry = choose(path, _list(path, table), key, ndims, wanted)
        if not in_blocks:
            return entry.load()
        if entry.open is None:
            raise FileError(
                f"`{path}` cannot be read in blocks: on the command line only ENVI and GeoTIFF "
                f"images can. In Python, `orthoplus.unmix` also reads HDF5 and Zarr data sets in "
                f"blocks."
            )
        return entry.open()

    return guard.guarded(path, read)


def _list(path: Path, table: TableOptions | None) -> Catalog:
    suffix = suffix_of(path)
    if suffix in TABLE_READERS:
        return TABLE_READERS[suffix](path, table or TableOptions())
    return READERS.get(suffix, read_envi)(path)
