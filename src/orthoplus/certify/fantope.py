r"""Projection onto the Fantope :math:`\{F : 0 \preceq F \preceq I, \operatorname{tr} F = k\}`.

Only eigenpairs above a threshold contribute. `LeadingPairs` tracks them from one matrix to the
next, nearby one: it applies a Chebyshev filter to the last vectors, then Rayleigh-Ritz.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from orthoplus.core.types import FloatArray
from orthoplus.kernels.blocks import for_blocks, partition_rows

# Over-relaxation of an ADMM step, which needs fewer iterations than a factor of 1.
OVER_RELAXATION = 1.6
# Up to this order an ADMM iteration runs in float64, beyond it in float32. Bounds are always
# computed in float64.
DOUBLE_ORDER = 1000
# Tolerance of the eigenpairs' residuals, as a share of the distance between F and P.
EIGEN_TOL = 0.1
# All pairs are computed up to this order, or if more than this share of them is needed.
_DENSE_ORDER, _DENSE_SHARE = 160, 0.3
# Additional pairs beyond those with a positive share: at least this many, and this part of them.
_EXTRA_PAIRS, _EXTRA_SHARE = 4, 0.25
# Degree of the filter: initial, smallest and largest.
_FIRST_DEGREE, _MIN_DEGREE, _MAX_DEGREE = 8, 2, 12
# Least half-width of the filtered interval, in square roots of the roundoff relative to the largest
# eigenvalue. A narrower interval would amplify the top pairs so much that the others drown.
_LEAST_HALF = 0.03
# Rounding errors may grow to this share of a column in the filter.
_MOST_SPREAD = 1e-3
# Smallest accepted pivot of the Cholesky factor for columns of unit length.
_LEAST_PIVOT = 1e-6
# Residuals of at most this many roundings count as zero.
_LEAST_TOL = 100.0
# Maximum number of passes over one matrix while its pairs are too inaccurate.
_MAX_PASSES = 3
# Rows that are averaged at a time.
_SLICE = 64
# The lower end of the spectrum is estimated again after this many matrices, by this many Lanczos
# steps.
_FLOOR_EVERY, _LANCZOS_STEPS = 20, 12


class LowRank(NamedTuple):
    r"""Represent :math:`V \operatorname{diag}(d) V^\top` with orthonormal columns V.

    Examples
    --------
    >>> LowRank(np.eye(2, 1), np.array([0.5])).dense()
    array([[0.5, 0. ],
           [0. , 0. ]])
    """

    vectors: FloatArray
    shares: FloatArray

    def dense(self) -> FloatArray:
        """Return the matrix as a dense array."""
        return np.asarray((self.vectors * self.shares) @ self.vectors.T)


def share_out(values: FloatArray, k: float) -> tuple[FloatArray, float]:
    r"""Project numbers onto :math:`\{0 \le d \le 1, \sum d = k\}`.

    .. math:: d_i = \min(1, \max(0, v_i - \theta)).

    Parameters
    ----------
    values : ndarray of shape (m,)
        Any real numbers, with m >= k.
    k : float
        The required sum, at least 0.

    Returns
    -------
    shares : ndarray of shape (m,)
    threshold : float
        The threshold theta; values below it get the share 0.

    Examples
    --------
    >>> share_out(np.array([5.0, 2.0, 1.5, 0.0]), 2)
    (array([1.  , 0.75, 0.25, 0.  ]), 1.25)
    """
    # The sum of shares decreases in theta and is linear between these breakpoints: bisect.
    points = np.unique(np.concatenate([values, values - 1.0]))
    low, high = 0, len(points) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if _sum_of_shares(values, points[middle]) >= k:
            low = middle
        else:
            high = middle
    at_low = _sum_of_shares(values, points[low])
    fall = at_low - _sum_of_shares(values, points[high])
    part = min(1.0, max(0.0, (at_low - k) / fall)) if fall > 0 else 0.0
    threshold = float(points[low] + part * (points[high] - points[low]))
    return np.clip(values - threshold, 0.0, 1.0), threshold


def _sum_of_shares(values: FloatArray, threshold: float) -> float:
    return float(np.clip(values - threshold, 0.0, 1.0).sum())


def multiply(W: FloatArray, V: FloatArray) -> FloatArray:
    """Return WV by blocks of rows in our own threads, since BLAS stalls on busy processors."""
    out = np.empty((len(W), V.shape[1]), dtype=W.dtype)

    def work(b: int, rows: slice) -> None:
        np.matmul(W[rows], V, out=out[rows])

    for_blocks(work, partition_rows(*W.shape))
    return out


def orthonormalize(V: FloatArray) -> FloatArray:
    """Return orthonormal columns with the span of V, in float64.

    Orthonormalize twice by the Cholesky factor of V'V with unit columns, which needs only matrix
    products, whereas QR passes over V for each column. If V'V is nearly singular, use QR.

    Examples
    --------
    >>> V = orthonormalize(np.array([[3.0, 1.0], [4.0, 0.0], [0.0, 1.0]]))
    >>> bool(np.allclose(V.T @ V, np.eye(2), atol=1e-15))
    True
    """
    lengths = np.linalg.norm(V, axis=0)
    Q: FloatArray = V / np.where(lengths > 0, lengths, 1.0)
    for _ in range(2):
        factor, info = lapack.dpotrf(Q.T @ Q, lower=0)
        # With smaller pivots, the second round could not restore what the first one lost.
        if info != 0 or not factor.diagonal().min(initial=1.0) > _LEAST_PIVOT:
            return np.asarray(np.linalg.qr(V)[0])
        Q = blas.dtrsm(1.0, factor, Q, side=1)
    return np.ascontiguousarray(Q)


class LeadingPairs:
    r"""Project a sequence of nearby matrices onto the Fantope.

    Parameters
    ----------
    n, k : int
        The order of the matrices and the trace of F.
    unit : ndarray of shape (n,), optional
        A unit vector u that F must be orthogonal to: :math:`PWP` with :math:`P = I - uu^\top` is
        projected on the complement of u.

    Examples
    --------
    >>> pairs = LeadingPairs(4, 2)
    >>> pairs.project(np.diag([5.0, 2.0, 1.5, 0.0])).dense().diagonal()
    array([1.  , 0.75, 0.25, 0.  ])
    """

    def __init__(self, n: int, k: int, unit: FloatArray | None = None) -> None:
        self.n, self.k, self.unit = n, k, unit
        self.error = 0.0  # norm of the residuals of the last pairs with a share
        self._rng = np.random.default_rng(0)
        self._vectors: FloatArray = np.zeros((n, 0))
        self._values: FloatArray = np.zeros(0)
        self._degree = _FIRST_DEGREE
        self._floor, self._age = 0.0, 0

    @property
    def vectors(self) -> FloatArray | None:
        """More than k leading vectors of the last matrix; None before the first one."""
        return self._vectors if self._vectors.shape[1] > self.k else None

    def project(self, W: FloatArray, tol: float = 0.0) -> LowRank:
        """Return the projection of W, with eigenpairs refined to residuals of at most ``tol``."""
        width = max(self._vectors.shape[1], self.k + max(_EXTRA_PAIRS, self.k // 2))
        if self.n <= _DENSE_ORDER or width > _DENSE_SHARE * self.n:
            return self._project_fully(W)
        self._set_floor(W)
        tol = max(
            tol, _LEAST_TOL * float(np.finfo(W.dtype).eps) * float(np.linalg.norm(self._values))
        )
        n_passes = 0
        while True:
            self._widen(width)
            F, width = self._refine(W, tol)
            if width > _DENSE_SHARE * self.n:
                return self._project_fully(W)
            n_passes += 1
            if F is not None and (self.error <= tol or n_passes >= _MAX_PASSES):
                return F

    def _project_fully(self, W: FloatArray) -> LowRank:
        W = W.astype(np.float64)
        if self.unit is not None:  # give u the lowest eigenvalue, hence no share
            W = split_off(W, self.unit)[0]
            W -= np.outer(self.unit, self.unit) * (1.0 + float(np.linalg.norm(W)))
        values, vectors = np.linalg.eigh(W)
        shares, _ = share_out(values, self.k)
        rank = int((shares > 0).sum())
        width = min(len(values), rank + max(_EXTRA_PAIRS, int(_EXTRA_SHARE * rank)))
        self._values, self._vectors = values[::-1][:width], vectors[:, ::-1][:, :width]
        self.error = 0.0
        return LowRank(self._vectors[:, :rank], shares[::-1][:rank])

    def _set_floor(self, W: FloatArray) -> None:
        """Estimate the lower end of the spectrum, from which on the filter damps."""
        if self._age % _FLOOR_EVERY == 0:
            self._floor = extreme_eigenvalues(W, self._rng)[0]
        self._age += 1

    def _widen(self, width: int) -> None:
        """Add random vectors or drop the last ones to get this many."""
        missing = width - self._vectors.shape[1]
        if missing > 0:
            new = self._rng.standard_normal((self.n, missing))
            new -= self._vectors @ (self._vectors.T @ new)
            self._vectors = np.hstack([self._vectors, new])
            self._degree = _FIRST_DEGREE
        else:
            self._vectors, self._values = self._vectors[:, :width], self._values[:width]

    def forget_floor(self) -> None:
        """Request a new estimate of the lower end, because the next matrix is not nearby."""
        self._age = 0

    def _filtered(self, W: FloatArray) -> FloatArray:
        """Return the filtered vectors, lowering the floor if they overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            V = self._filter(W, self._vectors)
            if np.isfinite(V).all():
                return V
            low, high = extreme_eigenvalues(W, self._rng)
            self._floor = low - (high - low)
            V = self._filter(W, self._vectors)
        return V if np.isfinite(V).all() else self._apply(W, self._vectors)

    def _refine(self, W: FloatArray, tol: float) -> tuple[LowRank | None, int]:
        """Filter the vectors once; return F, or None if there are too few, and the width needed."""
        Q = orthonormalize(self._off_unit(self._filtered(W)))
        images = self._apply(W, Q)
        inner = Q.T @ images
        values, turn = np.linalg.eigh((inner + inner.T) / 2)
        values, turn = values[::-1], turn[:, ::-1]
        self._values, self._vectors = values, Q @ turn
        shares, threshold = share_out(values, self.k)
        rank = int((shares > 0).sum())
        width = rank + max(_EXTRA_PAIRS, int(_EXTRA_SHARE * rank))
        # Even the last Ritz value gets a share: there may be more such pairs, so widen the block.
        if values[-1] > threshold:
            return None, max(width, len(values) + _EXTRA_PAIRS)
        residuals = (images @ turn - self._vectors * values)[:, :rank]
        self.error = float(np.linalg.norm(residuals))
        self._degree += 1 if self.error > tol else -1
        self._degree = min(_MAX_DEGREE, max(_MIN_DEGREE, self._degree))
        F = LowRank(self._vectors[:, :rank], shares[:rank])
        self._widen(min(len(values), width + _EXTRA_PAIRS))
        return F, width

    def _apply(self, W: FloatArray, V: FloatArray) -> FloatArray:
        """Return PWV in float64 for V orthogonal to u."""
        return self._off_unit(multiply(W, V.astype(W.dtype)).astype(np.float64))

    def _off_unit(self, V: FloatArray) -> FloatArray:
        return V if self.unit is None else V - np.outer(self.unit, self.unit @ V)

    def _filter(self, W: FloatArray, V: FloatArray) -> FloatArray:
        r"""Return :math:`T_d(\ell(W)) V`, where l maps the floor and the last value to -1 and 1.

        The Chebyshev polynomial is at most 1 on this interval and grows fast above it, so that the
        components along small eigenvalues are damped relative to the rest.
        """
        if len(self._values) < self.k:  # no values are known yet
            return self._apply(W, self._apply(W, V))
        roundoff = float(np.finfo(W.dtype).eps)
        least = np.sqrt(roundoff) * _LEAST_HALF * float(np.abs(self._values).max())
        half = max((self._values[-1] - self._floor) / 2, least)
        middle = self._values[-1] - half

        def step(V: FloatArray) -> FloatArray:
            return (self._apply(W, V) - middle * V) / half

        # The polynomial is so large at the top pairs that rounding would spread them over all
        # columns: these pairs stop early, and the others are kept orthogonal to them.
        reach = np.cosh(np.arccosh(_MOST_SPREAD / roundoff) / self._degree)
        n_top = int((self._values > middle + reach * half).sum())
        top = self._vectors[:, :n_top]
        before, now = V, step(V)
        before, now = now, 2 * step(now) - before
        done, before, now = now[:, :n_top], before[:, n_top:], now[:, n_top:]
        for _ in range(self._degree - 2):
            now = now - top @ (top.T @ now)
            before, now = now, 2 * step(now) - before
        return np.hstack([done, now])


