r"""Bounds for any number of rows from blocks of rows.

The groups of any X, restricted to a block of rows, are groups of that block. Therefore, if M = AA'
and the rows are divided into :math:`A_1, \dots, A_T`,

.. math:: \max \langle AA^\top, XX^\top \rangle \le \sum_t \max \langle A_t A_t^\top,
          X_t X_t^\top \rangle,

where each term is bounded by the relaxation of its block. The relative loss is about k over the
number of rows of a block, since each block fits its own centers. It is smallest if the blocks are
similar, so every group is spread over all of them.

Every block starts with the spectral bound. Then each relaxation runs for a short time, and the
remaining time goes to the blocks whose bounds fall fastest; see `orthoplus.certify.refining`.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
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
from orthoplus.kernels.threads import n_threads, set_most_threads

# Seconds that a relaxation of _BLOCK_ROWS rows needs to be worthwhile. They grow with the square of
# the rows, or with the cube if there are cuts.
_BLOCK_SECONDS, _BLOCK_SECONDS_WITH_CUTS, _BLOCK_ROWS = 3.0, 10.0, 600
# Fewest and most rows of a block, and fewest rows per group.
_FEWEST_ROWS, _MOST_ROWS, _ROWS_PER_GROUP = 100, 1500, 8
# A block is done if its bound exceeds the value of the answer by at most this share.
_CLOSED = 1e-10
# Maximum number of entries of A held in memory.
_MOST_ENTRIES = 2.5e8


class BlockBound(NamedTuple):
    """Hold an upper bound for one block and its proof."""

    upper: float
    part: DensePart


def can_be_cut(model: Model) -> bool:
    """Return whether M is a product AA' whose rows fit into memory."""
    A = model.factor
    return A is not None and A.shape[0] * A.shape[1] <= _MOST_ENTRIES


def rows_per_block(model: Model, seconds: float) -> int:
    """Return the number of rows per block for this total time."""
    # T = n / m blocks get seconds * threads / T each, and need
    # _BLOCK_SECONDS * (m / _BLOCK_ROWS)^2.
    per_row = seconds * n_threads() * _BLOCK_ROWS / model.n
    affordable = _BLOCK_ROWS * per_row / _BLOCK_SECONDS
    if model.has_ratios:
        affordable = _BLOCK_ROWS * float(np.sqrt(per_row / _BLOCK_SECONDS_WITH_CUTS))
    least = max(_FEWEST_ROWS, _ROWS_PER_GROUP * model.k)
    return int(min(max(affordable, least), _MOST_ROWS, model.n))


def expected_loss(model: Model, seconds: float) -> float:
    """Estimate the relative loss of blocks in this time; infinity if the blocks do not fit."""
    rows = rows_per_block(model, seconds)
    needed = model.n * rows * _BLOCK_SECONDS / (_BLOCK_ROWS**2 * n_threads())
    return model.k / rows if needed <= 2.0 * seconds else np.inf


def cut_rows(labels: IntArray, weights: FloatArray, n_blocks: int) -> list[IntArray]:
    """Divide the rows into similar blocks by dealing out each group in the order of its weights.

    Examples
    --------
    >>> cut_rows(np.array([0, 0, 1, 1, 0, 1]), np.ones(6), 2)
    [array([0, 2, 3]), array([1, 4, 5])]
    """
    order = np.lexsort((weights, labels))
    place = np.arange(len(order))
    # Deal back and forth, so that no block gets the largest weight of every round.
    turn, number = np.divmod(place, n_blocks)
    number = np.where(turn % 2 == 0, number, n_blocks - 1 - number)
    return [np.sort(order[number == block]) for block in range(n_blocks)]


