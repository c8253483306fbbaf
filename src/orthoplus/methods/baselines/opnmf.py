"""OPNMF: orthonormal projective NMF (Yang and Oja 2010)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, issparse

from orthoplus.checks import check_choice, check_count, check_positive, check_range
from orthoplus.methods.factors import (
    ChangeStop,
    FactorState,
    check_start,
    data_of,
    factor_state,
    first_factor,
    quotient,
)
from orthoplus.protocols import Carry, FloatArray, Problem

# Entries below this count as the zeros that `fill` replaces.
_ZERO = 1e-10
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class OPNMF:
    r"""Orthonormal projective NMF by multiplicative updates.

    .. math:: X \leftarrow X \odot \frac{AA^\top X}{X X^\top AA^\top X}, \qquad
              X \leftarrow X / \|X\|_2,

    for :math:`\|A - XX^\top A\|_F^2`. For the Kullback-Leibler divergence, with
    :math:`Z = A \oslash XX^\top A` and E all ones,

    .. math:: X \leftarrow X \odot \frac{P + X Q^\top X}{Q + X P^\top X}, \qquad
              P = Z A^\top X + A Z^\top X, \quad Q = E A^\top X + A E^\top X.

    Parameters
    ----------
    divergence : {"frobenius", "kl"}
    start : {"nndsvd", "nndsvda", "nndsvdar", "clipped", "given"}
    fill : float
        Replaces the zeros of the start, which no multiplicative update would leave; 0 keeps them.
    exponent : float
        Power of the quotient: 1 in the common code, 1/2 for a cautious step.
    floor : float
        Least entry of X.
    tol : float
        Stop at this relative change of X.
    max_iter : int
    seed : int
        For the SVD of the start.

    Notes
    -----
    IEEE Trans. Neural Networks 21 (2010), 734-749; spectral normalisation, floor, start and stop
    as in the common code (Sotiras et al., NeuroImage 2015). The fill is absolute there: scaling A
    changes the run. With the exponent 1 the objective may rise, and where groups share no column
    of A the norms of the columns swing for ever, the labels at rest. An iteration costs two
    products with A; with "kl" also XX'A at the nonzeros of A.
    """

    state_type: ClassVar[Any] = FactorState

    divergence: str = "frobenius"
    start: str = "nndsvd"
    fill: float = 0.1
    exponent: float = 1.0
    floor: float = 1e-16
    tol: float = 1e-5
    max_iter: int = 50_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.divergence, "divergence", ("frobenius", "kl"))
        check_start(self.start)
        check_range(self.fill, "fill", low=0.0)
        check_positive(self.exponent, "exponent")
        check_positive(self.floor, "floor")
        check_range(self.tol, "tol", low=0.0)
        check_count(self.max_iter, "max_iter", low=1)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> FactorState:
        """The start, its zeros filled."""
        factor = first_factor(problem, X, self.start, self.seed)
        factor[factor < _ZERO] = self.fill
        return self._state(problem, np.maximum(factor, self.floor), None)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """One multiplicative update, the floor, and division by the spectral norm."""
        A, X = data_of(problem), state.factor
        ratio = _frobenius(A, X, state.Y) if self.divergence == "frobenius" else _kl(A, X, state.Y)
        factor = np.maximum(X * ratio**self.exponent, self.floor)
        factor /= np.sqrt(np.linalg.norm(factor.T @ factor, 2))
        return self._state(problem, factor, state)

    def stop(self) -> ChangeStop:
        """Stop by the relative change."""
        return ChangeStop(self.tol, self.max_iter)

    def _state(
        self, problem: Problem, factor: FloatArray, before: FactorState | None
    ) -> FactorState:
        A = data_of(problem)
        Y = np.asarray(A.T @ factor)
        state = factor_state(problem, factor, Y, before=before, products=Y)
        return state if self.divergence == "frobenius" else state._replace(value=_gap(A, factor, Y))


def _frobenius(A: Any, X: FloatArray, Y: FloatArray) -> FloatArray:
    """AA'X / XX'AA'X, with Y = A'X."""
    return quotient(A @ Y, X @ (Y.T @ Y))


def _kl(A: Any, X: FloatArray, Y: FloatArray) -> FloatArray:
    """(P + XQ'X) / (Q + XP'X), with Y = A'X."""
    Z = _over_model(A, X, Y)
    P = Z @ Y + A @ (Z.T @ X)
    Q = Y.sum(axis=0) + np.outer(np.asarray(A.sum(axis=1)), X.sum(axis=0))
    return quotient(P + X @ (Q.T @ X), Q + X @ (P.T @ X))


def _over_model(A: Any, X: FloatArray, Y: FloatArray) -> Any:
    """Z = A / XY', entry by entry: of A's pattern where A is sparse."""
    if not issparse(A):
        return quotient(A, X @ Y.T)
    data = quotient(A.data, _model_entries(A, X, Y))
    return csr_array((data, A.indices, A.indptr), shape=A.shape)


def _model_entries(A: Any, X: FloatArray, Y: FloatArray) -> FloatArray:
    """XY' at the stored entries of A, one column of the factors at a time."""
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    entries = np.zeros(A.nnz)
    for x, y in zip(X.T, Y.T, strict=True):
        entries += x[rows] * y[A.indices]
    return entries


def _gap(A: Any, X: FloatArray, Y: FloatArray) -> float:
    r"""The divergence :math:`\sum a \log(a / m) - a + m` with m the entries of XY'."""
    model = _model_entries(A, X, Y) if issparse(A) else (X @ Y.T).ravel()
    data = A.data if issparse(A) else A.ravel()
    positive = data > 0
    logs = data[positive] * np.log(data[positive] / np.maximum(model[positive], _TINY))
    total = float(X.sum(axis=0) @ Y.sum(axis=0))
    return float(logs.sum()) - float(data.sum()) + total
