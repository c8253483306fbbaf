"""Checks at the border: bad input is met here with a sentence, never by a kernel with a crash."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.foreign import check_not_foreign
from orthoplus.core.types import FloatArray

# Entries that are checked at a time, so that a memory map is not read as a whole.
_CHECK_SIZE = 1 << 22
# Characters of a value that a message repeats.
_LONGEST_TEXT = 60
# Seeds are below this.
_MAX_SEED = 2**31
# The cubes of sizes between these, and the products of n x k of them, are floating-point numbers.
_SMALLEST_NORM, _LARGEST_NORM = 1e-90, 1e90
# The largest entry of a data matrix lies between this and one over it: then the fourth powers of
# float64, and the squares of float32 that are summed in it, are floating-point numbers.
_LARGEST_ENTRY = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e70}


def as_matrix(value: Any, name: str) -> FloatArray:
    """``value`` as a finite, C-contiguous, two-dimensional float array; copied only if needed.

    float32 stays float32; integers and booleans become float64.

    Examples
    --------
    >>> as_matrix([[1, 0], [0, 1]], "X0").dtype
    dtype('float64')
    >>> as_matrix([1.0, 2.0], "X0")
    Traceback (most recent call last):
    orthoplus.InputError: `X0` has 1 dimension(s): a matrix of shape (n, k) is needed. ...
    """
    array = _as_real(value, name)
    dtype = np.float32 if array.dtype == np.float32 else np.float64
    array = np.ascontiguousarray(array, dtype=dtype)
    check_finite(array, name)
    return array


def as_data_matrix(value: Any, name: str) -> FloatArray:
    """As `as_matrix`, but of any memory order, and a memory map stays one: read in row blocks."""
    array = _as_real(value, name)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    rows = max(1, _CHECK_SIZE // max(1, array.shape[1]))
    for start in range(0, array.shape[0], rows):
        check_finite(array[start : start + rows], name, first_row=start)
    return array


def _as_real(value: Any, name: str) -> npt.NDArray[Any]:
    """``value`` as a two-dimensional array of real numbers, neither converted nor copied."""
    check_not_foreign(value, name)
    if hasattr(value, "tocsr"):
        raise InputTypeError(
            f"`{name}` is a SciPy sparse matrix: a dense array is needed here. "
            f"Pass `{name}.toarray()`."
        )
    if np.ma.is_masked(value):
        raise InputTypeError(
            f"`{name}` has {int(np.sum(value.mask))} masked entries: what is under a mask is no "
            f"number. Fill them first, for example with `{name}.filled(0.0)`."
        )
    array = np.asarray(value)
    if array.dtype.kind == "c":
        raise InputTypeError(
            f"`{name}` is complex ({array.dtype}): nonnegativity needs real numbers. "
            f"Pass its real part if that is what you mean."
        )
    if array.dtype.kind not in "fiub":
        raise InputTypeError(
            f"`{name}` has dtype {array.dtype}: a numeric array is needed. "
            f"Convert it with `np.asarray({name}, dtype=float)`."
        )
    if array.ndim != 2:
        raise InputError(
            f"`{name}` has {array.ndim} dimension(s): a matrix of shape (n, k) is needed. "
            f"Reshape it, for example with `{name}.reshape(-1, 1)` for a single column."
        )
    return array


def check_finite(
    array: FloatArray,
    name: str,
    *,
    first_row: int = 0,
    advice: str = "Remove or impute them first.",
) -> None:
    """Raise if an entry is NaN or infinite, naming the first one."""
    # The sum is finite only if all entries are (or it overflows): one cheap pass in the good case.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):
            return
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        first = (first_row + int(bad[0][0]), *(int(i) for i in bad[0][1:]))
        raise InputError(
            f"`{name}` has {len(bad)} entries that are NaN or infinite, the first at {first}. "
            f"{advice}"
        )


def norm_within_range(array: FloatArray, name: str) -> float:
    """||array||_F; raise where products of a few such numbers leave the floating-point range.

    Examples
    --------
    >>> norm_within_range(np.array([[3.0], [4.0]]), "A")
    5.0
    >>> norm_within_range(np.array([[3e200], [4e200]]), "A")
    Traceback (most recent call last):
    orthoplus.InputError: `A` has entries as large as 4e+200: products of such numbers are ...
    """
    with np.errstate(over="ignore"):
        size = float(np.linalg.norm(array))
    if _SMALLEST_NORM <= size <= _LARGEST_NORM:
        return size
    check_finite(array, name)
    top = float(np.abs(array).max(initial=0.0))
    if top == 0.0:
        return 0.0
    raise _out_of_range(top, name)


def check_entry_size(top: float, dtype: npt.DTypeLike, name: str) -> None:
    """Raise where the products of A A'X leave the range of this type, for entries up to ``top``.

    Examples
    --------
    >>> check_entry_size(1e20, np.float64, "A")
    >>> check_entry_size(1e20, np.float32, "A")
    Traceback (most recent call last):
    orthoplus.InputError: `A` has entries as large as 1e+20: products of such numbers are ...
    """
    limit = _LARGEST_ENTRY[np.dtype(dtype)]
    if top != 0.0 and not 1.0 / limit <= top <= limit:
        raise _out_of_range(top, name)


def _out_of_range(top: float, name: str) -> InputError:
    return InputError(
        f"`{name}` has entries as large as {top:.3g}: products of such numbers are no longer "
        f"floating-point numbers. Scale the data or f, so that they are nearer to 1."
    )


def check_shape(n: int, k: int, name: str) -> None:
    """Raise unless 1 <= k <= n, a whole number: only then has S+ a point."""
    _check_whole(k, "k")
    if n < 1 or k < 1:
        raise InputError(
            f"`{name}` has shape ({n}, {k}): it is empty. "
            f"At least one row and one column are needed."
        )
    if k > n:
        raise InputError(
            f"`{name}` has shape ({n}, {k}), more columns than rows: no {n}-by-{k} matrix has "
            f"orthonormal columns. Use at most k = {n}."
        )


def check_range(value: float, name: str, *, low: float, high: float = np.inf) -> None:
    """Raise unless the option is a number with low <= value <= high."""
    if not isinstance(value, (float, int, np.integer, np.floating)) or math.isnan(value):
        raise InputTypeError(f"`{name}={value!r}` is not a number.")
    if not low <= value <= high:
        raise InputError(
            f"`{name}={value!r}` is out of range: it must be at least {low:g}"
            + (f" and at most {high:g}." if np.isfinite(high) else ".")
        )


def check_positive(value: float, name: str, *, finite: bool = True) -> None:
    """Raise unless the option is a number above zero, finite unless that is not asked for."""
    check_range(value, name, low=0.0)
    if value == 0 or (finite and math.isinf(value)):
        kind = "positive and finite" if finite else "positive"
        raise InputError(f"`{name}={value!r}` is out of range: it must be {kind}.")


def check_growth(value: float, name: str) -> None:
    """Raise unless the option is a finite number above one."""
    check_positive(value, name)
    if value <= 1:
        raise InputError(f"`{name}={value!r}` is out of range: it must be above 1.")


def check_count(value: int, name: str, *, low: int = 0) -> None:
    """Raise unless the option is a whole number, at least low."""
    _check_whole(value, name)
    check_range(value, name, low=low)


def _check_whole(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputTypeError(f"`{name}={value!r}` is not a whole number.")


def check_type(value: object, name: str, *kinds: type) -> None:
    """Raise unless the option is an object of one of the given classes."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InputTypeError(
            f"`{name}` must be an object of type {wanted}, it is {describe(value)}."
        )


