"""Distribute the time over blocks of rows: first to the fastest bounds, then to merged blocks."""

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from time import perf_counter

import numpy as np

from orthoplus.certify.blocks import Block, cut_rows, rows_per_block, thread_pool
from orthoplus.certify.certificate import DensePart
from orthoplus.certify.model import Model
from orthoplus.core.point import SupportPoint
from orthoplus.kernels.threads import n_threads, single_blas

# Parts of its share of the time that a block gets in its first turn and in later turns.
_FIRST_PART, _TURN_PART = 0.4, 0.15
# Relaxations are kept between turns if they take at most this many bytes in total; each takes about
# this many matrices of its order.
_MOST_BYTES, _MATRICES = 2e9, 10
# Merged blocks have at most this many rows, and at least this many turns must be left.
_MOST_MERGED, _TURNS_LEFT = 3000, 4.0

Bounds = Iterator[tuple[float, tuple[DensePart, ...]]]


def bounds_by_blocks(
    model: Model, point: SupportPoint, deadline: float, speed: float = 1.0
) -> Bounds:
    """Yield decreasing upper bounds on <M, XX'>, one after each turn of a block.

    ``speed`` is the share of a processor per thread, which determines the size of the blocks.
    """
    assert model.factor is not None
    seconds = deadline - perf_counter()
    size = rows_per_block(model, seconds * speed)
    n_blocks = -(-model.n // size)
    rows = cut_rows(point.labels, point.weights, n_blocks)
    # The processor time per block if all threads are busy.
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
    """Schedule the blocks: those that form the bound, those waiting for a turn, and merged ones."""

    def __init__(self, blocks: list[Block], first: float, turn: float) -> None:
        self.blocks, self.first, self.turn = blocks, first, turn
        self.idle = list(blocks)
        self.parents: dict[int, tuple[Block, Block]] = {}

    def next(self) -> Block | None:
        """Return the block whose bound falls fastest; blocks without a turn so far come first."""
        waiting = [block for block in self.idle if not block.is_done]
        if not waiting:
            return None
        # Blocks without a turn have an infinite rate: among them, take the loosest.
        best = max(waiting, key=lambda block: (block.rate, block.loss))
        self.idle.remove(best)
        return best

    def seconds(self, block: Block) -> float:
        """Return the length of the next turn of a block."""
        return self.first if np.isinf(block.rate) else self.turn

    def back(self, block: Block) -> None:
        """Return a block after its turn; a merged one replaces its parents once it is better."""
        self.idle.append(block)
        parents = self.parents.get(id(block))
        if parents and block.found.upper < sum(parent.found.upper for parent in parents):
            del self.parents[id(block)]
            self.blocks = [b for b in self.blocks if not any(b is parent for parent in parents)]
            self.blocks.append(block)

    def merge(self, model: Model, point: SupportPoint) -> bool:
        """Merge the two loosest finished blocks; return whether there were two."""
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
