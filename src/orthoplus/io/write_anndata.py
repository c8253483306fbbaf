"""Write results to an AnnData file (``.h5ad``) with h5py, in AnnData's documented format.

Every element has the attributes ``encoding-type`` and ``encoding-version``, as in AnnData 0.8 and
later.
"""

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.extras import require
from orthoplus.core.types import IntArray
from orthoplus.io.trial import attribute, follow

_ARRAY, _DICT = ("array", "0.2.0"), ("dict", "0.1.0")
_CATEGORICAL, _WORDS = ("categorical", "0.2.0"), ("string-array", "0.2.0")
_WORD, _NUMBER = ("string", "0.2.0"), ("numeric-scalar", "0.2.0")


class Categories(NamedTuple):
    """A categorical column: the class number of each row, -1 for none, and the class names."""

    codes: IntArray
    names: Sequence[str]


class Results(NamedTuple):
    """The elements to add: columns of ``obs``, arrays of ``obsm`` and ``varm``, and ``uns``."""

    obs: Mapping[str, Any]
    obsm: Mapping[str, Any]
    varm: Mapping[str, Any]
    uns: Mapping[str, Any]


def check_anndata(path: Path, shape: tuple[int, int]) -> None:
    """Raise `FileError` unless results for a matrix of this shape can be added to the file."""
    if path.suffix.lower() != ".h5ad":
        raise FileError(f"`--write-back` requires an .h5ad file; `{path}` is of another type.")
    h5py = require("h5py", "Writing .h5ad files", extra="hdf5")
    if not os.access(path.resolve().parent, os.W_OK):
        raise FileError(f"`--write-back`: the folder of `{path}` is not writable.")
    with h5py.File(path, "r") as file:
        for name, length in zip(("obs", "var"), shape, strict=True):
            frame = follow(file, name)
            key = attribute(frame, "_index") if isinstance(frame, h5py.Group) else None
            index = None if key is None else follow(frame, str(key))
            if not isinstance(index, h5py.Dataset):
                raise FileError(
                    f"`--write-back`: `{name}` of `{path}` is not in the format of AnnData 0.7 and "
                    f"later. Open the file with anndata and save it again."
                )
            if index.shape != (length,):
                raise FileError(
                    f"`--write-back`: `{path}` has {(index.shape or (0,))[0]} rows in "
                    f"`{name}`, but the matrix that was clustered has {length}."
                )


def _own_group(file: Any, name: str) -> Any:
    """Return a group of this file; a link to another file or place is replaced by a new group."""
    import h5py

    if not isinstance(follow(file, name), h5py.Group):
        _write(file, name, {})
    return file[name]


def write_back(path: Path, results: Results) -> None:
    """Add results to the file, replacing elements with the same names.

    A copy is modified and then renamed, so that an interruption cannot damage the file.
    """
    h5py = require("h5py", "Writing .h5ad files", extra="hdf5")
    target = path.resolve()  # replace the file that a link points to, not the link
    aside = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        shutil.copyfile(target, aside)
        with suppress(OSError):  # the file may belong to another user
            shutil.copystat(target, aside)
        with h5py.File(aside, "r+") as file:
            for name, value in results.obs.items():
                _write_column(_own_group(file, "obs"), name, value)
            for group in ("obsm", "varm", "uns"):
                for name, value in getattr(results, group).items():
                    _write(_own_group(file, group), name, value)
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)


def _write_column(frame: Any, name: str, value: Any) -> None:
    """Write a column of a data frame and add it to the column order."""
    _write(frame, name, value)
    order = [str(column) for column in np.atleast_1d(frame.attrs.get("column-order", ()))]
    if name not in order:
        words = np.array([*order, name], dtype=object)
        frame.attrs.create("column-order", words, dtype=_text_type())


def _text_type() -> Any:
    import h5py

    return h5py.string_dtype()


def _write(group: Any, name: str, value: Any) -> None:
    """Write an element in place of an existing one or of a link, which is never followed."""
    if group.get(name, getlink=True) is not None:
        del group[name]
    if isinstance(value, Categories):
        made = _mark(group.create_group(name), _CATEGORICAL)
        made.attrs["ordered"] = False
        _write(made, "codes", value.codes)
        _write(made, "categories", list(value.names))
    elif isinstance(value, Mapping):
        made = _mark(group.create_group(name), _DICT)
        for key, item in value.items():
            _write(made, str(key), item)
    elif isinstance(value, np.ndarray):
        _mark(group.create_dataset(name, data=value), _ARRAY)
    elif isinstance(value, (list, tuple)):
        words = np.array([str(word) for word in value], dtype=object)
        _mark(group.create_dataset(name, data=words, dtype=_text_type()), _WORDS)
    elif isinstance(value, str):
        _mark(group.create_dataset(name, data=value, dtype=_text_type()), _WORD)
    else:
        _mark(group.create_dataset(name, data=value), _NUMBER)


def _mark(element: Any, encoding: tuple[str, str]) -> Any:
    element.attrs["encoding-type"], element.attrs["encoding-version"] = encoding
    return element
