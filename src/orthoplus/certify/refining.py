"""Which blocks of rows get the time: those whose bounds fall fastest, merged ones in the end."""

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from time import perf_counter

import numpy as np

from orthoplus.certify.blocks import Block, cut_rows, rows_per_block, thread_pool
from orthoplus.certify.certificate import DensePart
from orthoplus.certify.model import Model
from orthoplus.core.point import SupportPoint
from orthoplus.kernels.threads import n_threads, single_blas

# The part of its share of the time that every block gets at first, and that a turn takes later.
_FIRST_PART, _TURN_PART = 0.4, 0.15
# Relaxations are kept between turns if they take no more bytes than this in all; one takes about
# so many matrices of its order.
_MOST_BYTES, _MATRICES = 2e9, 10
# Merged blocks have at most so many rows, and so many times the seconds of a turn must be left.
_MOST_MERGED, _TURNS_LEFT = 3000, 4.0

Bounds = Iterator[tuple[float, tuple[DensePart, ...]]]


def bounds_by_blocks(
    model: Model, point: SupportPoint, deadline: float, speed: float = 1.0
) -> Bounds:
    """Yield falling upper bounds of <M, XX'>, after every turn of a block.

    The part of a processor that a thread has, ``speed``, decides on the size of the blocks.
    """
    assert model.factor is not None
    seconds = deadline - perf_counter()
    size = rows_per_block(model, seconds * speed)
    n_blocks = -(-model.n // size)
    rows = cut_rows(point.labels, point.weights, n_blocks)
    share = seconds * min(n_threads(), n_blocks) / n_blocks
    with single_blas:
        blocks = [Block(model, point, own) for own in rows]
    yield _total(blocks)
    is_kept = model.n * size * 8.0 * _MATRICES <= _MOST_BYTES
    plan = _Plan(blocks, share if not is_kept else _FIRST_PART * share, _TURN_PART * share)
    yield from _run(plan, point, deadline, is_kept=is_kept)


def _total(blocks: list[Block]) -> tuple[float, tuple[DensePart, ...]]:
    return float(sum(b.found.upper for b in blocks)), tuple(b.found.part for b in blocks)


class _Plan:
    """The blocks whose bounds add up, those that wait for a turn, and those that are merged."""

    def __init__(self, blocks: list[Block], first: float, turn: float) -> None:
        self.blocks, self.first, self.turn = blocks, first, turn
        self.idle = list(blocks)
        self.parents: dict[int, tuple[Block, Block]] = {}

    def next(self) -> Block | None:
        """Return the block whose bound falls fastest; one that had no turn comes first."""
        waiting = [block for block in self.idle if not block.is_done]
        if not waiting:
            return None
        # Of those that had no turn, the loosest.
        best = max(waiting, key=lambda block: (block.rate, block.loss))
        self.idle.remove(best)
        return best

    def seconds(self, block: Block) -> float:
        """Return how long the next turn of a block takes."""
        return self.first if np.isinf(block.rate) else self.turn

    def back(self, block: Block) -> None:
        """Take a block back after its turn; a merged one replaces its parents once it is better."""
        self.idle.append(block)
        parents = self.parents.get(id(block))
        if parents and block.found.upper < sum(parent.found.upper for parent in parents):
            del self.parents[id(block)]
            self.blocks = [b for b in self.blocks if not any(b is parent for parent in parents)]
            self.blocks.append(block)

    def merge(self, model: Model, point: SupportPoint) -> bool:
        """Let the two loosest blocks continue as one; return whether there are any."""
        taken = [parent for pair in self.parents.values() for parent in pair]
        free = [b for b in self.blocks if b.is_done and not any(b is other for other in taken)]
        free = sorted(free, key=lambda block: block.loss)[-2:]
        if len(free) < 2 or sum(len(block.rows) for block in free) > _MOST_MERGED:
            return False
        rows = np.sort(np.concatenate([block.rows for block in free]))
        merged = Block(model, point, rows)
        self.parents[id(merged)] = (free[0], free[1])
        self.idle.append(merged)
        return True


def _run(plan: _Plan, point: SupportPoint, deadline: float, *, is_kept: bool) -> Bounds:
    threads = min(n_threads(), len(plan.blocks))
    waiting: dict[Future[None], Block] = {}
    with single_blas, thread_pool(threads) as (pool, stop):

        def submit() -> None:
            block = plan.next()
            if block is None and perf_counter() + _TURNS_LEFT * plan.turn < deadline:
                if plan.merge(plan.blocks[0].model, point):
                    block = plan.next()
            if block is None:
                return
            end = min(perf_counter() + plan.seconds(block), deadline) if not is_kept else deadline
            task = pool.submit(block.improve, plan.seconds(block), end, stop)
            waiting[task] = block

        for _ in range(threads):
            submit()
        while waiting:
            for task in wait(waiting, return_when=FIRST_COMPLETED).done:
                block = waiting.pop(task)
                task.result()
                if not is_kept:
                    block.release()
                plan.back(block)
                if perf_counter() < deadline:
                    submit()
            yield _total(plan.blocks)
