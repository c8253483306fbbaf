"""How often the general solver is right: tiny instances by brute force, medium ones by others."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from orthoplus.assignment import quadratic_assignment
from orthoplus.bench import general_medium, invariances
from orthoplus.bench.measure import timed
from orthoplus.bench.oracles import global_minimum, range_of
from orthoplus.bench.table import Column, Figure, Picture, Row, Session, Table, Task
from orthoplus.bench.tiny_instances import FAMILIES, instances
from orthoplus.core.problem import Problem
from orthoplus.datasets import planted_onmf, planted_projection
from orthoplus.problems import ONMF
from orthoplus.run.api import project, solve

INSTANCES, QUICK_INSTANCES = 200, 10
# A value this near to the optimum, in units of the range of f, is the optimum; one as far below
# the oracle's says that the oracle is wrong.
OPTIMAL, BEATEN = 1e-6, 1e-7
# Name of a row -> options of the call.
CALLS: dict[str, dict[str, Any]] = {"one start": {}, "n_init = 5": {"n_init": 5}}
COST, REPETITIONS = "cost of the default call", 3
# Shares and excesses, in %, that the verdicts count as right.
RIGHT_SHARE, SMALL_EXCESS, SMALL_INERTIA = 97.0, 0.1, 0.01


class Instance(NamedTuple):
    """A tiny problem, its optimum, and the range of f that the distance to it is measured by."""

    problem: Problem
    optimum: float
    spread: float


def solve_instances(family: str, session: Session) -> list[Instance]:
    """Return the instances of a family with their optima; computed once per run."""

    def compute() -> list[Instance]:
        count = QUICK_INSTANCES if session.quick else INSTANCES
        found = []
        for index, problem in enumerate(instances(family, count, session.seed)):
            optimum = global_minimum(problem).value
            spread = range_of(problem, optimum, np.random.default_rng(index))
            found.append(Instance(problem, optimum, spread))
        return found

    return list(session.once(("general", family), compute))


def tasks(session: Session) -> Iterator[Task | Picture]:
    """Yield the four parts: tiny instances, medium ones, invariances, and what it costs."""
    for family in FAMILIES:
        solve(next(instances(family, 1)), rng=0)  # compile
        for method, options in CALLS.items():
            yield Task(family, (method,), partial(_optima, session, family, method, options))
    yield from general_medium.tasks(session, CALLS)
    yield from invariances.tasks(session)
    yield from _costs(session)


def _optima(session: Session, family: str, method: str, options: Mapping[str, Any]) -> list[Row]:
    excesses, seconds = [], 0.0
    found = solve_instances(family, session)
    # Five starts take five times as long: half of the instances tell as much.
    found = found[: len(found) // 2] if options else found
    for index, (problem, optimum, spread) in enumerate(found):
        run = timed(partial(solve, problem, rng=index, **options))
        excesses.append((run.value.value - optimum) / spread)
        seconds += run.cpu
    excess = np.array(excesses)
    figures = {
        "count": len(excess),
        "share": 100.0 * float((excess <= OPTIMAL).mean()),
        "mean": 100.0 * float(np.maximum(excess, 0.0).mean()),
        "worst": 100.0 * max(float(excess.max()), 0.0),
        "ms": 1e3 * seconds / len(excess),
        "beaten": int((excess < -BEATEN).sum()),
        "cpu": seconds,
    }
    return [Row(family, method, figures)]


def _costs(session: Session) -> Iterator[Task]:
    """Yield calls whose answers were right before there was a search: they must stay cheap."""
    rng = np.random.default_rng(session.seed)
    n, k = (500, 10) if session.quick else (2000, 50)
    C = planted_projection(n, k, 0.9, rng).C
    A = planted_onmf(n // 2, n // 5, 10, 0.5, rng).A
    flows, distances = rng.random((2, n // 50, n // 50))
    calls = {
        f"project, {n} x {k}": partial(project, C),
        f"ONMF, {n // 2} x {n // 5}, k = 10": partial(solve, ONMF(A, 10), rng=0),
        f"quadratic_assignment, n = {n // 50}": partial(quadratic_assignment, flows, distances),
    }
    for method, call in calls.items():
        yield Task(COST, (method,), partial(_cost, method, call))


def _cost(method: str, call: Any) -> list[Row]:
    """Time the call several times, after one that compiles; the least is what it costs."""
    call()
    seconds = min(timed(call).cpu for _ in range(REPETITIONS))
    return [Row(COST, method, {"count": REPETITIONS, "ms": 1e3 * seconds, "cpu": seconds})]


def judge(rows: Sequence[Row]) -> list[str]:
    """Say in how many families the optimum is found, and how far the other parts are right."""
    lines = [_judge_optima(rows, method) for method in CALLS]
    beaten = sum(_number(row, "beaten") for row in rows if row.case in FAMILIES)
    lines.append(f"The solver is below the optimum of the oracle in {beaten:.0f} cases.")
    for method in CALLS:
        lines += _judge_medium(rows, method)
    for case in dict.fromkeys(row.case for row in rows if row.case in invariances.CASES):
        shares = {row.method: _number(row, "share") for row in rows if row.case == case}
        least = min(shares, key=shares.__getitem__)
        lines.append(f"{case}: on {shares[least]:.0f} % or more ({least}).")
    return [line for line in lines if line]


def _judge_optima(rows: Sequence[Row], method: str) -> str:
    own = {
        row.case: _number(row, "share")
        for row in rows
        if row.method == method and row.case in FAMILIES
    }
    if not own:
        return ""
    least = min(own, key=own.__getitem__)
    right = sum(share >= RIGHT_SHARE for share in own.values())
    return (
        f"{method}: the optimum of at least {RIGHT_SHARE:g} % of the tiny instances in {right} of "
        f"{len(own)} families, the least {own[least]:.1f} % ({least})."
    )


def _judge_medium(rows: Sequence[Row], method: str) -> list[str]:
    lines = []
    own = [row for row in rows if row.method == method]
    components = [row for row in own if row.case.startswith(general_medium.PCA)]
    if components:
        worst = max(_number(row, "worst") for row in components)
        means = np.average(
            [_number(row, "mean") for row in components],
            weights=[_number(row, "count") for row in components],
        )
        is_small = "" if worst <= SMALL_EXCESS else "not "
        lines.append(
            f"{method}: the residual of nonnegative PCA is {is_small}within {SMALL_EXCESS:g} % of "
            f"that of ONMF, {means:.3f} % above in the mean, {worst:.3f} % at the most."
        )
    sets = [row for row in own if row.case.startswith(general_medium.K_MEANS)]
    if sets:
        inertias = [_number(row, "worst") for row in sets]
        near = sum(excess <= SMALL_INERTIA for excess in inertias)
        as_low = sum(_number(row, "share") == 100.0 for row in sets)
        lines.append(
            f"{method}: the inertia of KMeans is within {SMALL_INERTIA:g} % of scikit-learn's on "
            f"{near} of {len(sets)} sets, {max(inertias):.2f} % above at the most; its f is not "
            f"above that of scikit-learn's labels on {as_low}."
        )
    return lines


def _number(row: Row, key: str) -> float:
    figure: Figure = row.figures.get(key)
    return float(figure or 0.0)


TABLE = Table(
    name="general",
    title="Right answers of the general solver",
    about=f"{INSTANCES} tiny instances of each problem against the optimum by brute force; "
    "nonnegative PCA against ONMF and k-means against scikit-learn on medium sizes; what must not "
    "change the partition; and the cost of calls that need no search over supports.",
    columns=(
        Column("count", "count", ".0f", about="instances, data sets or repetitions"),
        Column(
            "share", "right %", ".1f",
            about="at the optimum, with the same partition, or with f as low as that of "
            "scikit-learn's labels",
        ),
        Column(
            "mean", "excess %", ".3f",
            about="above the optimum in units of the range of f; in the medium part, above the "
            "residual of ONMF or the inertia of scikit-learn",
        ),
        Column("worst", "worst %", ".3f", about="the largest excess"),
        Column("value", "value", ".5g", about="f of k-means over scikit-learn's inertia"),
        Column("beaten", "beaten", ".0f", about="instances where the solver is below the oracle"),
        Column("ms", "CPU ms", ".2f", about="processor time of a call"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{QUICK_INSTANCES} tiny instances of each problem, few and small data sets",
)  # fmt: skip
