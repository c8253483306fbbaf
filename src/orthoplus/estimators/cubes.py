"""Images in the formats of remote sensing libraries, read by an adapter found by name."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

# Adapters by the package of an object's class. They are imported by name, so that estimators do not
# depend on them.
ADAPTERS = {
    "rasterio": "orthoplus.adapters.rasterio",
    "spectral": "orthoplus.adapters.spectral",
    "xarray": "orthoplus.adapters.xarray",
}
# Kinds of results that are converted to the format of the image.
FRACTIONS, MAP, SPECTRA = "fractions", "map", "spectra"


def _unlabeled(values: Any, kind: str) -> Any:
    return values


class Cube(NamedTuple):
    """Hold the values of an image, and a function that adds the labels of its axes to results.

    Attributes
    ----------
    values : array of shape (h, w, n_bands) or (n_pixels, n_bands)
        The values, in memory or read in blocks.
    size : tuple of int, optional
        Shape (h, w) of the image if ``values`` is a matrix of pixels.
    label : callable
        Function ``label(values, kind)`` that returns maps of fractions (h, w, k), a map (h, w) or
        spectra (k, n_bands) in the format of the image's library.
    notes : tuple of str
        Notes on what was left out.
    bands : ndarray of shape (n_bands,), optional
        The coordinates of the bands, such as wavelengths.
    """

    values: Any
    size: tuple[int, ...] | None = None
    label: Callable[[Any, str], Any] = _unlabeled
    notes: tuple[str, ...] = ()
    bands: Any = None


def open_cube(cube: Any, *, in_blocks: bool) -> Cube:
    """Return the values of any image; they are left in the file if ``in_blocks`` is True."""
    package = type(cube).__module__.partition(".")[0]
    if package not in ADAPTERS:
        return Cube(cube)
    found: Cube = import_module(ADAPTERS[package]).open_cube(cube, in_blocks=in_blocks)
    return found


def open_spectra(spectra: Any, bands: Any) -> Any:
    """Return spectra as an array (k, n_bands), after comparing their bands with those of a cube."""
    package = type(spectra).__module__.partition(".")[0]
    if package != "xarray":
        return spectra
    return import_module(ADAPTERS[package]).read_spectra(spectra, bands)
