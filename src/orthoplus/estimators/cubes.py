"""Images as the libraries of remote sensing hold them: who takes one apart is found by name."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

# By the package of its class, the adapter of an object. They are imported by name, since they lie
# in a room below this one: estimators know that there are such objects, not what they are.
ADAPTERS = {
    "rasterio": "orthoplus.adapters.rasterio",
    "spectral": "orthoplus.adapters.spectral",
    "xarray": "orthoplus.adapters.xarray",
}
# What maps and spectra are given back as.
FRACTIONS, MAP, SPECTRA = "fractions", "map", "spectra"


def _unlabeled(values: Any, kind: str) -> Any:
    return values


class Cube(NamedTuple):
    """Hold the numbers of an image, and how results get the labels of its axes.

    Attributes
    ----------
    values : array of shape (h, w, n_bands) or (n_pixels, n_bands)
        In memory, or read in blocks.
    size : tuple of int, optional
        (h, w) if ``values`` is the matrix of the pixels of an image.
    label : callable
        ``label(values, kind)`` returns maps of fractions (h, w, k), a map (h, w) or spectra
        (k, n_bands) as the library of the image holds them.
    notes : tuple of str
        What was left out, in words.
    """

    values: Any
    size: tuple[int, ...] | None = None
    label: Callable[[Any, str], Any] = _unlabeled
    notes: tuple[str, ...] = ()


def open_cube(cube: Any, *, in_blocks: bool) -> Cube:
    """Return the numbers of any image; those of an open file stay there if ``in_blocks``."""
    package = type(cube).__module__.partition(".")[0]
    if package not in ADAPTERS:
        return Cube(cube)
    found: Cube = import_module(ADAPTERS[package]).open_cube(cube, in_blocks=in_blocks)
    return found
