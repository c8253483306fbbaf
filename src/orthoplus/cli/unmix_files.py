"""Write the files of an unmixed image: fractions, the map of materials, and spectra."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.cli.writing import write_csv, write_json, write_npz, write_text
from orthoplus.core.atomic import write_atomically
from orthoplus.core.errors import InputError
from orthoplus.core.extras import check_installed
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.io.envi_write import write_class_envi, write_envi, write_spectral_library
from orthoplus.io.georeference import place_for
from orthoplus.io.geotiff import write_class_geotiff, write_geotiff
from orthoplus.io.imagery import Imagery, Place
from orthoplus.report.figures import Axis
from orthoplus.report.svg import hue
from orthoplus.report.unmixing import unmixing_page

FORMATS = ("envi", "geotiff", "npz")
# No-data value of fractions, unless that of the image is outside of 0 to 1 and can be kept.
_NODATA = -9999.0
# Characters that separate or end names in an ENVI header.
_RESERVED = "{},;="


@dataclass(frozen=True)
class Target:
    """The output, decided before the run: format, names of the materials, georeference."""

    format: str
    names: tuple[str, ...]
    place: Place
    about: Imagery | None
    bands: tuple[str, ...] | None

    @property
    def nodata(self) -> float:
        """Return the no-data value of fractions: that of the image, unless it is in [0, 1]."""
        given = None if self.about is None else self.about.nodata
        if given is None or abs(given) > float(np.finfo(np.float32).max) or 0.0 <= given <= 1.0:
            return _NODATA
        return float(np.float32(given))

    @property
    def axis(self) -> Axis:
        """Return the axis labels of the spectra plots."""
        units, quantity = (self.about.units, self.about.quantity) if self.about else ("", "")
        return Axis(self.bands, units, quantity)


def choose_target(
    path: Path,
    about: Imagery | None,
    bands: tuple[str, ...] | None,
    wanted: str | None,
    names: tuple[str, ...],
) -> Target:
    """Return the output format, by default that of the image, and the georeference for it."""
    format = wanted or ("npz" if about is None else about.format)
    if format not in FORMATS:
        raise InputError(f"`--format {format}` is unknown; choose one of {', '.join(FORMATS)}.")
    if format == "geotiff":
        check_installed(("rasterio",), "Writing GeoTIFF images", extra="geo")
    place = Place() if about is None or format == "npz" else place_for(about.place, format, path)
    return Target(format, names, place, about, bands)


def parse_names(text: str | None, k: int) -> tuple[str, ...]:
    """Return the names of the materials: those given, or "material 1", "material 2", ...

    Examples
    --------
    >>> parse_names(None, 2), parse_names("water, soil", 2)
    (('material 1', 'material 2'), ('water', 'soil'))
    """
    if text is None:
        return tuple(f"material {j + 1}" for j in range(k))
    names = tuple(name.strip() for name in text.split(","))
    if len(set(names)) != k or len(names) != k or not all(names):
        raise InputError(
            f"`--names {text}` has {len(names)} names; `-k {k}` requires {k} distinct names, "
            f"separated by commas."
        )
    if any(set(_RESERVED) & set(name) or not name.isprintable() for name in names):
        raise InputError(f"`--names {text}`: names must not contain any of {' '.join(_RESERVED)}.")
    return names


def write_files(folder: Path, target: Target, found: Any, record: dict[str, Any]) -> dict[str, str]:
    """Write all files, and return a description of each."""
    from orthoplus.report.pictures import draw_maps, draw_spectra

    k, names = len(found.endmembers), target.names
    is_safe = record["options"].get("safe_csv", False)
    _write_spectra(folder / "spectra.csv", target, found.endmembers, is_safe=is_safe)
    files = {"spectra.csv, .png": f"the {k} spectra, one per column"}
    files |= _write_images(folder, target, found)
    write_npz(
        folder / "maps.npz",
        abundances=found.abundances,
        hard_abundances=found.hard_abundances,
        labels=found.labels,
        brightness=found.brightness,
    )
    files["maps.npz, .png"] = "the fraction of each material in each pixel, and the largest"
    write_json(folder / "run.json", record)
    files["run.json"] = "options, versions, objective, bound, history"
    write_atomically(
        folder / "spectra.png",
        lambda file: draw_spectra(file, found.endmembers, names, target.axis),
    )
    write_atomically(
        folder / "maps.png", lambda file: draw_maps(file, found.abundances, found.labels, names)
    )
    if record["options"]["report"]:
        page = unmixing_page(record, found, names, target.axis)
        write_text(folder / "report.html", page)
        files["report.html"] = "all results on one page"
    return files


def _write_spectra(path: Path, target: Target, spectra: FloatArray, *, is_safe: bool) -> None:
    """Write one line per band: name or number, wavelength if known, and the spectra."""
    about, n_bands = target.about, spectra.shape[1]
    bands: Sequence[Any] = target.bands or range(1, n_bands + 1)
    columns, header = [bands], ["band"]
    if about is not None:
        columns = [about.band_names or about.band_numbers]
        if about.wavelengths:
            columns.append(about.wavelengths)
            header.append(f"wavelength ({about.units})" if about.units else "wavelength")
    rows = ([*row[:-1], *row[-1]] for row in zip(*columns, spectra.T.tolist(), strict=True))
    write_csv(path, (*header, *target.names), rows, is_safe=is_safe)


def _write_images(folder: Path, target: Target, found: Any) -> dict[str, str]:
    """Write fractions and classes as images, if the format of the target is one of images."""
    if target.format == "npz":
        return {}
    k, names = len(found.endmembers), target.names
    is_empty = found.labels < 0
    fractions = np.array(found.abundances, dtype=np.float32)
    fractions[is_empty] = target.nodata
    classes = class_map(found.labels, k)
    class_names = ("unclassified", *names)
    colors = [(0, 0, 0), *(_rgb(hue(j)) for j in range(k))]
    what = f"the fraction of each material, {k} bands, {target.nodata:g} for no data"
    named = f"the material with the largest fraction, 1 to {k}, {_nodata_of(classes)} for no data"
    if target.format == "geotiff":
        write_geotiff(folder / "fractions.tif", fractions, names, target.nodata, target.place)
        write_class_geotiff(folder / "materials.tif", classes, class_names, colors, target.place)
        return {"fractions.tif": what, "materials.tif": named}
    write_envi(folder / "fractions.hdr", fractions, names, target.nodata, target.place)
    write_class_envi(folder / "materials.hdr", classes, class_names, colors, target.place)
    write_spectral_library(folder / "spectra.hdr", found.endmembers, names, target.about)
    return {
        "fractions.hdr, .img": what,
        "materials.hdr, .img": named,
        "spectra.hdr, .sli": "the spectra as a spectral library",
    }


def class_map(labels: IntArray, k: int) -> IntArray:
    """Map label j to material j + 1, and -1 to the largest value of the integer type.

    Examples
    --------
    >>> class_map(np.array([0, 2, -1]), 3)
    array([  1,   3, 255], dtype=uint8)
    """
    dtype = np.uint8 if k < np.iinfo(np.uint8).max else np.uint16
    return np.where(labels < 0, np.iinfo(dtype).max, labels + 1).astype(dtype)


def _nodata_of(classes: IntArray) -> int:
    return int(np.iinfo(classes.dtype).max)


def _rgb(color: str) -> tuple[int, int, int]:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue
