"""Compiled loops of `reference.pairs`: one thread, rows in order, no fast math.

A move of a row changes the sums that the next row sees, so these loops are sequential. They access
only the candidate pairs, never the matrix.
"""

import numpy as np

from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.pairs import (
    MAX_FLIP_SETS,
    MAX_FOLLOWERS,
    MOVE_THRESHOLD,
    SAFE_GAIN,
    SEARCH_THRESHOLD,
    SUM_ROUNDING,
    TINY,
    Pairs,
)

# No fast math, so that results are bitwise equal to the reference. To keep compilation short,
# allocations, array sums and slices are left to NumPy.
_compiled = njit(nogil=True)
_inner = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # called by loops only


@_compiled
def _transfer_shares(rows, start, column, gain, share, sums, weight):  # type: ignore[no-untyped-def]
    # IN rows, start, column, gain; IN/OUT share, sums, weight
    gap = 0.0
    for i in rows:
        best, worst, most, least, held = -1, -1, -1.0, np.inf, 0.0
        for pair in range(start[i], start[i + 1]):
            slope = weight[column[pair]] * gain[pair]
            if slope > most:
                most, best = slope, pair
            if share[pair] > 0.0:
                held += share[pair] * slope
                if slope < least:
                    least, worst = slope, pair
        gap += most - held
        to, source, p_to, p_from = column[best], column[worst], gain[best], gain[worst]
        if best == worst:
            continue
        amount = share[worst]
        if p_to > SAFE_GAIN and p_from > SAFE_GAIN:  # one division instead of three; no underflow
            amount = p_to * p_to * sums[source] - p_from * p_from * sums[to]
            amount = min(amount / (p_to * p_from * (p_to + p_from)), share[worst])
        elif p_to > 0.0 and p_from > 0.0:
            amount = p_to * (sums[source] / p_from) - p_from * (sums[to] / p_to)
            amount = min(amount / (p_to + p_from), share[worst])
        if amount > 0.0:
            share[worst] -= amount
            share[best] += amount
            sums[source] = max(sums[source] - amount * p_from, 0.0)
            sums[to] += amount * p_to
            weight[source] = 0.5 / np.sqrt(max(sums[source], TINY))
            weight[to] = 0.5 / np.sqrt(max(sums[to], TINY))
    return gap


def transfer_shares_into(rows: IntArray, pairs: Pairs, sums: FloatArray) -> float:
    """Sweep over the rows in one compiled loop, with 0.5 / sqrt(S_j) kept for each column."""
    weight = 0.5 / np.sqrt(np.maximum(sums, TINY))
    return float(_transfer_shares(rows, *pairs, sums, weight))


@_compiled
def _single_moves(rows, start, column, gain, chosen, sums):  # type: ignore[no-untyped-def]
    # IN rows, start, column, gain; IN/OUT chosen, sums
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
            # The increase is at most gain / (2 sqrt(total)), which saves the square roots for most
            # pairs. Divide before squaring: the square of the gain could underflow.
            if pair == held or (
                total > 0.0 and gain[pair] * (gain[pair] / total) <= 4.0 * most * most
            ):
                continue
            increase = np.sqrt(total + gain[pair]) - np.sqrt(total)
            if increase > most:
                best, most = pair, increase
        if best >= 0:
            sums[source] = left
            sums[column[best]] += gain[best]
            chosen[i] = best
            moves += 1
    return moves


def single_moves_into(rows: IntArray, pairs: Pairs, chosen: IntArray, sums: FloatArray) -> int:
    """Sweep over the rows in one compiled loop."""
    return int(_single_moves(rows, *pairs[:3], chosen, sums))


@_compiled
def _slack_into(rows, start, column, gain, weights, slack):  # type: ignore[no-untyped-def]
    # IN all but slack; OUT slack: s = max_l w_l p_l - w_j p_j for each pair of the rows
    for i in rows:
        top = 0.0
        for pair in range(start[i], start[i + 1]):
            top = max(top, weights[column[pair]] * gain[pair])
        for pair in range(start[i], start[i + 1]):
            slack[pair] = top - weights[column[pair]] * gain[pair]


def _slack(rows: IntArray, pairs: Pairs, weights: FloatArray) -> FloatArray:
    """Return the slack of each pair of the rows, and zero for the other pairs."""
    slack = np.zeros(pairs.column.size)
    _slack_into(rows, *pairs[:3], weights, slack)
    return slack


def _column_errors(sums: FloatArray, weights: FloatArray) -> FloatArray:
    """Return e = w (sqrt(S) - 1 / (2 w))^2 of each column."""
    return np.asarray(weights * (np.sqrt(np.maximum(sums, 0.0)) - 0.5 / weights) ** 2)


@_inner
def _column_error(total, weight):  # type: ignore[no-untyped-def]  # e as in `_column_errors`
    return weight * (np.sqrt(max(total, 0.0)) - 0.5 / weight) ** 2


