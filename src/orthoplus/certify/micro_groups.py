r"""Micro groups, which refine the groups of an answer, and sums over their rows.

The column of D for a micro group p holds the weights :math:`w_i` of the answer at its rows. The
compressed relaxation needs only sums over the rows; see `orthoplus.certify.compression`.
"""

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from orthoplus.certify.between import Between, Setting, scaled_slices, slopes
from orthoplus.certify.model import Model
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.memory import MemoryMatrix

# The entries of V are accurate to this share of their terms, including rounding.
_KNOWN = 1e-12
# Maximum number of rows and entries of the sample that decides how micro groups are split.
_MOST_SAMPLED, _MOST_ENTRIES = 20_000, 10_000_000
# Power steps for the direction along which a group is split, which need not be accurate.
_POWERS = 6
# Rows of the sample whose products with all micro groups are held in memory at a time.
_SLICE = 1000


class MicroSums(NamedTuple):
    """Hold sums over the m micro groups, for D with the original weights.

    ``cross`` is D'A of shape (m, r), ``slopes`` is D'V of shape (m, k), ``squares`` is the diagonal
    of D'D, and ``sums`` is D'e. ``floors`` of shape (m, k) is a lower bound on all v_ij / w_i,
    including rounding.
    """

    cross: FloatArray
    slopes: FloatArray
    squares: FloatArray
    sums: FloatArray
    floors: FloatArray


class Images(NamedTuple):
    """Hold the coefficients of vectors u = A ``data`` + V ``slopes`` + D ``own``.

    For q vectors, ``data`` has shape (r, q), ``slopes`` has shape (k, k, q) with the group of the
    row as the first index, and ``own`` has shape (m, q).
    """

    data: FloatArray
    slopes: FloatArray
    own: FloatArray


class Splits(NamedTuple):
    """Hold rules to split micro groups: rows with (u / w - mean)'direction > 0 move.

    ``child`` is the index of the new micro group, or -1 if the micro group is not split.
    """

    means: FloatArray
    directions: FloatArray
    child: IntArray

    def origin(self) -> IntArray:
        """Return, for each micro group after the splits, the one it comes from."""
        parents = np.flatnonzero(self.child >= 0)
        order = np.argsort(self.child[parents])
        return np.concatenate([np.arange(len(self.child)), parents[order]])


def micro_sums(model: Model, base: Between, micro: IntArray, m: int) -> MicroSums:
    """Return the sums over micro groups in one pass; ``micro`` is -1 for rows without a group."""
    A = model.factor
    assert A is not None
    vectors = A.scatter(micro), A.scatter(base.labels), A.scatter(base.weights)
    args = (model.scale, base.centers, base.levels, model.has_row_sums, m)
    found = MicroSums(*A.reduce_rows(_sum_work, *vectors, args=args, combine=_combine_sums))
    return found._replace(floors=np.where(np.isfinite(found.floors), found.floors, 0.0))


def _combine_sums(one: tuple[FloatArray, ...], other: tuple[FloatArray, ...]) -> Any:
    added = [first + second for first, second in zip(one[:-1], other[:-1], strict=True)]
    return (*added, np.minimum(one[-1], other[-1]))


def _sum_work(
    block: MemoryMatrix, micro: IntArray, labels: IntArray, weights: FloatArray, *args: Any
) -> tuple[FloatArray, ...]:
    scale, centers, levels, has_row_sums, m = args
    r, k = centers.shape
    floors = np.full((m, k), np.inf)
    total = MicroSums(np.zeros((m, r)), np.zeros((m, k)), np.zeros(m), np.zeros(m), floors)
    lengths = np.linalg.norm(centers, axis=0)
    for rows, part in scaled_slices(block, scale, r + k):
        own, group, x = micro[rows], labels[rows], weights[rows]
        V = slopes(part.matmul(centers), group, x, levels, has_row_sums=has_row_sums)
        total.cross[:] += part.group_sums(own, x, m)
        inside = np.flatnonzero(own >= 0)
        own, group, x, V = own[inside], group[inside], x[inside], V[inside]
        sizes = np.sqrt(part.row_squares()[inside])
        # The size of the terms of v_ij, which bounds its rounding error.
        terms = np.abs(levels[group]) * x[:, None] + sizes[:, None] * lengths
        if has_row_sums:
            terms += (sizes * lengths[group])[:, None]
        for j in range(k):
            total.slopes[:, j] += np.bincount(own, x * V[:, j], minlength=m)
        total.squares[:] += np.bincount(own, x * x, minlength=m)
        total.sums[:] += np.bincount(own, x, minlength=m)
        _lower_into(np.maximum(V - _KNOWN * terms, 0.0) / x[:, None], own, out=floors)
    return tuple(total)


