"""Use open rasterio datasets as images: ``orthoplus.unmix(dataset, 4)``."""

from pathlib import Path
from typing import Any

from orthoplus.estimators.cubes import Cube
from orthoplus.io.geotiff import describe_dataset
from orthoplus.io.imagery import usable_lines


def open_cube(dataset: Any, *, in_blocks: bool) -> Cube:
    """Return the scaled pixels of a dataset; pixels without data are zero."""
    raw, about = describe_dataset(dataset)
    lines, notes = usable_lines(raw, Path(about.path))
    return Cube(lines if in_blocks else lines[:], notes=notes)
