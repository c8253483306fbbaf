"""The pictures of the reports: each takes arrays and gives SVG."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.report.svg import ACCENT, INK, LINE, QUIET, WARM, canvas, hue

# Inches; letters of 10 points are still read when a phone shows it at its own width.
WIDTH = 6.0
# More points than these are drawn as one picture.
_VECTOR_POINTS = 600
_MAP_DPI = 160
_NAME_LENGTH = 24


def explained_bar(explained: float, most: float) -> str:
    """How much of the sum of squares is explained, on a scale that ends where the bound proves."""
    with canvas("explained", WIDTH, 0.85) as drawn:
        axis = drawn.figure.subplots()
        axis.barh([0], [1.0], color=LINE, height=0.5)
        axis.barh([0], [explained], color=ACCENT, height=0.5)
        axis.plot([most, most], [-0.42, 0.42], color=WARM, linewidth=2.5)
        axis.set(xlim=(0, 1), ylim=(-0.5, 0.5), yticks=[])
        axis.grid(False)
        axis.spines[:].set_visible(False)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return drawn.svg


def proof_curve(history: Sequence[dict[str, Any]], total: float) -> str:
    """Draw the share that is explained, and the share that is possible at most, over time."""
    seconds = np.maximum([row["seconds"] for row in history], 1e-3)
    shares = {
        name: 1.0 - np.array([row[key] for row in history]) / total
        for name, key in (("possible at most", "bound"), ("explained", "value"))
    }
    with canvas("proof", WIDTH, 2.4) as drawn:
        axis = drawn.figure.subplots()
        for (name, share), color in zip(shares.items(), (WARM, ACCENT), strict=True):
            axis.step(seconds, share, where="post", color=color, linewidth=1.8, label=name)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:.1%}")
        axis.set(xlabel="seconds", ylabel="")
        axis.legend(fontsize=9.0)
    return drawn.svg


def size_bars(sizes: IntArray) -> str:
    """The number of rows of each cluster."""
    k = len(sizes)
    with canvas("sizes", WIDTH, 2.4) as drawn:
        axis = drawn.figure.subplots()
        bars = axis.bar(range(k), sizes, color=[hue(j) for j in range(k)], width=0.75)
        if k <= 25:
            axis.bar_label(bars, color=QUIET, fontsize=8.0, padding=2)
        _count_ticks(axis, k)
        axis.set(xlabel="cluster", ylabel="rows")
        axis.grid(False, axis="x")
        axis.margins(x=0.01, y=0.15)
    return drawn.svg


def sample_map(points: FloatArray, labels: IntArray, centres: dict[int, FloatArray]) -> str:
    """Rows as points in the plane, coloured by cluster; a number at the centre of each."""
    with canvas("map", WIDTH, 4.5) as drawn:
        axis = drawn.figure.subplots()
        colours = [hue(int(j)) for j in labels]
        axis.scatter(
            points[:, 0], points[:, 1], s=9, c=colours, alpha=0.75, linewidths=0,
            rasterized=len(points) > _VECTOR_POINTS,
        )  # fmt: skip
        for j, centre in centres.items():
            axis.text(
                *centre, str(j), color="white", fontsize=8.5, ha="center", va="center",
                bbox={"boxstyle": "circle,pad=0.25", "facecolor": hue(j), "edgecolor": "white"},
            )  # fmt: skip
        axis.set(xticks=[], yticks=[], xlabel="first direction", ylabel="second direction")
        axis.grid(False)
        drawn.figure.set_dpi(_MAP_DPI)
    return drawn.svg


def convergence(history: Sequence[dict[str, Any]], total: float) -> str:
    """sigma, violation and objective over the outer iterations; those that are not 0 throughout."""
    steps = [row["n_iter"] for row in history]
    every = (
        ("sigma, the penalty", [row["sigma"] for row in history], True),
        ("violation", [row["violation"] for row in history], True),
        ("objective", [row["value"] / total for row in history], False),
    )
    panels = [panel for panel in every if (np.nan_to_num(panel[1]) != 0).any()] or every[-1:]
    with canvas("convergence", WIDTH, 2.3) as drawn:
        axes = np.atleast_1d(drawn.figure.subplots(1, len(panels)))
        for axis, (title, values, is_log) in zip(axes, panels, strict=True):
            numbers = np.array(values, dtype=float)
            if is_log:
                numbers = np.where(numbers > 0, numbers, np.nan)
            axis.plot(steps, numbers, color=ACCENT, linewidth=1.8, marker="o", markersize=2.2)
            if is_log and _spans_decades(numbers):
                axis.set_yscale("log")
                axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
                axis.yaxis.set_minor_formatter(lambda value, _: "")
            axis.set_title(title, loc="left", fontsize=9.5)
            axis.set_xlabel("iteration", fontsize=8.5)
            axis.xaxis.get_major_locator().set_params(integer=True, nbins=6)
            axis.tick_params(labelsize=8)
    return drawn.svg


def confusion(counts: IntArray, classes: Sequence[str]) -> str:
    """Rows of each class in each cluster, as shares of the class."""
    n_classes, k = counts.shape
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with canvas("confusion", WIDTH, min(1.2 + 0.32 * n_classes, 9.0)) as drawn:
        axis = drawn.figure.subplots()
        # Blue of the strength of the share over whatever the page's color is.
        blue = np.broadcast_to([0.23, 0.51, 0.77], (*shares.shape, 3))
        axis.imshow(np.dstack([blue, shares]), aspect="auto")
        for i in range(n_classes if n_classes * k <= 400 else 0):
            for j in range(k):
                if counts[i, j]:
                    axis.text(
                        j, i, str(counts[i, j]), ha="center", va="center", fontsize=8,
                        color="white" if shares[i, j] > 0.6 else INK,
                    )  # fmt: skip
        if n_classes <= 40:
            axis.set_yticks(range(n_classes), [shorten(name) for name in classes])
        _count_ticks(axis, k)
        axis.set(xlabel="cluster", ylabel="true class")
        axis.grid(False)
    return drawn.svg


def image_grid(name: str, images: Sequence[FloatArray], titles: Sequence[str], most: int) -> str:
    """Images beside one another, each on its own scale from zero, and under each its title."""
    columns = min(len(images), most)
    rows = -(-len(images) // columns)
    height, width = images[0].shape
    cell = WIDTH / columns
    with canvas(name, WIDTH, rows * (cell * min(height / width, 2.5) + 0.3)) as drawn:
        axes = np.atleast_1d(drawn.figure.subplots(rows, columns)).ravel()
        for axis in axes:
            axis.set_axis_off()
        for axis, image, title in zip(axes, images, titles, strict=False):
            top = float(np.max(image)) or 1.0
            axis.imshow(image, cmap="magma", vmin=0.0, vmax=top, interpolation="nearest")
            axis.set_title(title, fontsize=min(9.0, 60.0 / columns + 2.0), color=QUIET)
    return drawn.svg


def fraction_maps(
    abundances: FloatArray, labels: IntArray, titles: Sequence[str], most: int
) -> str:
    """Draw the material of each pixel and the fractions of each material, with a color bar."""
    height, width, k = abundances.shape
    rows = -(-(k + 1) // most)
    columns = -(-(k + 1) // rows)
    cell = (WIDTH - 0.6) / columns
    with canvas("maps", WIDTH, rows * (cell * min(height / width, 2.5) + 0.3)) as drawn:
        axes = np.atleast_1d(drawn.figure.subplots(rows, columns)).ravel()
        last = show_fractions(axes, abundances, labels)
        for axis, title in zip(axes, ("largest fraction", *titles), strict=False):
            axis.set_title(title, fontsize=min(9.0, 24.0 / columns + 2.0), color=QUIET)
        bar = drawn.figure.colorbar(last, ax=axes.tolist(), fraction=0.05, pad=0.02)
        bar.set_label("fraction", fontsize=8.5)
        bar.ax.tick_params(labelsize=8)
        drawn.figure.set_dpi(_MAP_DPI)
    return drawn.svg


def show_fractions(axes: Any, abundances: FloatArray, labels: IntArray) -> Any:
    """Show the materials in the colors of their spectra, then fractions from 0 to 1; the last."""
    from matplotlib.colors import to_rgba

    colors = np.array([*(to_rgba(hue(j)) for j in range(abundances.shape[2])), (0, 0, 0, 0)])
    for axis in axes:
        axis.set_axis_off()
    axes[0].imshow(colors[labels], interpolation="nearest")
    drawn = None
    for j, axis in zip(range(abundances.shape[2]), axes[1:], strict=False):
        drawn = axis.imshow(
            abundances[..., j], cmap="magma", vmin=0.0, vmax=1.0, interpolation="nearest"
        )
    return drawn


def spectra(components: FloatArray, bands: Sequence[str] | None, names: Sequence[str]) -> str:
    """One line a spectrum, over the wavelengths where these are known."""
    x, label = band_axis(bands, components.shape[1])
    with canvas("spectra", WIDTH, 3.4) as drawn:
        axis = drawn.figure.subplots()
        for j, row in enumerate(components):
            axis.plot(x, row, color=hue(j), linewidth=1.9, label=shorten(names[j]))
        axis.set(xlabel=label, ylabel="as in the image")
        axis.margins(x=0.01)
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    return drawn.svg


def shorten(name: str) -> str:
    """A name that fits beside a picture."""
    flat = " ".join(name.split())
    return flat if len(flat) <= _NAME_LENGTH else flat[: _NAME_LENGTH - 1] + "…"


def band_axis(bands: Sequence[str] | None, n: int) -> tuple[FloatArray, str]:
    """Where the bands stand: at their wavelengths, or one after another."""
    try:
        return np.array([float(band) for band in bands or ()]).reshape(n), "wavelength"
    except ValueError:
        return np.arange(1.0, n + 1), "band"


def _spans_decades(numbers: FloatArray) -> bool:
    """Whether a logarithmic axis would have two labels or more."""
    known = numbers[np.isfinite(numbers)]
    return len(known) > 0 and float(known.max()) >= 30.0 * float(known.min())


def _count_ticks(axis: Any, k: int) -> None:
    step = 1 if k <= 25 else -(-k // 20)
    axis.set_xticks(range(0, k, step), [str(j) for j in range(0, k, step)])