def describe(value: object) -> str:
    """Describe a value in a message: a class by its name, a long text by that of its class."""
    if isinstance(value, type):
        return value.__name__
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"an object of type {type(value).__name__}"


def as_generator(rng: np.random.Generator | int | None, name: str = "rng") -> np.random.Generator:
    """Return the generator itself, or one with this seed; None is the seed 0."""
    try:
        return np.random.default_rng(0 if rng is None else rng)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"`{name}` must be a numpy.random.Generator or a seed that is a whole number from "
            f"0 on, it is {rng!r}."
        ) from error


def draw_seed(rng: np.random.Generator) -> int:
    """Return a seed for a method of its own."""
    return int(rng.integers(_MAX_SEED))


def check_choice(value: str, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless the option is one of the given words."""
    if value not in choices:
        raise InputError(f"`{name}={value!r}` is unknown. Choose one of {', '.join(choices)}.")


def as_value(value: object) -> float:
    """Return what a user's function returned, as a number.

    NaN and inf pass: a step may end there.
    """
    number = np.asarray(value)
    if number.size != 1 or number.dtype.kind not in "fiub":
        raise InputTypeError(
            f"`fun` must return one real number, it returned {type(value).__name__} "
            f"of shape {number.shape} and dtype {number.dtype}."
        )
    result = float(number.reshape(()))
    if result == -math.inf:
        raise InputError(
            "`fun` returned -inf: a smooth function is bounded on S+, this one has no minimum. "
            "Look for the logarithm of a zero or a division by one, and add a small constant there."
        )
    return result


def as_matrix_like(matrix: object, X: FloatArray, name: str) -> FloatArray:
    """Copy what a user's function returned, a finite matrix of the shape and dtype of X.

    A copy, because the function may write its next answer into the same memory.
    """
    result = np.asarray(matrix)
    if result.shape != X.shape or result.dtype.kind not in "fiub":
        advice = " It looks transposed." if result.shape == X.shape[::-1] else ""
        raise InputError(
            f"{name} must be a real array of the shape of X, {X.shape}; it came with shape "
            f"{result.shape} and dtype {result.dtype}.{advice}"
        )
    result = np.array(result, dtype=X.dtype, order="C")
    check_finite(
        result,
        name,
        advice="f is finite there: look at how its derivatives are computed.",
    )
    return result