def _lower_into(values: FloatArray, groups: IntArray, out: FloatArray) -> None:
    """Lower each row of ``out`` to the smallest values of its group, column by column."""
    if not len(groups):
        return
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    found = ordered[starts]
    out[found] = np.minimum(out[found], np.minimum.reduceat(values[order], starts, axis=0))


def sample_setting(setting: Setting) -> Setting | None:
    """Return a setting of sampled rows that stand for all rows; None if there are few.

    Rows and weights are multiplied by the square root of the number of rows they stand for, so that
    sums of products approximate those over all rows.
    """
    model, labels = setting.model, setting.own.labels
    assert model.factor is not None
    most = min(_MOST_SAMPLED, max(1, _MOST_ENTRIES // model.rank))
    inside = np.flatnonzero(labels >= 0)
    if len(inside) <= 2 * most:
        return None
    rows = np.sort(np.random.default_rng(0).choice(inside, most, replace=False))
    root = (len(inside) / most) ** 0.5
    sampled, few = copy(setting), copy(model)
    few.n, few.factor, few.scale = most, model.factor.sample_rows(rows), model.scale * root
    weights = setting.own.weights[rows] * root
    own = SupportPoint(labels[rows], weights, model.k)
    sums = few.factor.group_sums(own.labels, weights, model.k) * few.scale
    squares = np.maximum(own.column_squares(), np.finfo(np.float64).tiny)
    sampled.model, sampled.own = few, own
    sampled.trace = float((np.einsum("jc,jc->j", sums, sums) / squares).sum())
    return sampled


# --- where to split -------------------------------------------------------------------------------


class RowSample:
    """Hold a sample of the rows in memory, or all if there are few, to decide on splits."""

    def __init__(self, model: Model, base: Between) -> None:
        assert model.factor is not None
        most = min(_MOST_SAMPLED, max(1, _MOST_ENTRIES // model.rank))
        inside = np.flatnonzero(base.labels >= 0)
        if len(inside) > most:
            inside = np.sort(np.random.default_rng(0).choice(inside, most, replace=False))
        self.model, self.base, self.rows = model, base, inside
        self.block = model.factor.sample_rows(inside)

    def images(self, images: Images, micro: IntArray) -> FloatArray:
        """Return u / w for the rows of the sample."""
        base, rows = self.base, self.rows
        args = (self.model.scale, base.centers, base.levels, self.model.has_row_sums)
        pieces = micro[rows], base.labels[rows], base.weights[rows]
        found = [part for _, part in _image_slices(self.block, *pieces, args, images)]
        return np.concatenate(found) if found else np.zeros((0, images.data.shape[1]))


def _image_slices(
    block: MemoryMatrix,
    micro: IntArray,
    labels: IntArray,
    weights: FloatArray,
    args: tuple[Any, ...],
    images: Images,
) -> Any:
    """Yield slices of rows and their u / w, which is 0 for rows without a group."""
    scale, centers, levels, has_row_sums = args
    k = centers.shape[1]
    both = np.hstack([centers, images.data])
    for rows, part in scaled_slices(block, scale, sum(both.shape)):
        own, group, x = micro[rows], labels[rows], weights[rows]
        products = part.matmul(both)
        V = slopes(products[:, :k], group, x, levels, has_row_sums=has_row_sums)
        U = products[:, k:].copy()
        for number in range(k):
            inside = np.flatnonzero(group == number)
            U[inside] += V[inside] @ images.slopes[number]
        U /= np.where(own >= 0, x, 1.0)[:, None]
        U += images.own[own]
        U[own < 0] = 0.0
        yield rows, U


def choose_splits(U: FloatArray, own: IntArray, weights: FloatArray, m: int, most: int) -> Splits:
    r"""Choose which micro groups to split, and how.

    Let :math:`F_{ij} = w_i w_j u_i^\top u_j`, and let :math:`F_{iq}` use the mean of u in micro
    group q. The score of a micro group is the sum of squares of its negative :math:`F_{iq}`, which
    constraints on sums over micro groups do not exclude. Those with the largest scores are split at
    the mean along the main direction of u.

    Parameters
    ----------
    U : ndarray of shape (n, q)
        The vectors u of some rows.
    own, weights : ndarray of shape (n,)
        Their micro groups and weights.
    m, most : int
        The number of micro groups and the maximum number of splits.
    """
    masses = weights**2
    total = np.bincount(own, masses, minlength=m)
    sums = np.stack([np.bincount(own, masses * u, minlength=m) for u in U.T], axis=1)
    means = np.divide(sums, total[:, None], out=np.zeros_like(sums), where=total[:, None] > 0)
    centers, squares = (means * np.sqrt(total)[:, None]).T, np.zeros(len(U))
    for start in range(0, len(U), _SLICE):
        negative = np.minimum(U[start : start + _SLICE] @ centers, 0.0)
        squares[start : start + _SLICE] = np.einsum("ij,ij->i", negative, negative)
    scores = np.bincount(own, masses * squares, minlength=m)
    scores[np.bincount(own, minlength=m) < 2] = 0.0
    splits = Splits(means, np.zeros_like(means), np.full(m, -1, dtype=np.int64))
    order = np.argsort(own, kind="stable")
    ends = np.searchsorted(own[order], np.arange(m + 1))
    following = m
    for p in np.argsort(-scores, kind="stable")[:most]:
        rows = order[ends[p] : ends[p + 1]]
        away = U[rows] - means[p]
        direction = main_direction(away, masses[rows])
        if scores[p] > 0 and 0 < np.count_nonzero(away @ direction > 0) < len(rows):
            splits.directions[p], splits.child[p] = direction, following
            following += 1
    return splits


def main_direction(away: FloatArray, masses: FloatArray) -> FloatArray:
    """Return the unit vector along which the rows vary most, by a few power steps.

    Parameters
    ----------
    away : ndarray of shape (n, q)
        The rows minus their mean.
    masses : ndarray of shape (n,)
        The weight of each row.

    Examples
    --------
    >>> away = np.array([[2.0, 0.1], [-2.0, 0.1], [0.0, -0.2]])
    >>> np.abs(main_direction(away, np.ones(3))).round(3)
    array([1., 0.])
    """
    weighted = away * np.sqrt(masses)[:, None]
    v = weighted[np.argmax(np.einsum("ij,ij->i", weighted, weighted))]
    for _ in range(_POWERS):
        v = weighted.T @ (weighted @ v)
        v /= max(float(np.linalg.norm(v)), np.finfo(np.float64).tiny)
    return v


def apply_splits(
    model: Model, base: Between, micro: IntArray, rules: list[tuple[Images, Splits]]
) -> IntArray:
    """Apply these splits to the micro groups of all rows in one pass."""
    A = model.factor
    assert A is not None
    vectors = A.scatter(micro), A.scatter(base.labels), A.scatter(base.weights)
    args = (model.scale, base.centers, base.levels, model.has_row_sums)
    return np.asarray(A.gather(A.map_rows(_split_work, *vectors, args=(args, rules))))


def _split_work(
    block: MemoryMatrix,
    micro: IntArray,
    labels: IntArray,
    weights: FloatArray,
    *args: Any,
) -> IntArray:
    basis, rules = args
    found = micro.copy()
    # The loop over slices is the outer one, so that each slice is read once.
    for rows in block.ranges(block.shape[1]):
        part, pieces = block.rows(rows), (labels[rows], weights[rows])
        for images, splits in rules:
            own = found[rows].copy()
            for inner, U in _image_slices(part, own, *pieces, basis, images):
                number = own[inner]
                away = np.einsum("ij,ij->i", U - splits.means[number], splits.directions[number])
                moves = (number >= 0) & (splits.child[number] >= 0) & (away > 0)
                found[rows][inner][moves] = splits.child[number[moves]]
    return found
