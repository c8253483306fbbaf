"""Check the general solver: tiny instances by brute force, medium ones by other methods."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from orthoplus.assignment import quadratic_assignment
from orthoplus.bench import general_medium, invariances
from orthoplus.bench.measure import take_turns, timed
from orthoplus.bench.oracles import global_minimum, range_of
from orthoplus.bench.table import Column, Figures, Items, Rows, Session, Table, one_row
from orthoplus.bench.tiny_instances import FAMILIES, instances
from orthoplus.core.problem import Problem
from orthoplus.datasets import planted_onmf, planted_projection
from orthoplus.problems import ONMF
from orthoplus.run.api import project, solve

INSTANCES, QUICK_INSTANCES = 200, 10
# Tolerance for the optimum, relative to the range of f. A value that is lower by more than this
# means that the oracle is wrong.
OPTIMAL, BEATEN = 1e-6, 1e-7
# Name of a row -> options of the call.
CALLS: dict[str, dict[str, Any]] = {"one start": {}, "n_init = 5": {"n_init": 5}}
COST, REPETITIONS = "cost of the default call", 3
# Thresholds in percent for shares and excesses that count as right.
RIGHT_SHARE, SMALL_EXCESS, SMALL_INERTIA = 97.0, 0.1, 0.01


class Instance(NamedTuple):
    """A tiny problem, its optimum, and the range of f, which scales distances to it."""

    problem: Problem
    optimum: float
    spread: float


def solve_instances(family: str, session: Session) -> list[Instance]:
    """Return the instances of a family with their optima; computed once per run."""

    def compute() -> list[Instance]:
        found = []
        count = session.pick(INSTANCES, QUICK_INSTANCES)
        for index, problem in enumerate(instances(family, count, session.seed)):
            optimum = global_minimum(problem).value
            spread = range_of(problem, optimum, np.random.default_rng(index))
            found.append(Instance(problem, optimum, spread))
        return found

    return session.once(("general", family), compute)


def tasks(session: Session) -> Items:
    """Yield the four groups: tiny instances, medium ones, invariances, and costs."""
    for family in FAMILIES:
        solve(next(instances(family, 1)), rng=0)  # compile
        for method, options in CALLS.items():
            yield one_row(family, method, count_optima, session, family, options)
    yield from general_medium.tasks(session, CALLS)
    yield from invariances.tasks(session)
    yield from _costs(session)


def count_optima(session: Session, family: str, options: Mapping[str, Any]) -> Figures:
    """Count the instances whose optimum is found, and measure the excess of the others."""
    excesses, seconds = [], 0.0
    found = solve_instances(family, session)
    # Five starts take five times as long, so only half of the instances are used.
    found = found[: len(found) // 2] if options else found
    for index, (problem, optimum, spread) in enumerate(found):
        run = timed(partial(solve, problem, rng=index, **options))
        excesses.append((run.value.value - optimum) / spread)
        seconds += run.cpu
    excess = np.array(excesses)
    return general_medium.summarize([max(e, 0.0) for e in excesses], seconds) | {
        "share": 100.0 * float((excess <= OPTIMAL).mean()),
        "beaten": int((excess < -BEATEN).sum()),
    }


def _costs(session: Session) -> Items:
    """Yield calls that need no search over supports and should therefore be fast."""
    rng = np.random.default_rng(session.seed)
    n, k = session.pick((2000, 50), (500, 10))
    C = planted_projection(n, k, 0.9, rng).C
    A = planted_onmf(n // 2, n // 5, 10, 0.5, rng).A
    flows, distances = rng.random((2, n // 50, n // 50))
    calls = {
        f"project, {n} x {k}": partial(project, C),
        f"ONMF, {n // 2} x {n // 5}, k = 10": partial(solve, ONMF(A, 10), rng=0),
        f"quadratic_assignment, n = {n // 50}": partial(quadratic_assignment, flows, distances),
    }
    for method, call in calls.items():
        yield one_row(COST, method, _cost, call)


def _cost(call: Any) -> Figures:
    """Return the shortest time of several calls, after one that compiles."""
    call()
    seconds = take_turns({"": call}, REPETITIONS)[""].cpu
    return {"count": REPETITIONS, "ms": 1e3 * seconds, "cpu": seconds}


def judge(rows: Rows) -> list[str]:
    """Report in how many families the optimum is found, and the results of the other groups."""
    methods = {name: own for name, own in rows.by_method().items() if name in CALLS}
    lines = [_judge_optima(name, own) for name, own in methods.items()]
    beaten = sum(row.number("beaten") for row in rows)
    lines.append(f"The solver is below the optimum of the oracle in {beaten:.0f} cases.")
    for name, own in methods.items():
        lines += [_judge_residuals(name, own), _judge_inertias(name, own)]
    for case, models in rows.by_case().items():
        if case in invariances.CASES:
            least = min(models.values(), key=lambda row: row.number("share"))
            lines.append(f"{case}: on {least.number('share'):.0f} % or more ({least.method}).")
    return [line for line in lines if line]


def _judge_optima(method: str, rows: Rows) -> str:
    own = [row for row in rows if row.case in FAMILIES]
    if not own:
        return ""
    least = min(own, key=lambda row: row.number("share"))
    right = sum(row.number("share") >= RIGHT_SHARE for row in own)
    return (
        f"{method}: the optimum of at least {RIGHT_SHARE:g} % of the tiny instances in {right} of "
        f"{len(own)} families, the least {least.number('share'):.1f} % ({least.case})."
    )


def _judge_residuals(method: str, rows: Rows) -> str:
    own = [row for row in rows if row.case.startswith(general_medium.PCA)]
    if not own:
        return ""
    worst = max(row.number("worst") for row in own)
    weights = [row.number("count") for row in own]
    mean = np.average([row.number("mean") for row in own], weights=weights)
    return (
        f"{method}: the residual of nonnegative PCA is {'' if worst <= SMALL_EXCESS else 'not '}"
        f"within {SMALL_EXCESS:g} % of that of ONMF, {mean:.3f} % above on average, "
        f"at most {worst:.3f} %."
    )


def _judge_inertias(method: str, rows: Rows) -> str:
    own = [row for row in rows if row.case.startswith(general_medium.K_MEANS)]
    if not own:
        return ""
    inertias = [row.number("worst") for row in own]
    near = sum(excess <= SMALL_INERTIA for excess in inertias)
    as_low = sum(row.number("share") == 100.0 for row in own)
    return (
        f"{method}: the inertia of KMeans is within {SMALL_INERTIA:g} % of scikit-learn's on "
        f"{near} of {len(own)} sets, at most {max(inertias):.2f} % above; its f is not "
        f"above that of scikit-learn's labels on {as_low}."
    )


TABLE = Table(
    about=f"{INSTANCES} tiny instances of each problem against the optimum by brute force; "
    "nonnegative PCA against ONMF and k-means against scikit-learn on medium sizes; changes of the "
    "data that must not change the partition; and the cost of calls that need no search over "
    "supports.",
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
        Column("value", "value", ".5g", about="f of k-means / inertia of scikit-learn"),
        Column("beaten", "beaten", ".0f", about="instances where the solver is below the oracle"),
        Column("ms", "CPU ms", ".2f", about="processor time of a call"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{QUICK_INSTANCES} tiny instances of each problem, few and small data sets",
)  # fmt: skip
