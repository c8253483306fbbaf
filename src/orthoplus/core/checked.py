"""Check the arrays that users pass to functions of the paper, which themselves check nothing.

The package calls these functions in inner loops, with arrays that are right. Compiled loops read
and write outside of arrays whose lengths or labels do not fit.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from orthoplus.core.checks import as_matrix, check_count, check_finite, check_shape, out_of_range
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.foreign import as_label_array, check_not_foreign
from orthoplus.core.types import FloatArray, IntArray

P = ParamSpec("P")
R = TypeVar("R")

# Parameters that are matrices of one shape, vectors of numbers, and sizes.
_MATRICES = {"X", "C", "Z", "H", "W", "G", "D", "M", "gradient"}
_VECTORS, _SIZES = {"entries", "weights"}, {"n", "k"}
# Squares and cubes of larger entries overflow when they are summed.
_LARGEST = {np.dtype(np.float64): 1e90, np.dtype(np.float32): 1e11}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arrays, labels and sizes, by their names.

    Examples
    --------
    >>> @checked
    ... def inner(X, W):
    ...     return float((X * W).sum())
    >>> inner([[1, 2]], [[3, 4]])
    11.0
    >>> inner([[1, 2]], [[3], [4]])
    Traceback (most recent call last):
    orthoplus.InputError: `W` has shape (2, 1), but `X` has shape (1, 2); both must have the same.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)
        _check(bound.arguments)
        return function(*bound.args, **bound.kwargs)

    wrapper.__module__ = function.__module__.rpartition(".")[0]  # the package, for pickle
    return wrapper


def _check(given: dict[str, Any]) -> None:
    """Replace arguments by arrays of the types that the functions need."""
    for name in given.keys() & _SIZES:
        check_count(given[name], name, low=1)
    names = [name for name in given if name in _MATRICES]
    for name in names:
        given[name] = as_entries(as_matrix(given[name], name), name)
        shape, other = given[name].shape, given[names[0]].shape
        if shape != other:
            raise InputError(
                f"`{name}` has shape {shape}, but `{names[0]}` has shape {other}; both must have "
                f"the same."
            )
        if name == "M":
            check_shape(shape[0], shape[1], name)
    if "labels" in given:
        given["labels"] = _as_columns(given["labels"], given["k"])
    for name in given.keys() & _VECTORS:
        given[name] = _as_vector(given[name], name, len(given["labels"]))
        if not np.bincount(given["labels"] + 1, minlength=given["k"] + 1)[1:].all():
            raise InputError("`labels` leaves a column without rows; every column needs one.")


def as_entries(array: FloatArray, name: str) -> FloatArray:
    """Return a nonempty array; raise if its entries are so large that products overflow.

    Examples
    --------
    >>> as_entries(np.full((2, 1), 1e30, dtype=np.float32), "X")
    Traceback (most recent call last):
    orthoplus.InputError: `X` has entries as large as 1e+30: products of such numbers are ...
    """
    if array.size == 0:
        raise InputError(f"`{name}` has shape {array.shape}; at least one entry is needed.")
    if (top := max(float(array.max()), -float(array.min()))) > _LARGEST[array.dtype]:
        raise out_of_range(top, name)
    return array


def _as_columns(value: Any, k: int) -> IntArray:
    """Return labels as integers from -1 to k - 1."""
    labels = as_label_array(value, "labels")
    if labels.ndim != 1 or labels.dtype.kind not in "iub":
        raise InputTypeError(
            f"`labels` has dtype {labels.dtype} and {labels.ndim} dimension(s); a vector of "
            f"integers is needed."
        )
    if labels.size and not -1 <= int(labels.min()) <= int(labels.max()) < k:
        raise InputError(
            f"`labels` has values from {labels.min()} to {labels.max()}; they must lie between -1 "
            f"(a zero row) and k - 1 = {k - 1}."
        )
    return labels.astype(np.int64)


def _as_vector(value: Any, name: str, length: int) -> FloatArray:
    """Return a vector of finite numbers with one entry per label."""
    check_not_foreign(value, name)
    array = np.asarray(value)
    if array.shape != (length,) or array.dtype.kind not in "fiub":
        raise InputError(
            f"`{name}` has dtype {array.dtype} and shape {array.shape}; one number per row is "
            f"needed, so ({length},)."
        )
    array = array.astype(np.float32 if array.dtype == np.float32 else np.float64)
    check_finite(array, name)
    return as_entries(array, name) if length else array
