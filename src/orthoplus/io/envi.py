"""Read ENVI images: a text header ``.hdr`` next to a file of raw numbers."""

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.types import FloatArray
from orthoplus.io.content import Catalog, Entry, Names
from orthoplus.io.envi_header import Header, read_header
from orthoplus.io.imagery import Imagery, Place, RawImage, image_content

TYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = (6, 9)
# Suffixes of the data file next to a header `scene.hdr`; `scene.img.hdr` is handled separately.
IMAGE_SUFFIXES = (".img", ".dat", ".raw", ".bin", ".bsq", ".bil", ".bip")
# Order of the axes (0 lines, 1 samples, 2 bands) in the file, slowest first.
_STORED_AXES = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}
# Types of files that are stored like images but hold class numbers or single spectra.
_NOT_IMAGES = ("classification", "spectral library")
# Header fields that have one entry per band.
_PER_BAND = ("band names", "wavelength", "fwhm")
# Header fields with the georeference; they are copied verbatim.
PLACE_FIELDS = (
    "map info", "projection info", "coordinate system string", "pixel size", "geo points",
    "rpc info", "x start", "y start",
)  # fmt: skip


class _Layout(NamedTuple):
    """The layout of the numbers of an image in its file."""

    data: Path
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    interleave: str
    offset: int

    def read(self, first: int, last: int) -> Any:
        """Return lines ``first`` to ``last`` of the image, (lines, samples, bands), as stored."""
        lines, samples, n_bands = self.shape
        axes, itemsize = _STORED_AXES[self.interleave], self.dtype.itemsize
        size = [last - first if axis == 0 else self.shape[axis] for axis in axes]
        # In BIL and BIP files consecutive lines are contiguous. A BSQ file stores band after band,
        # so each band is read separately.
        if self.interleave != "bsq":
            start = self.offset + first * samples * n_bands * itemsize
            values = np.fromfile(self.data, self.dtype, math.prod(size), offset=start)
            return values.reshape(size).transpose(np.argsort(axes))
        values = np.empty(size, self.dtype)
        with open(self.data, "rb") as file:
            for band in range(n_bands):
                file.seek(self.offset + (band * lines + first) * samples * itemsize)
                part = np.fromfile(file, self.dtype, (last - first) * samples)
                values[band] = part.reshape(size[1:])
        return values.transpose(np.argsort(axes))


def read_envi(path: Path) -> Catalog:
    """List the image (lines, samples, bands) of an ENVI header or of the data file next to one."""
    header_path = path if path.suffix.lower() == ".hdr" else find_header(path)
    if header_path is None:
        raise FileError(
            f"`{path}` has no ENVI header: none of {', '.join(_header_names(path))} exists in its "
            f"folder. A text table must have the suffix .csv, .tsv or .txt."
        )
    header = read_header(header_path)
    raw, about = _describe(header, None if path is header_path else path)
    load = partial(image_content, raw, about, in_blocks=False, path=header_path)
    lazy = partial(image_content, raw, about, in_blocks=True, path=header_path)
    return {about.path.name: Entry(raw.shape, True, load, open=lazy)}


def find_header(image: Path) -> Path | None:
    """Return the header of a data file, or None."""
    if not image.is_file():  # also avoids folders without a name, such as "."
        return None
    beside = (image.with_name(name) for name in _header_names(image))
    return next((path for path in beside if path.is_file()), None)


def _header_names(image: Path) -> list[str]:
    names = (f"{image.name}.hdr", f"{image.stem}.hdr", f"{image.name}.HDR", f"{image.stem}.HDR")
    return list(dict.fromkeys(names))


def _describe(header: Header, data: Path | None) -> tuple[RawImage, Imagery]:
    """Return the image and its metadata, after comparing the declared size with the file."""
    layout = _read_layout(header, data)
    shape, n_bands = layout.shape, layout.shape[2]
    nodata, (gains, offsets, quantity) = (
        header.number("data ignore value"),
        _scales(header, n_bands),
    )
    good = header.numbers("bbl", n_bands)
    is_bad = np.zeros(n_bands, dtype=bool) if good is None else good == 0.0
    raw = RawImage(
        shape, layout.dtype, layout.read, (nodata,) * n_bands, is_bad, gains, offsets
    )  # fmt: skip
    return raw, _read_about(header, layout.data, n_bands, quantity, nodata)


