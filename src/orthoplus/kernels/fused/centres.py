"""The swaps of `reference.centres`, compiled: a trial costs some centres, not all of them."""

import math

import numpy as np

from orthoplus.core.types import FloatArray
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.reference.centres import GAIN

# Sums may be reordered for SIMD; NaN and infinity keep their meaning.
_compiled = njit(nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})

# Loops, not slices, `argsort` and `searchsorted`: those take twice as long to compile as all that
# is below, and the first call waits for it.


@_compiled
def _copy(source, out):  # type: ignore[no-untyped-def]  # IN source; OUT out; vectors
    for i in range(source.size):
        out[i] = source[i]


@_compiled
def _copy_rows(source, out):  # type: ignore[no-untyped-def]  # IN source; OUT out; matrices
    for i in range(source.shape[0]):
        for t in range(source.shape[1]):
            out[i, t] = source[i, t]


@_compiled
def _sum_of_squares(vector):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(vector.size):
        total += vector[i] * vector[i]
    return total


@_compiled
def _score(B, centre, out):  # type: ignore[no-untyped-def]  # IN B, centre; OUT out
    n, d = B.shape
    for i in range(n):
        total = 0.0
        for t in range(d):
            total += B[i, t] * centre[t]
        out[i] = total


@_compiled
def _assign(scores, labels, top):  # type: ignore[no-untyped-def]  # IN scores; OUT labels, top
    k, n = scores.shape
    for i in range(n):
        labels[i] = 0
        top[i] = scores[0, i]
    for j in range(1, k):
        for i in range(n):
            s = scores[j, i]
            is_better = s > top[i]
            labels[i] = j if is_better else labels[i]
            top[i] = s if is_better else top[i]
    for i in range(n):
        top[i] = max(top[i], 0.0)


@_compiled
def _renew(B, labels, top, dirty, centres, scores):  # type: ignore[no-untyped-def]
    # IN B, labels, top, dirty; OUT the rows of centres and scores that are dirty
    n, d = B.shape
    sums = np.zeros(centres.shape)
    for i in range(n):
        j = labels[i]
        if dirty[j]:
            for t in range(d):
                sums[j, t] += top[i] * B[i, t]
    for j in range(len(centres)):
        if dirty[j]:
            size = math.sqrt(_sum_of_squares(sums[j]))
            if size > 0.0:
                for t in range(d):
                    centres[j, t] = sums[j, t] / size
                _score(B, centres[j], scores[j])


@_compiled
def _has_any(flags):  # type: ignore[no-untyped-def]
    for flag in flags:
        if flag:
            return True
    return False


@_compiled
def _settle(B, centres, scores, labels, top, dirty, steps, goal):  # type: ignore[no-untyped-def]
    # IN B, steps, goal; IN/OUT all the rest; returns the sum
    old = np.empty(labels.size, dtype=np.int64)
    value = _sum_of_squares(top)
    for step in range(steps):
        if not _has_any(dirty):
            break
        _renew(B, labels, top, dirty, centres, scores)
        _copy(labels, old)
        _assign(scores, labels, top)
        _mark_changed(old, labels, dirty)
        last, value = value, _sum_of_squares(top)
        if value + (steps - 1 - step) * (value - last) <= goal:
            break  # the gains fall from step to step: the goal is out of reach
    return value


@_compiled
def _mark_changed(old, new, dirty):  # type: ignore[no-untyped-def]  # IN old, new; OUT dirty
    for j in range(dirty.size):
        dirty[j] = False
    for i in range(old.size):
        if old[i] != new[i]:
            dirty[old[i]] = True
            dirty[new[i]] = True


@_compiled
def _scores_of(B, centres):  # type: ignore[no-untyped-def]
    scores = np.empty((centres.shape[0], B.shape[0]))
    for j in range(len(centres)):
        _score(B, centres[j], scores[j])
    return scores