class Block:
    """Bound <A_t A_t', XX'> for one block of rows and improve the bound by a relaxation.

    Attributes
    ----------
    found : BlockBound
        The best bound so far; the spectral bound at first.
    rate : float
        Decrease of the bound per second in its last turn.
    is_done : bool
        Whether the relaxation has converged, or the time limit is reached.
    """

    def __init__(self, model: Model, point: SupportPoint, rows: IntArray) -> None:
        self.model, self.rows = model, rows
        self._point = SupportPoint(point.labels[rows], point.weights[rows], model.k)
        A = self._entries()
        own = self._own()
        sums = np.array([own.weights[own.labels == j] @ A[own.labels == j] for j in range(own.k)])
        self.target = float(np.vdot(sums, sums))
        self.found = _without(A, rows, model)
        self.rate, self.is_done = np.inf, False
        self._bounds: Iterator[BlockBound] | None = None

    def _entries(self) -> FloatArray:
        assert self.model.factor is not None
        rows = self.model.factor.sample_rows(self.rows).to_dense()
        return np.asarray(rows.astype(np.float64) * self.model.scale)

    def _own(self) -> SupportPoint:
        return self._point.normalized()

    @property
    def loss(self) -> float:
        """Difference between the bound and the value of the answer on this block."""
        return self.found.upper - self.target

    def improve(self, seconds: float, deadline: float, stop: Event) -> None:
        """Continue the relaxation for some seconds, and at least until its next bound."""
        if self._bounds is None:
            self._bounds = self._improve(deadline)
        started, before = perf_counter(), self.found.upper
        while not stop.is_set():
            found = next(self._bounds, None)
            if found is None:
                self.release()
                break
            if found.upper < self.found.upper:
                self.found = found
            if self.loss <= _CLOSED * self.target:
                self.release()
            if self.is_done or perf_counter() >= min(started + seconds, deadline):
                break
        self.rate = (before - self.found.upper) / max(perf_counter() - started, 1e-6)

    def _improve(self, deadline: float) -> Iterator[BlockBound]:
        A, own = self._entries(), self._own()
        for upper, relaxation in bounds_of_rows(A, own, self.model, deadline):
            if upper < self.found.upper:
                yield BlockBound(upper, part_of(relaxation, self.rows))
            else:
                yield BlockBound(upper, self.found.part)

    def release(self) -> None:
        """Free the relaxation and keep its bound."""
        self._bounds, self.is_done = None, True


def bounds_of_rows(
    A: FloatArray, own: SupportPoint, model: Model, deadline: float
) -> Iterator[tuple[float, Relaxation]]:
    """Yield bounds on <AA', XX'> for rows in memory, with the relaxation that gives them."""
    M = A @ A.T
    margin = rounding_margin(float(np.trace(M)), sum(A.shape))
    start = (own.labels, own.weights)
    relaxation = Relaxation(M, own.k, has_row_sums=model.has_row_sums, start=start)
    sums = np.array([own.weights[own.labels == j] @ A[own.labels == j] for j in range(own.k)])
    value, find_ratios = float(np.vdot(sums, sums)), partial(model.ratios, M)
    for upper in run_relaxation(relaxation, value, deadline, find_ratios):
        yield upper + margin, relaxation


@contextmanager
def thread_pool(threads: int) -> Iterator[tuple[ThreadPoolExecutor, Event]]:
    """Provide a thread pool and an event that asks its threads to stop when the caller leaves."""
    stop = Event()
    with ThreadPoolExecutor(
        threads, thread_name_prefix="certify", initializer=set_most_threads, initargs=(1,)
    ) as pool:
        try:
            yield pool, stop
        finally:
            stop.set()


def _without(A: FloatArray, rows: IntArray, model: Model) -> BlockBound:
    """Bound a block by its singular values; the proof is S = 0."""
    size, k, fixed = float(np.vdot(A, A)), model.k, 0.0
    if model.has_row_sums:
        # With row sums, e is a fixed eigenvector of Z: centering removes its share n |mean|^2.
        mean = A.mean(axis=0)
        A, k, fixed = A - mean, k - 1, len(A) * float(mean @ mean)
    gram = A.T @ A if A.shape[1] < len(A) else A @ A.T
    values = np.linalg.eigvalsh(gram) if k else np.zeros(1)
    leading = float(np.maximum(values[max(len(values) - k, 0) :], 0.0).sum())
    nothing = np.zeros(0)
    cuts = np.zeros((0, 3), dtype=np.int64)
    # LAPACK returns the exact eigenvalues of a matrix within rounding of the Gram matrix.
    margin = rounding_margin((3 + 3 * model.k) * size, sum(A.shape))
    part = DensePart(rows, nothing, cuts, nothing, np.zeros((0, 2)))
    return BlockBound(fixed + leading + margin, part)
