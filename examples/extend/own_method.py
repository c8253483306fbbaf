"""Your own method: gradient steps over S+, each ended by the certified projection."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import orthoplus as op
from orthoplus.core.status import Status


class FeasibleState(NamedTuple):
    """Hold what `solve` reads from every state, and the step length."""

    X: np.ndarray
    value: float
    n_iter: int
    alpha: float
    violation: float = 0.0  # how far X is from S+
    Y: Any = None  # the second block, if the method moves one


@dataclass(frozen=True)
class FeasibleGradient:
    """X+ = projection onto S+ of X - alpha grad f(X), with alpha halved until f decreases."""

    max_iter: int = 100

    def init(self, problem, X, carry=None):
        X = op.project(X).X  # `solve` passes a point of OB+
        return FeasibleState(X, problem.value(X), 0, 1.0)

    def step(self, problem, state):
        gradient = problem.value_and_gradient(state.X)[1]
        alpha = 2 * state.alpha
        while alpha > 1e-16:
            X = op.project(state.X - alpha * gradient).X
            value = problem.value(X)
            if value < state.value:
                return FeasibleState(X, value, state.n_iter + 1, alpha)
            alpha /= 2
        return state._replace(n_iter=state.n_iter + 1, alpha=0.0)

    def stop(self):
        def look(state):
            if state.alpha == 0.0:
                return Status.CONVERGED
            return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING

        return look


if __name__ == "__main__":
    A = np.random.default_rng(0).random((30, 6))
    result = op.solve(op.problems.ONMF(A, 3), method=FeasibleGradient())
    print(result.status.name, len(result.history) == result.n_iter)
