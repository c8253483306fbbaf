"""Compiled loops of `reference.divergence`.

A sweep evaluates many logarithms. Cheap bounds on gains and losses come first, so that exact values
are needed only for the few groups that may improve.
"""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.fused.cache import njit, reordering, reordering_inlined
from orthoplus.kernels.reference.divergence import MOVE_ROUNDING

_compiled = reordering()
# Results of 0 / 0 are discarded below; without a check for them the loop over groups vectorizes.
_bounding = reordering_inlined(error_model="numpy")
# No fast math, because gains are compared.
_exact = njit(nogil=True)
# Relative rounding error of the bounds on gains and losses.
BOUND_ROUNDING = 1e-11
# Entries in a block of rows, at least one row.
_ENTRIES_AT_ONCE = 1 << 18


@_compiled
def _sampled_products(indices, indptr, X, Y, out):  # type: ignore[no-untyped-def]
    # IN all but out; OUT out
    k = X.shape[1]
    for i in range(indptr.size - 1):
        for at in range(indptr[i], indptr[i + 1]):
            total = 0.0
            for j in range(k):
                total += np.float64(X[i, j]) * Y[indices[at], j]
            out[at] = total


def sampled_products(
    indices: IntArray, indptr: IntArray, X: FloatArray, Y: FloatArray
) -> FloatArray:
    """Compute x_i'y_l only at the entries of the pattern, without the product XY'."""
    out = np.empty(indices.size)
    X, Y = np.ascontiguousarray(X), np.ascontiguousarray(Y)
    _sampled_products(indices, indptr, X, Y, out)
    return out


@_exact
def _x_log_x(x):  # type: ignore[no-untyped-def]
    return x * np.log(x) if x > 0.0 else 0.0


@_bounding
def _most_gains(entries, alone, columns, state, most):  # type: ignore[no-untyped-def]
    # IN entries, alone = a log a of each, columns, state = (sums, terms, totals);
    # OUT most: upper bounds on the gains of the groups; returns the sum of the row
    # (c + a) log(c + a) - c log c = a log c + (c + a) log(1 + a/c), and for x >= 0
    # log(1 + x) <= x (6 + x) / (6 + 4x): one division per term instead of a logarithm.
    sums, terms, totals = state
    most[:] = 0.0
    size = 0.0
    for at in range(entries.size):
        a, l = np.float64(entries[at]), columns[at]  # noqa: E741
        size += a
        single = alone[at]
        for j in range(most.size):
            c = sums[l, j]
            d = 6.0 * c + 4.0 * a
            above = a * (terms[l, j] * d + (c + a) * (6.0 * c + a)) / (c * d)
            most[j] += above if c > 0.0 else single
    for j in range(most.size):
        s = totals[j]
        most[j] -= (s + size) * np.log(s + size) - s * np.log(s) if s > 0.0 else 0.0
    return size


@_bounding
def _least_loss(entries, columns, own, state):  # type: ignore[no-untyped-def]
    # IN all; returns a lower bound on the loss of the row's group
    # c log c - (c - a) log(c - a) = a log c + (c - a) log(1 + x) with x = a / (c - a), and for
    # x >= 0 log(1 + x) >= 2x / (2 + x), which needs no logarithm either.
    sums, terms, totals = state
    least, size = 0.0, 0.0
    for at in range(entries.size):
        a, l = np.float64(entries[at]), columns[at]  # noqa: E741
        c = sums[l, own]
        size += a
        below = a * (terms[l, own] / c + 2.0 * max(c - a, 0.0) / (2.0 * c - a))
        least += below if c > 0.0 else 0.0
    s, rest = totals[own], totals[own] - size
    least -= s * np.log(s) if s > 0.0 else 0.0
    return least + (rest * np.log(rest) if rest > 0.0 else 0.0)


@_exact
def _loss(entries, columns, own, state):  # type: ignore[no-untyped-def]
    # IN all; returns the loss of the group if the row leaves, and the rounding error of the loss
    sums, terms, totals = state
    loss, size = 0.0, 0.0
    for at in range(entries.size):
        a, l = np.float64(entries[at]), columns[at]  # noqa: E741
        size += a
        loss += terms[l, own] - _x_log_x(max(sums[l, own] - a, 0.0))
    loss -= _x_log_x(totals[own]) - _x_log_x(max(totals[own] - size, 0.0))
    return loss, MOVE_ROUNDING * _x_log_x(totals[own] + size)


