"""Compare the speed on the paper's data sets with scikit-learn's NMF, OPNMF and ONP-MF."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import gmean

from orthoplus.bench import onmf_methods as onmf
from orthoplus.bench.measure import take_turns
from orthoplus.bench.onmf_methods import DEFAULT
from orthoplus.bench.table import Column, Items, Row, Rows, Session, Table, Task
from orthoplus.bench.text import sets_of
from orthoplus.datasets import LabelledData, load_labelled
from orthoplus.datasets.real import TEXT_SETS
from orthoplus.metrics import feasibility

ROUNDS, QUICK_ROUNDS = 3, 1
PEER, OTHERS = "scikit-learn NMF", ("OPNMF", "ONP-MF")
# Expected geometric means of the other method's seconds divided by those of the default.
WANTED = {PEER: 1.0, "OPNMF": 10.0, "ONP-MF": 20.0}
TIE = 1e-5


def run_peer(A: Any, k: int) -> onmf.Answer:
    """Run ``NMF(init="nndsvda", max_iter=200)``, as people call it."""
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    model = NMF(n_components=k, init="nndsvda", max_iter=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        W = model.fit_transform(A)
    X = W / np.maximum(np.linalg.norm(W, axis=0), np.finfo(float).tiny)
    return onmf.Answer(X, model.components_.T, feasibility(X), feasibility(X))


def tasks(session: Session) -> Items:
    """Yield a case for each data set, reusing runs of the table `text`."""
    onmf.warm_up(session)
    for name in sets_of(session):
        data = load_labelled(name, session.folder)
        yield Task(name, (DEFAULT, PEER, *OTHERS), partial(_rows, session, data))


def _rows(session: Session, data: LabelledData) -> list[Row]:
    """Return all rows of a set; the default and scikit-learn take turns."""
    A, k = data.A, data.n_classes
    calls = {
        DEFAULT: lambda: onmf.run_default(A, k, session.seed, np.inf),
        PEER: lambda: run_peer(A, k),
    }
    found = take_turns(calls, session.pick(ROUNDS, QUICK_ROUNDS))
    measured = {
        name: (one.value, {"cpu": one.cpu, "wall": one.wall}) for name, one in found.items()
    }
    for method in OTHERS:
        runs = onmf.run_method(session, data.name, method, A, k)
        measured[method] = runs.answers[0], runs.figures()
    rows = []
    for method, (answer, figures) in measured.items():
        figures["ratio"] = figures["cpu"] / found[DEFAULT].cpu
        figures["share"] = onmf.explained_share(A, k, answer.X)
        note = str(figures.pop("note", ""))
        rows.append(Row(data.name, method, figures, note=note))
    return rows


def judge(rows: Rows) -> list[str]:
    """Report the geometric means of the ratios, and which objective is better."""
    lines, cases = [], rows.by_case()
    for method, wanted in WANTED.items():
        pairs = {
            case: (methods[DEFAULT], methods[method])
            for case, methods in cases.items()
            if method in methods and (method != PEER or case in TEXT_SETS)
        }
        if not pairs:
            continue
        mean = gmean([other.number("ratio") for _, other in pairs.values()])
        worse = [
            case
            for case, (ours, other) in pairs.items()
            if ours.number("share") < other.number("share") - TIE
        ]
        lines.append(
            f"{method} takes {mean:.1f} times the default's seconds in the geometric mean of "
            f"{len(pairs)} {'text ' if method == PEER else ''}sets (expected: at least "
            f"{wanted:g}); the default's objective is "
            + (f"lower on {', '.join(worse)}." if worse else "at least as good on all of them.")
        )
    return lines


TABLE = Table(
    about="The default beside NMF(init='nndsvda', max_iter=200), alternating, least of three; "
    "OPNMF and ONP-MF once.",
    columns=(
        Column("cpu", "CPU s", ".3f", "least"),
        Column("wall", "wall s", ".3f"),
        Column("ratio", "ratio", ".1f", "", "CPU seconds over those of the default"),
        Column("share", "share", ".5f", "most", "sum of sigma_1(A_j)^2 over ||A||^2"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="one set, one round, a second or two per run of another method",
)
