"""The functions `minimize` for a callable, `solve` for a problem, and `project`."""

import dataclasses
import inspect
import logging
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from orthoplus.core.bounds import with_bracket
from orthoplus.core.checks import (
    as_generator,
    check_count,
    check_positive,
    check_range,
    check_shape,
    check_type,
    describe,
)
from orthoplus.core.errors import CallbackError, InputError, InputTypeError
from orthoplus.core.outer_method import (
    OuterMethod,
    OuterMethodBase,
    OuterState,
    as_outer_method,
    with_seed,
)
from orthoplus.core.problem import Problem, check_problem
from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray
from orthoplus.data import as_dense_data
from orthoplus.data.groups import Centers
from orthoplus.methods.search.support_search import SupportSearch
from orthoplus.problems import Smooth
from orthoplus.projection.merged import project_data
from orthoplus.run.attempts import Attempts, Followers
from orthoplus.run.checkpoint import check_writable, read_checkpoint
from orthoplus.run.fingerprint import Fingerprint, differences, fingerprint
from orthoplus.run.monitor import Budget, Callback
from orthoplus.run.presets import preset_of, search_after
from orthoplus.run.start_point import read_any_start, read_start

# A matrix in row blocks with at most this many rows is projected in memory.
SMALL_ROWS = 1 << 12


def minimize(  # noqa: PLR0913
    fun: Callable[..., Any],
    X0: FloatArray | tuple[int, int],
    *,
    jac: Callable[..., Any] | bool | None = None,
    hessp: Callable[..., Any] | None = None,
    method: OuterMethod | None = None,
    n_init: int | None = None,
    rng: np.random.Generator | int | None = None,
    **options: Any,
) -> Result:
    r"""Minimize a smooth f over :math:`S_+ = \{X \ge 0 : X^\top X = I\}`, (1.1).

    Parameters
    ----------
    fun : callable
        Objective ``fun(X) -> float`` for X of shape (n, k); with ``jac=True``, it returns ``(float,
        gradient)``.
    X0 : array of shape (n, k), or (n, k)
        Starting point; a point outside OB+ is projected onto it. If a shape is given, the start is
        random.
    jac : callable, True or None
        Euclidean gradient ``jac(X)``. If None, finite differences are used, for small problems
        only. For JAX and PyTorch functions see `orthoplus.autodiff`.
    hessp : callable, optional
        Hessian product ``hessp(X, D) -> f''(X)[D]`` for the second-order solver. If None, finite
        differences are used.
    method : EP4Orth, optional
        The method with its options.
    n_init : int, optional
        Number of starts, of which the best result is kept; by default 1.
    rng : Generator or int, optional
        Random state of random starts and of the search over supports. By default, the seed is 0.
    **options
        As in `solve`: ``search, callback, time_limit, resume, checkpoint, checkpoint_every,
        with_bound``.

    Returns
    -------
    Result

    Notes
    -----
    Each step costs one call of ``fun`` and ``jac``, plus O(nk).

    Examples
    --------
    >>> C = np.array([[2.0, 0.1], [1.0, 0.2], [0.3, 1.0]])
    >>> result = minimize(lambda X: -(C * X).sum(), (3, 2), jac=lambda X: -C)
    >>> result.labels
    array([0, 0, 1])
    >>> round(result.value, 12)  # -(sqrt(2^2 + 1^2) + 1)
    -3.2360679775
    """
    if isinstance(fun, Problem):
        raise InputTypeError("`fun` is a problem object. Call `orthoplus.solve(problem, X0)`.")
    if unknown := options.keys() - inspect.signature(solve).parameters.keys():
        name = min(unknown)
        raise InputTypeError(
            f"`{name}` is not an option of `minimize`. Options of a method are its own arguments, "
            f"as in `method=EP4Orth(max_iter=100)`; see `help(orthoplus.solve)` for the others."
        )
    problem = Smooth(fun, read_start(X0)[1], jac=jac, curvature=hessp)
    return solve(problem, X0, method=method, n_init=n_init, rng=rng, **options)


