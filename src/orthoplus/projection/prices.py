r"""A bound of the projection onto S+ for whole rows, by prices for the rows.

The relaxation of `dual` may share rows. With a price lambda_i for each row instead,

.. math:: \sum_j \sqrt{S_j} \le \sum_i \lambda_i + \sum_j \max_{z \in \{0,1\}^n} \Big(
          \Big(\sum_i P_{ij} z_i\Big)^{1/2} - \sum_i \lambda_i z_i\Big)

for every assignment of whole rows and any prices: the columns choose whole rows independently of
each other. With :math:`\lambda_i` between the two largest :math:`w_j P_{ij}` of row i this is at
most D(w). Changing the prices of rows that two columns or no column chooses decreases the bound,
and the chosen rows, after a repair, are good starts for a local search.

With :math:`r_{ij} = w_j P_{ij} - \lambda_i`, column j would take the rows of positive r. A flip,
taking or leaving another row, costs |r| but brings the sum closer to its optimum
:math:`1 / (4 w_j^2)`. The best set of flips is found by enumeration; usually few rows of a column
matter.
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
REPAIR_EVERY = 10  # number of steps between two repairs
REPAIR_SWEEPS = 50
# The first step has Polyak's length, with the best value as the target. It is halved after
# STEP_PATIENCE steps that close less than STEP_SHARE of the gap, down to MIN_STEP.
STEP_PATIENCE, STEP_SHARE, MIN_STEP = 3, 1e-3, 1.0 / 64.0
# Factor of the deflection of a direction from the previous one if they form an obtuse angle.
DEFLECTION = 1.5


@dataclass(frozen=True)
class _Market:
    """The pairs of the open rows, sorted by column, and the contribution of the other rows."""

    pairs: Pairs  # pairs of all rows
    place: IntArray  # position of the sorted pairs in ``pairs``
    row: IntArray  # row of each sorted pair, as an index into ``rows``
    column: IntArray
    gain: FloatArray
    rows: IntArray  # the open rows
    fixed: FloatArray  # S_j of the rows with a single pair
    worth: float  # sum_j w_j S_j of these rows
    weights: FloatArray  # w


@dataclass(frozen=True)
class _Quote:
    """The bound at given prices, and the sorted pairs that the columns choose."""

    bound: float
    prices: FloatArray
    is_chosen: BoolArray

    def excess(self, market: _Market) -> FloatArray:
        """Return a subgradient: 1 minus the number of columns that choose the row."""
        counts = np.bincount(market.row[self.is_chosen], minlength=len(self.prices))
        return 1.0 - counts


def price_rows(pairs: Pairs, search: Search, budget: Budget) -> Search:
    """Decrease the bound and increase the value by pricing the rows with several ``pairs``.

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
    """Return the mean of the two largest w_j P_ij of each open row."""
    priced = market.weights[market.column] * market.gain
    order = np.lexsort((priced, market.row))
    last = np.searchsorted(market.row[order], np.arange(len(market.rows)), side="right") - 1
    return np.asarray(0.5 * (priced[order[last]] + priced[order[last - 1]]))


def _ask(market: _Market, search: Search, prices: FloatArray) -> tuple[Search, _Quote]:
    """Evaluate the bound at these prices."""
    weights, column, k = market.weights, market.column, len(market.fixed)
    reduced = weights[column] * market.gain - prices[market.row]
    is_chosen = reduced > 0.0
    sums = market.fixed + np.bincount(column[is_chosen], market.gain[is_chosen], minlength=k)
    errors = weights * (np.sqrt(sums) - 0.5 / weights) ** 2
    cost = np.abs(reduced)
    near = np.flatnonzero(cost < errors[column])  # other flips cost more than they can save
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
    """Return the deflected subgradient of Camerini, Fratta and Maffioli, to avoid zigzagging."""
    agreement = float(direction @ last)
    if agreement >= 0.0:
        return direction
    return np.asarray(direction - DEFLECTION * agreement / float(last @ last) * last)


def _repair(market: _Market, quote: _Quote, search: Search) -> Search:
    """Assign each row to a column that chose it, else to the best one, then make moves."""
    pairs, k = market.pairs, len(market.fixed)
    reduced = market.weights[market.column] * market.gain - quote.prices[market.row]
    order = np.lexsort((reduced, quote.is_chosen))
    chosen = np.where(np.diff(pairs.start) > 0, pairs.start[:-1], -1)
    chosen[market.rows[market.row[order]]] = market.place[order]  # the last assignment wins
    chosen = local_search(pairs, chosen, k, REPAIR_SWEEPS, market.weights)
    sums = chosen_sums(pairs, chosen, k)
    value = float(np.sqrt(sums).sum())
    if value <= search.best.value or not (sums > 0.0).all():
        return search
    labels = labels_of_chosen(pairs, chosen)
    return replace(search, best=Assignment(labels, sums, value))
