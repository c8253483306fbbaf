"""HALS-ONMF: orthogonal NMF column by column (Kimura, Tanaka and Kudo 2014)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from orthoplus.checks import check_count, check_positive, check_range
from orthoplus.methods.factors import (
    ChangeStop,
    FactorState,
    check_start,
    data_of,
    factor_state,
    first_factor,
)
from orthoplus.protocols import Carry, FloatArray, Problem


@dataclass(frozen=True)
class HALSONMF:
    r"""Hierarchical alternating least squares with one orthogonality condition a column.

    .. math:: x_j \leftarrow \Big[h - \frac{s^\top h}{s^\top s} s\Big]_+, \quad
              h = \Big(A - \sum_{l \ne j} x_l y_l^\top\Big) y_j,\; s = \sum_{l \ne j} x_l, \qquad
              y_j \leftarrow \Big[\Big(A - \sum_{l \ne j} x_l y_l^\top\Big)^\top x_j\Big]_+,

    with x_j normalised: for X >= 0 the condition :math:`s^\top x_j = 0` is orthogonality to all
    other columns at once.

    Parameters
    ----------
    start : {"nndsvda", "nndsvd", "nndsvdar", "clipped", "given"}
    floor : float
        Least entry of both factors: no column vanishes.
    tol : float
        Stop at this relative change of X.
    max_iter : int
    seed : int
        For the SVD of the start.

    Notes
    -----
    ACML 2014, JMLR W&CP 39, 129-141. All columns of X, then all of Y; an iteration costs two
    products with A. The clipping breaks the condition again, so the columns are near orthogonal
    only. No descent is proved.
    """

    state_type: ClassVar[Any] = FactorState

    start: str = "nndsvda"
    floor: float = 1e-16
    tol: float = 1e-5
    max_iter: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_start(self.start)
        check_positive(self.floor, "floor")
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
        """All columns of X, then all columns of Y."""
        A = data_of(problem)
        X = self._sweep_x(state.factor, A @ state.Y, state.Y.T @ state.Y)
        W = A.T @ X
        Y = self._sweep_y(state.Y, W, X.T @ X)
        return factor_state(problem, X, Y, before=state, products=W)

    def stop(self) -> ChangeStop:
        """Stop by the relative change."""
        return ChangeStop(self.tol, self.max_iter)

    def _sweep_x(self, X: FloatArray, AY: FloatArray, YtY: FloatArray) -> FloatArray:
        """x_j from h = Ay_j - sum of x_l (y_l'y_j) over the others, orthogonal to their sum."""
        X = X.copy()
        for j in range(X.shape[1]):
            h = AY[:, j] - X @ YtY[:, j] + X[:, j] * YtY[j, j]
            s = X.sum(axis=1) - X[:, j]
            x = np.maximum(h - (s @ h) / max(s @ s, self.floor) * s, self.floor)
            X[:, j] = x / np.linalg.norm(x)
        return X

    def _sweep_y(self, Y: FloatArray, W: FloatArray, gram: FloatArray) -> FloatArray:
        """y_j from A'x_j - sum of y_l (x_l'x_j) over the others; x_j has unit norm."""
        Y = Y.copy()
        for j in range(Y.shape[1]):
            y = W[:, j] - Y @ gram[:, j] + Y[:, j] * gram[j, j]
            Y[:, j] = np.maximum(y, self.floor)
        return Y
