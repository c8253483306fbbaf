"""Compiled loops of `reference.counts`: one thread, rows in order, no fast math."""

import numpy as np

from orthoplus.core.types import FloatArray
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.pairs import TINY, Pairs

_compiled = njit(nogil=True)  # no fast math: ties must stay ties


@_compiled
def _ends_of_row(start, stop, slopes, share, low, high):  # type: ignore[no-untyped-def]
    # Returns the pair of largest slope below its upper limit, the pair of smallest slope above its
    # lower limit (-1 if there is none), and the difference of the slopes.
    best, worst, most, least = -1, -1, -1.0, np.inf
    for pair in range(start, stop):
        slope = slopes[pair - start]
        if slope > most and share[pair] < high[pair]:
            most, best = slope, pair
        if slope < least and share[pair] > low[pair]:
            least, worst = slope, pair
    return best, worst, most - least


@_compiled
def _balance_counts(pairs, limits, sums, sweeps, tol):  # type: ignore[no-untyped-def]
    # IN pairs = (start, column, gain), limits; IN/OUT share, sums
    start, column, gain, share = pairs
    low, high = limits[0], limits[1]
    weight = 0.5 / np.sqrt(np.maximum(sums, TINY))
    slopes = np.empty(np.diff(start).max() if start.size > 1 else 0)
    for _ in range(sweeps):
        left = 0.0
        for i in range(start.size - 1):
            if start[i + 1] - start[i] < 2:
                continue
            for pair in range(start[i], start[i + 1]):
                slopes[pair - start[i]] = weight[column[pair]] * gain[pair]
            best, worst, rise = _ends_of_row(start[i], start[i + 1], slopes, share, low, high)
            if best < 0 or worst < 0 or rise <= 0.0:
                continue
            amount = most = min(share[worst] - low[worst], high[best] - share[best])
            left += rise * most
            to, source, p_to, p_from = column[best], column[worst], gain[best], gain[worst]
            if p_from > 0.0:
                # Exact line search: t = (p_l S_j / p_j - p_j S_l / p_l) / (p_l + p_j).
                amount = p_to * (sums[source] / p_from) - p_from * (sums[to] / p_to)
                amount = min(amount / (p_to + p_from), most)
            if amount > 0.0:
                is_all = amount == share[worst] - low[worst]
                share[worst] = low[worst] if is_all else share[worst] - amount
                share[best] = min(share[best] + amount, high[best])
                sums[source] = max(sums[source] - amount * p_from, 0.0)
                sums[to] += amount * p_to
                weight[source] = 0.5 / np.sqrt(max(sums[source], TINY))
                weight[to] = 0.5 / np.sqrt(max(sums[to], TINY))
        if left <= tol:
            break


def balance_counts_into(
    pairs: Pairs, limits: FloatArray, sums: FloatArray, sweeps: int, tol: float
) -> None:
    """Balance the counts in one compiled loop over sweeps, rows and pairs."""
    _balance_counts(tuple(pairs), limits, sums, sweeps, tol)


@_compiled
def _capped_tops(start, column, gain, limits, counts, weights):  # type: ignore[no-untyped-def]
    # IN all; returns the maxima of the linear programs and the price of the last row placed
    n = start.size - 1
    low, high = limits[0], limits[1]
    tops, last = np.zeros(n), np.zeros(n)
    for i in range(n):
        left = counts[i]
        for pair in range(start[i], start[i + 1]):
            tops[i] += low[pair] * (weights[column[pair]] * gain[pair])
            left -= low[pair]
        # Visit the pairs in descending order of w P, ties in their order, by repeated selection:
        # a row has few pairs, and usually one or two of them are enough.
        before, after = np.inf, -1
        while left > 0.0:
            pick, most = -1, -1.0
            for pair in range(start[i], start[i + 1]):
                priced = weights[column[pair]] * gain[pair]
                if priced > most and (priced < before or (priced == before and pair > after)):
                    pick, most = pair, priced
            if pick < 0:
                break
            before, after = most, pick
            taken = min(high[pick] - low[pick], left)
            if taken > 0.0:
                tops[i] += taken * most
                left -= taken
                last[i] = most
    return tops, last


def capped_tops(
    pairs: Pairs, limits: FloatArray, counts: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fill the pairs of each row in the order of their scores until its counts are used."""
    tops, last = _capped_tops(*pairs[:3], limits, counts, weights)
    return tops, last
