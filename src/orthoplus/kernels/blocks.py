"""Row blocks for the compiled loops, distributed over threads.

Large matrices are split into blocks whose number depends on the size alone, and partial sums are
added in the order of the blocks. The result is bitwise identical for any number of threads.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import Any

from orthoplus.kernels.threads import limited_threads, n_threads, set_most_threads, single_blas

# Below this many entries one pass takes less than a millisecond, and a second thread does not pay
# off (measured: 2000 x 100 is 2.5 times slower with two threads than with one).
PARALLEL_SIZE = 1 << 20
BLOCK_SIZE = 1 << 18
MAX_BLOCKS = 32


@cache
def _pool(threads: int, pid: int) -> ThreadPoolExecutor:
    # The key includes the process id because a pool does not survive a fork. Its threads may not
    # use the pool themselves: nested passes would wait for each other.
    return ThreadPoolExecutor(
        threads, thread_name_prefix="orthoplus", initializer=set_most_threads, initargs=(1,)
    )


def partition_rows(n: int, k: int, least: int = 1) -> list[slice]:
    """Return the row ranges of a fixed partition; one range if the matrix is small.

    ``least`` is the smallest number of rows per block: below it, adding the partial sums of the
    blocks takes longer than the threads save.
    """
    size = n * k
    if size < PARALLEL_SIZE:
        return [slice(0, n)]
    blocks = max(1, min(MAX_BLOCKS, n // max(1, least), size // BLOCK_SIZE))
    edges = [n * b // blocks for b in range(blocks + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]


def for_blocks(work: Callable[[int, slice], Any], blocks: list[slice]) -> None:
    """Run ``work(number, rows)`` for every block, in threads if there are several blocks.

    Each thread, including the caller's, takes the next remaining block, so that there is one task
    per thread rather than one per block. Meanwhile BLAS uses a single thread in each of them.
    """
    threads = min(n_threads(), len(blocks)) if len(blocks) > 1 else 1
    left = deque(enumerate(blocks))

    def take() -> None:
        while True:
            try:
                number, rows = left.popleft()  # atomic, unlike `next` on a shared iterator
            except IndexError:
                return
            work(number, rows)

    if threads == 1:
        take()
        return
    with single_blas, limited_threads(1):
        others = [_pool(threads - 1, os.getpid()).submit(take) for _ in range(threads - 1)]
        try:
            take()
        finally:
            wait(others)
        for other in others:
            other.result()