@_compiled
def _alternate(B, centres, steps):  # type: ignore[no-untyped-def]  # IN B, steps; IN/OUT centres
    n, k = B.shape[0], centres.shape[0]
    scores = _scores_of(B, centres)
    labels, top = np.empty(n, dtype=np.int64), np.empty(n)
    _assign(scores, labels, top)
    dirty = np.empty(k, dtype=np.bool_)
    for j in range(k):
        dirty[j] = True
    return _settle(B, centres, scores, labels, top, dirty, steps, -np.inf)


def alternate_centres(B: FloatArray, centres: FloatArray, steps: int) -> tuple[FloatArray, float]:
    centres = centres.copy()
    return centres, float(_alternate(B, centres, steps))


@_compiled
def _weigh(scores, labels, top, squares, order, mass):  # type: ignore[no-untyped-def]
    # IN scores, labels, top, squares; OUT order of the centres by what they would be missed, mass
    k, n = scores.shape
    loss, passed = np.zeros(k), 0.0
    for i in range(n):
        second = 0.0
        for j in range(k):
            if j != labels[i]:
                second = max(second, scores[j, i])
        loss[labels[i]] += top[i] * top[i] - second * second
        passed += max(squares[i] - top[i] * top[i], 0.0)
        mass[i] = passed
    _sort_by(loss, order)


@_compiled
def _sort_by(keys, order):  # type: ignore[no-untyped-def]  # IN keys; OUT order; stable, k is small
    for j in range(keys.size):
        place = j
        while place > 0 and keys[order[place - 1]] > keys[j]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = j


@_compiled
def _first_above(rising, level):  # type: ignore[no-untyped-def]  # as searchsorted, side="right"
    low, high = 0, rising.size
    while low < high:
        middle = (low + high) // 2
        if rising[middle] <= level:
            low = middle + 1
        else:
            high = middle
    return low


@_compiled
def _swaps(B, centres, draws, steps):  # type: ignore[no-untyped-def]
    # IN B, draws, steps; IN/OUT centres; returns the sum and the failures since the last success
    n, k = B.shape[0], centres.shape[0]
    squares, mass, order = np.empty(n), np.empty(n), np.empty(k, dtype=np.int64)
    for i in range(n):
        squares[i] = _sum_of_squares(B[i])
    scores, trial_scores = _scores_of(B, centres), np.empty((k, n))
    labels, trial_labels = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    top, trial_top = np.empty(n), np.empty(n)
    trial, dirty = np.empty(centres.shape), np.empty(k, dtype=np.bool_)
    _assign(scores, labels, top)
    _weigh(scores, labels, top, squares, order, mass)
    value, failures = _sum_of_squares(top), 0
    for draw in draws:
        failures += 1
        dropped = order[min(int(-math.log2(1.0 - draw[0])), k - 1)]
        row = min(_first_above(mass, draw[1] * mass[-1]), n - 1)
        if mass[-1] <= 0.0 or squares[row] <= 0.0:
            continue
        _copy_rows(centres, trial)
        _copy_rows(scores, trial_scores)
        for t in range(B.shape[1]):
            trial[dropped, t] = B[row, t] / math.sqrt(squares[row])
        _score(B, trial[dropped], trial_scores[dropped])
        _assign(trial_scores, trial_labels, trial_top)
        _mark_changed(labels, trial_labels, dirty)
        goal = value * (1.0 + GAIN)
        trial_value = _settle(B, trial, trial_scores, trial_labels, trial_top, dirty, steps, goal)
        if trial_value > goal:
            _copy_rows(trial, centres)
            _copy_rows(trial_scores, scores)
            _copy(trial_labels, labels)
            _copy(trial_top, top)
            value, failures = trial_value, 0
            _weigh(scores, labels, top, squares, order, mass)
    return value, failures


def search_swaps(
    B: FloatArray, centres: FloatArray, draws: FloatArray, steps: int
) -> tuple[FloatArray, float, int]:
    centres = centres.copy()
    value, failures = _swaps(B, centres, draws, steps)
    return centres, float(value), int(failures)
