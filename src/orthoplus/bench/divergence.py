"""Document clusters by the Kullback-Leibler divergence, beside those of the Frobenius norm."""

from functools import partial

from orthoplus.bench.measure import timed
from orthoplus.bench.onmf_methods import DEFAULT, PENALTY, run_method
from orthoplus.bench.scores import score, score_columns
from orthoplus.bench.table import Column, Figures, Items, Session, Table, one_row
from orthoplus.bench.text import QUICK_SETS
from orthoplus.datasets import LabelledData, load_labelled
from orthoplus.datasets.real import TEXT_SETS
from orthoplus.problems import KLONMF
from orthoplus.run.api import solve

KL, FROBENIUS = "Kullback-Leibler", {"Frobenius": DEFAULT, "Frobenius, EP4Orth+": PENALTY}


def tasks(session: Session) -> Items:
    """Yield a case for each set of documents; runs of the table of text are used again."""
    for name in session.pick(tuple(TEXT_SETS), QUICK_SETS):
        data = load_labelled(name, session.folder)
        session.once(KL, partial(solve, KLONMF(data.A[:50], 2), with_bound=False))  # compile
        for method in (KL, *FROBENIUS):
            yield one_row(name, method, _measure, session, data, method)


def _measure(session: Session, data: LabelledData, method: str) -> Figures:
    A, k = data.A, data.n_classes
    problem = KLONMF(A, k)
    if method == KL:
        run = timed(lambda: solve(problem, rng=session.seed, with_bound=False))
        X, labels, seconds = run.value.X, run.value.labels, run.cpu
    else:
        found = run_method(session, data.name, FROBENIUS[method], A, k).answers[0]
        X, labels, seconds = found.X, found.labels, found.cpu
    value = problem.value(problem.refine(X))
    return score(data.labels, labels) | {"divergence": value, "cpu": seconds}


TABLE = Table(
    about="The default for counts, KLONMF, and two runs of the table of text: the default for the "
    "Frobenius norm, and EP4Orth+.",
    columns=(
        *score_columns(".1f"),
        Column("divergence", "divergence", ".1f", "least", "of the groups with their best weights"),
        Column("cpu", "CPU s", ".2f", "least"),
    ),
    tasks=tasks,
    quick_about=f"{' and '.join(QUICK_SETS)} only",
)
