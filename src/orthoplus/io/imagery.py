"""Hold the metadata of an image file, and read its lines with gaps and bad bands removed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.errors import FileError
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.io import guard
from orthoplus.io.content import Content, Names

# Bytes of the block of lines that is searched at a time for pixels without data.
_SCANNED_BYTES = 1 << 25


@dataclass(frozen=True)
class Place:
    """The georeference of an image.

    Attributes
    ----------
    crs : str, optional
        The coordinate system as WKT.
    transform : tuple of six float, optional
        (a, b, c, d, e, f): column i and row j of the image are at x = ai + bj + c, y = di + ej + f.
    envi : mapping
        The same information as fields of an ENVI header, verbatim.

    Examples
    --------
    >>> Place(transform=(30.0, 0.0, 5e5, 0.0, -30.0, 4e6)).is_known, Place().is_known
    (True, False)
    """

    crs: str | None = None
    transform: tuple[float, ...] | None = None
    envi: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Return whether the image has any georeference."""
        return bool(self.crs or self.transform or self.envi)


@dataclass(frozen=True, eq=False)
class Imagery:
    """The metadata of an image file; lists have one entry per band that is used.

    Attributes
    ----------
    format : {"envi", "geotiff"}
        The format of the file.
    path : Path
        The file that holds the numbers.
    band_numbers : tuple of int
        The numbers of the bands in the file, from 1.
    band_names, wavelengths, fwhm : tuple of str, optional
        As written in the file.
    units : str
        Units of the wavelengths, as written in the file; empty if unknown.
    quantity : str
        The quantity after scaling: "reflectance", or empty if unknown.
    nodata : float, optional
        The value of pixels without data.
    place : Place
        The georeference.
    notes : tuple of str
        Sentences about information in the file that is not used.

    Examples
    --------
    >>> scene = Imagery("envi", Path("a.img"), (1, 3), wavelengths=("450", "650"))
    >>> scene.units, scene.place.is_known
    ('', False)
    """

    format: str
    path: Path
    band_numbers: tuple[int, ...]
    band_names: Names | None = None
    wavelengths: Names | None = None
    fwhm: Names | None = None
    units: str = ""
    quantity: str = ""
    nodata: float | None = None
    place: Place = field(default_factory=Place)
    notes: Names = ()

    @property
    def bands(self) -> Names | None:
        """Return the wavelengths, or the names of the bands if there are none."""
        return self.wavelengths or self.band_names


class RawImage(NamedTuple):
    """An image as stored in its file: ``read(first, last)`` returns (lines, width, bands).

    ``nodata`` has the value of pixels without data for each band, or None; ``gains`` and
    ``offsets``, one per band, convert stored numbers to physical values; ``is_bad`` marks unusable
    bands; ``block`` is the number of lines that are stored together.
    """

    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    read: Callable[[int, int], Any]
    nodata: tuple[float | None, ...]
    is_bad: BoolArray
    gains: FloatArray
    offsets: FloatArray
    block: int = 1


class ImageLines:
    """The lines of an image, read from disk when sliced, as `orthoplus.data` expects.

    Values are scaled, unusable bands are left out, and pixels without data are zero.
    """

    def __init__(self, raw: RawImage, bands: IntArray, is_empty: BoolArray) -> None:
        self.raw: RawImage = raw
        self.bands: IntArray = bands
        self.is_empty: BoolArray = is_empty
        self.shape: tuple[int, int, int] = (*raw.shape[:2], len(bands))
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if raw.dtype == np.float32 else np.float64)
        self.chunks: tuple[int, int, int] = (min(raw.block, raw.shape[0]), *self.shape[1:])
        gains, offsets = raw.gains[bands], raw.offsets[bands]
        self._gains = None if (gains == 1.0).all() else gains.astype(self.dtype)
        self._offsets = None if (offsets == 0.0).all() else offsets.astype(self.dtype)

    def __getitem__(self, lines: Any) -> FloatArray:
        first, last, _ = lines.indices(self.shape[0])
        stored = self.raw.read(first, last)
        if len(self.bands) < self.raw.shape[2]:
            stored = stored[..., self.bands]
        values = np.array(stored, dtype=self.dtype, order="C")  # converts to native byte order
        if self._gains is not None:
            values *= self._gains
        if self._offsets is not None:
            values += self._offsets
        values[self.is_empty[first:last]] = 0.0
        return values


