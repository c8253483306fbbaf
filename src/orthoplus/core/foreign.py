"""Recognize objects of other libraries that are not matrices, and say what to pass instead.

Objects are recognized by the names of their class and library, so that no library is imported.
"""

from collections import Counter
from os import PathLike
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from orthoplus.core.errors import InputTypeError

# (library, class) -> description, and the expression that gives a matrix; {0} is the argument name.
_ADVICE = {
    ("anndata", "AnnData"): (
        "an AnnData object",
        "Pass `{0}.X`, or call `orthoplus.singlecell.onmf({0}, n_components)`",
    ),
    ("mudata", "MuData"): ("a MuData object", 'Pass one modality, such as `{0}["rna"].X`'),
    ("networkx", "Graph"): (
        "a NetworkX graph",
        "Pass its matrix, `networkx.to_scipy_sparse_array({0})`",
    ),
    ("igraph", "GraphBase"): ("an igraph graph", "Pass its matrix, `{0}.get_adjacency_sparse()`"),
    ("polars", "LazyFrame"): ("a polars LazyFrame", "Pass `{0}.collect()`"),
    ("xarray", "Dataset"): (
        "an xarray Dataset of several variables",
        'Pass one of them, such as `{0}["name"]`',
    ),
    ("xarray", "DataTree"): (
        "an xarray DataTree of several variables",
        'Pass one of them, such as `{0}["name"]`',
    ),
    ("nibabel", "SpatialImage"): (
        "a nibabel image",
        "Pass voxels by subjects, `{0}.get_fdata().reshape(-1, n_subjects)`, or call "
        "`orthoplus.brain.Parcellation(n_parcels).fit({0})`",
    ),
    ("scipy", "LinearOperator"): (
        "a LinearOperator, whose entries are unknown",
        "Pass its matrix, `{0} @ numpy.eye({0}.shape[1])`, or solve `orthoplus.problems.ONMF({0}, "
        "k)`",
    ),
    ("torch", "Tensor"): (
        "a PyTorch tensor with a gradient or on another device",
        "Pass `{0}.detach().cpu().numpy()`",
    ),
}
_ARRAY = "Pass an array, such as a NumPy array"
_TEXT = "Count its words first: `CountVectorizer().fit_transform({0})` of scikit-learn"
_RAGGED = "Pass rows of equal length, with NaN for missing entries"


def check_not_foreign(value: Any, name: str, needed: str = "a matrix of numbers") -> None:
    """Raise if ``value`` does not consist of numbers, and say what to pass instead.

    Arrays, sparse matrices, tables of numbers and nested lists pass. Shape, dtype and range are
    checked elsewhere. Data that are not in memory are not read.

    Examples
    --------
    >>> check_not_foreign([[1.0, 2.0]], "X")
    >>> check_not_foreign(["two words", "three more words"], "X")
    Traceback (most recent call last):
    orthoplus.InputTypeError: `X` is a list of texts: a matrix of numbers is needed. Count ...
    """
    found = _describe_object(value) or _describe_content(value)
    if found is not None:
        kind, advice = found
        raise InputTypeError(f"`{name}` is {kind}: {needed} is needed. {advice.format(name)}.")


def check_names(value: Any, name: str) -> None:
    """Raise if two columns of a table have the same name, which scikit-learn cannot store."""
    if not _is_table(value):
        return
    is_arrow = type(value).__module__.partition(".")[0] == "pyarrow"
    counts = Counter(value.schema.names if is_arrow else value.columns)
    repeated = next((found for found, count in counts.items() if count > 1), None)
    if repeated is not None:
        raise InputTypeError(
            f"`{name}` is a table with {counts[repeated]} columns called {repeated!r}: different "
            f"names are needed. Rename them."
        )


def as_label_array(value: Any, name: str) -> npt.NDArray[Any]:
    """Return labels as an array of integers, floats or strings; raise if they are not labels.

    Examples
    --------
    >>> as_label_array(["b", "a", 3], "labels")
    array(['b', 'a', '3'], dtype=...)
    >>> as_label_array({"a": 1}, "labels")
    Traceback (most recent call last):
    orthoplus.InputTypeError: `labels` is an object of type dict: one label per row is needed. ...
    """
    found = _describe_object(value)
    if np.ma.isMaskedArray(value) and np.ma.getmaskarray(value).any():
        found = "a masked array with masked entries", ""
    if found is None:
        labels = np.asarray(value) if isinstance(value, np.ndarray) else array_or_none(value)
        if labels is not None and labels.dtype.kind == "O" and labels.ndim == 1:
            is_label = all(isinstance(label, (str, int, float, np.generic)) for label in labels)
            labels = labels.astype(str) if is_label else None
        if labels is not None and labels.ndim > 0 and labels.dtype.kind in "fiubU":
            return labels
        found = f"an object of type {type(value).__name__}", ""
    raise InputTypeError(
        f"`{name}` is {found[0]}: one label per row is needed. Pass an array of integers or "
        f"strings."
    )


