r"""A relaxation with sign constraints in a leading block only, for compression.

.. math:: \max \langle K, F \rangle \quad \text{over } 0 \preceq F \preceq I, \quad
          \operatorname{tr} F = k, \quad F_{pq} \ge 0 \ (p, q \le m).

Nonnegative m x m multipliers T bound it by the sum of the k largest eigenvalues of K + T. As in
`orthoplus.certify.relaxation`, the state of ADMM is one matrix: in the block its positive part is
the nonnegative point P and its negative part is T over the penalty parameter; elsewhere it is P.
"""

import math
from typing import NamedTuple

import numpy as np

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
from orthoplus.certify.spectral_bound import spectral_bound
from orthoplus.certify.tuning import Tuned
from orthoplus.core.types import FloatArray

# The first penalty parameter is this number over k, for K of unit norm.
_FIRST_PENALTY = 0.3


class Warmth(NamedTuple):
    """Hold a warm start: F = YY', multipliers, and a penalty parameter or None for the default."""

    Y: FloatArray
    T: FloatArray
    penalty: float | None


class SignedBlock(Tuned):
    r"""Compute upper bounds of the relaxation that improve with the iterations.

    Parameters
    ----------
    K : ndarray of shape (N, N)
        A symmetric matrix.
    k : int
        The trace of F.
    start : Warmth
        The warm start; T has shape (m, m), and Y has N rows.
    unit : ndarray of shape (N,), optional
        A unit vector u with Fu = u.

    Attributes
    ----------
    best, best_T : float, ndarray of shape (m, m)
        The smallest bound so far and its multipliers.

    Examples
    --------
    >>> K = np.array([[2.0, 1.5, 0.0], [1.5, 2.0, -1.0], [0.0, -1.0, 1.0]])
    >>> block = SignedBlock(K, 2, Warmth(np.zeros((3, 1)), np.zeros((3, 3)), None))
    >>> block.advance(100)
    >>> round(block.upper_bound(), 6)
    4.5
    """

    def __init__(self, K: FloatArray, k: int, start: Warmth, unit: FloatArray | None = None):
        super().__init__()
        self.K, self.k, self.m, self.unit = K, k, len(start.T), unit
        centered = K if unit is None else split_off(K, unit)[0]
        norm = max(map(abs, extreme_eigenvalues(centered, np.random.default_rng(0))))
        self._exponent = int(math.frexp(norm)[1]) if norm > 0 else 0
        dtype = np.float64 if len(K) <= DOUBLE_ORDER else np.float32
        self._G: FloatArray = np.ldexp(centered, -self._exponent).astype(dtype)
        self.penalty = _FIRST_PENALTY / k if start.penalty is None else start.penalty
        self._state: FloatArray = np.asarray(start.Y @ start.Y.T)
        # Complementarity: P is 0 wherever the multiplier is positive.
        inner, T = self._inner, np.ldexp(start.T, -self._exponent) / self.penalty
        inner[:] = np.where(T > 0, -T, np.maximum(inner, 0.0))
        self._state = self._state.astype(dtype)
        self._pairs = LeadingPairs(len(K), k - (unit is not None), unit)
        self._F: LowRank | None = None
        self._primal = math.inf
        self.best, self.best_T = math.inf, np.maximum(start.T, 0.0)

    @property
    def _inner(self) -> FloatArray:
        """View of the state in the block with sign constraints."""
        return self._state[: self.m, : self.m]

    def advance(self, n_iter: int) -> None:
        """Run this many iterations."""
        for _ in range(n_iter):
            self._step()
            self._tune()

    def _step(self) -> None:
        m, target = self.m, self._G / self.penalty
        # P - D is the absolute value in the block, since D = -T / penalty is the negative part.
        target[:m, :m] += np.abs(self._inner)
        target[:m, m:] += self._state[:m, m:]
        target[m:] += self._state[m:]
        self._F = self._pairs.project(target, EIGEN_TOL * self._primal)
        V, shares = self.solution()
        # Form F = V diag(shares) V' in the memory of the target.
        F = np.matmul((V * shares).astype(target.dtype), V.T.astype(target.dtype), out=target)
        # a F + (1 - a) P + D, in the block with P = state - D: F replaces a share of P.
        negative = np.minimum(self._inner, 0.0)
        self._state *= 1.0 - OVER_RELAXATION
        self._inner[:] += OVER_RELAXATION * negative
        F *= OVER_RELAXATION
        self._state += F
        F /= OVER_RELAXATION
        F -= self._state
        F[:m, :m] += np.minimum(self._inner, 0.0)
        self._primal = float(np.linalg.norm(F))
        self.n_iter += 1

    def _save(self) -> tuple[FloatArray, float]:
        return self._state.copy(), self.penalty

    def _restore(self, number: int, factor: float = 1.0) -> None:
        state, penalty = self._saved[number]
        self._state[:], self.penalty = state, penalty * factor
        self._inner[:] = np.where(self._inner < 0, self._inner / factor, self._inner)
        self._pairs.forget_floor()

    def solution(self) -> LowRank:
        """Return F of the last iteration, including the part along u."""
        if self._F is None:
            self._step()
        assert self._F is not None
        if self.unit is None:
            return self._F
        V, shares = self._F
        return LowRank(np.column_stack([V, self.unit]), np.append(shares, 1.0))

    def multipliers(self) -> FloatArray:
        """Return the current T in the scale of K."""
        T = self._inner.astype(np.float64)
        T *= -math.ldexp(self.penalty, self._exponent)
        np.maximum(T, 0.0, out=T)
        average_into(T)
        return T

    def upper_bound(self) -> float:
        """Compute the bound of the current T and return the best bound so far."""
        self._at_better(self._bound_here)
        return self.best

    def _bound_here(self) -> None:
        T, H = self.multipliers(), self.K.copy()
        H[: self.m, : self.m] += T
        bound = spectral_bound(H, self.k, self.unit)
        if bound < self.best:
            self.best, self.best_T = bound, T

    def estimate(self) -> float:
        """Estimate what `upper_bound` would compute, at a small part of its cost."""
        if self._F is None:
            return self.best
        T = self.multipliers()

        def product(V: FloatArray) -> FloatArray:
            image: FloatArray = self.K @ V
            image[: self.m] += T @ V[: self.m]
            return image

        return estimate_sum(product, self.k, self._F.vectors, self.unit)
