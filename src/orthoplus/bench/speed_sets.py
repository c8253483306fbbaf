"""Compare the speed on all data sets with scikit-learn, and on text and images with baselines."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import gmean

from orthoplus.bench import onmf_methods as onmf
from orthoplus.bench.measure import take_turns
from orthoplus.bench.onmf_methods import DEFAULT
from orthoplus.bench.table import Column, Items, Row, Rows, Session, Table, Task
from orthoplus.bench.text import sets_of
from orthoplus.datasets import load_labelled, load_scene
from orthoplus.datasets.real import SCENES
from orthoplus.geometry.stiefel import assemble
from orthoplus.metrics import feasibility

ROUNDS, QUICK_ROUNDS = 3, 1
K_MEANS, NMF, OTHERS = "scikit-learn KMeans", "scikit-learn NMF", ("OPNMF", "ONP-MF")
# The aims: the largest geometric mean of the default's seconds over those of scikit-learn, and the
# smallest one of the baselines' seconds over those of the default.
MOST = {K_MEANS: 0.8, NMF: 1.5}
LEAST = {"OPNMF": 10.0, "ONP-MF": 20.0}
TIE = 1e-5


def run_k_means(A: Any, k: int) -> onmf.Answer:
    """Run ``KMeans(n_init=10)``, whose result depends little on the seed."""
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters=k, n_init=10, random_state=0).fit(A)
    X = assemble(model.labels_.astype(np.int64), np.ones(len(model.labels_)), k)
    return onmf.Answer(X, model.cluster_centers_.T, feasibility(X), feasibility(X))


def run_nmf(A: Any, k: int) -> onmf.Answer:
    """Run ``NMF(init="nndsvda", max_iter=200)``, as it is commonly called."""
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    model = NMF(n_components=k, init="nndsvda", max_iter=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        W = model.fit_transform(A)
    X = W / np.maximum(np.linalg.norm(W, axis=0), np.finfo(float).tiny)
    return onmf.Answer(X, model.components_.T, feasibility(X), feasibility(X))


def tasks(session: Session) -> Items:
    """Yield a case for each data set; text and images reuse runs of the table `text`."""
    onmf.warm_up(session)
    run_k_means(np.random.default_rng(0).random((40, 9)), 3)  # imports
    for name, load in _sets(session):
        others = OTHERS if name in sets_of(session) else ()
        methods = (DEFAULT, K_MEANS, NMF, *others)
        yield Task(name, methods, partial(_rows, session, name, load, others))


def _sets(session: Session) -> Iterator[tuple[str, Callable[[], tuple[Any, int]]]]:
    """Yield the name of each set and a function that loads its matrix and number of clusters."""

    def labelled(name: str) -> tuple[Any, int]:
        data = load_labelled(name, session.folder)
        return data.A, data.n_classes

    def scene(name: str) -> tuple[Any, int]:
        data = load_scene(name, session.folder)
        return data.A, len(data.names)

    def digits() -> tuple[Any, int]:
        from sklearn.datasets import load_digits

        return load_digits().data, 10

    for name in sets_of(session):
        yield name, partial(labelled, name)
    if not session.quick:
        for name in SCENES:
            yield name, partial(scene, name)
        yield "digits", digits


def _rows(
    session: Session, case: str, load: Callable[[], tuple[Any, int]], others: tuple[str, ...]
) -> list[Row]:
    """Return all rows of a set; the default and scikit-learn run alternately."""
    A, k = load()
    calls = {
        DEFAULT: lambda: onmf.run_default(A, k, session.seed, np.inf),
        K_MEANS: lambda: run_k_means(A, k),
        NMF: lambda: run_nmf(A, k),
    }
    found = take_turns(calls, session.pick(ROUNDS, QUICK_ROUNDS))
    measured = {
        name: (one.value, {"cpu": one.cpu, "wall": one.wall}) for name, one in found.items()
    }
    for method in others:
        runs = onmf.run_method(session, case, method, A, k)
        measured[method] = runs.answers[0], runs.figures()
    rows = []
    for method, (answer, figures) in measured.items():
        figures["ratio"] = figures["cpu"] / found[DEFAULT].cpu
        figures["share"] = onmf.explained_share(A, k, answer.X)
        note = str(figures.pop("note", ""))
        rows.append(Row(case, method, figures, note=note))
    return rows


def judge(rows: Rows) -> list[str]:
    """Report the geometric means of the ratios, and which objective is better."""
    lines = []
    for method in (*MOST, *LEAST):
        pairs = {
            case: (methods[DEFAULT], methods[method])
            for case, methods in rows.by_case().items()
            if DEFAULT in methods and method in methods
        }
        if not pairs:
            continue
        mean = gmean([other.number("ratio") for _, other in pairs.values()])
        worse = [
            case
            for case, (ours, other) in pairs.items()
            if ours.number("share") < other.number("share") - TIE
        ]
        sets = f"(geometric mean over {len(pairs)} data set{'s' if len(pairs) > 1 else ''}"
        if method in MOST:
            words = f"The default takes {1.0 / mean:.2f} times the CPU seconds of {method} {sets}; "
            words += f"aim: at most {MOST[method]:g})"
        else:
            words = f"{method} takes {mean:.1f} times the default's seconds {sets}; "
            words += f"expected: at least {LEAST[method]:g})"
        better = f"lower on {', '.join(worse)}." if worse else "at least as good on all of them."
        lines.append(f"{words}; the default's objective is {better}")
    return lines


TABLE = Table(
    about="The default and scikit-learn's KMeans(n_init=10) and NMF(init='nndsvda', max_iter=200) "
    "run alternately, and the shortest of three times is shown; OPNMF and ONP-MF run once, on text "
    "and images.",
    columns=(
        Column("cpu", "CPU s", ".3f", "least"),
        Column("wall", "wall s", ".3f"),
        Column("ratio", "ratio", ".1f", "", "CPU seconds relative to those of the default"),
        Column("share", "share", ".5f", "most", "sum of sigma_1(A_j)^2 divided by ||A||^2"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="one set, one round, a second or two per run of another method",
)
