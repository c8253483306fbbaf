"""Run all methods for orthogonal NMF as in the tables, and measure their results."""

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from orthoplus.bench.measure import OutOfProcessorError, processor_limit, timed
from orthoplus.bench.table import Session
from orthoplus.core.method import iterate
from orthoplus.core.outer_method import OuterMethod
from orthoplus.core.problem import Problem
from orthoplus.core.result import HistoryRow
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.geometry.stiefel import cover_columns, keep_largest, labels_of, violation
from orthoplus.linalg.starts import svd_start
from orthoplus.methods import baselines
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.problems import ONMF
from orthoplus.projection import project_stiefel_plus
from orthoplus.run.api import solve

DEFAULT, PENALTY, STEADY = "default", "EP4Orth+", "EP4Orth+ 1.05"


@dataclass(frozen=True, eq=False)
class Answer:
    """The result of a method."""

    X: FloatArray  # (n, k), nonnegative; before rounding if the method does not round
    Y: FloatArray  # (r, k)
    violation: float  # violation of the returned factor
    before: float  # violation before rounding
    n_iter: int = 0  # iterations; 0 if the method has none
    cpu: float = 0.0
    wall: float = 0.0
    is_cut: bool = False  # whether the time limit stopped it
    history: tuple[HistoryRow, ...] = ()  # outer iterations of EP4Orth+
    fractions: FloatArray | None = None  # (n, k), rows sum to one; only of unmixing methods

    @property
    def labels(self) -> IntArray:
        """Return the group of each row, -1 for a row of zeros."""
        return labels_of(self.X)


Runner = Callable[[Any, int, int, float], Answer]


