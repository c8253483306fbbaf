"""U-onmf: uni-orthogonal NMF (Ding, Li, Peng and Park 2006)."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.problem import Problem
from orthoplus.methods.factors import (
    FactorMethod,
    FactorState,
    factor_state,
    quotient,
    times,
    times_transposed,
)


@dataclass(frozen=True)
class UONMF(FactorMethod):
    r"""Run uni-orthogonal NMF by multiplicative updates.

    .. math:: X \leftarrow X \odot \sqrt{\frac{AY}{XX^\top AY}}, \qquad
              Y \leftarrow Y \odot \frac{A^\top X}{Y X^\top X}.

    Parameters
    ----------
    start : {"nndsvd", "nndsvda", "nndsvdar", "clipped", "given"}
        The start. "nndsvd" and "clipped" have zeros, which multiplicative updates cannot change.
    tol, max_iter, seed
        As in `HALSONMF`.

    Notes
    -----
    KDD 2006, 126-135: the updates of F and G for uni-orthogonal NMF, with the orthogonal factor on
    the left. The update of Y never increases the residual. That of X takes its multiplier from the
    diagonal of the optimality conditions and decreases the Lagrangian of that multiplier, not the
    residual. Y starts at A'X. The published tables of EP4Orth+ are reproduced with plain NNDSVD,
    whose zeros remain. An iteration costs two products with A. If A has zero rows or columns, the
    formula divides by zero; here such entries of the factors become zero.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=UONMF()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    start: str = "nndsvd"
    max_iter: int = 5000

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Perform both multiplicative updates."""
        X, Y = state.factor, state.Y
        AY = times(problem, Y)
        # XX'AY is evaluated as X (X'AY), which never forms an n x n matrix.
        X = X * np.sqrt(quotient(AY, X @ (X.T @ AY)))
        W = times_transposed(problem, X)
        Y = Y * quotient(W, Y @ (X.T @ X))
        return factor_state(problem, X, Y, before=state, products=W)
