"""From a nonnegative matrix to its orthogonal factorisation: method, starts, closing alternation.

The one place that says which method and which starts the estimators use.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import norm

from orthoplus import kernels
from orthoplus.checks import check_choice, check_count
from orthoplus.geometry import (
    assemble,
    labels_of,
    random_oblique_plus,
)
from orthoplus.loop import OuterMethod
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.optimality import stationarity
from orthoplus.problems import ONMF
from orthoplus.protocols import FloatArray, IntArray
from orthoplus.result import Result
from orthoplus.solve import solve
from orthoplus.starts import svd_start
from orthoplus.status import Status

METHODS: dict[str, Callable[[ONMF], OuterMethod]] = {
    "auto": lambda problem: EP4Orth(),
    "ep4orth": lambda problem: EP4Orth.for_onmf(size=problem.total or 1.0),
    "unmixing": lambda problem: EP4Orth.for_unmixing(size=problem.total or 1.0),
}

# Each round lowers the objective; a few dozen settle ten thousand rows.
_MAX_ROUNDS = 200
_ENDED_FROM_OUTSIDE = (Status.INTERRUPTED, Status.TIME_LIMIT, Status.CALLBACK)
# Two fits this near, in units of the rounding, are equal: the first column is taken.
_TIE = 100


def choose_method(
    problem: ONMF, method: str | OuterMethod, *, max_iter: int | None, tol: float | None
) -> OuterMethod:
    """The method by its name, or itself; with its iteration limit and its tolerance replaced."""
    if isinstance(method, str):
        check_choice(method, "method", tuple(METHODS))
        method = METHODS[method](problem)
    if max_iter is None and tol is None:
        return method
    names = {field.name for field in dataclasses.fields(method)}  # type: ignore[arg-type]
    tol_name = "feasibility_tol" if "feasibility_tol" in names else "tol"
    given = {"max_iter": max_iter, tol_name: tol}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in changes.keys() - names:
        raise ValueError(
            f"`{name}` cannot be set for the method {type(method).__name__}: it has no option of "
            f"that name. Leave it out, and set the options on the method object."
        )
    return dataclasses.replace(method, **changes)  # type: ignore[type-var]


def factorise(
    problem: ONMF,
    method: OuterMethod,
    *,
    n_init: int,
    rng: np.random.Generator,
    with_bound: bool = False,
    **watch: Any,
) -> Result:
    """The best of several runs, the first from the singular vectors, the others at random.

    Each is settled: no row would fit another column better, but for ties. ``watch`` goes to
    `solve`: callback, time_limit, resume, checkpoint; a run that is ended by them is the last.
    """
    check_count(n_init, "n_init", low=1)
    best: Result | None = None
    for i, child in enumerate(rng.spawn(n_init)):
        X0 = (
            svd_start(problem.A, problem.shape[1], "clipped", child)
            if i == 0
            else random_oblique_plus(*problem.shape, child)
        )
        # The bound is the same for all of them.
        result = solve(problem, X0, method=method, with_bound=with_bound and i == 0, **watch)
        result = _settle_unless_interrupted(problem, result)
        if best is None:
            best = result
        elif result.value < best.value:
            best = dataclasses.replace(
                result, bound=best.bound, gap=_relative_gap(result.value, best.bound)
            )
        if result.status in _ENDED_FROM_OUTSIDE:
            return dataclasses.replace(best, status=result.status)
    assert best is not None
    return best


def _settle_unless_interrupted(problem: ONMF, result: Result) -> Result:
    """Ctrl-C while settling keeps the point as it was."""
    try:
        return settle(problem, result)
    except KeyboardInterrupt:
        return dataclasses.replace(result, status=Status.INTERRUPTED)


def best_column(fits: FloatArray) -> IntArray:
    """The column of each row's largest entry; the first among those equal up to rounding."""
    top = fits.max(axis=1, keepdims=True)
    near = fits >= top * (1.0 - _TIE * np.finfo(fits.dtype).eps)
    return np.asarray(near.argmax(axis=1))


def settle(problem: ONMF, result: Result) -> Result:
    r"""Alternate between the best column of each row and the best vector of each column.

    .. math:: \min_x \|a_i - x y_j^\top\|^2 = \|a_i\|^2 - (a_i^\top y_j)^2 / \|y_j\|^2

    is least for the column with the largest cosine, and the leading singular vector is the best of
    a group: the objective never rises. A column that loses its last row takes the row that is
    fitted worst.
    """
    X, value = result.X, result.value
    sizes = norm(problem.A, axis=1) if issparse(problem.A) else _row_norms(problem.A)
    weights = np.where(sizes > 0, sizes, 1.0)
    for _ in range(_MAX_ROUNDS):
        labels = _reassign(problem, X, sizes)
        if (labels == np.where(sizes > 0, labels_of(X), -1)).all():
            break
        moved = problem.refine(assemble(labels, weights, problem.k))
        moved_value = problem.value(moved)
        if not moved_value < value:
            break
        X, value = moved, moved_value
    return result if X is result.X else _at(problem, result, X)


def _reassign(problem: ONMF, X: FloatArray, sizes: FloatArray) -> IntArray:
    """The best column of each row, -1 for a row of zeros; no column without a row."""
    Y = np.asarray(problem.second_block(X))
    norms = np.linalg.norm(Y, axis=0)
    fits = problem.A @ (Y / np.where(norms > 0, norms, 1.0))
    labels = best_column(fits)
    missed = np.maximum(sizes**2 - fits[np.arange(len(fits)), labels] ** 2, 0.0)
    labels[sizes == 0] = -1
    counts = np.bincount(labels[labels >= 0], minlength=problem.k)
    for column in np.flatnonzero(counts == 0):
        spare = (labels < 0) | (counts[labels] > 1)
        row = int(np.where(spare, missed, -1.0).argmax())
        if labels[row] >= 0:
            counts[labels[row]] -= 1
        labels[row], counts[column] = column, 1
    return labels


def _row_norms(A: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", A, A)))


def _at(problem: ONMF, result: Result, X: FloatArray) -> Result:
    """The same result at a better point."""
    value, gradient = problem.value_and_gradient(X)
    labels, weights = kernels.largest_entries(X)
    return dataclasses.replace(
        result,
        labels=labels,
        weights=weights,
        value=value,
        stationarity=stationarity(X, gradient),
        gap=_relative_gap(value, result.bound),
        Y=problem.second_block(X),
    )


def _relative_gap(value: float, bound: float | None) -> float | None:
    return None if bound is None else (value - bound) / (abs(bound) or 1.0)