def as_numbers(value: Any) -> Any:
    """Return objects as float64, with NaN for missing entries; other values are unchanged.

    A pandas table with columns of objects, or with sparse columns whose fill value is not 0, is
    converted to a table of float64. The value has passed `check_not_foreign`.

    Examples
    --------
    >>> as_numbers(np.array([1, None, "2.5"], dtype=object))
    array([1. , nan, 2.5])
    """
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        numbers = [np.nan if _is_missing(entry) else entry for entry in value.ravel()]
        return np.array(numbers, dtype=np.float64).reshape(value.shape)
    if not (_is_table(value) and hasattr(value, "dtypes") and hasattr(value, "index")):
        return value
    if all(dtype.kind != "O" and not getattr(dtype, "fill_value", 0) for dtype in value.dtypes):
        return value
    entries = as_numbers(value.to_numpy(dtype=object))
    return type(value)(entries, index=value.index, columns=value.columns)


def _describe_object(value: Any) -> tuple[str, str] | None:
    """Return a description and the advice for an object that is never data, else None."""
    for kind in type(value).__mro__:
        found = _ADVICE.get((kind.__module__.partition(".")[0], kind.__name__))
        if found is not None:
            return None if _is_plain_tensor(value) else found
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        advice = (
            "Leave out their rows, fill them with `{0}.filled(0.0)` or, for a model with "
            '`missing="mask"`, with `{0}.filled(numpy.nan)`'
        )
        return f"an array with {int(np.ma.getmaskarray(value).sum())} masked entries", advice
    if isinstance(value, (str, bytes, PathLike)):
        advice = "Read the file first, for example with `pandas.read_csv({0})` or `numpy.load({0})`"
        return "a text" if isinstance(value, (str, bytes)) else "a path", advice
    if isinstance(value, (type, ModuleType)):
        return f"an object of type {type(value).__name__}", _ARRAY
    return None


def _describe_content(value: Any) -> tuple[str, str] | None:
    """Return a description and the advice if the entries are not numbers, else None."""
    if _is_list_of_texts(value):
        return f"a {type(value).__name__} of texts", _TEXT
    if _is_ragged(value):
        return f"a {type(value).__name__} of rows of unequal lengths", _RAGGED
    if _is_table(value):
        return _describe_table(value)
    dtype = getattr(value, "dtype", None)
    is_in_memory = not hasattr(value, "chunks") or type(value).__module__.startswith("xarray")
    if isinstance(dtype, np.dtype) and (dtype.kind in "fiubc" or not is_in_memory):
        return None
    array = array_or_none(value)
    if array is None or (array.ndim == 0 and array.dtype.kind not in "fiub"):
        # A tensor of PyTorch that is sparse, or in a dtype that NumPy does not have.
        is_tensor = hasattr(value, "to_dense") and hasattr(value, "float")
        advice = "Pass `{0}.to_dense().float().numpy()`" if is_tensor else _ARRAY
        return f"an object of type {type(value).__name__}", advice
    return _describe_entries(array)


def array_or_none(value: Any) -> npt.NDArray[Any] | None:
    """Return the object as a NumPy array, or None if that fails for any reason."""
    try:
        return np.asarray(value)
    except Exception:  # objects of other libraries raise what they like
        return None


