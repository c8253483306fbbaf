"""ENVI images: a text header ``.hdr`` beside a file of raw numbers."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.io import guard
from orthoplus.io.content import Catalogue, Content, Entry, Names

_TYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = (6, 9)
# Where the numbers may be, for a header `scene.hdr`; `scene.img.hdr` has its own way.
_SUFFIXES = ("", ".img", ".dat", ".raw", ".bin", ".bsq", ".bil", ".bip")
# Line is axis 0, sample 1, band 2: their order in the file, slowest first.
_STORED_AXES = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}
_MOST_HEADER, _MOST_DIGITS = 1 << 24, 12


def read_envi(path: Path) -> Catalogue:
    """List the image of an ENVI header, (lines, samples, bands)."""
    fields = _read_fields(path)
    shape = tuple(_whole_number(path, fields, name, 1) for name in ("lines", "samples", "bands"))
    dtype, offset = _read_type(path, fields), _whole_number(path, fields, "header offset", 0)
    interleave = fields.get("interleave", "bsq").lower()
    if interleave not in _STORED_AXES:
        raise FileError(
            f"`{path}`: interleave `{interleave[:40]}` is none of {', '.join(_STORED_AXES)}."
        )
    data = _data_file(path)
    held, declared = data.stat().st_size - offset, math.prod(shape) * dtype.itemsize
    if declared > held:
        raise FileError(
            f"`{data}` holds {max(held, 0)} bytes, but its header `{path.name}` declares "
            f"{shape[0]} lines x {shape[1]} samples x {shape[2]} bands = {declared} bytes: the "
            f"file is truncated, or the header is of another image."
        )

    def load() -> Content:
        guard.check_size(data, shape, dtype)
        flat = np.fromfile(data, dtype, count=math.prod(shape), offset=offset)
        stored = _STORED_AXES[interleave]
        cube = flat.reshape([shape[axis] for axis in stored]).transpose(np.argsort(stored))
        cube, notes = _without_ignored(guard.as_numbers(path, np.ascontiguousarray(cube)), fields)
        names = _list(fields, "wavelength") or _list(fields, "band names")
        return Content(cube, None, names if names and len(names) == shape[2] else None, notes)

    return {data.name: Entry(shape, True, load)}


def _read_fields(path: Path) -> dict[str, str]:
    """Return the fields of the header; a value in braces may go over several lines."""
    if path.stat().st_size > _MOST_HEADER:
        raise FileError(f"`{path}` is too long for an ENVI header, which is a short text.")
    text = path.read_text(encoding="utf-8", errors="replace").lstrip("\ufeff")
    if not text.startswith("ENVI"):
        raise FileError(f"`{path}` is not an ENVI header: its first line must be `ENVI`.")
    fields: dict[str, str] = {}
    lines = iter(text[4:].splitlines())
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or line.lstrip().startswith(";"):
            continue
        parts = [value.strip()]
        if parts[0].startswith("{"):
            while "}" not in parts[-1] and (more := next(lines, None)) is not None:
                parts.append(more.strip())
        fields[name.strip().lower()] = "\n".join(parts)
    return fields


def _read_type(path: Path, fields: dict[str, str]) -> np.dtype[Any]:
    code = _whole_number(path, fields, "data type", 0)
    if code not in _TYPES:
        kind = "complex numbers" if code in _COMPLEX else "a type that is unknown"
        raise FileError(f"`{path}`: data type {code} stands for {kind}; real numbers are needed.")
    if _whole_number(path, fields, "file compression", 0):
        raise FileError(f"`{path}` belongs to a compressed image; save it without compression.")
    return np.dtype((">" if _whole_number(path, fields, "byte order", 0) else "<") + _TYPES[code])


def _whole_number(path: Path, fields: dict[str, str], name: str, least: int) -> int:
    is_optional = name in ("header offset", "byte order", "file compression")
    text = fields.get(name, "0" if is_optional else "")
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if not is_number or int(text) < least:
        what = f"has `{name} = {text[:40]}`" if text else f"does not say `{name}`"
        raise FileError(f"`{path}` {what}: a whole number of at least {least} is needed.")
    return int(text)


def _data_file(path: Path) -> Path:
    base = path.with_suffix("")
    for suffix in _SUFFIXES:
        for candidate in (base.with_name(base.name + s) for s in (suffix, suffix.upper())):
            if candidate.is_file() and candidate != path:
                return candidate
    tried = ", ".join(f"{base.name}{suffix}" for suffix in _SUFFIXES)
    raise FileError(f"`{path}` has no image beside it: none of {tried} is there.")


def _without_ignored(cube: Any, fields: dict[str, str]) -> tuple[Any, Names]:
    """Set pixels that have the header's "data ignore value" in every band to zero."""
    try:
        ignored = float(fields["data ignore value"])
    except (KeyError, ValueError):
        return cube, ()
    pixels = (cube == ignored).all(axis=2)
    if not pixels.any() or ignored == 0.0:
        return cube, ()
    note = f"{int(pixels.sum())} pixels have the ignore value {ignored:g} and count as empty."
    return np.where(pixels[..., None], 0.0, cube), (note,)


def _list(fields: dict[str, str], name: str) -> Names | None:
    text = fields.get(name, "")
    if not (text.startswith("{") and text.endswith("}")):
        return None
    return tuple(part.strip() for part in text[1:-1].split(","))
