"""Refinement on the support, eq. (3.1): the postprocessing of Algorithm 1."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orthoplus import kernels
from orthoplus.core.method import minimize_oblique
from orthoplus.core.problem import Problem
from orthoplus.core.types import ROUNDOFF, STEP_ROUNDOFFS, BoolArray, FloatArray
from orthoplus.geometry.stiefel import labels_of
from orthoplus.linalg.workspace import empty_like
from orthoplus.methods.newton import RegularizedNewton
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.penalty.penalized import without_penalty

# Residual to reach on the support, as a share of the gradient's size, but not below what the
# arithmetic allows.
_REFINE_TOL = 1e-10
_FIRST_ORDER = ProjectedGradient(max_iter=500)
_SECOND_ORDER = RegularizedNewton(max_iter=50)
# Maximum number of rounds of adding zero rows and refining again.
MAX_ROUNDS = 20
FOOTHOLD = 1e-6  # first entry of a zero row that is added to the support


def refine(problem: Problem, X: FloatArray) -> FloatArray:
    """Minimize f over S+ on the support of X, as in (3.1); the result is never worse than X.

    Uses the closed form of the problem if there is one, otherwise projected gradient followed by
    Newton's method. A zero row that violates condition (2.6b) joins the column where f decreases
    fastest, and the refinement is repeated, so that the result is stationary and not only weakly
    stationary.

    Parameters
    ----------
    problem : Problem
        The objective f over n x k matrices.
    X : ndarray of shape (n, k)
        A point of S+; not modified.

    Returns
    -------
    ndarray of shape (n, k)
        A point of S+. Its support is that of X plus the zero rows that were added.

    Notes
    -----
    Jiang, Meng, Wen and Chen (2023), (3.1) and section 4. The closed form costs O(nk) for a linear
    f and k small eigenproblems for a quadratic one; otherwise each step costs one gradient.

    Examples
    --------
    >>> from orthoplus.problems import Projection
    >>> X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, np.sqrt(2)]]) / np.sqrt(2)
    >>> refine(Projection(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]])), X)
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 1. ]])
    """
    return refine_and_evaluate(problem, X)[0]


def refine_and_evaluate(problem: Problem, X: FloatArray) -> tuple[FloatArray, float]:
    """Return the point of `refine` and f there, which the refinement has computed already."""
    X, value = _refine_on_support(problem, X)
    for _ in range(MAX_ROUNDS):
        recalled = _recall_rows(problem, X)
        if recalled is None:
            break
        moved, moved_value = _refine_on_support(problem, recalled)
        if not moved_value < value:
            break
        X, value = moved, moved_value
    return X, value


def _refine_on_support(problem: Problem, X: FloatArray) -> tuple[FloatArray, float]:
    closed = problem.refine(X)
    if closed is None:
        X = _descend_on_support(problem, X)
        return X, problem.value(X)
    before, after = problem.value(X), problem.value(closed)
    return (closed, after) if after <= before else (X, before)


def _recall_rows(problem: Problem, X: FloatArray) -> FloatArray | None:
    """Return X with a small entry in each zero row where f decreases, or None."""
    rows = np.flatnonzero(labels_of(X) < 0)
    if len(rows) == 0:
        return None
    gradient = problem.value_and_gradient(X)[1]
    # Condition (2.6b): on a zero row no entry of the gradient may be negative. Otherwise f
    # decreases along the entry with the most negative derivative.
    columns = gradient[rows].argmin(axis=1)
    steep = gradient[rows, columns] < -stationary_tol(X) * float(np.linalg.norm(gradient))
    if not steep.any():
        return None
    recalled = X.copy()
    # A tiny entry is enough: the refinement on the larger support finds its size.
    recalled[rows[steep], columns[steep]] = FOOTHOLD
    return np.asarray(recalled / np.linalg.norm(recalled, axis=0))


def stationary_tol(X: Any) -> float:
    """Return the target residual for this dtype, as a share of the gradient's size."""
    return max(_REFINE_TOL, STEP_ROUNDOFFS * ROUNDOFF[X.dtype])


def _descend_on_support(problem: Problem, X: FloatArray) -> FloatArray:
    """Return a stationary point of f over OB+ with the support of X and no larger f."""
    # Residuals are measured relative to the gradient at X.
    size = float(np.linalg.norm(problem.value_and_gradient(X)[1])) or 1.0
    model = without_penalty(_Restricted(problem, X > 0), unit=size)
    tol = stationary_tol(X)
    # First order until the tolerance or the limit, then second order from there if needed.
    first, *_ = minimize_oblique(model, _FIRST_ORDER, X, tol=tol)
    if first.stationarity <= tol:
        return first.X
    return minimize_oblique(model, _SECOND_ORDER, first.X, tol=tol)[0].X


@dataclass(frozen=True, eq=False)
class _Restricted(Problem):
    """Restrict f to matrices with a given support; gradient and curvature vanish off it."""

    problem: Problem
    support: BoolArray

    @property
    def shape(self) -> tuple[int, int]:
        return self.problem.shape

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.problem.value_and_gradient(X)
        within = empty_like(X)
        strays = kernels.restrict_into(X, gradient, self.support, within)
        # If a column has no positive entry, the projection picks a row off its support: such a
        # step must be rejected.
        return (np.inf if strays else value), within

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return np.where(self.support, self.problem.hessp(X, D), 0.0)
