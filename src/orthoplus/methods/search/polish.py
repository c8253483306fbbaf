"""Polishing of a feasible point: majorize and minimize over S+ with the certified projection."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import check_count, check_positive, check_range
from orthoplus.core.outer_method import OuterMethodBase, RestStop
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray
from orthoplus.geometry.stiefel import keep_largest, labels_of
from orthoplus.methods.refine import refine_and_evaluate
from orthoplus.projection import project_stiefel_plus

# Maximum number of doublings of L per step.
_MAX_DOUBLINGS = 12


class PolishState(NamedTuple):
    """Hold a feasible point, its value, and the curvature L of the last step."""

    X: FloatArray
    value: float
    curvature: float
    n_iter: int
    is_fixed: bool
    violation: float = 0.0
    Y: FloatArray | None = None


@dataclass(frozen=True)
class Polish(OuterMethodBase):
    r"""Minimize f by projected gradient on S+; iterates are feasible and never get worse.

    .. math:: X^{l+1} \in \arg\max_{X \in S_+} \langle L X^l - \nabla f(X^l),\, X \rangle .

    On S+ the norm of X is fixed, so this minimizes the quadratic model of f with curvature L; if L
    majorizes f, the value decreases. The projection is that of `orthoplus.project`. Unlike rounding
    and refinement on a fixed support, it moves rows between columns. L is found by doubling; if the
    problem provides its own majorizer, as orthogonal NMF does with AA'X, it replaces the model.

    Parameters
    ----------
    decrease : float
        Stop if the value decreases by less than this share of its size.
    tol, max_passes
        Tolerance and maximum number of passes of the projection, which need not be accurate,
        because any step that decreases f is accepted.
    max_iter : int
        Maximum number of steps; a few are usually enough.

    Examples
    --------
    >>> import orthoplus as op
    >>> C = np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]])
    >>> op.solve(op.problems.Projection(C), np.eye(3, 2), method=Polish()).labels
    array([0, 0, 1])
    """

    state_type = PolishState

    decrease: float = 1e-10
    tol: float = 1e-8
    max_passes: int = 12
    max_iter: int = 100

    def __post_init__(self) -> None:
        check_positive(self.decrease, "decrease")
        check_range(self.decrease, "decrease", low=0.0, high=1.0)
        check_range(self.tol, "tol", low=0.0)
        check_count(self.max_passes, "max_passes", low=1)
        check_count(self.max_iter, "max_iter", low=1)

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> PolishState:
        """Return the state at X rounded to S+ and refined on its support."""
        return PolishState(*refine_and_evaluate(problem, keep_largest(X)), 0.0, 0, False)

    def step(self, problem: Problem, state: PolishState) -> PolishState:
        """Perform one step that decreases the value; return the same point if none does."""
        # A step must decrease f by this share of its size.
        enough = state.value - self.decrease * max(abs(state.value), np.finfo(float).tiny)
        tol, max_passes, start = self.tol, self.max_passes, labels_of(state.X)
        for C, curvature in self._models(problem, state):
            nearest = project_stiefel_plus(C, tol=tol, max_passes=max_passes, start=start)
            X = nearest.X.astype(C.dtype, copy=False)
            is_own = curvature == 0.0  # X is optimal on its support: only another one can gain
            if ((X > 0) == (state.X > 0)).all() if is_own else (X == state.X).all():
                break
            X, value = refine_and_evaluate(problem, X)
            if value < enough:
                return PolishState(X, value, curvature, state.n_iter + 1, False)
        return state._replace(n_iter=state.n_iter + 1, is_fixed=True)

    def _models(self, problem: Problem, state: PolishState) -> Iterator[tuple[FloatArray, float]]:
        """Yield the problem's own majorizer, or L X - grad f(X) with increasing L."""
        own = problem.majorizer(state.X)
        if own is not None:
            yield own, 0.0
            return
        gradient = problem.value_and_gradient(state.X)[1]
        # The size of the gradient per column is the unit of L.
        least = float(np.linalg.norm(gradient)) / float(np.sqrt(state.X.shape[1])) or 1.0
        # Start from half of the last successful L, so that L can decrease again.
        curvature = max(0.5 * state.curvature, 1e-2 * least)
        for _ in range(_MAX_DOUBLINGS):
            yield curvature * state.X - gradient, curvature
            curvature *= 2.0

    def stop(self) -> RestStop:
        """Return the stopping rule: no step decreases the value, or the limit is reached."""
        return RestStop("is_fixed", self.max_iter)
