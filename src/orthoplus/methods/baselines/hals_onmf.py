"""HALS-ONMF: orthogonal NMF column by column (Kimura, Tanaka and Kudo 2014)."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import check_positive
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.methods.factors import (
    FactorMethod,
    FactorState,
    factor_state,
    times,
    times_transposed,
)


@dataclass(frozen=True)
class HALSONMF(FactorMethod):
    r"""Hierarchical alternating least squares with one orthogonality condition a column.

    .. math:: x_j \leftarrow \Big[h - \frac{s^\top h}{s^\top s} s\Big]_+, \quad
              h = \Big(A - \sum_{l \ne j} x_l y_l^\top\Big) y_j,\; s = \sum_{l \ne j} x_l, \qquad
              y_j \leftarrow \Big[\Big(A - \sum_{l \ne j} x_l y_l^\top\Big)^\top x_j\Big]_+,

    with x_j normalized: for X >= 0 the condition :math:`s^\top x_j = 0` is orthogonality to all
    other columns at once.

    Parameters
    ----------
    floor : float
        Least entry of both factors: no column vanishes.
    start : {"nndsvda", "nndsvd", "nndsvdar", "clipped", "given"}
        Variant of the SVD start, or the given X.
    tol : float
        Stop at this relative change of X.
    max_iter : int
    seed : int
        For the SVD of the start.

    Notes
    -----
    ACML 2014, JMLR W&CP 39, 129-141; the multiplier of the condition is in closed form. All columns
    of X, then all of Y; an iteration costs two products with A. The clipping breaks the condition
    again, so the columns are near orthogonal only. No descent is proved for X; each column of Y is
    a minimizer, so that their sweep never raises the fit.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=HALSONMF()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    floor: float = 1e-16

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.floor, "floor")

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """All columns of X, then all columns of Y."""
        X = self._sweep_x(state.factor, times(problem, state.Y), state.Y.T @ state.Y)
        W = times_transposed(problem, X)
        Y = self._sweep_y(state.Y, W, X.T @ X)
        return factor_state(problem, X, Y, before=state, products=W)

    def _sweep_x(self, X: FloatArray, AY: FloatArray, YtY: FloatArray) -> FloatArray:
        """x_j from h = Ay_j - sum of x_l (y_l'y_j) over the others, orthogonal to their sum."""
        X = X.copy(order="F")  # columns at a stretch
        total = X.sum(axis=1)
        for j in range(X.shape[1]):
            h = AY[:, j] - X @ YtY[:, j] + X[:, j] * YtY[j, j]
            s = total - X[:, j]
            x = np.maximum(h - (s @ h) / max(s @ s, self.floor) * s, self.floor)
            X[:, j] = x / np.linalg.norm(x)
            total = s + X[:, j]
        return np.ascontiguousarray(X)

    def _sweep_y(self, Y: FloatArray, W: FloatArray, gram: FloatArray) -> FloatArray:
        """y_j from A'x_j - sum of y_l (x_l'x_j) over the others; x_j has unit norm."""
        Y = Y.copy(order="F")
        for j in range(Y.shape[1]):
            y = W[:, j] - Y @ gram[:, j] + Y[:, j] * gram[j, j]
            Y[:, j] = np.maximum(y, self.floor)
        return np.ascontiguousarray(Y)
