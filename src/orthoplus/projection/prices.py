r"""A bound of the projection onto S+ that gives rows to columns in whole, by pricing the rows.

The relaxation of `dual` may share rows. With a price lambda_i for each row instead,

.. math:: \sum_j \sqrt{S_j} \le \sum_i \lambda_i + \sum_j \max_{z \in \{0,1\}^n} \Big(
          \Big(\sum_i P_{ij} z_i\Big)^{1/2} - \sum_i \lambda_i z_i\Big)

for every assignment of whole rows and any prices: columns choose rows independently of each other,
but each as a whole. At :math:`\lambda_i` between the two largest :math:`w_j P_{ij}` of row i this
is at most D(w). Moving the prices of rows that two columns want, or none, lowers it, and
the rows that the columns choose, repaired, are assignments worth a local search.

With :math:`r_{ij} = w_j P_{ij} - \lambda_i` column j would take the rows of positive r; taking or
leaving others costs |r|, and brings its sum nearer to the best one, :math:`1 / (4 w_j^2)`. The best
such flips are found by enumeration: where few rows of a column matter, they are few.
"""

from dataclasses import dataclass, replace

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.kernels.pairs import Pairs, column_sums
from orthoplus.projection.dual import ROUNDING, row_of_pairs
from orthoplus.projection.passes import Budget, Search
from orthoplus.projection.search import (
    Assignment,
    chosen_sums,
    labels_of_chosen,
    local_search,
)

MAX_STEPS = 60
REPAIR_EVERY = 10  # steps
REPAIR_SWEEPS = 50
# The first step is as long as if the bound could fall to the best value, Polyak's rule; it is
# halved after so many steps that close less than this part of the gap, up to the shortest.
STEP_PATIENCE, STEP_SHARE, MIN_STEP = 3, 1e-3, 1.0 / 64.0
# Each direction leans away from the last by this factor where the two disagree.
DEFLECTION = 1.5


@dataclass(frozen=True)
class _Market:
    """The pairs of the rows that are open, sorted by column, and what the other rows give."""

    pairs: Pairs  # of all rows
    place: IntArray  # of the sorted pairs in ``pairs``
    row: IntArray  # of each sorted pair, counted over the open rows
    column: IntArray
    gain: FloatArray
    rows: IntArray  # that are open
    fixed: FloatArray  # S_j of the rows that have one pair
    worth: float  # sum_j w_j S_j of these
    weights: FloatArray  # w


@dataclass(frozen=True)
class _Quote:
    """The bound at some prices, and which sorted pairs the columns choose."""

    bound: float
    prices: FloatArray
    is_chosen: BoolArray

    def excess(self, market: _Market) -> FloatArray:
        """Return a subgradient: 1 minus the number of columns that choose the row."""
        counts = np.bincount(market.row[self.is_chosen], minlength=len(self.prices))
        return 1.0 - counts


def price_rows(pairs: Pairs, search: Search, budget: Budget) -> Search:
    """Lower the bound, and raise the value, by pricing the rows that have several ``pairs``.

    Every column must have a positive entry, and ``pairs`` must hold all pairs that a better
    assignment can use: those within the gap of D(w) of the row maximum, w = ``search.weights``.
    """
    market = _open_market(pairs, search.weights)
    if len(market.rows) == 0:
        return search
    search, quote = _ask(market, search, _middle_prices(market))
    best, length, stalls = quote, 1.0, 0
    direction: FloatArray = np.zeros(len(market.rows))
    for step in range(1, MAX_STEPS + 1):
        direction = _deflected(quote.excess(market), direction)
        size = float(direction @ direction)
        if size == 0.0 or length < MIN_STEP or search.is_closed(budget):
            break
        move = length * (quote.bound - search.best.value) / size
        search, quote = _ask(market, search, quote.prices - move * direction)
        if step % REPAIR_EVERY == 0:
            search = _repair(market, quote, search)
        is_lower = best.bound - quote.bound > STEP_SHARE * (best.bound - search.best.value)
        best, stalls = min(best, quote, key=lambda q: q.bound), 0 if is_lower else stalls + 1
        if stalls >= STEP_PATIENCE:
            quote, length, stalls, direction = best, 0.5 * length, 0, 0.0 * direction
    return search


