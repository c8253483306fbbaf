"""Multiplicative updates on the Stiefel manifold (Yoo and Choi 2008)."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import check_type
from orthoplus.core.problem import Problem
from orthoplus.core.types import SMALLEST_NORMAL
from orthoplus.methods.factors import (
    FactorMethod,
    FactorState,
    factor_state,
    quotient,
    times,
    times_transposed,
)


@dataclass(frozen=True)
class YooChoi(FactorMethod):
    r"""Solve orthogonal NMF by multiplicative updates from the Stiefel gradient.

    .. math:: X \leftarrow X \odot \frac{AY}{X Y^\top A^\top X}, \qquad
              Y \leftarrow Y \odot \frac{A^\top X}{Y X^\top X}.

    Parameters
    ----------
    normalize : bool
        Whether to normalize the columns of X after its update. If False, the update is the
        published formula alone, and the scale of X oscillates between c and 1/c forever.
    start, tol, max_iter, seed
        As in `HALSONMF`; the starts "nndsvd" and "clipped" have zeros, which multiplicative updates
        cannot change.

    Notes
    -----
    Yoo and Choi, IDEAL 2008, LNCS 5326; Inf. Process. Manag. 46 (2010). The gradient
    :math:`X Y^\top A^\top X - AY` of the fit on the manifold has a positive and a negative part,
    whose quotient is the update. No descent is proven for X; the update of Y, which is that of
    plain NMF, never increases the residual. An iteration costs two products with
    A.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=YooChoi()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    normalize: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_type(self.normalize, "normalize", bool)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Perform both multiplicative updates."""
        X, Y = state.factor, state.Y
        AY = times(problem, Y)
        # Negative part AY over positive part X Y'A'X of the gradient on the manifold.
        X = X * quotient(AY, X @ (AY.T @ X))
        if self.normalize:
            X = X / np.maximum(np.linalg.norm(X, axis=0), SMALLEST_NORMAL)
        W = times_transposed(problem, X)
        Y = Y * quotient(W, Y @ (X.T @ X))
        return factor_state(problem, X, Y, before=state, products=W)
