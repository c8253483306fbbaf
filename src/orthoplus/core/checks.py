"""Validate user input, so that bad input raises a clear error before it reaches a kernel."""

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.foreign import array_or_none, check_not_foreign
from orthoplus.core.types import FloatArray

# Number of entries checked at a time, so that a memory map is not loaded as a whole.
_CHECK_SIZE = 1 << 22
# Longest repr of a value that a message quotes.
_LONGEST_TEXT = 60
# Drawn seeds are below this value.
_MAX_SEED = 2**31
# Norms within these limits can be cubed, and summed n x k times, without overflow or underflow.
_SMALLEST_NORM, _LARGEST_NORM = 1e-90, 1e90
# The largest entry of a data matrix must lie between 1 / limit and limit: then fourth powers in
# float64, and squares of float32 that are summed in float32, neither overflow nor underflow.
_LARGEST_ENTRY = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e70}


def as_matrix(value: Any, name: str) -> FloatArray:
    """Convert ``value`` to a finite, C-contiguous, two-dimensional float array.

    The data is copied only if needed. float32 stays float32; integers and booleans become float64.

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


def as_data_matrix(value: Any, name: str, *, check: bool = True) -> FloatArray:
    """Convert as `as_matrix` does, but keep the memory order and do not load a memory map.

    The entries are checked in blocks of rows, if ``check`` is True.
    """
    array = _as_real(value, name)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    rows = max(1, _CHECK_SIZE // max(1, array.shape[1]))
    for start in range(0, array.shape[0] if check else 0, rows):
        check_finite(array[start : start + rows], name, first_row=start)
    return array


def _as_real(value: Any, name: str) -> npt.NDArray[Any]:
    """Return ``value`` as a two-dimensional array of real numbers in its own dtype."""
    check_not_foreign(value, name)
    if hasattr(value, "tocsr"):
        raise InputTypeError(
            f"`{name}` is a SciPy sparse matrix: a dense array is needed here. "
            f"Pass `{name}.toarray()`."
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
    """Raise if an entry is NaN or infinite, and name the first such entry."""
    # A finite sum implies finite entries, so valid data costs a single pass. The sum of valid data
    # may still overflow: then the entries are examined.
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum proves that all entries are finite, without a mask of the size of the array.
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
    """Return ||array||_F; raise if products of a few such numbers would overflow or underflow.

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
    raise out_of_range(top, name)


def check_entry_size(top: float, dtype: npt.DTypeLike, name: str) -> None:
    """Raise if products A A'X would leave the range of this dtype, for entries up to ``top``.

    Examples
    --------
    >>> check_entry_size(1e20, np.float64, "A")
    >>> check_entry_size(1e20, np.float32, "A")
    Traceback (most recent call last):
    orthoplus.InputError: `A` has entries as large as 1e+20: products of such numbers are ...
    """
    limit = _LARGEST_ENTRY[np.dtype(dtype)]
    if top != 0.0 and not 1.0 / limit <= top <= limit:
        raise out_of_range(top, name)


def out_of_range(top: float, name: str) -> InputError:
    """Return the error that entries up to ``top`` are too large or too small for products."""
    size = "has entries as large as" if top > 1.0 else "has no entries larger than"
    return InputError(
        f"`{name}` {size} {top:.3g}: products of such numbers are outside the "
        f"floating-point range. Rescale the data or f so that the entries are closer to 1."
    )


def check_shape(n: int, k: int, name: str) -> None:
    """Raise unless k is an integer with 1 <= k <= n; otherwise S+ is empty."""
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
    _check_number(value, name)
    if not low <= value <= high:
        wanted = f"at least {low:g}" + (f" and at most {high:g}" if np.isfinite(high) else "")
        raise _not_allowed(value, name, wanted)


def check_positive(value: float, name: str, *, finite: bool = True) -> None:
    """Raise unless the option is a positive number, and finite if ``finite`` is true."""
    _check_number(value, name)
    if value <= 0 or (finite and math.isinf(value)):
        raise _not_allowed(value, name, "positive and finite" if finite else "positive")


def check_growth(value: float, name: str) -> None:
    """Raise unless the option is a finite number above one."""
    _check_number(value, name)
    if value <= 1 or math.isinf(value):
        raise _not_allowed(value, name, "above 1 and finite")


