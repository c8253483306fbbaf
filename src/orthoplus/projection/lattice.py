r"""A sharper bound of the projection onto S+ where the sums of columns lie on a lattice.

If all open rows that a column may take add a multiple of the same number :math:`u_j` (matrices of
zeros and ones, small integers, equal rows), then :math:`S_j = b_j + m u_j` with a whole m, and
the square root may be replaced by its chords between these points. The relaxation with chords is a
linear program. For every :math:`w > 0` it is bounded by

.. math:: \sum_i \max_j w_j P_{ij} + \sum_j \max_m \big(\sqrt{b_j + m u_j} - w_j (b_j + m u_j)\big)

and the w of its solution makes this bound equal to its optimum. With gains that are equal within
each column it has a solution in whole rows: it is a network flow.
"""

from dataclasses import dataclass

import numpy as np

from orthoplus import kernels
from orthoplus.projection.core import Core
from orthoplus.projection.dual import ROUNDING
from orthoplus.protocols import BoolArray, FloatArray

# A gain may be this many times the lattice constant, which is the smallest gain over one of these.
MAX_MULTIPLE, DIVISORS = 1 << 20, (1, 2, 4, 9, 16, 25)
# Chords are tried at so many points to both sides of the sums of the relaxation.
N_POINTS = 6
MAX_PAIRS = 1 << 15  # of a linear program


@dataclass(frozen=True)
class Lattice:
    """b_j and u_j of each column."""

    base: FloatArray
    unit: FloatArray

    def defects(self, weights: FloatArray) -> FloatArray:
        """1 / (4 w_j) minus what column j can reach at w: min_m w_j (sqrt(S) - 1 / (2 w_j))^2."""
        best = 0.25 / weights**2  # S without the lattice
        below = np.maximum(np.floor((best - self.base) / self.unit), 0.0)
        points = self.base + self.unit * np.stack([below, below + 1.0])
        return np.asarray((weights * (np.sqrt(points) - 0.5 / weights) ** 2).min(axis=0))


def find_lattice(core: Core) -> Lattice | None:
    """The lattice of all columns; None if the open rows of one have no common measure."""
    pairs, is_open = core.pairs, core.members_of_pairs >= 0
    k = core.n_columns
    if not is_open.any() or len(pairs.gain) > MAX_PAIRS:
        return None
    unit = np.ones(k)
    column, gain = pairs.column[is_open], pairs.gain[is_open]
    for j in np.unique(column):
        constant = _common_measure(gain[column == j])
        if constant == 0.0:
            return None
        unit[j] = constant
    return Lattice(core.fixed_sums(), unit)


def _common_measure(gains: FloatArray) -> float:
    """A number of which all gains are multiples to working precision; 0 if none is found."""
    least, most = gains.min(), gains.max()
    if least <= 0.0:
        return 0.0
    for divisor in DIVISORS:
        unit = least / divisor
        if most > MAX_MULTIPLE * unit:
            break
        if (np.abs(gains - np.rint(gains / unit) * unit) <= 4.0 * np.finfo(float).eps * gains).all():
            return float(unit)
    return 0.0


def solve_chords(
    core: Core,
    lattice: Lattice,
    limits: FloatArray,
    counts: FloatArray,
    sums: FloatArray,
    positive: BoolArray,
) -> tuple[float, FloatArray] | None:
    """The bound of the relaxation with chords, rounded up, and its shares; None if that fails."""
    from scipy.optimize import linprog  # slow to import
    from scipy.sparse import csr_array

    pairs, k, n_pairs = core.pairs, core.n_columns, len(core.pairs.column)
    multiple = pairs.gain / lattice.unit[pairs.column]
    near = np.rint((sums - lattice.base) / lattice.unit)
    offsets = np.arange(-N_POINTS, N_POINTS + 1)
    points = np.maximum(near[:, None] + offsets, 0.0)
    most = np.bincount(pairs.column, multiple * limits[1], minlength=k)
    points = np.column_stack([np.zeros(k), points, most + 1.0])
    roots = np.sqrt(lattice.base[:, None] + lattice.unit[:, None] * points)
    is_open = core.members_of_pairs >= 0
    n_kinds, width = len(counts), points.shape[1]
    column_of_point = np.repeat(np.arange(k), width)
    at = n_pairs + np.arange(k * width)
    # Rows: each kind is spent, each column's multiples are those of its points, whose parts are 1.
    row = np.concatenate(
        [core.kind, n_kinds + pairs.column, n_kinds + column_of_point, n_kinds + k + column_of_point]
    )
    col = np.concatenate([np.arange(n_pairs), np.arange(n_pairs), at, at])
    entry = np.concatenate(
        [np.ones(n_pairs), multiple * is_open, -points.ravel(), np.ones(k * width)]
    )
    matrix = csr_array((entry, (row, col)), shape=(n_kinds + 2 * k, n_pairs + k * width))
    right = np.concatenate([counts, np.zeros(k), np.ones(k)])
    costs = np.concatenate([np.zeros(n_pairs), -roots.ravel()])
    low = np.concatenate([limits[0], np.zeros(k * width)])
    high = np.concatenate([limits[1], np.full(k * width, np.inf)])
    solved = linprog(
        costs, A_eq=matrix, b_eq=right, bounds=np.column_stack([low, high]), method="highs"
    )
    if solved.x is None:
        return None
    weights = np.abs(solved.eqlin.marginals[n_kinds : n_kinds + k]) / lattice.unit
    if not (weights[positive] > 0.0).all():
        return None
    weights = np.where(positive, weights, 1.0)
    tops, _ = kernels.capped_tops(pairs, limits, counts, weights)
    reached = 0.25 / weights - lattice.defects(weights)
    bound = float(tops.sum() + reached[positive].sum())
    size = float(tops.sum() + (0.25 / weights)[positive].sum())
    share = np.clip(solved.x[:n_pairs], limits[0], limits[1])
    return bound + ROUNDING * size, share
