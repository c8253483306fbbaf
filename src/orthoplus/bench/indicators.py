"""Table 6: the K-indicators model against KindAP, section 6.3."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.paper_figures import INDICATORS
from orthoplus.bench.table import Column, Picture, Row, Session, Table, Task, cases_of, figure_of
from orthoplus.core.method import run as run_loop
from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.datasets import LabelledData, load_labelled
from orthoplus.methods.baselines import KindAP
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.metrics import entropy, nmi, purity
from orthoplus.problems import KIndicators
from orthoplus.projection import project_stiefel_plus
from orthoplus.run.api import solve

SETS = ("ORL", "catsndogs", "flower")
QUICK_SETS = ("ORL", "catsndogs")
ROUNDS, QUICK_ROUNDS = 5, 2
MEASURES = {"purity": purity, "nmi": nmi, "entropy": entropy}
# Points below the paper that still count as reproduced.
MARGIN = 0.3
DEFAULT = "default"
# As published, with rows of unit norm, and with the weights kept: the first is the one to beat.
KINDAP = {
    "KindAP": KindAP(),
    "KindAP rows": KindAP(normalise_rows=True),
    "KindAP weights": KindAP(binary=False),
}
METHODS = (DEFAULT, "EP4Orth+", *KINDAP)
TIE = 1e-9


class Answer(NamedTuple):
    """The labels, and <UY, X> for the best Y: as the method ends, and with the best weights."""

    labels: IntArray
    fit: float
    refit: float


def tasks(session: Session) -> Iterator[Task | Picture]:
    """A case for each set, its methods taking turns; what the paper prints of others is kept."""
    rounds = QUICK_ROUNDS if session.quick else ROUNDS
    for name in QUICK_SETS if session.quick else SETS:
        data = load_labelled(f"kind_{name}", session.folder)
        yield Task(name, METHODS, partial(_rows, name, data, rounds))
    for name, (_, _, printed) in INDICATORS.items():
        if name not in SETS:
            rows = [
                Row(name, m, {}, _printed(name, m), "its data could not be had") for m in printed
            ]
            yield Task(name, tuple(printed), partial(list, rows))


def _rows(name: str, data: LabelledData, rounds: int) -> Iterator[Row]:
    """All methods on one set, taking turns; the best processor seconds of the rounds."""
    problem = KIndicators(np.ascontiguousarray(data.A))
    calls = _calls(problem)
    found: dict[str, Any] = {}
    seconds = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for method, call in calls.items():
            one = timed(call)
            found[method], seconds[method] = one.value, min(seconds[method], one.cpu)
    for method in calls:
        answer = _answer(problem, found[method])
        scores = {key: 100.0 * score(data.labels, answer.labels) for key, score in MEASURES.items()}
        figures = scores | {"fit": answer.fit, "refit": answer.refit, "cpu": seconds[method]}
        yield Row(name, method, figures, _printed(name, method))


def _calls(problem: KIndicators) -> dict[str, Callable[[], Any]]:
    """What each method ends with: a result of ours, a state of KindAP."""
    paper = EP4Orth.for_indicators(problem.shape[1], feasibility_tol=1e-5, polish=None)

    def kindap(method: KindAP) -> Any:
        return run_loop(problem, method, method.init(problem, problem.U), method.stop())[0]

    return {
        DEFAULT: lambda: solve(problem, with_bound=False),
        "EP4Orth+": lambda: solve(problem, method=paper, search=False, with_bound=False),
        **{name: partial(kindap, method) for name, method in KINDAP.items()},
    }


def _answer(problem: KIndicators, found: Any) -> Answer:
    if isinstance(found, Result):
        fit = _fit(problem, found.X)
        return Answer(found.labels, fit, fit)
    refined = problem.refine(project_stiefel_plus(found.X).X)
    return Answer(found.labels, _fit(problem, found.X), _fit(problem, refined))


def _fit(problem: KIndicators, X: FloatArray) -> float:
    """<UY, X> for the best orthogonal Y."""
    return float(np.linalg.svd(problem.cross(X), compute_uv=False).sum())


def _printed(name: str, method: str) -> dict[str, float]:
    found = INDICATORS[name][2].get(method)
    return dict(zip(("purity", "nmi", "entropy", "cpu"), found, strict=True)) if found else {}


def judge(rows: Sequence[Row]) -> list[str]:
    """Whether the default is as good as the paper, and as fast as KindAP."""
    cases = [case for case in cases_of(rows) if figure_of(rows, case, DEFAULT, "purity")]
    good, faster, least, fits = [], [], [], []
    for case in cases:
        printed = INDICATORS[case][2]["EP4Orth+"]
        good.append(_is_reproduced(rows, case, printed))
        ours = figure_of(rows, case, DEFAULT, "cpu") or np.inf
        others = [float(row.figures["refit"] or 0) for row in rows if row.case == case]
        fits.append((figure_of(rows, case, DEFAULT, "fit") or 0.0) >= max(others) - TIE)
        rivals = [figure_of(rows, case, name, "cpu") or 0.0 for name in KINDAP]
        faster.append(rivals[0] / ours)
        least.append(min(rivals) / ours)
    if not cases:
        return []
    return [
        f"Purity, NMI and entropy of the default are at most {MARGIN} worse than the paper's on "
        f"{sum(good)} of {len(cases)} sets; it is {', '.join(f'{ratio:.1f}' for ratio in faster)} "
        f"times as fast as KindAP, {', '.join(f'{ratio:.1f}' for ratio in least)} as its fastest "
        f"variant. Its fit is at least every other's, refitted, on {sum(fits)} of {len(cases)}."
    ]


def _is_reproduced(rows: Sequence[Row], case: str, printed: Sequence[float]) -> bool:
    """Whether purity, NMI and entropy are at most the margin worse than printed."""
    purity, nmi, entropy = (figure_of(rows, case, DEFAULT, key) for key in MEASURES)
    if purity is None or nmi is None or entropy is None:
        return False
    return min(purity - printed[0], nmi - printed[1], printed[2] - entropy) >= -MARGIN


TABLE = Table(
    name="indicators",
    title="K-indicators against KindAP (table 6)",
    about="Three of the paper's eight sets of features could be had; seconds are the best of some "
    "runs in turns.",
    columns=(
        Column("purity", "purity", ".2f", "most"),
        Column("nmi", "NMI", ".2f", "most"),
        Column("entropy", "entropy", ".2f", "least", "all three in percent"),
        Column("refit", "refit", ".4f", "most", "<UY, X> for the best Y and weights, at most k"),
        Column("cpu", "CPU s", ".2f", "least"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about=f"{' and '.join(QUICK_SETS)} only, {QUICK_ROUNDS} rounds",
)
