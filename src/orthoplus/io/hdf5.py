"""Read HDF5 files: any data set by its key, AnnData, Cell Ranger, MATLAB v7.3.

Every object is reached by `follow`, which uses hard links only: other links may leave the file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.extras import require
from orthoplus.io import guard
from orthoplus.io.cell_ranger import cell_ranger_shape, is_cell_ranger, load_cell_ranger
from orthoplus.io.content import Catalog, Content, Entry, Names, text_array
from orthoplus.io.packed_values import refuse_packed, unpack
from orthoplus.io.trial import NUMERIC, attribute, follow, walk

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Members of a sparse group: AnnData's, and MATLAB's, which is compressed by columns.
_BY_ROW, _BY_COLUMN = ("data", "indices", "indptr"), ("data", "ir", "jc")


@dataclass(frozen=True)
class Source:
    """An HDF5 file, and the reasons why parts of it cannot be read."""

    path: Path
    failures: dict[str, str]
    h5py: Any

    def load(self, key: str, how: Callable[["Source", Any, str], Content]) -> Content:
        """Open the file and read the object under the key."""
        with self.h5py.File(self.path, "r") as file:
            return how(self, file, key)

    def dataset(self, group: Any, key: str) -> Any:
        """Return a data set after checking that it can be read and its declared size."""
        path, found = self.path, follow(group, key)
        if not isinstance(found, self.h5py.Dataset):
            raise FileError(
                f"`{path}`: `{key}` does not exist, or is a soft or external link; such links are "
                f"not followed."
            )
        if found.is_virtual or found.external:
            raise FileError(
                f"`{path}`: `{found.name}` is stored in other files, which are not read."
            )
        guard.refuse_failed(path, self.failures, found.name.strip("/"))
        guard.check_size(path, found.shape, found.dtype)
        if found.chunks is None and found.nbytes > path.stat().st_size:
            raise FileError(
                f"`{path}`: `{found.name}` declares {found.nbytes} bytes, more than the file has: "
                f"it is truncated or damaged."
            )
        return found

    def texts(self, group: Any, key: str) -> Any:
        """Return a data set of text as a vector."""
        words = self.dataset(group, key).asstr(errors="replace")[()]
        return text_array([str(word) for word in np.ravel(words)])


def read_hdf5(path: Path, *, is_matlab: bool = False) -> Catalog:
    """List all data sets, and all groups that are sparse matrices, by their path in the file.

    MATLAB stores arrays in column-major order, so that HDF5 shows their axes reversed.
    """
    h5py = require("h5py", f"Reading `{path}`", extra="hdf5")
    source = Source(path, guard.read_on_trial(path, "hdf5"), h5py)
    entries: dict[str, Entry] = {}
    with h5py.File(path, "r") as file:
        for key, item in walk(file):
            is_part = key.rpartition("/")[0] in entries  # a member of a sparse matrix
            entry = None if is_part else _entry(source, key, item, is_matlab)
            if entry is not None:
                entries[key] = entry
    return entries


def _entry(source: Source, key: str, item: Any, is_matlab: bool) -> Entry | None:
    """Describe the object under this key; None for a plain group."""
    h5py = source.h5py
    if isinstance(item, h5py.Dataset):
        shape = tuple(int(n) for n in item.shape or ())[:: -1 if is_matlab else 1]
        is_text = h5py.check_string_dtype(item.dtype) is not None
        is_number = item.dtype.kind in "fiub" and item.shape is not None
        if is_matlab and "MATLAB_class" in item.attrs:  # text is stored as numbers, too
            is_number = is_number and _matlab_class(item) in NUMERIC
        load = partial(source.load, key, _load_by_columns if is_matlab else _load_dataset)
        return Entry(shape, is_number, load, is_text=is_text)
    if not isinstance(item, h5py.Group):
        return None
    if {"codes", "categories"} <= item.keys():
        length = getattr(follow(item, "codes"), "shape", None) or ()
        return Entry(length, False, partial(source.load, key, _load_codes), is_text=True)
    if is_cell_ranger(source.h5py, item):
        return Entry(cell_ranger_shape(item), True, partial(source.load, key, load_cell_ranger))
    size = _sparse_shape(item)
    return None if size is None else Entry(size, True, partial(source.load, key, _load_sparse))


def _matlab_class(item: Any) -> str:
    """Return the class of a variable of MATLAB; empty for an array without elements."""
    found = attribute(item, "MATLAB_class")
    word = found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)
    return "" if "MATLAB_empty" in item.attrs else word


def _sparse_shape(group: Any) -> tuple[int, int] | None:
    """Return the shape of a sparse group of AnnData or MATLAB; None for other groups."""
    if set(_BY_COLUMN) <= group.keys() and "MATLAB_sparse" in group.attrs:
        pointers = getattr(follow(group, "jc"), "shape", None) or (1,)
        return int(attribute(group, "MATLAB_sparse")), int(pointers[0]) - 1
    declared = attribute(group, "shape" if "shape" in group.attrs else "h5sparse_shape")
    if not set(_BY_ROW) <= group.keys() or np.shape(declared) != (2,):
        return None
    return int(declared[0]), int(declared[1])


def _load_dataset(source: Source, file: Any, key: str) -> Content:
    dataset = source.dataset(file, key)
    if source.h5py.check_string_dtype(dataset.dtype) is not None:
        words = source.texts(file, key)
        return Content(words, _anndata_names(source, file, key, words.shape)[0])
    values, notes = unpack(source.path, dataset)
    if key == "matrix" and {"row_attrs", "col_attrs"} <= file.keys():
        notes += ("In Loom files the rows are genes: `--transpose` clusters the cells instead.",)
    return Content(values, *_anndata_names(source, file, key, values.shape), notes)


def _load_by_columns(source: Source, file: Any, key: str) -> Content:
    content = _load_dataset(source, file, key)
    return Content(np.ascontiguousarray(content.values.T), notes=content.notes)


def _load_sparse(source: Source, file: Any, key: str) -> Content:
    group = follow(file, key)
    shape = _sparse_shape(group) or (0, 0)
    is_matlab = "MATLAB_sparse" in group.attrs
    names = _BY_COLUMN if is_matlab else _BY_ROW
    refuse_packed(source.path, source.dataset(group, "data"))
    data, indices, pointers = (source.dataset(group, name)[()] for name in names)
    encodings = (attribute(group, name) for name in ("encoding-type", "h5sparse_format"))
    by_row = not is_matlab and not any("csc" in str(encoding) for encoding in encodings)
    matrix = guard.compressed_rows(source.path, (data, indices, pointers), shape, by_row)
    return Content(matrix, *_anndata_names(source, file, key, shape))


def _load_codes(source: Source, file: Any, key: str) -> Content:
    """Read a categorical column of AnnData: integer codes and their categories."""
    codes = np.asarray(source.dataset(file, f"{key}/codes")[()])
    words = source.texts(file, f"{key}/categories")
    if codes.dtype.kind not in "iu" or (
        len(codes) and not -1 <= codes.min() <= codes.max() < len(words)
    ):
        raise FileError(
            f"`{source.path}`: `{key}` has codes without a category. The file is damaged."
        )
    words = [*words.tolist(), ""]  # the code -1, no category, picks the last entry
    values = text_array([words[code] for code in codes.ravel().tolist()])
    return Content(values, _anndata_names(source, file, key, values.shape)[0])


def _anndata_names(
    source: Source, file: Any, key: str, shape: tuple[int, ...]
) -> tuple[Names | None, Names | None]:
    """Return the names in ``obs`` and ``var`` if their lengths fit the matrix or column.

    The matrix ``raw/X`` has its own genes, ``raw/var``.
    """
    if len(shape) == 1 and key.startswith("obs/"):
        return _index(source, file, "obs", shape[0]), None
    if len(shape) != 2 or not (key in ("X", "raw/X") or key.startswith("layers/")):
        return None, None
    genes = "raw/var" if key == "raw/X" else "var"
    return _index(source, file, "obs", shape[0]), _index(source, file, genes, shape[1])


def _index(source: Source, file: Any, name: str, length: int) -> Names | None:
    group = follow(file, name)
    if not isinstance(group, source.h5py.Group):
        return None
    key = str(attribute(group, "_index") or "_index")
    index = follow(group, key)
    is_text = source.h5py.check_string_dtype(getattr(index, "dtype", np.dtype(float))) is not None
    if not is_text or index.shape != (length,):
        return None
    return tuple(source.texts(group, key).tolist())
