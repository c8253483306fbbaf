"""HDF5: any data set by its key, the sparse groups and names of AnnData, MATLAB's v7.3 files."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.io.content import (
    Catalogue,
    Content,
    Entry,
    FileError,
    Names,
    as_numbers,
    byte_count,
    check_bytes,
    compressed_rows,
    memory_limit,
)

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MOST_ENTRIES = 1000
# A trial reading may take this long, and as much again for every so many bytes.
_TRIAL_SECONDS, _TRIAL_BYTES = 20.0, 1 << 28
_TRIAL = Path(__file__).with_name("trial.py")


def read_hdf5(path: Path) -> Catalogue:
    """Every data set, and every group that is a sparse matrix, by its path in the file."""
    return _catalogue(path, is_matlab=False)


def read_matlab_hdf5(path: Path) -> Catalogue:
    """As `read_hdf5`, for MATLAB: it stores arrays by columns, so that axes come reversed."""
    return _catalogue(path, is_matlab=True)


def _catalogue(path: Path, *, is_matlab: bool) -> Catalogue:
    _read_on_trial(path)
    return _walk(path, is_matlab=is_matlab)


def _read_on_trial(path: Path) -> None:
    """Refuse a file on which the HDF5 library crashes or never ends, as it does on damaged ones.

    A process of its own reads it first; an error that it reports comes again in ours.
    """
    limit = _TRIAL_SECONDS * (1.0 + os.path.getsize(path) / _TRIAL_BYTES)
    words = [sys.executable, str(_TRIAL), str(path), str(memory_limit())]
    try:
        trial = subprocess.run(words, timeout=limit, capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        raise FileError(
            f"`{path}` could not be read within {limit:.0f} seconds: it is probably damaged. Open "
            f"it with h5py and save the array anew, for example as .npz."
        ) from None
    if trial.returncode < 0:
        raise FileError(f"`{path}` makes the HDF5 library crash: it is damaged.")


def _walk(path: Path, *, is_matlab: bool) -> Catalogue:
    import h5py  # loaded when used

    entries: dict[str, Entry] = {}
    with h5py.File(path, "r") as file:
        pending = [("", file)]
        while pending and len(entries) < _MOST_ENTRIES:
            prefix, group = pending.pop(0)
            for name in group:
                link = group.get(name, getlink=True)
                if not isinstance(link, h5py.HardLink):
                    continue  # a link may lead out of the file, or round in circles
                key, item = f"{prefix}{name}", group[name]
                entry = _entry(path, key, item, is_matlab)
                if entry is not None:
                    entries[key] = entry
                elif isinstance(item, h5py.Group) and not name.startswith("#"):
                    pending.append((f"{key}/", item))
    return entries


def _entry(path: Path, key: str, item: Any, is_matlab: bool) -> Entry | None:
    """What stands under this key; None for a group that is only a folder."""
    import h5py

    if isinstance(item, h5py.Dataset):
        shape = tuple(int(n) for n in item.shape or ())
        load = partial(_load_dataset, path, key, is_matlab)
        is_text = h5py.check_string_dtype(item.dtype) is not None
        is_number = item.dtype.kind in "fiub" and item.shape is not None
        return Entry(shape[::-1] if is_matlab else shape, is_number, load, is_text=is_text)
    if not isinstance(item, h5py.Group):
        return None
    if {"codes", "categories"} <= item.keys():
        return Entry(tuple(item["codes"].shape), False, partial(_load_codes, path, key), True)
    size = _sparse_shape(item)
    return None if size is None else Entry(size, True, partial(_load_sparse, path, key, size))


def _sparse_shape(group: Any) -> tuple[int, int] | None:
    """The shape of a sparse group of AnnData or of MATLAB; None where it is none."""
    if {"data", "ir", "jc"} <= group.keys() and "MATLAB_sparse" in group.attrs:
        return int(group.attrs["MATLAB_sparse"]), int(group["jc"].shape[0]) - 1
    if not {"data", "indices", "indptr"} <= group.keys():
        return None
    declared = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
    if declared is None or len(declared) != 2:
        return None
    return int(declared[0]), int(declared[1])


def _numbers(path: Path, dataset: Any) -> Any:
    """A data set in memory, after a look at its declared size; none that lies in other files."""
    if dataset.is_virtual or dataset.external:
        raise FileError(f"`{path}`: `{dataset.name}` lies in other files, which are not read.")
    n_bytes = byte_count(dataset.shape, dataset.dtype.itemsize)
    check_bytes(path, n_bytes)
    if dataset.chunks is None and n_bytes > os.path.getsize(path):
        raise FileError(
            f"`{path}`: `{dataset.name}` declares {n_bytes} bytes, more than the file has: it is "
            f"truncated or damaged."
        )
    return dataset[()]


def _load_dataset(path: Path, key: str, is_matlab: bool) -> Content:
    import h5py

    with h5py.File(path, "r") as file:
        dataset = file[key]
        if h5py.check_string_dtype(dataset.dtype) is not None:
            return Content(_texts(path, dataset))
        values = as_numbers(path, _numbers(path, dataset))
        if is_matlab:
            return Content(np.ascontiguousarray(values.T))
        return Content(values, *_anndata_names(path, file, key, values.shape))


def _load_sparse(path: Path, key: str, shape: tuple[int, int]) -> Content:
    import h5py

    with h5py.File(path, "r") as file:
        group = file[key]
        names = ("data", "ir", "jc") if "jc" in group else ("data", "indices", "indptr")
        data, indices, pointers = (_numbers(path, group[name]) for name in names)
        encoding = group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", ""))
        by_row = "jc" not in group and "csc" not in str(encoding)
        matrix = compressed_rows(path, (data, indices, pointers), shape, by_row)
        return Content(matrix, *_anndata_names(path, file, key, shape))


def _load_codes(path: Path, key: str) -> Content:
    """A categorical column of AnnData: whole numbers and what they stand for."""
    import h5py

    with h5py.File(path, "r") as file:
        codes = np.asarray(_numbers(path, file[key]["codes"]))
        words = _texts(path, file[key]["categories"])
    if codes.dtype.kind not in "iu" or (
        len(codes) and not -1 <= codes.min() <= codes.max() < len(words)
    ):
        raise FileError(f"`{path}`: `{key}` has codes without a category. The file is damaged.")
    return Content(np.append(words, "")[codes])


def _anndata_names(
    path: Path, file: Any, key: str, shape: tuple[int, ...]
) -> tuple[Names | None, Names | None]:
    """The names in ``obs`` and ``var``, where their numbers fit."""
    if len(shape) != 2 or not (key == "X" or key.startswith(("layers/", "raw/"))):
        return None, None
    return _index(path, file, "obs", shape[0]), _index(path, file, "var", shape[1])


def _index(path: Path, file: Any, name: str, length: int) -> Names | None:
    import h5py

    group = file.get(name)
    if not isinstance(group, h5py.Group):
        return None
    index = group.get(str(group.attrs.get("_index", "_index")))
    if not isinstance(index, h5py.Dataset) or index.shape != (length,):
        return None
    if h5py.check_string_dtype(index.dtype) is None:
        return None
    return tuple(str(word) for word in _texts(path, index))


def _texts(path: Path, dataset: Any) -> Any:
    if dataset.is_virtual or dataset.external:
        raise FileError(f"`{path}`: `{dataset.name}` lies in other files, which are not read.")
    check_bytes(path, byte_count(dataset.shape, dataset.dtype.itemsize))
    return np.asarray(dataset.asstr(errors="replace")[()], dtype=str).reshape(-1)
