"""Draw slices of a label volume, as SVG for a page and as a PNG picture."""

from typing import IO, Any

import numpy as np

from orthoplus.core.extras import require
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.report.figures import WIDTH
from orthoplus.report.pictures import new_figure
from orthoplus.report.svg import QUIET, canvas

_PER_AXIS = 4
_DPI = 110
_INK = "#1f2937"
# Views and the axis they cut across. Left is shown left; anterior and superior are up.
_VIEWS = (("axial", 2, "z"), ("coronal", 1, "y"), ("sagittal", 0, "x"))


def slice_figure(labels_img: Any, colors: Any) -> str:
    """Return the slices as SVG."""
    volume, affine = _canonical(labels_img)
    ratios = _heights(volume, affine)
    with canvas("slices", WIDTH, WIDTH * (0.22 * sum(ratios) + 0.2)) as drawn:
        axes = drawn.figure.subplots(len(_VIEWS), _PER_AXIS, height_ratios=ratios)
        _show(axes, volume, affine, _rgba(colors), QUIET)
        drawn.figure.set_dpi(2 * _DPI)
    return drawn.svg


def draw_slices(file: IO[bytes], labels_img: Any, colors: Any) -> None:
    """Write the slices as PNG."""
    volume, affine = _canonical(labels_img)
    ratios = _heights(volume, affine)
    figure = new_figure(8.0, 8.0 * (0.22 * sum(ratios) + 0.1))
    axes = figure.subplots(len(_VIEWS), _PER_AXIS, height_ratios=ratios)
    _show(axes, volume, affine, _rgba(colors), _INK)
    figure.savefig(file, format="png", dpi=_DPI)


def _canonical(image: Any) -> tuple[IntArray, FloatArray]:
    """Return the labeled box of the volume and its affine; axes go right, anterior and superior."""
    nibabel = require("nibabel", "A picture of slices", extra="brain")
    turned = nibabel.as_closest_canonical(image)
    ends = [_extent(np.asarray(turned.dataobj), axis) for axis in range(3)]
    box = turned.slicer[tuple(slice(low, high + 1) for low, high in ends)]
    return np.asarray(box.dataobj).astype(int), np.asarray(box.affine)


def _extent(volume: Any, axis: int) -> tuple[int, int]:
    """Return the first and the last slice with a label, or those of the volume without any."""
    others = tuple(other for other in range(3) if other != axis)
    inside = np.flatnonzero((volume > 0).any(axis=others))
    return (int(inside[0]), int(inside[-1])) if len(inside) else (0, volume.shape[axis] - 1)


def _heights(volume: IntArray, affine: FloatArray) -> list[float]:
    """Return the ratio of height to width for each row of slices, at most 2."""
    lengths = np.array(volume.shape) * _voxel_sizes(affine)
    sides = [[lengths[other] for other in range(3) if other != axis] for _, axis, _ in _VIEWS]
    return [float(np.clip(up / across, 0.2, 2.0)) for across, up in sides]


def _voxel_sizes(affine: FloatArray) -> FloatArray:
    return np.sqrt((affine[:3, :3] ** 2).sum(axis=0))


def _rgba(colors: Any) -> FloatArray:
    """Return the colors of the labels; the background is transparent."""
    from matplotlib.colors import to_rgba

    return np.array([(0.0, 0.0, 0.0, 0.0), *(to_rgba(color) for color in list(colors)[1:])])


def slice_positions(volume: IntArray, axis: int, count: int) -> IntArray:
    """Return evenly spaced positions of slices across the labels, without the ends.

    Examples
    --------
    >>> slice_positions(np.ones((10, 1, 1), dtype=int), 0, 4)
    array([1, 3, 6, 8])
    """
    low, high = _extent(volume, axis)
    places = low + (high + 1 - low) * (np.arange(count) + 0.5) / count
    return np.minimum(places.astype(int), high)


def _show(axes: Any, volume: IntArray, affine: FloatArray, rgba: FloatArray, ink: str) -> None:
    sizes = _voxel_sizes(affine)
    for row, (name, axis, letter) in zip(axes, _VIEWS, strict=True):
        across, up = (other for other in range(3) if other != axis)
        for place, panel in zip(slice_positions(volume, axis, _PER_AXIS), row, strict=True):
            piece = np.take(volume, place, axis=axis)
            panel.imshow(
                rgba[piece.T], origin="lower", interpolation="nearest",
                aspect=float(sizes[up] / sizes[across]),
            )  # fmt: skip
            at = affine[axis, 3] + affine[axis, axis] * place
            panel.set_title(f"{letter} = {at:.0f} mm", fontsize=9, color=ink)
            panel.set(xticks=[], yticks=[])
            panel.grid(False)
            panel.spines[:].set_visible(False)
        row[0].set_ylabel(name, color=ink)