def extreme_eigenvalues(W: FloatArray, rng: np.random.Generator) -> tuple[float, float]:
    """Estimate the extreme eigenvalues by a few Lanczos steps, erring on the outside.

    Examples
    --------
    >>> low, high = extreme_eigenvalues(np.diag([-1.0, 0.0, 2.0]), np.random.default_rng(0))
    >>> round(low, 6), round(high, 6)
    (-1.0, 2.0)
    """
    v = rng.standard_normal((len(W), 1))
    basis = [v / np.linalg.norm(v)]
    alphas, betas = [], []
    for _ in range(min(_LANCZOS_STEPS, len(W))):
        w = multiply(W, basis[-1].astype(W.dtype)).astype(np.float64)
        alphas.append(float(np.vdot(basis[-1], w)))
        known = np.hstack(basis)
        w -= known @ (known.T @ w)
        betas.append(float(np.linalg.norm(w)))
        if betas[-1] <= 1e-10 * max(map(abs, alphas)):
            break
        basis.append(w / betas[-1])
    off = np.diag(betas[:-1], 1)
    ritz, vectors = np.linalg.eigh(np.diag(alphas) + off + off.T)
    errors = betas[-1] * np.abs(vectors[-1])  # distance to the nearest eigenvalue
    return float(ritz[0] - errors[0]), float(ritz[-1] + errors[-1])


