"""K-indicators at the size of the paper's largest set: seconds of an iteration, and of U'X."""

from typing import Any

import numpy as np

from orthoplus.bench.measure import take_turns, timed
from orthoplus.bench.table import Column, Figures, Items, Session, Table, one_row
from orthoplus.geometry.stiefel import assemble
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.metrics import purity
from orthoplus.penalty.family import PowerPenalty
from orthoplus.penalty.penalized import Penalized
from orthoplus.problems import KIndicators
from orthoplus.projection import project_stiefel_plus

SIZE, QUICK_SIZE = (17853, 1623), (1500, 60)
ALTERNATIONS = 3


def tasks(session: Session) -> Items:
    """Yield the products, some iterations of the alternation and one certified step of X."""
    n, k = session.pick(SIZE, QUICK_SIZE)
    rng, case = session.rng(), f"planted U, {n} x {k}"
    groups = rng.permutation(np.arange(n) % k)
    X = assemble(groups, rng.uniform(0.5, 1.5, n), k)
    noisy = X + rng.standard_normal((n, k)) / (10 * np.sqrt(n))
    # Orthonormal columns, Q R^-1 by Cholesky, in a random rotation.
    rotation = np.linalg.qr(rng.standard_normal((k, k)))[0]
    U = noisy @ np.linalg.solve(np.linalg.cholesky(noisy.T @ noisy).T, rotation)
    problem, method = KIndicators(U), EP4Orth.for_indicators(k).inner
    calls = {"U'X, dense": lambda: U.T @ X, "U'X, one entry per row": lambda: problem.cross(X)}
    for name, call in calls.items():
        yield one_row(case, name, lambda call: {"cpu": take_turns({"": call}, 2)[""].cpu}, call)
    model = Penalized(problem, PowerPenalty(10.0))
    state: Any = method.init(model, problem.start(rng))

    def alternate() -> Figures:
        nonlocal state
        run = timed(lambda: method.step(model, state))
        state = run.value
        return {"cpu": run.cpu, "entries": np.count_nonzero(state.X) / n}

    def certify() -> Figures:
        C = problem.majorizer(state.X)
        found = timed(lambda: project_stiefel_plus(C, tol=1e-5, max_passes=12))
        share = 100.0 * purity(groups, found.value.labels)
        return {"cpu": found.cpu, "gap": found.value.gap, "purity": share, "entries": 1.0}

    for number in range(1, ALTERNATIONS + 1):
        yield one_row(case, f"alternation {number}", alternate)
    yield one_row(case, "certified X-step", certify)


TABLE = Table(
    about="A planted U, orthonormal and rotated, with noise.",
    columns=(
        Column("cpu", "CPU s", ".3f"),
        Column("entries", "entries", ".1f", "", "positive entries of X per row"),
        Column("gap", "gap", ".0e"),
        Column("purity", "purity", ".2f", "", "in percent"),
    ),
    tasks=tasks,
    quick_about=f"n, k = {QUICK_SIZE}",
)
