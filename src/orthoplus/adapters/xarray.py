"""Use xarray DataArrays as images: ``orthoplus.unmix(da, 4)`` returns labeled DataArrays."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.extras import require
from orthoplus.estimators.cubes import FRACTIONS, SPECTRA, Cube
from orthoplus.io.imagery import RawImage, lacks_data, usable_lines

# Names of the spectral dimension.
SPECTRAL = ("band", "bands", "wavelength", "wavelengths", "channel", "channels", "wl", "lambda")
# Attributes in which readers store the no-data value.
_NODATA = ("_FillValue", "nodata", "missing_value")
MATERIAL = "material"


def open_cube(cube: Any, *, in_blocks: bool) -> Cube:
    """Return the pixels of a DataArray, with its dimensions in any order."""
    if not (hasattr(cube, "dims") and hasattr(cube, "data") and hasattr(cube, "coords")):
        raise InputTypeError(
            f"`cube` is a {type(cube).__name__} of xarray; a DataArray is expected. Pass one "
            f'variable of a Dataset, such as `cube["name"]`.'
        )
    bands = [dim for dim in cube.dims if str(dim).lower() in SPECTRAL]
    if len(bands) != 1 or cube.ndim not in (2, 3):
        raise InputError(
            f"`cube` has the dimensions {cube.dims}; it must have two spatial dimensions, or one "
            f"of pixels, and one named `band` or `wavelength`. Use `cube.rename(...)`."
        )
    ordered = cube.transpose(..., bands[0])
    nodata = next((cube.attrs[name] for name in _NODATA if cube.attrs.get(name) is not None), None)
    nodata = None if nodata is None else float(np.ravel(nodata)[0])
    if cube.chunks is not None:
        return _in_chunks(ordered, nodata)
    raw = _as_raw(ordered, nodata)
    lines, notes = usable_lines(raw, Path("cube"))
    label = partial(_label, ordered.isel({bands[0]: lines.bands}))
    values = lines if in_blocks else lines[:]
    if cube.ndim == 3:
        return Cube(values, None, label, notes)
    return Cube(lines[:].reshape(cube.shape[0], -1), None, label, notes)


def _as_raw(ordered: Any, nodata: float | None) -> RawImage:
    """Describe the stored image, which is read lazily; a list of pixels has width 1."""
    if ordered.dtype.kind not in "fiub":
        raise InputTypeError(f"`cube` has dtype {ordered.dtype}; real numbers are required.")
    height, n_bands = ordered.shape[0], ordered.shape[-1]
    shape = (height, ordered.shape[1] if ordered.ndim == 3 else 1, n_bands)

    def read(first: int, last: int) -> Any:
        return np.asarray(ordered[first:last].data).reshape(last - first, *shape[1:])

    is_bad = np.zeros(n_bands, dtype=bool)
    ones, zeros = np.ones(n_bands), np.zeros(n_bands)
    return RawImage(shape, ordered.dtype, read, (nodata,) * n_bands, is_bad, ones, zeros)


def _in_chunks(ordered: Any, nodata: float | None) -> Cube:
    """Return the pixels of a chunked DataArray as a Dask matrix, without computing them."""
    dask_array = require("dask.array", "A DataArray of Dask", extra="dask")
    pixels = ordered.data.reshape((-1, ordered.shape[-1])).rechunk({1: -1})
    is_empty = dask_array.map_blocks(_lacks_any, pixels, nodata, dtype=bool, drop_axis=1)
    values = dask_array.where(is_empty[:, None], 0, pixels)
    return Cube(values, tuple(ordered.shape[:-1]), partial(_label, ordered))


def _lacks_any(block: Any, nodata: float | None) -> Any:
    """Return the pixels without data in any band or, if the no-data value is 0, in all bands."""
    gaps = lacks_data(block, nodata)
    return lacks_data(block, None).any(axis=1) | gaps.all(axis=1) if nodata == 0.0 else gaps.any(1)


def _label(cube: Any, values: Any, kind: str) -> Any:
    """Return values as a DataArray with the coordinates of the cube and numbered materials."""
    *space, band = cube.dims
    dims = {FRACTIONS: (*space, MATERIAL), SPECTRA: (MATERIAL, band)}.get(kind, tuple(space))
    # Coordinates without dimensions, such as the grid mapping, are kept.
    kept = {
        name: coord
        for name, coord in cube.coords.items()
        if set(coord.dims) <= set(dims) and (coord.dims or kind != SPECTRA)
    }
    if MATERIAL in dims:
        kept[MATERIAL] = np.arange(values.shape[dims.index(MATERIAL)])
    found = type(cube)(values, dims=dims, coords=kept, name=kind if kind != "map" else None)
    found.encoding = {k: v for k, v in cube.encoding.items() if k == "grid_mapping"}
    return found
