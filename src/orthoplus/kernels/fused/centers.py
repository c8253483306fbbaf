"""The swaps of `reference.centers`, compiled: a trial costs some centers, not all of them.

Python calls a few flat loops in turn. Slices, allocations and small inner functions take longer to
compile than the loops, and the first call waits for it.
"""

import math
from typing import NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.fused.cache import reordering, reordering_inlined
from orthoplus.kernels.reference.centers import MAX_SWAP_LOSS, MIN_SWAP_GAIN, SMALL_K_SLACK

_compiled = reordering()
_inner = reordering_inlined(no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_inner
def _renew(B, labels, top, dirty, centers, scores, sums, order):  # type: ignore[no-untyped-def]
    # IN B, labels, top, dirty; OUT centers and scores of the dirty centers, order: their indices;
    # sums: work array. Returns their number.
    n, d = B.shape
    m = 0
    for j in range(dirty.size):
        if dirty[j]:
            order[m] = j
            m += 1
            for t in range(d):
                sums[j, t] = 0.0
    for i in range(n):
        label, x = labels[i], top[i]
        if dirty[label]:
            for t in range(d):
                sums[label, t] += x * B[i, t]
    for a in range(m):
        j, size = order[a], 0.0
        for t in range(d):
            size += sums[j, t] * sums[j, t]
        if size > 0.0:
            size = 1.0 / math.sqrt(size)
            for t in range(d):
                centers[j, t] = sums[j, t] * size
    if m % 2 == 1:
        j = order[m - 1]
        for i in range(n):
            x = 0.0
            for t in range(d):
                x += B[i, t] * centers[j, t]
            scores[j, i] = x
    for a in range(0, m - 1, 2):  # two centers at a time: the rows are read once for both
        j, other = order[a], order[a + 1]
        for i in range(n):
            x, y = 0.0, 0.0
            for t in range(d):
                x += B[i, t] * centers[j, t]
                y += B[i, t] * centers[other, t]
            scores[j, i], scores[other, i] = x, y
    return m


@_compiled
def _alternate(B, centers, scores, labels, top, dirty, touched, old, sums, order, steps, goal):  # type: ignore[no-untyped-def]
    # IN B, steps, goal; IN/OUT centers, scores, labels, top, dirty, touched: mask of the updated
    # centers; old, sums, order: work arrays. Returns the sum of the squared scores.
    n, k, value = labels.size, dirty.size, 0.0
    for i in range(n):
        value += top[i] * top[i]
        old[i] = labels[i]
    for step in range(steps):
        m = _renew(B, labels, top, dirty, centers, scores, sums, order)
        if m == 0:
            break
        for a in range(m):
            dirty[order[a]], touched[order[a]] = False, True
        for i in range(n):
            labels[i], top[i] = 0, max(scores[0, i], 0.0)
        for j in range(1, k):
            for i in range(n):  # no branch: the compiler compares several rows at a time
                s = scores[j, i]
                is_better = s > top[i]
                labels[i] = j if is_better else labels[i]
                top[i] = s if is_better else top[i]
        last, value = value, 0.0
        for i in range(n):
            value += top[i] * top[i]
            if labels[i] != old[i]:
                dirty[old[i]] = dirty[labels[i]] = True
                old[i] = labels[i]
        if value + (steps - 1 - step) * (value - last) <= goal:
            break  # gains decrease from step to step: the goal is out of reach
    return value


@_compiled
def _propose(B, squares, mass, draws, first, labels, top, second, arriving, loss, order):  # type: ignore[no-untyped-def]
    # IN all up to second; OUT arriving: scores with the row as a center; loss, order: work arrays
    # Returns the next draw that may improve the sum, its row, and the center to replace.
    n, d = B.shape
    k = loss.size
    for draw in range(first, len(draws)):
        low, high, level = 0, n, draws[draw, 1] * mass[n - 1]
        while low < high:  # as searchsorted, side="right"
            middle = (low + high) // 2
            if mass[middle] <= level:
                low = middle + 1
            else:
                high = middle
        row = low if low < n else n - 1
        if mass[n - 1] <= 0.0 or squares[row] <= 0.0:
            continue
        gain, scale = 0.0, 1.0 / math.sqrt(squares[row])
        for j in range(k):
            loss[j] = 0.0
        for i in range(n):
            s = 0.0
            for t in range(d):
                s += B[i, t] * B[row, t]
            s *= scale
            arriving[i] = s
            if s > top[i]:
                gain += s * s - top[i] * top[i]
            else:
                v = max(s, second[i])
                loss[labels[i]] += top[i] * top[i] - v * v
        for j in range(k):  # a stable insertion sort, as k is small
            place = j
            while place > 0 and loss[order[place - 1]] > loss[j]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = j
        missed = int(-math.log2(1.0 - draws[draw, 0]))
        dropped = order[missed if missed < k else k - 1]
        if gain - loss[dropped] >= -MAX_SWAP_LOSS * (1.0 + SMALL_K_SLACK / k) * mass[n - 1] / k:
            return draw, row, dropped
    return len(draws), 0, 0


@_compiled
def _assign(scores, labels, top, runner, second):  # type: ignore[no-untyped-def]
    # IN scores; OUT all others: the two best centers of each row and their scores (>= 0)
    k, n = scores.shape
    for i in range(n):
        labels[i], runner[i] = 0, 0
        top[i], second[i] = max(scores[0, i], 0.0), 0.0
    for j in range(1, k):
        for i in range(n):
            s = scores[j, i]
            if s > top[i]:
                runner[i], second[i] = labels[i], top[i]
                labels[i], top[i] = j, s
            elif s > second[i]:
                runner[i], second[i] = j, s


@_compiled
def _replace(arriving, dropped, labels, top, runner, second, to_labels, to_top, dirty):  # type: ignore[no-untyped-def]
    # IN all up to second; OUT to_labels, to_top: labels and scores after the center `dropped` is
    # replaced by one with the scores `arriving`; dirty: marks the centers that lose or win a row
    for i in range(labels.size):
        before, label, most = labels[i], labels[i], top[i]
        if before == dropped:
            label, most = runner[i], second[i]
        if arriving[i] > most:
            label, most = dropped, arriving[i]
        to_labels[i], to_top[i] = label, most
        if before == dropped or label != before:
            dirty[before] = dirty[label] = True


class _Assigned(NamedTuple):
    """Centers with the scores of all rows, the best center of each row, and the second best."""

    centers: FloatArray
    scores: FloatArray
    labels: IntArray
    top: FloatArray
    runner: IntArray
    second: FloatArray


def _assigned(B: FloatArray, centers: FloatArray) -> _Assigned:
    scores, (labels, runner) = centers @ B.T, np.empty((2, len(B)), dtype=np.int64)
    top, second = np.empty((2, len(B)))
    _assign(scores, labels, top, runner, second)
    return _Assigned(centers.copy(), scores, labels, top, runner, second)


def _room(B: FloatArray, k: int) -> tuple[IntArray, FloatArray, IntArray]:
    n, d = B.shape
    return np.empty(n, dtype=np.int64), np.empty((k, d)), np.empty(k, dtype=np.int64)


def alternate_centers(B: FloatArray, centers: FloatArray, steps: int) -> tuple[FloatArray, float]:
    """Alternate with scores and labels kept, recomputing only centers whose rows changed."""
    held, k = _assigned(B, centers), len(centers)
    dirty, touched = np.ones((2, k), dtype=bool)
    value = _alternate(B, *held[:4], dirty, touched, *_room(B, k), steps, -np.inf)
    return held.centers, float(value)


def search_swaps(
    B: FloatArray, centers: FloatArray, draws: FloatArray, steps: int
) -> tuple[FloatArray, float, int]:
    """Try one swap per draw; a draw that cannot pay off is skipped before alternating."""
    n, k, squares = len(B), len(centers), np.einsum("ij,ij->i", B, B)
    held, trial = _assigned(B, centers), _assigned(B, centers)
    arriving, loss, room = np.empty(n), np.empty(k), _room(B, k)
    value, draw, last, is_better = float(held.top @ held.top), 0, 0, True
    while True:
        if is_better:
            mass = np.cumsum(np.maximum(squares - held.top * held.top, 0.0))
        known = (squares, mass, draws, draw, held.labels, held.top, held.second)
        draw, row, dropped = _propose(B, *known, arriving, loss, room[2])
        if draw == len(draws):
            return held.centers, value, draw - last
        dirty, touched = np.zeros((2, k), dtype=bool)
        touched[dropped] = True
        trial.scores[dropped] = arriving
        np.divide(B[row], math.sqrt(squares[row]), out=trial.centers[dropped])
        _replace(arriving, dropped, *held[2:], trial.labels, trial.top, dirty)
        goal, draw = value * (1.0 + MIN_SWAP_GAIN), draw + 1
        trial_value = _alternate(B, *trial[:4], dirty, touched, *room, steps, goal)
        is_better = trial_value > goal
        source, out = (trial, held) if is_better else (held, trial)
        for j in touched.nonzero()[0]:
            out.centers[j], out.scores[j] = source.centers[j], source.scores[j]
        if is_better:
            _assign(*held[1:])
            value, last = float(trial_value), draw
