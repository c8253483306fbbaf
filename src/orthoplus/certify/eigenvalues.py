r"""Upper bounds on <H, XX'> from eigenvalues: by factors, dense, or by products.

Each class evaluates the matrix :math:`H = M + S` for an S between groups (see
`orthoplus.certify.between`). ``bound`` returns the sum of its leading eigenvalues. If the answer X
spans a nearly invariant subspace, ``sharp_bound`` is exact to the last digits: with :math:`L =
X^\top HX`, :math:`R = HX - XL`, a number c above the eigenvalues of H on the complement of X and
any t > 0,

.. math:: H \preceq \begin{pmatrix} L + R^\top R / t & 0 \\ 0 & (c + t) I \end{pmatrix},

so that the sum is at most :math:`\mathrm{tr}\, L + \|R\|^2 / t` if :math:`L \succeq (c + t) I`, and
:math:`\mathrm{tr}\, L = \langle M, XX^\top \rangle` since S vanishes inside the groups. A few
digits of c suffice.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from orthoplus.certify.between import Between, Setting, scaled_slices, score_rows, slopes
from orthoplus.certify.factored import (
    FactoredMatrix,
    GramSums,
    PairSums,
    assemble_factors,
    gram_sums,
    pair_sums,
    sum_of_leading,
    top_off,
)
from orthoplus.certify.model import Model
from orthoplus.certify.spectral_bound import spectral_bound
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.memory import MemoryMatrix
from orthoplus.kernels.threads import single_blas
from orthoplus.linalg.spectral_sum import sum_of_largest

# The largest order of a dense eigenproblem.
MOST_DENSE_ORDER = 3000
# Up to this order the eigenvalues are computed by a single thread.
_SINGLE_ORDER = 600
# Trial values of t, as shares of the distance between c and the eigenvalues of L.
_SHARES = (0.9, 0.5, 0.1)


class Evaluation(Protocol):
    """Evaluate the eigenvalues of H = M + S for an S between groups."""

    def couple(self, levels: FloatArray) -> Between:
        """Return the S with these levels."""

    def bound(self, S: Between) -> float:
        """Return an upper bound on <H, XX'> over all feasible X."""

    def sharp_bound(self, S: Between) -> float:
        """Return the bound from the answer's subspace; infinity if it is not the leading one."""


def evaluation_of(setting: Setting) -> Evaluation:
    """Return the cheapest evaluation for this model, exact up to rounding if possible."""
    if is_narrow(setting.model):
        return _Factored(setting)
    is_small = setting.model.n <= MOST_DENSE_ORDER
    return _Dense(setting) if is_small else _Products(setting)


def is_narrow(model: Model) -> bool:
    """Return whether B = [A, V] has few columns, and fewer than rows."""
    order = model.rank + model.k**2
    return model.factor is not None and order <= min(model.n, MOST_DENSE_ORDER)


def bound_without(model: Model) -> float:
    """Return the bound for S = 0."""
    if is_narrow(model):
        factors = assemble_factors(gram_sums(model), None, None, model.n)
        return sum_of_leading(factors, model.k, has_row_sums=model.has_row_sums)
    if model.n <= MOST_DENSE_ORDER:
        return bound_dense(model, model.dense())
    return _bound_products(model, model.product)


def bound_dense(model: Model, H: FloatArray) -> float:
    """Return an upper bound on <H, XX'> over all feasible X from all eigenvalues of H.

    H may belong to a subset of the rows.
    """
    unit = np.full(len(H), len(H) ** -0.5) if model.has_row_sums else None
    # For small eigenproblems, BLAS threads waiting for each other on a busy machine cost more
    # than they gain.
    with single_blas if len(H) <= _SINGLE_ORDER else nullcontext():
        upper = spectral_bound(H, model.k, unit)
    return upper + rounding_margin(model.size, model.n + model.rank)


