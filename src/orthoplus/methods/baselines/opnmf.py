"""OPNMF: orthonormal projective NMF (Yang and Oja 2010)."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import check_choice, check_positive, check_range
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray
from orthoplus.data.divergence import kl_divergence, ratio_products
from orthoplus.methods.factors import (
    FactorMethod,
    FactorState,
    factor_state,
    first_factor,
    quotient,
    readable_data,
    times,
    times_transposed,
)

# Entries below this share of the typical entry are the zeros that `fill` replaces.
_ZERO = 1e-8


@dataclass(frozen=True)
class OPNMF(FactorMethod):
    r"""Run orthonormal projective NMF by multiplicative updates.

    .. math:: X \leftarrow X \odot \frac{AA^\top X}{X X^\top AA^\top X}, \qquad
              X \leftarrow X / \|X\|_2,

    for :math:`\|A - XX^\top A\|_F^2`. For the Kullback-Leibler divergence, with
    :math:`Z = A \oslash XX^\top A` and E all ones,

    .. math:: X \leftarrow X \odot \frac{P + X Q^\top X}{Q + X P^\top X}, \qquad
              P = Z A^\top X + A Z^\top X, \quad Q = E A^\top X + A E^\top X.

    Parameters
    ----------
    divergence : {"frobenius", "kl"}
        Whether to minimize the squared Frobenius norm or the Kullback-Leibler divergence.
    fill : float
        Value that replaces the zeros of the start, which multiplicative updates cannot change, as a
        share of the root mean square of its entries; 0 keeps the zeros.
    exponent : float
        Power of the quotient: 1 in the common code, 1/2 for a smaller step.
    floor : float
        Smallest entry of X.
    start, tol, max_iter, seed
        As in `HALSONMF`.

    Notes
    -----
    IEEE Trans. Neural Networks 21 (2010), 734-749; spectral normalization, floor, start and stop as
    in the common code (Sotiras et al., NeuroImage 2015). In that code, the fill is the absolute
    number 0.1. For entries of about one, that is the same share of the start, but for data of unit
    Frobenius norm it dominates the start, and ten times as many iterations end elsewhere. As a
    share, it does not depend on the scale of A. With exponent 1, the objective may increase, and if
    groups share no column of A, the norms of the columns oscillate forever while the labels stay
    constant. An iteration costs two products with A; with "kl" also XX'A at the nonzeros of A.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=OPNMF()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    divergence: str = "frobenius"
    start: str = "nndsvd"
    fill: float = 0.1
    exponent: float = 1.0
    floor: float = 1e-16
    max_iter: int = 50_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.divergence, "divergence", tuple(_UPDATES))
        check_range(self.fill, "fill", low=0.0)
        check_positive(self.exponent, "exponent")
        check_positive(self.floor, "floor")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> FactorState:
        """Return the state at the start, with its zeros filled."""
        factor = first_factor(problem, X, self.start, self.seed)
        # The root mean square entry is the unit of the fill.
        size = float(np.sqrt(np.mean(factor**2))) or 1.0
        factor[factor < _ZERO * size] = self.fill * size
        return self._state(problem, np.maximum(factor, self.floor), None)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Perform one multiplicative update, apply the floor, and divide by the spectral norm."""
        ratio = _UPDATES[self.divergence](problem, state.factor, state.Y)
        factor = np.maximum(state.factor * ratio**self.exponent, self.floor)
        # The spectral norm of X is the square root of that of X'X, a k x k matrix.
        factor /= np.sqrt(np.linalg.norm(factor.T @ factor, 2))
        return self._state(problem, factor, state)

    def _state(
        self, problem: Problem, factor: FloatArray, before: FactorState | None
    ) -> FactorState:
        Y = times_transposed(problem, factor)
        state = factor_state(problem, factor, Y, before=before, products=Y)
        if self.divergence == "frobenius":
            return state
        return state._replace(value=kl_divergence(readable_data(problem), factor, Y))


def _frobenius(problem: Problem, X: FloatArray, Y: FloatArray) -> FloatArray:
    """Return the quotient AA'X / XX'AA'X for Y = A'X."""
    return quotient(times(problem, Y), X @ (Y.T @ Y))


def _kl(problem: Problem, X: FloatArray, Y: FloatArray) -> FloatArray:
    """Return the quotient (P + XQ'X) / (Q + XP'X) for Y = A'X."""
    A = readable_data(problem)
    # Z = A / XX'A is needed only at the nonzeros of A: ZA'X = ZY and Z'X.
    ZY, ZtX = ratio_products(A, X, Y)
    P = ZY + times(problem, ZtX)
    Q = Y.sum(axis=0) + np.outer(A.row_sums(), X.sum(axis=0))
    return quotient(P + X @ (Q.T @ X), Q + X @ (P.T @ X))


_UPDATES = {"frobenius": _frobenius, "kl": _kl}
