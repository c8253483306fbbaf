"""The swaps of `reference.centres`, compiled: a trial costs some centres, not all of them."""

import math

import numpy as np

from orthoplus.core.types import FloatArray
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.reference.centres import FEW, GAIN, HOPELESS

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
        top[i] = max(scores[0, i], 0.0)
    for j in range(1, k):
        for i in range(n):
            s = scores[j, i]
            is_better = s > top[i]
            labels[i] = j if is_better else labels[i]
            top[i] = s if is_better else top[i]


@_compiled
def _reassign(scores, dirty, labels, top):  # type: ignore[no-untyped-def]
    # IN scores, dirty; IN/OUT labels, top: as `_assign` after the scores of the dirty ones changed
    k, n = scores.shape
    for i in range(n):
        if dirty[labels[i]]:
            best, label = max(scores[0, i], 0.0), 0
            for j in range(1, k):
                if scores[j, i] > best:
                    best, label = scores[j, i], j
            labels[i] = label
            top[i] = best
    for j in range(k):
        if dirty[j]:
            for i in range(n):
                s = scores[j, i]
                if s > top[i] or (s == top[i] and j < labels[i]):
                    labels[i] = j
                    top[i] = s


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
def _settle(B, centres, scores, labels, top, dirty, touched, steps, goal):  # type: ignore[no-untyped-def]
    # IN B, steps, goal; IN/OUT all the rest, touched: the centres that were renewed; the sum
    old = np.empty(labels.size, dtype=np.int64)
    value = _sum_of_squares(top)
    for step in range(steps):
        if not _has_any(dirty):
            break
        _renew(B, labels, top, dirty, centres, scores)
        _copy(labels, old)
        _reassign(scores, dirty, labels, top)
        for j in range(dirty.size):
            touched[j] = touched[j] or dirty[j]
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
    dirty, touched = np.empty(k, dtype=np.bool_), np.empty(k, dtype=np.bool_)
    for j in range(k):
        dirty[j] = True
    return _settle(B, centres, scores, labels, top, dirty, touched, steps, -np.inf)


def alternate_centres(B: FloatArray, centres: FloatArray, steps: int) -> tuple[FloatArray, float]:
    centres = centres.copy()
    return centres, float(_alternate(B, centres, steps))


@_compiled
def _weigh(scores, labels, top, squares, second, runner, mass):  # type: ignore[no-untyped-def]
    # IN scores, labels, top, squares; OUT second-largest score, its centre, mass of the residuals
    k, n = scores.shape
    passed = 0.0
    for i in range(n):
        second[i], runner[i] = 0.0, 0
    for j in range(k):
        for i in range(n):
            if scores[j, i] > second[i] and labels[i] != j:
                second[i], runner[i] = scores[j, i], j
    for i in range(n):
        passed += max(squares[i] - top[i] * top[i], 0.0)
        mass[i] = passed


@_compiled
def _losses(arriving, labels, top, second, loss):  # type: ignore[no-untyped-def]
    # IN arriving: scores of a new centre; OUT loss of each centre if it leaves; returns the gain
    gain = 0.0
    for j in range(loss.size):
        loss[j] = 0.0
    for i in range(labels.size):
        s, t, u = max(arriving[i], 0.0), top[i], second[i]
        if s > t:
            gain += s * s - t * t
        else:
            v = max(s, u)
            loss[labels[i]] += t * t - v * v
    return gain


@_compiled
def _replace(arriving, dropped, second, runner, labels, top, dirty):  # type: ignore[no-untyped-def]
    # IN arriving, dropped, second, runner; IN/OUT labels, top; OUT dirty
    for j in range(dirty.size):
        dirty[j] = False
    for i in range(labels.size):
        s, before = arriving[i], labels[i]
        if before == dropped:
            is_new = s > second[i]
            labels[i] = dropped if is_new else runner[i]
            top[i] = s if is_new else second[i]
            dirty[labels[i]] = True
            dirty[dropped] = True
        elif s > top[i]:
            labels[i], top[i] = dropped, s
            dirty[before] = True
            dirty[dropped] = True


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
def _copy_touched(source, touched, out):  # type: ignore[no-untyped-def]  # IN all but out; OUT out
    for j in range(touched.size):
        if touched[j]:
            _copy(source[j], out[j])


@_compiled
def _unit(row, size, out):  # type: ignore[no-untyped-def]  # IN row, size; OUT out
    for t in range(row.size):
        out[t] = row[t] / size


@_compiled
def _swaps(B, centres, draws, steps):  # type: ignore[no-untyped-def]
    # IN B, draws, steps; IN/OUT centres; returns the sum and the failures since the last success
    n, k = B.shape[0], centres.shape[0]
    squares, mass, order = np.empty(n), np.empty(n), np.empty(k, dtype=np.int64)
    for i in range(n):
        squares[i] = _sum_of_squares(B[i])
    scores, trial_scores = _scores_of(B, centres), _scores_of(B, centres)
    labels, trial_labels = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    runner, second, loss = np.empty(n, dtype=np.int64), np.empty(n), np.empty(k)
    top, trial_top, arriving, unit = np.empty(n), np.empty(n), np.empty(n), np.empty(B.shape[1])
    trial, dirty, touched = np.empty(centres.shape), np.empty(k, np.bool_), np.empty(k, np.bool_)
    _assign(scores, labels, top)
    _weigh(scores, labels, top, squares, second, runner, mass)
    value, failures = _sum_of_squares(top), 0
    for draw in draws:
        failures += 1
        row = min(_first_above(mass, draw[1] * mass[-1]), n - 1)
        if mass[-1] <= 0.0 or squares[row] <= 0.0:
            continue
        _unit(B[row], math.sqrt(squares[row]), unit)
        _score(B, unit, arriving)
        gain = _losses(arriving, labels, top, second, loss)
        _sort_by(loss, order)
        dropped = order[min(int(-math.log2(1.0 - draw[0])), k - 1)]
        if gain - loss[dropped] < -HOPELESS * (1.0 + FEW / k) * mass[-1] / k:
            continue
        _copy_rows(centres, trial)
        _copy(unit, trial[dropped])
        _copy(arriving, trial_scores[dropped])
        _copy(labels, trial_labels)
        _copy(top, trial_top)
        _replace(arriving, dropped, second, runner, trial_labels, trial_top, dirty)
        for j in range(k):
            touched[j] = j == dropped
        goal = value * (1.0 + GAIN)
        trial_value = _settle(
            B, trial, trial_scores, trial_labels, trial_top, dirty, touched, steps, goal
        )
        if trial_value > goal:
            _copy_rows(trial, centres)
            _copy_touched(trial_scores, touched, scores)
            _copy(trial_labels, labels)
            _copy(trial_top, top)
            value, failures = trial_value, 0
            _weigh(scores, labels, top, squares, second, runner, mass)
        else:
            _copy_touched(scores, touched, trial_scores)
    return value, failures


def search_swaps(
    B: FloatArray, centres: FloatArray, draws: FloatArray, steps: int
) -> tuple[FloatArray, float, int]:
    centres = centres.copy()
    value, failures = _swaps(B, centres, draws, steps)
    return centres, float(value), int(failures)
