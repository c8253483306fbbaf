"""Row blocks and threads for the compiled loops.

Large matrices are cut into blocks whose number depends on the size alone, and partial sums are
added in the order of the blocks: the answer has the same bits for any number of threads.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from typing import Any

# Below this many entries a pass takes less than a millisecond and a second thread costs more than
# it gives (measured: 2000 x 100 is 2.5 times slower with two threads than with one).
PARALLEL_SIZE = 1 << 20
BLOCK_SIZE = 1 << 18
MAX_BLOCKS = 32

_most_threads: ContextVar[int | None] = ContextVar("orthoplus_threads", default=None)


def n_threads() -> int:
    """Threads for large passes: ``ORTHOPLUS_NUM_THREADS``, else the processors we may run on.

    Within `limited_threads` at most as many as that says.
    """
    most = _most_threads.get()
    return _wanted_threads() if most is None else min(most, _wanted_threads())


def _wanted_threads() -> int:
    wanted = os.environ.get("ORTHOPLUS_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def limited_threads(most: int) -> Iterator[None]:
    """Within this block at most so many threads of our own: others run beside it.

    Examples
    --------
    >>> with limited_threads(1):
    ...     n_threads()
    1
    """
    token = _most_threads.set(most)
    try:
        yield
    finally:
        _most_threads.reset(token)


@cache
def _blas() -> Any:
    # Looking for the libraries takes milliseconds: once. All that we use are loaded by now.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def single_blas() -> Iterator[None]:
    """One BLAS thread in each of the threads at work: together they would be too many.

    For the thread that hands out the work: a number set by one of a pool may outlast its work.
    """
    with _blas().limit(limits=1):
        yield


@cache
def _pool(threads: int, pid: int) -> ThreadPoolExecutor:
    # Keyed by process: a pool does not survive a fork. Its threads take no further ones: a pass
    # within a pass would wait for threads that wait for it.
    return ThreadPoolExecutor(
        threads, thread_name_prefix="orthoplus", initializer=_most_threads.set, initargs=(1,)
    )


def row_blocks(n: int, k: int, least: int = 1) -> list[slice]:
    """Row ranges of a fixed partition; one range when the matrix is small.

    ``least`` is the number of rows below which a block costs more than it gives: what a block adds
    up has to be added to the others.
    """
    size = n * k
    if size < PARALLEL_SIZE:
        return [slice(0, n)]
    blocks = max(1, min(MAX_BLOCKS, n // max(1, least), size // BLOCK_SIZE))
    edges = [n * b // blocks for b in range(blocks + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]


def for_blocks(work: Callable[[int, slice], Any], blocks: list[slice]) -> None:
    """Run ``work(number, rows)`` for every block, on threads when that pays.

    Each thread, the caller's too, takes the next block that is left: one task a thread and pass,
    not one a block. While they run, BLAS has one thread in each of them.
    """
    threads = min(n_threads(), len(blocks)) if len(blocks) > 1 else 1
    left = iter(list(enumerate(blocks)))

    def take() -> None:
        for number, rows in left:
            work(number, rows)

    if threads == 1:
        take()
        return
    with single_blas(), limited_threads(1):
        others = [_pool(threads - 1, os.getpid()).submit(take) for _ in range(threads - 1)]
        try:
            take()
        finally:
            wait(others)
        for other in others:
            other.result()
