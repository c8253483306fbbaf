"""K-indicators: find the rotation of an embedding that is closest to a clustering, eq. (1.5)."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from orthoplus import kernels
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.checks import as_matrix, check_shape, norm_within_range
from orthoplus.core.problem import Problem
from orthoplus.core.trace_form import TraceForm
from orthoplus.core.types import FloatArray, IntArray, Linear
from orthoplus.data import inner_product
from orthoplus.data.dense import Dense
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.geometry.stiefel import assemble, fit_weights, polar_factor
from orthoplus.linalg.row_gains import entries_of, linear_gains, rotated_gain_bounds
from orthoplus.linalg.workspace import empty_like

# If at most one entry in this many is nonzero, sums over nonzeros are faster than a dense product
# (measured: 2040 x 102 and 17853 x 1623, one thread).
_SPARSE_SHARE = 16
# The fraction of zeros is estimated from one row in this many.
_SAMPLED_ROWS = 8
# U is not rescaled if its norm differs from sqrt(k) by less than this fraction.
_UNIT_SCALE = 1e-3
# If f is below this fraction of ||U||^2 + k, random kicks found no other clusters (measured:
# planted clusters with noise, 8 x 2 to 1000 x 20, and tiny random U).
_CLEAR_SHARE = 0.1
# If all eigenvalues of U'U exceed this fraction of the largest, the sum of their roots is as
# accurate as that of the singular values of U, and several times cheaper.
_EVEN_EIGENVALUES = 0.25
# Largest number of alternations on a fixed support, and the relative gain at which they end: on
# real embeddings each gains about a tenth of the previous one.
MAX_ALTERNATIONS, ALTERNATION_GAIN = 50, 1e-10
# Up to this many columns and entries the alternation is one compiled call; beyond, LAPACK and
# threads are faster.
_COMPILED_COLUMNS, _COMPILED_SIZE = 32, 1 << 17


@dataclass(frozen=True, eq=False)
class KIndicators(Problem):
    r"""min :math:`\|UY - X\|_F^2` over X in S+ and orthogonal Y, (1.5).

    .. math:: \min_{Y^\top Y = I} \|UY - X\|_F^2 = \|U\|_F^2 + k - 2 \|U^\top X\|_*,
              \qquad Y = \Pi(U^\top X),

    over OB+, where :math:`\|\cdot\|_*` sums the singular values and :math:`\Pi` is the polar factor
    (Procrustes).

    Parameters
    ----------
    U : array of shape (n, k)
        The embedding, with one row per sample and one column per cluster. The columns are
        orthonormal in the model, but any U is accepted.

    Notes
    -----
    The condition of eq. (1.5) that no row of X is zero is omitted, as in section 6.3. A row is zero
    at the optimum only if (UY)_i has no positive entry; the estimator then assigns it to the column
    of the largest entry. U'X costs O(nk^2) for a dense X and O(nk) for X in S+ or equally sparse;
    UY costs O(nk^2).

    Chen, Yang, Xu, Zhang and Zhang, *Big-data clustering: K-means or K-indicators?* (2019).

    Examples
    --------
    >>> U = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0], [1.0, -1.0]]) / 2
    >>> X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]) / np.sqrt(2)
    >>> abs(round(KIndicators(U).value(X), 12))
    0.0
    """

    U: FloatArray

    def __post_init__(self) -> None:
        U = as_matrix(self.U, "U")
        check_shape(U.shape[0], U.shape[1], "U")
        norm_within_range(U, "U")
        object.__setattr__(self, "U", U)

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape of U, which is that of X."""
        return self.U.shape[0], self.U.shape[1]

    @cached_property
    def _constant(self) -> float:
        return Dense(self.U).squared_norm() + self.U.shape[1]

    def cross(self, X: FloatArray) -> FloatArray:
        """Return U'X in float64: O(nk) for a point of S+, O(nk^2) if few entries are zero."""
        sample = X[::_SAMPLED_ROWS]
        if np.count_nonzero(sample) * _SPARSE_SHARE <= sample.size:
            return kernels.sparse_product(X, self.U).T
        return np.asarray(self.U.T @ X, dtype=np.float64)

    def value(self, X: FloatArray) -> float:
        """Return ||U||^2 + k - 2 ||U'X||_*, the minimum over Y, for X with unit columns."""
        fit = np.linalg.svd(self.cross(X), compute_uv=False).sum()
        return self._constant - 2.0 * float(fit)

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return the minimum over Y, and its gradient -2UY by the envelope theorem."""
        return self.at(self.second_block(X)).value_and_gradient(X)

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return the Hessian product of the minimum over Y; `hessian` serves several D."""
        return self.hessian(X)(D)

    def hessian(self, X: FloatArray) -> Linear:
        r"""Return D -> -2U dY, with dY the derivative of the polar factor Y.

        With the singular value decomposition :math:`U^\top X = LSR^\top`,

        .. math:: dY = L K R^\top, \qquad K_{ij} = (E - E^\top)_{ij} / (s_i + s_j),
                  \quad E = L^\top U^\top D R.
        """
        left, s, right = np.linalg.svd(self.cross(X))
        # s_i + s_j = 0 makes the polar factor nonsmooth; the division must still be finite.
        sums = np.maximum(s[:, None] + s, np.finfo(np.float64).tiny)

        def product(D: FloatArray) -> FloatArray:
            E = left.T @ (self.U.T @ D) @ right.T
            return self._rotated(-2.0 * (left @ ((E - E.T) / sums) @ right)).astype(D.dtype)

        return product

    # --- two blocks: the interface of alternating methods -----------------------------------------

    @property
    def Y0(self) -> FloatArray:
        """Return the identity, the initial Y."""
        return np.eye(self.shape[1])

    def second_block(self, X: FloatArray) -> FloatArray:
        """Return the orthogonal Y that maximizes <U'X, Y>, eq. (6.6a)."""
        return polar_factor(self.cross(X))

    @property
    def minimize_y(self) -> Callable[[FloatArray], FloatArray]:
        """Return the closed-form minimizer over Y."""
        return self.second_block

    def y_step(self, X: FloatArray, Y: FloatArray, beta: float) -> tuple[FloatArray, float]:
        """Return the polar factor of Y / beta + U'X, eq. (6.5a), and beta."""
        return polar_factor(Y / beta + self.cross(X)), beta

    def y_residual(self, X: FloatArray, Y: FloatArray, unit: float = 1.0) -> float:
        """Return dist(Y, projection of Y - grad_Y f), the second condition of section 4."""
        return float(np.linalg.norm(Y - self.y_step(X, Y, 2.0)[0]))

    def at(self, Y: FloatArray) -> "FixedRotation":
        """Return the linear problem in X alone, for this Y."""
        return FixedRotation(self._rotated(-2.0 * Y), self._constant, Y)

    def freeze(self, X: FloatArray) -> "FixedRotation":
        """Return ||UY - X||^2 in X alone, with Y the polar factor of U'X."""
        return self.at(self.second_block(X))

    def _rotated(self, Y: FloatArray) -> FloatArray:
        """Return UY in the precision of U."""
        return np.matmul(self.U, Y.astype(self.U.dtype, copy=False), out=empty_like(self.U))

    # --- over S+ ----------------------------------------------------------------------------------

    def majorizer(self, X: FloatArray) -> FloatArray:
        """Return UY for the best Y, as f(Z) <= ||UY - Z||^2 for each Z."""
        return self._rotated(self.second_block(X))

    def move_gains(self, X: FloatArray) -> FloatArray:
        """Return twice the gains of <UY, X> for the best Y; another Y can only increase them."""
        return 2.0 * linear_gains(*entries_of(X), self.majorizer(X))

    def move_gain_bounds(self, X: FloatArray) -> FloatArray:
        """Return twice the bounds for ||U'X||_*, which hold for every Y."""
        return 2.0 * rotated_gain_bounds(*entries_of(X), self.U, self.cross(X))

    def is_clear(self, value: float) -> bool:
        """Return whether ||UY - X||^2 is at most a tenth of ||U||^2 + ||X||^2."""
        return value <= _CLEAR_SHARE * self._constant

    def refine(self, X: FloatArray) -> FloatArray:
        """Alternate the two closed forms on the support of X, section 4 (i), until neither gains.

        The result is a local minimizer over both blocks; a closed form of the global one exists for
        a fixed Y only. An alternation costs O(nk + k^3). The alternation converges linearly, so
        that each Y is extrapolated from the last two (Anderson's method of depth one); if that
        lowers the fit, the next Y is the plain one.
        """
        labels, weights = kernels.largest_entries(X)
        rows, limits = self._compiled_rows, (MAX_ALTERNATIONS, ALTERNATION_GAIN)
        found = None
        if rows is not None:
            found = kernels.alternate_indicators(rows, labels, weights, limits)
        if found is None:
            found = self._alternated(labels, weights)
        return assemble(np.where(found > 0, labels, -1), found.astype(X.dtype), X.shape[1])

    @cached_property
    def _compiled_rows(self) -> FloatArray | None:
        """Return U by rows in float64 if an alternation takes longer in Python, else None."""
        if self.shape[1] > _COMPILED_COLUMNS or self.U.size > _COMPILED_SIZE:
            return None
        return np.ascontiguousarray(self.U, dtype=np.float64)

    def _alternated(self, labels: IntArray, weights: FloatArray) -> FloatArray:
        """Return the weights of `refine` by LAPACK, for any number of columns."""
        k, fit = self.shape[1], -np.inf
        ahead = _Extrapolation()
        best: FloatArray = np.eye(k)
        target = best
        for _ in range(MAX_ALTERNATIONS):
            M = kernels.dense_group_sums(self.U, labels, weights, k).T
            Y = polar_factor(M)
            new = float(np.vdot(M, Y))
            if abs(new - fit) <= ALTERNATION_GAIN * new:
                break
            if new > fit:
                fit, best = new, Y
                target = ahead.next(Y, target)
            else:
                target = ahead.restart(best)
            weights = self._weights(labels, target)
        else:
            weights = self._weights(labels, best)
        return weights

    def _weights(self, labels: IntArray, Y: FloatArray) -> FloatArray:
        """Return the best weights of the rows for this Y, with unit columns."""
        k = self.shape[1]
        entries = kernels.dense_group_dots(self.U, labels, np.ascontiguousarray(Y.T))
        return _unit_columns(labels, fit_weights(labels, entries, k), k)

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Return the projection of U onto OB+, as in section 6.3."""
        return project_oblique_plus(self.U)

    def starts(self, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield `start`, then the projections of U after random rotations."""
        yield self.start(rng)
        k = self.shape[1]
        while True:
            Q = polar_factor(rng.standard_normal((k, k)))
            yield project_oblique_plus(self._rotated(Q))

    def scaled(self) -> "KIndicators":
        """Rescale U to ||U||_F^2 = k, as for an orthonormal U; the minimizers are the same."""
        scale = float(np.sqrt(self.shape[1] / (Dense(self.U).squared_norm() or 1.0)))
        if abs(scale - 1.0) <= _UNIT_SCALE:
            return self
        return KIndicators((self.U * scale).astype(self.U.dtype))

    @property
    def value_lipschitz(self) -> float:
        """Return 2 ||U||_F: ||U'X||_* changes by at most ||U'(X - Z)||_* = <UY, X - Z>."""
        return float(2.0 * Dense(self.U).squared_norm() ** 0.5)

    def lower_bound(self) -> float:
        """Return ||U||^2 + k - 2 ||U||_*, minus a margin for rounding.

        It is the minimum over all orthonormal X, and 0 for an orthonormal U.
        """
        fit = _sum_of_singular_values(self.U.astype(np.float64, copy=False))
        return max(self._constant - 2.0 * fit - 0.5 * self.rounding(), 0.0)

    def trace_form(self) -> TraceForm:
        """Return a bound, ||U||^2 + k - 2 sqrt(k <UU', XX'>), by ||U'X||_* <= sqrt(k) ||U'X||_F."""
        k, constant = self.shape[1], self._constant

        def bound(v: float) -> float:
            return constant - 2.0 * math.sqrt(k * max(v, 0.0))

        return TraceForm(k, bound, constant, least=0.0, factor=Dense(self.U), is_exact=False)

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float:
        """Return twice the rounding margin of sums over n rows of size ||U||^2 + k."""
        return 2.0 * rounding_margin(self._constant, self.shape[0], self.U.dtype, dtype)


