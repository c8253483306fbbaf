r"""A sharper bound of the projection onto S+ if the sums of columns lie on a lattice.

If the gains of all open rows of a column are multiples of the same number :math:`u_j` (matrices of
zeros and ones, small integers, equal rows), then :math:`S_j = b_j + m u_j` with an integer m, and
the square root may be replaced by its chords between these points. The relaxation with chords is a
linear program. For every :math:`w > 0` it is bounded by

.. math:: \sum_i \max_j w_j P_{ij} + \sum_j \max_m \big(\sqrt{b_j + m u_j} - w_j (b_j + m u_j)\big)

and the w of its solution makes this bound equal to its optimum. If the gains within each column are
equal, it is a network flow problem and has an integral solution.
"""

from dataclasses import dataclass, replace

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray
from orthoplus.projection.core import Core
from orthoplus.projection.dual import ROUNDING, sample_rows
from orthoplus.projection.program import maximize_linear
from orthoplus.projection.relaxed_node import Relaxed

# Largest multiple of the lattice constant; candidates are the smallest gain over these divisors.
MAX_MULTIPLE, DIVISORS = 1 << 20, (1, 2, 4, 9, 16, 25)
# Number of lattice points on both sides of the sums of the relaxation for which chords are used.
N_POINTS = 6
MAX_PAIRS = 1 << 15  # largest number of pairs in a linear program
LEAST_GAIN = 1e-40  # relative to the largest gain; LP solvers ignore smaller coefficients


@dataclass(frozen=True)
class Lattice:
    """The offset b_j and the spacing u_j of each column."""

    base: FloatArray
    unit: FloatArray

    def defects(self, weights: FloatArray) -> FloatArray:
        """Return min_m w_j (sqrt(S) - 1 / (2 w_j))^2 over the lattice points S of column j."""
        best = 0.25 / weights**2  # the best S without the lattice
        below = np.maximum(np.floor((best - self.base) / self.unit), 0.0)
        points = self.base + self.unit * np.stack([below, below + 1.0])
        return np.asarray((weights * (np.sqrt(points) - 0.5 / weights) ** 2).min(axis=0))


def find_lattice(core: Core) -> Lattice | None:
    """Return the lattice of all columns, or None if the gains of a column have no common unit."""
    pairs, is_open = core.pairs, core.members_of_pairs >= 0
    k = core.n_columns
    if not is_open.any() or len(pairs.gain) > MAX_PAIRS:
        return None
    unit = np.ones(k)
    column, gain = pairs.column[is_open], pairs.gain[is_open]
    if gain.min() < LEAST_GAIN * pairs.gain.max():
        return None
    for j in np.unique(column):
        constant = _common_measure(gain[column == j])
        if constant == 0.0:
            return None
        unit[j] = constant
    return Lattice(core.fixed_sums(), unit)


def has_common_measure(C: FloatArray) -> bool:
    """Return whether the squared positive entries of each column seem to lie on a lattice."""
    sample = sample_rows(C)
    gains = (sample[:, j][sample[:, j] > 0.0] ** 2 for j in range(C.shape[1]))
    return all(len(gain) == 0 or _common_measure(gain) > 0.0 for gain in gains)


def _common_measure(gains: FloatArray) -> float:
    """Return a number of which all gains are multiples to working precision, or 0."""
    least, most = gains.min(), gains.max()
    if least <= 0.0:
        return 0.0
    for divisor in DIVISORS:
        unit = least / divisor
        if most > MAX_MULTIPLE * unit:
            break
        if (
            np.abs(gains - np.rint(gains / unit) * unit) <= 4.0 * np.finfo(float).eps * gains
        ).all():
            return float(unit)
    return 0.0


def solve_chords(lattice: Lattice, core: Core, relaxed: Relaxed) -> Relaxed | None:
    """Solve the relaxation with chords for its shares, weights and bound; None if that fails."""
    pairs, positive, limits = core.pairs, relaxed.positive, relaxed.limits
    solved = _solve_program(lattice, core, relaxed)
    if solved is None or not (solved[1][positive] > 0.0).all():
        return None
    weights = np.where(positive, solved[1], relaxed.weights)
    tops, last = kernels.capped_tops(pairs, limits, relaxed.counts, weights)
    free = (0.25 / weights)[positive]
    bound = float(tops.sum() + free.sum() - lattice.defects(weights)[positive].sum())
    bound += ROUNDING * float(tops.sum() + free.sum())
    share = np.clip(solved[0], limits[0], limits[1])
    return replace(relaxed, share=share, bound=bound, weights=weights, last=last)


def _solve_program(
    lattice: Lattice, core: Core, relaxed: Relaxed
) -> tuple[FloatArray, FloatArray] | None:
    """Solve the linear program in the counts of pairs and the weights of points b_j + m u_j.

    The constraints are: all rows of each kind are used; the multiple m of a column is the weighted
    mean of its points; the weights of a column's points sum to 1. Return the counts and the dual
    weights w.
    """
    pairs, kind, k, n_kinds = core.pairs, core.kind, core.n_columns, len(relaxed.counts)
    n_pairs, limits = len(kind), relaxed.limits
    multiple = np.where(core.members_of_pairs >= 0, pairs.gain, 0.0) / lattice.unit[pairs.column]
    most = np.bincount(pairs.column, multiple * limits[1], k).astype(np.float64)
    points = _points(lattice, relaxed.sums, most)
    column = np.repeat(np.arange(k), points.shape[1])
    at, place = np.arange(n_pairs), n_pairs + np.arange(points.size)
    roots = np.sqrt(lattice.base[:, None] + lattice.unit[:, None] * points)
    size = float(np.sqrt(relaxed.sums.max()))  # the unit of the gains
    solved = maximize_linear(
        np.concatenate([np.zeros(n_pairs), roots.ravel() / size]),
        [
            (kind, at, np.ones(n_pairs)),
            (n_kinds + pairs.column, at, -multiple),
            (n_kinds + column, place, points.ravel()),
            (n_kinds + k + column, place, np.ones(points.size)),
        ],
        np.concatenate([relaxed.counts, np.zeros(k), np.ones(k)]),
        np.hstack([limits, np.repeat([[0.0], [np.inf]], points.size, axis=1)]),
    )
    if solved is None:
        return None
    x, duals = solved
    return x[:n_pairs], size * duals[n_kinds : n_kinds + k] / lattice.unit


def _points(lattice: Lattice, sums: FloatArray, most: FloatArray) -> FloatArray:
    """Return multiples m for each column: some near its sum, the smallest, and one too large."""
    near = np.rint((sums - lattice.base) / lattice.unit)
    points = np.maximum(near[:, None] + np.arange(-N_POINTS, N_POINTS + 1), 0.0)
    return np.column_stack([np.zeros(len(sums)), points, most + 1.0])
