"""Proximal alternating minimization with the second-order X-step, section 4."""

from dataclasses import dataclass, field, replace

import numpy as np

from orthoplus.core.checks import check_count, check_positive, check_type
from orthoplus.core.method import ObliqueState, WarmStart, minimize_oblique
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray
from orthoplus.methods.newton import RegularizedNewton
from orthoplus.methods.palm import PALM, AlternatingState
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.penalty.penalized import Penalized
from orthoplus.problems.two_block import TwoBlock


@dataclass(frozen=True)
class ProximalAlternating(PALM):
    r"""Proximal alternating minimization over OB+ x Y, section 4.

    .. math::

        Y^{l+1} \approx \arg\min_{\mathcal{Y}} f(X^l, Y), \qquad
        X^{l+1} \approx \arg\min_{\mathcal{OB}_+} P(X, Y^{l+1}) + \tfrac{\mu}{2}\|X - X^l\|_F^2.

    Parameters
    ----------
    x_method : RegularizedNewton or ProjectedGradient
        Solver of the X-subproblem; by default a few steps of the second-order method.
    proximal : float
        The parameter mu, in units of the size of a gradient.
    n_y_steps : int
        Number of projected gradient steps in Y if it has no closed form.

    x_step, criterion, tol, min_iter, max_iter
        As in `PALM`.

    Notes
    -----
    It takes fewer but more expensive alternations than `PALM`, because each solves a subproblem in
    X.

    Examples
    --------
    >>> import orthoplus as op
    >>> C = np.array([[2.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> def fit(X, Y):
    ...     R = X - C @ Y
    ...     return np.vdot(R, R), 2 * R, -2 * C.T @ R
    >>> problem = op.problems.TwoBlock(
    ...     fit, (3, 2), np.eye(2), minimize_y=lambda X: op.geometry.polar_factor(C.T @ X))
    >>> labels = op.solve(problem, method=op.EP4Orth(inner=ProximalAlternating())).labels
    >>> bool(labels[0] == labels[1] != labels[2])
    True
    """

    x_method: RegularizedNewton | ProjectedGradient = field(
        default_factory=lambda: RegularizedNewton(max_iter=10)
    )
    proximal: float = 1e-3
    n_y_steps: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        check_type(self.x_method, "x_method", RegularizedNewton, ProjectedGradient)
        check_positive(self.proximal, "proximal")
        check_count(self.n_y_steps, "n_y_steps", low=1)

    def _move_y(self, joint: TwoBlock, state: AlternatingState) -> tuple[FloatArray, float]:
        if joint.minimize_y is not None:
            return joint.second_block(state.X), state.beta
        return joint.improve_y(state.X, state.Y, max_steps=self.n_y_steps), state.beta

    def _move_x(self, in_x: Penalized, state: AlternatingState) -> tuple[ObliqueState, Carry]:
        # P(X, Y) + mu/2 ||X - X^l||^2 with mu in units of the gradient, minimized from X^l.
        model = replace(in_x, problem=_Proximal(in_x.problem, state.X, self.proximal * in_x.unit))
        warm = WarmStart(state.carry_x)
        inner, carry, *_ = minimize_oblique(model, self.x_method, state.X, tol=self.tol, warm=warm)
        # Evaluate P without the proximal term at the new point.
        return self.x_method.init(in_x, inner.X, carry), carry


@dataclass(frozen=True, eq=False)
class _Proximal(Problem):
    """Add the proximal term mu/2 ||X - center||^2 to f."""

    problem: Problem
    center: FloatArray
    mu: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.problem.shape

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.problem.value_and_gradient(X)
        away = X - self.center
        return value + 0.5 * self.mu * float(np.vdot(away, away)), gradient + self.mu * away

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return self.problem.hessp(X, D) + self.mu * D
