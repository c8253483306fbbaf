r"""What the baselines over the Stiefel manifold share: a descent along curves with step control.

They keep :math:`U^\top U = I` and treat :math:`U \ge 0` by a penalty or by multipliers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.errors import InputError
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import ROUNDOFF, STEP_ROUNDOFFS, FloatArray
from orthoplus.geometry.curves import Curve, stiefel_gradient
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.geometry.stiefel import keep_largest, polar_factor, violation

# ``objective(U)``: a value and its Euclidean gradient.
Objective = Callable[[FloatArray], tuple[float, FloatArray]]

_MAX_TRIALS = 30
_SHORTEST, _LONGEST = 1e-10, 1e10  # of a step, in units of the first


class Descended(NamedTuple):
    """Where a descent ended: the point, the value of the objective there, and its iterations."""

    U: FloatArray
    value: float
    n_iter: int


@dataclass(frozen=True)
class StiefelDescent:
    r"""Gradient descent over the Stiefel manifold with Barzilai-Borwein steps.

    A step of length t is accepted if the objective is at most :math:`C - c\,t\,\|\nabla\|^2`, with
    C the largest of the last values (``window``) or, if that is 0, their average with weights that
    fall by ``memory`` (Zhang and Hager).

    Parameters
    ----------
    curve : callable
        `orthoplus.geometry.curves.cayley_curve` or `polar_curve`.
    tol, value_tol : float
        Stop at this gradient on the manifold, relative to the Euclidean gradient, or at this
        relative change of the value.
    max_iter : int
    shrink, decrease, memory, window
        Factor of a step that fails, c, and how C is made.
    first_move : float
        Length of the first step that is tried, relative to U.
    """

    curve: Curve
    tol: float
    value_tol: float
    max_iter: int
    shrink: float
    decrease: float = 1e-4
    memory: float = 0.85
    window: int = 0
    first_move: float = 1e-3

    def __call__(self, objective: Objective, U: FloatArray) -> Descended:
        """Descend from U until a tolerance or the limit is met, or until no step is accepted."""
        value, G = objective(U)
        D = stiefel_gradient(U, G)
        unit = self.first_move * np.sqrt(U.shape[1]) / (float(np.linalg.norm(D)) or 1.0)
        length, values, reference, weight = unit, [value], value, 1.0
        for n_iter in range(self.max_iter):
            slope = float(np.vdot(D, D))
            if np.sqrt(slope) <= self.tol * float(np.linalg.norm(G)):
                return Descended(U, value, n_iter)
            found = self._search(objective, (U, G), (length, slope, reference))
            if found is None:
                return Descended(U, value, n_iter)
            before, moved, (new, G) = value, *found
            D_new = stiefel_gradient(moved, G)
            length = _step_length(moved - U, D_new - D, n_iter % 2 == 0)
            length = min(max(length, _SHORTEST * unit), _LONGEST * unit)
            U, D, value = moved, D_new, new
            values.append(value)
            if abs(before - value) <= self.value_tol * (abs(before) + abs(value)):
                return Descended(U, value, n_iter + 1)
            weight, old = self.memory * weight + 1.0, weight
            reference = (self.memory * old * reference + value) / weight
            if self.window:
                reference = max(values[-self.window :])
        return Descended(U, value, self.max_iter)

    def _search(
        self,
        objective: Objective,
        here: tuple[FloatArray, FloatArray],
        control: tuple[float, float, float],
    ) -> tuple[FloatArray, tuple[float, FloatArray]] | None:
        """Return the first point of the curve that is accepted, and the objective there."""
        length, slope, reference = control
        slack = STEP_ROUNDOFFS * ROUNDOFF[np.dtype(np.float64)] * abs(reference)
        for _ in range(_MAX_TRIALS):
            moved = self.curve(*here, length)
            value, G = objective(moved)
            if value <= reference - self.decrease * length * slope + slack:
                return moved, (value, G)
            length *= self.shrink
        return None


def _step_length(S: FloatArray, Z: FloatArray, is_long: bool) -> float:
    """Return the step of Barzilai and Borwein from a move and the change of the gradient."""
    inner = abs(float(np.vdot(S, Z)))
    above, below = (float(np.vdot(S, S)), inner) if is_long else (inner, float(np.vdot(Z, Z)))
    return above / below if below > 0 else np.inf


@dataclass(frozen=True, eq=False)
class SquaredEntries(Problem):
    """f(X o X), which is f on permutation matrices: the form of Wen and Yin for assignment."""

    problem: Problem

    @property
    def shape(self) -> tuple[int, int]:
        return self.problem.shape

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.problem.value_and_gradient(X * X)
        return value, 2.0 * X * gradient


def model_of(problem: Problem, *, squared: bool) -> Problem:
    """Return the problem itself or, for permutations only, f(X o X)."""
    n, k = problem.shape
    if not squared:
        return problem
    if n != k:
        raise InputError(
            f"`squared=True` replaces f(X) by f(X o X), which is the same for permutation matrices "
            f"only: X of shape {problem.shape} is not square. Leave `squared=False`."
        )
    return SquaredEntries(problem)


def orthonormal_start(problem: Problem, X: FloatArray) -> FloatArray:
    """Return the nearest point with orthonormal columns, or of S+ if f is not finite there."""
    X = X.astype(np.float64)
    U = polar_factor(X)
    return U if np.isfinite(problem.value(U)) else keep_largest(X)


class ManifoldState(NamedTuple):
    """A point U with orthonormal columns (``factor``), its multipliers, and the penalty.

    ``X`` is max(U, 0) with unit columns; ``value`` is f(U), ``violation`` belongs to U.
    """

    X: FloatArray
    value: float
    violation: float
    Y: FloatArray | None
    n_iter: int
    factor: FloatArray
    multipliers: FloatArray
    sigma: float
    negativity: float
    n_inner: int


@dataclass(frozen=True)
class NegativityStop:
    """Stop when the negative entries of U sum up to no more than ``tol``, or at the limit."""

    tol: float
    max_iter: int

    def __call__(self, state: Any) -> Status:
        if state.n_iter > 0 and state.negativity <= self.tol:
            return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


def manifold_state(
    problem: Problem,
    U: FloatArray,
    multipliers: FloatArray,
    progress: tuple[float, int, int],
) -> ManifoldState:
    """Return the state at U; ``progress`` is the penalty, n_iter and n_inner."""
    sigma, n_iter, n_inner = progress
    return ManifoldState(
        X=project_oblique_plus(U),
        value=float(problem.value(U)),
        violation=violation(U),
        Y=None,
        n_iter=n_iter,
        factor=U,
        multipliers=multipliers,
        sigma=sigma,
        negativity=float(-np.minimum(U, 0.0).sum()),
        n_inner=n_inner,
    )


def gradient_scale(problem: Problem, U: FloatArray) -> float:
    """Return the largest entry of the gradient, what a penalty must outweigh; 1 if it vanishes."""
    return float(np.abs(problem.value_and_gradient(U)[1]).max(initial=0.0)) or 1.0
