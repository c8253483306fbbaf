r"""Bounds for any number of rows, from blocks of them.

The groups of any X, cut up, are groups of each block of rows. For M = AA' and rows that are cut
into :math:`A_1, \dots, A_T` therefore

.. math:: \max \langle AA^\top, XX^\top \rangle \le \sum_t \max \langle A_t A_t^\top,
          X_t X_t^\top \rangle,

each term by the relaxation of a block. The loss is about k over the rows of a block, since each
block fits centers of its own; it is least if the blocks are alike, so every group is spread over
all of them.

Every block has the spectral bound first. Then each relaxation runs for a short time, and the rest
of the time goes where the bounds fall fastest; `orthoplus.certify.refining` decides.
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

# Seconds that the relaxation of so many rows needs to be worth it; it grows with the square, or
# with the third power if there are cuts.
_SECONDS, _SECONDS_WITH_CUTS, _ROWS = 3.0, 10.0, 600
# Fewest and most rows of a block, and at least so many for each group.
_FEWEST, _MOST, _PER_GROUP = 100, 1500, 8
# A block is done if its bound exceeds the value of the answer by this share at most.
_CLOSED = 1e-10
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
    # T = n / m blocks get seconds * threads / T each, and need _SECONDS * (m / _ROWS)^2, say.
    per_row = seconds * n_threads() * _ROWS / model.n
    affordable = _ROWS * per_row / _SECONDS
    if model.has_ratios:
        affordable = _ROWS * float(np.sqrt(per_row / _SECONDS_WITH_CUTS))
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


class Block:
    """Some rows, the best bound of <A_t A_t', XX'> so far, and the relaxation that improves it.

    Attributes
    ----------
    found : BlockBound
        The spectral bound at first.
    rate : float
        By how much the bound fell per second when it was last improved.
    is_done : bool
        Whether the relaxation has converged, or the time is over.
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
        """By how much the bound exceeds the value of the answer."""
        return self.found.upper - self.target

    def improve(self, seconds: float, deadline: float, stop: Event) -> None:
        """Continue the relaxation for some seconds, at least until its next bound."""
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
        """Forget the relaxation: its bound stays."""
        self._bounds, self.is_done = None, True


def bounds_of_rows(
    A: FloatArray, own: SupportPoint, model: Model, deadline: float
) -> Iterator[tuple[float, Relaxation]]:
    """Yield bounds of <AA', XX'> for rows in memory, with the relaxation that gives them."""
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
    """Give threads, and an event that tells them to end soon because the caller has left."""
    stop = Event()
    with ThreadPoolExecutor(
        threads, thread_name_prefix="certify", initializer=set_most_threads, initargs=(1,)
    ) as pool:
        try:
            yield pool, stop
        finally:
            stop.set()


def _without(A: FloatArray, rows: IntArray, model: Model) -> BlockBound:
    """Bound a block by its singular values, which S = 0 proves."""
    size, k, fixed = float(np.vdot(A, A)), model.k, 0.0
    if model.has_row_sums:
        mean = A.mean(axis=0)
        A, k, fixed = A - mean, k - 1, len(A) * float(mean @ mean)
    gram = A.T @ A if A.shape[1] < len(A) else A @ A.T
    values = np.linalg.eigvalsh(gram) if k else np.zeros(1)
    leading = float(np.maximum(values[max(len(values) - k, 0) :], 0.0).sum())
    nothing = np.zeros(0)
    cuts = np.zeros((0, 3), dtype=np.int64)
    # The eigenvalues are those of a matrix within rounding of the Gram matrix, in norm.
    margin = rounding_margin((3 + 3 * model.k) * size, sum(A.shape))
    part = DensePart(rows, nothing, cuts, nothing, np.zeros((0, 2)))
    return BlockBound(fixed + leading + margin, part)
