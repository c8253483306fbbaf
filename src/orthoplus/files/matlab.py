"""MATLAB's ``.mat``: version 5 through SciPy, version 7.3, which is HDF5, through h5py."""

import struct
import zlib
from functools import partial
from pathlib import Path

from scipy.io import loadmat, whosmat
from scipy.sparse import issparse

from orthoplus.files.content import (
    Catalogue,
    Content,
    Entry,
    FileError,
    as_numbers,
    byte_count,
    check_bytes,
    compressed_rows,
)
from orthoplus.files.hdf5 import SIGNATURE, read_matlab_hdf5

_HEADER_LENGTH = 128
_TAG_LENGTH = 8
_COMPRESSED, _MATRIX = 15, 14  # data types of version 5
_ITEM_SIZES = {
    "double": 8, "single": 4, "logical": 1, "sparse": 1,
    "int8": 1, "uint8": 1, "int16": 2, "uint16": 2,
    "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
}  # fmt: skip


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
    check_bytes(path, _declared_bytes(path, order))
    return {
        name: Entry(tuple(map(int, shape)), kind in _ITEM_SIZES, partial(_load, path, name, kind))
        for name, shape, kind in whosmat(path)
    }


def _declared_bytes(path: Path, order: str) -> int:
    """What all variables take, expanded; of a compressed one only the first bytes are read."""
    length, total = path.stat().st_size, 0
    with open(path, "rb") as file:
        position = _HEADER_LENGTH
        while position < length:
            file.seek(position)
            tag = file.read(_TAG_LENGTH)
            if len(tag) < _TAG_LENGTH:
                raise FileError(f"`{path}` ends inside a variable: it is truncated.")
            kind, size = struct.unpack(order + "II", tag)
            if kind not in (_COMPRESSED, _MATRIX) or position + _TAG_LENGTH + size > length:
                raise FileError(f"`{path}` is truncated or damaged at byte {position}.")
            total += size
            if kind == _COMPRESSED:
                inner = zlib.decompressobj().decompress(file.read(min(size, 256)), _TAG_LENGTH)
                if len(inner) < _TAG_LENGTH:
                    raise FileError(f"`{path}` is truncated or damaged at byte {position}.")
                total += struct.unpack(order + "II", inner)[1] - size
            position += _TAG_LENGTH + size
    return total


def _load(path: Path, name: str, kind: str) -> Content:
    values = loadmat(path, variable_names=[name], spmatrix=False)[name]
    if not issparse(values):
        check_bytes(path, byte_count(values.shape, _ITEM_SIZES[kind]))
        return Content(as_numbers(path, values))
    values = values.tocsc(copy=False)
    parts = (values.data, values.indices, values.indptr)
    return Content(compressed_rows(path, parts, values.shape, by_row=False))
