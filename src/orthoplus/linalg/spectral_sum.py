r"""Bound the sum of the k largest eigenvalues from both sides.

Ritz values approximate eigenvalues from inside: if a method misses an eigenvalue, the sum is too
small, and a "lower bound" computed from it is invalid. `sum_of_largest` therefore also bounds the
eigenvalues that it may have missed.

Let Q hold Ritz vectors, :math:`T = Q^\top G Q` their values, :math:`R = GQ - QT` their residuals
and C the part of G on the complement of Q. With :math:`C \preceq cI` and any t > 0,

.. math:: G \preceq \begin{pmatrix} T + R^\top R / t & 0 \\ 0 & (c + t) I \end{pmatrix},

and the sum of the k largest eigenvalues of the right side bounds that of G. The number c comes from
Lanczos runs on C from random starts: at an eigenvalue above c, the residual polynomial would be
larger than the component of the start along its eigenvector allows (van Dorsselaer, Hochstenbach
and van der Vorst, SIAM J. Matrix Anal. Appl. 22, 2000).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from orthoplus.core.types import EPS, FloatArray
from orthoplus.data import DataMatrix, as_data

# Up to _DENSE_ORDER all eigenvalues are computed; up to _MOST_DENSE if the iteration leaves a gap
# and the Gram matrix takes at most _MOST_WORK multiplications.
_DENSE_ORDER, _MOST_DENSE, _MOST_WORK = 400, 2000, 2e10
# All eigenvalues cost about _EIGEN_WORK n^3 multiplications (at the speed of a product); the
# iteration usually takes _USUAL_PRODUCTS products with a block.
_EIGEN_WORK, _USUAL_PRODUCTS = 4, 20
# Number of additional Ritz vectors: the minimum, and as a fraction of k.
_EXTRA_COLUMNS, _EXTRA_SHARE = 6, 0.5
# Number of blocks per cycle, fewer if they would exceed _MOST_BLOCK_ENTRIES; number of cycles.
_BLOCKS_PER_CYCLE, _MOST_BLOCK_ENTRIES, _MAX_CYCLES = 6, 3e7, 30
# Number of runs on the complement, probability that all of them miss an eigenvalue, largest number
# of steps per run, and steps between two checks.
_COMPLEMENT_RUNS, _MISS_PROBABILITY, _MAX_STEPS, _CHECK_EVERY = 6, 1e-12, 240, 6
# A gap above this fraction of the remaining trace justifies the dense computation.
_MAX_OPEN_SHARE = 1e-4
# Number of restarts with more vectors after a missed eigenvalue was detected.
_MAX_ATTEMPTS = 3
# The two sides agree if they differ by at most this fraction of the remaining trace (of the sum if
# the trace is unknown), or by a few unit roundoffs of the largest eigenvalue.
_MAX_RELATIVE_GAP = 1e-7
_SUM_ROUNDOFFS = 16 * EPS
# A Lanczos run ends if its next vector is shorter than this many unit roundoffs.
_BREAKDOWN = 500.0

Product = Callable[[FloatArray], FloatArray]


class SpectralSum(NamedTuple):
    """Lower and upper bound of a sum of eigenvalues, up to rounding.

    ``lower`` always holds. ``upper`` holds with a probability above 1 - 1e-12 over the random
    vectors, for any matrix.
    """

    lower: float
    upper: float


def sum_of_largest(
    product: Product,
    n: int,
    k: int,
    *,
    trace: float | None = None,
    roundoff: float = EPS,
) -> SpectralSum:
    """Bound the sum of the k largest eigenvalues of a symmetric G of order n, given by products.

    Parameters
    ----------
    product : callable
        ``V -> GV`` for V of shape (n, b), in float64.
    n, k : int
    trace : float, optional
        Sum of all eigenvalues. The required accuracy is relative to the trace minus the sum of the
        k largest.
    roundoff : float
        Accuracy of the products, relative to the norm of G.

    Notes
    -----
    Up to n = 400 all eigenvalues are computed. Otherwise a block Krylov method with thick restarts
    is used, and a few Lanczos runs search for missed eigenvalues. If the spectrum is flat near its
    k-th value, a gap remains between the two bounds, but both are valid.

    Examples
    --------
    >>> d = np.linspace(0.0, 1.0, 1000)
    >>> found = sum_of_largest(lambda V: d[:, None] * V, 1000, 2)
    >>> bool(found.lower <= d[-2:].sum() <= found.upper + 1e-12), found.upper - found.lower < 1e-6
    (True, True)
    """
    if n <= max(_DENSE_ORDER, 3 * (k + _EXTRA_COLUMNS)):
        return dense_sum(product(np.eye(n)), k)
    rng = np.random.default_rng(0)
    # Scaling by a power of two is exact and prevents squares from overflowing.
    exponent = int(np.frexp(np.abs(product(rng.standard_normal((n, 1)))).max())[1])
    trace = None if trace is None else math.ldexp(trace, -exponent)
    goal = _Goal(n, k, trace, roundoff)
    found = _search(lambda V: np.ldexp(product(V), -exponent), goal, rng)
    lower, upper = (math.ldexp(side, exponent) for side in found)
    return SpectralSum(lower, max(lower, upper))


def dense_sum(S: FloatArray, k: int) -> SpectralSum:
    """Sum the k largest eigenvalues of a symmetric matrix with entries."""
    total = float(np.linalg.eigvalsh((S + S.T) / 2)[len(S) - k :].sum())
    return SpectralSum(total, total)


def sum_of_squares(A: Any, k: int, total: float) -> SpectralSum:
    """Bound the sum of the k largest squared singular values of data in any storage.

    Parameters
    ----------
    A : data of shape (n, r), see `orthoplus.data.as_data`
    k : int
    total : float
        ||A||_F^2.

    Examples
    --------
    >>> sum_of_squares(np.diag([3.0, 2.0, 1.0]), 2, 14.0).upper
    13.0
    """
    A = as_data(A, check=False)
    order = min(A.shape)
    k, roundoff = min(k, order), float(np.finfo(A.dtype).eps)
    if order <= max(A.gram_order, 3 * (k + _EXTRA_COLUMNS)) or _is_dense_cheaper(A, order, k):
        return dense_sum(A.short_gram(), k)
    found = sum_of_largest(A.short_product, order, k, trace=total, roundoff=roundoff)
    is_open = found.upper - found.lower > _MAX_OPEN_SHARE * (total - found.lower)
    if is_open and order <= _MOST_DENSE and A.n_stored * order <= _MOST_WORK:
        return dense_sum(A.short_gram(), k)
    return found


def _is_dense_cheaper(A: DataMatrix, order: int, k: int) -> bool:
    """Return whether all eigenvalues of the Gram matrix cost less than products with a block."""
    dense = A.n_stored * order + _EIGEN_WORK * order**3
    products = 4 * _USUAL_PRODUCTS * A.n_stored * _Goal(order, k, None, EPS).width
    return A.has_entries and order <= _MOST_DENSE and dense <= products


# --- the leading Ritz pairs ---------------------------------------------------------------------


class _Pairs(NamedTuple):
    """Orthonormal Ritz vectors Q, descending Ritz values, GQ, R'R of the residuals R, and ||G||."""

    values: FloatArray
    vectors: FloatArray
    images: FloatArray
    errors: FloatArray
    size: float

    def sum(self, k: int) -> float:
        return float(self.values[:k].sum())

    def bound(self, top: float, k: int) -> float:
        """Bound the sum of the k largest eigenvalues by the best t, with C <= top I."""
        shares = np.concatenate([[1e-16], np.logspace(-14, 0, 43)])
        return min(self._bound_with(top, k, t) for t in shares * self.size) if self.size else 0.0

    def _bound_with(self, top: float, k: int, t: float) -> float:
        inner = np.linalg.eigvalsh(np.diag(self.values) + self.errors / t)
        return float(np.maximum(inner[::-1][:k], top + t).sum())


