"""Loops over candidate pairs (row, column) of an assignment, in plain Python: the specification.

The objective is sum_j sqrt(S_j), where S_j is the sum of share * gain over the pairs of column j
and the gain is P_ij = max(C_ij, 0)^2. ``sums`` holds S, ``rows`` the rows that a loop may change,
and ``chosen[i]`` the pair to which row i is assigned as a whole (-1 for none).
"""

import numpy as np

from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.kernels.pairs import (
    MAX_FLIP_SETS,
    MOVE_THRESHOLD,
    SEARCH_THRESHOLD,
    SUM_ROUNDING,
    TINY,
    Pairs,
)

__all__ = [
    "chain_moves_into",
    "cheapest_flips",
    "search_rows_into",
    "single_moves_into",
    "transfer_shares_into",
]


def transfer_shares_into(rows: IntArray, pairs: Pairs, sums: FloatArray) -> float:
    """Sweep over the rows with an exact line search between two pairs each; update in place.

    In row i let l be the pair with the largest w * gain, and j the pair with the smallest among
    those with a positive share, where w = 1 / (2 sqrt(S)). The optimal amount to move from j to l
    is

        t = (p_l S_j / p_j - p_j S_l / p_l) / (p_l + p_j),   at most the share of j.

    In this order of operations no product can underflow. If p_j = 0, the whole share moves.

    Return the sum over ``rows`` of max_j w_j p_j - sum_j share_j w_j p_j, evaluated when the sweep
    reaches the row.
    """
    start, column, gain, share = pairs
    gap = 0.0
    for i in rows:
        here = np.arange(start[i], start[i + 1])
        slope = gain[here] / (2.0 * np.sqrt(np.maximum(sums[column[here]], TINY)))
        held = np.flatnonzero(share[here] > 0.0)
        best, worst = here[np.argmax(slope)], here[held[np.argmin(slope[held])]]
        gap += float(slope.max() - share[here] @ slope)
        to, source, p_to, p_from = column[best], column[worst], gain[best], gain[worst]
        amount = share[worst]
        if p_to > 0.0 and p_from > 0.0:
            with np.errstate(over="ignore", invalid="ignore"):
                amount = p_to * (sums[source] / p_from) - p_from * (sums[to] / p_to)
                amount = min(amount / (p_to + p_from), share[worst])
        if best != worst and amount > 0.0:
            share[worst] -= amount
            share[best] += amount
            sums[source] = max(sums[source] - amount * p_from, 0.0)
            sums[to] += amount * p_to
    return gap


def single_moves_into(rows: IntArray, pairs: Pairs, chosen: IntArray, sums: FloatArray) -> int:
    """Sweep over the rows and move each if sum_j sqrt(S_j) increases; return the number of moves.

    A row moves from pair j to the pair l with the largest sqrt(S_l + p_l) - sqrt(S_l) if that
    exceeds sqrt(S_j) - sqrt(S_j - p_j). No column becomes empty.
    """
    start, column, gain, _ = pairs
    moves = 0
    for i in rows:
        held = chosen[i]
        source, p_from = column[held], gain[held]
        left = sums[source] - p_from
        if left <= MOVE_THRESHOLD * p_from:
            continue
        best, most = -1, (np.sqrt(sums[source]) - np.sqrt(left)) * (1.0 + MOVE_THRESHOLD)
        for pair in range(start[i], start[i + 1]):
            total = sums[column[pair]]
            increase = np.sqrt(total + gain[pair]) - np.sqrt(total)
            if pair != held and increase > most:
                best, most = pair, increase
        if best >= 0:
            sums[source] = left
            sums[column[best]] += gain[best]
            chosen[i] = best
            moves += 1
    return moves


