r"""Bounds for any number of rows, from blocks of them.

The groups of any X, cut up, are groups of each block of rows. For M = AA' and rows that are cut
into :math:`A_1, \dots, A_T` therefore

.. math:: \max \langle AA^\top, XX^\top \rangle \le \sum_t \max \langle A_t A_t^\top,
          X_t X_t^\top \rangle,

each term by the relaxation of a block. The loss is about k over the rows of a block, since each
block fits centers of its own; it is least if the blocks are alike, so every group is spread over
all of them.
"""

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event
from time import perf_counter
from typing import NamedTuple

import numpy as np

from orthoplus.certify.anytime import part_of, run_relaxation
from orthoplus.certify.certificate import DensePart
from orthoplus.certify.model import Model
from orthoplus.certify.relaxation import Relaxation
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.threads import n_threads, set_most_threads, single_blas

# Seconds that the relaxation of 600 rows needs to be worth it; it grows with the square.
_SECONDS, _ROWS = 3.0, 600
# Fewest and most rows of a block, and at least so many for each group.
_FEWEST, _MOST, _PER_GROUP = 100, 1500, 8
# Entries of A that may be held in memory.
_MOST_ENTRIES = 2.5e8


class BlockBound(NamedTuple):
    """An upper bound of one block, and what proves it."""

    upper: float
    part: DensePart


def can_be_cut(model: Model) -> bool:
    """Return whether M is a product whose rows fit into memory."""
    A = model.factor
    return A is not None and A.shape[0] * A.shape[1] <= _MOST_ENTRIES


def rows_per_block(model: Model, seconds: float) -> int:
    """Return how many rows a block may have, for this time in all."""
    # T = n / m blocks get seconds * threads / T each, and need _SECONDS * (m / _ROWS)^2.
    affordable = seconds * n_threads() * _ROWS**2 / (_SECONDS * model.n)
    least = max(_FEWEST, _PER_GROUP * model.k)
    return int(min(max(affordable, least), _MOST, model.n))


def expected_loss(model: Model, seconds: float) -> float:
    """Return about what share of the residual blocks lose in this time; infinity if too few fit."""
    rows = rows_per_block(model, seconds)
    needed = model.n * rows * _SECONDS / (_ROWS**2 * n_threads())
    return model.k / rows if needed <= 2.0 * seconds else np.inf


def cut_rows(labels: IntArray, weights: FloatArray, n_blocks: int) -> list[IntArray]:
    """Deal the rows into blocks that are alike: each group in the order of its weights.

    Examples
    --------
    >>> cut_rows(np.array([0, 0, 1, 1, 0, 1]), np.ones(6), 2)
    [array([0, 2, 3]), array([1, 4, 5])]
    """
    order = np.lexsort((weights, labels))
    place = np.arange(len(order))
    # To and fro, so that no block has the largest weight of every round.
    turn, number = np.divmod(place, n_blocks)
    number = np.where(turn % 2 == 0, number, n_blocks - 1 - number)
    return [np.sort(order[number == block]) for block in range(n_blocks)]


def bound_block(
    model: Model, point: SupportPoint, rows: IntArray, deadline: float, stop: Event
) -> BlockBound:
    """Bound <A_t A_t', XX'> of these rows by their relaxation, until the deadline or a stop."""
    assert model.factor is not None
    A = model.factor.sample_rows(rows).to_dense().astype(np.float64) * model.scale
    own = SupportPoint(point.labels[rows], point.weights[rows], model.k).normalized()
    upper, relaxation = bound_rows(A, own, model.has_row_sums, deadline, stop)
    return BlockBound(upper, part_of(relaxation, rows))


def bound_rows(
    A: FloatArray, own: SupportPoint, has_row_sums: bool, deadline: float, stop: Event
) -> tuple[float, Relaxation]:
    """Bound <AA', XX'> for rows in memory, and return the relaxation that does it."""
    M = A @ A.T
    start = (own.labels, own.weights)
    relaxation = Relaxation(M, own.k, has_row_sums=has_row_sums, start=start)
    sums = np.array([own.weights[own.labels == j] @ A[own.labels == j] for j in range(own.k)])
    upper = np.inf
    for found in run_relaxation(relaxation, float(np.vdot(sums, sums)), deadline):
        upper = found
        if stop.is_set():
            break
    return upper + rounding_margin(float(np.trace(M)), sum(A.shape)), relaxation


def bounds_by_blocks(
    model: Model, point: SupportPoint, deadline: float
) -> Iterator[tuple[float, tuple[DensePart, ...]]]:
    """Yield upper bounds of <M, XX'>, after each block that is done; the others count in full.

    Blocks run on threads, each with its share of the time. One whose time is over before it has
    begun counts with S = 0.
    """
    assert model.factor is not None
    seconds = deadline - perf_counter()
    n_blocks = -(-model.n // rows_per_block(model, seconds))
    blocks = cut_rows(point.labels, point.weights, n_blocks)
    A = model.factor
    squares = np.asarray(A.gather(A.row_squares())) * model.scale**2
    found = [_without(rows, squares) for rows in blocks]
    threads = min(n_threads(), n_blocks)
    share = seconds * threads / n_blocks
    with single_blas, thread_pool(threads) as (pool, stop):
        waiting: dict[Future[BlockBound], int] = {}
        left = iter(range(n_blocks))

        def submit() -> None:
            number = next(left, None)
            if number is not None and perf_counter() + share / 2 < deadline:
                end = min(perf_counter() + share, deadline)
                task = pool.submit(bound_block, model, point, blocks[number], end, stop)
                waiting[task] = number

        for _ in range(threads):
            submit()
        while waiting:
            for task in wait(waiting, return_when=FIRST_COMPLETED).done:
                number = waiting.pop(task)
                bounded = task.result()
                if bounded.upper < found[number].upper:
                    found[number] = bounded
                submit()
            yield float(sum(block.upper for block in found)), tuple(b.part for b in found)


@contextmanager
def thread_pool(threads: int) -> Iterator[tuple[ThreadPoolExecutor, Event]]:
    """Give threads, and an event that tells them to end soon because the caller has left."""
    stop = Event()
    with ThreadPoolExecutor(
        threads, thread_name_prefix="certify", initializer=set_most_threads, initargs=(1,)
    ) as pool:
        try:
            yield pool, stop
        finally:
            stop.set()


def _without(rows: IntArray, squares: FloatArray) -> BlockBound:
    """Bound a block by its squared norm, which S = 0 proves."""
    size = float(squares[rows].sum())
    nothing = np.zeros(0)
    cuts = np.zeros((0, 3), dtype=np.int64)
    upper = size + rounding_margin(size, len(rows))
    return BlockBound(upper, DensePart(rows, nothing, cuts, nothing))