@_inner
def _best_follower(pairs, chosen, sums, weights, lists, move):  # type: ignore[no-untyped-def]
    # IN all; returns the second move (row, pair) with the smallest change of sum s + sum e, or -1,
    # and the number of rows examined. Rows and pairs are skipped if even e = 0 is not enough.
    start, column, gain = pairs
    head, after, slack, error = lists
    source, middle, left, entered, spent, most_error, limit, is_emptied = move
    best_row, best_pair, least, looked = -1, -1, limit, 0
    b = head[middle]
    while b >= 0:
        looked += 1
        held = chosen[b]
        cost = spent - slack[held] + _column_error(entered - gain[held], weights[middle])
        if cost - most_error < least:
            for pair in range(start[b], start[b + 1]):
                m = column[pair]
                change = cost + slack[pair]
                if pair == held or change - error[m] >= least or (is_emptied and m != source):
                    continue
                if m == source:
                    change += _column_error(left + gain[pair], weights[m])
                else:
                    change += _column_error(left, weights[source])
                    change += _column_error(sums[m] + gain[pair], weights[m]) - error[m]
                if change < least:
                    best_row, best_pair, least = b, pair, change
        b = after[b]
    return best_row, best_pair, looked


@_inner
def _make_move(row, to, column, gain, chosen, sums, links):  # type: ignore[no-untyped-def]
    # IN row, to, column, gain; IN/OUT chosen, sums, links = (head, after, before): a doubly linked
    # list of the rows of each column; the row moves from one list to another
    head, after, before = links
    held = chosen[row]
    j, m = column[held], column[to]
    if before[row] >= 0:
        after[before[row]] = after[row]
    else:
        head[j] = after[row]
    if after[row] >= 0:
        before[after[row]] = before[row]
    before[row], after[row] = -1, head[m]
    if head[m] >= 0:
        before[head[m]] = row
    head[m] = row
    sums[j] -= gain[held]
    sums[m] += gain[to]
    chosen[row] = to


@_compiled
def _chain_moves(rows, pairs, chosen, sums, weights, limit, lists, before):  # type: ignore[no-untyped-def]
    # IN rows, pairs = (start, column, gain), weights, limit; IN/OUT chosen, sums, lists = (head,
    # after, slack, error), before; returns the number of double moves
    start, column, gain = pairs
    head, after, slack, error = lists
    for i in rows:
        j = column[chosen[i]]
        after[i] = head[j]
        if head[j] >= 0:
            before[head[j]] = i
        head[j] = i
    # most_error bounds what any third column can contribute to the gain.
    most_error, moves, looked = 0.0, 0, 0
    for j in range(error.size):
        most_error = max(most_error, error[j])
    for a in rows:
        for first in range(start[a], start[a + 1]):
            held = chosen[a]
            j, middle = column[held], column[first]
            spent = slack[first] - slack[held] - error[j] - error[middle]
            if first == held or spent - most_error >= limit or looked > MAX_FOLLOWERS:
                continue
            left, entered = sums[j] - gain[held], sums[middle] + gain[first]
            is_emptied = left <= MOVE_THRESHOLD * gain[held]
            move = (j, middle, left, entered, spent, most_error, limit, is_emptied)
            b, second, rows_seen = _best_follower(pairs, chosen, sums, weights, lists, move)
            looked += rows_seen
            if b >= 0:
                last = column[second]
                _make_move(a, first, column, gain, chosen, sums, (head, after, before))
                _make_move(b, second, column, gain, chosen, sums, (head, after, before))
                most_error = 0.0
                for c in range(error.size):
                    if c == j or c == middle or c == last:
                        error[c] = _column_error(sums[c], weights[c])
                    most_error = max(most_error, error[c])
                moves += 1
    return moves


def chain_moves_into(
    rows: IntArray, pairs: Pairs, chosen: IntArray, sums: FloatArray, weights: FloatArray
) -> int:
    """Sweep over double moves in one compiled loop; linked lists hold each column's rows."""
    head = np.full(sums.size, -1)
    after, before = np.full((2, chosen.size), -1)
    lists = (head, after, _slack(rows, pairs, weights), _column_errors(sums, weights))
    limit = -MOVE_THRESHOLD * float(np.sqrt(np.maximum(sums, 0.0)).sum())
    return int(_chain_moves(rows, pairs[:3], chosen, sums, weights, limit, lists, before))