def chain_moves_into(
    rows: IntArray, pairs: Pairs, chosen: IntArray, sums: FloatArray, weights: FloatArray
) -> int:
    """Sweep over double moves: row a from j to l, then row b from l to m (a swap if m = j).

    For each pair (a, l), make the double move with the largest increase of sum_j sqrt(S_j) that
    leaves no column empty; ties are broken arbitrarily. ``weights`` are used for pruning: with dual
    weights w (at the best scale) and the slack s = max_l w_l p_l - w_j p_j of a pair, every
    assignment satisfies

        sum_j sqrt(S_j) = D(w) - sum_i s_i - sum_j e_j,   e_j = w_j (sqrt(S_j) - 1 / (2 w_j))^2,

    so the gain of a double move is at most the sum of s and e over its rows and columns. A sweep
    ends after ``MAX_FOLLOWERS`` second rows. Return the number of double moves.
    """
    moves = 0
    for a in rows:
        for first in range(pairs.start[a], pairs.start[a + 1]):
            if first == chosen[a]:
                continue
            least = MOVE_THRESHOLD * float(np.sqrt(sums).sum())
            b, second = _best_follower(rows, pairs, chosen, sums, (int(a), first, least))
            if b >= 0:
                _make_move(int(a), first, pairs, chosen, sums)
                _make_move(b, second, pairs, chosen, sums)
                moves += 1
    return moves


def _make_move(row: int, to: int, pairs: Pairs, chosen: IntArray, sums: FloatArray) -> None:
    held = chosen[row]
    sums[pairs.column[held]] -= pairs.gain[held]
    sums[pairs.column[to]] += pairs.gain[to]
    chosen[row] = to


def _best_follower(
    rows: IntArray,
    pairs: Pairs,
    chosen: IntArray,
    sums: FloatArray,
    move: tuple[int, int, float],
) -> tuple[int, int]:
    """Return the row b and the pair of the best second move, out of the column that a entered."""
    a, first, most = move
    middle, before = pairs.column[first], float(np.sqrt(sums).sum())
    best = (-1, -1)
    for b in rows:
        if b == a or pairs.column[chosen[b]] != middle:
            continue
        for second in range(pairs.start[b], pairs.start[b + 1]):
            if second == chosen[b]:
                continue
            trial, picks = sums.copy(), chosen.copy()
            _make_move(a, first, pairs, picks, trial)
            _make_move(int(b), second, pairs, picks, trial)
            increase = float(np.sqrt(np.maximum(trial, 0.0)).sum()) - before
            emptied = trial[pairs.column[chosen[a]]] <= MOVE_THRESHOLD * pairs.gain[chosen[a]]
            if increase > most and not emptied:
                best, most = (int(b), second), increase
    return best


def search_rows_into(
    rows: IntArray,
    pairs: Pairs,
    chosen: IntArray,
    sums: FloatArray,
    weights: FloatArray,
    max_nodes: int,
) -> bool:
    """Search all choices of pairs for ``rows`` depth first, and store the best one in place.

    With s and e as in `chain_moves_into`, a branch is cut if the sum of s over its rows reaches
    D(w) minus the best value. Return whether the search was completed within ``max_nodes`` nodes.
    If so, no choice for these rows reduces the remaining gap to D(w) by more than the fraction
    ``SEARCH_THRESHOLD``.
    """
    slack = [_slack(pairs, int(i), weights) for i in rows]
    root = 0.5 / weights
    # Restore saved sums instead of subtracting: a difference would leave a rounding error, not 0.
    others = np.delete(chosen, rows)
    trial, pick = np.zeros(len(sums)), chosen[rows].copy()
    np.add.at(trial, pairs.column[others[others >= 0]], pairs.gain[others[others >= 0]])
    start = sum(float(s[p - pairs.start[i]]) for s, p, i in zip(slack, pick, rows, strict=True))
    best = [start + float((weights * (np.sqrt(sums) - root) ** 2).sum())]
    nodes = [0]

    def visit(depth: int, spent: float) -> None:
        nodes[0] += 1
        if nodes[0] > max_nodes:
            return
        if depth == len(rows):
            errors = weights * (np.sqrt(np.maximum(trial, 0.0)) - root) ** 2
            if spent + float(errors.sum()) < best[0] * (1.0 - SEARCH_THRESHOLD):
                best[0] = spent + float(errors.sum())
                chosen[rows] = pick
                sums[:] = trial
            return
        for at, cost in enumerate(slack[depth]):
            pair = pairs.start[rows[depth]] + at
            if spent + float(cost) < best[0]:
                pick[depth], before = pair, trial[pairs.column[pair]]
                trial[pairs.column[pair]] += pairs.gain[pair]
                visit(depth + 1, spent + float(cost))
                trial[pairs.column[pair]] = before

    visit(0, 0.0)
    return nodes[0] <= max_nodes


