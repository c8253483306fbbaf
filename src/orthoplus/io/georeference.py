"""Where an image lies, from the fields of an ENVI header to GDAL's terms and back, by GDAL."""

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
    """Return a place in the terms of a format, "envi" or "geotiff"; ``path`` is for errors."""
    if not place.is_known or (place.envi if format == "envi" else not place.envi):
        return place
    rasterio = require("rasterio", "Converting where an image lies", extra="geo")
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
            probe = Path(folder, "probe")
            found = _to_envi if format == "envi" else _to_gdal
            return found(rasterio, probe, place)
    except rasterio.errors.RasterioError as error:
        raise FileError(
            f"`{path}`: where the image lies cannot be written as {format} ({error})."
        ) from error


def _to_gdal(rasterio: Any, probe: Path, place: Place) -> Place:
    """Return coordinate system and transform, as GDAL reads them from a tiny image."""
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
    """Return the fields that GDAL writes into the header of a tiny image."""
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