def estimate_sum(
    product: Callable[[FloatArray], FloatArray],
    k: int,
    V: FloatArray,
    unit: FloatArray | None = None,
) -> float:
    r"""Estimate the sum of the k largest eigenvalues of H from below.

    Parameters
    ----------
    product : callable
        Function that returns HV.
    k : int
    V : ndarray of shape (n, m)
        Approximate leading eigenvectors of H, or of PHP, with m >= k - 1. Two products improve
        them.
    unit : ndarray of shape (n,), optional
        A unit vector u. If given, estimate the sum of :math:`u^\top Hu` and the k - 1 largest
        eigenvalues of PHP, with :math:`P = I - uu^\top`.

    Examples
    --------
    >>> H = np.diag([3.0, 2.0, 1.0])
    >>> round(estimate_sum(lambda V: H @ V, 2, np.eye(3, 2)), 12)
    5.0
    """
    fixed = 0.0
    if unit is not None:
        fixed, k = float(unit @ product(unit[:, None])[:, 0]), k - 1
    for _ in range(2):
        V = orthonormalize(V)
        images = product(V)
        if unit is not None:
            images -= np.outer(unit, unit @ images)
        inner, V = V.T @ images, images
    values = np.linalg.eigvalsh((inner + inner.T) / 2)
    return fixed + float(values[len(values) - k :].sum())