class _Goal(NamedTuple):
    """The order, the number of eigenvalues, and the required accuracy of their sum."""

    n: int
    k: int
    trace: float | None
    roundoff: float

    @property
    def width(self) -> int:
        """Return the number of columns of a block; additional columns improve the convergence."""
        return self.k + max(_EXTRA_COLUMNS, int(_EXTRA_SHARE * self.k))

    def is_met(self, pairs: _Pairs, top: float) -> bool:
        lower = pairs.sum(self.k)
        rest = abs(lower) if self.trace is None else abs(self.trace - lower)
        return (
            pairs.bound(top, self.k) - lower
            <= _MAX_RELATIVE_GAP * rest + _SUM_ROUNDOFFS * self.k * pairs.size
        )


def _search(product: Product, goal: _Goal, rng: np.random.Generator) -> SpectralSum:
    """Alternate between computing the leading Ritz pairs and searching for missed eigenvalues."""
    k = goal.k
    found, best = None, SpectralSum(-np.inf, np.inf)
    for _ in range(_MAX_ATTEMPTS):
        found = _leading_pairs(product, found, goal, rng)
        rest = _bound_rest(product, found, goal, rng)
        best = SpectralSum(max(best.lower, found.sum(k)), min(best.upper, found.bound(rest.top, k)))
        if rest.seen <= found.values[k - 1] or goal.is_met(found, rest.top):
            break  # otherwise the complement still has a larger eigenvalue
    return best


