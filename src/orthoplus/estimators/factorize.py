"""Orthogonal factorization of a matrix: method, starts and closing alternation.

This module defines which methods and starts the estimators use.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from orthoplus.core.bounds import with_bracket
from orthoplus.core.checks import check_choice, check_count, draw_seed
from orthoplus.core.errors import InputError
from orthoplus.core.outer_method import OuterMethod, as_outer_method
from orthoplus.core.point import SupportPoint, sum_squares
from orthoplus.core.result import Result
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray
from orthoplus.data import DataMatrix, as_data, as_nonnegative_data
from orthoplus.data.groups import Centers
from orthoplus.estimators.missing import factorize_observed
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.methods.kl_alternating import KLAlternating
from orthoplus.methods.search.alternation import alternate
from orthoplus.optimality.conditions import stationarity
from orthoplus.problems import KLONMF, ONMF
from orthoplus.run.api import solve
from orthoplus.run.presets import preset_of
from orthoplus.run.processes import run_all

METHODS: dict[str, Callable[[Any], OuterMethod]] = {
    "auto": lambda problem: preset_of(problem).method(problem, 0),
    "ep4orth": lambda problem: EP4Orth.for_onmf(size=problem.total or 1.0),
    "unmixing": lambda problem: EP4Orth.for_unmixing(size=problem.total or 1.0),
}

# If the residual is a larger share of ||A||^2, expanding its square costs less than four digits.
_CANCELLATION = 1e-4
_ENDED_FROM_OUTSIDE = (Status.INTERRUPTED, Status.TIME_LIMIT, Status.CALLBACK)


@dataclass(frozen=True)
class Model:
    """Describe a factorization: k, the orthonormal factor, the sign of the data, and the loss."""

    k: int
    orthogonal: str = "samples"
    allow_negative: bool = False
    loss: str = "frobenius"

    def problem(self, A: DataMatrix) -> ONMF | KLONMF:
        """Return the problem for data without gaps."""
        if A.has_gaps:
            raise InputError(
                "The data have missing entries, which this call does not support. Impute them, or "
                "remove the rows that have some."
            )
        if self.loss == "kullback-leibler":
            return self._count_problem(A)
        if self.orthogonal == "samples":
            return ONMF(A, self.k, allow_negative=self.allow_negative)
        if A.has_cheap_products:
            return ONMF(A.in_memory().T, self.k, allow_negative=self.allow_negative)
        # The parts depend on A'A alone. Its root has the same products, with entries of any sign.
        checked = as_data(A, "X") if self.allow_negative else as_nonnegative_data(A, "X")
        root = checked.gram_root()
        return ONMF(root, self.k, squared_norm=checked.squared_norm(), allow_negative=True)

    def _count_problem(self, A: DataMatrix) -> KLONMF:
        if self.orthogonal == "samples":
            return KLONMF(A, self.k)
        if not A.has_cheap_products:
            raise InputError(
                '`orthogonal="features"` with `loss="kullback-leibler"` needs the data in memory, '
                "or its transpose stored: the entries of a feature are in all blocks."
            )
        return KLONMF(A.in_memory().T, self.k)


@dataclass(frozen=True)
class RunOptions:
    """Hold the options of a run that estimators and command line share.

    ``watch`` holds options of `solve`: callback, time_limit, resume, checkpoint.
    """

    method: str | OuterMethod = "auto"
    max_iter: int | None = None
    tol: float | None = None
    n_init: int | None = None
    n_jobs: int | None = None
    with_bound: bool = False
    watch: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, params: Mapping[str, Any], watch: Mapping[str, Any] | None) -> "RunOptions":
        """Return the options of a run among the parameters of an estimator."""
        own = {field.name for field in dataclasses.fields(cls)} & params.keys()
        return cls(**{name: params[name] for name in own}, watch=watch or {})

    def run(self, problem: ONMF | KLONMF, rng: np.random.Generator) -> Result:
        """Run all starts and return the best result."""
        return best_run(problem, self.runs(problem, rng))

    def runs(self, problem: ONMF | KLONMF, rng: np.random.Generator) -> Iterator[Result]:
        """Yield the result of each start; see `run_starts`."""
        return run_starts(
            problem,
            choose_method(problem, self.method, max_iter=self.max_iter, tol=self.tol),
            n_init=self.n_init,
            rng=rng,
            n_jobs=self.n_jobs,
            with_bound=self.with_bound,
            **self.watch,
        )


def factorize_data(
    A: DataMatrix, model: Model, options: RunOptions, rng: np.random.Generator
) -> tuple[Result, float]:
    """Factorize data of any storage and return the result with its reconstruction error.

    The error is the norm of the residual or the divergence. Entries may be missing.
    """
    if A.has_gaps:
        result = _factorize_gaps(A, model, options, rng)
        return result, float(np.sqrt(max(result.value, 0.0)))
    problem = model.problem(A)
    result = options.run(problem, rng)
    if isinstance(problem, KLONMF):
        return result, result.value
    return result, residual_norm(problem, result)


def residual_norm(problem: ONMF, result: Result) -> float:
    """Return ||A - XX'A||_F, without cancellation if passes over the data are cheap."""
    if not problem.A.has_cheap_products:
        return float(np.sqrt(max(result.value, 0.0)))
    return _residual(problem.A, result.point, problem.total)