def solve(  # noqa: PLR0913
    problem: Problem,
    X0: FloatArray | Centers | tuple[int, int] | None = None,
    *,
    method: OuterMethod | None = None,
    n_init: int | None = None,
    rng: np.random.Generator | int | None = None,
    search: SupportSearch | bool = True,
    callback: Callback | None = None,
    time_limit: float | None = None,
    resume: OuterState | str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 0.0,
    with_bound: bool = True,
) -> Result:
    """Minimize a problem over S+.

    Parameters
    ----------
    problem : Problem
        One of `orthoplus.problems`, or your own subclass of `Problem`.
    X0 : array of shape (n, k), optional
        Starting point; a point outside OB+ is projected onto it. By default, or if only the shape
        (n, k) is given, the start of the problem; for `SwapSearch`, the centers of
        `orthoplus.linalg.starts.leading_centers`.
    method : EP4Orth, SwapSearch, SupportSearch or another, optional
        By default, the best known method for this kind of problem; see `orthoplus.run.presets`.
    n_init : int, optional
        Number of independent runs, of which the best result is kept. The first starts from X0, the
        others from further starts of the problem (`Problem.starts`). The default is 1, or 2 for the
        trace family.
    rng : Generator or int, optional
        Random state of the starts, of methods that draw random numbers, and of the search over
        supports. By default, the seed is 0.
    search : bool or SupportSearch
        Whether a search over supports follows rounding and refinement; see `SupportSearch`. It
        never makes the result worse. It is skipped for baselines and for methods that include a
        search, and for an X with more than 2^18 entries unless a `SupportSearch` is given.
    callback : callable, optional
        Called as ``callback(state)`` after every outer iteration; if it returns True, the run ends.
    time_limit : float, optional
        Time limit in seconds, checked whenever f is evaluated.
    resume : state or path, optional
        State or checkpoint to continue from, bit for bit; X0 is then ignored. A checkpoint of
        different data, or of a different problem, method or version, raises an error.
    checkpoint : path, optional
        File to which the state is saved atomically after every outer iteration.
    checkpoint_every : float
        Minimum number of seconds between two checkpoints; the last state is always saved.
    with_bound : bool
        Whether to compute the problem's bound, which may cost a truncated SVD.

    Returns
    -------
    Result
        The result is never worse than the rounded last iterate or the rounded X0. Ctrl-C ends the
        run and returns the best point so far.

    Notes
    -----
    A step of the default first-order method costs one evaluation of f with its gradient, plus
    O(nk).

    Examples
    --------
    >>> import orthoplus as op
    >>> result = op.solve(op.problems.Projection(np.array([[3.0, 0.0], [4.0, 1.0], [0.0, 2.0]])))
    >>> result.X.round(3)
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 1. ]])
    """
    check_problem(problem)
    X, notes = read_any_start(X0, problem)
    _check_watch(callback, time_limit, checkpoint, checkpoint_every)
    if method is not None:
        as_outer_method(method)  # raises if it is not a method
    check_type(search, "search", bool, np.bool_, SupportSearch)
    preset = preset_of(problem)
    is_default = method is None and X is None and resume is None
    if n_init is None:  # one run, unless everything is left to the preset
        n_init = preset.n_init if is_default else 1
    check_count(n_init, "n_init", low=1)
    if resume is not None and n_init > 1:
        raise InputError(f"`n_init={n_init}` cannot be combined with `resume`. Use `n_init=1`.")
    budget = Budget(np.inf if time_limit is None else time_limit)
    working = problem if method is not None else preset.reduce(problem)
    generator = as_generator(rng)
    starts = working.starts(generator.spawn(1)[0])
    runs = Attempts(
        problem, working, budget, Followers(callback, checkpoint, checkpoint_every), notes
    )
    for number, child in enumerate(generator.spawn(n_init)):
        # Without `rng`, the first run uses the seeds of the method's own options.
        seed = child if rng is not None or number > 0 else None
        own, own_search = _prepared(method or preset.method(working, number), problem, search, seed)
        mark = None if checkpoint is None and resume is None else fingerprint(problem, own)
        state = _read_state(resume, problem, own, mark)
        start = _start(working, own, starts, X if number == 0 else None) if state is None else None
        runs.add(own, start, own_search, state=state, mark=mark)
        # Only the first result is challenged, so that further starts never give a worse result.
        if number == 0 and is_default and preset.challenger is not None:
            better = runs.better_start(as_outer_method(preset.challenger))
            if better is not None:
                seed = None if seed is None else child.spawn(1)[0]
                own, own_search = _prepared(preset.method(working, 0), problem, search, seed)
                runs.add(own, better, own_search, mark=mark)
        if runs.is_over:
            break
    assert runs.best is not None
    result = with_bracket(problem, runs.best, problem.lower_bound() if with_bound else None)
    result = dataclasses.replace(result, n_eval=budget.n_eval, seconds=budget.seconds)
    if runs.failure is not None:
        raise _callback_error(runs.failure, result) from runs.failure
    return result


