"""Two-block problems, eq. (1.9): minimize f(X, Y) over X in S+ and Y in a simple closed set."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from orthoplus.core.checks import as_matrix_like, as_value, check_shape
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray

JointFun = Callable[[FloatArray, FloatArray], tuple[float, FloatArray, FloatArray]]

_MAX_Y_STEPS = 200
_Y_TOL = 1e-10


@dataclass(frozen=True, eq=False)
class TwoBlock(Problem):
    r"""min :math:`f(X, Y)` over :math:`X \in S_+,\ Y \in \mathcal{Y}`, (1.9).

    Parameters
    ----------
    fun : callable
        ``fun(X, Y) -> (value, gradient in X, gradient in Y)``.
    size : (int, int)
        The shape (n, k) of X.
    Y0 : ndarray
        The initial second block, of any shape, in its set.
    project_y : callable, optional
        ``project_y(Y) -> Y``, the projection onto the set; None means no constraint.
    minimize_y : callable, optional
        ``minimize_y(X) -> Y``, the closed-form minimizer over the set, if there is one.
    curvature : callable, optional
        ``curvature(X, Y, D) -> f_XX(X, Y)[D]``; None uses differences of two gradients.

    Notes
    -----
    The cost is that of the callables. See section 4 and eq. (4.25) of the paper.

    Examples
    --------
    >>> problem = TwoBlock(
    ...     lambda X, Y: (((X - Y) ** 2).sum(), 2 * (X - Y), 2 * (Y - X)),
    ...     (3, 2), np.zeros((3, 2)), minimize_y=lambda X: X)
    >>> float(problem.value(np.eye(3, 2)))
    0.0
    """

    fun: JointFun
    size: tuple[int, int]
    Y0: FloatArray
    project_y: Callable[[FloatArray], FloatArray] | None = None
    minimize_y: Callable[[FloatArray], FloatArray] | None = None
    curvature: Callable[[FloatArray, FloatArray, FloatArray], FloatArray] | None = None

    def __post_init__(self) -> None:
        check_shape(*self.size, "X")
        object.__setattr__(self, "Y0", self.onto_set(np.asarray(self.Y0, dtype=np.float64)))

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape (n, k) given at construction."""
        return self.size

    def onto_set(self, Y: FloatArray) -> FloatArray:
        """Return the projection of Y onto its set."""
        return Y if self.project_y is None else np.asarray(self.project_y(Y))

    def evaluate(self, X: FloatArray, Y: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return f(X, Y) and its two checked gradients, which are 0 if f is NaN or infinite."""
        given, in_x, in_y = self.fun(X.copy(), Y.copy())
        value = as_value(given)
        if not np.isfinite(value):
            return value, np.zeros_like(X), np.zeros_like(Y)
        return (
            value,
            as_matrix_like(in_x, X, "The gradient in X"),
            as_matrix_like(in_y, Y, "The gradient in Y"),
        )

    def at(self, Y: FloatArray) -> "FixedBlock":
        """Return the smooth problem in X alone, for this Y."""
        return FixedBlock(self, Y)

    def second_block(self, X: FloatArray) -> FloatArray:
        """Return the minimizer over Y, by closed form or projected gradient from Y0."""
        if self.minimize_y is not None:
            return np.asarray(self.minimize_y(X))
        return self.improve_y(X, self.Y0, max_steps=_MAX_Y_STEPS)

    def improve_y(self, X: FloatArray, Y: FloatArray, *, max_steps: int) -> FloatArray:
        """Make projected gradient steps in Y with backtracking; the result is never worse."""
        beta, size = 0.0, float(np.linalg.norm(Y))
        for _ in range(max_steps):
            moved, beta = self.y_step(X, Y, beta)
            length = float(np.linalg.norm(moved - Y))
            Y, size = moved, max(size, float(np.linalg.norm(moved)))
            if length <= _Y_TOL * size:
                break
        return Y

    def y_step(self, X: FloatArray, Y: FloatArray, beta: float) -> tuple[FloatArray, float]:
        """Make one projected gradient step in Y with PALM's descent condition; return its length.

        For beta = 0 the first trial moves Y by about twice its norm, for any scale of f.
        """
        value, _, gradient = self.evaluate(X, Y)
        if beta == 0.0:
            slope, size = float(np.linalg.norm(gradient)), float(np.linalg.norm(Y))
            # A power of two: halving then reaches 1/L exactly if L is one, as for a distance.
            beta = 2.0 ** round(math.log2((size or 1.0) / (slope or 1.0)))
        beta *= 2.0
        for _ in range(60):
            moved = self.onto_set(Y - beta * gradient)
            step = moved - Y
            bound = float(np.vdot(gradient, step)) + float(np.vdot(step, step)) / (2 * beta)
            if self._value(X, moved) <= value + bound + 1e-14 * abs(value):
                return moved, beta
            beta *= 0.5
        return Y, beta

    def y_residual(self, X: FloatArray, Y: FloatArray, unit: float = 1.0) -> float:
        """Return dist(Y, projection of Y - grad_Y f / unit), the second condition of section 4."""
        gradient = self.evaluate(X, Y)[2]
        return float(np.linalg.norm(Y - self.onto_set(Y - gradient / unit)))

    def value(self, X: FloatArray) -> float:
        """Return f(X, Y) at the best Y that `second_block` finds."""
        return self._value(X, self.second_block(X))

    def _value(self, X: FloatArray, Y: FloatArray) -> float:
        return as_value(self.fun(X.copy(), Y.copy())[0])

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return the minimum of f(X, Y) over Y, and its gradient in X by the envelope theorem."""
        return self.at(self.second_block(X)).value_and_gradient(X)

    def warm(self, Y: FloatArray) -> "TwoBlock":
        """Return the problem with Y as the start of `second_block`."""
        return replace(self, Y0=Y)

    def freeze(self, X: FloatArray) -> Problem:
        """Return f(., Y) with the best Y, or the problem itself without ``minimize_y``."""
        return self if self.minimize_y is None else self.at(self.second_block(X))


@dataclass(frozen=True, eq=False)
class FixedBlock(Problem):
    """The problem f(., Y) for a fixed second block."""

    joint: TwoBlock
    Y: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape of X in the joint problem."""
        return self.joint.shape

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return f(X, Y) and its gradient in X."""
        return self.joint.evaluate(X, self.Y)[:2]

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return the Hessian product in X, by differences unless ``curvature`` is given."""
        if self.joint.curvature is None:
            return super().hessp(X, D)
        return np.asarray(self.joint.curvature(X, self.Y, D))

    def second_block(self, X: FloatArray) -> FloatArray:
        """Return the fixed Y."""
        return self.Y
