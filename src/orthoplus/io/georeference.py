"""Convert the georeference of an image between ENVI header fields and GDAL's terms."""

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.extras import require
from orthoplus.io.envi import PLACE_FIELDS
from orthoplus.io.envi_header import read_header
from orthoplus.io.imagery import Place

_DRIVER = "ENVI"


def place_for(place: Place, format: str, path: Path) -> Place:
    """Convert a georeference to the terms of a format, "envi" or "geotiff".

    GDAL does the conversion: a tiny image is written in one form and read in the other. Error
    messages mention ``path``.
    """
    if not place.is_known or (place.envi if format == "envi" else not place.envi):
        return place
    rasterio = require("rasterio", "Converting a georeference", extra="geo")
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
            probe = Path(folder, "probe")
            found = _to_envi if format == "envi" else _to_gdal
            return found(rasterio, probe, place)
    except rasterio.errors.RasterioError as error:
        raise FileError(
            f"`{path}`: the georeference cannot be written as {format} ({error})."
        ) from error


def _to_gdal(rasterio: Any, probe: Path, place: Place) -> Place:
    """Return the coordinate system and transform that GDAL reads from a tiny ENVI image."""
    probe.write_bytes(bytes(4))
    lines = ["ENVI", "samples = 2", "lines = 2", "bands = 1", "data type = 1", "interleave = bsq"]
    lines += [f"{name} = {text}" for name, text in place.envi.items()]
    probe.with_suffix(".hdr").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with rasterio.open(probe, driver=_DRIVER, sharing=False) as dataset:
        is_placed = not dataset.transform.is_identity
        return Place(
            dataset.crs.to_wkt() if dataset.crs else None,
            tuple(map(float, dataset.transform[:6])) if is_placed else None,
        )


def _to_envi(rasterio: Any, probe: Path, place: Place) -> Place:
    """Return the fields that GDAL writes to the header of a tiny ENVI image."""
    options: dict[str, Any] = {}
    if place.crs:
        options["crs"] = rasterio.crs.CRS.from_wkt(place.crs)
    if place.transform:
        options["transform"] = rasterio.Affine(*place.transform)
    with rasterio.open(
        probe, "w", driver=_DRIVER, width=1, height=1, count=1, dtype="uint8", **options
    ) as dataset:
        dataset.write(np.zeros((1, 1, 1), dtype=np.uint8))
    fields = read_header(probe.with_suffix(".hdr")).fields
    return Place(envi={name: fields[name] for name in PLACE_FIELDS if name in fields})
