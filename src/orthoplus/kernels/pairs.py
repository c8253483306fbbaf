"""Candidate pairs (row, column) of an assignment, and the constants of the loops over them."""

from typing import NamedTuple

from orthoplus.protocols import FloatArray, IntArray

# A move must gain this much, relatively: rounding alone must not move a row.
MOVE_THRESHOLD = 1e-14
TINY = 1e-300
# A sweep of double moves begins no further one after it has looked at so many second rows.
MAX_FOLLOWERS = 2_000_000
# What a full search may overlook, relative to what was left of the bound.
SEARCH_THRESHOLD = 1e-12
# So many sets of flips of a column are kept; beyond that its bound is not exact.
MAX_FLIP_SETS = 4096
# The edge of a window is widened by this factor so that rounding drops no pair that is on it.
WINDOW_ROUNDING = 1.0 - 1e-15


class Pairs(NamedTuple):
    """The pairs of row i are the positions ``start[i]:start[i+1]``, ascending in the column."""

    start: IntArray
    column: IntArray
    gain: FloatArray
    share: FloatArray