@_exact
def _gain(entries, columns, group, state):  # type: ignore[no-untyped-def]
    # IN all; returns the gain of the group if the row joins
    sums, terms, totals = state
    gain, size = 0.0, 0.0
    for at in range(entries.size):
        a, l = np.float64(entries[at]), columns[at]  # noqa: E741
        size += a
        gain += _x_log_x(sums[l, group] + a) - terms[l, group]
    return gain - (_x_log_x(totals[group] + size) - _x_log_x(totals[group]))


@_exact
def _best_group(entries, alone, columns, own, state, most):  # type: ignore[no-untyped-def]
    # IN all but most, which is a work array; returns the best group for the row, -1 to stay
    size = _most_gains(entries, alone, columns, state, most)
    least = _least_loss(entries, columns, own, state)
    slack = BOUND_ROUNDING * (abs(least) + size + _x_log_x(state[2].max() + size))
    most[own] = -np.inf
    if most.max() + slack <= least - slack:
        return -1  # no gain can exceed the loss, so exact values are not needed
    loss, rounding = _loss(entries, columns, own, state)
    best, largest = -1, loss + rounding
    for j in range(most.size):
        if most[j] + slack > largest:
            gain = _gain(entries, columns, j, state)
            if gain > largest:
                best, largest = j, gain
    return best


@_exact
def _move(entries, columns, own, best, state):  # type: ignore[no-untyped-def]
    # IN all but state; IN/OUT state = (sums, terms, totals)
    sums, terms, totals = state
    for at in range(entries.size):
        a, c = np.float64(entries[at]), columns[at]
        sums[c, own] = max(sums[c, own] - a, 0.0)
        sums[c, best] += a
        terms[c, own], terms[c, best] = _x_log_x(sums[c, own]), _x_log_x(sums[c, best])
        totals[own] = max(totals[own] - a, 0.0)
        totals[best] += a


@_exact
def _move_rows(parts, alone, labels, counts, state):  # type: ignore[no-untyped-def]
    # IN parts = (data, indices, indptr), alone = a log a of the data;
    # IN/OUT labels, counts, state = (sums, terms, totals)
    data, indices, indptr = parts
    every = np.arange(state[0].shape[0]).astype(indices.dtype)
    most, moved = np.empty(counts.size), 0
    for i in range(labels.size):
        own, low, high = labels[i], indptr[i], indptr[i + 1]
        if own < 0 or counts[own] < 2:
            continue
        columns = indices[low:high] if indices.size > 0 else every
        row, single = data[low:high], alone[low:high]
        best = _best_group(row, single, columns, own, state, most)
        if best >= 0:
            _move(row, columns, own, best, state)
            counts[own] -= 1
            counts[best] += 1
            labels[i] = best
            moved += 1
    return moved


def move_rows_into(
    parts: tuple[FloatArray, IntArray, IntArray],
    labels: IntArray,
    sums: FloatArray,
    counts: IntArray,
) -> int:
    """Move rows; bounds without logarithms rule out most groups before exact gains."""
    data, indices, indptr = parts
    terms = sums * np.log(np.where(sums > 0, sums, 1.0))
    state, n_moved, first = (sums, terms, sums.sum(axis=0)), 0, 0
    while first < labels.size:  # blocks of rows, so that a log a takes little memory
        last = int(np.searchsorted(indptr, int(indptr[first]) + _ENTRIES_AT_ONCE, "right")) - 1
        last = min(max(last, first + 1), labels.size)
        low, high = int(indptr[first]), int(indptr[last])
        entries = data[low:high].astype(np.float64, copy=False)
        alone = entries * np.log(np.where(entries > 0, entries, 1.0))
        columns = indices[low:high] if low < high and indices.size else indices
        block = (data[low:high], columns, indptr[first : last + 1] - low)
        n_moved += int(_move_rows(block, alone, labels[first:last], counts, state))
        first = last
    return n_moved
