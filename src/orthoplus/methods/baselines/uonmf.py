"""U-onmf: uni-orthogonal NMF (Ding, Li, Peng and Park 2006)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from orthoplus.checks import check_count, check_range
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


@dataclass(frozen=True)
class UONMF:
    r"""Uni-orthogonal NMF by multiplicative updates.

    .. math:: X \leftarrow X \odot \sqrt{\frac{AY}{XX^\top AY}}, \qquad
              Y \leftarrow Y \odot \frac{A^\top X}{Y X^\top X}.

    Parameters
    ----------
    start : {"nndsvd", "nndsvda", "nndsvdar", "clipped", "given"}
        "nndsvd" and "clipped" have zeros, which no multiplicative update leaves.
    tol : float
        Stop at this relative change of X.
    max_iter : int
    seed : int
        For the SVD of the start.

    Notes
    -----
    KDD 2006, 126-135, with the orthogonal factor on the left. Y starts at A'X. The published
    tables of EP4Orth+ are met with NNDSVD as it is: its zeros stay, others give a start without.
    An iteration costs two products with A. Where A has zero rows or columns the formula divides by
    zero; here such entries of the factors become zero.
    """

    state_type: ClassVar[Any] = FactorState

    start: str = "nndsvd"
    tol: float = 1e-5
    max_iter: int = 5000
    seed: int = 0

    def __post_init__(self) -> None:
        check_start(self.start)
        check_range(self.tol, "tol", low=0.0)
        check_count(self.max_iter, "max_iter", low=1)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> FactorState:
        """The start with unit columns, and Y = A'X."""
        factor = first_factor(problem, X, self.start, self.seed)
        factor /= np.linalg.norm(factor, axis=0)
        Y = data_of(problem).T @ factor
        return factor_state(problem, factor, Y, products=Y)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Both multiplicative updates."""
        A, X, Y = data_of(problem), state.factor, state.Y
        AY = A @ Y
        X = X * np.sqrt(quotient(AY, X @ (X.T @ AY)))
        W = A.T @ X
        Y = Y * quotient(W, Y @ (X.T @ X))
        return factor_state(problem, X, Y, before=state, products=W)

    def stop(self) -> ChangeStop:
        """Stop by the relative change."""
        return ChangeStop(self.tol, self.max_iter)
