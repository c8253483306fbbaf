"""Multiplicative updates on the Stiefel manifold (Yoo and Choi 2008)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from orthoplus.checks import check_count, check_range, check_type
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

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class YooChoi:
    r"""Orthogonal NMF by multiplicative updates from the gradient on the Stiefel manifold.

    .. math:: X \leftarrow X \odot \frac{AY}{X Y^\top A^\top X}, \qquad
              Y \leftarrow Y \odot \frac{A^\top X}{Y X^\top X}.

    Parameters
    ----------
    start : {"nndsvda", "nndsvd", "nndsvdar", "clipped", "given"}
        "nndsvd" and "clipped" have zeros, which no multiplicative update leaves.
    normalise : bool
        Give X unit columns after its update. Without, the update is the published formula and
        nothing else, and the scale of X swings between c and 1/c for ever.
    tol : float
        Stop at this relative change of X.
    max_iter : int
    seed : int
        For the SVD of the start.

    Notes
    -----
    IDEAL 2008, LNCS 5326, 140-147; Inf. Process. Manag. 46 (2010), 559-570. The gradient
    :math:`X Y^\top A^\top X - AY` of the fit on the manifold has a positive and a negative part:
    their quotient is the update. No descent is proved. An iteration costs two products with A.
    """

    state_type: ClassVar[Any] = FactorState

    start: str = "nndsvda"
    normalise: bool = True
    tol: float = 1e-5
    max_iter: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_start(self.start)
        check_type(self.normalise, "normalise", bool)
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
        X = X * quotient(AY, X @ (AY.T @ X))
        if self.normalise:
            X = X / np.maximum(np.linalg.norm(X, axis=0), _TINY)
        W = A.T @ X
        Y = Y * quotient(W, Y @ (X.T @ X))
        return factor_state(problem, X, Y, before=state, products=W)

    def stop(self) -> ChangeStop:
        """Stop by the relative change."""
        return ChangeStop(self.tol, self.max_iter)
