"""ENVI images: a text header ``.hdr`` beside a file of raw numbers."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.io.content import (
    Catalogue,
    Content,
    Entry,
    FileError,
    Names,
    as_numbers,
    byte_count,
    check_bytes,
)

_TYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = (6, 9)
# Where the numbers may be, for a header `scene.hdr`; `scene.img.hdr` has its own way.
_SUFFIXES = ("", ".img", ".dat", ".raw", ".bin", ".bsq", ".bil", ".bip")
# Line is axis 0, sample 1, band 2: their order in the file, slowest first.
_STORED_AXES = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}
_FIELD = re.compile(r"^\s*([^={}]+?)\s*=\s*(\{[^}]*\}|[^\n]*)", re.MULTILINE)
_MOST_HEADER = 1 << 24


@dataclass(frozen=True)
class Header:
    """The fields that decide how the numbers are laid out."""

    lines: int
    samples: int
    bands: int
    dtype: np.dtype[Any]
    interleave: str
    offset: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.lines, self.samples, self.bands

    @property
    def n_bytes(self) -> int:
        return byte_count(self.shape, self.dtype.itemsize)


def read_envi(path: Path) -> Catalogue:
    """The image of an ENVI header, (lines, samples, bands)."""
    fields = _read_fields(path)
    header, data = _read_header(path, fields), _data_file(path)
    held = data.stat().st_size - header.offset
    if header.n_bytes > held:
        raise FileError(
            f"`{data}` holds {max(held, 0)} bytes, but its header `{path.name}` declares "
            f"{header.lines} lines x {header.samples} samples x {header.bands} bands = "
            f"{header.n_bytes} bytes: the file is truncated, or the header is of another image."
        )
    return {data.name: Entry(header.shape, True, lambda: _load(path, data, header, fields))}


def _read_fields(path: Path) -> dict[str, str]:
    if path.stat().st_size > _MOST_HEADER:
        raise FileError(f"`{path}` is too long for an ENVI header, which is a short text.")
    text = path.read_text(encoding="utf-8", errors="replace").lstrip("\ufeff")
    if not text.startswith("ENVI"):
        raise FileError(f"`{path}` is no ENVI header: its first line must be `ENVI`.")
    return {name.lower(): value.strip() for name, value in _FIELD.findall(text[4:])}


def _read_header(path: Path, fields: dict[str, str]) -> Header:
    number = {
        name: _whole_number(path, fields, name, least)
        for name, least in (
            ("lines", 1), ("samples", 1), ("bands", 1), ("data type", 0),
            ("header offset", 0), ("byte order", 0), ("file compression", 0),
        )
    }  # fmt: skip
    code = number["data type"]
    if code not in _TYPES:
        kind = "complex numbers" if code in _COMPLEX else "a type that is unknown"
        raise FileError(f"`{path}`: data type {code} stands for {kind}; real numbers are needed.")
    if number["file compression"]:
        raise FileError(f"`{path}` belongs to a compressed image; save it without compression.")
    interleave = fields.get("interleave", "bsq").lower()
    if interleave not in _STORED_AXES:
        raise FileError(
            f"`{path}`: interleave `{interleave[:40]}` is none of {', '.join(_STORED_AXES)}."
        )
    dtype = np.dtype((">" if number["byte order"] else "<") + _TYPES[code])
    size = (number["lines"], number["samples"], number["bands"])
    return Header(*size, dtype, interleave, number["header offset"])


def _whole_number(path: Path, fields: dict[str, str], name: str, least: int) -> int:
    optional = name in ("header offset", "byte order", "file compression")
    text = fields.get(name, "0" if optional else "")
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) < least:
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


def _load(path: Path, data: Path, header: Header, fields: dict[str, str]) -> Content:
    check_bytes(path, header.n_bytes)
    count = header.lines * header.samples * header.bands
    flat = np.fromfile(data, header.dtype, count=count, offset=header.offset)
    stored = _STORED_AXES[header.interleave]
    cube = flat.reshape([header.shape[axis] for axis in stored]).transpose(np.argsort(stored))
    cube = as_numbers(path, np.ascontiguousarray(cube))
    cube, notes = _without_ignored(cube, fields)
    names = _list(fields, "wavelength") or _list(fields, "band names")
    return Content(cube, None, names if names and len(names) == header.bands else None, notes)


def _without_ignored(cube: Any, fields: dict[str, str]) -> tuple[Any, Names]:
    """Pixels that have the header's "data ignore value" in every band become zeros."""
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
