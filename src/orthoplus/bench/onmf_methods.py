"""Every method for orthogonal NMF as the tables run it, and what is measured of its answer."""

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from orthoplus.bench.measure import timed
from orthoplus.bench.table import Session
from orthoplus.core.method import OuterMethod, iterate
from orthoplus.core.result import HistoryRow
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.geometry.stiefel import cover_columns, keep_largest, labels_of, violation
from orthoplus.linalg.starts import svd_start
from orthoplus.methods.baselines import (
    EMONMF,
    HALSONMF,
    ONPMF,
    OPNMF,
    UONMF,
    KMeansBaseline,
    NMFBaseline,
    YooChoi,
)
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.problems import ONMF
from orthoplus.projection import project_stiefel_plus
from orthoplus.run.api import solve

DEFAULT, PENALTY, STEADY = "default", "EP4Orth+", "EP4Orth+ 1.05"


@dataclass(frozen=True, eq=False)
class Answer:
    """What a method returns.

    Attributes
    ----------
    X : ndarray of shape (n, k)
        The nonnegative factor, before rounding where the method does not round.
    Y : ndarray of shape (r, k)
    violation : float
        Of the factor as it is returned.
    before : float
        Of the factor before rounding.
    cpu, wall : float
        Seconds.
    is_cut : bool
        Whether the limit of seconds ended it.
    history : tuple
        Outer iterations, of EP4Orth+.
    """

    X: FloatArray
    Y: FloatArray
    violation: float
    before: float
    cpu: float = 0.0
    wall: float = 0.0
    is_cut: bool = False
    history: tuple[HistoryRow, ...] = ()

    @property
    def labels(self) -> IntArray:
        """The group of each row, -1 for a row of zeros."""
        return labels_of(self.X)


Runner = Callable[[Any, int, int, float], Answer]


def run_default(A: Any, k: int, seed: int, limit: float) -> Answer:
    """What ``OrthogonalNMF(n_components=k)`` does."""
    from sklearn.exceptions import ConvergenceWarning

    from orthoplus.estimators import OrthogonalNMF

    model = OrthogonalNMF(n_components=k, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(A)
    X = model.orthonormal_
    return Answer(X, model.components_.T, violation(X), violation(X))


def run_penalty(
    A: Any, k: int, seed: int, limit: float, preset: Callable[..., EP4Orth] = EP4Orth.for_onmf
) -> Answer:
    """EP4Orth+ as in the paper: A of norm 1, clipped singular vectors, no refinement of X."""
    scaled = A / frobenius(A)
    problem = ONMF(scaled, k)
    X0 = svd_start(scaled, k, "clipped")
    result = solve(problem, X0, method=preset(size=problem.total), search=False, with_bound=False)
    X = result.state.X
    rounded = round_any(X)
    return Answer(X, np.asarray(result.Y), violation(rounded), violation(X), history=result.history)


def run_steady_penalty(A: Any, k: int, seed: int, limit: float) -> Answer:
    """The same with one growth rate to the end, as in the authors' script."""
    return run_penalty(A, k, seed, limit, partial(EP4Orth.for_onmf, penalty_growth_late=None))


def rival(make: Callable[[int], OuterMethod]) -> Runner:
    """A method of `orthoplus.baselines` up to its own end, or to the limit of seconds."""

    def run(A: Any, k: int, seed: int, limit: float) -> Answer:
        problem, method = ONMF(A, k), make(seed)
        stop, begin = method.stop(), time.process_time()
        is_cut = False
        X = problem.start(np.random.default_rng(seed))
        for state in iterate(problem, method, method.init(problem, X)):
            if stop(state) is not Status.RUNNING:
                break
            if time.process_time() - begin > limit:
                is_cut = True
                break
        return Answer(state.X, np.asarray(state.Y), state.violation, state.violation, is_cut=is_cut)

    return run


METHODS: dict[str, Runner] = {
    DEFAULT: run_default,
    PENALTY: run_penalty,
    "U-onmf": rival(lambda seed: UONMF()),
    "Yoo-Choi": rival(lambda seed: YooChoi()),
    "OPNMF": rival(lambda seed: OPNMF()),
    "ONP-MF": rival(lambda seed: ONPMF()),
    "HALS-ONMF": rival(lambda seed: HALSONMF()),
    "EM-ONMF": rival(lambda seed: EMONMF(seed=seed)),
    "K-means": rival(lambda seed: KMeansBaseline(seed=seed, n_init=1)),
    "NMF": rival(lambda seed: NMFBaseline(seed=seed)),
}
# Their answer depends on the seed: means over several, as in the paper.
RANDOM = ("EM-ONMF", "K-means")
N_SEEDS, N_SEEDS_QUICK = 10, 3


@dataclass(frozen=True, eq=False)
class Runs:
    """The answers of one method, one a seed, each within a limit of seconds."""

    answers: tuple[Answer, ...]
    limit: float

    @property
    def first(self) -> Answer:
        return self.answers[0]

    def mean(self, measure: Callable[[Answer], float]) -> float:
        """Over the seeds."""
        return float(np.mean([measure(answer) for answer in self.answers]))

    @property
    def note(self) -> str:
        """Whether the limit was met."""
        is_cut = any(answer.is_cut for answer in self.answers)
        return f"stopped after {self.limit:g} CPU s, before its own end" if is_cut else ""


def run_method(
    session: Session, case: str, name: str, A: Any, k: int, methods: Mapping[str, Runner] = METHODS
) -> Runs:
    """All runs of a method on a case; computed once in a session."""

    def compute() -> Runs:
        warm_up(session)
        limit = session.rival_seconds
        n_seeds = (N_SEEDS_QUICK if session.quick else N_SEEDS) if name in RANDOM else 1
        answers = []
        for seed in range(session.seed, session.seed + n_seeds):
            found = timed(lambda seed=seed: methods[name](A, k, seed, limit))  # type: ignore[misc]
            answers.append(replace(found.value, cpu=found.cpu, wall=found.wall))
        return Runs(tuple(answers), limit)

    runs: Runs = session.once(("onmf", case, name), compute)
    return runs


def warm_up(session: Session) -> None:
    """Compile and import what every method needs, so that no run is charged for it."""

    def compute() -> None:
        from scipy.sparse import csr_array

        A = np.random.default_rng(0).random((40, 90))
        for data in (A, csr_array(A * (A > 0.5))):
            for run in METHODS.values():
                with suppress(Exception):  # its own run will say what is wrong
                    run(data, 3, 0, 0.05)

    session.once("warm", compute)


def explained_share(A: Any, k: int, X: FloatArray) -> float:
    r"""The objective of the groups: :math:`\sum_j \sigma_1(A_j)^2 / \|A\|_F^2`, at most 1."""
    problem = ONMF(A, k)
    refitted = problem.refine(round_any(X))
    return 1.0 - problem.value(refitted) / problem.total


def round_any(X: FloatArray) -> FloatArray:
    """Procedure 1; the nearest point of S+ where it would leave a column without a row."""
    X = np.maximum(X, 0.0)
    return keep_largest(X) if cover_columns(labels_of(X), X.shape[1]) else project_stiefel_plus(X).X


def frobenius(A: Any) -> float:
    """||A||_F, 1 for A = 0."""
    return float(np.linalg.norm(A.data if issparse(A) else A)) or 1.0