def _bound_products(model: Model, product: Callable[[FloatArray], FloatArray]) -> float:
    n, k, fixed = model.n, model.k, 0.0

    def centered(X: FloatArray) -> FloatArray:
        image = product(X - X.mean(axis=0))
        return np.asarray(image - image.mean(axis=0))

    if model.has_row_sums:
        fixed, k = float(product(np.ones((n, 1))).sum()) / n, k - 1
    if k == 0:
        return fixed + rounding_margin(model.size, n)
    upper = sum_of_largest(centered if model.has_row_sums else product, n, k).upper
    return fixed + upper + rounding_margin(model.size + abs(upper), n)


def _sharp_bound(setting: Setting, L: FloatArray, R: FloatArray, top: float) -> float:
    """Return the smallest tr L + ||R||^2 / t over a few values of t, with c = ``top``.

    Pass any R with the right R'R, restricted to the free columns. The result includes no margin
    for tr L = <M, XX'>, because ``model.to_bound`` adds one.
    """
    C = setting.free
    L, squares = C.T @ L @ C, R.T @ R
    if not len(L):
        return setting.trace
    distance = float(np.linalg.eigvalsh((L + L.T) / 2)[0]) - top
    distance -= rounding_margin(float(np.linalg.norm(L)), len(L))
    if not distance > 0:
        return np.inf
    excess = np.inf
    # Eigenvalues of the upper block below c + t are replaced by c + t, which is valid for every t.
    for t in np.array(_SHARES) * distance:
        inner = np.linalg.eigvalsh(L + squares / t)
        excess = min(excess, np.trace(squares) / t + np.maximum(top + t - inner, 0.0).sum())
    return setting.trace + float(excess)


class _Factored:
    """Evaluate by the Gram matrix of [A, V], an eigenproblem of order r + k^2."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.model = setting, setting.model
        self._pairs: PairSums

    @cached_property
    def _data(self) -> GramSums:
        return gram_sums(self.model)

    def couple(self, levels: FloatArray) -> Between:
        self._pairs = pair_sums(self.setting, levels)
        return self.setting.between(levels, self._pairs.dots)

    def _factors(self, S: Between) -> FactoredMatrix:
        return assemble_factors(self._data, self._pairs, S.couplings, self.model.n)

    def bound(self, S: Between) -> float:
        model = self.model
        return sum_of_leading(self._factors(S), model.k, has_row_sums=model.has_row_sums)

    def sharp_bound(self, S: Between) -> float:
        setting, A = self.setting, self.model.factor
        assert A is not None
        dots = setting.unit_dots(self._pairs.dots)
        L = setting.core + S.couplings * dots * dots.T
        top = top_off(self._factors(S), setting.images(dots))
        own = setting.own
        vectors = A.scatter(own.labels), A.scatter(own.weights), A.scatter(setting.x)
        shares = S.couplings * dots.T
        work: tuple[Any, ...] = (self.model.scale, setting.centers, S.levels, shares, L)
        work += (setting.to_images,)
        work += (setting.free, self.model.has_row_sums)
        squares = A.reduce_rows(_residual_work, *vectors, args=work)
        values, directions = np.linalg.eigh(squares)
        R = np.sqrt(np.maximum(values, 0.0))[:, None] * directions.T
        return _sharp_bound(setting, L, R, top)


def _residual_work(
    block: MemoryMatrix, labels: IntArray, weights: FloatArray, x: FloatArray, *args: Any
) -> FloatArray:
    """Return R'R of R = (HX - XL) C for the free combinations C."""
    scale, centers, levels, shares, L, to_images, free, has_row_sums = args
    squares = np.zeros((free.shape[1], free.shape[1]))
    for rows, part in scaled_slices(block, scale, sum(centers.shape)):
        own = labels[rows]
        scores = part.matmul(centers)
        V = slopes(scores, own, weights[rows], levels, has_row_sums=has_row_sums)
        R = scores * to_images + V * shares[np.maximum(own, 0)]
        R -= x[rows, None] * L[own] * (own >= 0)[:, None]
        R = R @ free
        squares += R.T @ R
    return squares


