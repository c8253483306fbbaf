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
    r"""Solve orthogonal NMF by HALS with one orthogonality condition per column.

    .. math:: x_j \leftarrow \Big[h - \frac{s^\top h}{s^\top s} s\Big]_+, \quad
              h = \Big(A - \sum_{l \ne j} x_l y_l^\top\Big) y_j,\; s = \sum_{l \ne j} x_l, \qquad
              y_j \leftarrow \Big[\Big(A - \sum_{l \ne j} x_l y_l^\top\Big)^\top x_j\Big]_+,

    with x_j normalized. For X >= 0, the condition :math:`s^\top x_j = 0` is equivalent to
    orthogonality to all other columns.

    Parameters
    ----------
    floor : float
        Smallest entry of both factors, so that no column vanishes.
    start : {"nndsvda", "nndsvd", "nndsvdar", "clipped", "given"}
        Variant of the SVD start, or the given X.
    tol : float
        Relative change of X at which to stop.
    max_iter : int
        Maximum number of iterations.
    seed : int
        Seed of the SVD of the start.

    Notes
    -----
    ACML 2014, JMLR W&CP 39, 129-141. The multiplier of the condition has a closed form. Each
    iteration updates all columns of X, then all of Y, and costs two products with A. Clipping
    violates the condition again, so that the columns are only approximately orthogonal. No descent
    is proven for X; each column of Y is a minimizer, so that the sweep over Y never increases the
    residual.

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
        """Update all columns of X, then all columns of Y."""
        X = self._sweep_x(state.factor, times(problem, state.Y), state.Y.T @ state.Y)
        W = times_transposed(problem, X)
        Y = self._sweep_y(state.Y, W, X.T @ X)
        return factor_state(problem, X, Y, before=state, products=W)

    def _sweep_x(self, X: FloatArray, AY: FloatArray, YtY: FloatArray) -> FloatArray:
        """Update each x_j from h = Ay_j - sum_l x_l (y_l'y_j), orthogonal to the others' sum."""
        X = X.copy(order="F")  # contiguous columns
        total = X.sum(axis=1)
        for j in range(X.shape[1]):
            # (A - sum_{l != j} x_l y_l') y_j without forming the residual matrix.
            h = AY[:, j] - X @ YtY[:, j] + X[:, j] * YtY[j, j]
            s = total - X[:, j]
            # Project h onto the complement of s, then clip; the clipping may violate s'x = 0 again.
            x = np.maximum(h - (s @ h) / max(s @ s, self.floor) * s, self.floor)
            X[:, j] = x / np.linalg.norm(x)
            total = s + X[:, j]
        return np.ascontiguousarray(X)

    def _sweep_y(self, Y: FloatArray, W: FloatArray, gram: FloatArray) -> FloatArray:
        """Update each y_j = A'x_j - sum_l y_l (x_l'x_j), where x_j has unit norm."""
        Y = Y.copy(order="F")
        for j in range(Y.shape[1]):
            y = W[:, j] - Y @ gram[:, j] + Y[:, j] * gram[j, j]
            Y[:, j] = np.maximum(y, self.floor)
        return np.ascontiguousarray(Y)