def _leading_pairs(
    product: Product, known: _Pairs | None, goal: _Goal, rng: np.random.Generator
) -> _Pairs:
    """Compute Ritz pairs by cycles of block Krylov steps, each started from the last pairs."""
    n, width = goal.n, goal.width
    block: FloatArray = rng.standard_normal((n, width))
    n_kept = width + (0 if known is None else len(known.values))
    fitting = int(min(_MOST_BLOCK_ENTRIES / (2 * n * width), (n - n_kept) // width))
    pairs, n_blocks = known, max(1, min(_BLOCKS_PER_CYCLE, fitting) - 1)
    for _ in range(_MAX_CYCLES):
        basis = [] if pairs is None else [pairs.vectors]
        images = [] if pairs is None else [pairs.images]
        for _ in range(n_blocks):
            basis.append(_orthonormal(block, basis, rng))
            block = product(basis[-1])
            images.append(block)
        pairs = _rayleigh_ritz(np.hstack(basis), np.hstack(images), n_kept)
        # The last Ritz value serves as an estimate of the bound on the complement.
        if goal.is_met(pairs, float(pairs.values[-1])):
            break
        block = (pairs.images - pairs.vectors * pairs.values)[:, :width]
    assert pairs is not None
    return pairs


def _orthonormal(
    block: FloatArray, basis: list[FloatArray], rng: np.random.Generator
) -> FloatArray:
    """Return orthonormal columns that span the block without the basis, padded at random."""
    empty = ~block.any(axis=0)
    if empty.any():
        block = block.copy()
        block[:, empty] = rng.standard_normal((len(block), int(empty.sum())))
    block = np.linalg.qr(_off(basis, _off(basis, block)))[0]
    # Nearly dependent columns bring back a small part of the basis, so project once more. The
    # block is then nearly orthonormal, and a cheap Cholesky factorization completes it.
    block = _off(basis, block)
    try:
        return np.asarray(np.linalg.solve(np.linalg.cholesky(block.T @ block), block.T).T)
    except np.linalg.LinAlgError:  # the block was only rounding error
        return np.linalg.qr(block)[0]


def _off(basis: list[FloatArray], block: FloatArray) -> FloatArray:
    """Project the block onto the orthogonal complement of the basis."""
    for known in basis:
        block = block - known @ (known.T @ block)
    return block


def _rayleigh_ritz(basis: FloatArray, images: FloatArray, width: int) -> _Pairs:
    T = basis.T @ images
    values, vectors = np.linalg.eigh((T + T.T) / 2)
    size = float(np.abs(values).max())
    values, vectors = values[::-1][:width], vectors[:, ::-1][:, :width]
    Q, GQ = basis @ vectors, images @ vectors
    R = GQ - Q * values
    return _Pairs(values, Q, GQ, R.T @ R, size)


# --- the bound on the complement ----------------------------------------------------------------


class _Rest(NamedTuple):
    """Largest Ritz value of G on the complement, and an upper bound of its eigenvalues."""

    seen: float
    top: float


def _bound_rest(product: Product, pairs: _Pairs, goal: _Goal, rng: np.random.Generator) -> _Rest:
    """Run Lanczos on the complement of the Ritz vectors until its bound meets the goal.

    No vectors are stored: the argument only needs unit vectors and the three-term recurrence, not
    orthogonality.
    """
    Q, n = pairs.vectors, len(pairs.vectors)
    V = _unit_columns(_without(Q, rng.standard_normal((n, _COMPLEMENT_RUNS))))[0]
    last: FloatArray = np.zeros((n, _COMPLEMENT_RUNS))
    alphas, betas = [], [np.zeros(_COMPLEMENT_RUNS)]
    rest = _Rest(-np.inf, np.inf)
    for step in range(1, _MAX_STEPS + 1):
        W = _without(Q, product(V))
        alphas.append(np.einsum("ij,ij->j", V, W))
        W = _without(Q, W - V * alphas[-1] - last * betas[-1])
        following, beta = _unit_columns(W)
        floor = _BREAKDOWN * goal.roundoff * max(pairs.size, float(np.abs(alphas).max()))
        if floor == 0.0:
            return _Rest(0.0, 0.0)  # G = 0, as its product with a random vector is zero
        betas.append(np.maximum(beta, floor))
        V, last = following, V
        is_over = bool((beta <= floor).any()) or step == _MAX_STEPS
        if is_over or step % _CHECK_EVERY == 0:
            rest = _read_runs(np.array(alphas), np.array(betas[1:]), n)
            if is_over or goal.is_met(pairs, rest.top) or rest.seen > pairs.values[goal.k - 1]:
                break
    return rest


def _read_runs(alphas: FloatArray, betas: FloatArray, n: int) -> _Rest:
    """Return the largest Ritz value and the largest bound of the runs.

    Let u be an eigenvector with eigenvalue x. Its component in the next Lanczos vector is p(x) g,
    where g is the component in the first vector and p(x) the product of (x - Ritz value) / beta.
    This component is at most 1, and |g| < s has a probability of at most s sqrt(2 n / pi) for a
    random start. Hence p(x) <= sqrt(2 n / pi) / chance.
    """
    limit = 0.5 * np.log(2.0 * n / np.pi) - np.log(_MISS_PROBABILITY) / alphas.shape[1]
    seen, top = -np.inf, -np.inf
    for alpha, beta in zip(alphas.T, betas.T, strict=True):
        ritz = eigvalsh_tridiagonal(alpha, beta[:-1])
        logs = limit + float(np.log(beta).sum())
        seen, top = max(seen, float(ritz[-1])), max(top, _root(ritz, logs))
    return _Rest(seen, top)


def _root(ritz: FloatArray, logs: float) -> float:
    """Solve sum of log(x - ritz) = ``logs`` for x above all Ritz values, rounded upwards."""
    low, high = 0.0, float(np.exp(logs / len(ritz)))  # each factor is at least x - ritz[-1]
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):
            is_below = np.log(middle + (ritz[-1] - ritz)).sum() < logs
        low, high = (middle, high) if is_below else (low, middle)
    return float(ritz[-1]) + high


def _without(Q: FloatArray, V: FloatArray) -> FloatArray:
    return np.asarray(V - Q @ (Q.T @ V))


def _unit_columns(V: FloatArray) -> tuple[FloatArray, FloatArray]:
    norms = np.linalg.norm(V, axis=0)
    return V / np.where(norms > 0, norms, 1.0), norms
