"""Your own problem: the sum of fourth powers of X - C."""

from dataclasses import dataclass

import numpy as np

import orthoplus as op


@dataclass(frozen=True, eq=False)
class QuarticFit(op.Problem):
    """Minimize the sum of (X - C)^4 over S+."""

    C: np.ndarray

    @property
    def shape(self):
        return self.C.shape

    def value_and_gradient(self, X):
        R = X - self.C
        return float((R**4).sum()), 4 * R**3

    def hessp(self, X, D):
        return 12 * (X - self.C) ** 2 * D


if __name__ == "__main__":
    problem = QuarticFit(np.random.default_rng(0).random((40, 4)))
    print(op.check_gradient(problem).is_right, op.solve(problem).status.name)
