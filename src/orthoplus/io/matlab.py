"""Read MATLAB's ``.mat`` files: version 5 with SciPy, and version 7.3, which is HDF5."""

from functools import partial
from pathlib import Path

import numpy as np
from scipy.io import loadmat, whosmat
from scipy.sparse import csc_array, issparse

from orthoplus.core.errors import FileError
from orthoplus.io import guard
from orthoplus.io.content import Catalog, Content, Entry
from orthoplus.io.hdf5 import SIGNATURE, read_hdf5
from orthoplus.io.trial import NUMERIC

_HEADER_LENGTH = 128


def read_mat(path: Path) -> Catalog:
    """List the variables of the file."""
    with open(path, "rb") as file:
        head = file.read(_HEADER_LENGTH)
        file.seek(512)
        if head.startswith((SIGNATURE, b"MATLAB 7.3")) or file.read(8) == SIGNATURE:
            return read_hdf5(path, is_matlab=True)
    if len(head) < _HEADER_LENGTH or not head.startswith(b"MATLAB 5.0"):
        raise FileError(
            f"`{path}` is not a MATLAB file of version 5 or 7.3: it is truncated or of another "
            f"type. In MATLAB, save it again with `save -v7`."
        )
    failures = guard.read_on_trial(path, "mat")
    return {
        name: Entry(shape, kind in NUMERIC, partial(_load, path, (name, shape, kind), failures))
        for name, shape, kind in whosmat(path)
    }


def _load(
    path: Path, listed: tuple[str, tuple[int, ...], str], failures: dict[str, str]
) -> Content:
    name, shape, kind = listed
    guard.refuse_failed(path, failures, name)
    if kind not in ("sparse", "logical"):  # the file does not declare the size of these
        guard.check_size(path, shape)
    # With `mat_dtype`, SciPy would silently discard the imaginary part of complex numbers.
    values = loadmat(path, variable_names=[name], spmatrix=False)[name]
    if not issparse(values):
        guard.check_size(path, shape)
        numbers = guard.as_numbers(path, values)
        return Content(np.ascontiguousarray(numbers, np.float32 if kind == "single" else None))
    by_column = csc_array(values)
    parts = (by_column.data, by_column.indices, by_column.indptr)
    return Content(guard.compressed_rows(path, parts, by_column.shape, by_row=False))
