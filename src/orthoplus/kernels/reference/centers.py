"""Unit centers of rows and their swaps, in plain NumPy: the specification.

Row b_i of B belongs to the center c_j with the largest score b_i'c_j and is fitted by its square;
what is sought are k unit centers with the largest sum of squares. A score below zero fits nothing.
"""

import math

import numpy as np

from orthoplus.core.types import BoolArray, FloatArray, IntArray

__all__ = ["alternate_centers", "search_swaps"]

# A swap is kept if it raises the sum by more than this share of it.
GAIN = 1e-9
# A swap that costs more than this share of the mean residual of a group before the alternation is
# not tried: few of those recover. With k centers the share is larger by the factor 1 + FEW / k:
# among few centers more of them do, and trials are cheap.
HOPELESS, FEW = 0.5, 10.0


def alternate_centers(B: FloatArray, centers: FloatArray, steps: int) -> tuple[FloatArray, float]:
    """Assign the rows, renew the centers whose rows changed, until none did; and the sum.

    A center is renewed by one step of the power method on its rows: c_j ~ sum of (b_i'c_j) b_i.
    """
    centers = centers.copy()
    scores = centers @ B.T
    labels, top, _ = _assign(scores)
    dirty = np.ones(len(centers), dtype=bool)
    return centers, _alternate(B, centers, scores, labels, top, dirty, (steps, -np.inf))


def search_swaps(
    B: FloatArray, centers: FloatArray, draws: FloatArray, steps: int
) -> tuple[FloatArray, float, int]:
    """Swap one center for one row, alternate, keep what is better: one trial for each draw.

    The row is sampled by its squared residual with the second number of the draw. The center to go
    is the one that costs least beside that row but ``g``, where g is geometric with parameter 1/2
    by the first number. Returns the centers, their sum, and the failures since the last success.
    """
    k, squares = len(centers), np.einsum("ij,ij->i", B, B)
    scores = centers @ B.T
    labels, top, second = _assign(scores)
    value, failures = float(top @ top), 0
    for drop_draw, row_draw in draws:
        mass = np.cumsum(np.maximum(squares - top * top, 0.0))
        failures += 1
        if mass[-1] <= 0.0:
            continue
        row = min(int(np.searchsorted(mass, row_draw * mass[-1], side="right")), len(B) - 1)
        if squares[row] <= 0.0:
            continue
        center = B[row] / math.sqrt(squares[row])
        arriving = np.maximum(B @ center, 0.0)
        gain = np.maximum(arriving**2 - top**2, 0.0).sum()
        lost = np.maximum(arriving, top) ** 2 - np.maximum(arriving, second) ** 2
        loss = np.bincount(labels, lost, minlength=k)
        dropped = np.argsort(loss, kind="stable")[min(int(-math.log2(1.0 - drop_draw)), k - 1)]
        if gain - loss[dropped] < -HOPELESS * (1.0 + FEW / k) * mass[-1] / k:
            continue
        trial, trial_scores = centers.copy(), scores.copy()
        trial[dropped], trial_scores[dropped] = center, B @ center
        trial_labels, trial_top, _ = _assign(trial_scores)
        dirty = _changed(labels, trial_labels, k)
        dirty[dropped] |= bool((labels == dropped).any())  # its rows have another center
        goal = value * (1.0 + GAIN)
        trial_value = _alternate(
            B, trial, trial_scores, trial_labels, trial_top, dirty, (steps, goal)
        )
        if trial_value > goal:
            centers, scores, value, failures = trial, trial_scores, trial_value, 0
            labels, top, second = _assign(scores)
    return centers, value, failures


def _assign(scores: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Of each row: its center, the first among ties, and its two largest scores, at least 0."""
    ordered = np.sort(np.maximum(scores, 0.0), axis=0)
    second = ordered[-2] if len(scores) > 1 else np.zeros(scores.shape[1])
    return np.maximum(scores, 0.0).argmax(axis=0), ordered[-1], second


def _changed(old: IntArray, new: IntArray, k: int) -> BoolArray:
    """Return the centers that lost or won a row."""
    dirty = np.zeros(k, dtype=bool)
    moved = old != new
    dirty[old[moved]] = dirty[new[moved]] = True
    return dirty


def _alternate(  # noqa: PLR0913
    B: FloatArray,
    centers: FloatArray,
    scores: FloatArray,
    labels: IntArray,
    top: FloatArray,
    dirty: BoolArray,
    limits: tuple[int, float],
) -> float:
    """Renew the dirty centers and assign again, at most so many times; the sum.

    It ends early where the last gain, repeated to the end, would not reach the goal: gains fall
    from step to step. All arrays are changed in place.
    """
    (steps, goal), value = limits, float(top @ top)
    for step in range(steps):
        if not dirty.any():
            break
        for j in np.flatnonzero(dirty):
            renewed = (top * (labels == j)) @ B
            size = math.sqrt(float(renewed @ renewed))
            if size > 0.0:
                centers[j] = renewed / size
                scores[j] = B @ centers[j]
        new, new_top, _ = _assign(scores)
        dirty = _changed(labels, new, len(centers))
        labels[:], top[:] = new, new_top
        last, value = value, float(top @ top)
        if value + (steps - 1 - step) * (value - last) <= goal:
            break
    return value
