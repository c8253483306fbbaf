"""Compare the objective of the default with other methods on real and hard matrices."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from orthoplus.bench import onmf_methods as onmf
from orthoplus.bench.onmf_methods import DEFAULT, METHODS, PENALTY, RANDOM
from orthoplus.bench.table import Column, Items, Row, Rows, Session, Table, Task
from orthoplus.core.types import FloatArray
from orthoplus.datasets import HARD_KINDS, hard_clusters, load_labelled, load_scene
from orthoplus.datasets.real import IMAGE_SETS, SCENES, TEXT_SETS
from orthoplus.geometry.stiefel import assemble
from orthoplus.methods.search.alternation import alternate
from orthoplus.problems import ONMF

N_SEEDS, QUICK_N_SEEDS = 10, 1
SIZES, QUICK_SIZES = ((1500, 60, 12), (6000, 40, 30)), ((300, 20, 6),)
# CPU seconds of one run of a baseline; it is small because there are many cases.
LIMIT, QUICK_LIMIT = 1.0, 0.5
# Tolerance for equal shares.
TIE = 1e-9

Instance = Callable[[int], tuple[Any, int]]


def instances(session: Session) -> Iterator[tuple[str, Instance]]:
    """Yield names, and for each a function that returns the matrix and k for a seed.

    The seed of a real data set changes the starts alone, not the matrix.
    """
    for n, r, k in session.pick(SIZES, QUICK_SIZES):
        for kind in HARD_KINDS:
            yield f"{kind}, {n} x {r}, k = {k}", partial(_hard_instance, kind, n, r, k)
    yield "digits", _digits
    for name in session.pick((*TEXT_SETS, *IMAGE_SETS), ()):
        data = load_labelled(name, session.folder)
        yield name, partial(_same, data.A, data.n_classes)
    for name in session.pick(SCENES, ()):
        scene = load_scene(name, session.folder)
        yield name, partial(_same, scene.A, len(scene.names))


def _hard_instance(kind: str, n: int, r: int, k: int, seed: int) -> tuple[Any, int]:
    return hard_clusters(kind, n, r, k, np.random.default_rng([seed, n])).A, k


def _digits(seed: int) -> tuple[Any, int]:
    from sklearn.datasets import load_digits

    return load_digits().data, 10


def _same(A: Any, k: int, seed: int) -> tuple[Any, int]:
    return A, k


def refined(name: str) -> onmf.Runner:
    """Return a runner of a baseline whose groups are the start of the exact alternation."""

    def run(A: Any, k: int, seed: int, limit: float) -> onmf.Answer:
        found = METHODS[name](A, k, seed, limit)
        return _alternated(A, k, onmf.round_any(found.X))

    return run


def run_spherical(A: Any, k: int, seed: int, limit: float) -> onmf.Answer:
    """Run k-means on the rows divided by their norms, then the exact alternation."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import normalize

    labels = KMeans(k, n_init=1, random_state=seed).fit(normalize(A)).labels_.astype(np.int64)
    X = assemble(labels, np.ones(len(labels)), k)
    return _alternated(A, k, onmf.round_any(X / np.maximum(np.linalg.norm(X, axis=0), 1.0)))


def _alternated(A: Any, k: int, X: FloatArray) -> onmf.Answer:
    X, _ = alternate(ONMF(A, k), X)
    return onmf.Answer(X, X[:0], 0.0, 0.0)


RUNNERS: dict[str, onmf.Runner] = {
    **{name: run for name, run in METHODS.items() if name != PENALTY},
    "NMF, refined": refined("NMF"),
    "K-means, refined": refined("K-means"),
    "spherical k-means, refined": run_spherical,
}
# Methods whose result depends on the seed.
SEEDED = {DEFAULT, *RANDOM, "K-means, refined", "spherical k-means, refined"}
# Methods that take milliseconds run on every seed; the others, which take up to a thousand times as
# long, on the first ones only.
FAST = {*SEEDED, "HALS-ONMF", "Support-Set", "NMF", "NMF, refined"}
N_SLOW_SEEDS = 2


