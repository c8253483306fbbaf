"""Draw pictures as PNG files for slides and papers, on white and with a title."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import IO, Any

import numpy as np

from orthoplus.core.extras import require
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.report.figures import (
    Axis,
    add_color_names,
    shorten,
    show_fractions,
    show_labels,
    thinned,
)

_INK, _QUIET, _WRONG, _FRAME = "#1f2937", "#6b7280", "#d9480f", "#d1d5db"
_MEMBERS = 4
_DPI = 110


def draw_spectra(
    file: IO[bytes], endmembers: FloatArray, names: Sequence[str], about: Axis
) -> None:
    """Draw one line per spectrum."""
    figure = new_figure(8.0, 4.5)
    with _plain_text():
        axis = figure.subplots()
        about.draw(axis, endmembers, names)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(loc="best", frameon=False)
        figure.savefig(file, format="png", dpi=_DPI)


def draw_maps(
    file: IO[bytes], abundances: FloatArray, labels: IntArray, names: Sequence[str]
) -> None:
    """Draw the material of each pixel, and one image of fractions from 0 to 1 per material."""
    abundances, labels = thinned(abundances), thinned(labels)
    h, w, k = abundances.shape
    rows = -(-(k + 1) // 4)
    columns = -(-(k + 1) // rows)
    cell = 2.6
    figure = new_figure(columns * cell + 0.9, rows * (cell * min(h / w, 2.0) + 0.35) + 0.4)
    with _plain_text():
        axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
        show_labels(axes[0], labels, k)
        drawn = show_fractions(axes[1:], abundances, labels)
        for axis, title in zip(axes, ("largest fraction", *names), strict=False):
            axis.set_title(shorten(title), fontsize=10, color=_INK)
        figure.colorbar(drawn, ax=axes.tolist(), fraction=0.03, pad=0.02, label="fraction")
        add_color_names(figure, names, frameon=False, ncols=max(1, 2 * columns), fontsize=9)
        figure.savefig(file, format="png", dpi=_DPI)


def _plain_text() -> AbstractContextManager[None]:
    """Draw names and units literally: a `$` in them does not start a formula."""
    from matplotlib import rc_context

    return rc_context({"text.parse_math": False})


def draw_digits(
    file: IO[bytes], images: FloatArray, digits: IntArray, labels: IntArray, parts: FloatArray
) -> None:
    """Draw one column per cluster: its component, some of its images, and its commonest digit.

    The rows of ``images`` must be sorted by decreasing weight.
    """
    k, side = len(parts), round(float(np.sqrt(images.shape[1])))
    found = np.array([np.bincount(digits[labels == j]).argmax() for j in range(k)])
    figure = new_figure(10.0, 6.0, constrained=False)
    axes = figure.subplots(1 + _MEMBERS, k, gridspec_kw={"wspace": 0.16, "hspace": 0.12})
    figure.subplots_adjust(left=0.085, right=0.99, top=0.79, bottom=0.09)
    for column, j in zip(axes.T, np.argsort(found, kind="stable"), strict=True):
        members = np.flatnonzero(labels == j)
        shown = members[np.linspace(0, len(members) - 1, _MEMBERS).astype(int)]
        _show(column[0], parts[j], side, "Blues")
        column[0].set_title(f"“{found[j]}”", fontsize=17, color=_INK, pad=5)
        for axis, i in zip(column[1:], shown, strict=True):
            _show(axis, images[i], side, "Greys", frame=None if digits[i] == found[j] else _WRONG)
        share = (digits[members] == found[j]).mean()
        column[-1].text(
            0.5, -0.13, f"{len(members)} images\n{share:.0%} are {found[j]}",
            transform=column[-1].transAxes, ha="center", va="top", color=_INK,
        )  # fmt: skip
    _caption_digits(figure, axes)
    figure.savefig(file, format="png", dpi=_DPI, pil_kwargs={"optimize": True})


def _caption_digits(figure: Any, axes: Any) -> None:
    for row, text in ((0, "profile"), (1, "heaviest"), (_MEMBERS, "lightest")):
        axes[row, 0].set_ylabel(
            text, rotation=0, ha="right", va="center", labelpad=9, fontsize=11, color=_INK
        )
    title = "Ten clusters of 1797 handwritten digits"
    figure.text(0.085, 0.94, title, fontsize=19, color=_INK, weight="bold")
    line = "Each image belongs to one cluster, with a weight. Orange frames: another digit."
    figure.text(0.085, 0.89, line, fontsize=12, color=_QUIET)


def _show(
    axis: Any, pixels: FloatArray, side: int, colors: str, *, frame: str | None = None
) -> None:
    axis.imshow(pixels.reshape(side, side), cmap=colors, vmin=0.0)
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set(color=frame or _FRAME, linewidth=3.0 if frame else 0.8)


def new_figure(width: float, height: float, *, constrained: bool = True) -> Any:
    """Return a white figure of this size in inches, without a window."""
    require("matplotlib", "A picture", extra="cli")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    layout: Any = "constrained" if constrained else None
    figure = Figure(figsize=(width, height), layout=layout, facecolor="white")
    FigureCanvasAgg(figure)
    return figure