def image_content(raw: RawImage, about: Imagery, *, in_blocks: bool, path: Path) -> Content:
    """Return an image without its bad bands and with zeros for pixels without data.

    ``about`` describes all bands of the file. The values are an array, or `ImageLines` if
    ``in_blocks``.
    """
    if not in_blocks:
        guard.check_size(about.path, raw.shape, raw.dtype)
    lines, notes = usable_lines(raw, path)
    about = _with_bands(about, lines.bands)
    values = lines if in_blocks else lines[:]
    return Content(values, None, about.bands, (*about.notes, *notes), imagery=about)


def usable_lines(raw: RawImage, path: Path) -> tuple[ImageLines, Names]:
    """Return the lines of an image without bands and pixels that have no data, and remarks.

    Takes one pass over the image, unless it cannot have gaps. Error messages mention ``path``.
    """
    bands, is_empty, notes = _find_gaps(raw, path)
    return ImageLines(raw, bands, is_empty), notes


def _with_bands(about: Imagery, bands: IntArray) -> Imagery:
    def chosen(names: Any) -> Any:
        return None if names is None else tuple(names[band] for band in bands)

    return replace(
        about,
        band_numbers=chosen(about.band_numbers),
        band_names=chosen(about.band_names),
        wavelengths=chosen(about.wavelengths),
        fwhm=chosen(about.fwhm),
    )


class Gaps(NamedTuple):
    """The number of bands without data per pixel, and of pixels without data per band.

    The second pair does not count zeros as missing, because a zero may also be a dark pixel.
    """

    per_pixel: IntArray
    per_band: IntArray
    certain_per_pixel: IntArray
    certain_per_band: IntArray


def _find_gaps(raw: RawImage, path: Path) -> tuple[IntArray, BoolArray, Names]:
    """Return the usable bands, the pixels without data, and remarks on what was left out."""
    usable = np.flatnonzero(~raw.is_bad)
    if len(usable) == 0:
        raise FileError(
            f"`{path}`: `bbl` marks all {len(raw.is_bad)} bands as bad; good bands need a 1."
        )
    notes: list[str] = []
    if len(usable) < len(raw.is_bad):
        n_bad = len(raw.is_bad) - len(usable)
        notes.append(f"{n_bad} of {len(raw.is_bad)} bands are marked as bad and were left out.")
    nodata = [raw.nodata[band] for band in usable]
    is_dead, is_empty, remarks = judge_gaps(_count_gaps(raw, usable), nodata, path)
    return usable[~is_dead], is_empty, (*notes, *remarks)


def judge_gaps(
    gaps: Gaps, nodata: Sequence[float | None], path: Path
) -> tuple[BoolArray, BoolArray, Names]:
    """Return which bands and which pixels have no data, and remarks on them.

    A band without data in any pixel is left out. A pixel is empty if it has no data in any of the
    other bands, or if it lacks data in some; gaps that are zeros do not count for the latter,
    because they may be dark pixels.
    """
    n_pixels, n_bands = gaps.per_pixel.size, gaps.per_band.size
    notes: list[str] = []
    is_dead = gaps.per_band == n_pixels
    if is_dead.all():
        raise FileError(f"`{path}` has no data: all pixels have the no-data value.")
    if is_dead.any():
        notes.append(f"{int(is_dead.sum())} bands have no data in any pixel and were left out.")
    is_empty = gaps.per_pixel == n_bands
    if is_empty.any():
        value = nodata[0] if len(set(nodata)) == 1 else None
        has_value = value is not None and np.isfinite(value)
        what = f"have the ignore value {value:g}" if has_value else "have no data"
        notes.append(f"{int(is_empty.sum())} pixels {what} and count as empty.")
    n_dead = int((gaps.certain_per_band == n_pixels).sum())
    is_partial = (gaps.certain_per_pixel > n_dead) & ~is_empty
    if is_partial.any():
        notes.append(f"{int(is_partial.sum())} pixels lack data in some bands and count as empty.")
    is_empty |= is_partial
    if is_empty.all():
        raise FileError(
            f"`{path}` has no pixel with data in all bands; mark bad bands with 0 in `bbl`."
        )
    return is_dead, is_empty, tuple(notes)


