"""Read a file once and discard the data; run as a script in a process that may be killed.

The compiled readers of HDF5, MATLAB, Matrix Market, Parquet and TIFF files crash on some damaged
files, hang on others, and may exhaust the memory. This script imports nothing from the package, so
that it starts fast. It prints, as JSON, why parts of the file cannot be read, by key; the key ""
stands for the whole file.
"""

import json
import math
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

MOST_OBJECTS, MOST_DEPTH, MOST_IN_ATTRIBUTE = 10_000, 32, 64
# Attributes of the CF conventions: gaps, packing into integers, valid range, sign, and codes; and
# other names for the packing.
FILLS, PACKING = ("_FillValue", "missing_value"), ("scale_factor", "add_offset")
VALID, UNSIGNED = ("valid_range", "valid_min", "valid_max"), ("_Unsigned",)
FLAGS = ("flag_meanings", "flag_values", "flag_masks")
OTHER_PACKING = ("ScaleFactor", "Scale", "scale", "SCALE", "Slope", "slope", "Offset", "offset",
                 "OFFSET", "Intercept", "intercept")  # fmt: skip
# Attributes of HDF5 objects that determine how they are read.
ATTRIBUTES = (
    "shape",
    "h5sparse_shape",
    "h5sparse_format",
    "encoding-type",
    "MATLAB_sparse",
    "MATLAB_class",
    "_index",
    *(*FILLS, *PACKING, *VALID, *UNSIGNED, *OTHER_PACKING),
)
# Memory for the buffers of the readers, beyond that of the largest array.
_BUFFERS = 1 << 28
NUMERIC = {"double", "single", "logical", "sparse"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def follow(group: Any, key: str) -> Any:
    """Return the object that hard links lead to from an HDF5 group, or None.

    Soft and external links may leave the file and are not followed.
    """
    import h5py

    item = group
    for name in key.split("/"):
        is_group = isinstance(item, h5py.Group)
        if not is_group or not isinstance(item.get(name, getlink=True), h5py.HardLink):
            return None
        item = item[name]
    return item


def attribute(item: Any, name: str) -> Any:
    """Return an attribute of an HDF5 object; None if it is missing or not small.

    The size is checked first because HDF5 reads an attribute completely, even one of many
    megabytes.
    """
    if name not in item.attrs:
        return None
    if math.prod(item.attrs.get_id(name).shape or ()) > MOST_IN_ATTRIBUTE:
        return None
    return item.attrs[name]


def walk(file: Any) -> Iterator[tuple[str, Any]]:
    """Yield all objects of an HDF5 file with their keys, following hard links but no cycles."""
    import h5py

    root = file["/"]
    pending: list[tuple[str, Any, tuple[Any, ...]]] = [("", root, (root.id,))]
    count = 0
    while pending:
        prefix, group, above = pending.pop(0)
        for name in group:
            count += 1
            if count > MOST_OBJECTS or len(above) > MOST_DEPTH:
                raise OverflowError(f"more than {MOST_OBJECTS} objects or {MOST_DEPTH} levels")
            item = follow(group, name)
            if item is None:
                continue
            yield f"{prefix}{name}", item
            # MATLAB uses groups whose names start with `#` internally.
            is_group = isinstance(item, h5py.Group) and not name.startswith("#")
            if is_group and item.id not in above:  # ids are equal for the same object
                pending.append((f"{prefix}{name}/", item, (*above, item.id)))


def try_hdf5(path: str, most_bytes: int) -> dict[str, str]:
    """Read the attributes and all data sets whose declared size is within the limit."""
    import h5py

    failures = {}
    with h5py.File(path, "r") as file:
        limit_memory(most_bytes)
        for key, item in walk(file):
            for name in ATTRIBUTES:
                attribute(item, name)
            if not isinstance(item, h5py.Dataset) or item.is_virtual or item.external:
                continue
            try:
                if item.nbytes > most_bytes:
                    continue
                values = item[()]
                is_text = h5py.check_string_dtype(item.dtype) is not None and item.shape
                # Words of any length, several of which may be the same one in the file.
                if is_text and sum(map(len, values.ravel())) > most_bytes:
                    raise MemoryError
            except Exception as error:
                failures[key] = reason(error)
    return failures


def try_mat(path: str, most_bytes: int) -> dict[str, str]:
    """Read all numeric variables at once or, if that fails, one by one."""
    from scipy.io import loadmat, whosmat

    limit_memory(most_bytes)
    # The file does not declare the size of a sparse matrix; only the memory limit applies.
    sizes = {
        name: 0 if kind in ("sparse", "logical") else 8 * math.prod(shape)
        for name, shape, kind in whosmat(path)
        if kind in NUMERIC
    }
    names = [name for name, size in sizes.items() if size <= most_bytes]
    if sum(sizes[name] for name in names) <= most_bytes:
        with suppress(Exception):
            loadmat(path, variable_names=names)
            return {}
    failures = {}
    for name in names:
        try:
            loadmat(path, variable_names=[name])
        except Exception as error:
            failures[name] = reason(error)
    return failures


def try_matrix_market(path: str, most_bytes: int) -> dict[str, str]:
    """Read the matrix."""
    from scipy.io import mmread

    limit_memory(most_bytes)
    mmread(path, spmatrix=False)
    return {}


def try_parquet(path: str, most_bytes: int) -> dict[str, str]:
    """Read the table, if what it declares is not too large."""
    from pyarrow.parquet import ParquetFile

    limit_memory(most_bytes)
    file = ParquetFile(path)
    about = file.metadata
    stored = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    n_bytes = max(stored, 8 * about.num_rows * about.num_columns)
    if n_bytes <= most_bytes:
        n_bytes = file.read().nbytes  # equal words may be stored once
    too_many = f"it declares {n_bytes} bytes, {most_bytes} are allowed"
    return {"": too_many} if n_bytes > most_bytes else {}


def try_geotiff(path: str, most_bytes: int) -> dict[str, str]:
    """Read the image, a block of its lines at a time."""
    import os
    import warnings

    import rasterio

    warnings.simplefilter("ignore")  # rasterio warns about images without a georeference
    limit_memory(most_bytes)
    with rasterio.open(os.path.abspath(path), driver="GTiff", sharing=False) as dataset:
        line = 16 * dataset.width * dataset.count  # bytes per line of the largest type, complex
        lines = max(1, min(most_bytes, 1 << 25) // line)
        for first in range(0, dataset.height, lines):
            height = min(lines, dataset.height - first)
            dataset.read(window=((first, first + height), (0, dataset.width)))
    return {}


TRIALS = {
    "hdf5": try_hdf5,
    "mat": try_mat,
    "mtx": try_matrix_market,
    "parquet": try_parquet,
    "geotiff": try_geotiff,
}


def limit_memory(n_bytes: int) -> None:
    """Limit the memory that this process may allocate in addition, if the system supports that."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + n_bytes + _BUFFERS, resource.RLIM_INFINITY))
    except (ImportError, OSError, ValueError):
        return


def reason(error: Exception) -> str:
    """Return the message of an error on one line."""
    if isinstance(error, MemoryError) or "memory allocation failed" in str(error):
        return "it exceeds the memory limit"
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__


def limit_time(seconds: int) -> None:
    """Limit the CPU time of this process, if the system supports that."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    except (ImportError, OSError, ValueError):
        return


if __name__ == "__main__":
    limit_time(int(sys.argv[4]))
    try:
        found = TRIALS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    except Exception as error:
        found = {"": reason(error)}
    sys.stdout.write(json.dumps(found))
