"""Wen and Yin (2013): augmented Lagrangian for X >= 0 over the Stiefel manifold."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import check_count, check_growth, check_positive, check_range, check_type
from orthoplus.core.outer_method import Diagnostics, OuterMethodBase
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray
from orthoplus.geometry.curves import cayley_curve
from orthoplus.methods.stiefel_descent import (
    ManifoldState,
    NegativityStop,
    Objective,
    StiefelDescent,
    gradient_scale,
    manifold_state,
    model_of,
    orthonormal_start,
)


@dataclass(frozen=True)
class WenYin(OuterMethodBase):
    r"""Minimize an augmented Lagrangian for X >= 0 over X'X = I by curvilinear search.

    .. math:: L(U) = f(U) + \tfrac{1}{2\mu} \sum_{ij}
              \big(\max(\Lambda_{ij} - \mu U_{ij}, 0)^2 - \Lambda_{ij}^2\big), \qquad
              U^\top U = I,

    minimized along Cayley curves :math:`(I + \tfrac t2 W)^{-1} (I - \tfrac t2 W) U`,
    :math:`W = GU^\top - UG^\top`, with Barzilai-Borwein steps and a nonmonotone line search; then
    :math:`\Lambda \leftarrow \max(\Lambda - \mu U, 0)` and :math:`\mu \leftarrow c\mu`.

    Parameters
    ----------
    penalty_start, penalty_growth : float
        First mu, in units of the largest entry of the gradient at the start, and its growth c.
    negativity_tol : float
        Sum of the absolute values of the negative entries of U at which to stop.
    inner_tol, value_tol : float
        Stop an inner run if the Riemannian gradient, relative to the gradient of L, or the relative
        change of L is at most this.
    max_inner, max_iter : int
        Maximum numbers of inner iterations per outer iteration and of outer iterations.
    squared : bool
        Whether to minimize f(X o X), which equals f(X) on permutation matrices, for quadratic
        assignment.

    Notes
    -----
    Wen and Yin, *A feasible method for optimization with orthogonality constraints*, Math. Program.
    142 (2013), 397-434, who solve quadratic assignment this way. Only f and its gradient are used,
    so that any smooth f can be minimized. The line search (1e-4, factor 0.2, memory 0.85), the
    inner tolerance on the gradient, 100 inner iterations, the tolerance on negative entries and the
    growth 1.2 are numbers of public code of the method; the tolerance on the value, 1e-8 there, is
    smaller here, and more steps of a line search are allowed. That code starts at mu = 10; here mu
    and the first step are relative to the gradient, so that the scale of f does not matter. The
    default 1e-2 was chosen among 1, 0.1, 1e-2 and 1e-3 on generated instances. The article was not
    available, and its results on QAPLIB were not compared run by run. An inner iteration costs one
    gradient of f and O(nk^2). ``violation`` refers to U, which is on the manifold up to rounding;
    ``X`` is max(U, 0) with unit columns, which `solve` rounds and refines.

    Examples
    --------
    >>> import orthoplus as op
    >>> problem = op.problems.Projection(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]]))
    >>> op.solve(problem, method=WenYin()).X.round(3)
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 1. ]])
    """

    state_type = ManifoldState
    ends_with_search = False  # baselines are compared without a search

    penalty_start: float = 1e-2
    penalty_growth: float = 1.2
    negativity_tol: float = 1e-3
    inner_tol: float = 1e-5
    value_tol: float = 1e-10
    max_inner: int = 100
    max_iter: int = 100
    squared: bool = False

    def __post_init__(self) -> None:
        check_positive(self.penalty_start, "penalty_start")
        check_growth(self.penalty_growth, "penalty_growth")
        check_range(self.negativity_tol, "negativity_tol", low=0.0)
        check_range(self.inner_tol, "inner_tol", low=0.0)
        check_range(self.value_tol, "value_tol", low=0.0)
        check_count(self.max_inner, "max_inner", low=1)
        check_count(self.max_iter, "max_iter", low=1)
        check_type(self.squared, "squared", bool)

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> ManifoldState:
        """Return the state with the closest orthonormal U, zero multipliers, the first penalty."""
        model = model_of(problem, squared=self.squared)
        U = orthonormal_start(model, X)
        sigma = self.penalty_start * gradient_scale(model, U)
        return manifold_state(problem, U, np.zeros_like(U), (sigma, 0, 0))

    def step(self, problem: Problem, state: ManifoldState) -> ManifoldState:
        """Minimize L, update the multipliers, and increase mu."""
        model = model_of(problem, squared=self.squared)
        lagrangian = augmented_lagrangian(model, state.multipliers, state.sigma)
        U, _, n_inner = self._descent(lagrangian, state.factor)
        # Lambda <- max(Lambda - mu U, 0), the standard update for the constraint U >= 0.
        multipliers = np.maximum(state.multipliers - state.sigma * U, 0.0)
        progress = (self.penalty_growth * state.sigma, state.n_iter + 1, n_inner)
        return manifold_state(problem, U, multipliers, progress)

    def diagnostics(self, state: ManifoldState) -> Diagnostics:
        """Return the penalty parameter and the number of inner iterations."""
        return Diagnostics(state.sigma, state.n_inner)

    def stop(self) -> NegativityStop:
        """Return the stopping rule: the negativity is small, or the limit is reached."""
        return NegativityStop(self.negativity_tol, self.max_iter)

    @property
    def _descent(self) -> StiefelDescent:
        return StiefelDescent(
            cayley_curve, self.inner_tol, self.value_tol, self.max_inner, shrink=0.2
        )


def augmented_lagrangian(problem: Problem, multipliers: FloatArray, sigma: float) -> Objective:
    """Return L for these multipliers and this penalty, up to a constant."""

    def evaluate(U: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = problem.value_and_gradient(U)
        # L = f + |pressure|^2 / (2 mu) - const, and the gradient of the second term is -pressure.
        pressure = np.maximum(multipliers - sigma * U, 0.0)
        return value + 0.5 / sigma * float(np.vdot(pressure, pressure)), gradient - pressure

    return evaluate
