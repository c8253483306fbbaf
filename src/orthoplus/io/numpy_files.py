"""NumPy's own files, ``.npy`` and ``.npz``: headers first, never a pickle.

The header of an array says how long it is. That must be what the file holds, to the byte: a
truncated file and one that asks for more memory than it could fill are both met there.
"""

import os
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy.sparse import coo_array, dia_array

from orthoplus.io.content import (
    Catalogue,
    Content,
    Entry,
    FileError,
    as_numbers,
    byte_count,
    check_bytes,
    check_indices,
    compressed_rows,
)

_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# What SciPy's `save_npz` writes, format by format.
_SPARSE_PARTS = {
    "csr": ("data", "indices", "indptr", "shape"),
    "csc": ("data", "indices", "indptr", "shape"),
    "coo": ("data", "row", "col", "shape"),
    "dia": ("data", "offsets", "shape"),
}


@dataclass(frozen=True)
class Header:
    """Shape and type of one array, and how many bytes the file has for it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def read_npy(path: Path) -> Catalogue:
    """The one array of an ``.npy`` file."""
    with open(path, "rb") as file:
        header = _read_header(path, file, os.path.getsize(path))
    return {path.stem: _entry(path, header, lambda: _load_npy(path))}


def read_npz(path: Path) -> Catalogue:
    """The arrays of an ``.npz`` archive; the parts of a sparse matrix count as one array."""
    headers = _member_headers(path)
    catalogue = {
        name: _entry(path, header, partial(_load_member, path, name))
        for name, header in headers.items()
    }
    kind = _sparse_format(path, headers)
    if kind is None:
        return catalogue
    shape = tuple(int(n) for n in np.ravel(_load_member(path, "shape")))
    if len(shape) != 2 or min(shape) < 0:
        raise FileError(f"`{path}`: its sparse array has the shape {shape}, it needs two lengths.")
    parts = {*_SPARSE_PARTS[kind], "format"}
    others = {name: entry for name, entry in catalogue.items() if name not in parts}
    return {"X": Entry(shape, True, lambda: _load_sparse(path, kind, shape))} | others


def _member_headers(path: Path) -> dict[str, Header]:
    if not zipfile.is_zipfile(path):
        raise FileError(
            f"`{path}` is no .npz archive: it is truncated, or of another type. "
            f"Write it again with `numpy.savez` or `scipy.sparse.save_npz`."
        )
    headers = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".npy"):
                with archive.open(info) as file:
                    name = info.filename.removesuffix(".npy")
                    headers[name] = _read_header(path, file, info.file_size)
    return headers


def _read_header(path: Path, file: IO[bytes], n_bytes: int) -> Header:
    """Shape and type; an error unless the rest of the file is exactly that array."""
    version = np.lib.format.read_magic(file)
    if version not in _READ_HEADER:
        raise FileError(f"`{path}` has the .npy version {version}, which is unknown here.")
    shape, _, dtype = _READ_HEADER[version](file)
    if dtype.hasobject:
        return Header(shape, dtype)  # listed, never read
    held = n_bytes - file.tell()
    declared = byte_count(shape, dtype.itemsize)
    if declared > held:
        check_bytes(path, declared)
    if declared != held:
        raise FileError(
            f"`{path}` declares an array of {declared} bytes and holds {held}: it is truncated or "
            f"damaged."
        )
    return Header(shape, dtype)


def _entry(path: Path, header: Header, load: Any) -> Entry:
    dtype = header.dtype

    def checked() -> Content:
        check_bytes(path, byte_count(header.shape, dtype.itemsize))
        values = load()
        return Content(values if dtype.kind in "US" else as_numbers(path, values))

    def refused() -> Content:
        raise FileError(
            f"`{path}` holds pickled Python objects, which could run code when read; they are "
            f"never read. Save plain numbers, for example `numpy.save(file, array.astype(float))`."
        )

    if dtype.hasobject:
        # Counted as numbers so that the refusal, and not another array, is what the user sees.
        return Entry(header.shape, True, refused)
    return Entry(header.shape, dtype.kind in "fiubc", checked, is_text=dtype.kind in "US")


def _load_npy(path: Path) -> Any:
    return np.load(path, allow_pickle=False)


def _load_member(path: Path, name: str) -> Any:
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _sparse_format(path: Path, headers: dict[str, Header]) -> str | None:
    """The format of the sparse matrix in the archive; CSR where only the parts are there."""
    kind = "csr"
    if "format" in headers:
        if headers["format"].dtype.kind not in "US" or headers["format"].dtype.itemsize > 64:
            return None
        word = _load_member(path, "format").item()
        kind = word.decode("ascii", "replace") if isinstance(word, bytes) else str(word)
    parts = _SPARSE_PARTS.get(kind)
    if parts is None:
        raise FileError(
            f"`{path}` holds a sparse matrix of the format `{kind}`. Convert it with `.tocsr()`."
        )
    if not set(parts) <= headers.keys():
        return None
    pickled = [name for name in parts if headers[name].dtype.hasobject]
    if pickled:
        raise FileError(f"`{path}` holds pickled Python objects (`{pickled[0]}`): never read.")
    check_bytes(path, sum(byte_count(headers[n].shape, headers[n].dtype.itemsize) for n in parts))
    return kind


def _load_sparse(path: Path, kind: str, shape: tuple[int, int]) -> Content:
    parts = {name: _load_member(path, name) for name in _SPARSE_PARTS[kind]}
    if kind in ("csr", "csc"):
        compressed = (parts["data"], parts["indices"], parts["indptr"])
        return Content(compressed_rows(path, compressed, shape, kind == "csr"))
    check_bytes(path, 8 * sum(shape))
    if kind == "dia":
        return Content(dia_array((parts["data"], parts["offsets"]), shape=shape).tocsr())
    rows, columns = (np.asarray(parts[name]).astype(np.int64).ravel() for name in ("row", "col"))
    check_indices(path, rows, shape[0], "row")
    check_indices(path, columns, shape[1], "column")
    values = as_numbers(path, parts["data"])
    return Content(coo_array((values, (rows, columns)), shape=shape).tocsr())