def _sum_of_singular_values(U: FloatArray) -> float:
    values = np.linalg.eigvalsh(U.T @ U)
    if values[0] > _EVEN_EIGENVALUES * values[-1]:
        return float(np.sqrt(values).sum())
    return float(np.linalg.svd(U, compute_uv=False).sum())


class _Extrapolation:
    """Extrapolate a fixed-point iteration Y = g(Z) by the secant of its last two residuals."""

    def __init__(self) -> None:
        self._last: tuple[FloatArray, FloatArray] | None = None
        self._n_seen = 0

    def next(self, Y: FloatArray, Z: FloatArray) -> FloatArray:
        """Return the next Z after Y = g(Z): Y itself until two residuals Y - Z are known."""
        self._n_seen += 1
        if self._n_seen == 1:  # the first Y does not come from a Z
            return Y
        residual, last = Y - Z, self._last
        self._last = Y, residual
        if last is None:
            return Y
        change = residual - last[1]
        size = float(np.vdot(change, change))
        share = float(np.vdot(change, residual)) / size if size > 0.0 else 0.0
        return np.asarray(Y - share * (Y - last[0]))

    def restart(self, Y: FloatArray) -> FloatArray:
        """Forget the residuals, and return Y."""
        self._last = None
        return Y


def _unit_columns(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Divide the weights by the norm of their column; rows with label -1 get 0."""
    squares = np.bincount(labels + 1, weights * weights, minlength=k + 1)
    squares[0] = 1.0
    # A column whose weights are all zero stays zero.
    return np.asarray(weights / np.sqrt(np.where(squares > 0.0, squares, 1.0))[labels + 1])


@dataclass(frozen=True, eq=False)
class FixedRotation(Problem):
    """The problem ||UY - X||^2 over OB+ for a fixed Y, which is linear in X."""

    gradient: FloatArray
    constant: float
    Y: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape of the gradient, which is that of X."""
        return self.gradient.shape[0], self.gradient.shape[1]

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return the constant + <G, X> and the constant gradient G = -2UY."""
        return self.constant + inner_product(self.gradient, X), self.gradient

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return zeros: the objective is linear on OB+."""
        return np.zeros_like(D)

    def second_block(self, X: FloatArray) -> FloatArray:
        """Return the fixed Y."""
        return self.Y

    @property
    def lipschitz(self) -> float:
        """Return 0: the gradient is constant."""
        return 0.0
