"""Write ENVI images, class maps and spectral libraries with their headers."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.atomic import write_atomically
from orthoplus.io.content import Names
from orthoplus.io.envi import TYPES
from orthoplus.io.imagery import Imagery, Place

_CODES = {np.dtype(name): code for code, name in TYPES.items()}


def write_envi(path: Path, bands: Any, names: Names, nodata: float, place: Place) -> None:
    """Write an image (height, width, bands) with the names of its bands; ``path`` is its header."""
    fields = {"band names": _braces(names), "data ignore value": f"{nodata:.17g}"}
    _write(path, ".img", bands, fields | dict(place.envi))


def write_class_envi(
    path: Path, classes: Any, names: Names, colors: Sequence[tuple[int, int, int]], place: Place
) -> None:
    """Write a map of classes 0, 1, ... with names and colors.

    The largest value of the integer type marks pixels without data.
    """
    fields = {
        "file type": "ENVI Classification",
        "classes": str(len(names)),
        "class names": _braces(names),
        "class lookup": _braces(str(part) for color in colors for part in color),
        "band names": "{material}",
        "data ignore value": str(np.iinfo(classes.dtype).max),
    }
    _write(path, ".img", classes[..., None], fields | dict(place.envi))


def write_spectral_library(path: Path, spectra: Any, names: Names, about: Imagery | None) -> None:
    """Write spectra, one per row, as an ENVI spectral library ``.sli``; ``path`` is its header."""
    fields = {"file type": "ENVI Spectral Library", "spectra names": _braces(names)}
    if about is not None and about.wavelengths:
        fields["wavelength"] = _braces(about.wavelengths)
        if about.units:
            fields["wavelength units"] = about.units
    if about is not None and about.fwhm:
        fields["fwhm"] = _braces(about.fwhm)
    _write(path, ".sli", np.asarray(spectra, dtype=np.float32)[..., None], fields)


def _write(path: Path, suffix: str, bands: Any, fields: dict[str, str]) -> None:
    """Write the data file, band after band, and then the header.

    The header comes last, so that an interrupted run never leaves one without its data.
    """
    lines, samples, count = bands.shape
    dtype = bands.dtype.newbyteorder("<")
    known = {
        "samples": str(samples),
        "lines": str(lines),
        "bands": str(count),
        "header offset": "0",
        "file type": "ENVI Standard",
        "data type": str(_CODES[np.dtype(bands.dtype)]),
        "interleave": "bsq",
        "byte order": "0",
    }
    text = "\n".join(["ENVI", *(f"{name} = {value}" for name, value in (known | fields).items())])

    def write_numbers(file: Any) -> None:
        for i in range(count):
            file.write(np.ascontiguousarray(bands[..., i], dtype=dtype).tobytes())

    path.unlink(missing_ok=True)  # an old header does not describe the new data
    write_atomically(path.with_suffix(suffix), write_numbers)
    write_atomically(path, lambda file: file.write(f"{text}\n".encode()))


def _braces(names: Iterable[str]) -> str:
    return f"{{{', '.join(names)}}}"
