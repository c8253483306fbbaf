r"""Descent along curves on the Stiefel manifold, shared by several baselines.

The baselines keep :math:`U^\top U = I` and treat :math:`U \ge 0` by a penalty or multipliers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from orthoplus.core.errors import InputError
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import ROUNDOFF, STEP_ROUNDOFFS, FloatArray
from orthoplus.geometry.curves import Curve, stiefel_gradient
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.geometry.stiefel import keep_largest, polar_factor, violation

# ``objective(U)`` returns a value and its Euclidean gradient.
Objective = Callable[[FloatArray], tuple[float, FloatArray]]

# Maximum number of step lengths per search along a curve, and the range of step lengths.
_MAX_TRIALS = 30
_SHORTEST, _LONGEST = 1e-10, 1e10  # step lengths, in units of the first step


class Descended(NamedTuple):
    """Hold the final point of a descent, its objective value, and the number of iterations."""

    U: FloatArray
    value: float
    n_iter: int


@dataclass(frozen=True)
class StiefelDescent:
    r"""Gradient descent over the Stiefel manifold with Barzilai-Borwein steps.

    A step of length t is accepted if the objective is at most :math:`C - c\,t\,\| abla\|^2`. Here C
    is the largest of the last ``window`` values or, if ``window`` is 0, a weighted average of all
    values whose weights decay by ``memory`` (Zhang and Hager).

    Parameters
    ----------
    curve : callable
        `orthoplus.geometry.curves.cayley_curve` or `polar_curve`.
    tol, value_tol : float
        Stop if the Riemannian gradient, relative to the Euclidean gradient, or the relative change
        of the objective is at most this.
    max_iter : int
    shrink, decrease, memory, window
        Factor of a rejected step, c, and the parameters of C.
    first_move : float
        Length of the first trial step, relative to U.
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
        """Descend from U until a tolerance or the limit is reached, or no step is accepted."""
        value, G = objective(U)
        D = stiefel_gradient(U, G)
        # The first trial moves U by the share ``first_move`` of its norm sqrt(k).
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
            # Long and short Barzilai-Borwein steps in turn.
            length = _step_length(moved - U, D_new - D, n_iter % 2 == 0)
            length = min(max(length, _SHORTEST * unit), _LONGEST * unit)
            U, D, value = moved, D_new, new
            values.append(value)
            if abs(before - value) <= self.value_tol * (abs(before) + abs(value)):
                return Descended(U, value, n_iter + 1)
            # Zhang and Hager: C <- (eta Q C + f) / (eta Q + 1), Q <- eta Q + 1.
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
        """Return the first accepted point of the curve and its objective; None if there is none."""
        length, slope, reference = control
        # Near a minimizer the required decrease drowns in the rounding of f.
        slack = STEP_ROUNDOFFS * ROUNDOFF[np.dtype(np.float64)] * abs(reference)
        for _ in range(_MAX_TRIALS):
            # Every point of the curve has orthonormal columns.
            moved = self.curve(*here, length)
            value, G = objective(moved)
            if value <= reference - self.decrease * length * slope + slack:
                return moved, (value, G)
            length *= self.shrink
        return None


def _step_length(S: FloatArray, Z: FloatArray, is_long: bool) -> float:
    """Return the Barzilai-Borwein step from a move and the change of the gradient."""
    inner = abs(float(np.vdot(S, Z)))
    # Long: <S, S> / |<S, Z>|; short: |<S, Z>| / <Z, Z>.
    above, below = (float(np.vdot(S, S)), inner) if is_long else (inner, float(np.vdot(Z, Z)))
    return above / below if below > 0 else np.inf


@dataclass(frozen=True, eq=False)
class SquaredEntries(Problem):
    """Evaluate f(X o X), which equals f(X) on permutation matrices (Wen and Yin)."""

    problem: Problem

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape of the wrapped problem."""
        return self.problem.shape

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return f(X o X) and its gradient 2 X o grad f(X o X)."""
        value, gradient = self.problem.value_and_gradient(X * X)
        # Chain rule: the gradient of f(X o X) is 2 X o grad f.
        return value, 2.0 * X * gradient


def model_of(problem: Problem, *, squared: bool) -> Problem:
    """Return the problem or, if ``squared`` and X is square, the problem f(X o X)."""
    n, k = problem.shape
    if not squared:
        return problem
    if n != k:
        raise InputError(
            f"`squared=True` needs a square X, because f(X o X) = f(X) holds only for permutation "
            f"matrices, but the shape is {problem.shape}. Use `squared=False`."
        )
    return SquaredEntries(problem)


def orthonormal_start(problem: Problem, X: FloatArray) -> FloatArray:
    """Return the nearest matrix with orthonormal columns, or a point of S+ if f is not finite."""
    X = X.astype(np.float64)
    # The polar factor is the closest matrix with orthonormal columns.
    U = polar_factor(X)
    return U if np.isfinite(problem.value(U)) else keep_largest(X)


class ManifoldState(NamedTuple):
    """Hold a point U with orthonormal columns (``factor``), its multipliers, and the penalty.

    ``X`` is max(U, 0) with unit columns; ``value`` and ``violation`` refer to U.
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


class NegativityState(Protocol):
    """Attributes that `NegativityStop` reads from a state."""

    @property
    def n_iter(self) -> int:
        """Return the number of iterations so far."""

    @property
    def negativity(self) -> float:
        """Return the size of the negative entries, as the method measures it."""


@dataclass(frozen=True)
class NegativityStop:
    """Stop if the negativity of U is at most ``tol``, or at the limit."""

    tol: float
    max_iter: int

    def __call__(self, state: "NegativityState") -> Status:
        """Return CONVERGED if the negativity is at most ``tol``."""
        if state.n_iter > 0 and state.negativity <= self.tol:
            return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


def manifold_state(
    problem: Problem,
    U: FloatArray,
    multipliers: FloatArray,
    progress: tuple[float, int, int],
) -> ManifoldState:
    """Return the state at U; ``progress`` holds the penalty, n_iter and n_inner."""
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
    """Return the largest entry of the gradient, or 1 if it vanishes, as a unit of penalties."""
    return float(np.abs(problem.value_and_gradient(U)[1]).max(initial=0.0)) or 1.0
