r"""What the rivals of orthogonal NMF share: two factors of A, their value, and when to stop.

They minimise :math:`\|A - XY^\top\|_F^2`, or a divergence, over nonnegative factors and come near
:math:`X^\top X = I` only in the limit. The columns they hand out are normalised, so that rounding
makes an answer of them; the factor itself stays in the state.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from orthoplus.checks import check_choice
from orthoplus.geometry import project_oblique_plus
from orthoplus.protocols import FloatArray, Problem
from orthoplus.starts import SVD_VARIANTS, svd_start
from orthoplus.status import Status

STARTS = ("given", *SVD_VARIANTS)

# The least denominator of a multiplicative update: 0 / 0 counts as 0.
_TINY = float(np.finfo(np.float64).tiny)


class FactorState(NamedTuple):
    """Two factors; ``X`` is ``factor`` with unit columns, ``violation`` belongs to ``factor``."""

    X: FloatArray
    value: float
    violation: float
    Y: FloatArray
    n_iter: int
    factor: FloatArray
    change: float


@dataclass(frozen=True)
class ChangeStop:
    """Stop when the factor changed by no more than ``tol``, relatively, or at the limit."""

    tol: float
    max_iter: int

    def __call__(self, state: FactorState) -> Status:
        if state.n_iter > 0 and state.change <= self.tol:
            return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


def check_start(start: str) -> None:
    """Raise unless the option names a start."""
    check_choice(start, "start", STARTS)


def data_of(problem: Problem) -> Any:
    """The matrix A of an ONMF problem; TypeError for a problem without."""
    A = getattr(problem, "A", None)
    if A is None or not hasattr(problem, "total"):
        own = type(getattr(problem, "problem", problem)).__name__
        raise TypeError(
            f"This method factorises a data matrix: it needs a problem such as ONMF(A, k), not "
            f"{own}. For any smooth f use EP4Orth."
        )
    return A


def first_factor(problem: Problem, X: FloatArray, start: str, seed: int) -> FloatArray:
    """X itself for ``start="given"``, otherwise the SVD start of that name."""
    A = data_of(problem)
    if start == "given":
        return X.astype(np.float64)
    return svd_start(A, problem.shape[1], start, np.random.default_rng(seed))


def factor_state(
    problem: Problem,
    factor: FloatArray,
    Y: FloatArray,
    *,
    before: FactorState | None = None,
    products: FloatArray | None = None,
) -> FactorState:
    r"""The state at two factors; ``products`` is A' ``factor`` where it is known.

    .. math:: \|A - XY^\top\|_F^2 = \|A\|_F^2 - 2 \langle A^\top X, Y \rangle
              + \langle X^\top X, Y^\top Y \rangle.
    """
    W = data_of(problem).T @ factor if products is None else products
    gram = factor.T @ factor
    fit = 2.0 * float(np.vdot(W, Y)) - float(np.vdot(gram, Y.T @ Y))
    return FactorState(
        X=project_oblique_plus(factor),
        value=problem.total - fit,  # type: ignore[attr-defined]
        violation=float(np.linalg.norm(gram - np.eye(len(gram)))),
        Y=Y,
        n_iter=0 if before is None else before.n_iter + 1,
        factor=factor,
        change=np.inf if before is None else relative_change(factor, before.factor),
    )


def relative_change(new: FloatArray, old: FloatArray) -> float:
    """``||new - old|| / ||old||``."""
    return float(np.linalg.norm(new - old)) / (float(np.linalg.norm(old)) or 1.0)


def quotient(above: FloatArray, below: FloatArray) -> FloatArray:
    """above / below, entry by entry, for nonnegative matrices; 0 / 0 is 0."""
    return np.asarray(above / np.maximum(below, _TINY))
