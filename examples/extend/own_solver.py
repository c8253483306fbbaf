"""Your own inner solver: projected gradient steps, halved until the value decreases."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import orthoplus as op
from orthoplus.core.status import Status


class HalvingState(NamedTuple):
    """Hold everything that the next step needs."""

    X: np.ndarray
    value: float
    gradient: np.ndarray
    alpha: float
    moved: float
    n_iter: int


@dataclass(frozen=True)
class HalvingGradient:
    """X+ = projection onto OB+ of X - alpha grad h(X)."""

    max_iter: int = 200
    tol: float = 1e-6

    def init(self, problem, X, carry=None):
        value, gradient = problem.value_and_gradient(X)
        # Empty in the first run; later, what `carry` returned at the end of the last run.
        alpha = (carry or {}).get("alpha", 1.0)
        return HalvingState(X, value, gradient, alpha, np.inf, 0)

    def step(self, problem, state):
        alpha = 2 * state.alpha
        while alpha > 1e-16:
            X = op.geometry.project_oblique_plus(state.X - alpha * state.gradient)
            value, gradient = problem.value_and_gradient(X)
            if value <= state.value:
                moved = float(np.linalg.norm(X - state.X))
                return HalvingState(X, value, gradient, alpha, moved, state.n_iter + 1)
            alpha /= 2
        return state._replace(moved=0.0, n_iter=state.n_iter + 1)

    def stop(self, tol=None):
        tol = self.tol if tol is None else tol  # EP4Orth passes that of its schedule

        def look(state):
            if state.moved <= tol:
                return Status.CONVERGED
            return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING

        return look

    def carry(self, state):
        return {"alpha": state.alpha}


if __name__ == "__main__":
    A = np.random.default_rng(0).random((30, 6))
    problem = op.problems.ONMF(A, 3)
    result = op.solve(problem, method=op.EP4Orth(inner=HalvingGradient()))
    print(result.status.name, result.violation < 1e-12)
