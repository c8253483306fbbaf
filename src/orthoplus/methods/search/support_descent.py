"""Minimize f over the weights of a fixed support, with as little overhead as possible.

`orthoplus.methods.refine` is accurate to the last digit. This module is for the thousands of trials
of a search over supports, which only need to know whether a support is better.
"""

from typing import NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.geometry.stiefel import assemble

# A step is accepted if f decreases by this share of what the gradient predicts (Armijo).
_DECREASE = 1e-4
_BACKTRACK, _MAX_BACKTRACKS = 0.3, 15
# First step, in units of the norm of the columns over that of the gradient.
_FIRST_STEP = 0.3
# Cost of a closed form, in evaluations of f.
_CLOSED_COST = 5
# A trial is abandoned if this many more steps like the last one would not reach the target.
_HORIZON, _LEAST_STEPS = 20.0, 4


class SupportPoint(NamedTuple):
    """Hold a point of S+ as the column of each row's entry (-1 for none), the entries, and f."""

    labels: IntArray
    weights: FloatArray
    value: float

    def dense(self, k: int) -> FloatArray:
        """Return the n x k matrix with normalized columns."""
        return assemble(self.labels, self.weights, k)


def point_of(problem: Problem, X: FloatArray) -> SupportPoint:
    """Return X, a point of S+, as labels and weights with f."""
    labels, weights = kernels.largest_entries(X)
    return SupportPoint(labels, weights, problem.value(X))


class Trial(NamedTuple):
    """Hold the result of a trial: the point, the evaluations of f, and whether it converged."""

    point: SupportPoint
    n_eval: int
    is_converged: bool


def try_support(
    problem: Problem,
    labels: IntArray,
    weights: FloatArray,
    *,
    target: float = -np.inf,
    max_iter: int = 100,
    tol: float = 1e-7,
) -> Trial:
    """Minimize f on a support, starting from these weights, until it is below ``target``.

    Uses the closed form of the problem if there is one. Otherwise takes projected Barzilai-Borwein
    steps, which end early once f is below the target or, if there is a target, once it seems out of
    reach at the current rate.

    Parameters
    ----------
    problem : Problem
    labels, weights : ndarrays of shape (n,)
        The support and the first weights, which need not be normalized; every column needs a row
        with a positive weight.
    target : float
        The value to beat.
    max_iter : int
        Maximum number of steps.
    tol : float
        The residual of the first-order conditions on the support, relative to the gradient.

    Notes
    -----
    A step costs one evaluation of f with its gradient, plus O(n).

    Examples
    --------
    >>> from orthoplus.problems import Smooth
    >>> C = np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]])
    >>> f = Smooth(lambda X: -float((C * X).sum()), (3, 2), jac=lambda X: -C)
    >>> try_support(f, np.array([0, 0, 1]), np.ones(3)).point.weights.round(6)
    array([0.6, 0.8, 1. ])
    """
    X = assemble(labels, weights, problem.shape[1])
    # A closed form gives the exact minimum on the support, whatever the target.
    closed = problem.refine(X)
    if closed is not None:
        return Trial(point_of(problem, closed), _CLOSED_COST, True)
    return _descend(problem, X, labels, (target, max_iter, tol))


def _descend(
    problem: Problem, X: FloatArray, labels: IntArray, limits: tuple[float, int, float]
) -> Trial:
    target, max_iter, tol = limits
    rows = np.flatnonzero(labels >= 0)
    cols, k = labels[rows], X.shape[1]
    # Work on the vector of positive entries only; X serves as the buffer for evaluations.
    w: FloatArray = X[rows, cols].astype(np.float64)
    value, G = problem.value_and_gradient(X)
    alpha, n_eval, is_converged = 0.0, 1, False
    before: tuple[FloatArray, FloatArray] | None = None
    for n_iter in range(max_iter):
        g = G[rows, cols].astype(np.float64)
        slope = g - np.bincount(cols, g * w, k)[cols] * w  # Riemannian gradient
        size = float(np.linalg.norm(g))
        # First-order conditions: zero slope where w > 0, nonnegative slope where w = 0.
        residual = np.where(w > 0.0, slope, np.minimum(slope, 0.0))
        if not np.isfinite(value) or float(np.linalg.norm(residual)) <= tol * size:
            is_converged = True
            break
        alpha = _step_length(alpha, w, slope, before, _FIRST_STEP * np.sqrt(k) / size)
        step = None
        for _ in range(_MAX_BACKTRACKS):
            step = _stepped(w, slope, alpha, cols, k)
            if step is not None:
                X[rows, cols] = step
                new_value, new_G = problem.value_and_gradient(X)
                n_eval += 1
                moved = step - w
                # Armijo condition for a projected step of length alpha.
                if new_value <= value - _DECREASE / (2.0 * alpha) * float(moved @ moved):
                    break
            alpha *= _BACKTRACK
        else:
            is_converged = True  # no step decreases f to working precision
            break
        fall, before = value - new_value, (w, slope)
        w, value, G = step, new_value, new_G
        # Extrapolate the last decrease over _HORIZON further steps.
        is_hopeless = n_iter >= _LEAST_STEPS and value - _HORIZON * fall > target
        if value < target or (np.isfinite(target) and is_hopeless):
            break
    weights = np.zeros(len(labels), dtype=X.dtype)
    weights[rows] = w
    point = SupportPoint(np.where(weights > 0.0, labels, -1), weights, value)
    return Trial(point, n_eval, is_converged)


def _step_length(
    last: float,
    w: FloatArray,
    slope: FloatArray,
    before: tuple[FloatArray, FloatArray] | None,
    first: float,
) -> float:
    """Return the long Barzilai-Borwein step, within a factor of 100 of the last one."""
    if before is None:
        return first
    # <s, s> / |<s, y>|, from the last two points and their slopes.
    s, y = w - before[0], slope - before[1]
    curvature = abs(float(s @ y))
    if curvature == 0.0:
        return last
    return min(max(float(s @ s) / curvature, 1e-2 * last), 1e2 * last)


def _stepped(
    w: FloatArray, slope: FloatArray, alpha: float, cols: IntArray, k: int
) -> FloatArray | None:
    """Return the projected step with unit columns; None if a column would vanish."""
    step = np.maximum(w - alpha * slope, 0.0)
    # Normalize each column after clipping at 0.
    squares = np.bincount(cols, step * step, k)
    if not squares.all():
        return None
    return np.asarray(step / np.sqrt(squares)[cols])
