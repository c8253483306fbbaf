"""Independent runs in parallel processes that share the processors."""

from collections.abc import Callable, Iterable, Iterator
from numbers import Integral
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs

from orthoplus.core.checks import describe
from orthoplus.core.errors import InputError
from orthoplus.kernels.threads import limited_threads, n_threads


def count_jobs(n_jobs: int | None) -> int:
    """Return how many processes joblib would use; raise for values that it cannot use.

    Examples
    --------
    >>> count_jobs(3)
    3
    >>> count_jobs(0)
    Traceback (most recent call last):
    orthoplus.InputError: `n_jobs=0` is not a number of processes: ...
    """
    is_whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not is_whole or n_jobs == 0):
        raise InputError(
            f"`n_jobs={describe(n_jobs)}` is not a number of processes: it must be a positive "
            f"integer, or -1 for one process per processor."
        )
    return int(effective_n_jobs(n_jobs))


def run_all(
    call: Callable[..., Any],
    given: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    *,
    is_ordered: bool = True,
) -> Iterator[Any]:
    """Yield ``call(*one)`` for each of ``given``, ``n_jobs`` at a time.

    Results are in the order of ``given`` if ``is_ordered``, otherwise in the order of completion.
    Joblib divides the BLAS threads, this function those of our own kernels. A single job runs in
    this process, and its results are computed lazily.

    Examples
    --------
    >>> list(run_all(max, [(1, 2), (4, 3)], None))
    [2, 4]
    """
    calls = list(given)
    jobs = min(count_jobs(n_jobs), len(calls))
    if jobs <= 1:
        yield from (call(*one) for one in calls)
        return
    share = max(1, n_threads() // jobs)
    parallel = Parallel(n_jobs=jobs, return_as="generator" if is_ordered else "generator_unordered")
    yield from parallel(delayed(_call_within)(share, call, one) for one in calls)


def _call_within(threads: int, call: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    with limited_threads(threads):
        return call(*given)
