"""Candidate pairs (row, column) of an assignment, and the constants of the loops over them."""

from typing import NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

# Least relative gain of a move, so that rounding errors alone do not move a row.
MOVE_THRESHOLD = 1e-14
# Replaces a zero in a denominator.
TINY = 1e-300
# Products of three gains above this value do not underflow.
SAFE_GAIN = 1e-75
# A sweep of double moves stops after it has examined this many second rows.
MAX_FOLLOWERS = 2_000_000
# An exhaustive search may miss an improvement below this fraction of the remaining gap.
SEARCH_THRESHOLD = 1e-12
# Relative rounding error of a sum after flips have subtracted some of its terms.
SUM_ROUNDING = 2.0**-48
# Largest number of sets of flips stored per column; beyond that the bound is not exact.
MAX_FLIP_SETS = 4096
# Widens a window slightly, so that rounding does not drop a pair at its edge.
WINDOW_ROUNDING = 1.0 - 1e-15


def column_sums(labels: IntArray, gains: FloatArray, k: int) -> FloatArray:
    """Sum ``gains`` for each label 0..k-1 with a rounding error of O(sqrt(n)) units.

    A single running sum has an error of n units, which bounds would have to allow for. Sums over
    groups of about sqrt(n) rows, added afterward, have an error of only 2 sqrt(n) units.
    """
    size = max(1, int(np.sqrt(len(labels))))
    group = np.arange(len(labels)) // size
    n_groups = len(labels) // size + 1
    sums = np.bincount(labels + k * group, weights=gains, minlength=k * n_groups)
    return np.asarray(sums.reshape(n_groups, k).sum(axis=0), dtype=np.float64)


class Pairs(NamedTuple):
    """Candidate pairs in CSR form: row i has the pairs ``start[i]:start[i+1]``, sorted by column.

    ``gain`` holds P_ij and ``share`` the fraction of row i that is assigned to the column.
    """

    start: IntArray
    column: IntArray
    gain: FloatArray
    share: FloatArray
