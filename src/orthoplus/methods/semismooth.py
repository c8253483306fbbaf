"""The regularized semi-smooth Newton method for the Newton subproblem over Delta(X), eq. (5.10)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.checks import check_count, check_positive, check_range
from orthoplus.core.types import FloatArray, Linear
from orthoplus.geometry.delta import transposed
from orthoplus.linalg.workspace import empty_like


class QuadraticModel(NamedTuple):
    """Represent <gradient, Z - X> + 1/2 <Z - X, hessian(Z - X)> over Delta(X)."""

    X: FloatArray
    gradient: FloatArray
    hessian: Linear


class _Point(NamedTuple):
    """Hold Z in or near Delta(X), the model's slope and value there, and the residual F(Z).

    All matrices are transposed, as in the model of `_by_columns`.
    """

    Z: FloatArray
    slope: FloatArray
    value: float
    projected: FloatArray  # its positive entries are the free set
    F: FloatArray
    norm: float


@dataclass(frozen=True)
class SemismoothNewton:
    r"""Solve :math:`\mathcal{F}(Z) = Z - \Pi_{\Delta(X)}(Z - \alpha(g + H[Z - X])) = 0`, (5.11).

    Each step solves :math:`(\partial\mathcal{F}(Z) + \mu I) d = -\mathcal{F}(Z)` with
    :math:`\mu = \lambda \|\mathcal{F}(Z)\|` and the HS-Jacobian of the projection. That Jacobian is
    an orthogonal projector P, so the system splits: off the range of P the solution is explicit, on
    it the operator :math:`\alpha P H P + \mu I` is symmetric and conjugate gradients apply.

    Parameters
    ----------
    max_iter : int
        Maximum number of Newton steps.
    tol : float
        Stop when ||F|| falls below this share of its first value.
    cg_tol, cg_max_iter
        Relative tolerance and limit of the conjugate gradients.
    damping, damping_min, damping_max : float
        First lambda, and its range.
    poor, good : float
        Thresholds on :math:`-\langle F(Z+d), d\rangle / \|d\|^2` that decide the next lambda.
    shrink, grow : float
        Factors of lambda after a good and after a poor step.
    sufficient : float
        A Newton step is taken when it brings ||F|| below this share of its last value and does not
        increase the model. Otherwise, and if the model is not convex, projected gradient steps on
        the model are taken instead.
    n_gradient_steps : int
        Number of these gradient steps.

    Notes
    -----
    A step takes one projection onto Delta(X) and at most ``cg_max_iter`` Hessian products, each
    plus O(nk).

    Examples
    --------
    >>> X = np.array([[0.6], [0.8]])
    >>> model = QuadraticModel(X, np.array([[1.0], [0.0]]), lambda D: 2 * D)
    >>> Z, curvature = SemismoothNewton(max_iter=50, tol=1e-12).solve(model)
    >>> Z.round(6).ravel(), curvature  # x'z = 1, z >= 0
    (array([0.28, 1.04]), 0.0)
    """

    max_iter: int = 10
    tol: float = 1e-2
    cg_tol: float = 5e-2
    cg_max_iter: int = 30
    damping: float = 1e-2
    damping_min: float = 1e-6
    damping_max: float = 1e3
    poor: float = 0.01
    good: float = 1.0
    shrink: float = 0.7
    grow: float = 1.6
    sufficient: float = 0.9
    n_gradient_steps: int = 5

    def __post_init__(self) -> None:
        for name in ("max_iter", "cg_max_iter", "n_gradient_steps"):
            check_count(getattr(self, name), name, low=1)
        for name in ("damping", "damping_min", "grow"):
            check_positive(getattr(self, name), name)
        check_positive(self.damping_max, "damping_max", finite=False)
        check_range(self.damping_max, "damping_max", low=self.damping_min)
        for name in ("tol", "cg_tol", "shrink", "sufficient"):
            check_range(getattr(self, name), name, low=0.0, high=1.0)
        check_range(self.good, "good", low=0.0)
        check_range(self.poor, "poor", low=0.0, high=self.good)

    def solve(self, model: QuadraticModel) -> tuple[FloatArray, float]:
        """Return an approximate minimizer Z of the model over Delta(X), and the last curvature.

        The curvature is 0 if the model was convex, otherwise the negative quotient <D, H[D]> /
        ||D||^2 of a direction D that shows it is not.
        """
        model = _by_columns(model)
        alpha, damping = _step_scale(model), self.damping
        here = _point(model, alpha, model.X)
        goal, curvature = self.tol * here.norm, 0.0
        for _ in range(self.max_iter):
            if here.norm <= goal:
                break
            d, curvature = self._direction(model, alpha, here, damping)
            # A nearly singular system may give a trial point far away, which is then rejected.
            with np.errstate(over="ignore", invalid="ignore"):
                trial = _point(model, alpha, here.Z + d)
                agreement = -float(np.vdot(trial.F, d)) / max(float(np.vdot(d, d)), 1e-300)
            damping = self._next_damping(damping, agreement)
            better = trial.norm <= self.sufficient * here.norm and trial.value <= here.value
            if curvature == 0.0 and better:
                here = trial
            else:
                Z = _gradient_steps(model, alpha, here, self.n_gradient_steps)
                here = _point(model, alpha, Z)
                # Delta(X) is unbounded if X has zeros, so that a nonconvex model may be unbounded
                # below: limit the distance to the diameter sqrt(2k) of OB+.
                far = float(np.linalg.norm(Z - model.X)) / float(np.sqrt(2 * len(Z)))
                if curvature < 0.0 and far > 1.0:
                    return transposed(model.X + (Z - model.X) / far), curvature / alpha
        if curvature < 0.0:
            return transposed(_project(model.X, here.Z)), curvature / alpha
        return transposed(here.projected), 0.0  # the solution is zero where this point is zero

    def _next_damping(self, damping: float, agreement: float) -> float:
        if agreement >= self.good:
            damping *= self.shrink
        elif agreement < self.poor:
            damping *= self.grow
        return min(max(damping, self.damping_min), self.damping_max)

    def _direction(
        self, model: QuadraticModel, alpha: float, at: _Point, damping: float
    ) -> tuple[FloatArray, float]:
        """Solve (dF + mu I) d = -F with mu = damping min(1, ||F||)."""
        mu = damping * min(1.0, at.norm)
        face = (model.X, at.projected)  # of P
        fixed = empty_like(at.F)  # (I - P) d = -(I - P) F / (1 + mu)
        kernels.project_face_into(*face, at.F, fixed)
        fixed -= at.F
        fixed /= 1.0 + mu
        # On the range of P: (alpha PHP + mu I) d = -PF - alpha PH (I - P) d.
        moved = np.multiply(model.hessian(fixed), -alpha, out=empty_like(fixed))
        moved -= at.F
        right = empty_like(moved)
        kernels.project_face_into(*face, moved, right)
        d, curvature = self._conjugate_gradients(model.hessian, face, (alpha, mu), right)
        d += fixed
        return d, curvature

    def _conjugate_gradients(
        self,
        hessian: Linear,
        face: tuple[FloatArray, FloatArray],
        weights: tuple[float, float],
        right: FloatArray,
    ) -> tuple[FloatArray, float]:
        """Solve (alpha P H + mu I) d = right on the range of P, for the weights (alpha, mu).

        Stop early at negative curvature and return its quotient. ``right`` is overwritten.
        """
        d, residual, direction = np.zeros_like(right), right, right.copy()
        size = float(np.vdot(residual, residual))
        goal = self.cg_tol**2 * size
        for _ in range(self.cg_max_iter):
            if size <= goal:
                break
            curvature, size = kernels.conjugate_step_into(
                hessian(direction), face, weights, (d, residual, direction)
            )
            if curvature <= 0.0:
                return d, min(curvature / float(np.vdot(direction, direction)), -1e-300)
        return d, 0.0


def _by_columns(model: QuadraticModel) -> QuadraticModel:
    """Return the model of transposed matrices, whose rows are the columns that Delta(X) bounds."""

    def hessian(D: FloatArray) -> FloatArray:
        return transposed(model.hessian(D.T))

    return QuadraticModel(transposed(model.X), transposed(model.gradient), hessian)


def _project(X: FloatArray, C: FloatArray) -> FloatArray:
    """Project C onto Delta(X), both transposed."""
    out = empty_like(C)
    kernels.project_delta_into(C, X, out)
    return out


def _step_scale(model: QuadraticModel) -> float:
    """Return alpha of (5.11): one over the curvature seen along the gradient."""
    size = float(np.vdot(model.gradient, model.gradient))
    if size == 0.0:
        return 1.0
    curvature = abs(float(np.vdot(model.gradient, model.hessian(model.gradient)))) / size
    return 1.0 / curvature if curvature > 0 else 1.0


def _point(model: QuadraticModel, alpha: float, Z: FloatArray) -> _Point:
    """Return the model and F(Z) of eq. (5.11) at Z."""
    step = np.subtract(Z, model.X, out=empty_like(Z))
    bent = model.hessian(step)
    slope = np.add(model.gradient, bent, out=empty_like(Z))
    value = float(np.vdot(model.gradient, step)) + 0.5 * float(np.vdot(bent, step))
    moved = np.multiply(slope, -alpha, out=step)
    moved += Z
    projected = _project(model.X, moved)
    F = np.subtract(Z, projected, out=moved)
    return _Point(Z, slope, value, projected, F, float(np.linalg.norm(F)))


def _gradient_steps(model: QuadraticModel, alpha: float, at: _Point, count: int) -> FloatArray:
    """Take projected gradient steps on the model over Delta(X): Barzilai-Borwein, exact search."""
    Z, slope, moved = _project(model.X, at.Z), at.slope.copy(), empty_like(at.Z)
    for _ in range(count):
        np.multiply(slope, -alpha, out=moved)
        moved += Z
        d = _project(model.X, moved)
        d -= Z
        bent = model.hessian(d)
        downhill, curvature = -float(np.vdot(slope, d)), float(np.vdot(d, bent))
        if downhill <= 0.0:
            break
        # Exact minimizer of the quadratic model along d, kept inside Delta(X).
        length = min(1.0, downhill / curvature) if curvature > 0 else 1.0
        Z += np.multiply(d, length, out=moved)
        slope += np.multiply(bent, length, out=moved)
        if curvature > 0:
            # The long Barzilai-Borwein step for the next projection.
            alpha = float(np.vdot(d, d)) / curvature
    return Z