def _factorize_gaps(
    A: DataMatrix, model: Model, options: RunOptions, rng: np.random.Generator
) -> Result:
    data = A
    for name in ("checkpoint", "resume"):
        if options.watch.get(name) is not None:
            raise InputError(
                f'`{name}` cannot be combined with `missing="mask"`: the missing entries are '
                f"filled in several times, and a state belongs to one of these runs. Omit it."
            )
    if model.orthogonal == "features":
        if not A.has_cheap_products:
            raise InputError(
                '`missing="mask"` with `orthogonal="features"` needs the data in memory, or its '
                "transpose stored: the entries of a feature are in all blocks."
            )
        data = A.in_memory().T
    # A bound on the filled data would not bound the error over the observed entries.
    quick = dataclasses.replace(options, with_bound=False)
    return factorize_observed(
        data,
        model.k,
        allow_negative=model.allow_negative,
        run=lambda problem: quick.run(problem, rng),
    )


def share_weights(result: Result, weights: FloatArray) -> Result:
    """Convert the result for rows times their weights to one for rows times the square roots.

    Entry x_i is divided by the square root of w_i. Then the columns have unit norm and Y is the
    same as if a row of weight 2 were two rows.
    """
    # Rows of weight 0 have x_i = 0 already.
    roots = np.sqrt(np.where(weights > 0, weights, 1.0))
    raw = (result.point.weights / roots).astype(result.weights.dtype)
    point = dataclasses.replace(result.point, weights=raw)
    sizes = np.sqrt(point.column_squares())
    scales = np.where(sizes > 0, sizes, 1.0)
    Y = (np.asarray(result.Y) * scales).astype(np.asarray(result.Y).dtype)
    return dataclasses.replace(result, point=point.normalized(), Y=Y)


def _residual(A: DataMatrix, point: SupportPoint, total: float) -> float:
    """Return ||A - XX'A||_F, where ``total`` is ||A||_F^2."""
    weights = point.weights.astype(np.float64, copy=False)
    W = A.group_sums(point.labels, weights, point.k)
    # With W = X'A: ||A - XW||^2 = ||A||^2 - 2 ||W||^2 + ||XW||^2, without another pass over A.
    sizes = sum_squares(point.labels, weights, point.k)
    missed = total - float((2.0 - sizes) @ np.einsum("jc,jc->j", W, W))
    if not missed > _CANCELLATION * total:
        missed = A.missed_squares(point.labels, weights, W)
    return float(np.sqrt(missed))


def choose_method(
    problem: ONMF | KLONMF, method: str | OuterMethod, *, max_iter: int | None, tol: float | None
) -> OuterMethod:
    """Return the method, given by name or as an object, with this limit and tolerance."""
    if isinstance(method, str):
        check_choice(method, "method", tuple(METHODS))
        if method != "auto" and isinstance(problem, KLONMF):
            raise InputError(
                f'`method="{method}"` is for the Frobenius norm. With `loss="kullback-leibler"`, '
                f'use "auto" or an object such as EP4Orth().'
            )
        method = METHODS[method](problem)
    if max_iter is None and tol is None:
        return method
    names = {field.name for field in dataclasses.fields(method)}  # type: ignore[arg-type]
    tol_name = "feasibility_tol" if "feasibility_tol" in names else "tol"
    given = {"max_iter": max_iter, tol_name: tol}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in changes.keys() - names:
        raise InputError(
            f"`{name}` is not an option of the method {type(method).__name__}. Omit it, and set "
            f"the options of the method object instead."
        )
    return dataclasses.replace(method, **changes)  # type: ignore[type-var]


