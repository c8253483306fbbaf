"""The loops of `reference_pairs`, compiled. Rows are visited in order: one thread, exact arithmetic.

A row's move changes the sums that the next row sees, so these loops are sequential by nature; they
touch only the candidate pairs, never the matrix.
"""

import numpy as np
from numba import njit

from orthoplus.kernels.reference_pairs import MOVE_THRESHOLD, TINY, Pairs, w_slack
from orthoplus.protocols import FloatArray, IntArray

__all__ = ["chain_moves_into", "search_rows_into", "single_moves_into", "transfer_shares_into"]

_compiled = njit(cache=True, nogil=True)  # no fast mathematics: same bits as the reference


@_compiled
def _transfer_shares(rows, start, column, gain, share, sums):  # type: ignore[no-untyped-def]
    # IN rows, start, column, gain; IN/OUT share, sums
    weight = 0.5 / np.sqrt(np.maximum(sums, TINY))
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
        amount = p_to * p_to * sums[source] - p_from * p_from * sums[to]
        amount = min(amount / (p_to * p_from * (p_to + p_from)), share[worst])
        if best != worst and amount > 0.0:
            share[worst] -= amount
            share[best] += amount
            sums[source] = max(sums[source] - amount * p_from, 0.0)
            sums[to] += amount * p_to
            weight[source] = 0.5 / np.sqrt(max(sums[source], TINY))
            weight[to] = 0.5 / np.sqrt(max(sums[to], TINY))
    return gap


def transfer_shares_into(rows: IntArray, pairs: Pairs, sums: FloatArray) -> float:
    return float(_transfer_shares(rows, *pairs, sums))


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
            # gain / (2 sqrt(total)) bounds the increase and spares the square roots
            if pair == held or gain[pair] * gain[pair] <= 4.0 * most * most * total:
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
    return int(_single_moves(rows, *pairs[:3], chosen, sums))


@_compiled
def _link(row, j, head, after, before):  # type: ignore[no-untyped-def]  # IN/OUT head, after, before
    before[row] = -1
    after[row] = head[j]
    if head[j] >= 0:
        before[head[j]] = row
    head[j] = row


@_compiled
def _unlink(row, j, head, after, before):  # type: ignore[no-untyped-def]
    # IN/OUT head, after, before
    if before[row] >= 0:
        after[before[row]] = after[row]
    else:
        head[j] = after[row]
    if after[row] >= 0:
        before[after[row]] = before[row]


@_compiled
def _slack(rows, start, column, gain, weights):  # type: ignore[no-untyped-def]
    # s = max_l w_l p_l - w_j p_j for each pair of the rows, zero elsewhere
    slack = np.zeros(column.size)
    for i in rows:
        top = 0.0
        for pair in range(start[i], start[i + 1]):
            top = max(top, weights[column[pair]] * gain[pair])
        for pair in range(start[i], start[i + 1]):
            slack[pair] = top - weights[column[pair]] * gain[pair]
    return slack


@_compiled
def _column_error(total, weight):  # type: ignore[no-untyped-def]  # e = w (sqrt(S) - 1 / (2 w))^2
    return weight * (np.sqrt(max(total, 0.0)) - 0.5 / weight) ** 2


@_compiled
def _best_follower(start, column, gain, chosen, sums, weights, lists, slack, first, move):  # type: ignore[no-untyped-def]
    # the cheapest move out of the column that `first` enters; (row, pair, change) with row -1: none
    head, after = lists
    a, source, left, entered, spent, most_error, limit = move
    middle = column[first]
    best_row, best_pair, least = -1, -1, limit
    b = head[middle]
    while b >= 0:
        held = chosen[b]
        cost = spent + _column_error(entered - gain[held], weights[middle]) - slack[held]
        if cost - most_error < least:
            for pair in range(start[b], start[b + 1]):
                if pair == held or cost + slack[pair] - most_error >= least:
                    continue
                m = column[pair]
                if m == source:
                    change = cost + _column_error(left + gain[pair], weights[m])
                elif left <= MOVE_THRESHOLD * gain[chosen[a]]:
                    continue
                else:
                    change = cost + _column_error(left, weights[source])
                    change += _column_error(sums[m] + gain[pair], weights[m])
                    change -= _column_error(sums[m], weights[m])
                if change + slack[pair] < least:
                    best_row, best_pair, least = b, pair, change + slack[pair]
        b = after[b]
    return best_row, best_pair


