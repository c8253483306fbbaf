"""Draw the figures of the reports; each function takes arrays and returns SVG."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.report.svg import ACCENT, GOOD, INK, LINE, QUIET, WARM, canvas, hue, ink_on

# Width in inches; on a phone, letters of 9 points are then 10 pixels high.
WIDTH = 4.6
_SMALL = 9.0
# More points than this are drawn as a bitmap.
_VECTOR_POINTS = 600
_MAP_DPI = 160
_NAME_LENGTH = 24
# Number of legend entries per row, and maximum width and height of a map in pixels.
_NAMES_PER_ROW, _MOST_PIXELS = 3, 1000
_UNITS = {"nanometers": "nm", "micrometers": "µm", "nm": "nm", "um": "µm", "microns": "µm"}
# Relative change below which a curve shows only rounding.
_MIN_RANGE = 1e-9
# Minimum distance of two numbers on a map in points, and iterations that push them apart.
_LABEL_DISTANCE, _PUSHES = 15.0, 60


def explained_bar(explained: float, most: float) -> str:
    """Draw the explained share, with a mark at its upper bound."""
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
    """Draw the explained share and its upper bound over time."""
    seconds = np.maximum([row["seconds"] for row in history], 1e-3)
    shares = {
        name: 1.0 - np.array([row[key] for row in history]) / total
        for name, key in (("upper bound", "bound"), ("explained", "value"))
    }
    with canvas("proof", WIDTH, 2.4) as drawn:
        from matplotlib.ticker import PercentFormatter

        axis = drawn.figure.subplots()
        for (name, share), color in zip(shares.items(), (WARM, ACCENT), strict=True):
            axis.step(seconds, share, where="post", color=color, linewidth=1.8, label=name)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_major_formatter(PercentFormatter(1.0))  # chooses enough decimals
        axis.set(xlabel="seconds", ylabel="")
        axis.legend(loc="best", fontsize=_SMALL)
    return drawn.svg


def size_bars(
    sizes: IntArray,
    *,
    names: tuple[str, str] = ("cluster", "rows"),
    colors: Sequence[str] | None = None,
    first: int = 0,
) -> str:
    """Draw the number of rows of each cluster; clusters are numbered from ``first``."""
    k = len(sizes)
    colors = colors or [hue(j) for j in range(k)]
    with canvas("sizes", WIDTH, 2.4) as drawn:
        axis = drawn.figure.subplots()
        bars = axis.bar(range(k), sizes, color=colors, width=0.75)
        if k * len(str(max(sizes))) <= 45:  # at most 45 digits fit next to each other
            axis.bar_label(bars, color=QUIET, fontsize=_SMALL, padding=2)
        _count_ticks(axis, k, first)
        axis.set(xlabel=names[0], ylabel=names[1])
        axis.grid(False, axis="x")
        axis.margins(x=0.01, y=0.15)
    return drawn.svg


def sample_map(
    points: FloatArray, labels: IntArray, centers: dict[int, FloatArray], rings: FloatArray
) -> str:
    """Draw rows as points colored by cluster, with cluster numbers and rings for doubtful rows."""
    with canvas("map", WIDTH, 4.0) as drawn:
        axis = drawn.figure.subplots()
        colors = [hue(int(j)) for j in labels]
        axis.scatter(
            points[:, 0], points[:, 1], s=9, c=colors, alpha=0.6, linewidths=0,
            rasterized=len(points) > _VECTOR_POINTS,
        )  # fmt: skip
        axis.scatter(
            rings[:, 0], rings[:, 1], s=34, facecolors="none", edgecolors=INK, linewidths=0.9
        )
        axis.set(xticks=[], yticks=[])
        axis.spines[["top", "right"]].set_visible(True)
        axis.grid(False)
        axis.margins(0.06)
        drawn.figure.set_dpi(_MAP_DPI)
        _number(axis, centers)
    return drawn.svg


def _number(axis: Any, centers: dict[int, FloatArray]) -> None:
    """Write the number of each cluster near its mean, with a line to it if it had to move."""
    if not centers:
        return
    # Work in points of the axes, independent of the units of the data.
    low, high = (np.array(limits) for limits in zip(axis.get_xlim(), axis.get_ylim(), strict=True))
    span = np.where(high > low, high - low, 1.0)
    size = 72.0 * np.array([WIDTH - 0.4, 3.6])
    means = (np.stack(list(centers.values())) - low) / span * size
    places = spread_out(means, size, _LABEL_DISTANCE if len(centers) > 24 else 18.0)
    for j, mean, place in zip(centers, means, places, strict=True):
        moved = float(np.hypot(*(place - mean))) > 6.0
        axis.annotate(
            str(j), mean / size * span + low, place / size * span + low, color=ink_on(hue(j)),
            fontsize=_SMALL - (1.0 if len(centers) > 24 else 0.0), ha="center", va="center",
            bbox={"boxstyle": "round,pad=0.22", "facecolor": hue(j), "edgecolor": "white"},
            arrowprops={"arrowstyle": "-", "color": hue(j), "linewidth": 1.0} if moved else None,
        )  # fmt: skip


def spread_out(places: FloatArray, size: FloatArray, distance: float) -> FloatArray:
    """Push places within the box (0, 0) to ``size`` apart until they have this distance.

    Examples
    --------
    >>> spread_out(np.array([[50.0, 50.0], [56.0, 50.0]]), np.array([100.0, 100.0]), 10.0)
    array([[48., 50.],
           [58., 50.]])
    """
    found = np.array(places, dtype=float)
    angles = 2.4 * np.arange(len(found))
    # Small distinct offsets give coinciding places a direction to move apart.
    nudges = 1e-3 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for _ in range(_PUSHES):
        apart = found[:, None] - found[None]
        lengths = np.linalg.norm(apart, axis=2)
        if (lengths + distance * np.eye(len(found)) >= distance * (1 - 1e-9)).all():
            break
        apart = np.where((lengths > 0)[..., None], apart, nudges[:, None] - nudges[None])
        lengths = np.maximum(np.linalg.norm(apart, axis=2), 1e-12)
        missing = np.maximum(distance - lengths, 0.0) / 2.0
        np.fill_diagonal(missing, 0.0)
        found += (apart / lengths[..., None] * missing[..., None]).sum(axis=1)
        found = np.clip(found, 0.0, size)
    return found


def convergence(history: Sequence[dict[str, Any]], total: float) -> str:
    """Draw sigma, violation and objective over the outer iterations; empty if none changes."""
    steps = [row["n_iter"] for row in history]
    every = (
        ("sigma, the penalty", [row["sigma"] for row in history], True),
        ("violation", [row["violation"] for row in history], True),
        ("objective", [row["value"] / total for row in history], False),
    )
    panels = [panel for panel in every if _changes(panel[1])]
    if not panels:
        return ""
    with canvas("convergence", WIDTH, 2.0 * len(panels)) as drawn:
        axes = np.atleast_1d(drawn.figure.subplots(len(panels), 1))
        for axis, (title, values, is_log) in zip(axes, panels, strict=True):
            numbers = np.array(values, dtype=float)
            if is_log:
                numbers = np.where(numbers > 0, numbers, np.nan)
            axis.plot(steps, numbers, color=ACCENT, linewidth=1.8, marker="o", markersize=2.2)
            if is_log and _spans_decades(numbers):
                axis.set_yscale("log")
                axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
                axis.yaxis.set_minor_formatter(lambda value, _: "")
            axis.set_title(title, loc="left")
            axis.xaxis.get_major_locator().set_params(integer=True, nbins=6)
        axes[-1].set_xlabel("iteration")
    return drawn.svg


def _changes(values: Sequence[float]) -> bool:
    """Return whether a curve has at least two points and a relative change above rounding."""
    known = np.array(values, dtype=float)
    known = known[np.isfinite(known)]
    return len(known) > 1 and float(np.ptp(known)) > _MIN_RANGE


def confusion(counts: IntArray, classes: Sequence[str]) -> str:
    """Draw the number of rows of each class in each cluster, colored by share of the class."""
    n_classes, k = counts.shape
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with canvas("confusion", WIDTH, min(1.2 + 0.32 * n_classes, 9.0)) as drawn:
        axis = drawn.figure.subplots()
        # The share is the opacity of blue, so that it works on light and dark pages.
        blue = np.broadcast_to([0.23, 0.51, 0.77], (*shares.shape, 3))
        axis.imshow(np.dstack([blue, shares]), aspect="auto")
        for i in range(n_classes if k <= _most_numbers(counts) else 0):
            for j in range(k):
                if counts[i, j]:
                    axis.text(
                        j, i, str(counts[i, j]), ha="center", va="center", fontsize=_SMALL,
                        color="white" if shares[i, j] > 0.6 else INK,
                    )  # fmt: skip
        if n_classes <= 40:
            axis.set_yticks(range(n_classes), [shorten(name) for name in classes])
        _count_ticks(axis, k)
        axis.set(xlabel="cluster", ylabel="true class")
        axis.grid(False)
    return drawn.svg


def _most_numbers(counts: IntArray) -> int:
    """Return how many columns leave room for numbers next to the names of the classes."""
    return 60 // (1 + len(str(counts.max())))


def image_grid(name: str, images: Sequence[FloatArray], titles: Sequence[str], most: int) -> str:
    """Draw images in a grid, each scaled from 0 to its largest value, with a color bar."""
    columns = min(len(images), most)
    rows = -(-len(images) // columns)
    height, width = images[0].shape
    cell = (WIDTH - 0.6) / columns
    with canvas(name, WIDTH, max(rows * (cell * min(height / width, 2.5) + 0.3), 1.3)) as drawn:
        axes = np.atleast_1d(drawn.figure.subplots(rows, columns)).ravel()
        for axis in axes:
            axis.set_axis_off()
        for axis, image, title in zip(axes, images, titles, strict=False):
            share = image / (float(np.max(image)) or 1.0)
            last = axis.imshow(share, cmap="magma", vmin=0.0, vmax=1.0, interpolation="nearest")
            axis.set_title(title, fontsize=_SMALL, color=QUIET)
        bar = drawn.figure.colorbar(last, ax=axes.tolist(), fraction=0.05, pad=0.02)
        bar.set_label("share of its largest", fontsize=_SMALL)
        bar.ax.tick_params(labelsize=_SMALL)
    return drawn.svg


def label_map(labels: IntArray, names: Sequence[str]) -> str:
    """Draw the material of each pixel, with a legend."""
    height, width = labels.shape
    rows = -(-len(names) // _NAMES_PER_ROW)
    size = WIDTH * min(height / width, 1.2) + 0.25 * rows + 0.1
    with canvas("materials", WIDTH, size) as drawn:
        axis = drawn.figure.subplots()
        show_labels(axis, labels, len(names))
        add_color_names(drawn.figure, names, fontsize=_SMALL, ncols=_NAMES_PER_ROW)
        drawn.figure.set_dpi(_MAP_DPI)
    return drawn.svg


def fraction_maps(
    abundances: FloatArray, labels: IntArray, titles: Sequence[str], most: int
) -> str:
    """Draw the fractions of each material, with a color bar."""
    height, width, k = abundances.shape
    rows = -(-k // most)
    columns = -(-k // rows)
    cell = (WIDTH - 0.6) / columns
    with canvas("maps", WIDTH, max(rows * (cell * min(height / width, 2.5) + 0.3), 1.3)) as drawn:
        axes = np.atleast_1d(drawn.figure.subplots(rows, columns)).ravel()
        last = show_fractions(axes, abundances, labels)
        for axis, title in zip(axes, titles, strict=False):
            axis.set_title(shorten(title), fontsize=_SMALL, color=QUIET)
        bar = drawn.figure.colorbar(last, ax=axes.tolist(), fraction=0.05, pad=0.02)
        bar.set_label("fraction", fontsize=_SMALL)
        bar.ax.tick_params(labelsize=_SMALL)
        drawn.figure.set_dpi(_MAP_DPI)
    return drawn.svg


def thinned(maps: Any) -> Any:
    """Subsample large maps to the number of pixels that can be seen.

    Examples
    --------
    >>> thinned(np.zeros((5000, 30))).shape
    (1000, 6)
    """
    step = -(-max(maps.shape[:2]) // _MOST_PIXELS)
    return maps[::step, ::step]


def show_labels(axis: Any, labels: IntArray, k: int) -> None:
    """Show the materials in the colors of their spectra; pixels without data stay empty."""
    from matplotlib.colors import to_rgba

    colors = np.array([*(to_rgba(hue(j)) for j in range(k)), (0, 0, 0, 0)])
    axis.set_axis_off()
    axis.imshow(colors[labels], interpolation="nearest")


def add_color_names(figure: Any, names: Sequence[str], **options: Any) -> None:
    """Add a legend of the colors below a figure."""
    from matplotlib.patches import Patch

    patches = [Patch(color=hue(j), label=shorten(name)) for j, name in enumerate(names)]
    figure.legend(handles=patches, loc="outside lower center", handlelength=1.0, **options)


def show_fractions(axes: Any, abundances: FloatArray, labels: IntArray) -> Any:
    """Show fractions from 0 to 1 and return the last image; pixels without data stay empty."""
    drawn, is_empty = None, labels < 0
    for axis in axes:
        axis.set_axis_off()
    for j, axis in zip(range(abundances.shape[2]), axes, strict=False):
        values = np.ma.array(abundances[..., j], mask=is_empty)
        drawn = axis.imshow(values, cmap="magma", vmin=0.0, vmax=1.0, interpolation="nearest")
    return drawn


class Axis(NamedTuple):
    """The wavelengths of spectra, their units, and the quantity of the values."""

    bands: Sequence[str] | None = None
    units: str = ""
    quantity: str = ""

    def places(self, n: int) -> tuple[FloatArray, str]:
        """Return the wavelengths, or the numbers of n bands, and the label of the axis.

        Examples
        --------
        >>> Axis(("450", "650"), "Nanometers").places(2)
        (array([450., 650.]), 'wavelength (nm)')
        """
        try:
            x = np.array([float(band) for band in self.bands or ()]).reshape(n)
        except ValueError:
            return np.arange(1.0, n + 1), "band"
        units = shorten(_UNITS.get(self.units.lower(), self.units))
        return x, f"wavelength ({units})" if units else "wavelength"

    def draw(self, axis: Any, spectra: FloatArray, names: Sequence[str]) -> None:
        """Draw one line per spectrum, in the order of the wavelengths."""
        x, label = self.places(spectra.shape[1])
        order = np.argsort(x, kind="stable")
        for j, row in enumerate(spectra):
            axis.plot(x[order], row[order], color=hue(j), linewidth=1.9, label=shorten(names[j]))
        axis.set(xlabel=label, ylabel=self.quantity or "as in the image")
        axis.margins(x=0.01)


def spectra(components: FloatArray, names: Sequence[str], about: Axis) -> str:
    """Draw one line per spectrum, over the wavelengths if these are known."""
    with canvas("spectra", WIDTH, 3.4) as drawn:
        axis = drawn.figure.subplots()
        about.draw(axis, components, names)
        add_color_names(drawn.figure, names, fontsize=_SMALL, ncols=_NAMES_PER_ROW)
    return drawn.svg


def shorten(name: str) -> str:
    """Shorten a name to fit next to a picture."""
    flat = " ".join(name.split())
    return flat if len(flat) <= _NAME_LENGTH else flat[: _NAME_LENGTH - 1] + "…"


def _spans_decades(numbers: FloatArray) -> bool:
    """Return whether a logarithmic axis would have at least two labels."""
    known = numbers[np.isfinite(numbers)]
    return len(known) > 0 and float(known.max()) >= 30.0 * float(known.min())


def _count_ticks(axis: Any, k: int, first: int = 0) -> None:
    step = next((s for s in (1, 2, 5, 10, 20, 50) if k <= 20 * s), k // 20)
    axis.set_xticks(range(0, k, step), [str(first + j) for j in range(0, k, step)])


def rank_curves(rows: Sequence[dict[str, Any]], chosen: int | None, name: str = "clusters") -> str:
    """Draw stability (above) and the unexplained share (below) over the number of clusters."""
    panels = (
        (("stability", ACCENT, "adjusted Rand index"), ("cosine", GOOD, "cosine of weights")),
        (("heldout", WARM, "hidden entries"), ("unexplained", QUIET, "all entries")),
    )
    with canvas("ranks", WIDTH, 4.0) as drawn:
        axes = drawn.figure.subplots(2, 1, sharex=True)
        for axis, curves in zip(axes, panels, strict=True):
            for key, color, curve in curves:
                points = [(row["k"], row[key]) for row in rows if row.get(key) is not None]
                if points:
                    axis.plot(*zip(*points, strict=True), "o-", color=color, ms=3.5, label=curve)
            if chosen is not None:
                axis.axvline(chosen, color=INK, linewidth=1.0, linestyle=":")
        axes[0].set_ylabel("agreement")
        axes[1].set(xlabel=f"number of {name}", ylabel="unexplained")
        for axis in axes:
            axis.legend(loc="best", fontsize=_SMALL)
        axes[1].xaxis.get_major_locator().set_params(integer=True)
    return drawn.svg
