r"""The sum of the k largest eigenvalues, from both sides.

Ritz values are inner approximations: a method that misses an eigenvalue reports a sum that is too
small, and a "lower bound" made of it is none. `sum_of_largest` therefore bounds what it has missed.

Let Q hold Ritz vectors, :math:`T = Q^\top G Q` their values, :math:`R = GQ - QT` their residuals
and C the part of G on the complement of Q. With :math:`C \preceq cI` and any t > 0,

.. math:: G \preceq \begin{pmatrix} T + R^\top R / t & 0 \\ 0 & (c + t) I \end{pmatrix},

and the sum of the k largest eigenvalues of the right side bounds that of G. The number c comes from
Lanczos runs on C that start at random: their residual polynomial at an eigenvalue that they do not
see would be larger than the component of the start along its vector allows (van Dorsselaer,
Hochstenbach and van der Vorst, SIAM J. Matrix Anal. Appl. 22, 2000).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from orthoplus.core.types import FloatArray
from orthoplus.data import DataMatrix, as_data

# Up to this order all eigenvalues are computed; up to the second where the iteration leaves a doubt
# and the Gram matrix takes no more multiplications than this.
_DENSE_ORDER, _MOST_DENSE, _MOST_WORK = 400, 2000, 2e10
# Multiplications of all eigenvalues, times the cube of the order, at the rate of a product; and
# products with a block that the iteration usually takes.
_EIGEN_WORK, _USUAL_PRODUCTS = 4, 20
# Ritz vectors beyond those that are asked for, at least, and as a share of them.
_SPARE, _SPARE_SHARE = 6, 0.5
# Blocks of a cycle, fewer where they would take more numbers than this, and cycles.
_BLOCKS, _MOST_NUMBERS, _MAX_CYCLES = 6, 3e7, 30
# Runs on the complement, the chance that all miss an eigenvalue, and the steps of each.
_RUNS, _CHANCE, _MAX_STEPS, _LOOK_EVERY = 6, 1e-12, 240, 6
# Sides that differ by more than this share of what is left are worth the dense way.
_OPEN = 1e-4
# How often the search begins again with more vectors where something was missed.
_MAX_ATTEMPTS = 3
# The two sides are near enough if they differ by this share of what is left of the trace, or, where
# the trace is not known, of the sum; or by so many roundings of the largest eigenvalue.
_MAX_RELATIVE_GAP, _EPS = 1e-7, float(np.finfo(np.float64).eps)
_SUM_ROUNDOFFS = 16 * _EPS
# A Lanczos run has ended where its next vector is this many roundings: it is not another direction.
_BREAKDOWN = 500.0

Product = Callable[[FloatArray], FloatArray]


class SpectralSum(NamedTuple):
    """A sum of eigenvalues lies between these, rounding apart.

    ``lower`` always; ``upper`` with a probability above 1 - 1e-12, over the random vectors that are
    drawn, whatever the matrix is.
    """

    lower: float
    upper: float


def sum_of_largest(
    product: Product,
    n: int,
    k: int,
    *,
    trace: float | None = None,
    roundoff: float = _EPS,
) -> SpectralSum:
    """Bound the sum of the k largest eigenvalues of a symmetric G of order n, used by products.

    Parameters
    ----------
    product : callable
        ``V -> GV`` for V of shape (n, b), in float64.
    n, k : int
    trace : float, optional
        The sum of all eigenvalues, of which the k largest are to be taken: it says how accurate
        their sum has to be.
    roundoff : float
        The accuracy of the products, relative to the norm of G.

    Notes
    -----
    Up to n = 400 all eigenvalues, otherwise a block Krylov method with thick restarts, and a few
    Lanczos runs that look for what it has missed. If the spectrum is flat near its k-th value the
    two sides stay apart, and both hold.

    Examples
    --------
    >>> d = np.linspace(0.0, 1.0, 1000)
    >>> found = sum_of_largest(lambda V: d[:, None] * V, 1000, 2)
    >>> bool(found.lower <= d[-2:].sum() <= found.upper + 1e-12), found.upper - found.lower < 1e-6
    (True, True)
    """
    if n <= max(_DENSE_ORDER, 3 * (k + _SPARE)):
        return dense_sum(product(np.eye(n)), k)
    rng = np.random.default_rng(0)
    # Scaled by a power of two, no square leaves the range, and no digit changes.
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
    """Bound the sum of the k largest squared singular values of data in any form.

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
    if order <= max(A.gram_order, 3 * (k + _SPARE)) or _is_dense_cheaper(A, order, k):
        return dense_sum(A.short_gram(), k)
    found = sum_of_largest(A.short_product, order, k, trace=total, roundoff=roundoff)
    is_open = found.upper - found.lower > _OPEN * (total - found.lower)
    if is_open and order <= _MOST_DENSE and A.n_stored * order <= _MOST_WORK:
        return dense_sum(A.short_gram(), k)
    return found


