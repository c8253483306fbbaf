"""Row blocks and threads for the compiled loops.

Large matrices are cut into blocks whose number depends on the size alone, and partial sums are
added in the order of the blocks: the answer has the same bits for any number of threads.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

# Below this many entries a pass takes less than a millisecond and a second thread costs more than
# it gives (measured: 2000 x 100 is 2.5 times slower with two threads than with one).
PARALLEL_SIZE = 1 << 20
BLOCK_SIZE = 1 << 18
MAX_BLOCKS = 32


def n_threads() -> int:
    """Threads for large passes: ``ORTHOPLUS_NUM_THREADS``, else the processors we may run on."""
    wanted = os.environ.get("ORTHOPLUS_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(threads: int, pid: int) -> ThreadPoolExecutor:
    # Keyed by process: a pool does not survive a fork.
    return ThreadPoolExecutor(threads, thread_name_prefix="orthoplus")


def row_blocks(n: int, k: int) -> list[slice]:
    """Row ranges of a fixed partition; one range when the matrix is small."""
    size = n * k
    if size < PARALLEL_SIZE:
        return [slice(0, n)]
    blocks = min(MAX_BLOCKS, n, size // BLOCK_SIZE)
    edges = [n * b // blocks for b in range(blocks + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]


def for_blocks(work: Callable[[int, slice], Any], blocks: list[slice]) -> None:
    """Run ``work(number, rows)`` for every block, on threads when that pays."""
    threads = min(n_threads(), len(blocks)) if len(blocks) > 1 else 1
    if threads == 1:
        for number, rows in enumerate(blocks):
            work(number, rows)
    else:
        list(_pool(threads, os.getpid()).map(work, range(len(blocks)), blocks))
