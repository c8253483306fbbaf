"""Draw the pictures of the tables as PNG."""

from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

from orthoplus.core.result import HistoryRow
from orthoplus.core.types import FloatArray
from orthoplus.report.pictures import new_figure
from orthoplus.report.svg import hue

_DPI = 110
_CELL = 1.35
_TOP_QUANTILE = 0.995
# The eye does not distinguish more than sixteen levels of a map here, and the noise in more levels
# makes the files three times as large. The palette holds these levels and gray edges of letters.
_N_LEVELS = 16
_N_COLORS = 64


def draw_convergence(file: IO[bytes], paths: Mapping[str, Sequence[HistoryRow]]) -> None:
    """Draw sigma, violation and objective over the outer iterations, one line per data set."""
    figure = new_figure(10.0, 3.4)
    axes = figure.subplots(1, 3)
    panels = (("sigma", "sigma, the penalty"), ("violation", "violation, ||XV||² - 1"),
              ("value", "objective, share of ||A||²"))  # fmt: skip
    for axis, (key, title) in zip(axes, panels, strict=True):
        for j, (name, history) in enumerate(paths.items()):
            values = np.array([getattr(row, key) for row in history], dtype=float)
            values[values <= 0] = np.nan
            axis.plot([row.n_iter for row in history], values, color=hue(j), label=name, lw=1.4)
        if key != "value":
            axis.set_yscale("log")
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_xlabel("outer iteration", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right", fontsize=8,
                  frameon=False)  # fmt: skip
    _save(figure, file)


def draw_abundances(
    file: IO[bytes],
    maps: Mapping[str, FloatArray],
    names: Sequence[str],
    size: tuple[int, int],
) -> None:
    """Draw maps with a row per material and a column per method, ground truth first."""
    k = len(names)
    height = _CELL * size[0] / size[1]
    figure = new_figure(_CELL * len(maps) + 0.7, (height + 0.05) * k + 0.5)
    axes = np.atleast_2d(figure.subplots(k, len(maps)))
    for column, (method, values) in enumerate(maps.items()):
        for row in range(k):
            _show_map(axes[row, column], values[:, row].reshape(size))
        axes[0, column].set_title(method, fontsize=9)
    for row, name in enumerate(names):
        axes[row, 0].set_ylabel(name, fontsize=9)
    _save(figure, file)


def _show_map(axis: Any, image: FloatArray) -> None:
    from matplotlib import colormaps

    used = image[image > 0]
    top = float(np.quantile(used, _TOP_QUANTILE)) if used.size else 1.0
    colors = colormaps["magma"].resampled(_N_LEVELS)
    axis.imshow(image, cmap=colors, vmin=0.0, vmax=top, interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


def _save(figure: Any, file: IO[bytes]) -> None:
    """Save a figure as PNG with a palette, which makes the file much smaller."""
    from PIL import Image

    figure.set_dpi(_DPI)
    figure.canvas.draw()
    pixels = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    pixels.quantize(_N_COLORS, Image.Quantize.MEDIANCUT).save(file, format="png", optimize=True)
