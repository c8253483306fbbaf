"""Compare methods for any smooth f over S+: EP4Orth+, SEPPG, Support-Set, Wen and Yin.

Every method is given the same starts. On tiny instances the optimum is known by brute force. On
medium ones a method runs from one start after another until its time is used up, and its best
value is compared with the best of all methods.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import gmean

from orthoplus.bench.general_medium import blobs
from orthoplus.bench.measure import timed
from orthoplus.bench.oracles import global_minimum, range_of
from orthoplus.bench.support_descent import Polynomial
from orthoplus.bench.table import Column, Items, Row, Rows, Session, Table, Task, failed_row
from orthoplus.bench.tiny_instances import instances
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.datasets import planted_onmf, planted_partition, planted_projection
from orthoplus.methods.baselines import SEPPG, SupportSet, WenYin
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.problems import ONMF, Projection, Smooth, laplacian_embedding, nonnegative_pca
from orthoplus.run.api import solve
from orthoplus.run.presets import preset_of

TINY, QUICK_TINY = 40, 4
INSTANCES, QUICK_INSTANCES = 3, 1
STARTS, QUICK_STARTS = 3, 1
# Shape of X; smaller for the polynomial, whose Hessian has (nk)^2 entries.
SIZE, QUICK_SIZE = (200, 5), (40, 3)
DENSE_SIZE, QUICK_DENSE_SIZE = (40, 4), (15, 3)
SECONDS, QUICK_SECONDS = 10.0, 1.0
# Tolerance for the optimum, relative to the range of f.
OPTIMAL = 1e-6
# Excesses in percent that differ by at most this are a tie.
TIE = 1e-4
TINY_FAMILIES = {
    "nonnegative PCA": "TraceMin, -AA'",
    "Laplacian embedding": "Laplacian embedding",
    "quadratic": "quadratic, any H",
    "quartic": "quartic",
}
DEFAULT, PENALTY = "default", "EP4Orth+"
# Name -> options of `solve`; all but the first without a search over supports.
METHODS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    PENALTY: {"method": EP4Orth(), "search": False},
    "SEPPG smooth": {"method": SEPPG()},
    "SEPPG nonsmooth": {"method": SEPPG(penalty="nonsmooth")},
    "Support-Set": {"method": SupportSet()},
    "Wen-Yin": {"method": WenYin()},
}


class Run(NamedTuple):
    """The final value of a run, its CPU seconds, and whether the time limit stopped it."""

    value: float
    cpu: float
    is_cut: bool


def run_once(
    options: dict[str, Any], problem: Problem, X0: FloatArray, limit: float, number: int = 0
) -> Run:
    """Run a method from X0 until it converges or reaches the time limit.

    The default is what `solve` does from the start with this number.
    """
    if not options:
        options = {"method": preset_of(problem).method(problem, number)}
    deadline = time.process_time() + limit
    run = timed(
        lambda: solve(
            problem,
            X0,
            n_init=1,
            rng=number,
            with_bound=False,
            callback=lambda state: time.process_time() > deadline,
            **options,
        )
    )
    return Run(run.value.value, run.cpu, run.cpu > limit)


def starts_of(problem: Problem) -> Iterator[FloatArray]:
    """Yield the same starts for every method."""
    return problem.starts(np.random.default_rng(0))


def race(options: dict[str, Any], problem: Problem, seconds: float) -> list[Run]:
    """Run from one start after another until the time is used up, and stop the last run then."""
    runs: list[Run] = []
    for number, X0 in enumerate(starts_of(problem)):
        left = seconds - sum(run.cpu for run in runs)
        if left <= 0.0:
            break
        runs.append(run_once(options, problem, X0, left, number))
    return runs


def complete_runs(
    options: dict[str, Any], problem: Problem, known: list[Run], count: int, limit: float
) -> list[Run]:
    """Return the runs from the first starts, reusing uncut runs of a race."""
    runs = []
    for number, X0 in zip(range(count), starts_of(problem), strict=False):
        is_known = number < len(known) and not known[number].is_cut
        runs.append(known[number] if is_known else run_once(options, problem, X0, limit, number))
    return runs


# --- medium instances -----------------------------------------------------------------------------


def _pca_random(n: int, k: int, rng: np.random.Generator) -> Problem:
    return nonnegative_pca(rng.standard_normal((n, n // 4)), k)


def _pca_planted(n: int, k: int, rng: np.random.Generator) -> Problem:
    return nonnegative_pca(planted_onmf(n, n // 2, k, 1.0, rng).A, k)


def _laplacian_planted(n: int, k: int, rng: np.random.Generator) -> Problem:
    return laplacian_embedding(planted_partition([n // k] * k, 0.2, 0.05, rng).W, k)


def _laplacian_neighbors(n: int, k: int, rng: np.random.Generator) -> Problem:
    from sklearn.neighbors import kneighbors_graph

    A, _ = blobs(k, n // k, 5, distance=1.0)(rng)
    W = kneighbors_graph(A, min(8, len(A) - 1))
    return laplacian_embedding(W + W.T, k, normalized=True)


def _projection(n: int, k: int, rng: np.random.Generator) -> Problem:
    return Projection(planted_projection(n, k, 0.95, rng).C)


def _onmf(n: int, k: int, rng: np.random.Generator) -> Problem:
    return ONMF(planted_onmf(n, n // 2, k, 1.0, rng).A, k)


def _quartic(n: int, k: int, rng: np.random.Generator) -> Problem:
    H = rng.standard_normal((n * k, n * k))
    B, T = rng.standard_normal((2, n, k))
    return Polynomial(B, (0.5 * (H + H.T)).reshape(n, k, n, k), T, quartic=1.0)


def _random_smooth(n: int, k: int, rng: np.random.Generator) -> Problem:
    """Return sum sin(C X) + tr(X'MX) / sqrt(n) + a soft maximum of the row sums."""
    C, M = 2.0 * rng.standard_normal((n, k)), rng.standard_normal((n, n)) / np.sqrt(n)
    M = M + M.T

    def evaluate(X: FloatArray) -> tuple[float, FloatArray]:
        MX, sums = M @ X, X.sum(axis=1)
        share = np.exp(sums - sums.max())
        total = share.sum()
        value = np.sin(C * X).sum() + (X * MX).sum() + np.log(total) + sums.max()
        return float(value), C * np.cos(C * X) + 2.0 * MX + (share / total)[:, None]

    return Smooth(evaluate, (n, k), jac=True)


Maker = Callable[[int, int, np.random.Generator], Problem]
# Name -> maker, and whether it needs a dense Hessian.
MEDIUM: dict[str, tuple[Maker, bool]] = {
    "projection, planted": (_projection, False),
    "ONMF, planted": (_onmf, False),
    "nonnegative PCA, any sign": (_pca_random, False),
    "nonnegative PCA, planted": (_pca_planted, False),
    "Laplacian, planted": (_laplacian_planted, False),
    "Laplacian, neighbors": (_laplacian_neighbors, False),
    "quartic": (_quartic, True),
    "random smooth f": (_random_smooth, False),
}


def tasks(session: Session) -> Items:
    """Yield the tiny families, then the medium ones, all methods on the same instances."""
    for options in METHODS.values():  # compile
        for family in TINY_FAMILIES.values():
            problem = next(instances(family, 1))
            run_once(options, problem, next(starts_of(problem)), session.seconds)
    for name, family in TINY_FAMILIES.items():
        case = f"tiny {name}"
        yield Task(case, tuple(METHODS), partial(_tiny_rows, session, case, family))
    for name, (make, is_dense) in MEDIUM.items():
        full, quick = (DENSE_SIZE, QUICK_DENSE_SIZE) if is_dense else (SIZE, QUICK_SIZE)
        n, k = session.pick(full, quick)
        case = f"{name}, {n} x {k}"
        yield Task(case, tuple(METHODS), partial(_medium_rows, session, case, partial(make, n, k)))


def _by_method(case: str, measure: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Return the result of each method, or a row that says how it failed."""
    found: dict[str, Any] = {}
    for method, options in METHODS.items():
        try:
            found[method] = measure(options)
        except Exception as error:  # one failure must not lose the other methods
            found[method] = failed_row(case, method, error)
    return found


def _tiny_rows(session: Session, case: str, family: str) -> list[Row]:
    problems = list(instances(family, session.pick(TINY, QUICK_TINY), session.seed))
    optima = [global_minimum(problem).value for problem in problems]
    spreads = [
        range_of(problem, optimum, np.random.default_rng(index))
        for index, (problem, optimum) in enumerate(zip(problems, optima, strict=True))
    ]

    def measure(options: dict[str, Any]) -> list[Run]:
        return [run_once(options, p, next(starts_of(p)), session.seconds) for p in problems]

    rows = []
    for method, runs in _by_method(case, measure).items():
        if isinstance(runs, Row):
            rows.append(runs)
            continue
        excess = _excesses(runs, optima, spreads)
        figures = _figures(runs, excess) | {"share": 100.0 * float((excess <= OPTIMAL).mean())}
        rows.append(Row(case, method, figures, note=_note(runs, session.seconds)))
    return rows


def _excesses(runs: list[Run], best: list[float], spreads: list[float]) -> FloatArray:
    values = np.array([run.value for run in runs])
    return (values - np.array(best)) / np.array(spreads)


def _figures(runs: list[Run], excess: FloatArray) -> dict[str, Any]:
    """Return the count, the mean and largest excess in percent, and the seconds of a run."""
    clipped = 100.0 * np.maximum(excess, 0.0)
    return {
        "count": len(runs),
        "excess": float(clipped.mean()),
        "worst": float(clipped.max()),
        "cpu": float(np.mean([run.cpu for run in runs])),
    }


def _note(runs: list[Run], limit: float) -> str:
    n_cut = sum(run.is_cut for run in runs)
    return f"{n_cut} of {len(runs)} runs stopped after {limit:g} CPU s" if n_cut else ""


class Found(NamedTuple):
    """The results of a method on all instances of a case: complete runs and races."""

    complete: list[list[Run]]
    races: list[list[Run]]

    def best(self, index: int) -> float:
        """Return the least value on an instance."""
        return min(run.value for run in (*self.complete[index], *self.races[index]))


def _medium_rows(
    session: Session, case: str, make: Callable[[np.random.Generator], Problem]
) -> list[Row]:
    problems = [make(rng) for rng in session.rngs(INSTANCES, QUICK_INSTANCES)]
    seconds, limit = session.within(SECONDS, QUICK_SECONDS), session.seconds
    count = session.pick(STARTS, QUICK_STARTS)

    def measure(options: dict[str, Any]) -> Found:
        races = [race(options, problem, seconds) for problem in problems]
        complete = [
            complete_runs(options, problem, known, count, max(limit, seconds))
            for problem, known in zip(problems, races, strict=True)
        ]
        return Found(complete, races)

    found = _by_method(case, measure)
    ended = [one for one in found.values() if isinstance(one, Found)]
    best = [min(one.best(index) for one in ended) for index in range(len(problems))]
    spreads = [
        range_of(problem, value, np.random.default_rng(0))
        for problem, value in zip(problems, best, strict=True)
    ]
    rows = []
    for method, one in found.items():
        if isinstance(one, Row):
            rows.append(one)
            continue
        runs = [run for complete in one.complete for run in complete]
        own_best = [
            value for value, complete in zip(best, one.complete, strict=True) for _ in complete
        ]
        own_spreads = [
            s for s, complete in zip(spreads, one.complete, strict=True) for _ in complete
        ]
        figures = _figures(runs, _excesses(runs, own_best, own_spreads))
        ends = [min(run.value for run in runs) for runs in one.races]
        equal = (np.array(ends) - np.array(best)) / np.array(spreads)
        figures |= {
            "equal": 100.0 * float(np.maximum(equal, 0.0).mean()),
            "starts": float(np.mean([len(runs) for runs in one.races])),
        }
        rows.append(Row(case, method, figures, note=_note(runs, max(limit, seconds))))
    return rows


def judge(rows: Rows) -> list[str]:
    """Compare EP4Orth+ with each of the others: optima, excess and seconds of a run, equal time."""
    cases, lines = rows.by_case(), []
    for method in METHODS:
        own = [found[method] for found in cases.values() if method in found]
        shares = [row.number("share") for row in own if "share" in row.figures]
        medium = [row for row in own if "equal" in row.figures]
        words = [f"{method}:"]
        if shares:
            words.append(f"the optimum of {np.mean(shares):.1f} % of the tiny instances;")
        if medium:
            excess = np.mean([row.number("excess") for row in medium])
            equal = np.mean([row.number("equal") for row in medium])
            words.append(f"medium excess {excess:.3f} % per run, {equal:.3f} % in equal time.")
        lines.append(" ".join(words))
    return lines + [_compare(cases, other) for other in METHODS if other != PENALTY]


def _compare(cases: dict[str, dict[str, Row]], other: str) -> str:
    pairs = [
        (found[PENALTY], found[other])
        for found in cases.values()
        if PENALTY in found and other in found and "equal" in found[PENALTY].figures
    ]
    if not pairs:
        return f"EP4Orth+ and {other} have no medium case in common."
    ratio = float(gmean([a.number("cpu") / max(b.number("cpu"), 1e-9) for a, b in pairs]))
    gaps = {
        key: np.array([a.number(key) - b.number(key) for a, b in pairs])
        for key in ("excess", "equal")
    }
    lower = [int((gap < -TIE).sum()) for gap in gaps.values()]
    higher = [int((gap > TIE).sum()) for gap in gaps.values()]
    return (
        f"EP4Orth+ against {other}, {len(pairs)} medium cases: {ratio:.2f} times its seconds per "
        f"run; lower values per run in {lower[0]} and higher in {higher[0]}, in equal time lower "
        f"in {lower[1]} and higher in {higher[1]}."
    )


TABLE = Table(
    about=f"The same starts for every method. {TINY} tiny instances of each kind with the optimum "
    f"by brute force, one run each. {INSTANCES} medium instances of each kind: {STARTS} runs, and "
    f"the best value that runs from one start after another find in {SECONDS:g} CPU s. `default` "
    "is our call with its search over supports; all others run without one.",
    columns=(
        Column("count", "runs", ".0f"),
        Column("share", "optimal %", ".1f", "most", "runs that end at the global optimum"),
        Column(
            "excess", "excess %", ".3f", "least",
            "mean of the value of a run above the optimum, or above the best value of all methods, "
            "in units of the range of f",
        ),
        Column("worst", "worst %", ".3f", "least", "the largest excess of a run"),
        Column("equal", "equal time %", ".3f", "least", "excess of the best value in equal time"),
        Column("starts", "starts", ".1f", about="runs in that time; the last one is stopped"),
        Column("cpu", "CPU s", ".3f", "least", "of a run"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{QUICK_TINY} tiny and {QUICK_INSTANCES} smaller medium instances of each kind, "
    f"{QUICK_SECONDS:g} s",
)  # fmt: skip
