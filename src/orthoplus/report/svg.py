"""Convert Matplotlib figures to inline SVG whose colors follow light and dark mode.

Lines and letters are drawn in placeholder colors, which are replaced by CSS variables of the page.
Text stays text, so that it can be searched.
"""

import io
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from orthoplus.core.extras import require

# Placeholder colors, and the CSS variables that replace them.
INK, QUIET, LINE, ACCENT, WARM = "#010203", "#040506", "#070809", "#0a0b0c", "#0d0e0f"
GOOD = "#101112"
_VARIABLES = {
    INK: "var(--ink)",
    QUIET: "var(--quiet)",
    LINE: "var(--line)",
    ACCENT: "var(--accent)",
    WARM: "var(--warm)",
    GOOD: "var(--good)",
}
# Ten hues that are distinguishable on white and on black, also with common color blindness.
HUES = (
    "#3b82c4", "#e08a1e", "#2f9e77", "#c8553d", "#8a6fc9",
    "#b5a000", "#d16ba5", "#4aa8c0", "#7d8c2e", "#8c8c8c",
)  # fmt: skip
# Luminance above which letters are black; on the ten hues they are white.
_LIGHT_LUMINANCE = 0.38
_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}href"

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10.0,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": QUIET,
    "axes.facecolor": "none",
    "axes.titlecolor": INK,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
    "savefig.transparent": True,
    "legend.frameon": False,
    "legend.labelcolor": INK,
}


@dataclass
class Canvas:
    """A figure while it is drawn; ``svg`` is set afterward."""

    figure: Any
    svg: str = ""


def hue(j: int) -> str:
    """Return the color of cluster j: ten hues, then darker and lighter versions, repeated.

    Examples
    --------
    >>> hue(0), hue(10), hue(20), hue(30)
    ('#3b82c4', '#26547f', '#84b0da', '#3b82c4')
    """
    base = HUES[j % len(HUES)]
    parts = [int(base[at : at + 2], 16) for at in (1, 3, 5)]
    toward, share = ((0, 0.0), (0, 0.35), (255, 0.37))[j // len(HUES) % 3]
    return "#" + "".join(f"{round(part + share * (toward - part)):02x}" for part in parts)


def ink_on(color: str) -> str:
    """Return black or white, whichever has more contrast on a color.

    Examples
    --------
    >>> ink_on("#26547f"), ink_on("#84b0da")
    ('#ffffff', '#111111')
    """
    red, green, blue = (int(color[at : at + 2], 16) / 255.0 for at in (1, 3, 5))
    luminance = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    return "#111111" if luminance > _LIGHT_LUMINANCE else "#ffffff"


@contextmanager
def canvas(name: str, width: float, height: float) -> Iterator[Canvas]:
    """Yield a figure to draw on; ``name`` must be unique in the page and prefixes every id."""
    mpl = require("matplotlib", "A report", extra="cli")
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE | {"svg.hashsalt": name}):
        drawn = Canvas(Figure(figsize=(width, height)))
        yield drawn
        raw = io.BytesIO()
        FigureCanvasSVG(drawn.figure).print_svg(raw, metadata={"Date": None, "Creator": None})
        drawn.svg = _inline(raw.getvalue(), name)


def _inline(raw: bytes, name: str) -> str:
    """Return the ``svg`` element with unique ids, and with the colors and font of the page."""
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    ET.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ET.fromstring(raw)
    for parent in root.iter():
        for child in [c for c in parent if c.tag in (f"{_SVG}metadata", f"{_SVG}style")]:
            parent.remove(child)
    for element in root.iter():
        _rewrite(element, name)
    for length in ("width", "height"):
        root.attrib.pop(length, None)
    root.set("role", "img")
    return ET.tostring(root, encoding="unicode")


def _rewrite(element: ET.Element, name: str) -> None:
    attributes = element.attrib
    if "id" in attributes:
        attributes["id"] = f"{name}-{attributes['id']}"
    if attributes.get(_XLINK, "").startswith("#"):
        attributes[_XLINK] = f"#{name}-{attributes[_XLINK][1:]}"
    for key in ("clip-path", "fill", "stroke", "style"):
        value = attributes.get(key)
        if value is None:
            continue
        value = value.replace("url(#", f"url(#{name}-")
        for stand_in, variable in _VARIABLES.items():
            value = value.replace(stand_in, variable)
        attributes[key] = value