@_compiled
def _chain_moves(rows, start, column, gain, chosen, sums, weights):  # type: ignore[no-untyped-def]
    # IN rows, start, column, gain, weights; IN/OUT chosen, sums
    slack = _slack(rows, start, column, gain, weights)
    head = np.full(sums.size, -1)
    after, before = np.full(chosen.size, -1), np.full(chosen.size, -1)
    for i in rows:
        _link(i, column[chosen[i]], head, after, before)
    error = np.empty(sums.size)
    for j in range(sums.size):
        error[j] = _column_error(sums[j], weights[j])
    limit = -MOVE_THRESHOLD * np.sqrt(np.maximum(sums, 0.0)).sum()
    most_error = error.max()
    moves = 0
    for a in rows:
        for first in range(start[a], start[a + 1]):
            held = chosen[a]
            if first == held:
                continue
            j, l = column[held], column[first]
            left, entered = sums[j] - gain[held], sums[l] + gain[first]
            spent = slack[first] - slack[held] - error[j] - error[l]
            if spent - most_error >= limit:
                continue
            move = (a, j, left, entered, spent, most_error, limit)
            b, second = _best_follower(
                start, column, gain, chosen, sums, weights, (head, after), slack, first, move
            )
            if b < 0:
                continue
            for row, to in ((a, first), (b, second)):
                source = column[chosen[row]]
                _unlink(row, source, head, after, before)
                _link(row, column[to], head, after, before)
                sums[source] -= gain[chosen[row]]
                sums[column[to]] += gain[to]
                chosen[row] = to
            for c in (j, l, column[second]):
                error[c] = _column_error(sums[c], weights[c])
            most_error = error.max()
            moves += 1
    return moves


def chain_moves_into(
    rows: IntArray, pairs: Pairs, chosen: IntArray, sums: FloatArray, weights: FloatArray
) -> int:
    return int(_chain_moves(rows, *pairs[:3], chosen, sums, weights))


@_compiled
def _search_rows(rows, start, column, gain, chosen, sums, weights, max_nodes):  # type: ignore[no-untyped-def]
    # IN rows, start, column, gain, weights, max_nodes; IN/OUT chosen, sums
    slack = _slack(rows, start, column, gain, weights)
    best, trial, depth_count = 0.0, sums.copy(), rows.size
    for j in range(sums.size):
        best += _column_error(sums[j], weights[j])
    for i in rows:
        best += slack[chosen[i]]
        trial[column[chosen[i]]] -= gain[chosen[i]]
    pick, spent = np.full(depth_count, -1), np.zeros(depth_count + 1)
    depth, nodes = 0, 1
    while depth >= 0 and nodes <= max_nodes:
        if depth == depth_count:
            total = spent[depth]
            for j in range(sums.size):
                total += _column_error(trial[j], weights[j])
            if total < best * (1.0 - 1e-9):
                best = total
                sums[:] = trial
                for d in range(depth_count):
                    chosen[rows[d]] = pick[d]
            depth -= 1
            continue
        i = rows[depth]
        if pick[depth] < 0:
            pick[depth] = start[i]
        else:  # back from the subtree of this pair
            trial[column[pick[depth]]] -= gain[pick[depth]]
            pick[depth] += 1
        while pick[depth] < start[i + 1] and spent[depth] + slack[pick[depth]] >= best:
            pick[depth] += 1
        if pick[depth] == start[i + 1]:
            pick[depth] = -1
            depth -= 1
            continue
        trial[column[pick[depth]]] += gain[pick[depth]]
        spent[depth + 1] = spent[depth] + slack[pick[depth]]
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
    return bool(_search_rows(rows, *pairs[:3], chosen, sums, weights, max_nodes))
