"""Read NumPy's ``.npy`` and ``.npz`` files; headers are checked first, pickles are never loaded.

The header of an array declares its size, which must equal the size of the data in the file to the
byte. This catches truncated files and those that declare more memory than they fill.
"""

import io
import math
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy.sparse import dia_array

from orthoplus.core.errors import FileError
from orthoplus.io import guard
from orthoplus.io.content import Catalog, Content, Entry

_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# Longest header, longest name of a sparse format, and most entries of a shape.
_MOST_HEADER, _LONGEST_WORD, _MOST_LENGTHS = 1 << 14, 64, 8
# Arrays that `scipy.sparse.save_npz` writes for each format.
_SPARSE_PARTS = {
    "csr": ("data", "indices", "indptr", "shape"),
    "csc": ("data", "indices", "indptr", "shape"),
    "coo": ("data", "row", "col", "shape"),
    "dia": ("data", "offsets", "shape"),
}


Header = tuple[tuple[int, ...], np.dtype[Any]]  # the shape and the type of an array


def read_npy(path: Path) -> Catalog:
    """List the array of an ``.npy`` file."""
    with open(path, "rb") as file:
        header = _read_header(path, file, path.stat().st_size)
    return {path.stem: _entry(path, header, partial(np.load, path, allow_pickle=False))}


def read_npz(path: Path) -> Catalog:
    """List the arrays of an ``.npz`` archive; the parts of a sparse matrix count as one array."""
    headers = _member_headers(path)
    catalog = {
        name: _entry(path, header, partial(_load_member, path, name))
        for name, header in headers.items()
    }
    kind = _sparse_format(path, headers)
    if kind is None:
        return catalog
    lengths = guard.as_indices(path, _load_member(path, "shape"), "shape")
    shape = tuple(int(n) for n in lengths)
    if len(shape) != 2 or min(shape) < 0:
        raise FileError(f"`{path}`: its sparse array has the shape {shape}; it must be a matrix.")
    parts = {*_SPARSE_PARTS[kind], "format"}
    others = {name: entry for name, entry in catalog.items() if name not in parts}
    return {"X": Entry(shape, True, lambda: _load_sparse(path, kind, shape))} | others


def _member_headers(path: Path) -> dict[str, Header]:
    if not zipfile.is_zipfile(path):
        raise FileError(
            f"`{path}` is not an .npz archive: it is truncated or of another type. "
            f"Save it again with `numpy.savez` or `scipy.sparse.save_npz`."
        )
    headers = {}
    with zipfile.ZipFile(path) as archive:
        guard.check_members(path, len(archive.infolist()))
        for info in archive.infolist():
            name, _, suffix = info.filename.rpartition(".")
            if suffix == "npy":
                if name in headers:
                    raise FileError(
                        f"`{path}` holds two arrays named `{name}`, so that it is unclear which "
                        f"one is meant. Save it again with `numpy.savez`."
                    )
                with archive.open(info) as file:
                    headers[name] = _read_header(path, file, info.file_size)
    return headers


def _read_header(path: Path, file: IO[bytes], n_bytes: int) -> Header:
    """Return shape and type; raise `FileError` unless the data have exactly that size."""
    start = io.BytesIO(file.read(_MOST_HEADER))
    version = np.lib.format.read_magic(start)
    if version not in _READ_HEADER:
        raise FileError(f"`{path}`: unsupported .npy version {version}. Supported: 1.0, 2.0.")
    shape, _, dtype = _READ_HEADER[version](start)
    held, declared = n_bytes - start.tell(), math.prod(shape) * dtype.itemsize
    if held != declared and not dtype.hasobject:  # objects are listed, never read
        raise FileError(
            f"`{path}` declares an array of {declared} bytes but holds {held}: it is truncated or "
            f"damaged."
        )
    return shape, dtype


def _entry(path: Path, header: Header, load: Callable[[], Any]) -> Entry:
    shape, dtype = header

    def read() -> Content:
        if dtype.hasobject:
            raise FileError(
                f"`{path}` holds pickled Python objects, which are never loaded because they can "
                f"run code. Save plain numbers, for example with "
                f"`numpy.save(file, array.astype(float))`."
            )
        guard.check_size(path, shape, dtype)
        values = load()
        return Content(values if dtype.kind in "US" else guard.as_numbers(path, values))

    # Objects count as numeric, so that the user gets the error above and not another array.
    is_numeric = dtype.kind in "fiubc" or dtype.hasobject
    return Entry(shape, is_numeric, read, is_text=dtype.kind in "US")


def _load_member(path: Path, name: str) -> Any:
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _sparse_format(path: Path, headers: dict[str, Header]) -> str | None:
    """Return the format of the sparse matrix in the archive, or None; CSR is the default."""
    kind = "csr"
    if "format" in headers:
        shape, dtype = headers["format"]
        if dtype.kind not in "US" or math.prod(shape) * dtype.itemsize > _LONGEST_WORD:
            return None
        word = _load_member(path, "format").item()
        kind = word.decode("ascii", "replace") if isinstance(word, bytes) else str(word)
    if kind not in _SPARSE_PARTS:
        raise FileError(
            f"`{path}`: unsupported sparse format `{kind}`. Convert the matrix with `.tocsr()`."
        )
    if not set(_SPARSE_PARTS[kind]) <= headers.keys():
        return None
    for name in _SPARSE_PARTS[kind]:
        shape, dtype = headers[name]
        if dtype.hasobject:
            raise FileError(
                f"`{path}` holds pickled Python objects (`{name}`), which are never loaded."
            )
        guard.check_size(path, shape, dtype)
    if math.prod(headers["shape"][0]) > _MOST_LENGTHS:
        raise FileError(
            f"`{path}`: the shape of its sparse array is itself an array of shape "
            f"{headers['shape'][0]}; two numbers are expected."
        )
    return kind


def _load_sparse(path: Path, kind: str, shape: tuple[int, int]) -> Content:
    parts = [_load_member(path, name) for name in _SPARSE_PARTS[kind][:-1]]
    if kind == "coo":
        return Content(guard.coordinate_rows(path, (parts[0], parts[1], parts[2]), shape))
    if kind != "dia":
        compressed = (parts[0], parts[1], parts[2])
        return Content(guard.compressed_rows(path, compressed, shape, kind == "csr"))
    guard.check_size(path, (sum(shape),))
    offsets = guard.as_indices(path, parts[1], "offsets")
    diagonals = dia_array((guard.as_numbers(path, parts[0]), offsets), shape=shape)
    return Content(diagonals.tocsr())
