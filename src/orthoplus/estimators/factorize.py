"""From a nonnegative matrix to its orthogonal factorisation: method, starts, closing alternation.

The one place that says which method and which starts the estimators use.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from orthoplus import kernels
from orthoplus.core.bounds import bracket
from orthoplus.core.checks import check_choice, check_count
from orthoplus.core.errors import InputError
from orthoplus.core.method import OuterMethod
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray
from orthoplus.data.groups import Centres
from orthoplus.data.stored import RowBlocks, is_lazy
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.linalg.starts import leading_centres
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.methods.search.alternation import alternate
from orthoplus.model_selection.processes import run_all
from orthoplus.optimality.conditions import stationarity
from orthoplus.problems import ONMF
from orthoplus.run.api import solve
from orthoplus.run.presets import preset_of

METHODS: dict[str, Callable[[ONMF], OuterMethod]] = {
    "auto": lambda problem: preset_of(problem).method(problem, 0),
    "ep4orth": lambda problem: EP4Orth.for_onmf(size=problem.total or 1.0),
    "unmixing": lambda problem: EP4Orth.for_unmixing(size=problem.total or 1.0),
}

_MAX_SEED = 2**31
_ENDED_FROM_OUTSIDE = (Status.INTERRUPTED, Status.TIME_LIMIT, Status.CALLBACK)


def choose_method(
    problem: ONMF, method: str | OuterMethod, *, max_iter: int | None, tol: float | None
) -> OuterMethod:
    """The method by its name, or itself; with its iteration limit and its tolerance replaced."""
    if isinstance(method, str):
        check_choice(method, "method", tuple(METHODS))
        method = METHODS[method](problem)
    if max_iter is None and tol is None:
        return method
    names = {field.name for field in dataclasses.fields(method)}  # type: ignore[arg-type]
    tol_name = "feasibility_tol" if "feasibility_tol" in names else "tol"
    given = {"max_iter": max_iter, tol_name: tol}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in changes.keys() - names:
        raise InputError(
            f"`{name}` cannot be set for the method {type(method).__name__}: it has no option of "
            f"that name. Leave it out, and set the options on the method object."
        )
    return dataclasses.replace(method, **changes)  # type: ignore[type-var]


def factorise(
    problem: ONMF,
    method: OuterMethod,
    *,
    n_init: int | None,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    with_bound: bool = False,
    **watch: Any,
) -> Result:
    """The best of several runs, the first from the singular vectors, the others at random.

    Each is settled: no row would fit another column better, but for ties. The columns come by
    falling weight. A method with starts of its own makes them in one run; None leaves it their
    number, and is one run of another method.
    ``n_jobs`` runs go on at a time, each in a process of its own, with the same answer. ``watch``
    goes to `solve`: callback, time_limit, resume, checkpoint; a run that is ended by them is the
    last.
    """
    if n_init is not None:
        check_count(n_init, "n_init", low=1)
    if starts_by_itself(method):
        own = {"seed": int(rng.integers(_MAX_SEED))} | (
            {} if n_init is None else {"n_init": n_init}
        )
        method, n_init = dataclasses.replace(method, **own), 1  # type: ignore[type-var]
    children = rng.spawn(n_init or 1)
    run: Callable[..., Result] = partial(_run, problem, method, with_bound=with_bound, **watch)
    best: Result | None = None
    for result in run_all(run, enumerate(children), n_jobs):
        if best is None:
            best = result
        elif result.value < best.value:
            best = with_bracket(problem, result, best.bound)
        if result.status in _ENDED_FROM_OUTSIDE:
            return _in_order(dataclasses.replace(best, status=result.status))
    assert best is not None
    return _in_order(best)


def _in_order(result: Result) -> Result:
    """The columns by falling ||A'x_j||, so that their order does not depend on the search."""
    Y = np.asarray(result.Y)
    order = np.argsort(-np.linalg.norm(Y, axis=0), kind="stable")
    rank = np.empty(len(order) + 1, dtype=result.labels.dtype)
    rank[order], rank[-1] = np.arange(len(order)), -1
    labels: Any = result.labels
    labels = labels.map_blocks(rank.take) if is_lazy(labels) else rank[labels]
    return dataclasses.replace(result, labels=labels, Y=Y[:, order])


def _run(
    problem: ONMF, method: OuterMethod, i: int, rng: np.random.Generator, **options: Any
) -> Result:
    """The i-th run, settled."""
    # The bound is the same for all of them.
    options["with_bound"] = options["with_bound"] and i == 0
    X0 = _start(problem, method, i, rng)
    # `settle` ends each run: alternation, and moves of single rows.
    result = solve(problem, X0, method=method, search=False, **options)
    # A search that came to its end is settled; one in row blocks that did not stays as it was.
    is_settled = isinstance(X0, Centres) and (result.success or isinstance(problem.A, RowBlocks))
    return result if is_settled else _settle_unless_interrupted(problem, result)


def _start(
    problem: ONMF, method: OuterMethod, i: int, rng: np.random.Generator
) -> FloatArray | Centres:
    """From the singular vectors for the first run, at random for the others."""
    if i > 0:
        return random_oblique_plus(*problem.shape, rng)
    if getattr(method, "takes_centres", False):
        return leading_centres(problem.A, problem.shape[1], rng)
    return problem.start(rng)


def starts_by_itself(method: OuterMethod) -> bool:
    """Whether the method has ``n_init`` and ``seed`` of its own."""
    return hasattr(method, "n_init") and hasattr(method, "seed")


def _settle_unless_interrupted(problem: ONMF, result: Result) -> Result:
    """Ctrl-C while settling keeps the point as it was."""
    try:
        return settle(problem, result)
    except KeyboardInterrupt:
        return dataclasses.replace(result, status=Status.INTERRUPTED)


def settle(problem: ONMF, result: Result) -> Result:
    """The result at the fixed point of `alternate` from its groups; itself where that is none."""
    X, value = alternate(problem, result.X)
    return _at(problem, result, X) if value < result.value else result


def _at(problem: ONMF, result: Result, X: FloatArray) -> Result:
    """The same result at a better point."""
    value, gradient = problem.value_and_gradient(X)
    labels, weights = kernels.largest_entries(X)
    moved = dataclasses.replace(
        result,
        labels=labels,
        weights=weights,
        value=value,
        stationarity=stationarity(X, gradient),
        Y=problem.second_block(X),
    )
    return with_bracket(problem, moved, result.bound)


def with_bracket(problem: Problem, result: Result, bound: float | None) -> Result:
    """The result with this bound, and the gap to it."""
    within = bracket(problem, result.value, bound, result.weights.dtype)
    return dataclasses.replace(result, **within._asdict())
