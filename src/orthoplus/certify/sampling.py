r"""Bounds that hold with a given confidence, from random blocks of rows, for data of any size.

Let :math:`r_i` be the squared residual of row i at the answer, and R the sum of the :math:`r_i` of
a block of m random rows, one from each of m strata of n/m rows. The best residual of the block is
at most R, and on average at most m/n of the best residual of all rows. If b is a lower bound of
the best residual of the block and :math:`D = R - b`, clipped to :math:`[0, R]`, then

.. math:: \text{best residual} \ge \text{value} - \tfrac{n}{m} \mathbb{E} D .

Each stratum consists of rows of one group with similar residuals, so that the blocks are similar.
Fewer than m rows with the smallest residuals are left out, which can only lower the best residual.

The mean of D is bounded from T independent blocks: D is at most the sum of the largest :math:`r_i`
of each stratum. For variables in [0, 1] with mean p, the probability of a sample mean of at most q
< p is at most :math:`\exp(-T\, \mathrm{kl}(q, p))` (Hoeffding, 1963). Since the residual of the
answer is subtracted, only the loss of the bounds varies between blocks.
"""

import math
from concurrent.futures import Future
from time import perf_counter
from typing import Any

import numpy as np

from orthoplus.certify.between import scaled_slices
from orthoplus.certify.blocks import bounds_of_rows, thread_pool
from orthoplus.certify.model import Model
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.memory import MemoryMatrix
from orthoplus.kernels.threads import n_threads, single_blas

# Seconds for a block of _BLOCK_ROWS rows, growing with the square of the rows; fewest and most
# rows.
_BLOCK_SECONDS, _BLOCK_ROWS, _FEWEST_ROWS, _MOST_ROWS = 3.0, 600, 60, 600
# Number of blocks to aim for and fewest blocks to draw: larger blocks lose less each, but the mean
# over more blocks is known more accurately.
_WANTED_BLOCKS, _FEWEST_BLOCKS = 200, 20


def sampled_bound(
    model: Model,
    point: SupportPoint,
    confidence: float,
    deadline: float,
    rng: np.random.Generator,
) -> float:
    """Return an upper bound on the maximum of <M, XX'> that holds with this probability.

    The number of blocks is fixed before the first one is drawn. A block that runs out of time
    counts with the largest possible loss.
    """
    assert model.factor is not None
    A, n = model.factor, model.n
    seconds = max(deadline - perf_counter(), 0.0) * n_threads()
    m = int(_BLOCK_ROWS * math.sqrt(seconds / (_WANTED_BLOCKS * _BLOCK_SECONDS)))
    m = min(max(m, _FEWEST_ROWS, 2 * model.k), _MOST_ROWS, n)
    share = _BLOCK_SECONDS * (m / _BLOCK_ROWS) ** 2
    n_blocks = max(int(seconds / share), _FEWEST_BLOCKS)
    residuals = row_residuals(model, point)
    strata = _strata(residuals, point.labels, m)
    columns = rng.integers(0, strata.shape[1], (n_blocks, m))
    draws = [np.sort(strata[np.arange(m), column]) for column in columns]
    taken = np.unique(np.concatenate(draws))
    rows = A.sample_rows(taken).to_dense().astype(np.float64) * model.scale
    # The largest possible loss D = R of each block, until its bound is known.
    losses = np.array([residuals[draw].sum() for draw in draws])
    with single_blas, thread_pool(min(n_threads(), n_blocks)) as (pool, stop):
        tasks: list[Future[float]] = []
        for draw in draws:
            own = SupportPoint(point.labels[draw], point.weights[draw], model.k).normalized()
            values = rows[np.searchsorted(taken, draw)]
            tasks.append(pool.submit(_upper_of, values, own, model, share, deadline, stop))
        for number, task in enumerate(tasks):
            values = rows[np.searchsorted(taken, draws[number])]
            size = float(np.vdot(values, values))
            # The bound on the best residual is b = size - upper, hence D = R - b = upper - (size -
            # R).
            loss = task.result() - (size - losses[number])
            losses[number] = min(max(loss, 0.0), losses[number])
    # D / top is in [0, 1], as Hoeffding's inequality needs.
    top = float(residuals[strata].max(axis=1).sum())
    mean = top * upper_mean(losses / top, confidence) if top > 0 else 0.0
    left_out = float(residuals.sum() - residuals[strata].sum())
    return model.trace(point) + left_out + strata.shape[1] * mean


def _strata(residuals: FloatArray, labels: IntArray, m: int) -> IntArray:
    """Return m strata of n // m row indices each, mostly of one group and similar residuals."""
    kept = np.sort(np.argsort(residuals, kind="stable")[len(residuals) % m :])
    order = kept[np.lexsort((residuals[kept], labels[kept]))]
    return order.reshape(m, -1)


def _upper_of(
    values: FloatArray,
    own: SupportPoint,
    model: Model,
    share: float,
    deadline: float,
    stop: Any,
) -> float:
    end = min(perf_counter() + share, deadline)
    if perf_counter() >= deadline or stop.is_set():
        return math.inf
    upper = math.inf
    for found, _ in bounds_of_rows(values, own, model, end):
        upper = found
        if stop.is_set():
            break
    return upper


def upper_mean(sample: FloatArray, confidence: float) -> float:
    """Return an upper confidence bound on the mean of a variable in [0, 1].

    Examples
    --------
    >>> round(upper_mean(np.zeros(100), 0.95), 4)  # 1 - 0.05^(1/100)
    0.0295
    >>> upper_mean(np.ones(5), 0.95)
    1.0
    """
    q = min(max(float(sample.mean()), 0.0), 1.0)
    limit = -math.log1p(-confidence) / len(sample)
    # Bisect for the largest p with T kl(q, p) <= -log(1 - confidence).
    low, high = q, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _divergence(q, middle) < limit else (low, middle)
    return high


def _divergence(q: float, p: float) -> float:
    """Return the Kullback-Leibler divergence kl(q, p) of two Bernoulli variables."""
    total = 0.0
    for share, of in ((q, p), (1.0 - q, 1.0 - p)):
        if share > 0:
            total += share * math.log(share / of) if of > 0 else math.inf
    return total


def row_residuals(model: Model, point: SupportPoint) -> FloatArray:
    """Return ||a_i - x_i y_j||^2 for each row i, where j is its group."""
    A = model.factor
    assert A is not None
    vectors = A.scatter(point.labels), A.scatter(point.weights)
    Y = A.group_sums(*vectors, model.k) * model.scale
    return np.asarray(A.gather(A.map_rows(_residual_work, *vectors, args=(model.scale, Y))))


def _residual_work(
    block: MemoryMatrix, labels: IntArray, weights: FloatArray, scale: float, Y: FloatArray
) -> FloatArray:
    squares = np.zeros(len(labels))
    sizes = np.einsum("jc,jc->j", Y, Y)
    for rows, part in scaled_slices(block, scale, block.shape[1]):
        own, x = labels[rows], weights[rows]
        x = np.where(own >= 0, x, 0.0)
        fit = 2.0 * x * part.group_dots(own, Y) - x * x * sizes[own]
        squares[rows] = np.maximum(part.row_squares() - fit, 0.0)
    return squares
