"""The adaptive quadratically regularized Newton method over OB+: Algorithm 2."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import (
    check_choice,
    check_growth,
    check_positive,
    check_range,
    check_type,
)
from orthoplus.core.errors import InputError
from orthoplus.core.method import StopsOverOblique
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray, Linear
from orthoplus.geometry.oblique import project_oblique_plus, project_tangent
from orthoplus.linalg.workspace import empty_like
from orthoplus.methods.semismooth import QuadraticModel, SemismoothNewton
from orthoplus.penalty.penalized import Evaluation, as_penalized

# Maximum number of increases of tau per trial point.
_MAX_TAU_RAISES = 40
_SHORTEST = 1e-2  # a trial step is halved down to this before tau is increased


class NewtonState(NamedTuple):
    """Hold everything the next step needs; ``tau`` carries over to the next penalty."""

    X: FloatArray
    value: float
    gradient: FloatArray
    tau: float
    tau_unit: float
    step_length: float
    stationarity: float
    n_iter: int
    is_stalled: bool


class _Local(NamedTuple):
    """Hold the model of h at X in double precision: gradient, Hessian, projected gradient.

    ``factor`` is the k x k matrix F with H[D] = DF, or None. ``bound`` is kappa_g + kappa_H, the
    bound on the gradient and the Hessian over OB+, or NaN if it is not needed.
    """

    X: FloatArray
    rgrad: FloatArray
    euclidean: Linear
    factor: FloatArray | None
    multiplier: FloatArray
    descent: FloatArray
    descent_norm: float
    bound: float = np.nan


class _Trial(NamedTuple):
    """Hold a trial point, its tau, m(Y), the length of the full step, and the curvature."""

    Y: FloatArray
    tau: float
    predicted: float
    length: float
    curvature: float


@dataclass(frozen=True)
class RegularizedNewton(StopsOverOblique):
    r"""Minimize :math:`h(X)` over OB+ by a second-order method, Algorithm 2.

    Each step minimizes the regularized model, eq. (5.4),

    .. math:: m_l(X) = \langle \nabla h(X^l), X - X^l\rangle
              + \tfrac12 \langle X - X^l, \nabla^2 h(X^l)[X - X^l]\rangle
              + \tfrac{\tau_l}{2} \|X - X^l\|_F^2,

    along the direction of the Newton subproblem (5.9), solved by `SemismoothNewton`; the ratio of
    actual to predicted decrease decides whether the step is accepted, and adjusts tau.

    Parameters
    ----------
    tau_start : float
        First regularization, in units of ``tau_unit``.
    tau_unit : float, optional
        By default the curvature of h at the start, so that the scale of f does not matter.
    tau_min, tau_max : float
        Range of tau, in the same units.
    accept, good : float
        eta_1 and eta_2: the step is taken if the ratio is at least the first; tau shrinks if it is
        at least the second.
    shrink, grow : float
        beta_0 and beta_2: factors of tau. (beta_1 = 1: between the thresholds tau stays.)
    angle : float
        c_1 of the direction test (5.6); tau is raised until the direction passes.
    model_decrease : float
        a of the trial-point condition (5.5).
    step_rule : {"halving", "closed-form"}
        How far along the direction the trial point lies. "halving" tries 1, 1/2, 1/4, ... down to
        0.01 until (5.5) holds. "closed-form" is the step (5.7) with c_2 = 1/2 and the largest c_1
        for which the direction passes (5.6), which satisfies (5.5) without a trial; it needs the
        Lipschitz constant of the gradient of h and is far shorter.
    subproblem : SemismoothNewton
        Solver of the quadratic model over Delta(X).
    criterion, tol, min_iter, max_iter
        As in `ProjectedGradient`; "step" stops when the full predicted step is short.

    Notes
    -----
    A step costs a few dozen Hessian products of f, each plus O(nk). It pays off if f is badly
    conditioned or if high accuracy is needed.

    Examples
    --------
    >>> import orthoplus as op
    >>> problem = op.problems.TraceMin(np.diag([3.0, 1.0, 2.0]), 1)
    >>> newton = op.EP4Orth(second_order=RegularizedNewton(), switch_violation=1.0)
    >>> round(op.solve(problem, method=newton).value, 9)
    1.0
    """

    tau_start: float = 5e-2
    tau_unit: float | None = None
    tau_min: float = 5e-8
    tau_max: float = 1e5
    accept: float = 0.01
    good: float = 0.9
    shrink: float = 0.2
    grow: float = 3.0
    angle: float = 1e-4
    model_decrease: float = 5e-3
    step_rule: str = "halving"
    subproblem: SemismoothNewton = field(default_factory=SemismoothNewton)
    criterion: str = "stationarity"
    tol: float = 1e-7
    min_iter: int = 0
    max_iter: int = 100

    def __post_init__(self) -> None:
        for name in ("tau_start", "tau_min", "angle", "model_decrease"):
            check_positive(getattr(self, name), name)
        if self.tau_unit is not None:
            check_positive(self.tau_unit, "tau_unit")
        check_positive(self.tau_max, "tau_max", finite=False)
        check_range(self.tau_max, "tau_max", low=self.tau_min)
        check_choice(self.step_rule, "step_rule", ("halving", "closed-form"))
        check_type(self.subproblem, "subproblem", SemismoothNewton)
        check_range(self.good, "good", low=0.0, high=1.0)
        check_range(self.accept, "accept", low=0.0, high=self.good)
        check_range(self.shrink, "shrink", low=1e-3, high=1.0)
        check_growth(self.grow, "grow")
        self.check_stop()

    def carry(self, state: NewtonState) -> Carry:
        """Return tau and its unit, for the next penalty parameter."""
        return {"tau": state.tau, "tau_unit": state.tau_unit}

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> NewtonState:
        """Return the first state at X, a point of OB+; ``carry`` gives tau and its unit."""
        value, gradient = problem.value_and_gradient(X)
        unit = carry["tau_unit"] if carry else self.tau_unit
        if unit is None:
            unit = _curvature_scale(problem, X, gradient)
        tau = carry["tau"] if carry else self.tau_start * unit
        residual = _stationarity(problem, X, gradient)
        return NewtonState(X, value, gradient, tau, unit, np.inf, residual, 0, False)

    def step(self, problem: Problem, state: NewtonState) -> NewtonState:
        """Perform one iteration of Algorithm 2."""
        here = self._local_model(problem, state)
        if here.descent_norm == 0.0:
            return state._replace(step_length=0.0, stationarity=0.0, n_iter=state.n_iter + 1)
        # A trial point Y^l with (5.5) from the subproblem (5.4).
        trial = self._trial_point(state, here)
        if trial is None:
            return state._replace(is_stalled=True, n_iter=state.n_iter + 1)
        # rho_l = (h(Y^l) - h(X^l)) / m_l(Y^l), up to the roundings of h.
        value, gradient = problem.value_and_gradient(trial.Y)
        # Both numerator and denominator are negative for a decrease. Subtracting the slack keeps
        # rounding near the end from rejecting good steps.
        slack = as_penalized(problem).rounding_slack(state.value, state.X.dtype)
        ratio = (value - state.value - slack) / trial.predicted
        # X^{l+1} = Y^l if rho_l >= eta_1, else X^l; tau_{l+1} by rho_l.
        tau = self._next_tau(trial, ratio, state.tau_unit)
        if not ratio >= self.accept:
            # A rejected step at the largest tau cannot be improved further.
            tired = tau >= self.tau_max * state.tau_unit
            return state._replace(tau=tau, n_iter=state.n_iter + 1, is_stalled=tired)
        return NewtonState(
            X=trial.Y,
            value=value,
            gradient=gradient,
            tau=tau,
            tau_unit=state.tau_unit,
            step_length=trial.length,
            stationarity=_stationarity(problem, trial.Y, gradient),
            n_iter=state.n_iter + 1,
            is_stalled=False,
        )

    def _local_model(self, problem: Problem, state: NewtonState) -> _Local:
        """Return the derivatives at X^l, with a bound on them if the step rule needs it."""
        here = _local(problem, state)
        if self.step_rule != "closed-form":
            return here
        return here._replace(bound=_derivative_bound(problem, state))

    def _next_tau(self, trial: _Trial, ratio: float, unit: float) -> float:
        """Update tau as in Algorithm 2, but not below the negative curvature encountered."""
        tau = trial.tau
        if ratio >= self.good:
            # A good step: shrink tau, but keep the regularized model convex along the curvature
            # encountered.
            tau = min(max(self.shrink * tau, abs(trial.curvature)), self.grow * tau)
        elif not ratio >= self.accept:
            tau *= self.grow
        return min(max(tau, self.tau_min * unit), self.tau_max * unit)

    def _trial_point(self, state: NewtonState, here: _Local) -> _Trial | None:
        """Return a trial point with the decrease (5.5), increasing tau until there is one."""
        X, tau = here.X, state.tau
        for _ in range(_MAX_TAU_RAISES):
            D, curvature = self._direction(here, tau)
            enough = -self._least_decrease(here, tau, D)
            for length in self._lengths(here, tau, D):
                Y = project_oblique_plus(X + length * D).astype(state.X.dtype, copy=False)
                predicted = _model(here, tau, Y - X)
                if predicted <= enough:
                    return _Trial(Y, tau, predicted, float(np.linalg.norm(D)), curvature)
            tau *= self.grow**2
        return None

    def _least_decrease(self, here: _Local, tau: float, D: FloatArray) -> float:
        """Return the right side of (5.5), using the curvature along D instead of that over OB+."""
        if self.step_rule == "closed-form":  # a = 2 c_1^2 c_2 (1 - c_2), below (5.8)
            return 0.5 * self.angle**2 / (here.bound + tau) * here.descent_norm**2
        # Curvature of h along D, plus the multipliers of the Riemannian Hessian and tau.
        bent = abs(float(np.vdot(D, here.euclidean(D)))) / float(np.vdot(D, D))
        scale = bent + float(np.abs(here.multiplier).max()) + tau
        return self.model_decrease / scale * here.descent_norm**2

    def _lengths(self, here: _Local, tau: float, D: FloatArray) -> Iterator[float]:
        """Yield steps along D in the order of trial: by halving, or the one of (5.7)."""
        if self.step_rule == "closed-form":
            # c_1 = -<rgrad h, D> / (||Proj_T(-rgrad h)|| ||D||), the largest that (5.6) allows,
            # turns (5.7) into the minimizer of -alpha <rgrad h, D> + alpha^2 kappa ||D||^2 / 2.
            # X + alpha D has to stay in T(X): alpha <= 1.
            kappa, slope = here.bound + tau, -float(np.vdot(here.rgrad, D))
            yield min(slope / (kappa * float(np.vdot(D, D))), 1.0)
            return
        length = 1.0
        while length >= _SHORTEST:
            yield length
            length *= 0.5

    def _direction(self, here: _Local, tau: float) -> tuple[FloatArray, float]:
        """Return the Newton direction if it passes (5.6), otherwise the projected gradient."""
        X = here.X
        model = QuadraticModel(X, here.rgrad, _riemannian(here, tau - here.multiplier))
        Z, curvature = self.subproblem.solve(model)
        D = Z - X
        slope, size = float(np.vdot(here.rgrad, D)), float(np.linalg.norm(D))
        # (5.6): the slope along D is at least c_1 times that of the projected gradient.
        passes = size > 0 and slope <= -self.angle * here.descent_norm * size
        return (D if passes else here.descent), curvature


def _local(problem: Problem, state: NewtonState) -> _Local:
    X, gradient = (M.astype(np.float64, copy=False) for M in (state.X, state.gradient))
    # Lagrange multipliers x_j'g_j of the unit columns; rgrad = G - X Diag(multiplier).
    multiplier = np.einsum("ij,ij->j", X, gradient)
    rgrad = gradient - X * multiplier
    # Proj_T(-rgrad h) in units of the curvature, so that the result does not depend on the scale
    # of f.
    descent = project_tangent(X, -rgrad / state.tau_unit)
    size = state.tau_unit * float(np.linalg.norm(descent))
    factor = problem.hessian_factor(X)
    euclidean = problem.hessian(X) if factor is None else lambda D: np.asarray(D @ factor)
    return _Local(X, rgrad, euclidean, factor, multiplier, descent, size)


def _riemannian(here: _Local, shift: FloatArray) -> Linear:
    """Return D -> h''(X)[D] + D Diag(shift), a single small product if there is a factor."""
    if here.factor is None:
        return lambda D: here.euclidean(np.ascontiguousarray(D)) + D * shift
    total = (here.factor + np.diag(shift)).T

    def product(D: FloatArray) -> FloatArray:
        # H[D] + D Diag(shift) = D (F + Diag(shift)), here as F'D': the subproblem is solved in
        # transposed matrices.
        return np.matmul(total, D.T, out=empty_like(D.T)).T

    return product


def _derivative_bound(problem: Problem, state: NewtonState) -> float:
    """Bound kappa_H + kappa_g over OB+ by L and the gradient at X plus L sqrt(2k)."""
    L = problem.lipschitz
    if L is None:
        raise InputError(
            '`step_rule="closed-form"` needs a Lipschitz constant of the gradient. '
            'Give the problem a `lipschitz` property, or use step_rule="halving".'
        )
    size = float(np.linalg.norm(state.gradient.astype(np.float64, copy=False)))
    return L + size + L * float(np.sqrt(2 * state.X.shape[1]))


def _model(here: _Local, tau: float, S: FloatArray) -> float:
    """Evaluate m(X + S) of eq. (5.4) for X + S in OB+.

    On OB+, x_j's_j = -||s_j||^2 / 2, so that <grad h, S> is <rgrad h, S> minus half the sum of
    multiplier_j ||s_j||^2. In this form, the rounding of the unit columns does not dominate the
    small decrease near the end.
    """
    bent = here.euclidean(S) + S * (tau - here.multiplier)
    return float(np.vdot(here.rgrad, S)) + 0.5 * float(np.vdot(S, bent))


def _curvature_scale(problem: Problem, X: FloatArray, gradient: FloatArray) -> float:
    """Return the size of the Riemannian Hessian along the gradient, or 1 if it vanishes."""
    size = float(np.vdot(gradient, gradient))
    if size == 0.0:
        return 1.0
    bent = abs(float(np.vdot(gradient, problem.hessp(X, gradient)))) / size
    return bent + float(np.abs(np.einsum("ij,ij->j", X, gradient)).max()) or 1.0


def _stationarity(problem: Problem, X: FloatArray, gradient: FloatArray) -> float:
    return as_penalized(problem).stationarity(X, Evaluation(np.nan, gradient, 0.0, np.nan))