def project(
    C: Any,
    *,
    tol: float = 1e-12,
    max_passes: int | None = None,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
) -> Result:
    r"""Find the nearest matrix of S+ with a proof, maximizing :math:`\langle C, X \rangle` over S+.

    Parameters
    ----------
    C : array of shape (n, k)
        A float32 or float64 array in any memory order. Memory maps, h5py datasets, Zarr arrays and
        Dask arrays are read in blocks of rows; for these, every column needs a positive entry. For
        a Dask array, ``labels`` and ``weights`` are Dask arrays.
    tol : float
        Relative gap at or below which the point counts as optimal. A larger value saves time if the
        proof is the slow part.
    max_passes : int, optional
        Maximum number of passes over C. If the relaxation leaves a gap, branch and bound follows,
        whose nodes count as one or several passes. By default 100, or unlimited if there is a time
        limit.
    time_limit : float, optional
        Seconds after which no further pass or node starts.
    memory_limit : int or str, optional
        Memory for blocks of C in bytes, or a string such as "512MB"; see `orthoplus.data.as_data`.

    Returns
    -------
    Result
        ``value`` is <C, X>, ``bound`` is an upper bound on it over S+, rounded up, and ``gap`` is
        their relative distance. ``status`` is CERTIFIED or GAP_LEFT, and ``n_iter`` is the number
        of passes over C, rounded up. A gap of about 1e-15 is due to rounding.

    Raises
    ------
    ValueError
        If C contains NaN or infinity, has more columns than rows, or has entries so large that <C,
        X> overflows; in the last case, divide C by a constant.

    Notes
    -----
    Over S+ the nearest point maximizes <C, X>, because ||X||^2 = k. See
    `orthoplus.projection.project_stiefel_plus` for the method. A pass costs O(nk); memory beyond C
    is O(n + k) until ``result.X`` is accessed.

    Examples
    --------
    >>> result = project(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]]))
    >>> result.labels, result.value, result.gap < 1e-14
    (array([0, 0, 1]), 7.0, True)
    """
    check_range(tol, "tol", low=0.0)
    if max_passes is not None:
        check_count(max_passes, "max_passes", low=1)
    if time_limit is not None:
        check_positive(time_limit, "time_limit", finite=False)
    limits: dict[str, Any] = {"tol": tol, "max_passes": max_passes, "time_limit": time_limit}
    budget = Budget()
    data = as_dense_data(C, "C", memory_limit=memory_limit)
    check_shape(*data.shape, "C")
    found = project_data(data, small_rows=SMALL_ROWS, **limits)
    return Result(
        point=data.point(found.labels, found.weights, data.shape[1]),
        value=found.value,
        # A certified point is globally optimal and thus stationary; otherwise this is unknown.
        stationarity=0.0 if found.status.success else np.nan,
        status=found.status,
        n_iter=math.ceil(found.passes),
        n_eval=math.ceil(found.passes),
        seconds=budget.seconds,
        bound=found.bound,
        gap=found.gap,
    )


def _prepared(
    method: OuterMethod,
    problem: Problem,
    search: SupportSearch | bool,
    rng: np.random.Generator | None,
) -> tuple[OuterMethodBase, SupportSearch | None]:
    """Return a method and the search after it, with seeds drawn from ``rng`` if it is given."""
    own = as_outer_method(method)
    own_search = search_after(own, problem.shape, search)
    if rng is not None:
        own = own.reseeded(rng)
        own_search = None if own_search is None else with_seed(own_search, rng)
    return own, own_search


def _read_state(
    resume: OuterState | str | os.PathLike[str] | None,
    problem: Problem,
    method: OuterMethodBase,
    mark: Fingerprint | None,
) -> OuterState | None:
    """Return the state to continue from; raise if its method, problem or run differs."""
    if resume is None:
        return None
    state: Any = resume
    made_for = None
    if isinstance(resume, (str, os.PathLike)):
        state, made_for = read_checkpoint(resume)
    check_type(state, "resume", method.state_type)
    # A state that is not read from a file has no fingerprint: its shape must agree at least.
    size = method.shape_of(state, problem)
    if size != problem.shape:
        raise InputError(
            f"`resume` is a state of shape {size}, but the problem has shape "
            f"{problem.shape}: it belongs to another problem. Pass a state of this problem."
        )
    changed = [] if made_for is None or mark is None else differences(made_for, mark)
    if changed:
        raise InputError(
            f"`resume`: {resume} belongs to another run, "
            f"which differs from this one in {' and '.join(changed)}. Use the same data, "
            f"problem and options, or start a new run."
        )
    logging.getLogger("orthoplus").info("resumed after iteration %d", state.n_iter)
    return state


def _callback_error(failure: Exception, result: Result) -> CallbackError:
    return CallbackError(
        f"The callback raised {type(failure).__name__}: {failure} (outer iteration "
        f"{result.n_iter}). The best point so far is in the `result` of this exception.",
        result,
    )


def _check_watch(
    callback: object,
    time_limit: float | None,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: float,
) -> None:
    """Check the options that monitor a run before it starts."""
    check_range(checkpoint_every, "checkpoint_every", low=0.0)
    if time_limit is not None:
        check_positive(time_limit, "time_limit", finite=False)
    if callback is not None and not callable(callback):
        raise InputTypeError(f"`callback` must be callable, got {describe(callback)}.")
    if checkpoint is not None:
        check_writable(checkpoint, "checkpoint")


def _start(
    problem: Problem,
    method: OuterMethodBase,
    starts: Iterator[FloatArray],
    X: FloatArray | Centers | None,
) -> FloatArray | Centers:
    """Return the given start, the start of the method, or the next start of the problem."""
    if isinstance(X, Centers):
        method.check_start(problem, X)
    if X is None:
        X = method.own_start(problem, np.random.default_rng(0))
    return next(starts) if X is None else X
