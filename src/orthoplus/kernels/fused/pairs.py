"""The loops of `reference.pairs`, compiled: one thread, rows in order, exact arithmetic.

A row's move changes the sums that the next row sees, so these loops are sequential by nature; they
touch only the candidate pairs, never the matrix.
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

_compiled = njit(nogil=True)  # no fast mathematics: same bits as the reference


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
        if best == worst:
            continue
        amount = share[worst]
        if p_to > SAFE_GAIN and p_from > SAFE_GAIN:  # one division instead of three
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
            # gain / (2 sqrt(total)) bounds the increase and spares the square roots; the square of
            # the gain alone would underflow first
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
def _best_follower(pairs, chosen, sums, weights, lists, move):  # type: ignore[no-untyped-def]
    # IN all; the move (row, pair) out of the column entered that leaves the least s and e, -1 for
    # none, and the number of rows looked at
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


@_compiled
def _make_move(row, to, pairs, chosen, sums, links):  # type: ignore[no-untyped-def]
    # IN row, to, pairs; IN/OUT chosen, sums, links = (head, after, before)
    _, column, gain = pairs
    head, after, before = links
    held = chosen[row]
    _unlink(row, column[held], head, after, before)
    _link(row, column[to], head, after, before)
    sums[column[held]] -= gain[held]
    sums[column[to]] += gain[to]
    chosen[row] = to


@_compiled
def _column_errors(sums, weights):  # type: ignore[no-untyped-def]
    error = np.empty(sums.size)
    for j in range(sums.size):
        error[j] = _column_error(sums[j], weights[j])
    return error


@_compiled
def _chain_moves(rows, pairs, chosen, sums, weights):  # type: ignore[no-untyped-def]
    # IN rows, pairs = (start, column, gain), weights; IN/OUT chosen, sums
    start, column, gain = pairs
    slack, error = _slack(rows, start, column, gain, weights), _column_errors(sums, weights)
    head, after, before = np.full(sums.size, -1), np.full(chosen.size, -1), np.full(chosen.size, -1)
    for i in rows:
        _link(i, column[chosen[i]], head, after, before)
    limit = -MOVE_THRESHOLD * np.sqrt(np.maximum(sums, 0.0)).sum()
    most_error, moves, looked = error.max(), 0, 0
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
            lists = (head, after, slack, error)
            b, second, rows_seen = _best_follower(pairs, chosen, sums, weights, lists, move)
            looked += rows_seen
            if b >= 0:
                _make_move(a, first, pairs, chosen, sums, (head, after, before))
                _make_move(b, second, pairs, chosen, sums, (head, after, before))
                for c in (j, middle, column[second]):
                    error[c] = _column_error(sums[c], weights[c])
                most_error = error.max()
                moves += 1
    return moves


def chain_moves_into(
    rows: IntArray, pairs: Pairs, chosen: IntArray, sums: FloatArray, weights: FloatArray
) -> int:
    return int(_chain_moves(rows, pairs[:3], chosen, sums, weights))


@_compiled
def _next_choice(pair, end, spent, slack, best):  # type: ignore[no-untyped-def]
    # the first pair from here on that a better assignment may use
    while pair < end and spent + slack[pair] >= best:
        pair += 1
    return pair


@_compiled
def _search_rows(rows, pairs, chosen, sums, weights, max_nodes):  # type: ignore[no-untyped-def]
    # IN rows, pairs = (start, column, gain), weights, max_nodes; IN/OUT chosen, sums
    start, column, gain = pairs
    slack, trial = _slack(rows, start, column, gain, weights), np.zeros(sums.size)
    best, is_open = _column_errors(sums, weights).sum(), np.zeros(chosen.size, dtype=np.bool_)
    for i in rows:
        best += slack[chosen[i]]
        is_open[i] = True
    # Sums are only added to, and restored: a difference would leave rounding instead of 0.
    for i in range(chosen.size):
        if chosen[i] >= 0 and not is_open[i]:
            trial[column[chosen[i]]] += gain[chosen[i]]
    pick, spent = np.full(rows.size, -1), np.zeros(rows.size + 1)
    before = np.zeros(rows.size)
    depth, nodes = 0, 1
    while depth >= 0 and nodes <= max_nodes:
        if depth == rows.size:
            total = spent[depth] + _column_errors(trial, weights).sum()
            if total < best * (1.0 - SEARCH_THRESHOLD):
                best = total
                for j in range(sums.size):  # loops: assigned slices take seconds to compile
                    sums[j] = trial[j]
                for at in range(rows.size):
                    chosen[rows[at]] = pick[at]
            depth -= 1
            continue
        i, pair = rows[depth], pick[depth]
        if pair >= 0:  # back from the subtree of this pair
            trial[column[pair]] = before[depth]
        pair = start[i] if pair < 0 else pair + 1
        pair = _next_choice(pair, start[i + 1], spent[depth], slack, best)
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
    return bool(_search_rows(rows, pairs[:3], chosen, sums, weights, max_nodes))


@_compiled
def _most_saved(weight, best, size):  # type: ignore[no-untyped-def]
    root, reach = 0.5 / weight, np.sqrt(best / weight)
    low, high = max(root - reach, 0.0) ** 2 - size, (root + reach) ** 2 + size
    if low <= 0.0:
        return np.inf
    return size * max(weight - 0.5 / np.sqrt(high), 0.5 / np.sqrt(low) - weight)


@_compiled
def _least_error(weight, total, doubt):  # type: ignore[no-untyped-def]
    root = 0.5 / weight
    aim = root * root
    nearest = min(total + doubt, aim) if total < aim else max(total - doubt, aim)
    return weight * (np.sqrt(nearest) - root) ** 2


@_compiled
def _extend_sets(flip, weight, best, size, spent, reached):  # type: ignore[no-untyped-def]
    # IN flip = (cost, shift, doubt of sums); IN/OUT spent, reached: the sets 0..size-1, to which
    # those with this flip are added
    cost, shift, doubt = flip
    last, parent, chosen = size, np.empty(size, dtype=np.int64), -1
    for before in range(size):
        if spent[before] + cost < best:
            spent[last] = spent[before] + cost
            reached[last] = max(reached[before] + shift, 0.0)
            parent[last - size] = before
            value = spent[last] + _least_error(weight, reached[last], doubt)
            if value < best:
                best, chosen = value, last
            last += 1
    return best, chosen, parent[: last - size]


@_compiled
def _cheapest_flips(start, cost, shift, sums, weights):  # type: ignore[no-untyped-def]
    least, is_flipped = np.empty(sums.size), np.zeros(cost.size, dtype=np.bool_)
    spent, reached = np.empty(MAX_FLIP_SETS), np.empty(MAX_FLIP_SETS)
    parent, flip = np.empty(MAX_FLIP_SETS, np.int64), np.empty(MAX_FLIP_SETS, np.int64)
    for j in range(sums.size):
        weight, size, chosen, limit = weights[j], 1, 0, np.inf
        best = weight * (np.sqrt(sums[j]) - 0.5 / weight) ** 2
        spent[0], reached[0] = 0.0, sums[j]
        doubt = SUM_ROUNDING * (sums[j] + np.abs(shift[start[j] : start[j + 1]]).sum())
        for t in range(start[j], start[j + 1]):
            if cost[t] >= best:
                break
            if cost[t] >= _most_saved(weight, best, abs(shift[t])):
                continue
            if 2 * size > MAX_FLIP_SETS:
                limit = cost[t]
                break
            best, fresh, parents = _extend_sets(
                (cost[t], shift[t], doubt), weight, best, size, spent, reached
            )
            chosen = fresh if fresh >= 0 else chosen
            parent[size : size + parents.size] = parents
            flip[size : size + parents.size] = t
            size += parents.size
        least[j] = min(best, limit)
        while chosen > 0:
            is_flipped[flip[chosen]] = True
            chosen = parent[chosen]
    return least, is_flipped


def cheapest_flips(
    start: IntArray, cost: FloatArray, shift: FloatArray, sums: FloatArray, weights: FloatArray
) -> tuple[FloatArray, BoolArray]:
    least, is_flipped = _cheapest_flips(start, cost, shift, sums, weights)
    return least, is_flipped
