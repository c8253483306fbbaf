"""Compare first- and second-order solvers near a solution by their gradient evaluations.

For each f a local solution over OB+ of the penalized problem is found and slightly perturbed, and
both solvers run from there to ||min(X, grad h)|| <= 1e-9 of the gradient's size.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.table import Column, Figures, Items, Session, Table, one_row
from orthoplus.core.method import minimize_oblique
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.geometry.oblique import project_oblique_plus, random_oblique_plus
from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.methods import ProjectedGradient, RegularizedNewton
from orthoplus.penalty.family import PowerPenalty
from orthoplus.penalty.penalized import Penalized
from orthoplus.problems import ONMF, Projection, TraceMin

SIZE, QUICK_SIZE = (500, 10), (60, 3)
DISTURBANCE = 1e-3
METHODS: dict[str, Any] = {
    "first order": ProjectedGradient(max_iter=20_000),
    "second order": RegularizedNewton(max_iter=200),
}


@dataclass(frozen=True, eq=False)
class Counted(Problem):
    """A problem that counts evaluations of gradients and Hessian products."""

    problem: Problem
    counts: dict[str, int]

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape of the wrapped problem."""
        return self.problem.shape

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Count a gradient and evaluate the wrapped problem."""
        self.counts["gradients"] += 1
        return self.problem.value_and_gradient(X)

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Count a Hessian product and return that of the wrapped problem."""
        self.counts["products"] += 1
        return self.problem.hessp(X, D)


def make_problems(n: int, k: int, rng: np.random.Generator) -> dict[str, Problem]:
    """Create a problem of each kind; the smooth one requires JAX."""
    A = random_stiefel_plus(n, k, rng) @ rng.random((k, 200)) + 1e-2 * rng.random((n, 200))
    M, W = rng.standard_normal((n, n)), rng.standard_normal((n, k))
    problems: dict[str, Problem] = {
        "linear": Projection(rng.random((n, k))),
        "quadratic trace": TraceMin(M + M.T, k),
        "quartic ONMF": ONMF(A / np.linalg.norm(A), k, quartic=True),
    }
    try:
        import jax.numpy as jnp
    except ImportError:
        return problems
    from orthoplus.autodiff import from_jax

    def smooth(X: Any) -> Any:
        return jnp.sum(jnp.sin(3 * W * X)) - jnp.sum(jnp.log1p((X.T @ W) ** 2))

    return problems | {"smooth, JAX": from_jax(smooth, (n, k))}


def tasks(session: Session) -> Items:
    """Yield both solvers from the same point, for each problem."""
    rng = session.rng()
    for case, problem in make_problems(*session.pick(SIZE, QUICK_SIZE), rng).items():
        X = random_oblique_plus(*problem.shape, rng)
        sigma = 0.1 * float(np.linalg.norm(problem.value_and_gradient(X)[1]))
        model = Penalized(problem, PowerPenalty(sigma), unit=sigma)
        solution, *_ = minimize_oblique(model, METHODS["first order"], X, tol=1e-8)
        noise = DISTURBANCE * rng.standard_normal(X.shape) / np.sqrt(X.size)
        start = project_oblique_plus(solution.X + noise)
        for method in METHODS:
            yield one_row(case, method, _measure, problem, sigma, start, method)


def _measure(problem: Problem, sigma: float, start: FloatArray, method: str) -> Figures:
    counts = {"gradients": 0, "products": 0}
    model = Penalized(Counted(problem, counts), PowerPenalty(sigma), unit=sigma)
    run = timed(lambda: minimize_oblique(model, METHODS[method], start, tol=1e-9)[0])
    return {**counts, "value": run.value.value, "cpu": run.cpu, "wall": run.wall}


TABLE = Table(
    about=f"n, k = {SIZE}, to a residual of 1e-9 from a point {DISTURBANCE:g} off a solution.",
    columns=(
        Column("gradients", "gradients", ".0f", "least"),
        Column("products", "products", ".0f", "", "with the Hessian"),
        Column("value", "value", ".9f", "", "of the penalized problem"),
        Column("cpu", "CPU s", ".3f", "least"),
    ),
    tasks=tasks,
    quick_about=f"n, k = {QUICK_SIZE}",
)
