"""Read and write GeoTIFF images with rasterio."""

import warnings
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from orthoplus.core.atomic import path_of, write_atomically
from orthoplus.core.errors import FileError
from orthoplus.core.extras import require
from orthoplus.core.types import BoolArray
from orthoplus.io import guard
from orthoplus.io.content import Catalog, Entry, Names, printable
from orthoplus.io.imagery import Imagery, Place, RawImage, image_content

_DRIVER = "GTiff"
_WAVELENGTH_UNITS = ("nm", "nanometers", "um", "µm", "micrometers")


def read_geotiff(path: Path) -> Catalog:
    """List the image (height, width, bands) of a TIFF file."""
    rasterio = require("rasterio", "Reading GeoTIFF images", extra="geo")
    guard.read_on_trial(path, "geotiff")
    # With an absolute path and a fixed driver, GDAL cannot take the name for a URL or another
    # format.
    raw, about = describe_dataset(rasterio.open(path.absolute(), driver=_DRIVER, sharing=False))
    load = partial(image_content, raw, about, in_blocks=False, path=path)
    lazy = partial(image_content, raw, about, in_blocks=True, path=path)
    return {path.name: Entry(raw.shape, True, load, open=lazy)}


def describe_dataset(dataset: Any) -> tuple[RawImage, Imagery]:
    """Return the pixels of a rasterio dataset and its metadata."""
    path, n_bands = Path(dataset.name), dataset.count
    dtype = np.result_type(*map(np.dtype, dataset.dtypes))
    if dtype.kind not in "fiu":
        raise FileError(f"`{path}` has data of type {dtype}; real numbers are required.")
    if dataset.tags(ns="IMAGE_STRUCTURE").get("SOURCE_COLOR_SPACE") == "CMYK":
        raise FileError(
            f"`{path}` is declared as CMYK, which GDAL converts to red, green and blue instead of "
            f"reading the stored values. Save it with another photometric interpretation."
        )
    gains, offsets = np.array(dataset.scales), np.array(dataset.offsets)
    if not (np.isfinite(gains) & (gains != 0.0) & np.isfinite(offsets)).all():
        raise FileError(f"`{path}` has a band with scale 0 or a scale that is not finite.")
    is_alpha = _is_alpha(dataset)
    has_mask = bool(is_alpha.any()) or any(
        flag.name == "per_dataset" for flags in dataset.mask_flag_enums for flag in flags
    )
    # Pixels outside the mask are read as the no-data value: zero if the image has none.
    nodata = tuple(0.0 if has_mask and v is None else v for v in dataset.nodatavals)
    raw = RawImage(
        (dataset.height, dataset.width, n_bands),
        dtype,
        partial(_read_lines, dataset, dtype, nodata if has_mask else None),
        nodata,
        is_alpha,
        gains,
        offsets,
        max(height for height, _ in dataset.block_shapes),
    )
    return raw, _read_about(dataset, path)


def _is_alpha(dataset: Any) -> BoolArray:
    """Return which bands hold transparency instead of data."""
    return np.array([color.name == "alpha" for color in dataset.colorinterp])


def _read_lines(
    dataset: Any, dtype: Any, masked: tuple[float | None, ...] | None, first: int, last: int
) -> Any:
    """Return lines of the image; pixels outside its mask have the values ``masked``, if given."""
    window = ((first, last), (0, dataset.width))
    values = dataset.read(window=window, out_dtype=dtype)
    if masked is not None:
        outside = dataset.dataset_mask(window=window) == 0
        values[:, outside] = np.array(masked, dtype=dtype)[:, None]
    return values.transpose(1, 2, 0)


def _read_about(dataset: Any, path: Path) -> Imagery:
    names = tuple(printable(name or "") for name in dataset.descriptions)
    tags = [_band_tags(dataset, band, names[band - 1]) for band in dataset.indexes]
    units = {own.get("units", "") for own in tags}
    known = [value for value in dataset.nodatavals if value is not None]
    crs, transform = dataset.crs, dataset.transform
    place = Place(
        crs.to_wkt() if crs else None,
        None if transform.is_identity else tuple(map(float, transform[:6])),
    )
    return Imagery(
        "geotiff",
        path,
        tuple(dataset.indexes),
        names if any(names) else None,
        _of_all(tags, "wavelength"),
        _of_all(tags, "fwhm"),
        units.pop() if len(units) == 1 else "",
        nodata=known[0] if known else None,
        place=place,
        notes=(*_unused_places(dataset), *_alpha_words(dataset)),
    )


