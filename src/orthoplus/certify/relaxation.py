r"""The convex relaxation of a clustering problem, which yields a valid bound at any time.

For a symmetric M let v* be the maximum of :math:`\langle M, XX^\top \rangle` over S+. The matrix
:math:`Z = XX^\top` satisfies

.. math:: 0 \preceq Z \preceq I, \quad \operatorname{tr} Z = k, \quad Z_{ij} \ge 0.

Maximizing over all such Z is a convex problem, and each symmetric :math:`S \ge 0` bounds it:

.. math:: v^* \le \lambda_1(M + S) + \dots + \lambda_k(M + S).

`Relaxation` solves it by ADMM with the splitting Z = F = P, where F is in the Fantope and :math:`P
\ge 0`. The whole state is one matrix :math:`T = P - S / \rho`: its positive part is P, its negative
part is the scaled multiplier :math:`S / \rho`.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.certify.cuts import CutPool, Cuts
from orthoplus.certify.fantope import (
    DOUBLE_ORDER,
    EIGEN_TOL,
    OVER_RELAXATION,
    LeadingPairs,
    LowRank,
    average_into,
    estimate_sum,
    extreme_eigenvalues,
    split_off,
)
from orthoplus.certify.rounding import group_rows
from orthoplus.certify.spectral_bound import ALL_ORDER, spectral_bound
from orthoplus.certify.tuning import Balance, Tuned, Tuning
from orthoplus.core.point import spread
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.kernels.blocks import for_blocks, partition_rows
from orthoplus.kernels.threads import single_blas

# Tolerance of the eigenpairs' residuals with cuts, which perturb the iteration more.
_EIGEN_TOL_WITH_CUTS = 0.5
# Cuts are added every this many iterations, up to this order.
_CUT_EVERY, _MOST_CUT = 10, 4000
# Beyond this order no other penalty parameters are tried, because trials need copies of the state
# and twice the iterations.
_MOST_TUNED = 4000
# Rows of a matrix that are processed at a time, so that they stay in the cache.
_ROWS = 64
# The first penalty parameter is this number over k, for M of unit norm. The second value applies
# with cuts; it is close to where balancing the residuals settles.
_FIRST_PENALTY, _FIRST_PENALTY_WITH_CUTS = 0.3, 5.0
# The penalty parameter is multiplied by this with the first cuts, so that their multipliers grow
# fast.
_PENALTY_RISE = 5.0


class _Saved(NamedTuple):
    """Store a state of the iteration to return to."""

    T: FloatArray
    penalty: float
    cuts: tuple[FloatArray, FloatArray] | None


class Relaxation(Tuned):
    r"""Bound :math:`\max \langle M, XX^\top \rangle` over S+ from above, better with time.

    Parameters
    ----------
    M : ndarray of shape (n, n) or callable
        A symmetric matrix with entries of any sign. For large n, pass a function that returns a new
        array: it is called for every bound, and M is not kept in memory.
    k : int
        The number of clusters, at most n.
    has_row_sums : bool
        Whether the entries of X are one over the square root of the group size, as for k-means.
        Then also :math:`Ze = e`.
    start : tuple of (labels, weights), optional
        A point of S+ to start from, as in `orthoplus.core.point.SupportPoint`.
    S : ndarray of shape (n, n), optional
        A matrix of multipliers to start from, with nonnegative entries.
    apart : ndarray of bool, shape (n, n), optional
        Pairs of rows that may not share a group. For these :math:`Z_{ij} = 0`, and S may have any
        sign.
    sizes : ndarray of shape (n,), optional
        With ``has_row_sums``, the number of data rows each row stands for: the entries of X are
        :math:`\sqrt{\text{size of the row} / \text{size of the group}}`.
    cuts : Cuts, optional
        Cuts to start from, with ``has_row_sums``.
    ratios : ndarray of shape (n, n), optional
        Lower bounds on :math:`x_i / x_j` within a group, for cuts without ``has_row_sums``; see
        `orthoplus.certify.cuts`.
    has_cuts : bool
        Whether to add cuts if they are available.

    Attributes
    ----------
    best_S : ndarray of shape (n, n)
        The multipliers of the best bound.
    best_cuts : Cuts
        The cuts of the best bound.
    n_iter : int
        Number of iterations so far.

    Examples
    --------
    >>> M = np.array([[2.0, 1.5, 0.0], [1.5, 2.0, -1.0], [0.0, -1.0, 1.0]])
    >>> relaxation = Relaxation(M, 2)
    >>> before = relaxation.upper_bound()
    >>> relaxation.advance(100)
    >>> after = relaxation.upper_bound()
    >>> bool(4.5 <= after < before), round(after, 6)
    (True, 4.5)
    >>> relaxation.partition()
    array([0, 0, 1])
    """

    def __init__(  # noqa: PLR0913
        self,
        M: FloatArray | Callable[[], FloatArray],
        k: int,
        *,
        has_row_sums: bool = False,
        start: tuple[IntArray, FloatArray] | None = None,
        S: FloatArray | None = None,
        apart: BoolArray | None = None,
        sizes: FloatArray | None = None,
        cuts: Cuts | None = None,
        ratios: FloatArray | None = None,
        has_cuts: bool = True,
    ) -> None:
        super().__init__()
        self._source, self.k = M, int(k)
        M = self._matrix()
        self.n: int = len(M)
        sizes = np.ones(self.n) if sizes is None else np.asarray(sizes, dtype=np.float64)
        self.scale = sizes**-0.5
        self.unit = np.sqrt(sizes / sizes.sum()) if has_row_sums else None
        self.apart = apart
        has_cuts = has_cuts and self.n <= _MOST_CUT and (has_row_sums or ratios is not None)
        self.ratios: FloatArray | None = None
        if has_cuts:
            self.ratios = np.outer(1 / self.scale, self.scale) if has_row_sums else ratios
        # With row sums, Zu = u for a fixed unit vector u, whose share of the objective is constant.
        M, self._fixed = (M, 0.0) if self.unit is None else split_off(M, self.unit)
        # Scale by a power of two to about unit norm, which does not change any digit of M.
        norm = max(map(abs, extreme_eigenvalues(M, np.random.default_rng(0))))
        self._exponent = int(math.frexp(norm)[1]) if norm > 0 else 0
        is_new = has_cuts and cuts is None  # multipliers of given cuts need not grow so fast
        self._penalty = (_FIRST_PENALTY_WITH_CUTS if is_new else _FIRST_PENALTY) / self.k
        self._eigen_tol = _EIGEN_TOL_WITH_CUTS if has_cuts else EIGEN_TOL
        dtype = np.float64 if self.n <= DOUBLE_ORDER else np.float32
        self._G: FloatArray = np.empty(M.shape, dtype=dtype)
        for first in range(0, self.n, _ROWS):
            self._G[first : first + _ROWS] = np.ldexp(M[first : first + _ROWS], -self._exponent)
        del M
        self._T: FloatArray = self._first_state(start, S, dtype)
        self._offset: FloatArray | None = None
        if apart is not None:
            self._offset = np.where(apart, np.inf, 0.0).astype(dtype)
        self._pool: CutPool | None = None
        if cuts is not None and has_cuts:
            self._start_cuts(cuts)
        self._W: FloatArray = np.empty_like(self._T)
        self._form_target()
        self._pairs = LeadingPairs(self.n, self.k - (self.unit is not None), self.unit)
        self._F: LowRank | None = None
        self._primal = math.inf
        self._balance = Balance() if has_cuts else None
        self._best = math.inf
        self.best_S: FloatArray = np.zeros((self.n, self.n), dtype=dtype)
        self.best_cuts = Cuts.none()
        # For small eigenproblems, BLAS threads waiting for each other on a busy machine cost more
        # than they gain.
        self._blas = single_blas if self.n <= ALL_ORDER else nullcontext()

    def _matrix(self) -> FloatArray:
        """Return M; it is a new array if M is given by a function."""
        M = self._source() if callable(self._source) else self._source
        return np.asarray(M, dtype=np.float64)

    def _first_state(
        self, start: tuple[IntArray, FloatArray] | None, S: FloatArray | None, dtype: Any
    ) -> FloatArray:
        T = np.zeros((self.n, self.n), dtype=dtype)
        if start is not None:
            X = spread(np.asarray(start[0]), np.asarray(start[1], dtype=np.float64), self.k)
            X /= np.maximum(np.linalg.norm(X, axis=0), np.finfo(np.float64).tiny)
            X = X.astype(dtype)
            T += X @ X.T
        if S is not None:
            T -= np.ldexp(np.asarray(S), -self._exponent) / self._penalty
        return T

    def use_ratios(self, ratios: FloatArray) -> None:
        """Add cuts with these ratios from now on; see `orthoplus.certify.cuts.ratio_bounds`."""
        if self._tuning.is_trying:
            self._restore(1)
        self._tuning = Tuning()
        self.ratios, self._balance = ratios, Balance()
        self._eigen_tol = _EIGEN_TOL_WITH_CUTS
        self._rebalance(_PENALTY_RISE)

    def _start_cuts(self, cuts: Cuts) -> None:
        """Start with these cuts: add K to T, which holds -S / penalty."""
        self._pool = self._new_pool()
        self._pool.add(cuts, math.ldexp(self._penalty, self._exponent))
        self._T += np.where(np.isfinite(self._pool.offset), self._pool.offset, 0.0)

    def state(self) -> tuple[FloatArray, float]:
        """Return T and the penalty parameter of the better trial, in the scale of M."""
        if self._tuning.is_trying and self._tuning.kept < self.estimate():
            self._restore(1)
            self._tuning = Tuning()
        P, D = self._parts()
        return np.where(P > 0, P, np.minimum(D, 0)), math.ldexp(self._penalty, self._exponent)

    def start_from(self, T: FloatArray, penalty: float) -> None:
        """Continue from the state of a similar relaxation, taking over T without a copy."""
        self._T = T.astype(self._T.dtype, copy=False)
        self._penalty = math.ldexp(penalty, -self._exponent)
        self._form_target()

    def advance(self, n_iter: int) -> None:
        """Run this many iterations."""
        with self._blas:
            for _ in range(n_iter):
                sums = self._step()
                if self._balance is not None:
                    self._rebalance(self._balance.next(sums))
                elif self.n <= _MOST_TUNED:
                    self._tune()

    def _step(self) -> FloatArray:
        # F = the projection of W = P - D + G / penalty onto the Fantope, up to a tolerance that
        # shrinks with the primal residual ||F - P||.
        self._F = self._pairs.project(self._W, self._eigen_tol * self._primal)
        sums = kernels.relax_into(
            self._factors(),
            self._T,
            self._offset,
            self._G,
            self._W,
            (OVER_RELAXATION, 1 / self._penalty),
        )
        if self._pool is not None:
            self._pool.sweep(self._T)
            self._form_target()
        self._primal = math.sqrt(sums[0])
        self.n_iter += 1
        return sums

    def _rebalance(self, factor: float) -> None:
        """Multiply the penalty parameter by this factor, and add cuts every few iterations."""
        if factor != 1.0:
            self._saved = [self._save()]
            self._restore(0, factor)
        if self.n_iter % _CUT_EVERY == 0:
            self._add_cuts()

    def _add_cuts(self) -> None:
        """Add the cuts that P violates."""
        if self._pool is None:
            self._pool = self._new_pool()
        self._pool.separate(self._parts()[0])

    def _new_pool(self) -> CutPool:
        if self._offset is None:
            self._offset = np.zeros_like(self._T)
        assert self.ratios is not None
        return CutPool(self._offset, self.ratios)

    def _save(self) -> _Saved:
        cuts = None if self._pool is None else self._pool.save()
        return _Saved(self._T.copy(), self._penalty, cuts)

    def _restore(self, number: int, factor: float = 1.0) -> None:
        T, penalty, cuts = self._saved[number]
        self._T[:], self._penalty = T, penalty * factor
        if self._pool is not None and cuts is not None:
            self._pool.restore(cuts)
        # D = -S / penalty scales inversely with the penalty, so that S stays the same.
        self._for_rows(lambda i, P, D: np.add(P, D / factor, out=self._T[i]))
        if self._pool is not None:
            self._pool.rescale(factor)
        self._pairs.forget_floor()
        self._form_target()

    def _form_target(self) -> None:
        """Form the matrix W whose projection onto the Fantope comes next."""

        def work(i: slice, P: FloatArray, D: FloatArray) -> None:
            np.add(P - D, self._G[i] / self._penalty, out=self._W[i])

        self._for_rows(work)

    def _factors(self) -> tuple[FloatArray, FloatArray]:
        """Return L and R with F = LR', in the dtype of T."""
        assert self._F is not None
        V, shares = self._F
        if self.unit is not None:
            V, shares = np.column_stack([V, self.unit]), np.append(shares, 1.0)
        return (V * shares).astype(self._T.dtype), np.ascontiguousarray(V, dtype=self._T.dtype)

    def _parts(self, rows: slice = slice(None)) -> tuple[FloatArray, FloatArray]:
        """Return P and D = -S / penalty with P + D = T, or some of their rows."""
        T = self._T[rows]
        P: FloatArray = np.maximum(T if self._offset is None else T - self._offset[rows], 0)
        return P, T - P

    def _for_rows(self, work: Callable[[slice, FloatArray, FloatArray], Any]) -> None:
        """Call work(rows, P, D) for a few rows at a time, so that P and D are never formed."""

        def some(b: int, rows: slice) -> None:
            for start in range(rows.start, rows.stop, _ROWS):
                i = slice(start, min(start + _ROWS, rows.stop))
                work(i, *self._parts(i))

        for_blocks(some, partition_rows(self.n, self.n))

    def _certificate(self) -> tuple[FloatArray, Cuts]:
        """Return the current S, in the dtype of T, and the cuts, both in the scale of M."""
        S, dtype = np.empty_like(self._T), self._T.dtype
        factor = dtype.type(-math.ldexp(self._penalty, self._exponent))
        self._for_rows(lambda i, P, D: np.multiply(D, factor, out=S[i]))
        average_into(S)
        cuts = Cuts.none()
        if self._pool is not None:
            cuts = self._pool.cuts(math.ldexp(self._penalty, self._exponent))
            S += cuts.matrix(self.n, self.ratios)
        # Any S >= 0 gives a valid bound. Pairs that are apart have Z_ij = 0, hence S_ij of any
        # sign.
        if self.apart is None:
            return np.maximum(S, 0, out=S), cuts
        return np.where(self.apart, S, np.maximum(S, 0)), cuts

    def upper_bound(self, slack: float = 0.0) -> float:
        """Compute the bound of the current S and return the best upper bound so far.

        The computed bound may exceed that of S by ``slack``, which makes it cheaper. During a trial
        of another penalty parameter, the saved state is used if its bound seems to be better.
        """
        with self._blas:
            if self._F is None and self.n > ALL_ORDER:
                self._step()  # the bound starts from its eigenvectors
            self._at_better(lambda: self._bound_here(slack))
        return self._best

    def _bound_here(self, slack: float) -> None:
        S, cuts = self._certificate()
        H = self._matrix()
        H = np.add(H, S, out=H if callable(self._source) else None)
        if len(cuts.mu):
            # <C_c, Z> <= 0 for every clustering: subtracting mu_c C_c only raises <H, Z> and keeps
            # a bound.
            H -= cuts.matrix(self.n, self.ratios)
        bound = spectral_bound(H, self.k, self.unit, self._pairs.vectors, slack)
        if bound < self._best:
            self._best, self.best_S, self.best_cuts = bound, S, cuts

    def estimate(self) -> float:
        """Estimate what `upper_bound` would compute, at a small part of its cost."""
        if self._F is None:
            return self._best
        total = estimate_sum(self._multiply, self.k, self._F.vectors, self.unit)
        return math.ldexp(total, self._exponent) + self._fixed

    def _multiply(self, V: FloatArray) -> FloatArray:
        """Return (G + S) V in the scale of G."""
        out, W = np.empty(V.shape), V.astype(self._T.dtype)

        def work(i: slice, P: FloatArray, D: FloatArray) -> None:
            D *= -self._penalty
            D += self._G[i]
            out[i] = D @ W

        self._for_rows(work)
        return out

    def similarity(self) -> FloatArray:
        """Return the current nonnegative solution P of the relaxation."""
        return self._parts()[0].astype(np.float64)

    def partition(self) -> IntArray:
        """Round the solution of the relaxation to labels of k nonempty groups."""
        F = self._F
        if F is None:
            self._step()
            F = self._F
        assert F is not None
        rows = F.vectors[:, : self.k] * np.sqrt(F.shares[: self.k])
        if self.unit is not None:
            rows = np.column_stack([rows, self.unit])
        return group_rows(rows, self.k)
