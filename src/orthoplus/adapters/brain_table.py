"""The look-up table of parcels: a name, a color and a size for each label."""

import colorsys
from typing import Any

import numpy as np

from orthoplus.core.extras import require
from orthoplus.core.types import IntArray

# Step around the color circle by the golden ratio, so that consecutive parcels differ in color.
_GOLDEN_TURN = 0.61803398875


def look_up_table(sizes: IntArray) -> Any:
    """Return the look-up table for these sizes, the first of which is that of the background.

    Examples
    --------
    >>> print(look_up_table(np.array([5, 3])).to_string(index=False))
     index       name   color  size
         0 Background #000000     5
         1   parcel 1 #cf3e3e     3
    """
    pandas = require("pandas", "A look-up table", extra="brain")
    k = len(sizes) - 1
    return pandas.DataFrame(
        {
            "index": np.arange(k + 1),
            "name": ["Background", *(f"parcel {j}" for j in range(1, k + 1))],
            "color": ["#000000", *map(parcel_color, range(k))],
            "size": np.asarray(sizes, dtype=np.int64),
        }
    )


def parcel_color(j: int) -> str:
    """Return the color of parcel j, counted from 0, for example "#cf3e3e"."""
    saturation, value = ((0.70, 0.81), (0.55, 0.95), (0.80, 0.62))[j % 3]
    parts = colorsys.hsv_to_rgb(j * _GOLDEN_TURN % 1.0, saturation, value)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)
