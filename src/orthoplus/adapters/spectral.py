"""Use Spectral Python images: ``orthoplus.unmix(spectral.open_image("scene.hdr"), 4)``."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.types import FloatArray
from orthoplus.estimators.cubes import Cube
from orthoplus.io.imagery import RawImage, usable_lines


def open_cube(image: Any, *, in_blocks: bool) -> Cube:
    """Return the pixels of an image without bad bands; pixels without data are zero."""
    if not hasattr(image, "shape") or len(image.shape) != 3:
        raise InputTypeError(
            f"`cube` is a {type(image).__name__} of Spectral Python; an image (lines, samples, "
            f"bands) is expected."
        )
    metadata, n_bands = getattr(image, "metadata", None) or {}, int(image.shape[2])
    good, ignored = metadata.get("bbl"), metadata.get("data ignore value")
    is_bad = np.zeros(n_bands, dtype=bool)
    if good is not None:
        is_bad = _numbers(good, "bbl", n_bands) == 0.0
    # Spectral Python divides values by the scale factor, including the no-data value.
    scale = float(getattr(image, "scale_factor", 1.0) or 1.0)
    nodata = None if ignored is None else _numbers([ignored], "data ignore value", 1)[0] / scale
    is_open = hasattr(image, "read_subregion")
    dtype = np.dtype(np.float32 if np.dtype(image.dtype) == np.float32 else np.float64)
    read = partial(_read_lines, image) if is_open else partial(_slice_lines, np.asarray(image))
    raw = RawImage(
        (int(image.shape[0]), int(image.shape[1]), n_bands),
        dtype,
        read,
        (nodata,) * n_bands,
        is_bad,
        np.ones(n_bands),
        np.zeros(n_bands),
    )
    lines, notes = usable_lines(raw, Path(getattr(image, "filename", "cube")))
    return Cube(lines if in_blocks else lines[:], notes=notes)


def _numbers(given: Any, name: str, size: int) -> FloatArray:
    """Return a vector of this size from the metadata."""
    try:
        values = np.array(given, dtype=float)
        if values.shape == (size,):
            return values
        reason = f"shape {values.shape} instead of ({size},)"
    except (TypeError, ValueError) as error:
        reason = str(error)
    raise InputError(
        f"`cube` has {name!r} in its metadata, which is not a list of numbers of the right length "
        f"({reason}). Correct it in the header, or in `cube.metadata`."
    )


def _read_lines(image: Any, first: int, last: int) -> Any:
    return np.asarray(image.read_subregion((first, last), (0, image.shape[1])))


def _slice_lines(values: Any, first: int, last: int) -> Any:
    return values[first:last]