def _open_market(pairs: Pairs, weights: FloatArray) -> _Market:
    size, row = np.diff(pairs.start), row_of_pairs(pairs)
    is_single = size[row] == 1
    fixed = column_sums(pairs.column[is_single], pairs.gain[is_single], len(weights))
    worth = float((weights[pairs.column[is_single]] * pairs.gain[is_single]).sum())
    rows, place = np.flatnonzero(size > 1), np.flatnonzero(~is_single)
    place = place[np.argsort(pairs.column[place], kind="stable")]
    number = np.cumsum(size > 1) - 1
    column, gain = pairs.column[place], pairs.gain[place]
    return _Market(pairs, place, number[row[place]], column, gain, rows, fixed, worth, weights)


def _middle_prices(market: _Market) -> FloatArray:
    """Half way between the two largest w_j P_ij of each open row."""
    priced = market.weights[market.column] * market.gain
    order = np.lexsort((priced, market.row))
    last = np.searchsorted(market.row[order], np.arange(len(market.rows)), side="right") - 1
    return np.asarray(0.5 * (priced[order[last]] + priced[order[last - 1]]))


def _ask(market: _Market, search: Search, prices: FloatArray) -> tuple[Search, _Quote]:
    """Return the bound at these prices."""
    weights, column, k = market.weights, market.column, len(market.fixed)
    reduced = weights[column] * market.gain - prices[market.row]
    is_chosen = reduced > 0.0
    sums = market.fixed + np.bincount(column[is_chosen], market.gain[is_chosen], minlength=k)
    errors = weights * (np.sqrt(sums) - 0.5 / weights) ** 2
    cost = np.abs(reduced)
    near = np.flatnonzero(cost < errors[column])  # no other flip can pay
    near = near[np.lexsort((cost[near], column[near]))]
    shift = np.where(is_chosen[near], -market.gain[near], market.gain[near])
    start = np.searchsorted(column[near], np.arange(k + 1))
    saved, is_flipped = kernels.cheapest_flips(start, cost[near], shift, sums, weights)
    relaxed = prices.sum() + reduced[is_chosen].sum() + market.worth
    bound = float(relaxed + (0.25 / weights - saved).sum())
    size = np.abs(prices).sum() + cost.sum() + market.worth + (0.25 / weights).sum()
    bound += ROUNDING * float(size)
    is_chosen[near[is_flipped]] ^= True
    return replace(search, bound=min(search.bound, bound)), _Quote(bound, prices, is_chosen)


def _deflected(direction: FloatArray, last: FloatArray) -> FloatArray:
    """Return the direction of Camerini, Fratta and Maffioli, which does not zigzag."""
    agreement = float(direction @ last)
    if agreement >= 0.0:
        return direction
    return np.asarray(direction - DEFLECTION * agreement / float(last @ last) * last)


def _repair(market: _Market, quote: _Quote, search: Search) -> Search:
    """Each row to a column that chose it, or else to the one it is worth most to; then moves."""
    pairs, k = market.pairs, len(market.fixed)
    reduced = market.weights[market.column] * market.gain - quote.prices[market.row]
    order = np.lexsort((reduced, quote.is_chosen))
    chosen = np.where(np.diff(pairs.start) > 0, pairs.start[:-1], -1)
    chosen[market.rows[market.row[order]]] = market.place[order]  # the last one stays
    chosen = local_search(pairs, chosen, k, REPAIR_SWEEPS, market.weights)
    sums = chosen_sums(pairs, chosen, k)
    value = float(np.sqrt(sums).sum())
    if value <= search.best.value or not (sums > 0.0).all():
        return search
    labels = labels_of_chosen(pairs, chosen)
    return replace(search, best=Assignment(labels, sums, value))