def _check_number(value: object, name: str) -> None:
    is_number = isinstance(value, (float, int, np.integer, np.floating))
    if not is_number or math.isnan(cast(float, value)):
        raise InputTypeError(f"{_quote(value, name)} is not a number.")


def _not_allowed(value: float, name: str, wanted: str) -> InputError:
    return InputError(f"`{name}={value!r}` is out of range: it must be {wanted}.")


def check_count(value: int, name: str, *, low: int = 0) -> None:
    """Raise unless the option is an integer of at least ``low``."""
    _check_whole(value, name)
    check_range(value, name, low=low)


def _check_whole(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputTypeError(f"{_quote(value, name)} is not an integer.")


def check_type(value: object, name: str, *kinds: type) -> None:
    """Raise unless the option is an object of one of the given classes."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InputTypeError(
            f"`{name}` must be an object of type {wanted}; it is {describe(value)}."
        )


def _quote(value: object, name: str) -> str:
    """Return the option with its value, or with the class of a value that has no short text."""
    text = describe(value)
    return f"`{name}`, {text}," if text.startswith("an object of type") else f"`{name}={text}`"


def describe(value: object) -> str:
    """Describe a value for a message: its repr, or the name of its class.

    The repr is used if it is short, has one line, and does not show an address in memory.
    """
    if isinstance(value, type):
        return value.__name__
    with np.errstate(all="ignore"):  # a table of float16 overflows while it is formatted
        text = repr(value)
    is_plain = "\n" not in text and " at 0x" not in text.lower()
    if is_plain and len(text) <= _LONGEST_TEXT:
        return text
    return f"an object of type {type(value).__name__}"


def as_generator(rng: np.random.Generator | int | None, name: str = "rng") -> np.random.Generator:
    """Return ``rng`` if it is a generator, else a new one with this seed; None means seed 0."""
    try:
        return np.random.default_rng(0 if rng is None else rng)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"`{name}` must be a numpy.random.Generator or a nonnegative integer seed; it is "
            f"{describe(rng)}."
        ) from error


def draw_seed(rng: np.random.Generator) -> int:
    """Draw an integer seed for a method that creates its own generator."""
    return int(rng.integers(_MAX_SEED))


def check_choice(value: str, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless the option is one of the given words."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{_quote(value, name)} is unknown. Choose one of {', '.join(choices)}.")


def as_value(value: object) -> float:
    """Convert the return value of a user's function to a float.

    NaN and inf are allowed, because a trial step may end where f is undefined.
    """
    number = array_or_none(value)
    if number is None:
        raise InputTypeError(f"`fun` must return one real number; it returned {describe(value)}.")
    if number.size != 1 or number.dtype.kind not in "fiub":
        raise InputTypeError(
            f"`fun` must return one real number; it returned {type(value).__name__} "
            f"of shape {number.shape} and dtype {number.dtype}."
        )
    result = float(number.reshape(()))
    if result == -math.inf:
        raise InputError(
            "`fun` returned -inf: a smooth function is bounded on S+, but this one has no minimum. "
            "Look for a logarithm of zero or a division by zero, and add a small constant there."
        )
    return result


def as_matrix_like(matrix: object, X: FloatArray, name: str) -> FloatArray:
    """Convert the return value of a user's function to a finite matrix like X.

    The result has the shape and dtype of X. It is always a copy, because the function may write
    its next answer into the same memory.
    """
    result = array_or_none(matrix)
    if result is None:
        raise InputTypeError(
            f"{name} must be a real array of the shape of X, {X.shape}; it is {describe(matrix)}."
        )
    if result.shape != X.shape or result.dtype.kind not in "fiub":
        advice = " It looks transposed." if result.shape == X.shape[::-1] else ""
        raise InputError(
            f"{name} must be a real array of the shape of X, {X.shape}; it has shape "
            f"{result.shape} and dtype {result.dtype}.{advice}"
        )
    # Copy: the function may return the same buffer again at the next call.
    result = np.array(result, dtype=X.dtype, order="C")
    check_finite(
        result,
        name,
        advice="f is finite at this point: check how its derivatives are computed.",
    )
    return result
