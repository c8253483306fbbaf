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
from orthoplus.penalty.family import without_penalty

# The residual to reach on the support, as a share of the gradient's size; not below what the
# arithmetic allows.
_REFINE_TOL = 1e-10
_FIRST_ORDER = ProjectedGradient(max_iter=500)
_SECOND_ORDER = RegularizedNewton(max_iter=50)
MAX_ROUNDS = 20
FOOTHOLD = 1e-6  # the first entry of a row that is called back


def refine(problem: Problem, X: FloatArray) -> FloatArray:
    """Minimize f over S+ on the support of X, (3.1); never worse than X.

    In closed form where the problem has one, otherwise by projected gradient, then Newton's method.
    A row of zeros that the gradient calls back (condition (2.6b) fails there) joins the column
    where f falls fastest, and the search goes on: the answer is stationary, not only weakly so.

    Parameters
    ----------
    problem : Problem
        f over n x k matrices.
    X : ndarray of shape (n, k)
        A point of S+; not modified.

    Returns
    -------
    ndarray of shape (n, k)
        A point of S+; its support is that of X and the rows that were called back.

    Notes
    -----
    Jiang, Meng, Wen and Chen (2023), (3.1) and section 4. The closed form costs O(nk) for a linear
    f and k small eigenproblems for a quadratic one; else each step costs one gradient.

    Examples
    --------
    >>> from orthoplus.problems import Projection
    >>> X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, np.sqrt(2)]]) / np.sqrt(2)
    >>> refine(Projection(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]])), X)
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 1. ]])
    """
    X = _refine_on_support(problem, X)
    for _ in range(MAX_ROUNDS):
        recalled = _recall_rows(problem, X)
        if recalled is None:
            break
        moved = _refine_on_support(problem, recalled)
        if not problem.value(moved) < problem.value(X):
            break
        X = moved
    return X


def _refine_on_support(problem: Problem, X: FloatArray) -> FloatArray:
    closed = problem.refine(X)
    if closed is None:
        return _descend_on_support(problem, X)
    return closed if problem.value(closed) <= problem.value(X) else X


def _recall_rows(problem: Problem, X: FloatArray) -> FloatArray | None:
    """X with a small entry in each zero row where f falls, or None where there is none."""
    rows = np.flatnonzero(labels_of(X) < 0)
    if len(rows) == 0:
        return None
    gradient = problem.value_and_gradient(X)[1]
    columns = gradient[rows].argmin(axis=1)
    steep = gradient[rows, columns] < -stationary_tol(X) * float(np.linalg.norm(gradient))
    if not steep.any():
        return None
    recalled = X.copy()
    recalled[rows[steep], columns[steep]] = FOOTHOLD
    return np.asarray(recalled / np.linalg.norm(recalled, axis=0))


def stationary_tol(X: Any) -> float:
    """Return the residual to reach at a point of this dtype, as a share of the gradient's size."""
    return max(_REFINE_TOL, STEP_ROUNDOFFS * ROUNDOFF[X.dtype])


def _descend_on_support(problem: Problem, X: FloatArray) -> FloatArray:
    """Return a stationary point of f over OB+ with the support of X; f no larger."""
    size = float(np.linalg.norm(problem.value_and_gradient(X)[1])) or 1.0
    model = without_penalty(_Restricted(problem, X > 0), unit=size)
    tol = stationary_tol(X)
    first, *_ = minimize_oblique(model, _FIRST_ORDER, X, tol=tol)
    if first.stationarity <= tol:
        return first.X
    return minimize_oblique(model, _SECOND_ORDER, first.X, tol=tol)[0].X


@dataclass(frozen=True, eq=False)
class _Restricted(Problem):
    """f over matrices with a given support: gradient and curvature vanish off it."""

    problem: Problem
    support: BoolArray

    @property
    def shape(self) -> tuple[int, int]:
        return self.problem.shape

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.problem.value_and_gradient(X)
        within = empty_like(X)
        strays = kernels.restrict_into(X, gradient, self.support, within)
        # A column that lost its support was given another row: no step may end there.
        return (np.inf if strays else value), within

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return np.where(self.support, self.problem.hessp(X, D), 0.0)
