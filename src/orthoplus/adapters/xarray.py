"""Use xarray DataArrays as images: ``orthoplus.unmix(da, 4)`` returns labeled DataArrays."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.checks import describe
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.extras import require
from orthoplus.estimators.cubes import FRACTIONS, SPECTRA, Cube
from orthoplus.io.content import Names
from orthoplus.io.imagery import (
    Gaps,
    RawImage,
    count_block_gaps,
    judge_gaps,
    may_have_gaps,
    usable_lines,
)

# Names of the spectral dimension.
SPECTRAL = ("band", "bands", "wavelength", "wavelengths", "channel", "channels", "wl", "lambda")
# Attributes in which readers store the no-data value.
_NODATA = ("_FillValue", "nodata", "missing_value")
# Attributes in which they store how integers are converted to physical values.
_PACKING = ("scale_factor", "add_offset")
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
    if MATERIAL in cube.dims:
        raise InputError(
            f"`cube` has a dimension called `{MATERIAL}`, as the results have one for the "
            f"endmembers. Use `cube.rename({MATERIAL}=...)`."
        )
    if 0 in cube.shape:
        raise InputError(f"`cube` has shape {cube.shape}: it has no pixels or no bands.")
    ordered = cube.transpose(..., bands[0])
    nodata = _nodata(cube)
    if cube.chunks is not None:
        _check_real(ordered)
        return _in_chunks(ordered, nodata)
    raw = _as_raw(ordered, nodata)
    lines, notes = usable_lines(raw, Path("cube"))
    usable = ordered.isel({bands[0]: lines.bands})
    about: Any = (None, partial(_label, usable), notes, _band_coordinates(usable))
    if cube.ndim == 3:
        return Cube(lines if in_blocks else lines[:], *about)
    return Cube(lines[:].reshape(ordered.shape[0], -1), *about)


def read_spectra(spectra: Any, bands: Any) -> Any:
    """Return the values of labeled spectra, with the bands last and in the order of the cube."""
    if not hasattr(spectra, "data"):  # a Dataset, which is refused as such
        return spectra
    own = [dim for dim in spectra.dims if str(dim).lower() in SPECTRAL]
    if len(own) != 1:
        raise InputError(
            "`endmembers` must be a DataArray with a dimension `band` or `wavelength`. Use "
            "`endmembers.rename(...)`, or pass `endmembers.values`."
        )
    ordered = spectra.transpose(..., own[0])
    found = _band_coordinates(ordered)
    if bands is not None and found is not None and not _are_same(found, bands):
        raise InputError(
            f"`endmembers` has other coordinates of `{own[0]}` than `cube`, or in another order. "
            f"Select or interpolate those of the cube, or pass `endmembers.values` if only the "
            f"coordinates are wrong."
        )
    return ordered.values


def _band_coordinates(cube: Any) -> Any:
    """Return the coordinates of the last dimension, or None."""
    name = cube.dims[-1]
    return np.asarray(cube.coords[name]) if name in cube.coords else None


def _are_same(coordinates: Any, others: Any) -> bool:
    """Return whether coordinates are equal up to the rounding of float32."""
    if coordinates.shape == others.shape and {coordinates.dtype.kind, others.dtype.kind} <= set(
        "iuf"
    ):
        return np.allclose(coordinates, others, rtol=1e-6, atol=0.0)
    return np.array_equal(coordinates, others)


def _as_raw(ordered: Any, nodata: float | None) -> RawImage:
    """Describe the stored image, which is read lazily; a list of pixels has width 1."""
    _check_real(ordered)
    height, n_bands = ordered.shape[0], ordered.shape[-1]
    shape = (height, ordered.shape[1] if ordered.ndim == 3 else 1, n_bands)

    def read(first: int, last: int) -> Any:
        return np.asarray(ordered[first:last].data).reshape(last - first, *shape[1:])

    is_bad = np.zeros(n_bands, dtype=bool)
    gains, offsets = (np.full(n_bands, value) for value in _packing(ordered))
    return RawImage(shape, ordered.dtype, read, (nodata,) * n_bands, is_bad, gains, offsets)


def _nodata(cube: Any) -> float | None:
    """Return the value of pixels without data; NaN and infinity count as such in any case."""
    given = {name: cube.attrs[name] for name in _NODATA if cube.attrs.get(name) is not None}
    values: set[float] = set()
    for name, value in given.items():
        try:
            numbers = [float(entry) for entry in np.ravel(value).tolist() if entry is not None]
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"`cube` has the attribute {name}={describe(value)}; a number is expected. Set "
                f"pixels without data to NaN yourself, and remove the attribute."
            ) from error
        with np.errstate(over="ignore"):  # a value beyond the range of float32 becomes infinite
            stored = np.asarray(numbers).astype(cube.dtype if cube.dtype.kind == "f" else float)
        values |= {float(number) for number in stored if np.isfinite(number)}
    if len(values) > 1:
        raise InputError(
            f"`cube` has several values without data in its attributes, {sorted(values)}; one is "
            f"expected. Set these pixels to NaN yourself, and remove {' and '.join(given)}."
        )
    return next(iter(values), None)


def _check_real(cube: Any) -> None:
    if cube.dtype.kind not in "fiub":
        raise InputTypeError(f"`cube` has dtype {cube.dtype}; real numbers are required.")
    is_other = {"true": cube.dtype.kind == "i", "false": cube.dtype.kind == "u"}
    if is_other.get(str(cube.attrs.get("_Unsigned")).lower(), False):
        raise InputError(
            f"`cube` has the attribute _Unsigned={cube.attrs['_Unsigned']!r}, but its values are "
            f"of type {cube.dtype}. Open it with `mask_and_scale=True`, which converts them."
        )


def _in_chunks(ordered: Any, nodata: float | None) -> Cube:
    """Return the pixels of a chunked DataArray as a Dask matrix; only its gaps are computed."""
    dask_array = require("dask.array", "A DataArray of Dask", extra="dask")
    n_bands, gain, offset = ordered.shape[-1], *_packing(ordered)
    pixels = ordered.data.reshape((-1, n_bands)).rechunk({1: -1})
    size = tuple(ordered.shape[:-1])
    notes: Names = ()
    if may_have_gaps(pixels.dtype, [nodata]):
        is_dead, is_empty, notes = judge_gaps(
            _gaps_of_chunks(pixels, [nodata] * n_bands), [nodata] * n_bands, Path("cube")
        )
        bands = np.flatnonzero(~is_dead)
        ordered, pixels = ordered.isel({ordered.dims[-1]: bands}), pixels[:, bands]
        empty = dask_array.from_array(is_empty, chunks=(pixels.chunks[0],))
        pixels = dask_array.where(empty[:, None], 0, _unpacked(pixels, gain, offset))
    else:
        pixels = _unpacked(pixels, gain, offset)
    return Cube(pixels, size, partial(_label, ordered), notes, _band_coordinates(ordered))


def _gaps_of_chunks(pixels: Any, nodata: list[float | None]) -> Gaps:
    """Count the gaps in one pass over the chunks."""
    dask = require("dask", "A DataArray of Dask", extra="dask")
    count = dask.delayed(count_block_gaps)
    parts = dask.compute(*(count(block, nodata) for block in pixels.to_delayed().ravel()))
    per_pixel, per_band, certain_per_pixel, certain_per_band = zip(*parts, strict=True)
    return Gaps(
        np.concatenate(per_pixel), sum(per_band), np.concatenate(certain_per_pixel),
        sum(certain_per_band),
    )  # fmt: skip


def _unpacked(pixels: Any, gain: float, offset: float) -> Any:
    return pixels if (gain, offset) == (1.0, 0.0) else pixels * gain + offset


def _packing(cube: Any) -> tuple[float, float]:
    """Return the scale and the offset of packed integers, by the CF conventions.

    Values that are not integers may have been unpacked before, with the attributes left over.
    """
    found = []
    for name, neutral in zip(_PACKING, (1.0, 0.0), strict=True):
        given = cube.attrs.get(name)
        values = np.unique(np.asarray(neutral if given is None else given))
        if len(values) != 1 or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
            raise InputError(
                f"`cube` has the attribute {name}={given!r}; a number is expected. Convert the "
                f"values yourself, and remove the attribute."
            )
        found.append(float(values[0]))
    gain, offset = found
    if (gain, offset) == (1.0, 0.0):
        return gain, offset
    if gain == 0.0 or cube.dtype.kind == "f":
        raise InputError(
            f"`cube` has scale_factor={gain:g} and add_offset={offset:g} in its attributes, but "
            f"its values are of type {cube.dtype}, so it is unclear whether these were applied. "
            f"Open it with `mask_and_scale=True`, or remove the attributes if they were."
        )
    return gain, offset


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