def _unused_places(dataset: Any) -> Names:
    """Return a remark if the image has a georeference that the results cannot keep."""
    found = {"ground control points": bool(dataset.gcps[0]), "RPC coefficients": bool(dataset.rpcs)}
    words = " and ".join(name for name, is_there in found.items() if is_there)
    return (f"The image has {words}, which are not copied to the results.",) if words else ()


def _alpha_words(dataset: Any) -> Names:
    """Return a remark on each band of transparency: GDAL also takes a fourth band of bytes for it.

    The bands themselves are counted as bad.
    """
    return tuple(
        f"Band {band} is declared as transparency (alpha), not as data. If it is data, set its "
        f"color interpretation to undefined."
        for band in np.flatnonzero(_is_alpha(dataset)) + 1
    )


def _band_tags(dataset: Any, band: int, name: str) -> dict[str, str]:
    """Return wavelength, FWHM and units of a band.

    They are taken from GDAL's IMAGERY tags, else from tags copied from an ENVI header, else from
    a band name such as "650.5 nm".
    """
    central = dataset.tags(band, ns="IMAGERY")
    if "CENTRAL_WAVELENGTH_UM" in central:
        found = {"wavelength": central["CENTRAL_WAVELENGTH_UM"], "units": "Micrometers"}
        return found | ({"fwhm": central["FWHM_UM"]} if "FWHM_UM" in central else {})
    own = {
        key.lower().replace("_", " "): printable(text) for key, text in dataset.tags(band).items()
    }
    if "wavelength" in own:
        found = {key: own[key] for key in ("wavelength", "fwhm") if key in own}
        return found | {"units": own.get("wavelength units", "")}
    number, _, units = name.partition(" ")
    is_number = number.isascii() and number.replace(".", "", 1).isdigit()
    is_wavelength = is_number and units.lower() in _WAVELENGTH_UNITS
    return {"wavelength": number, "units": units} if is_wavelength else {}


def _of_all(tags: Sequence[Mapping[str, str]], name: str) -> Names | None:
    return tuple(own[name] for own in tags) if all(name in own for own in tags) else None


def write_geotiff(path: Path, bands: Any, names: Names, nodata: float, place: Place) -> None:
    """Write an image (height, width, bands) with the names of its bands, compressed.

    The georeference must be in GDAL's terms, see `orthoplus.io.georeference`.
    """
    write_atomically(path, lambda file: _write(file, bands, names, nodata, place))


def write_class_geotiff(
    path: Path, classes: Any, names: Names, colors: Sequence[tuple[int, int, int]], place: Place
) -> None:
    """Write a map of classes 0, 1, ... with names and colors.

    The largest value of the integer type marks pixels without data. TIFF cannot store the names
    of classes; they are written to ``path.aux.xml``, which GDAL and QGIS read.
    """
    nodata = int(np.iinfo(classes.dtype).max)
    table: dict[int, tuple[int, ...]] = {nodata: (0, 0, 0, 0)}
    table |= {value: (*color, 255) for value, color in enumerate(colors)}
    beside = path.with_name(f"{path.name}.aux.xml")
    write_atomically(
        path,
        lambda file: _write(file, classes[..., None], ("material",), nodata, place, colors=table),
    )
    write_atomically(beside, lambda file: file.write(_class_names(names)))


def _write(
    file: IO[bytes],
    bands: Any,
    names: Names,
    nodata: float,
    place: Place,
    *,
    colors: dict[int, tuple[int, ...]] | None = None,
) -> None:
    """Write the image with rasterio over an empty temporary file, which is then renamed."""
    rasterio = require("rasterio", "Writing GeoTIFF images", extra="geo")
    height, width, count = bands.shape
    options: dict[str, Any] = {"compress": "deflate", "BIGTIFF": "IF_SAFER"}
    if place.crs:
        options["crs"] = rasterio.crs.CRS.from_wkt(place.crs)
    if place.transform:
        options["transform"] = rasterio.Affine(*place.transform)
    # rasterio warns about images without a georeference.
    with warnings.catch_warnings(action="ignore"), rasterio.open(
        path_of(file), "w", driver=_DRIVER, height=height, width=width, count=count,
        dtype=bands.dtype, nodata=nodata, interleave="band", **options,
    ) as dataset:  # fmt: skip
        for i, name in enumerate(names):
            dataset.write(bands[..., i], i + 1)
            dataset.set_band_description(i + 1, name)
        if colors is not None:
            dataset.write_colormap(1, colors)


def _class_names(names: Names) -> bytes:
    root = ET.Element("PAMDataset")
    categories = ET.SubElement(ET.SubElement(root, "PAMRasterBand", band="1"), "CategoryNames")
    for name in names:
        ET.SubElement(categories, "Category").text = name
    return ET.tostring(root, encoding="utf-8")
