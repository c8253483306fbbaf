"""Speed on the paper's sets: the default beside scikit-learn's NMF, OPNMF and ONP-MF."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from orthoplus.bench.measure import timed
from orthoplus.bench.onmf_methods import (
    DEFAULT,
    METHODS,
    Answer,
    explained_share,
    run_method,
    warm_up,
)
from orthoplus.bench.table import (
    Column,
    Picture,
    Row,
    Session,
    Table,
    Task,
    cases_of,
    figure_of,
    geometric_mean,
)
from orthoplus.bench.text import sets_of
from orthoplus.datasets import LabelledData, load_labelled
from orthoplus.datasets.real import TEXT_SETS
from orthoplus.metrics import feasibility

ROUNDS, QUICK_ROUNDS = 3, 1
PEER, RIVALS = "scikit-learn NMF", ("OPNMF", "ONP-MF")
# Geometric means that are expected: of the rival's seconds over the default's.
WANTED = {PEER: 1.0, "OPNMF": 10.0, "ONP-MF": 20.0}
TIE = 1e-5


def run_peer(A: Any, k: int) -> Answer:
    """``NMF(init="nndsvda", max_iter=200)``, as people call it."""
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    model = NMF(n_components=k, init="nndsvda", max_iter=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        W = model.fit_transform(A)
    X = W / np.maximum(np.linalg.norm(W, axis=0), np.finfo(float).tiny)
    return Answer(X, model.components_.T, feasibility(X), feasibility(X))


def tasks(session: Session) -> Iterator[Task | Picture]:
    """A case for each set; the rivals' runs are those of the table of text, where that was run."""
    warm_up(session)
    for name in sets_of(session):
        data = load_labelled(name, session.folder)
        yield Task(name, (DEFAULT, PEER, *RIVALS), partial(_rows, session, data))


def _rows(session: Session, data: LabelledData) -> list[Row]:
    """The default and scikit-learn take turns, the least seconds count."""
    A, k = data.A, data.n_classes
    calls: dict[str, Callable[[], Answer]] = {
        DEFAULT: lambda: METHODS[DEFAULT](A, k, session.seed, np.inf),
        PEER: lambda: run_peer(A, k),
    }
    seconds = {method: (np.inf, np.inf) for method in calls}
    answers: dict[str, Answer] = {}
    for _ in range(QUICK_ROUNDS if session.quick else ROUNDS):
        for method, call in calls.items():
            found = timed(call)
            answers[method] = found.value
            seconds[method] = min(seconds[method], (found.cpu, found.wall))
    notes = dict.fromkeys(calls, "")
    for method in RIVALS:
        runs = run_method(session, data.name, method, A, k)
        answers[method] = runs.first
        seconds[method], notes[method] = (runs.first.cpu, runs.first.wall), runs.note
    return [
        Row(data.name, method, _figures(A, k, answer, seconds[method], seconds[DEFAULT]),
            note=notes[method])
        for method, answer in answers.items()
    ]  # fmt: skip


def _figures(
    A: Any, k: int, answer: Answer, own: tuple[float, float], default: tuple[float, float]
) -> dict[str, float]:
    (cpu, wall), share = own, explained_share(A, k, answer.X)
    return {"cpu": cpu, "wall": wall, "ratio": cpu / default[0], "share": share}


def judge(rows: Sequence[Row]) -> list[str]:
    """Geometric means of the ratios, and whose objective is better."""
    lines = []
    for method, wanted in WANTED.items():
        cases = [c for c in cases_of(rows) if method != PEER or c in TEXT_SETS]
        ratios = [r for c in cases if (r := figure_of(rows, c, method, "ratio")) is not None]
        if not ratios:
            continue
        mean = geometric_mean(ratios)
        worse = [
            case
            for case in cases
            if (figure_of(rows, case, DEFAULT, "share") or 0.0)
            < (figure_of(rows, case, method, "share") or 0.0) - TIE
        ]
        lines.append(
            f"{method} takes {mean:.1f} times the default's seconds in the geometric mean of "
            f"{len(ratios)} {'text ' if method == PEER else ''}sets (expected: at least "
            f"{wanted:g}); the default's objective is "
            + (f"lower on {', '.join(worse)}." if worse else "at least as good on all of them.")
        )
    return lines


TABLE = Table(
    name="speed-sets",
    title="Speed on text and images",
    about="The default beside NMF(init='nndsvda', max_iter=200) in turns, least of three; OPNMF "
    "and ONP-MF once.",
    columns=(
        Column("cpu", "CPU s", ".3f", "least"),
        Column("wall", "wall s", ".3f"),
        Column("ratio", "ratio", ".1f", "", "CPU seconds over those of the default"),
        Column("share", "share", ".5f", "most", "sum of sigma_1(A_j)^2 over ||A||^2"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="one set, one round, a second or two a run of a rival",
)