def run_default(A: Any, k: int, seed: int, limit: float) -> Answer:
    """Run ``OrthogonalNMF(n_components=k)``."""
    from sklearn.exceptions import ConvergenceWarning

    from orthoplus.estimators import OrthogonalNMF

    model = OrthogonalNMF(n_components=k, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(A)
    X = model.orthonormal_
    return Answer(X, model.components_.T, violation(X), violation(X), model.n_iter_)


def run_penalty(
    A: Any, k: int, seed: int, limit: float, preset: Callable[..., EP4Orth] = EP4Orth.for_onmf
) -> Answer:
    """Run EP4Orth+ as in the paper: A of norm 1, clipped singular vectors, no refinement of X."""
    scaled = A / (np.linalg.norm(A.data if issparse(A) else A) or 1.0)
    problem = ONMF(scaled, k)
    X0 = svd_start(scaled, k, "clipped")
    result = solve(problem, X0, method=preset(size=problem.total), search=False, with_bound=False)
    X, Y = result.state.X, np.asarray(result.Y)
    history = result.history
    return Answer(X, Y, violation(round_any(X)), violation(X), result.n_iter, history=history)


def follow(
    problem: Problem, method: OuterMethod, X: FloatArray, limit: float, *, can_be_cut: bool
) -> tuple[Any, bool]:
    """Run a method until it converges or reaches the time limit; return its state and which.

    The time is checked after each step and, if ``can_be_cut``, within a step as well.
    """
    stop, begin, is_done = method.stop(), time.process_time(), False
    first = state = method.init(problem, X)
    with suppress(OutOfProcessorError), processor_limit(limit if can_be_cut else np.inf):
        for state in iterate(problem, method, first):
            is_done = stop(state) is not Status.RUNNING
            if is_done or time.process_time() - begin > limit:
                break
    return state, is_done


def baseline(
    make: Callable[..., OuterMethod], *, can_be_cut: bool = False, **options: Any
) -> Runner:
    """Return a function that runs a baseline within a time limit, see `follow`."""

    def run(A: Any, k: int, seed: int, limit: float) -> Answer:
        seeded = {"seed": seed} if hasattr(make, "seed") else {}
        problem, method = ONMF(A, k), make(**seeded, **options)
        X = problem.start(np.random.default_rng(seed))
        state, is_done = follow(problem, method, X, limit, can_be_cut=can_be_cut)
        Y = problem.second_block(state.X) if state.Y is None else state.Y
        v = state.violation
        return Answer(state.X, np.asarray(Y), v, v, state.n_iter, is_cut=not is_done)

    return run


METHODS: dict[str, Runner] = {
    DEFAULT: run_default,
    PENALTY: run_penalty,
    "U-onmf": baseline(baselines.UONMF),
    "Yoo-Choi": baseline(baselines.YooChoi),
    "OPNMF": baseline(baselines.OPNMF),
    "ONP-MF": baseline(baselines.ONPMF),
    "HALS-ONMF": baseline(baselines.HALSONMF),
    "EM-ONMF": baseline(baselines.EMONMF),
    "AO-NMF": baseline(baselines.ApproximatelyOrthogonalNMF),
    "AO-NMF apg": baseline(baselines.ApproximatelyOrthogonalNMF, algorithm="apg"),
    "SNCP": baseline(baselines.SNCP),
    "NSNCP": baseline(baselines.SNCP, penalty="nonsmooth"),
    "GOPA": baseline(baselines.GOPA),
    "GOPA batch": baseline(baselines.GOPA, variant="batch"),
    "Support-Set": baseline(baselines.SupportSet, can_be_cut=True),
    "SEPPG": baseline(baselines.SEPPG, can_be_cut=True),
    "Wen-Yin": baseline(baselines.WenYin, can_be_cut=True),
    "K-means": baseline(baselines.KMeansBaseline, n_init=1),
    "spherical": baseline(baselines.SphericalKMeans, n_init=1),
    "LSA + K-means": baseline(baselines.LSAKMeans, n_init=1),
    "NMF": baseline(baselines.NMFBaseline),
}
# Methods that depend on the seed; means over several seeds are shown, as in the paper.
RANDOM = (
    "EM-ONMF",
    "GOPA",
    "GOPA batch",
    "K-means",
    "spherical",
    "LSA + K-means",
    "VCA",
    "VCA + FCLS",
)
N_SEEDS, QUICK_N_SEEDS = 10, 3


@dataclass(frozen=True, eq=False)
class Runs:
    """The results of one method, one per seed, each within a time limit."""

    answers: tuple[Answer, ...]
    limit: float

    def mean(self, measure: Callable[[Answer], float]) -> float:
        """Return the mean over the seeds."""
        return float(np.mean([measure(answer) for answer in self.answers]))

    @property
    def cpu(self) -> float:
        """Return the mean CPU seconds."""
        return self.mean(lambda answer: answer.cpu)

    def figures(self, *names: str) -> dict[str, Any]:
        """Return the means of these attributes and of the seconds, and a note if it was cut."""
        keys = (*names, "n_iter", "cpu", "wall")
        means: dict[str, Any] = {
            key: self.mean(lambda found, key=key: getattr(found, key))  # type: ignore[misc]
            for key in keys
        }
        is_cut = any(answer.is_cut for answer in self.answers)
        note = f"stopped after {self.limit:g} CPU s, before it converged" if is_cut else ""
        return means | {"note": note}


def run_method(
    session: Session, case: str, name: str, A: Any, k: int, methods: Mapping[str, Runner] = METHODS
) -> Runs:
    """Return all runs of a method on a case, computed once per session."""

    def compute() -> Runs:
        warm_up(session)
        n_seeds = session.pick(N_SEEDS, QUICK_N_SEEDS) if name in RANDOM else 1
        answers = []
        for seed in range(session.seed, session.seed + n_seeds):
            found = timed(partial(methods[name], A, k, seed, session.seconds))
            answers.append(replace(found.value, cpu=found.cpu, wall=found.wall))
        return Runs(tuple(answers), session.seconds)

    return session.once(("onmf", case, name), compute)


def warm_up(
    session: Session, methods: Mapping[str, Runner] = METHODS, shape: tuple[int, int] = (40, 90)
) -> None:
    """Compile and import all methods first, so that no run includes that time."""

    def compute() -> None:
        A = np.random.default_rng(0).random(shape)
        for data in (A, csr_array(A * (A > 0.5))):
            for run in methods.values():
                with suppress(Exception):  # the error will show up in its own run
                    run(data, 3, 0, 0.05)

    session.once(f"warm {shape}", compute)


def explained_share(A: Any, k: int, X: FloatArray) -> float:
    r"""Return the objective of the groups: :math:`\sum_j \sigma_1(A_j)^2 / \|A\|_F^2`."""
    problem = ONMF(A, k)
    return 1.0 - problem.value(problem.refine(round_any(X))) / problem.total


def round_any(X: FloatArray) -> FloatArray:
    """Round by Procedure 1, or to the nearest point of S+ if that leaves a column empty."""
    X = np.maximum(X, 0.0)
    return keep_largest(X) if cover_columns(labels_of(X), X.shape[1]) else project_stiefel_plus(X).X