def _count_gaps(raw: RawImage, usable: IntArray) -> Gaps:
    """Count the gaps of an image, several lines at a time."""
    height, width, n_bands = raw.shape
    pixels, bands = np.zeros((2, height, width), np.int32), np.zeros((2, len(usable)), np.int64)
    found = Gaps(pixels[0], bands[0], pixels[1], bands[1])
    nodata = [raw.nodata[band] for band in usable]
    if not may_have_gaps(raw.dtype, nodata):
        return found
    lines = max(1, _SCANNED_BYTES // (width * n_bands * raw.dtype.itemsize))
    lines = lines if lines < raw.block else lines // raw.block * raw.block
    for first in range(0, height, lines):
        rows = slice(first, min(first + lines, height))
        block = np.asarray(raw.read(rows.start, rows.stop))
        own = count_block_gaps(block, nodata, usable)
        found.per_pixel[rows], found.certain_per_pixel[rows] = own.per_pixel, own.certain_per_pixel
        bands += own.per_band, own.certain_per_band
    return found


def may_have_gaps(dtype: np.dtype[Any], nodata: Sequence[float | None]) -> bool:
    """Return whether values of this type can be missing.

    Examples
    --------
    >>> may_have_gaps(np.dtype("int16"), [None, None])
    False
    """
    return dtype.kind == "f" or any(value is not None for value in nodata)


def count_block_gaps(
    block: Any, nodata: Sequence[float | None], bands: IntArray | None = None
) -> Gaps:
    """Count the gaps of a block of pixels of shape (..., bands); by default of all bands.

    Examples
    --------
    >>> gaps = count_block_gaps(np.array([[1.0, np.nan], [0.0, 0.0]]), [0.0, 0.0])
    >>> gaps.per_pixel, gaps.certain_per_pixel
    (array([1, 2], dtype=int32), array([1, 0], dtype=int32))
    """
    n_bands = len(nodata)
    pixels = np.zeros((2, *block.shape[:-1]), dtype=np.int32)
    per_band = np.zeros((2, n_bands), dtype=np.int64)
    for i, band in enumerate(range(n_bands) if bands is None else bands):
        gaps = lacks_data(block[..., band], nodata[i])
        certain = lacks_data(block[..., band], None) if nodata[i] == 0.0 else gaps
        pixels += gaps, certain
        per_band[:, i] = np.count_nonzero(gaps), np.count_nonzero(certain)
    return Gaps(pixels[0], per_band[0], pixels[1], per_band[1])


def lacks_data(values: Any, nodata: float | None) -> BoolArray:
    """Return where values are not finite, or equal the no-data value.

    Examples
    --------
    >>> lacks_data(np.array([1.0, np.nan, -9999.0]), -9999.0)
    array([False,  True,  True])
    """
    is_real = values.dtype.kind == "f"
    gaps = ~np.isfinite(values) if is_real else np.zeros(values.shape, dtype=bool)
    if nodata is None or not np.isfinite(nodata):
        return gaps
    with np.errstate(over="ignore"):  # a no-data value beyond the range of float32 becomes inf
        return np.asarray(gaps | (values == (values.dtype.type(nodata) if is_real else nodata)))