def _slack(pairs: Pairs, i: int, weights: FloatArray) -> FloatArray:
    """Return max_l w_l p_l - w_j p_j for the pairs j of row i."""
    here = slice(pairs.start[i], pairs.start[i + 1])
    priced = weights[pairs.column[here]] * pairs.gain[here]
    return np.asarray(priced.max() - priced)


def cheapest_flips(
    start: IntArray, cost: FloatArray, shift: FloatArray, sums: FloatArray, weights: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Find the set F of flips t with the smallest total cost for each column j.

        min over F of   sum_F cost_t + e_j(S_j + sum_F shift_t),   e_j(S) = w_j (sqrt(S) - r_j)^2,

    where r_j = 1 / (2 w_j). The flips of j are ``start[j]:start[j+1]``, sorted by cost. Return the
    minima and a mask of the flips in the optimal sets. A column with more than ``MAX_FLIP_SETS``
    candidate sets gets a lower bound, the cost of the first flip that was left out. If subtraction
    makes a sum inexact, the smallest e_j within its error is used, so that the result is a valid
    lower bound.
    """
    least, is_flipped = np.empty(len(sums)), np.zeros(len(cost), dtype=bool)
    for j, (weight, total) in enumerate(zip(weights, sums, strict=True)):
        root = 0.5 / weight
        best = weight * (np.sqrt(total) - root) ** 2
        doubt = SUM_ROUNDING * float(total + np.abs(shift[start[j] : start[j + 1]]).sum())
        sets: list[tuple[float, float, tuple[int, ...]]] = [(0.0, float(total), ())]
        chosen: tuple[int, ...] = ()
        limit = np.inf
        for t in range(start[j], start[j + 1]):
            if cost[t] >= best:  # costs ascend: no later flip can be part of a better set
                break
            if cost[t] >= _most_saved(weight, best, abs(shift[t])):  # cannot save what it costs
                continue
            if 2 * len(sets) > MAX_FLIP_SETS:
                limit = cost[t]
                break
            for spent, reached, flips in list(sets):
                if spent + cost[t] < best:
                    after = max(reached + shift[t], 0.0)
                    sets.append((spent + cost[t], after, (*flips, t)))
                    value = spent + cost[t] + _least_error(weight, after, doubt)
                    if value < best:
                        best, chosen = value, sets[-1][2]
        least[j] = min(best, limit)
        is_flipped[list(chosen)] = True
    return least, is_flipped


def _least_error(weight: float, total: float, doubt: float) -> float:
    """Return the smallest e_j(S) over all S within ``doubt`` of ``total``."""
    root = 0.5 / weight
    aim = root * root
    nearest = min(total + doubt, aim) if total < aim else max(total - doubt, aim)
    return float(weight * (np.sqrt(nearest) - root) ** 2)


def _most_saved(weight: float, best: float, size: float) -> float:
    """Bound the decrease of e_j by one flip of this size, in a set of total cost <= ``best``.

    For such a set, sqrt(S) ends within sqrt(best / w) of r. As e_j is convex in S, its slope one
    flip earlier bounds the decrease.
    """
    root, reach = 0.5 / weight, np.sqrt(best / weight)
    low, high = max(root - reach, 0.0) ** 2 - size, (root + reach) ** 2 + size
    if low <= 0.0:
        return np.inf
    return float(size * max(weight - 0.5 / np.sqrt(high), 0.5 / np.sqrt(low) - weight))