def _is_dense_cheaper(A: DataMatrix, order: int, k: int) -> bool:
    """Return whether all eigenvalues of the Gram matrix cost less than products with a block."""
    dense = A.n_stored * order + _EIGEN_WORK * order**3
    products = 4 * _USUAL_PRODUCTS * A.n_stored * _Goal(order, k, None, _EPS).width
    return A.has_entries and order <= _MOST_DENSE and dense <= products


# --- the leading Ritz pairs ---------------------------------------------------------------------


class _Pairs(NamedTuple):
    """Orthonormal Ritz vectors Q, falling Ritz values, GQ, R'R for the residuals R, and ||G||."""

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
    """The order, how many eigenvalues, and how near the two sides of their sum have to come."""

    n: int
    k: int
    trace: float | None
    roundoff: float

    @property
    def width(self) -> int:
        """Columns of a block: more than are asked for, which the spare ones help to tell apart."""
        return self.k + max(_SPARE, int(_SPARE_SHARE * self.k))

    def is_met(self, pairs: _Pairs, top: float) -> bool:
        lower = pairs.sum(self.k)
        rest = abs(lower) if self.trace is None else abs(self.trace - lower)
        return (
            pairs.bound(top, self.k) - lower
            <= _MAX_RELATIVE_GAP * rest + _SUM_ROUNDOFFS * self.k * pairs.size
        )


def _search(product: Product, goal: _Goal, rng: np.random.Generator) -> SpectralSum:
    """Alternate between finding the leading Ritz pairs and looking for what they have missed."""
    k = goal.k
    found, best = None, SpectralSum(-np.inf, np.inf)
    for _ in range(_MAX_ATTEMPTS):
        found = _leading_pairs(product, found, goal, rng)
        rest = _bound_rest(product, found, goal, rng)
        best = SpectralSum(max(best.lower, found.sum(k)), min(best.upper, found.bound(rest.top, k)))
        if rest.seen <= found.values[k - 1] or goal.is_met(found, rest.top):
            break  # otherwise a larger eigenvalue is left
    return best


