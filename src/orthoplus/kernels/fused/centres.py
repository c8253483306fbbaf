"""The swaps of `reference.centres`, compiled: a trial costs some centres, not all of them."""

import math
from typing import NamedTuple

import numpy as np

from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.reference.centres import GAIN

# Sums may be reordered for SIMD; NaN and infinity keep their meaning.
_compiled = njit(nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})


class _State(NamedTuple):
    """Centres (k x d) and, of each row: its scores (k x n), its centre, its largest score."""

    centres: FloatArray
    scores: FloatArray
    labels: IntArray
    top: FloatArray


class _Space(NamedTuple):
    """What `_settle` writes on the way: centres to renew, their sums (k x d), former labels."""

    dirty: BoolArray
    sums: FloatArray
    old: IntArray


# One function without calls, slices or new arrays: each of these takes as long to compile as a
# dozen loops, and the first call waits for it.
@_compiled
def _settle(B, centres, scores, labels, top, dirty, sums, old, steps, goal):  # type: ignore[no-untyped-def]
    # IN B, steps, goal; IN/OUT the rest; returns the sum of the squares of top
    (k, n), d = scores.shape, B.shape[1]
    value = last = 0.0
    for step in range(steps + 1):
        for j in range(k):
            if dirty[j]:
                for i in range(n):
                    total = 0.0
                    for t in range(d):
                        total += B[i, t] * centres[j, t]
                    scores[j, i] = total
        for i in range(n):
            old[i], labels[i], top[i] = labels[i], 0, scores[0, i]
        for j in range(1, k):
            for i in range(n):
                is_better = scores[j, i] > top[i]
                labels[i] = j if is_better else labels[i]
                top[i] = scores[j, i] if is_better else top[i]
        value, has_moved = 0.0, False
        for i in range(n):
            top[i] = max(top[i], 0.0)
            value += top[i] * top[i]
        for j in range(k):
            dirty[j] = False
        for i in range(n):
            if old[i] != labels[i]:
                dirty[old[i]] = dirty[labels[i]] = has_moved = True
        # The gains fall from step to step: a goal that the last one, repeated, misses is too far.
        is_hopeless = step > 0 and value + (steps - step) * (value - last) <= goal
        if step == steps or is_hopeless or not has_moved:
            break
        last = value
        for j in range(k):
            for t in range(d):
                sums[j, t] = 0.0
        for i in range(n):
            if dirty[labels[i]]:
                for t in range(d):
                    sums[labels[i], t] += top[i] * B[i, t]
        for j in range(k):
            size = 0.0
            for t in range(d):
                size += sums[j, t] * sums[j, t]
            if dirty[j] and size > 0.0:
                for t in range(d):
                    centres[j, t] = sums[j, t] / math.sqrt(size)
    return value


def _start(B: FloatArray, centres: FloatArray, steps: int) -> tuple[_State, _Space, float]:
    """Alternate from these centres; with no step, only assign the rows."""
    (n, d), k = B.shape, len(centres)
    labels = np.full(n, -1)  # every row changes at first, and marks the last centre by its -1
    state = _State(centres.copy(), np.empty((k, n)), labels, np.empty(n))
    space = _Space(np.ones(k, dtype=np.bool_), np.empty((k, d)), np.empty(n, dtype=labels.dtype))
    return state, space, _settle(B, *state, *space, steps, -np.inf)


def alternate_centres(B: FloatArray, centres: FloatArray, steps: int) -> tuple[FloatArray, float]:
    state, _, value = _start(B, centres, steps)
    return state.centres, value


def _weigh(state: _State, squares: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the centres in ascending order of their loss, and the summed residuals of the rows."""
    others = state.scores.copy()
    others[state.labels, np.arange(len(squares))] = 0.0
    second = np.maximum(others.max(axis=0), 0.0)
    loss = np.bincount(state.labels, state.top**2 - second**2, minlength=len(others))
    return np.argsort(loss, kind="stable"), np.cumsum(np.maximum(squares - state.top**2, 0.0))


def search_swaps(
    B: FloatArray, centres: FloatArray, draws: FloatArray, steps: int
) -> tuple[FloatArray, float, int]:
    best, space, value = _start(B, centres, 0)
    trial = _State(*(part.copy() for part in best))
    squares, failures, rows = np.einsum("ij,ij->i", B, B), 0, None
    places = np.minimum(-np.log2(1.0 - draws[:, 0]), len(centres) - 1).astype(np.int64)
    for number in range(len(draws)):
        if rows is None:  # the first trial after a success
            order, mass = _weigh(best, squares)
            rows = np.minimum(mass.searchsorted(draws[:, 1] * mass[-1], "right"), len(B) - 1)
        failures += 1
        dropped, row = order[places[number]], rows[number]
        if mass[-1] <= 0.0 or squares[row] <= 0.0:
            continue
        for part, kept in zip(trial, best, strict=True):
            part[...] = kept
        trial.centres[dropped] = B[row] / math.sqrt(squares[row])
        space.dirty[:] = False
        space.dirty[dropped] = True
        goal = value * (1.0 + GAIN)
        found = _settle(B, *trial, *space, steps, goal)
        if found > goal:
            best, trial, value, failures, rows = trial, best, found, 0, None
    return best.centres, float(value), failures