def run_starts(
    problem: ONMF | KLONMF,
    method: OuterMethod,
    *,
    n_init: int | None,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    with_bound: bool = False,
    **watch: Any,
) -> Iterator[Result]:
    """Yield the results of several runs, the first from singular vectors, the others random.

    At the end of each run, no row fits another column better, except for ties. A method with its
    own starts performs them all in one run. With ``n_init=None``, such a method uses its default,
    and others run once. ``n_jobs`` runs are performed in parallel processes, with the same result.
    ``watch`` holds options of `solve`: callback, time_limit, resume, checkpoint. A run that is
    ended by one of these is the last.
    """
    if n_init is not None:
        check_count(n_init, "n_init", low=1)
    if starts_by_itself(method):
        own = {"seed": draw_seed(rng)} | ({} if n_init is None else {"n_init": n_init})
        method, n_init = dataclasses.replace(method, **own), 1  # type: ignore[type-var]
    children = rng.spawn(n_init or 1)
    run: Callable[..., Result] = partial(_run, problem, method, with_bound=with_bound, **watch)
    for result in run_all(run, enumerate(children), n_jobs):
        yield result
        if result.status in _ENDED_FROM_OUTSIDE:
            return


def best_run(problem: ONMF | KLONMF, runs: Iterable[Result]) -> Result:
    """Return the run with the smallest objective, its columns sorted by decreasing weight.

    The bound of the first run applies to all. If the last run was ended from outside, the result
    has its status.
    """
    best: Result | None = None
    for result in runs:
        if best is None:
            best = result
        elif result.value < best.value:
            # The bound depends on the data alone, so it is computed with the first run only.
            best = with_bracket(problem, result, best.bound)
        if result.status in _ENDED_FROM_OUTSIDE:
            best = dataclasses.replace(best, status=result.status)
    assert best is not None
    return _in_order(best)


def _in_order(result: Result) -> Result:
    """Sort the columns by decreasing ||A'x_j||, so that the order does not depend on the search."""
    Y = np.asarray(result.Y)
    order = np.argsort(-np.linalg.norm(Y, axis=0), kind="stable")
    return dataclasses.replace(result, point=result.point.renumbered(order), Y=Y[:, order])


def _run(
    problem: ONMF | KLONMF, method: OuterMethod, i: int, rng: np.random.Generator, **options: Any
) -> Result:
    """Run the i-th start to a fixed point of the alternation."""
    # The bound is the same for all starts.
    options["with_bound"] = options["with_bound"] and i == 0
    X0 = _start(problem, method, i, rng)
    # `finish_alternation` ends each run: alternation, and moves of single rows.
    result = solve(problem, X0, method=method, search=False, **options)
    # A completed search is at a fixed point. If passes are expensive, an incomplete one is kept.
    is_settled = isinstance(X0, Centers) and (result.success or not problem.A.has_cheap_products)
    return result if is_settled else _finish_unless_interrupted(problem, result)


def _start(
    problem: ONMF | KLONMF, method: OuterMethod, i: int, rng: np.random.Generator
) -> FloatArray | Centers:
    """Return a start from singular vectors for the first run, a random one for the others."""
    if i > 0:
        return random_oblique_plus(*problem.shape, rng)
    own = as_outer_method(method).own_start(problem, rng)
    return problem.start(rng) if own is None else own


def starts_by_itself(method: OuterMethod) -> bool:
    """Return whether the method has its own ``n_init`` and ``seed``."""
    return as_outer_method(method).has_own_starts


def _finish_unless_interrupted(problem: ONMF | KLONMF, result: Result) -> Result:
    """Alternate to a fixed point; on Ctrl-C, keep the result as it was."""
    try:
        if isinstance(problem, KLONMF):
            return _finish_counts(problem, result)
        return finish_alternation(problem, result)
    except KeyboardInterrupt:
        return dataclasses.replace(result, status=Status.INTERRUPTED)


def finish_alternation(problem: ONMF, result: Result) -> Result:
    """Return the result at the fixed point of `alternate`, or the input if not better."""
    X, value = alternate(problem, result.X)
    return _at(problem, result, X) if value < result.value else result


def finish_from(problem: ONMF, result: Result, X: FloatArray) -> Result:
    """Return the result at the fixed point of `alternate` from X, or the input if not better."""
    X, value = alternate(problem, X)
    return _in_order(_at(problem, result, X)) if value < result.value else result


def _finish_counts(problem: KLONMF, result: Result) -> Result:
    """Return the result where no row gains by moving alone, or the input if it is not better."""
    method = KLAlternating(start="given", n_init=1)
    moved = solve(problem, result.X, method=method, with_bound=False)
    if not moved.value < result.value:
        return result
    return dataclasses.replace(
        result,
        point=moved.point,
        value=moved.value,
        stationarity=moved.stationarity,
        is_row_optimal=moved.is_row_optimal,
        Y=moved.Y,
    )


def _at(problem: ONMF, result: Result, X: FloatArray) -> Result:
    """Return the result at another point."""
    value, gradient = problem.value_and_gradient(X)
    moved = dataclasses.replace(
        result,
        point=SupportPoint.of(X),
        value=value,
        stationarity=stationarity(X, gradient),
        is_row_optimal=None,  # the moves were examined at the former point
        Y=problem.second_block(X),
    )
    return with_bracket(problem, moved, result.bound)
