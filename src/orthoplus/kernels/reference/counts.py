"""Loops over pairs of groups of equal rows, in plain Python: the specification.

A row of ``pairs`` represents several equal rows, and a share is the number of them that is assigned
to the column. ``limits`` has two rows, the smallest and the largest count of each pair.
"""

import numpy as np

from orthoplus.core.types import FloatArray
from orthoplus.kernels.pairs import TINY, Pairs

__all__ = ["balance_counts_into", "capped_tops"]


def balance_counts_into(
    pairs: Pairs, limits: FloatArray, sums: FloatArray, sweeps: int, tol: float
) -> None:
    """Maximize sum_j sqrt(S_j) over counts within limits, S_j = sum of share * gain; in place.

    The counts satisfy ``limits[0] <= share <= limits[1]``, and the sum of the shares of a row does
    not change. In each row, a sweep performs the exact line search of `transfer_shares_into`, from
    the pair of smallest slope above its lower limit to the pair of largest slope below its upper
    limit. The sweeps end if all rows together could gain at most ``tol`` to first order.
    """
    start, column, gain, share = pairs
    low, high = limits
    for _ in range(sweeps):
        left = 0.0
        for i in range(len(start) - 1):
            here = np.arange(start[i], start[i + 1])
            slope = gain[here] * (0.5 / np.sqrt(np.maximum(sums[column[here]], TINY)))
            room, held = here[share[here] < high[here]], here[share[here] > low[here]]
            if len(room) == 0 or len(held) == 0:
                continue
            # Move share from the pair with the smallest slope to the pair with the largest.
            best = room[np.argmax(slope[room - start[i]])]
            worst = held[np.argmin(slope[held - start[i]])]
            most = min(share[worst] - low[worst], high[best] - share[best])
            rise = float(slope[best - start[i]] - slope[worst - start[i]])
            if rise <= 0.0:
                continue
            left += rise * most
            to, source, p_to, p_from = column[best], column[worst], gain[best], gain[worst]
            amount = most
            if p_from > 0.0:
                with np.errstate(over="ignore", invalid="ignore"):
                    amount = p_to * (sums[source] / p_from) - p_from * (sums[to] / p_to)
                    amount = min(amount / (p_to + p_from), most)
            if amount > 0.0:
                share[worst] = (
                    low[worst] if amount == share[worst] - low[worst] else (share[worst] - amount)
                )
                share[best] = min(share[best] + amount, high[best])
                sums[source] = max(sums[source] - amount * p_from, 0.0)
                sums[to] += amount * p_to
        if left <= tol:
            break


def capped_tops(
    pairs: Pairs, limits: FloatArray, counts: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Solve a linear program for each row, the best distribution of ``counts`` equal rows.

        max sum_j z_j w_j P_ij   over   low_j <= z_j <= high_j,   sum_j z_j = count.

    Return the maxima and the price w_j P_ij of the last row that was placed freely (0 if none
    was). The limits must be feasible for the counts.
    """
    start, column, gain, _ = pairs
    low, high = limits
    tops, last = np.zeros(len(start) - 1), np.zeros(len(start) - 1)
    for i in range(len(start) - 1):
        here = np.arange(start[i], start[i + 1])
        priced = weights[column[here]] * gain[here]
        # Greedy is optimal: fill the columns in descending order of w_j P_ij.
        total, left = float(priced @ low[here]), counts[i] - low[here].sum()
        for at in np.argsort(-priced, kind="stable"):
            taken = min(high[here[at]] - low[here[at]], left)
            if taken > 0.0:
                total += taken * float(priced[at])
                left -= taken
                last[i] = priced[at]
        tops[i] = total
    return tops, last
