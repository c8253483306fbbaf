"""First- against second-order solver near a solution: gradient evaluations to a small residual.

For each f a local solution over OB+ of the penalised problem is found, disturbed a little, and both
solvers run from there to ||min(X, grad h)|| <= 1e-9 of the gradient's size.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import orthoplus as op
from orthoplus.core.method import minimise_oblique
from orthoplus.core.problem import Problem
from orthoplus.geometry.oblique import project_oblique_plus, random_oblique_plus
from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.penalty.family import Penalised, PowerPenalty

N, K = 500, 10
DISTURBANCE = 1e-3
METHODS = {
    "first order": op.ProjectedGradient(max_iter=20_000),
    "second order": op.RegularizedNewton(max_iter=200),
}


@dataclass(frozen=True, eq=False)
class Counted(Problem):
    """A problem that counts the gradients and Hessian products it was asked for."""

    problem: Problem
    counts: dict[str, int]

    @property
    def shape(self) -> tuple[int, int]:
        return self.problem.shape

    def value_and_gradient(self, X: Any) -> Any:
        self.counts["gradients"] += 1
        return self.problem.value_and_gradient(X)

    def hessian(self, X: Any) -> Any:
        product = self.problem.hessian(X)

        def counted(D: Any) -> Any:
            self.counts["products"] += 1
            return product(D)

        return counted

    def hessp(self, X: Any, D: Any) -> Any:
        return self.hessian(X)(D)


def problems(rng: np.random.Generator) -> dict[str, Problem]:
    import jax.numpy as jnp

    A = random_stiefel_plus(N, K, rng) @ rng.random((K, 200)) + 1e-2 * rng.random((N, 200))
    M, W = rng.standard_normal((N, N)), rng.standard_normal((N, K))
    C = rng.random((N, K))

    def smooth(X: Any) -> Any:
        return jnp.sum(jnp.sin(3 * W * X)) - jnp.sum(jnp.log1p((X.T @ W) ** 2))

    return {
        "linear": op.problems.Projection(C),
        "quadratic trace": op.problems.TraceMin(M + M.T, K),
        "quartic ONMF": op.problems.ONMF(A / np.linalg.norm(A), K, quartic=True),
        "smooth, JAX": op.autodiff.from_jax(smooth, (N, K)),
    }


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"To a residual of 1e-9 from a point {DISTURBANCE:g} away from a solution, {N} x {K}")
    print(
        f"{'f':>16} {'solver':>13} {'gradients':>10} {'products':>9} {'seconds':>8} {'value':>16}"
    )
    for name, problem in problems(rng).items():
        X = random_oblique_plus(N, K, rng)
        sigma = 0.1 * float(np.linalg.norm(problem.value_and_gradient(X)[1]))
        model = Penalised(problem, PowerPenalty(sigma), unit=sigma)
        solution, *_ = minimise_oblique(model, METHODS["first order"], X, tol=1e-8)
        noise = DISTURBANCE * rng.standard_normal(X.shape) / np.sqrt(X.size)
        start = project_oblique_plus(solution.X + noise)
        for solver, method in METHODS.items():
            counts = {"gradients": 0, "products": 0}
            counted = Penalised(Counted(problem, counts), model.penalty, unit=sigma)
            clock = time.perf_counter()
            state, *_ = minimise_oblique(counted, method, start, tol=1e-9)
            seconds = time.perf_counter() - clock
            print(
                f"{name:>16} {solver:>13} {counts['gradients']:>10} {counts['products']:>9} "
                f"{seconds:>8.3f} {state.value:>16.9f}"
            )


if __name__ == "__main__":
    main()
