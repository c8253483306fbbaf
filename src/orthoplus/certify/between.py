r"""The matrix S between the groups of an answer, and the ratios that determine its levels.

See `orthoplus.certify.closed_form` for the formulas.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from orthoplus.certify.model import Model
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.memory import MemoryMatrix

# L exceeds the largest ratio by this share of it, so that rounding does not clip anything.
_LEVEL_MARGIN = 1e-12
# A denominator below this share of the level is rounding: all ratios are equal, and S_lj = 0.
_NO_COUPLING = 1e-13


class Between(NamedTuple):
    r"""Store S with blocks :math:`S_{lj} = c_{lj} v_{lj} v_{jl}^\top`, nonnegative by construction.

    V is computed by `slopes` from ``levels`` and the scores G, which are either stored in
    ``scores`` or equal to A times ``centers``.
    """

    labels: IntArray
    weights: FloatArray
    levels: FloatArray
    couplings: FloatArray
    centers: FloatArray | None
    scores: FloatArray | None


def slopes(
    scores: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    levels: FloatArray,
    *,
    has_row_sums: bool,
) -> FloatArray:
    r"""Return V with :math:`v_{ij} = (T_{lj} x_i - g_{ij})^+` for the rows i of group l.

    For k-means, :math:`g_{il}` is added inside the positive part. V is zero for j = l and for rows
    without a group.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        G.
    labels, weights : ndarray of shape (n,)
    levels : ndarray of shape (k, k)
        T.

    Examples
    --------
    >>> G, T = np.array([[4.0, 1.0], [0.0, 3.0]]), np.array([[0.0, 3.0], [3.0, 0.0]])
    >>> slopes(G, np.array([0, 1]), np.ones(2), T, has_row_sums=False)
    array([[0., 2.],
           [3., 0.]])
    """
    rows, own = np.arange(len(labels)), np.maximum(labels, 0)
    V = levels[own] * weights[:, None] - scores
    if has_row_sums:
        V += scores[rows, own][:, None]
    np.maximum(V, 0.0, out=V)
    V[rows, own] = 0.0
    V[labels < 0] = 0.0
    return np.asarray(V)


class Setting:
    """Hold an answer with its scores and ratios, from which the levels follow.

    Attributes
    ----------
    model : Model
    point : SupportPoint
        The answer.
    own : SupportPoint
        The answer with the weights that the levels refer to: all ones for k-means.
    centers : ndarray of shape (r, k) or None
        The scores are A times the centers; None if M is not given as a product.
    core : ndarray of shape (k, k)
        X'MX.
    mean, reach : ndarray of shape (k, k)
        The mean ratio of each group, and the largest level that a row in its best group can need.
    """

    def __init__(self, model: Model, point: SupportPoint) -> None:
        self.model, self.point, self.x = model, point, point.weights
        labels, counts = point.labels, np.maximum(point.counts(), 1).astype(np.float64)
        ones = (labels >= 0).astype(np.float64)
        self.own = SupportPoint(labels, ones if model.has_row_sums else point.weights, model.k)
        # Factor per group that turns the weights of ``own`` into those of X.
        self.to_unit = counts**-0.5 if model.has_row_sums else np.ones(model.k)
        self.centers, self.scores = self._scores(counts)
        inner = self._inner()
        self.core = inner * np.outer(1.0 / self.to_unit, 1.0 / self.to_unit)
        squares = np.diag(inner)
        if model.has_row_sums:
            # D_lj = T_lj + offset_lj, where (c_l - c_j)'c_l = offset_lj; a row at its nearest
            # center needs at most half the squared distance of the centers.
            self.offset = squares[:, None] - inner
            self.reach = (squares[:, None] + squares - inner - inner.T) / 2
            self.mean = np.zeros_like(inner)
        else:
            self.offset = np.zeros_like(inner)
            # A row in its best group has g_ij / |c_j| <= g_il / |c_l|, hence g_ij / x_i <= |c_j|
            # |c_l|.
            self.reach = np.sqrt(np.maximum(np.outer(squares, squares), 0.0))
            self.mean = inner

    def _scores(self, counts: FloatArray) -> tuple[FloatArray | None, FloatArray | None]:
        model, own = self.model, self.own
        A = model.factor
        if A is None:
            return None, model.product(own.dense()) / (counts if model.has_row_sums else 1.0)
        sums = A.group_sums(A.scatter(own.labels), A.scatter(own.weights), model.k) * model.scale
        return (sums / counts[:, None] if model.has_row_sums else sums).T, None

    def _inner(self) -> FloatArray:
        """Return the scores of the centers: the means or weighted sums of G over the groups."""
        if self.centers is not None:
            return np.asarray(self.centers.T @ self.centers)
        assert self.scores is not None
        X = self.own.dense() * (self.to_unit**2 if self.model.has_row_sums else 1.0)
        inner = X.T @ self.scores
        return np.asarray((inner + inner.T) / 2)

    @cached_property
    def trace(self) -> float:
        """Value of <M, XX'> at the answer."""
        return float(np.trace(self.core))

    @property
    def to_images(self) -> FloatArray:
        """Factors that turn the columns of the scores into those of MX."""
        return 1.0 / self.to_unit

    @cached_property
    def free(self) -> FloatArray:
        """Basis of the free c: all of them, or for k-means those with Xc orthogonal to e."""
        if not self.model.has_row_sums:
            return np.eye(self.model.k)
        return np.linalg.svd(1.0 / self.to_unit[None, :])[2][1:].T

    def unit_dots(self, dots: FloatArray) -> FloatArray:
        """Return x_l'v_lj from the sums of v_lj weighted by ``own``."""
        return dots * self.to_unit[:, None]

    def images(self, dots: FloatArray) -> FloatArray:
        """Return X'[A, V] of shape (k, r + k^2) from the x_l'v_lj."""
        assert self.centers is not None
        k = self.model.k
        images = np.zeros((k, k, k))
        images[np.arange(k), np.arange(k)] = dots
        return np.hstack([(self.centers / self.to_unit).T, images.reshape(k, k * k)])

    # --- levels -----------------------------------------------------------------------------------

    @cached_property
    def needed(self) -> FloatArray:
        """Smallest symmetric levels that no ratio exceeds."""
        ratios = self._ratios() + self.offset
        needed = np.maximum(ratios, ratios.T)
        return needed + _LEVEL_MARGIN * np.abs(needed)

    def _ratios(self) -> FloatArray:
        own, has_row_sums = self.own, self.model.has_row_sums
        A = self.model.factor
        if A is None:
            assert self.scores is not None
            return _ratios_of(self.scores, own.labels, own.weights, has_row_sums)
        vectors = A.scatter(own.labels), A.scatter(own.weights)
        args = (self.model.scale, self.centers, has_row_sums)
        return np.asarray(A.reduce_rows(_ratio_work, *vectors, args=args, combine=np.maximum))

    def levels(self, floor: float, cap: float, *, from_mean: bool = True) -> FloatArray:
        """Return T of `slopes`, clipped to shares of the largest level a row may need.

        ``floor`` and ``cap`` are measured from the mean ratio of a group, or from 0.
        """
        least = self.mean if from_mean else 0.0 * self.mean
        way = self.reach - least
        limit = least + cap * way if np.isfinite(cap) else np.inf
        levels = np.minimum(np.maximum(self.needed, least + floor * way), limit)
        return np.where(np.isfinite(levels), levels, 0.0) - self.offset

    def between(self, levels: FloatArray, dots: FloatArray) -> Between:
        """Return S with couplings 1 / (x_l'v_lj), the geometric mean over both sides."""
        dots = dots * self.to_unit[:, None] ** 2
        size = np.sqrt(np.maximum(dots, 0.0) * np.maximum(dots.T, 0.0))
        least = _NO_COUPLING * np.maximum(np.abs(levels), np.abs(levels.T))
        couplings = np.divide(1.0, size, out=np.zeros_like(size), where=size > least)
        own = self.own
        return Between(own.labels, own.weights, levels, couplings, self.centers, self.scores)

    def vectors(self, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return V of shape (n, k) and its sums over the groups, weighted by ``own``."""
        own, k = self.own, self.model.k
        scores = score_rows(self.model, self.centers) if self.scores is None else self.scores
        has_row_sums = self.model.has_row_sums
        V = slopes(scores, own.labels, own.weights, levels, has_row_sums=has_row_sums)
        groups = [own.labels == group for group in range(k)]
        return V, np.array([own.weights[rows] @ V[rows] for rows in groups])


def alternate(model: Model, labels: IntArray, n_rounds: int = 10) -> IntArray:
    """Improve labels for M = AA' by moving each row to its best center, one after another.

    The result is never worse. Labels are unchanged if M is not a product, and the iteration stops
    if a group would become empty.
    """
    value = -np.inf
    for _ in range(n_rounds if model.factor is not None else 0):
        point = model.refine(labels)
        trace = model.trace(point)
        if trace <= value:
            break
        best, value = labels, trace
        setting = Setting(model, point)
        assert setting.centers is not None
        assert model.factor is not None
        A, args = model.factor, (model.scale, setting.centers, model.has_row_sums)
        moved = np.asarray(A.gather(A.map_rows(_nearest_work, args=args)))
        moved[labels < 0] = -1
        if not np.bincount(moved + 1, minlength=model.k + 1)[1:].all():
            break
        labels = moved
        del point, setting, moved  # large, if there are many rows
    return labels if value == -np.inf else best


# --- passes over the rows -------------------------------------------------------------------------


def scaled_slices(block: Any, scale: float, width: int) -> Iterator[tuple[slice, MemoryMatrix]]:
    """Yield slices of a block together with their rows in float64, times the scale."""
    for rows in block.ranges(width):
        yield rows, block.rows(rows).scaled_rows(np.full(rows.stop - rows.start, scale))


def score_rows(model: Model, centers: Any) -> FloatArray:
    """Return A times ``centers`` as a float64 array of shape (n, k)."""
    A = model.factor
    assert A is not None
    return np.asarray(A.gather(A.map_rows(_score_work, args=(model.scale, centers))))


def _score_work(block: MemoryMatrix, scale: float, centers: FloatArray) -> FloatArray:
    parts = [part.matmul(centers) for _, part in scaled_slices(block, scale, sum(centers.shape))]
    return np.concatenate(parts) if parts else np.zeros((0, centers.shape[1]))


def _nearest_work(
    block: MemoryMatrix, scale: float, centers: FloatArray, has_row_sums: bool
) -> IntArray:
    """Return the best group of each row without holding the scores of all rows in memory."""
    squares = np.einsum("rj,rj->j", centers, centers)
    sizes = np.sqrt(np.maximum(squares, np.finfo(np.float64).tiny))
    nearest = np.empty(len(block), dtype=np.int64)
    for rows, part in scaled_slices(block, scale, sum(centers.shape)):
        scores = part.matmul(centers)
        # The nearest center maximizes a'c_j - |c_j|^2 / 2; the best direction maximizes a'c_j /
        # |c_j|.
        scores = scores - squares / 2 if has_row_sums else scores / sizes
        nearest[rows] = scores.argmax(axis=1)
    return nearest


def _ratio_work(
    block: MemoryMatrix, labels: IntArray, weights: FloatArray, *args: Any
) -> FloatArray:
    scale, centers, has_row_sums = args
    k = centers.shape[1]
    top = np.full((k, k), -np.inf)
    for rows, part in scaled_slices(block, scale, sum(centers.shape)):
        found = _ratios_of(part.matmul(centers), labels[rows], weights[rows], has_row_sums)
        np.maximum(top, found, out=top)
    return top


def _ratios_of(
    scores: FloatArray, labels: IntArray, weights: FloatArray, has_row_sums: bool
) -> FloatArray:
    """Return the largest g_ij / x_i, or g_ij - g_il for k-means, over the rows of each group."""
    k = scores.shape[1]
    top = np.full((k, k), -np.inf)
    for group in range(k):
        rows = np.flatnonzero((labels == group) & (weights > 0))
        if len(rows):
            G = scores[rows] - scores[rows, group][:, None] if has_row_sums else scores[rows]
            with np.errstate(over="ignore"):
                top[group] = (G / weights[rows, None]).max(axis=0)
    return top