def tasks(session: Session) -> Items:
    """Yield one task per instance: all methods on all seeds of the session."""
    onmf.warm_up(session)
    for case, instance in instances(session):
        yield Task(case, tuple(RUNNERS), partial(_rows, session, case, instance))


def _rows(session: Session, case: str, instance: Instance) -> list[Row]:
    seeds = range(session.seed, session.seed + session.pick(N_SEEDS, QUICK_N_SEEDS))
    is_fixed = not isinstance(instance, partial) or instance.func is _same
    shares: list[list[float]] = []
    for seed in seeds:
        known = shares[0] if shares and is_fixed else None
        with_slow = len(shares) < N_SLOW_SEEDS
        shares.append(_shares(session, instance, seed, known=known, with_slow=with_slow))
    found = np.array(shares)
    behind = np.nanmax(found, axis=1, keepdims=True) - found
    return [_row(case, name, found[:, at], behind[:, at]) for at, name in enumerate(RUNNERS)]


def _row(case: str, name: str, shares: FloatArray, behind: FloatArray) -> Row:
    """Return the row of a method: NaN is a seed that was left out, minus infinity a failure."""
    tried, held = ~np.isnan(shares), np.isfinite(shares)
    n_runs, n_failed = int(tried.sum()), int(tried.sum() - held.sum())
    note = f"failed on {n_failed} of {n_runs} seeds" if n_failed else ""
    if n_failed == n_runs:
        return Row(case, name, note=note, is_failed=True)
    figures = {
        "share": float(shares[held].mean()),
        "behind": float(behind[held].max()),
        "wins": int((behind[held] <= TIE).sum()),
        "runs": n_runs,
    }
    return Row(case, name, figures, note=note)


def _shares(
    session: Session, instance: Instance, seed: int, *, known: list[float] | None, with_slow: bool
) -> list[float]:
    """Return the explained share of every method; NaN for those that are left out on this seed.

    ``known`` holds those of an earlier seed on the same matrix: methods without a random start keep
    theirs.
    """
    A, k = instance(seed)
    limit, shares = session.within(LIMIT, QUICK_LIMIT), []
    for at, (name, run) in enumerate(RUNNERS.items()):
        if known is not None and name not in SEEDED:
            shares.append(known[at])
        elif with_slow or name in FAST:
            shares.append(_share(A, k, partial(run, A, k, seed, limit)))
        else:
            shares.append(np.nan)
    return shares


def _share(A: Any, k: int, run: Callable[[], onmf.Answer]) -> float:
    """Return the explained share of a run, or minus infinity if it fails."""
    try:
        return onmf.explained_share(A, k, run().X)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return -np.inf


def judge(rows: Rows) -> list[str]:
    """Report how often the default is best, and its largest shortfall."""
    ours = rows.by_method()[DEFAULT]
    worst = max(ours, key=lambda row: row.number("behind"))
    short = worst.number("behind")
    wins, runs = (int(sum(ours.numbers(key))) for key in ("wins", "runs"))
    others = {name: int(sum(found.numbers("wins"))) for name, found in rows.by_method().items()}
    del others[DEFAULT]
    second = max(others, key=lambda name: others[name])
    return [
        f"The default has the best objective in {wins} of {runs} runs, up to {TIE:g}; "
        + (
            f"at worst it is {short:.1e} behind ({worst.case})."
            if short > TIE
            else "it is never behind."
        )
        + f" The next is {second}, with {others[second]}."
    ]


TABLE = Table(
    about="Share of ||A||^2 that the groups of each method explain, with the best vector for each "
    "group. Refined: the exact alternation follows. Each baseline has one CPU second; slow ones "
    "run on two seeds only.",
    columns=(
        Column("share", "share", ".6f", "most", "mean over the seeds"),
        Column(
            "behind",
            "behind",
            ".1e",
            "",
            "largest difference from the best method with the same seed",
        ),
        Column("wins", "best", ".0f", "", "seeds with the best share"),
        Column("runs", "seeds", ".0f"),
    ),
    tasks=tasks,
    judge=judge,
    quick_about="small matrices, one seed, half a second per baseline",
)