def _describe_entries(array: npt.NDArray[Any]) -> tuple[str, str] | None:
    """Return a description and the advice for entries that are not numbers, else None."""
    if array.dtype.names:
        advice = "Pass `numpy.lib.recfunctions.structured_to_unstructured({0})`"
        return f"a structured array with fields {', '.join(array.dtype.names[:3])}", advice
    if array.dtype.kind in "MmV":
        return f"an array of dtype {array.dtype}", _ARRAY
    if array.dtype.kind in "OUST":
        for place, entry in np.ndenumerate(array):
            if _is_too_large(entry):
                where = f"at {place}"
                return f"an array with an integer that no float64 can hold ({where})", "Rescale it"
            if not _is_number(entry):
                kind = type(entry).__name__
                shown = repr(str(entry)[:20]) if isinstance(entry, str) else f"of type {kind}"
                # The words "argument must be ... string ... number" are those of scikit-learn.
                return (
                    f"an array with an entry that is not a number ({shown} at {place})",
                    "Each entry of the argument must be a number, or a string of a number",
                )
    return None


def _is_too_large(entry: Any) -> bool:
    try:
        return isinstance(entry, int) and np.isinf(float(entry))
    except OverflowError:
        return True


def _is_number(entry: Any) -> bool:
    """Return whether an entry is a real number, a string of one, or missing."""
    if _is_missing(entry):
        return True
    try:
        float(entry)
    except Exception:  # any object may be in there
        return False
    return True


def _is_missing(entry: Any) -> bool:
    return entry is None or type(entry).__name__ == "NAType"


def _is_plain_tensor(value: Any) -> bool:
    """Return whether this is a tensor, and one that need not be detached or moved."""
    if type(value).__module__.partition(".")[0] != "torch":
        return False
    device = getattr(getattr(value, "device", None), "type", "cpu")
    return not getattr(value, "requires_grad", False) and device == "cpu"


def _is_list_of_texts(value: Any) -> bool:
    """Return whether this is one-dimensional and its first element is a string."""
    if getattr(value, "ndim", 1) != 1 or hasattr(value, "columns"):
        return False
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind in "US" or (value.size and isinstance(value[0], str)))
    if hasattr(value, "to_numpy") and hasattr(value, "dtype"):  # a Series
        return _is_list_of_texts(value.to_numpy())
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], str)


def _is_ragged(value: Any) -> bool:
    """Return whether this is a list of rows that do not form a rectangle."""
    if not isinstance(value, (list, tuple)):
        return False
    rows = (list, tuple, np.ndarray)
    lengths = {len(row) if isinstance(row, rows) and _has_length(row) else -1 for row in value}
    return len(lengths) > 1 or any(_is_ragged(row) for row in value)


def _has_length(row: Any) -> bool:
    return not isinstance(row, np.ndarray) or row.ndim > 0


def _is_table(value: Any) -> bool:
    """Return whether this is a pandas, polars or pyarrow table."""
    library = type(value).__module__.partition(".")[0]
    return library in ("pandas", "polars", "pyarrow") and hasattr(value, "columns")


def _describe_table(value: Any) -> tuple[str, str] | None:
    """Return a description and the advice for a table with other columns than numbers."""
    if len(value.columns) == 0:
        return "a table without columns", "Pass a table with columns of numbers"
    names = _other_columns(value)
    if not names:
        return None
    shown = ", ".join([repr(name) for name in names[:3]] + ["..."] * (len(names) > 3))
    which = f"Leave them out: `{_selection(value)}`"
    return f"a table with columns that are not numbers ({shown})", which


def _other_columns(value: Any) -> list[Any]:
    """Return the names of the columns of a table that are not numbers."""
    library = type(value).__module__.partition(".")[0]
    if library == "polars":
        schema = value.schema.items()
        return [n for n, dtype in schema if not (dtype.is_numeric() or str(dtype) == "Boolean")]
    if library == "pyarrow":
        words = ("int", "uint", "float", "double", "half", "decimal", "bool", "null")
        return [field.name for field in value.schema if not str(field.type).startswith(words)]
    kinds = [dtype.kind for dtype in value.dtypes]
    # Columns of dtype object may hold numbers and missing values, so look at the cells.
    return [
        name
        for i, (name, kind) in enumerate(zip(value.columns, kinds, strict=True))
        if not (kind in "fiub" or (kind == "O" and value.iloc[:, i].map(_is_plain_number).all()))
    ]


def _is_plain_number(cell: Any) -> bool:
    return not isinstance(cell, (str, bytes)) and _is_number(cell)


def _selection(value: Any) -> str:
    """Return the expression that selects the numeric columns of a table."""
    library = type(value).__module__.partition(".")[0]
    return {
        "pandas": '{0}.select_dtypes("number")',
        "polars": "{0}.select(polars.selectors.numeric())",
    }.get(library, "{0}.select([...])")
