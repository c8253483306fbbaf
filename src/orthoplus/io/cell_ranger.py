"""Read the ``.h5`` files of Cell Ranger: counts of features (genes) in cells, with their names.

The file stores features x barcodes by columns, which is cells x features by rows, as it is read.
Version 2 has one group per genome with `genes`, later versions have one group with `features`.
"""

from collections import Counter
from typing import Any

from orthoplus.core.errors import FileError
from orthoplus.io import guard
from orthoplus.io.content import Content, Names
from orthoplus.io.packed_values import refuse_packed
from orthoplus.io.trial import follow

_PARTS = ("data", "indices", "indptr")
# Where the identifiers and the names of the features are, in versions 3 and 2.
_FEATURES = (("features/id", "features/name"), ("genes", "gene_names"))


def is_cell_ranger(h5py: Any, group: Any) -> bool:
    """Return whether an HDF5 group is a matrix of Cell Ranger."""
    parts = (*_PARTS, "shape", "barcodes")
    has_parts = all(isinstance(follow(group, name), h5py.Dataset) for name in parts)
    return has_parts and _feature_keys(group) is not None


def _feature_keys(group: Any) -> tuple[str, str] | None:
    """Return the keys of the identifiers and the names of the features, or None."""
    for keys in _FEATURES:
        if all(len(getattr(follow(group, key), "shape", None) or ()) == 1 for key in keys):
            return keys
    return None


def cell_ranger_shape(group: Any) -> tuple[int, int]:
    """Return the numbers of cells and features."""
    keys = _feature_keys(group) or _FEATURES[0]
    lengths = [getattr(follow(group, key), "shape", None) or (0,) for key in ("barcodes", keys[0])]
    return int(lengths[0][0]), int(lengths[1][0])


def load_cell_ranger(source: Any, file: Any, key: str) -> Content:
    """Load the matrix with cells as rows, the barcodes, and the names of the features."""
    group, path = follow(file, key), source.path
    n_cells, n_features = shape = cell_ranger_shape(group)
    declared = guard.as_indices(path, source.dataset(group, "shape")[()], "shape").tolist()
    if declared != [n_features, n_cells]:
        raise FileError(
            f"`{path}`: `{key}` declares the shape {declared}, but has {n_features} features and "
            f"{n_cells} barcodes: it is damaged."
        )
    refuse_packed(path, source.dataset(group, "data"))
    data, indices, pointers = (source.dataset(group, name)[()] for name in _PARTS)
    values = guard.compressed_rows(path, (data, indices, pointers), shape, by_row=True)
    cells = tuple(source.texts(group, "barcodes").tolist())
    return Content(values, cells, _feature_names(source, group), _type_words(source, group))


def _feature_names(source: Any, group: Any) -> Names:
    """Return the names of the features; a name that repeats is followed by the identifier."""
    keys = _feature_keys(group) or _FEATURES[0]
    ids, names = (source.texts(group, key).tolist() for key in keys)
    if len(ids) != len(names):
        raise FileError(f"`{source.path}`: `{keys[0]}` and `{keys[1]}` differ in length.")
    counts = Counter(names)
    pairs = zip(ids, names, strict=True)
    return tuple(name if counts[name] == 1 else f"{name} ({word})" for word, name in pairs)


def _type_words(source: Any, group: Any) -> Names:
    """Return a remark if the features are of several types, such as genes and antibodies."""
    if follow(group, "features/feature_type") is None:
        return ()
    counts = Counter(source.texts(group, "features/feature_type").tolist())
    if len(counts) < 2:
        return ()
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.most_common(4))
    return (f"The features are of {len(counts)} types, clustered together: {listed}.",)
