"""Write labels and weights of brain images: NIfTI volumes and GIFTI surfaces, with nibabel."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from orthoplus.core.atomic import write_atomically
from orthoplus.core.errors import FileError
from orthoplus.core.extras import require
from orthoplus.core.types import FloatArray

# How BIDS, FreeSurfer and the Connectome Workbench mark the hemisphere in file names.
_HEMISPHERES = {
    "left": ("hemi-l", "lh.", ".l.", "_lh", "left"),
    "right": ("hemi-r", "rh.", ".r.", "_rh", "right"),
}


def is_surface_file(path: str | Path) -> bool:
    """Return whether the name of a file says that it holds data on a surface.

    Examples
    --------
    >>> is_surface_file("sub-1_hemi-L.func.gii"), is_surface_file("sub-1.nii.gz")
    (True, False)
    """
    return str(path).lower().endswith((".gii", ".gii.gz"))


def hemisphere_of(path: str | Path) -> str:
    """Return "left" or "right", depending on the name of a file.

    Examples
    --------
    >>> hemisphere_of("sub-1_hemi-L_thickness.shape.gii"), hemisphere_of("rh.area.gii")
    ('left', 'right')
    """
    name = Path(path).name.lower()
    found = [side for side, signs in _HEMISPHERES.items() if any(sign in name for sign in signs)]
    if len(found) != 1:
        raise FileError(
            f"The name of `{path}` does not say which hemisphere it is; include `hemi-L` or "
            f"`hemi-R` in the file name."
        )
    return found[0]


def write_volume(path: Path, image: Any) -> None:
    """Write an image as .nii.gz; equal images give identical files. Unknown units become mm."""
    if image.header.get_xyzt_units()[0] == "unknown":
        image.header.set_xyzt_units("mm", "sec")
    packed = gzip.compress(image.to_bytes(), mtime=0)  # no time stamp: reproducible bytes
    write_atomically(path, lambda file: file.write(packed))


def write_labels(path: Path, labels: Any, lut: Any) -> None:
    """Write the labels of the vertices of one hemisphere as .label.gii, with names and colors."""
    gifti = require("nibabel", "A surface", extra="brain").gifti
    table = gifti.GiftiLabelTable()
    for number, name, color in zip(lut["index"], lut["name"], lut["color"], strict=True):
        red, green, blue = (int(color[at : at + 2], 16) / 255.0 for at in (1, 3, 5))
        label = gifti.GiftiLabel(int(number), red, green, blue, float(number > 0))
        label.label = str(name)
        table.labels.append(label)
    values = np.asarray(labels).ravel().astype(np.int32)
    array = gifti.GiftiDataArray(values, intent="NIFTI_INTENT_LABEL", datatype="int32")
    _write_gifti(path, gifti.GiftiImage(darrays=[array], labeltable=table))


def write_map(path: Path, values: FloatArray) -> None:
    """Write one value per vertex of a hemisphere as .shape.gii."""
    gifti = require("nibabel", "A surface", extra="brain").gifti
    array = gifti.GiftiDataArray(
        np.asarray(values).ravel().astype(np.float32),
        intent="NIFTI_INTENT_SHAPE",
        datatype="float32",
    )
    _write_gifti(path, gifti.GiftiImage(darrays=[array]))


def _write_gifti(path: Path, image: Any) -> None:
    raw = image.to_bytes()
    write_atomically(path, lambda file: file.write(raw))
