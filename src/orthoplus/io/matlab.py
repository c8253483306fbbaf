"""MATLAB's ``.mat``: version 5, read here, and version 7.3, which is HDF5.

Version 5 is a chain of elements: a tag (type, bytes) and the data, padded to eight bytes; a
variable is an element of elements, often compressed. SciPy's compiled reader crashes on some
damaged files, and numbers, dense and sparse, are all that is needed.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.io.content import (
    Catalogue,
    Content,
    Entry,
    FileError,
    byte_count,
    check_bytes,
    compressed_rows,
)
from orthoplus.io.hdf5 import SIGNATURE, read_matlab_hdf5

_HEADER_LENGTH, _TAG_LENGTH = 128, 8
_MATRIX, _COMPRESSED = 14, 15
_TYPES = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_SPARSE = 5
# MATLAB's classes of numbers; a file may store them in a smaller type.
_CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
_COMPLEX_FLAG = 0x800
# Flags, dimensions and name of a variable stand in its first bytes.
_HEAD_LENGTH = 4096


@dataclass(frozen=True)
class Variable:
    """Where a variable is in the file, and what its head says."""

    position: int
    n_stored: int
    n_bytes: int
    is_compressed: bool
    order: str
    array_class: int
    is_complex: bool
    shape: tuple[int, ...]
    name: str


def read_mat(path: Path) -> Catalogue:
    """The numeric variables of the file, dense and sparse."""
    with open(path, "rb") as file:
        head = file.read(_HEADER_LENGTH)
        file.seek(512)
        if head.startswith((SIGNATURE, b"MATLAB 7.3")) or file.read(8) == SIGNATURE:
            return read_matlab_hdf5(path)
    if len(head) < _HEADER_LENGTH or not head.startswith(b"MATLAB 5.0"):
        raise FileError(
            f"`{path}` is no MATLAB file of version 5 or 7.3: it is truncated, or of another type. "
            f"In MATLAB, write it again with `save -v7`."
        )
    order = {b"IM": "<", b"MI": ">"}.get(head[126:128])
    if order is None:
        raise FileError(f"`{path}` has a damaged MATLAB header: the byte order is not said.")
    return {
        variable.name: Entry(
            variable.shape,
            variable.array_class == _SPARSE or variable.array_class in _CLASSES,
            partial(_load, path, variable),
        )
        for variable in _variables(path, order)
        if variable.name
    }


def _variables(path: Path, order: str) -> Iterator[Variable]:
    """The variables in their order; of each only the head is read and expanded."""
    length, position = path.stat().st_size, _HEADER_LENGTH
    with open(path, "rb") as file:
        while position < length:
            file.seek(position)
            kind, size = _tag(path, file.read(_TAG_LENGTH), order)
            start = position + _TAG_LENGTH
            if kind not in (_MATRIX, _COMPRESSED) or start + size > length:
                raise _damaged(path, position)
            raw, n_bytes = file.read(min(size, _HEAD_LENGTH)), size
            is_compressed = kind == _COMPRESSED
            if is_compressed:
                raw = zlib.decompressobj().decompress(raw, _HEAD_LENGTH)
                kind, n_bytes = _tag(path, raw[:_TAG_LENGTH], order)
                raw = raw[_TAG_LENGTH:]
                if kind != _MATRIX:
                    raise _damaged(path, position)
            yield _describe(path, raw, (start, size, n_bytes, is_compressed, order))
            position = start + size


def _describe(path: Path, raw: bytes, where: tuple[int, int, int, bool, str]) -> Variable:
    """Flags, dimensions and name, from the first bytes of a variable."""
    elements = _elements(raw, where[-1])
    flags, shape, name = (next(elements, None) for _ in range(3))
    if flags is None or shape is None or name is None or len(flags) < 1 or len(shape) < 2:
        raise _damaged(path, where[0])
    if shape.dtype.kind != "i" or shape.min() < 0 or flags.dtype.kind != "u":
        raise _damaged(path, where[0])
    word = int(flags[0])
    text = name.tobytes().decode("latin-1")
    lengths = tuple(int(n) for n in shape)
    return Variable(*where, word & 0xFF, bool(word & _COMPLEX_FLAG), lengths, text)


def _elements(raw: bytes, order: str) -> Iterator[Any]:
    """The arrays one after another; it ends at one that is no array or goes beyond the bytes."""
    position = 0
    while position + _TAG_LENGTH <= len(raw):
        kind, size = struct.unpack_from(order + "II", raw, position)
        start = position + _TAG_LENGTH
        is_small = kind >> 16 != 0  # up to four bytes stand inside the tag
        if is_small:
            kind, size, start = kind & 0xFFFF, kind >> 16, position + 4
        if kind not in _TYPES or start + size > len(raw) or (is_small and size > 4):
            return
        dtype = np.dtype(order + _TYPES[kind])
        if size % dtype.itemsize:
            return
        yield np.frombuffer(raw, dtype, size // dtype.itemsize, start)
        position = start + (4 if is_small else size + -size % 8)


def _load(path: Path, variable: Variable) -> Content:
    if variable.is_complex:
        raise FileError(f"`{path}`: `{variable.name}` is complex: real numbers are needed.")
    check_bytes(path, variable.n_bytes)
    is_sparse = variable.array_class == _SPARSE
    check_bytes(path, 0 if is_sparse else byte_count(variable.shape, 8))
    parts = list(_elements(_raw(path, variable), variable.order))[3:]
    if is_sparse:
        return _sparse(path, variable, parts)
    if not parts or len(parts[0]) != byte_count(variable.shape, 1):
        raise _damaged(path, variable.position)
    dtype = np.float32 if _CLASSES[variable.array_class] == "f4" else np.float64
    values = parts[0].astype(dtype).reshape(variable.shape, order="F")
    return Content(np.ascontiguousarray(values))


def _sparse(path: Path, variable: Variable, parts: list[Any]) -> Content:
    """From row indices, column pointers and values."""
    if len(parts) < 3 or len(variable.shape) != 2:
        raise _damaged(path, variable.position)
    rows, pointers, data = parts[:3]
    n_entries = int(pointers[-1]) if len(pointers) and pointers.dtype.kind in "iu" else -1
    if not 0 <= n_entries <= min(len(rows), len(data)):  # room beyond the entries is allowed
        raise _damaged(path, variable.position)
    kept = (data[:n_entries].astype(np.float64), rows[:n_entries], pointers)
    shape = (variable.shape[0], variable.shape[1])
    return Content(compressed_rows(path, kept, shape, by_row=False))


def _raw(path: Path, variable: Variable) -> bytes:
    """The bytes of a variable, expanded to no more than its head declared."""
    with open(path, "rb") as file:
        file.seek(variable.position)
        raw = file.read(variable.n_stored)
    if not variable.is_compressed:
        return raw
    expanded = zlib.decompressobj().decompress(raw, _TAG_LENGTH + variable.n_bytes)
    return expanded[_TAG_LENGTH:]


def _tag(path: Path, raw: bytes, order: str) -> tuple[int, int]:
    if len(raw) < _TAG_LENGTH:
        raise FileError(f"`{path}` ends inside a variable: it is truncated.")
    kind, size = struct.unpack(order + "II", raw)
    return kind, size


def _damaged(path: Path, position: int) -> FileError:
    return FileError(f"`{path}` is truncated or damaged at byte {position}.")