def _read_layout(header: Header, data: Path | None) -> _Layout:
    """Return the layout of the numbers; refuse a file of any other size than the header declares.

    A file that is too large is misread as well: its numbers may be of a longer type, begin later,
    or have gaps between the lines.
    """
    kind = header.text("file type", "").lower()
    if any(word in kind for word in _NOT_IMAGES):
        raise FileError(f"`{header.path}` has `file type = {kind[:40]}`; an image is expected.")
    lines, samples, n_bands = (header.count(name, 1) for name in ("lines", "samples", "bands"))
    dtype = _read_type(header)
    # The order of the numbers is without meaning for a single band.
    interleave = header.text("interleave", "bsq" if n_bands == 1 else "").lower()
    if interleave not in _STORED_AXES:
        what = (
            f"unknown interleave `{interleave[:40]}`" if interleave else "`interleave` is missing"
        )
        raise FileError(f"`{header.path}`: {what}. Supported: {', '.join(_STORED_AXES)}.")
    offset = header.count("header offset", 0, optional=True)
    data = data or _data_file(header)
    held, declared = data.stat().st_size - offset, lines * samples * n_bands * dtype.itemsize
    if declared != held:
        reason = (
            "the file is truncated, or the header belongs to another image"
            if declared > held
            else "correct `data type`, `lines`, `samples`, `bands` or `header offset`, or remove "
            "what follows the image in the file"
        )
        raise FileError(
            f"`{data}` holds {max(held, 0)} bytes, but its header `{header.path.name}` declares "
            f"{lines} lines x {samples} samples x {n_bands} bands = {declared} bytes: {reason}."
        )
    return _Layout(data, (lines, samples, n_bands), dtype, interleave, offset)


def _read_about(
    header: Header, data: Path, n_bands: int, quantity: str, nodata: float | None
) -> Imagery:
    fields = {name: header.fields[name] for name in PLACE_FIELDS if name in header.fields}
    return Imagery(
        "envi",
        data,
        tuple(range(1, n_bands + 1)),
        _per_band(header, "band names", n_bands),
        _per_band(header, "wavelength", n_bands),
        _per_band(header, "fwhm", n_bands),
        "" if (units := header.text("wavelength units", "")).lower() == "unknown" else units,
        quantity,
        nodata,
        Place(envi=fields),
        tuple(_misfits(header, n_bands)),
    )


def _misfits(header: Header, n_bands: int) -> Iterator[str]:
    """Yield a remark for each list that does not have one entry per band."""
    for name in _PER_BAND:
        names = header.names(name)
        if names is not None and len(names) != n_bands:
            yield (
                f"The header has {len(names)} entries of `{name}` for {n_bands} bands; "
                f"they were ignored."
            )


def _per_band(header: Header, name: str, n_bands: int) -> Names | None:
    """Return a list with one entry per band; None if its length does not fit."""
    names = header.names(name)
    return names if names is not None and len(names) == n_bands else None


def _scales(header: Header, n_bands: int) -> tuple[FloatArray, FloatArray, str]:
    """Return gains and offsets of the bands, and the quantity that scaling gives."""
    gains = header.numbers("data gain values", n_bands)
    offsets = header.numbers("data offset values", n_bands)
    factor = header.number("reflectance scale factor")
    if factor is not None and not 0.0 < factor < math.inf:
        raise FileError(
            f"`{header.path}` has `reflectance scale factor = {factor:g}`; it must be positive."
        )
    has_gains = (gains is not None and (gains != 1.0).any()) or (
        offsets is not None and offsets.any()
    )
    if factor not in (None, 1.0) and has_gains:
        raise FileError(
            f"`{header.path}` has both `reflectance scale factor` and `data gain values` or "
            f"`data offset values`: remove those that do not apply."
        )
    if gains is not None and not (gains != 0.0).all():
        raise FileError(f"`{header.path}`: `data gain values` has a 0; gains must not be zero.")
    ones, zeros = np.ones(n_bands), np.zeros(n_bands)
    if factor is not None:
        return ones / factor, zeros, "reflectance"
    return ones if gains is None else gains, zeros if offsets is None else offsets, ""


def _read_type(header: Header) -> np.dtype[Any]:
    code = header.count("data type", 0)
    if code not in TYPES:
        kind = "complex numbers" if code in _COMPLEX else "an unknown type"
        raise FileError(
            f"`{header.path}`: data type {code} stands for {kind}; real numbers are required."
        )
    if header.count("file compression", 0, optional=True):
        raise FileError(
            f"`{header.path}` belongs to a compressed image; save it without compression."
        )
    dtype = np.dtype(TYPES[code])
    order = header.count("byte order", 0, optional=dtype.itemsize == 1)
    if order > 1:
        raise FileError(f"`{header.path}` has `byte order = {order}`; it must be 0 or 1.")
    return dtype.newbyteorder(">" if order else "<")


def _data_file(header: Header) -> Path:
    path = header.path
    named = header.text("data file", "")
    if named:
        return _named_file(header, named)
    base = path.with_suffix("")
    for suffix in ("", *IMAGE_SUFFIXES):
        for candidate in (base.with_name(base.name + s) for s in (suffix, suffix.upper())):
            if candidate.is_file() and candidate != path:
                return candidate
    tried = ", ".join(f"{base.name}{suffix}" for suffix in ("", *IMAGE_SUFFIXES))
    raise FileError(f"`{path}` has no data file: none of {tried} exists in its folder.")


def _named_file(header: Header, named: str) -> Path:
    """Return the data file that the header names.

    It must be in the folder of the header, also after following links: a header from a stranger
    must not make us read other files.
    """
    folder = header.path.resolve().parent
    is_plain = named not in (".", "..") and not set("/\\:\0") & set(named)
    found = header.path.with_name(named) if is_plain else None
    if found is None or not found.is_file() or found.resolve().parent != folder:
        raise FileError(
            f"`{header.path}` has `data file = {named[:80]}`; it must name a file in the folder of "
            f"the header."
        )
    return found
