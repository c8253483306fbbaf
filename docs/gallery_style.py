"""One look for the pictures of the gallery; the examples themselves need none of this."""

from typing import Any

import matplotlib as mpl

STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.dpi": 110,
    "font.size": 10.5,
    "savefig.facecolor": "white",
}


def set_style(gallery_conf: dict[str, Any], fname: str) -> None:
    """Called before each example."""
    mpl.rcParams.update(STYLE)
