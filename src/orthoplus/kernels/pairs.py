"""Candidate pairs (row, column) of an assignment, and the constants of the loops over them."""

from typing import NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

# A move must gain this much, relatively: rounding alone must not move a row.
MOVE_THRESHOLD = 1e-14
TINY = 1e-300
# Products of three gains above this do not underflow.
SAFE_GAIN = 1e-75
# A sweep of double moves begins no further one after it has looked at so many second rows.
MAX_FOLLOWERS = 2_000_000
# What a full search may overlook, relative to what was left of the bound.
SEARCH_THRESHOLD = 1e-12
# Sums of which a flip takes a part are uncertain by this share of all parts.
SUM_ROUNDING = 2.0**-48
# So many sets of flips of a column are kept; beyond that its bound is not exact.
MAX_FLIP_SETS = 4096
# The edge of a window is widened by this factor so that rounding drops no pair that is on it.
WINDOW_ROUNDING = 1.0 - 1e-15


def column_sums(labels: IntArray, gains: FloatArray, k: int) -> FloatArray:
    """Add up ``gains`` for each label 0..k-1 with an error of O(sqrt(n)) roundings.

    One running sum would collect n roundings, which a bound has to allow for; sums of about
    sqrt(n) rows each, added afterwards, collect 2 sqrt(n).
    """
    size = max(1, int(np.sqrt(len(labels))))
    group = np.arange(len(labels)) // size
    n_groups = len(labels) // size + 1
    sums = np.bincount(labels + k * group, weights=gains, minlength=k * n_groups)
    return np.asarray(sums.reshape(n_groups, k).sum(axis=0), dtype=np.float64)


class Pairs(NamedTuple):
    """The pairs of row i are the positions ``start[i]:start[i+1]``, ascending in the column."""

    start: IntArray
    column: IntArray
    gain: FloatArray
    share: FloatArray
