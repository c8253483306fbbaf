"""From a trace problem to a good answer: the one place that says which method and which starts."""

import dataclasses

import numpy as np

from orthoplus.checks import check_count
from orthoplus.estimators.factorise import with_bracket
from orthoplus.loop import OuterMethod
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.methods.polish import Polish
from orthoplus.problems import TraceMin
from orthoplus.result import Result
from orthoplus.solve import solve
from orthoplus.starts import eigenvector_starts

# Eigenvectors are a start near enough for a tenth of the penalty that breaks even.
CONTINUATION = EP4Orth(penalty_start=0.1)


def minimise_trace(
    problem: TraceMin,
    method: OuterMethod | None,
    *,
    n_init: int,
    rng: np.random.Generator,
    with_bound: bool = False,
) -> Result:
    """The best of several runs from eigenvectors, each of them polished over S+ at the end."""
    check_count(n_init, "n_init", low=1)
    starts = eigenvector_starts(problem.symmetric, problem.k, rng)
    runs = [_run(problem, method or CONTINUATION, next(starts)) for _ in range(n_init)]
    best = min(runs, key=lambda result: result.value)
    bound = problem.lower_bound() if with_bound else None
    return with_bracket(problem, best, bound)


def _run(problem: TraceMin, method: OuterMethod, X0: np.ndarray) -> Result:
    """The method from X0, then the polish; the status is the method's."""
    first = solve(problem, X0, method=method, with_bound=False)
    last = solve(problem, first.X, method=Polish(), with_bound=False)
    return dataclasses.replace(
        last,
        status=first.status,
        n_iter=first.n_iter,
        n_eval=first.n_eval + last.n_eval,
        seconds=first.seconds + last.seconds,
        history=first.history,
        notes=first.notes,
        state=first.state,
    )