@_compiled
def _search_rows(  # type: ignore[no-untyped-def]
    rows, pairs, chosen, sums, weights, max_nodes, slack, trial, best, pick, spent, before
):
    # IN rows, pairs = (start, column, gain), weights, max_nodes, slack, trial: sums over the other
    # rows, best: the smallest cost so far; IN/OUT chosen, sums; pick, spent, before: work arrays
    # Depth-first search without recursion: pick[depth] is the pair tried for rows[depth], or -1.
    start, column, gain = pairs
    depth, nodes = 0, 1
    while depth >= 0 and nodes <= max_nodes:
        if depth == rows.size:
            total = 0.0
            for j in range(sums.size):
                root = np.sqrt(max(trial[j], 0.0)) - 0.5 / weights[j]
                total += weights[j] * root**2
            if spent[depth] + total < best * (1.0 - SEARCH_THRESHOLD):
                best = spent[depth] + total
                for j in range(sums.size):
                    sums[j] = trial[j]
                for at in range(rows.size):
                    chosen[rows[at]] = pick[at]
            depth -= 1
            continue
        i, pair = rows[depth], pick[depth]
        if pair >= 0:  # returned from the subtree of this pair: undo it
            trial[column[pair]] = before[depth]
        pair = start[i] if pair < 0 else pair + 1
        while pair < start[i + 1] and spent[depth] + slack[pair] >= best:
            pair += 1
        if pair == start[i + 1]:
            pick[depth] = -1
            depth -= 1
            continue
        pick[depth], before[depth] = pair, trial[column[pair]]
        trial[column[pair]] += gain[pair]
        spent[depth + 1] = spent[depth] + slack[pair]
        depth += 1
        nodes += 1
    return nodes <= max_nodes


def search_rows_into(
    rows: IntArray,
    pairs: Pairs,
    chosen: IntArray,
    sums: FloatArray,
    weights: FloatArray,
    max_nodes: int,
) -> bool:
    """Search depth first without recursion, pruned by the slacks spent so far."""
    slack = _slack(rows, pairs, weights)
    best = float(_column_errors(sums, weights).sum() + slack[chosen[rows]].sum())
    # Restore saved sums instead of subtracting: a difference would leave a rounding error, not 0.
    is_other = chosen >= 0
    is_other[rows] = False
    others = chosen[is_other]
    trial = np.bincount(pairs.column[others], pairs.gain[others], minlength=sums.size)
    trial = trial.astype(np.float64)  # bincount returns integers if there are no other rows
    room = (np.full(rows.size, -1), np.zeros(rows.size + 1), np.zeros(rows.size))
    given = (rows, pairs[:3], chosen, sums, weights, max_nodes)
    return bool(_search_rows(*given, slack, trial, best, *room))


@_inner
def _most_saved(weight, best, size):  # type: ignore[no-untyped-def]
    # Bounds the decrease of e_j by one flip through the slope of e_j, see the reference.
    root, reach = 0.5 / weight, np.sqrt(best / weight)
    low, high = max(root - reach, 0.0) ** 2 - size, (root + reach) ** 2 + size
    if low <= 0.0:
        return np.inf
    return size * max(weight - 0.5 / np.sqrt(high), 0.5 / np.sqrt(low) - weight)


@_compiled
def _cheapest_flips(  # type: ignore[no-untyped-def]
    start, cost, shift, sums, weights, least, is_flipped, spent, reached, parent, flip
):
    # IN all up to weights; OUT least, is_flipped; the rest are work arrays. They hold the sets of
    # flips of a column: the cost of a set, the sum it reaches, the set it extends and the new flip.
    for j in range(sums.size):
        weight, root, size, chosen, limit = weights[j], 0.5 / weights[j], 1, 0, np.inf
        best, aim, doubt = weight * (np.sqrt(sums[j]) - root) ** 2, root * root, sums[j]
        spent[0], reached[0] = 0.0, sums[j]
        for t in range(start[j], start[j + 1]):
            doubt += abs(shift[t])
        doubt *= SUM_ROUNDING
        for t in range(start[j], start[j + 1]):
            if cost[t] >= best:
                break
            if cost[t] >= _most_saved(weight, best, abs(shift[t])):
                continue
            if 2 * size > MAX_FLIP_SETS:
                limit = cost[t]
                break
            last = size
            for before in range(size):
                if spent[before] + cost[t] < best:
                    spent[last] = spent[before] + cost[t]
                    reached[last] = max(reached[before] + shift[t], 0.0)
                    parent[last], flip[last] = before, t
                    total = reached[last]  # take the most favorable value within the doubt
                    total = min(total + doubt, aim) if total < aim else max(total - doubt, aim)
                    value = spent[last] + weight * (np.sqrt(total) - root) ** 2
                    if value < best:
                        best, chosen = value, last
                    last += 1
            size = last
        least[j] = min(best, limit)
        while chosen > 0:
            is_flipped[flip[chosen]] = True
            chosen = parent[chosen]


def cheapest_flips(
    start: IntArray, cost: FloatArray, shift: FloatArray, sums: FloatArray, weights: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Enumerate the useful sets of flips of each column in arrays of fixed size."""
    least, is_flipped = np.empty(sums.size), np.zeros(cost.size, dtype=np.bool_)
    spent, reached = np.empty((2, MAX_FLIP_SETS))
    parent, flip = np.empty((2, MAX_FLIP_SETS), dtype=np.int64)
    room = (spent, reached, parent, flip)
    _cheapest_flips(start, cost, shift, sums, weights, least, is_flipped, *room)
    return least, is_flipped