def _leading_pairs(
    product: Product, known: _Pairs | None, goal: _Goal, rng: np.random.Generator
) -> _Pairs:
    """Find Ritz pairs by cycles of block Krylov steps, each from the best of the last."""
    n, width = goal.n, goal.width
    block: FloatArray = rng.standard_normal((n, width))
    n_kept = width + (0 if known is None else len(known.values))
    fitting = int(min(_MOST_NUMBERS / (2 * n * width), (n - n_kept) // width))
    pairs, n_blocks = known, max(1, min(_BLOCKS, fitting) - 1)
    for _ in range(_MAX_CYCLES):
        basis = [] if pairs is None else [pairs.vectors]
        images = [] if pairs is None else [pairs.images]
        for _ in range(n_blocks):
            basis.append(_orthonormal(block, basis, rng))
            block = product(basis[-1])
            images.append(block)
        pairs = _rayleigh_ritz(np.hstack(basis), np.hstack(images), n_kept)
        # The last of the values stands for what is not known of the rest.
        if goal.is_met(pairs, float(pairs.values[-1])):
            break
        block = (pairs.images - pairs.vectors * pairs.values)[:, :width]
    assert pairs is not None
    return pairs


def _orthonormal(
    block: FloatArray, basis: list[FloatArray], rng: np.random.Generator
) -> FloatArray:
    """Orthonormal columns that span the block off the basis; arbitrary where it has no more."""
    empty = ~block.any(axis=0)
    if empty.any():
        block = block.copy()
        block[:, empty] = rng.standard_normal((len(block), int(empty.sum())))
    block = np.linalg.qr(_off(basis, _off(basis, block)))[0]
    # Columns that were nearly dependent bring a little of the basis back in. What is left of the
    # block is nearly orthonormal: its Cholesky factor makes it so, and is cheap.
    block = _off(basis, block)
    try:
        return np.asarray(np.linalg.solve(np.linalg.cholesky(block.T @ block), block.T).T)
    except np.linalg.LinAlgError:  # all of the block was rounding
        return np.linalg.qr(block)[0]


def _off(basis: list[FloatArray], block: FloatArray) -> FloatArray:
    """Return the block less its part in the span of the basis."""
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


# --- what is left -------------------------------------------------------------------------------


class _Rest(NamedTuple):
    """Of G on the complement: the largest Ritz value, and a number above all eigenvalues."""

    seen: float
    top: float


def _bound_rest(product: Product, pairs: _Pairs, goal: _Goal, rng: np.random.Generator) -> _Rest:
    """Run Lanczos on the complement of the Ritz vectors until its bound closes the matter.

    No vector is kept: the argument needs unit vectors and the three-term recurrence, not that they
    are orthogonal.
    """
    Q, n = pairs.vectors, len(pairs.vectors)
    V = _unit_columns(_without(Q, rng.standard_normal((n, _RUNS))))[0]
    last: FloatArray = np.zeros((n, _RUNS))
    alphas, betas = [], [np.zeros(_RUNS)]
    rest = _Rest(-np.inf, np.inf)
    for step in range(1, _MAX_STEPS + 1):
        W = _without(Q, product(V))
        alphas.append(np.einsum("ij,ij->j", V, W))
        W = _without(Q, W - V * alphas[-1] - last * betas[-1])
        following, beta = _unit_columns(W)
        floor = _BREAKDOWN * goal.roundoff * max(pairs.size, float(np.abs(alphas).max()))
        if floor == 0.0:
            return _Rest(0.0, 0.0)  # G = 0: it has no product with a random vector
        betas.append(np.maximum(beta, floor))
        V, last = following, V
        is_over = bool((beta <= floor).any()) or step == _MAX_STEPS
        if is_over or step % _LOOK_EVERY == 0:
            rest = _read_runs(np.array(alphas), np.array(betas[1:]), n)
            if is_over or goal.is_met(pairs, rest.top) or rest.seen > pairs.values[goal.k - 1]:
                break
    return rest


def _read_runs(alphas: FloatArray, betas: FloatArray, n: int) -> _Rest:
    """Return the largest Ritz value and the largest bound, of which at least one run holds.

    An eigenvector u with eigenvalue x has the component p(x) g in the next vector, g that in the
    first one and p(x) the product of (x - Ritz value) / beta. It is at most 1, and a random g is
    below s with a probability of at most s sqrt(2 n / pi): so p(x) <= sqrt(2 n / pi) / chance.
    """
    limit = 0.5 * np.log(2.0 * n / np.pi) - np.log(_CHANCE) / alphas.shape[1]
    seen, top = -np.inf, -np.inf
    for alpha, beta in zip(alphas.T, betas.T, strict=True):
        ritz = eigvalsh_tridiagonal(alpha, beta[:-1])
        logs = limit + float(np.log(beta).sum())
        seen, top = max(seen, float(ritz[-1])), max(top, _root(ritz, logs))
    return _Rest(seen, top)


def _root(ritz: FloatArray, logs: float) -> float:
    """Return the x above all Ritz values where the sum of log(x - ritz) is ``logs``, from above."""
    low, high = 0.0, float(np.exp(logs / len(ritz)))  # all factors are at least x - ritz[-1]
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
