"""Decode the stored numbers of a data set as its attributes say: CF and netCDF conventions.

A stored number v means ``scale_factor * v + add_offset``. Fill values, and numbers outside of the
valid range, are missing. ``_Unsigned`` says that signed integers stand for unsigned ones.
"""

from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.io import guard
from orthoplus.io.content import Names
from orthoplus.io.trial import FILLS, FLAGS, OTHER_PACKING, PACKING, UNSIGNED, VALID, attribute

_CLOSE = 1e-6  # a fill value may be stored in float32, and the numbers in float64


def unpack(path: Path, dataset: Any) -> tuple[Any, Names]:
    """Read a data set of numbers; return the decoded values, NaN if missing, and remarks."""
    stored, words = _with_sign(path, dataset, dataset[()])
    values, notes = guard.as_numbers(path, stored), [*words, *_code_words(dataset)]
    if values.ndim == 0:
        return values, tuple(notes)
    fills = [x for name in FILLS for x in _numbers(path, dataset, name)]
    fills += [dataset.fillvalue] if dataset.fillvalue else []  # of parts that were never written
    is_fill = _equals(stored, [_as_stored(x, stored.dtype) for x in fills])
    packing = [_numbers(path, dataset, name) for name in PACKING]
    scale, offset = (
        float(found[0]) if len(found) else default
        for found, default in zip(packing, (1.0, 0.0), strict=True)
    )
    if any(len(found) for found in packing):
        values = values * scale + offset  # a Python float keeps float32
        notes.append(
            f"The values of `{dataset.name}` were multiplied by {scale:g} and {offset:g} was added "
            f"(`scale_factor`, `add_offset`)."
        )
    is_outside = _is_outside(path, dataset, stored, values) & ~is_fill
    if (is_fill | is_outside).any():
        values = np.where(is_fill | is_outside, np.array(np.nan, dtype=values.dtype), values)
    if is_fill.any():
        notes.append(f"{int(is_fill.sum())} values equal the fill value and are missing.")
    if is_outside.any():
        notes.append(f"{int(is_outside.sum())} values are outside of the valid range: missing.")
    return values, (*notes, *_other_words(dataset))


def refuse_packed(path: Path, dataset: Any) -> None:
    """Raise `FileError` if the attributes change the meaning of the entries of a sparse matrix."""
    names = [name for name in (*FILLS, *PACKING, *VALID, *UNSIGNED) if name in dataset.attrs]
    if names:
        raise FileError(
            f"`{path}`: `{dataset.name}` has the attribute `{names[0]}`, which is not applied to "
            f"sparse matrices. Save the decoded values without it."
        )


def _with_sign(path: Path, dataset: Any, stored: Any) -> tuple[Any, Names]:
    """Return integers as signed or unsigned, as ``_Unsigned`` says, and a remark if it does."""
    name, kind = UNSIGNED[0], stored.dtype.kind
    if name not in dataset.attrs or kind not in "iu":
        return stored, ()
    found = attribute(dataset, name)
    word = (found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)).lower()
    if word not in ("true", "false"):
        raise _not_understood(path, dataset, name, "true or false")
    wanted = "u" if word == "true" else "i"
    if wanted == kind:
        return stored, ()
    dtype = np.dtype(f"{wanted}{stored.dtype.itemsize}").newbyteorder(stored.dtype.byteorder)
    return stored.view(dtype), (
        f"The integers of `{dataset.name}` were read as {dtype.name} (`{name}`).",
    )


def _as_stored(number: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number of an attribute as integers of this type store it: -1 as 255 in one byte."""
    is_whole = np.dtype(type(number)).kind in "iu" and dtype.kind in "iu"
    if is_whole and number.dtype.itemsize == dtype.itemsize:
        return number.astype(dtype)
    return number


def _equals(stored: Any, fills: list[Any]) -> Any:
    """Return where the numbers equal a fill value; decimal numbers up to rounding to float32."""
    found = np.zeros(stored.shape, dtype=bool)
    for fill in fills:
        if stored.dtype.kind == "f" and np.isfinite(fill):
            found |= np.isclose(stored, float(fill), rtol=_CLOSE, atol=0.0)
        else:
            found |= stored == fill
    return found


def _is_outside(path: Path, dataset: Any, stored: Any, values: Any) -> Any:
    """Return where the numbers are outside of the valid range.

    The range refers to the stored numbers, unless it has decimal numbers and those are integers.
    """
    found = np.zeros(stored.shape, dtype=bool)
    for name in VALID:
        limits = _numbers(path, dataset, name)
        if not len(limits):
            continue
        n_limits, wanted = (2, "two numbers") if name == "valid_range" else (1, "a number")
        if len(limits) != n_limits:
            raise _not_understood(path, dataset, name, wanted)
        is_decoded = limits.dtype.kind == "f" and stored.dtype.kind in "iu"
        numbers = values if is_decoded else stored
        low, high = limits[0], limits[-1]
        if not is_decoded:
            low, high = _as_stored(low, stored.dtype), _as_stored(high, stored.dtype)
        found |= (numbers < low) & (name != "valid_max")
        found |= (numbers > high) & (name != "valid_min")
    return found


def _numbers(path: Path, dataset: Any, name: str) -> Any:
    """Return the numbers of an attribute that describes a data set; none if it is missing."""
    if name not in dataset.attrs:
        return np.array([])
    found = attribute(dataset, name)
    numbers = np.atleast_1d([] if found is None else found)
    is_scale = name in PACKING
    is_wrong = (
        not numbers.size or numbers.dtype.kind not in "fiu" or (is_scale and len(numbers) > 1)
    )
    if is_wrong or (is_scale and not np.isfinite(numbers).all()):
        raise _not_understood(path, dataset, name, "a number")
    return numbers


def _not_understood(path: Path, dataset: Any, name: str, wanted: str) -> FileError:
    return FileError(
        f"`{path}`: the attribute `{name}` of `{dataset.name}` is not {wanted}, so that the "
        f"meaning of the values is unknown. Correct it, or remove it if it has no meaning."
    )


def _code_words(dataset: Any) -> Names:
    """Return a remark if the numbers are codes of classes: flags, or an enumeration."""
    named = [name for name in FLAGS if name in dataset.attrs]
    if dataset.dtype.metadata is not None and "enum" in dataset.dtype.metadata:
        named.append("enumeration")
    if not named:
        return ()
    return (f"The values of `{dataset.name}` are codes (`{named[0]}`), not quantities.",)


def _other_words(dataset: Any) -> Names:
    """Return a remark on attributes of other conventions, which are not applied."""
    for name in OTHER_PACKING:
        if name in dataset.attrs:
            number = np.ravel(attribute(dataset, name))
            is_number = number.size == 1 and number.dtype.kind in "fiu"
            if is_number and number[0] != (name.lower() not in ("offset", "intercept")):
                return (
                    f"`{dataset.name}` has the attribute `{name}` = {number[0]:g}, which was not "
                    f"applied: its meaning differs between programs.",
                )
    return ()
