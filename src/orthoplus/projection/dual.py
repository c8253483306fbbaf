r"""The relaxation of the projection onto S+, and its dual bound.

With :math:`P_{ij} = \max(C_{ij}, 0)^2` and rows that may be shared between columns,

.. math:: \max \sum_j \sqrt{S_j}, \quad S_j = \sum_i z_{ij} P_{ij}, \quad z \ge 0,\
          \sum_j z_{ij} = 1,

is concave. From :math:`\sqrt S = \min_{w > 0} (w S + 1 / (4 w))`, at the best scale of w,

.. math:: D(w) = \Big(\sum_i \max_j w_j P_{ij} \cdot \sum_j 1 / w_j\Big)^{1/2}

is an upper bound for every :math:`w > 0`; it costs one pass over C. The pass also collects, for
each row, the columns near its maximum. The relaxation restricted to these pairs is solved by exact
line searches within rows, which do not access C, and gives the next w.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from orthoplus import kernels
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.pairs import Pairs

SAMPLE_ENTRIES = 1 << 15  # size of a sample of rows that is cheap compared with a pass
MAX_SWEEPS = 3000  # largest number of sweeps over the pairs of a restricted problem
REFRESH_SWEEPS = 16  # number of sweeps after which the sums are recomputed
# Bounds are increased by this fraction of the sum of their terms, 64 unit roundoffs: compensated
# sums of P take 2, sums over at most 32 blocks 32, the comparison of w_j P_ij in a row 4, and the
# rest covers D(w).
ROUNDING = 2.0**-47


@dataclass(frozen=True)
class Shares:
    """A point of the relaxation: pairs with shares, the sums S, and sum_j sqrt(S_j)."""

    pairs: Pairs
    sums: FloatArray
    value: float


def no_pairs(n: int) -> Pairs:
    """Return an empty set of pairs for n rows."""
    zero = np.zeros(0)
    return Pairs(np.zeros(n + 1, dtype=np.int64), zero.astype(np.int32), zero, zero)


def pairs_of_labels(labels: IntArray) -> Pairs:
    """Return one pair of share 1 for each row that has a label; the gains are left empty."""
    start = np.concatenate([[0], np.cumsum(labels >= 0)])
    column = labels[labels >= 0].astype(np.int32)
    return Pairs(start, column, np.zeros(0), np.ones(len(column)))


def row_of_pairs(pairs: Pairs) -> IntArray:
    """Return the row of each pair."""
    return np.repeat(np.arange(len(pairs.start) - 1), np.diff(pairs.start))


def pair_sums(pairs: Pairs, k: int) -> FloatArray:
    """Return S_j, the sum of share * gain over the pairs of column j."""
    sums = np.bincount(pairs.column, weights=pairs.share * pairs.gain, minlength=k)
    return sums.astype(np.float64)  # bincount of nothing returns integers


def held_pairs(pairs: Pairs) -> Pairs:
    """Return the pairs with a positive share."""
    held = pairs.share > 0.0
    start = np.concatenate([[0], np.cumsum(held)])[pairs.start]
    return Pairs(start, pairs.column[held], pairs.gain[held], pairs.share[held])


def row_tops(pairs: Pairs, weights: FloatArray) -> FloatArray:
    """Return max_j w_j P_ij over the pairs of each row, 0 for a row without pairs."""
    tops = np.zeros(len(pairs.start) - 1)
    filled = np.flatnonzero(np.diff(pairs.start) > 0)
    if len(filled):
        priced = weights[pairs.column] * pairs.gain
        tops[filled] = np.maximum.reduceat(priced, pairs.start[filled])
    return tops


def near_pairs(
    pairs: Pairs, chosen: IntArray, weights: FloatArray, limit: float
) -> tuple[Pairs, IntArray]:
    """Gather the pairs within ``limit`` of the row maximum of w_j P_ij, and the chosen ones."""
    slack = row_tops(pairs, weights)[row_of_pairs(pairs)] - weights[pairs.column] * pairs.gain
    is_near = slack <= limit
    is_near[chosen[chosen >= 0]] = True
    position = np.concatenate([[0], np.cumsum(is_near)])
    start, column, gain = position[pairs.start], pairs.column[is_near], pairs.gain[is_near]
    near = Pairs(start, column, gain, pairs.share[is_near])
    return near, np.where(chosen >= 0, position[chosen], -1)


def sample_rows(C: FloatArray) -> FloatArray:
    """Return a few evenly spaced rows of C in float64, with negative entries set to zero."""
    n, k = C.shape
    step = max(1, n * k // max(SAMPLE_ENTRIES, 16 * k))
    return np.maximum(np.asarray(C[::step], dtype=np.float64), 0.0)


def initial_root(C: FloatArray, maxima: FloatArray) -> FloatArray:
    """Return the initial sqrt(w), w_j ~ 1 / sum_i P_ij, estimated from a sample of rows.

    Only ratios of weights matter. Relative to the largest column, they do not depend on the scale
    of C.
    """
    sample = sample_rows(C)
    norms = np.sqrt((sample * sample).mean(axis=0) * len(C))
    norms = np.where(norms > 0.0, norms, maxima)
    largest = float(norms[maxima > 0.0].max(initial=0.0))
    return np.asarray(np.where(maxima > 0.0, largest, 1.0) / np.where(maxima > 0.0, norms, 1.0))


def unit_root(weights: FloatArray) -> tuple[FloatArray, float]:
    """Return sqrt(w / unit) and the unit, the largest weight, to be independent of C's scale.

    A difference s of values w_j P_ij becomes s / unit.
    """
    unit = float(weights.max())
    return np.sqrt(weights / unit), unit


def window_ratio(C: FloatArray, root: FloatArray, mean_pairs: float) -> float:
    """Return the ratio to the row maximum that ``mean_pairs`` entries per row exceed on average."""
    priced = sample_rows(C) * root
    top = priced.max(axis=1, keepdims=True)
    ratios = (priced / np.where(top > 0.0, top, 1.0)).ravel()
    rank = ratios.size - min(ratios.size, max(1, int(mean_pairs * len(priced))))
    return float(np.partition(ratios, rank)[rank])


def window_slack(C: FloatArray, root: FloatArray, mean_pairs: float) -> float:
    """Return the distance from the row maximum of w_j P_ij that includes ``mean_pairs`` entries.

    It is infinite if all entries are included.
    """
    priced = (sample_rows(C) * root) ** 2
    slack = (priced.max(axis=1, keepdims=True) - priced)[priced > 0.0]
    rank = int(mean_pairs * len(priced))
    return float(np.partition(slack, rank)[rank]) if rank < slack.size else np.inf


def scaled_dual(
    root: FloatArray, sums: FloatArray, positive: npt.NDArray[np.bool_]
) -> tuple[float, FloatArray]:
    """Return D(w), rounded up, and w at its best scale, for the sums S of the pass at w.

    Only the columns in ``positive`` take part.
    """
    weights = root * root
    earned = float(
        (weights[positive] * sums[positive]).sum()
    )  # pairwise summation: small rounding error
    inverse = float((1.0 / weights[positive]).sum())
    scale = np.sqrt(inverse / (4.0 * earned))
    return float(np.sqrt(earned * inverse)) * (1.0 + ROUNDING), weights * scale


def solve_shares(pairs: Pairs, rows: IntArray, k: int, gap_tol: float) -> Shares:
    """Maximize sum_j sqrt(S_j) over the shares of ``rows`` to the relative gap ``gap_tol``."""
    pairs = pairs._replace(share=pairs.share.copy())
    sums = pair_sums(pairs, k)
    for sweep in range(1, MAX_SWEEPS + 1):
        gap = kernels.transfer_shares_into(rows, pairs, sums)
        if gap <= gap_tol * np.sqrt(sums).sum():
            break
        if sweep % REFRESH_SWEEPS == 0:
            sums = pair_sums(pairs, k)
    sums = pair_sums(pairs, k)
    return Shares(pairs, sums, float(np.sqrt(sums).sum()))


def next_root(sums: FloatArray, root: FloatArray) -> FloatArray:
    """Return sqrt(w) for w ~ 1 / sqrt(S), 1 for the largest S; columns with S = 0 keep theirs."""
    held = sums > 0.0
    if not held.any():
        return root
    fresh = np.sqrt(np.sqrt(sums.max()) / np.sqrt(np.where(held, sums, 1.0)))
    return np.where(held, fresh, root * np.median(fresh[held] / root[held]))