def split_off(H: FloatArray, unit: FloatArray) -> tuple[FloatArray, float]:
    """Return PHP and u'Hu for a symmetric H and P = I - uu'.

    Examples
    --------
    >>> split_off(np.diag([1.0, 2.0]), np.array([0.0, 1.0]))
    (array([[1., 0.],
           [0., 0.]]), 2.0)
    """
    image = H @ unit
    fixed = float(unit @ image)
    half = image - (fixed / 2) * unit
    return H - np.outer(unit, half) - np.outer(half, unit), fixed


def split_off_into(H: FloatArray, unit: FloatArray, lowered: float) -> float:
    """Replace H by PHP - ``lowered`` uu' in place and return u'Hu.

    Examples
    --------
    >>> H = np.diag([1.0, 2.0])
    >>> split_off_into(H, np.array([0.0, 1.0]), 5.0), H
    (2.0, array([[ 1.,  0.],
           [ 0., -5.]]))
    """
    image = multiply(H, unit[:, None])[:, 0]
    fixed = float(unit @ image)
    half = image - (fixed - lowered) / 2 * unit

    def work(b: int, rows: slice) -> None:
        for i in range(rows.start, rows.stop):
            H[i] -= unit[i] * half + half[i] * unit

    for_blocks(work, partition_rows(*H.shape))
    return fixed


def average_into(S: FloatArray) -> None:
    """Replace S by the mean of S and its transpose.

    Examples
    --------
    >>> S = np.array([[1.0, 2.0], [4.0, 3.0]])
    >>> average_into(S)
    >>> S
    array([[1., 3.],
           [3., 3.]])
    """
    for start in range(0, len(S), _SLICE):
        i, rest = slice(start, start + _SLICE), slice(start, None)
        mean = (S[i, rest] + S[rest, i].T) / 2
        S[i, rest], S[rest, i] = mean, mean.T
