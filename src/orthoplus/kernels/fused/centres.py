"""The swaps of `reference.centres`, compiled: a trial costs some centres, not all of them."""

import math
from typing import NamedTuple

import numpy as np

from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.reference.centres import GAIN

# Sums may be reordered for SIMD; NaN and infinity keep their meaning.
_compiled = njit(nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})


class _States(NamedTuple):
    """Two states, the best one and a trial, and what a trial writes on the way."""

    centres: FloatArray  # 3 x k x d: of both states, and sums
    scores: FloatArray  # 2 x k x n
    labels: IntArray  # 3 x n: of both states, and those before the last step
    top: FloatArray  # 2 x n: the largest score of each row, at least 0
    dirty: BoolArray  # 2 x k: centres to renew; those in which the states differ


@_compiled
def _score(B, centre, out):  # type: ignore[no-untyped-def]  # IN B, centre; OUT out
    n, d = B.shape
    for i in range(n):
        total = 0.0
        for t in range(d):
            total += B[i, t] * centre[t]
        out[i] = total


# Below are few calls, slices and new arrays: each of these takes as long to compile as some loops,
# and the first call waits for it.
@njit(nogil=True, inline="always")
def _restore(B, centres, scores, labels, dirty, now, dropped, row, size):  # type: ignore[no-untyped-def]
    # IN B, dropped, row, size; OUT state now: as the other one, but for one centre
    for j in range(dirty.shape[1]):
        if dirty[1, j]:
            for i in range(scores.shape[2]):
                scores[now, j, i] = scores[1 - now, j, i]
            for t in range(B.shape[1]):
                centres[now, j, t] = centres[1 - now, j, t]
        dirty[0, j] = dirty[1, j] = j == dropped
    for i in range(scores.shape[2]):
        labels[now, i] = labels[1 - now, i]
    for t in range(B.shape[1]):
        centres[now, dropped, t] = B[row, t] / size


@_compiled
def _settle(B, centres, scores, labels, top, dirty, now, swap, steps, goal):  # type: ignore[no-untyped-def]
    # IN B, now, swap = (dropped, row, its norm), steps, goal; IN/OUT the rest
    # returns the sum of the squares of top
    (_, k, n), d = scores.shape, B.shape[1]
    if swap[0] >= 0:
        _restore(B, centres, scores, labels, dirty, now, swap[0], swap[1], swap[2])
    centre, score, label, best = centres[now], scores[now], labels[now], top[now]
    value = last = 0.0
    for step in range(steps + 1):
        for j in range(k):
            if dirty[0, j]:
                _score(B, centre[j], score[j])
        for i in range(n):
            labels[2, i], label[i], best[i] = label[i], 0, score[0, i]
        for j in range(1, k):
            for i in range(n):
                new, most = score[j, i], best[i]
                label[i] = j if new > most else label[i]
                best[i] = new if new > most else most
        value, has_moved = 0.0, False
        for i in range(n):
            most = best[i] if best[i] > 0.0 else 0.0
            best[i] = most
            value += most * most
        for j in range(k):
            dirty[0, j] = False
        for i in range(n):
            if labels[2, i] != label[i]:
                dirty[0, labels[2, i]] = dirty[0, label[i]] = has_moved = True
        # The gains fall from step to step: a goal that the last one, repeated, misses is too far.
        is_hopeless = step > 0 and value + (steps - step) * (value - last) <= goal
        if step == steps or is_hopeless or not has_moved:
            break
        last = value
        for j in range(k):
            for t in range(d):
                centres[2, j, t] = 0.0
        for i in range(n):
            j, weight = label[i], best[i]
            if dirty[0, j]:
                for t in range(d):
                    centres[2, j, t] += weight * B[i, t]
        for j in range(k):
            size = 0.0
            for t in range(d):
                size += centres[2, j, t] * centres[2, j, t]
            dirty[0, j] = size > 0.0  # also no if no row fits: then the centre stays
            if dirty[0, j]:
                dirty[1, j] = True
                for t in range(d):
                    centre[j, t] = centres[2, j, t] / math.sqrt(size)
    return value


def _start(B: FloatArray, centres: FloatArray, steps: int) -> tuple[_States, float]:
    """Alternate from these centres in state 0; with no step, only assign the rows."""
    n, k = len(B), len(centres)
    # Every row changes at first, and by its -1 it marks the last centre.
    states = _States(
        centres=np.stack([centres] * 3),
        scores=np.empty((2, k, n)),
        labels=np.full((3, n), -1),
        top=np.empty((2, n)),
        dirty=np.ones((2, k), dtype=np.bool_),
    )
    return states, _settle(B, *states, 0, (-1, -1, 0.0), steps, -np.inf)


def alternate_centres(B: FloatArray, centres: FloatArray, steps: int) -> tuple[FloatArray, float]:
    states, value = _start(B, centres, steps)
    return states.centres[0], value


def _weigh(
    scores: FloatArray, labels: IntArray, top: FloatArray, squares: FloatArray
) -> tuple[list[int], FloatArray]:
    """Return the centres in ascending order of their loss, and the summed residuals of the rows."""
    others = scores.copy()
    others[labels, np.arange(len(squares))] = 0.0
    second = np.maximum(others.max(axis=0), 0.0)
    loss = np.bincount(labels, top**2 - second**2, minlength=len(others))
    order = np.argsort(loss, kind="stable").tolist()
    return order, np.cumsum(np.maximum(squares - top**2, 0.0))


def search_swaps(
    B: FloatArray, centres: FloatArray, draws: FloatArray, steps: int
) -> tuple[FloatArray, float, int]:
    states, value = _start(B, centres, 0)
    squares = np.einsum("ij,ij->i", B, B)
    sizes = np.sqrt(squares)
    places = np.minimum(-np.log2(1.0 - draws[:, 0]), len(centres) - 1).astype(np.int64)
    best, failures, is_new = 0, 0, True
    for number, place in enumerate(places.tolist()):
        if is_new:  # the first trial after a success
            of_best = (states.scores[best], states.labels[best], states.top[best])
            order, mass = _weigh(*of_best, squares)
            rows = np.minimum(mass.searchsorted(draws[:, 1] * mass[-1], "right"), len(B) - 1)
            swaps = list(zip(rows.tolist(), (sizes[rows] * (mass[-1] > 0.0)).tolist(), strict=True))
        row, size = swaps[number]
        goal, found = value * (1.0 + GAIN), -np.inf
        if size > 0.0:
            swap = (order[place], row, size)
            found = _settle(B, *states, 1 - best, swap, steps, goal)
        is_new, failures = found > goal, failures + 1
        if is_new:
            best, value, failures = 1 - best, found, 0
    return states.centres[best].copy(), float(value), failures
