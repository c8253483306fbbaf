"""Recognize objects of other libraries that are not matrices, and say what to pass instead.

Objects are recognized by the names of their class and library, so that no library is imported.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

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
_TEXT = "Count its words first: `CountVectorizer().fit_transform({0})` of scikit-learn"
_RAGGED = "Pass rows of equal length, with NaN for missing entries"


def check_not_foreign(value: Any, name: str) -> None:
    """Raise if ``value`` is a known object that is not a matrix, and say what to pass instead.

    Arrays, sparse matrices, tables of numbers and nested lists pass. Shape, dtype and entries are
    checked elsewhere.

    Examples
    --------
    >>> check_not_foreign([[1.0, 2.0]], "X")
    >>> check_not_foreign(["two words", "three more words"], "X")
    Traceback (most recent call last):
    orthoplus.InputTypeError: `X` is a list of texts: a matrix of numbers is needed. Count ...
    """
    found = _describe_foreign(value)
    if found is not None:
        kind, advice = found
        raise InputTypeError(
            f"`{name}` is {kind}: a matrix of numbers is needed. {advice.format(name)}."
        )


def _describe_foreign(value: Any) -> tuple[str, str] | None:
    """Return a description of the object and the advice, or None if it may be a matrix."""
    for kind in type(value).__mro__:
        found = _ADVICE.get((kind.__module__.partition(".")[0], kind.__name__))
        if found is not None:
            return None if _is_plain_tensor(value) else found
    if isinstance(value, (str, bytes, PathLike)):
        advice = "Read the file first, for example with `pandas.read_csv({0})` or `numpy.load({0})`"
        return "a text" if isinstance(value, (str, bytes)) else "a path", advice
    if _is_list_of_texts(value):
        return f"a {type(value).__name__} of texts", _TEXT
    if _is_ragged(value):
        return f"a {type(value).__name__} of rows of unequal lengths", _RAGGED
    texts = _text_columns(value)
    if texts:
        which = f"Leave them out: `{_selection(value)}`"
        return f"a table with columns that are not numbers ({', '.join(texts)})", which
    has_array = any(hasattr(value, n) for n in ("__array__", "__array_interface__", "shape"))
    if has_array or isinstance(value, (Sequence, memoryview, int, float, complex)):
        return None
    is_indexed = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    if is_indexed and not isinstance(value, Mapping):
        return None
    return f"an object of type {type(value).__name__}", "Pass an array, such as a NumPy array"


def _is_plain_tensor(value: Any) -> bool:
    """Return whether this is a tensor that NumPy can read without conversion."""
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
    """Return whether this is a list of lists that do not form a rectangle."""
    if not isinstance(value, (list, tuple)):
        return False
    return len({len(row) if isinstance(row, (list, tuple)) else -1 for row in value}) > 1


def _text_columns(value: Any) -> list[str]:
    """Return the names of nonnumeric columns of a table, at most three of them."""
    library = type(value).__module__.partition(".")[0]
    if library == "pandas" and hasattr(value, "select_dtypes"):
        others = value.select_dtypes(exclude=["number", "bool"]).columns
        # Columns of dtype object may hold numbers and missing values, so look at the cells.
        names = [n for n in others if value[n].map(lambda cell: isinstance(cell, str)).any()]
    elif library == "polars" and hasattr(value, "schema"):
        schema = value.schema.items()
        names = [n for n, dtype in schema if not (dtype.is_numeric() or str(dtype) == "Boolean")]
    elif library == "pyarrow" and hasattr(value, "schema"):
        words = ("string", "binary", "dictionary", "timestamp", "date", "large_")
        names = [field.name for field in value.schema if str(field.type).startswith(words)]
    else:
        return []
    return [repr(name) for name in names[:3]] + (["..."] if len(names) > 3 else [])


def _selection(value: Any) -> str:
    """Return the expression that selects the numeric columns of a table."""
    library = type(value).__module__.partition(".")[0]
    return {
        "pandas": '{0}.select_dtypes("number")',
        "polars": "{0}.select(polars.selectors.numeric())",
    }.get(library, "{0}.select([...])")