class _Dense:
    """Evaluate by all eigenvalues of the n x n matrix."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.model = setting, setting.model
        self.M = setting.model.dense()
        self._vectors: FloatArray

    def couple(self, levels: FloatArray) -> Between:
        self._vectors, dots = self.setting.vectors(levels)
        return self.setting.between(levels, dots)

    def _whole(self, S: Between) -> FloatArray:
        return self.M + dense_between(S.labels, self._vectors, S.couplings)

    def bound(self, S: Between) -> float:
        return bound_dense(self.model, self._whole(S))

    def sharp_bound(self, S: Between) -> float:
        H, X = self._whole(S), self.setting.point.dense()
        HX = H @ X
        L = X.T @ HX
        R = HX - X @ L
        # (I - XX') H (I - XX'), whose largest eigenvalue is c.
        off = H - X @ HX.T - HX @ X.T + X @ L @ X.T
        top = max(float(np.linalg.eigvalsh((off + off.T) / 2)[-1]), 0.0)
        top += rounding_margin(float(np.linalg.norm(H)), self.model.n)
        return _sharp_bound(self.setting, L, R @ self.setting.free, top)


class _Products:
    """Evaluate by products; the bounds hold with a probability above 1 - 1e-12 for any data."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.model = setting, setting.model
        self._vectors: FloatArray

    def couple(self, levels: FloatArray) -> Between:
        self._vectors, dots = self.setting.vectors(levels)
        return self.setting.between(levels, dots)

    def _product(self, S: Between) -> Callable[[FloatArray], FloatArray]:
        def product(X: FloatArray) -> FloatArray:
            image = multiply_between(S.labels, self._vectors, S.couplings, X)
            return self.model.product(X) + image

        return product

    def bound(self, S: Between) -> float:
        return _bound_products(self.model, self._product(S))

    def sharp_bound(self, S: Between) -> float:
        product, X = self._product(S), self.setting.point.dense()
        HX = product(X)
        L = X.T @ HX
        R = HX - X @ L

        def off(Z: FloatArray) -> FloatArray:
            image = product(Z - X @ (X.T @ Z))
            return np.asarray(image - X @ (X.T @ image))

        top = max(sum_of_largest(off, self.model.n, 1).upper, 0.0)
        return _sharp_bound(self.setting, L, R @ self.setting.free, top)


def dense_between(labels: IntArray, V: FloatArray, couplings: FloatArray) -> FloatArray:
    """Return S as an n x n array from its vectors V and couplings."""
    own = np.maximum(labels, 0)
    W = V[:, own]
    S = W * W.T * couplings[np.ix_(own, own)]
    S[labels < 0], S[:, labels < 0] = 0.0, 0.0
    S[labels[:, None] == labels] = 0.0
    return np.asarray(S)


def dense_of(model: Model, S: Between) -> FloatArray:
    """Return S as an n x n array, computing V from the data."""
    scores = score_rows(model, S.centers) if S.scores is None else S.scores
    V = slopes(scores, S.labels, S.weights, S.levels, has_row_sums=model.has_row_sums)
    return dense_between(S.labels, V, S.couplings)


def multiply_between(
    labels: IntArray, V: FloatArray, couplings: FloatArray, X: FloatArray
) -> FloatArray:
    """Return SX, in O(nk) operations per column of X."""
    k = len(couplings)
    groups = [np.flatnonzero(labels == group) for group in range(k)]
    inner = [couplings[group][:, None] * (V[rows].T @ X[rows]) for group, rows in enumerate(groups)]
    image = np.zeros_like(X)
    for group, rows in enumerate(groups):
        others = np.array([inner[other][group] for other in range(k)])
        others[group] = 0.0
        image[rows] = V[rows] @ others
    return image
