"""SEPPG (Qian, Pan and Xiao 2023): exact penalties for negative entries over X'X = I."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import (
    check_choice,
    check_count,
    check_growth,
    check_positive,
    check_range,
    check_type,
)
from orthoplus.core.outer_method import Diagnostics, SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.types import ROUNDOFF, STEP_ROUNDOFFS, Carry, FloatArray
from orthoplus.geometry.curves import polar_curve
from orthoplus.geometry.stiefel import polar_factor
from orthoplus.methods.stiefel_descent import (
    Descended,
    ManifoldState,
    NegativityStop,
    Objective,
    StiefelDescent,
    gradient_scale,
    manifold_state,
    model_of,
    orthonormal_start,
)

# Line search: factor of a rejected step, number of values in the reference, required decrease.
_SHRINK, _WINDOW, _DECREASE = 0.3, 5, 1e-4
_MAX_TRIALS = 25
# Newton iterations for the multiplier of a tangent step, residual tolerance relative to zero,
# damping.
_MAX_NEWTON, _NEWTON_TOL, _DAMPING = 30, 1e-10, 1e-8


@dataclass(frozen=True)
class SEPPG(SeededMethod):
    r"""Penalize negative entries over the Stiefel manifold, exactly or by a Moreau envelope.

    .. math:: \min_{U^\top U = I} f(U) + \rho\, h(U), \qquad h(U) = \sum_{ij} \max(-U_{ij}, 0),

    or with the Moreau envelope instead of h,

    .. math:: e_\gamma h(U) = \min_Z h(Z) + \tfrac{1}{2\gamma} \|Z - U\|_F^2,

    by a proximal gradient method with retraction and nonmonotone line search, for growing rho.

    Parameters
    ----------
    penalty : {"smooth", "nonsmooth"}
        The envelope, or h itself. For h, a step minimizes the linearized f plus rho h over the
        tangent space by a semismooth Newton method for the k x k multiplier.
    smoothing : float
        The parameter gamma of "smooth".
    penalty_start, penalty_growth : float
        First rho, in units of the largest entry of the gradient of f at the start, and its growth.
    kick : float
        Before each rho but the first, U is replaced by an orthonormal factor of
        :math:`|U| + \mathrm{kick} \cdot N` with standard normal N; 0 continues from U.
    negativity_tol : float
        Value of h(U) at which to stop.
    inner_tol, value_tol : float
        Stop an inner run if the step divided by its length, relative to the gradient, or the
        relative change of the objective is at most this.
    max_inner, max_iter : int
        Maximum numbers of inner iterations per rho and of values of rho.
    squared : bool
        Whether to minimize f(X o X), which equals f(X) on permutation matrices, for quadratic
        assignment.
    seed : int
        Seed of the kicks.

    Notes
    -----
    Qian, Pan and Xiao, *Error bound and exact penalty method for optimization problems with
    nonnegative orthogonal constraint*, IMA J. Numer. Anal. (2023): both penalties have the global
    minimizers of the constrained problem once rho is large enough (the envelope under a condition
    on f), if no minimizer has a row of zeros. Only the abstract of the article was available; which
    options its variants SEPPG+ and SEPPG0 use was not verified. Growth 1.1, the kick, the line
    search (factor 0.3, five values, 1e-4), the smoothing 0.05 and the tolerance 1e-3 on h are
    numbers of public code for this penalty, whose rho starts relative to f; the other tolerances
    are ours, and so is the solver for "nonsmooth". Here rho is relative to the gradient, so that
    the scale of f does not matter. An inner iteration costs one gradient of f and O(nk^2), several
    times O(nk^2) for "nonsmooth".

    Examples
    --------
    >>> import orthoplus as op
    >>> problem = op.problems.Projection(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]]))
    >>> op.solve(problem, method=SEPPG()).X.round(3)
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 1. ]])
    """

    state_type = ManifoldState
    ends_with_search = False  # baselines are compared without a search

    penalty: str = "smooth"
    smoothing: float = 0.05
    penalty_start: float = 1e-2
    penalty_growth: float = 1.1
    kick: float = 1e-2
    negativity_tol: float = 1e-3
    inner_tol: float = 1e-3
    value_tol: float = 1e-8
    max_inner: int = 1000
    max_iter: int = 300
    squared: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.penalty, "penalty", ("smooth", "nonsmooth"))
        check_positive(self.smoothing, "smoothing")
        check_positive(self.penalty_start, "penalty_start")
        check_growth(self.penalty_growth, "penalty_growth")
        for name in ("kick", "negativity_tol", "inner_tol", "value_tol"):
            check_range(getattr(self, name), name, low=0.0)
        check_count(self.max_inner, "max_inner", low=1)
        check_count(self.max_iter, "max_iter", low=1)
        check_type(self.squared, "squared", bool)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> ManifoldState:
        """Return the state with the closest orthonormal U and the first penalty."""
        model = model_of(problem, squared=self.squared)
        U = orthonormal_start(model, X)
        sigma = self.penalty_start * gradient_scale(model, U)
        return manifold_state(problem, U, np.empty((0, 0)), (sigma, 0, 0))

    def step(self, problem: Problem, state: ManifoldState) -> ManifoldState:
        """Perturb U, minimize the penalized f over the manifold, and increase rho."""
        model = model_of(problem, squared=self.squared)
        U = self._kicked(model, state)
        U, _, n_inner = self._minimize(model, U, state.sigma)
        progress = (self.penalty_growth * state.sigma, state.n_iter + 1, n_inner)
        return manifold_state(problem, U, state.multipliers, progress)

    def diagnostics(self, state: ManifoldState) -> Diagnostics:
        """Return the penalty parameter and the number of inner iterations."""
        return Diagnostics(state.sigma, state.n_inner)

    def stop(self) -> NegativityStop:
        """Return the stopping rule: the negativity is small, or the limit is reached."""
        return NegativityStop(self.negativity_tol, self.max_iter)

    def _kicked(self, model: Problem, state: ManifoldState) -> FloatArray:
        U = state.factor
        if self.kick == 0.0 or state.n_iter == 0:
            return U
        # |U| is nonnegative but not orthonormal; the polar factor restores orthonormal columns.
        noise = np.random.default_rng([self.seed, state.n_iter]).standard_normal(U.shape)
        moved = polar_factor(np.abs(U) + self.kick * noise)
        return moved if np.isfinite(model.value(moved)) else U

    def _minimize(self, model: Problem, U: FloatArray, sigma: float) -> Descended:
        if self.penalty == "nonsmooth":
            return self._proximal(model, U, sigma)
        descent = StiefelDescent(
            polar_curve,
            self.inner_tol,
            self.value_tol,
            self.max_inner,
            _SHRINK,
            decrease=_DECREASE,
            window=_WINDOW,
        )
        return descent(with_envelope(model, sigma, self.smoothing), U)

    def _proximal(self, model: Problem, U: FloatArray, sigma: float) -> Descended:
        """Take proximal gradient steps in the tangent space, retracted by the polar factor."""
        value, G = model.value_and_gradient(U)
        total = value + sigma * negativity(U)
        length, values, size = 1.0 / _curvature(U, G), [total], float(np.linalg.norm(G))
        for n_iter in range(self.max_inner):
            V = tangent_step(U, G, length, sigma)
            if float(np.linalg.norm(V)) <= self.inner_tol * length * max(size, sigma):
                return Descended(U, total, n_iter)
            found = _retract(model, U, V, sigma, (length, max(values[-_WINDOW:])))
            if found is None:
                return Descended(U, total, n_iter)
            before, (moved, total, G_new) = total, found
            S, Z = moved - U, G_new - G
            length = _next_length(S, Z, 1.0 / _curvature(U, G))
            U, G = moved, G_new
            values.append(total)
            if abs(before - total) <= self.value_tol * (abs(before) + abs(total)):
                return Descended(U, total, n_iter + 1)
        return Descended(U, total, self.max_inner)


def negativity(U: FloatArray) -> float:
    """Return h, the sum of the absolute values of the negative entries of U."""
    return float(-np.minimum(U, 0.0).sum())


def with_envelope(problem: Problem, sigma: float, smoothing: float) -> Objective:
    """Return f + rho e_gamma h, which is quadratic on [-gamma, 0] and linear below."""

    def evaluate(U: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = problem.value_and_gradient(U)
        below = np.maximum(-U, 0.0)
        slope = np.minimum(below / smoothing, 1.0)
        # slope (below - gamma slope / 2) is x^2 / (2 gamma), or |x| - gamma / 2 for slope 1.
        envelope = float((slope * (below - 0.5 * smoothing * slope)).sum())
        return value + sigma * envelope, gradient - sigma * slope

    return evaluate


def tangent_step(U: FloatArray, G: FloatArray, length: float, sigma: float) -> FloatArray:
    r"""Return the V that minimizes <G, V> + ||V||^2 / (2t) + rho h(U + V) over the tangent space.

    .. math:: U + V = \mathrm{prox}_{t\rho h}(U - tG + tU\Lambda), \qquad
              E(\Lambda) = U^\top V + V^\top U = 0 .

    E is the gradient of a convex function of the symmetric Lambda, with Lipschitz constant 2t. A
    damped Newton step that does not decrease ||E|| is replaced by a gradient step.
    """
    base, k = U - length * G, U.shape[1]

    def residual(multiplier: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        Z = base + length * (U @ multiplier)
        # prox of t rho h: negative entries are raised by t rho, but at most to 0.
        V = np.where(Z < 0, np.minimum(Z + length * sigma, 0.0), Z) - U
        inner = U.T @ V
        # prox is flat for Z between -t rho and 0, and has slope 1 elsewhere.
        return V, inner + inner.T, ((Z >= 0) | (Z < -length * sigma)).astype(float)

    multiplier = np.zeros((k, k))
    V, E, slopes = residual(multiplier)
    first = float(np.linalg.norm(E))
    for _ in range(_MAX_NEWTON):
        size = float(np.linalg.norm(E))
        if size <= _NEWTON_TOL * max(first, length * float(np.linalg.norm(G))):
            break
        step = _newton_direction(U, slopes, E, length)
        trial = residual(multiplier + step)
        if float(np.linalg.norm(trial[1])) >= size:
            # E has Lipschitz constant 2t: this gradient step always decreases the convex function.
            step = -E / (2.0 * length)
            trial = residual(multiplier + step)
        multiplier, (V, E, slopes) = multiplier + step, trial
    inner = U.T @ V
    return np.asarray(V - U @ (0.5 * (inner + inner.T)))  # remove what rounding left of E


def _newton_direction(
    U: FloatArray, slopes: FloatArray, E: FloatArray, length: float
) -> FloatArray:
    """Solve (J + damping) D = -E for symmetric D by conjugate gradients."""

    def product(D: FloatArray) -> FloatArray:
        inner = U.T @ (slopes * (U @ D))
        return np.asarray(length * (inner + inner.T) + 2.0 * length * _DAMPING * D)

    D, R = np.zeros_like(E), -E
    P, square = R, float(np.vdot(R, R))
    goal = 1e-20 * square
    for _ in range(E.size):
        JP = product(P)
        # Conjugate gradients on symmetric k x k matrices; J is positive semidefinite plus damping.
        share = square / float(np.vdot(P, JP))
        D, R = D + share * P, R - share * JP
        old, square = square, float(np.vdot(R, R))
        if square <= goal:
            break
        P = R + (square / old) * P
    return D


def _retract(
    model: Problem,
    U: FloatArray,
    V: FloatArray,
    sigma: float,
    control: tuple[float, float],
) -> tuple[FloatArray, float, FloatArray] | None:
    """Return the first accepted retraction of U + a V as a decreases, or None."""
    length, reference = control
    square = float(np.vdot(V, V)) / length
    slack = STEP_ROUNDOFFS * ROUNDOFF[np.dtype(np.float64)] * abs(reference)
    share = 1.0
    for _ in range(_MAX_TRIALS):
        moved = polar_factor(U + share * V)
        value, G = model.value_and_gradient(moved)
        total = value + sigma * negativity(moved)
        if total <= reference - 0.5 * _DECREASE * share * square + slack:
            return moved, total, G
        share *= _SHRINK
    return None


def _curvature(U: FloatArray, G: FloatArray) -> float:
    """Return ||G|| / ||U||, a first guess of the curvature; 1 if G vanishes."""
    return float(np.linalg.norm(G) / np.sqrt(U.shape[1])) or 1.0


def _next_length(S: FloatArray, Z: FloatArray, unit: float) -> float:
    """Return the short Barzilai-Borwein step, within bounds."""
    inner, square = abs(float(np.vdot(S, Z))), float(np.vdot(Z, Z))
    short = inner / square if square > 0 else unit
    return min(max(short, 1e-6 * unit), 1e3 * unit)
