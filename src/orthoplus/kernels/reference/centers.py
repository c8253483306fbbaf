"""Alternation and swaps of unit centers, in plain NumPy: the specification.

Row b_i of B is assigned to the center c_j with the largest score b_i'c_j. The k unit centers
maximize the sum of the squared scores, sum_i max_j max(b_i'c_j, 0)^2.
"""

import math

import numpy as np

from orthoplus.core.types import BoolArray, FloatArray, IntArray

__all__ = ["alternate_centers", "search_swaps"]

# A swap is kept if it increases the sum by more than this fraction.
MIN_SWAP_GAIN = 1e-9
# A swap is skipped if, before the alternation, it loses more than this number times
# (1 + SMALL_K_SLACK / k) times the mean residual of a group: few of those recover. The limit is
# wider for small k, where more swaps recover and trials are cheap.
MAX_SWAP_LOSS, SMALL_K_SLACK = 0.5, 10.0


def alternate_centers(B: FloatArray, centers: FloatArray, steps: int) -> tuple[FloatArray, float]:
    """Alternate between assigning rows and updating centers; return the centers and the sum.

    Only centers whose rows changed are updated, by one step of the power method on their rows,
    c_j ~ sum of (b_i'c_j) b_i. The loop ends if no row changes, or after ``steps`` steps.
    """
    centers = centers.copy()
    scores = centers @ B.T
    labels, top, _ = _assign(scores)
    dirty = np.ones(len(centers), dtype=bool)
    return centers, _alternate(B, centers, scores, labels, top, dirty, (steps, -np.inf))


def search_swaps(
    B: FloatArray, centers: FloatArray, draws: FloatArray, steps: int
) -> tuple[FloatArray, float, int]:
    """Replace one center by one row, alternate, and keep improvements; one trial per draw.

    The second number of a draw samples the row with a probability proportional to its squared
    residual. The first number picks the center to replace: the centers are sorted by their loss,
    and the position is geometrically distributed with parameter 1/2. Return the centers, their
    sum, and the number of failed trials since the last success.
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
        # Rows gain where the new center scores higher; a dropped center loses its rows to the
        # better one of the new center and their second best.
        arriving = np.maximum(B @ center, 0.0)
        gain = np.maximum(arriving**2 - top**2, 0.0).sum()
        lost = np.maximum(arriving, top) ** 2 - np.maximum(arriving, second) ** 2
        loss = np.bincount(labels, lost, minlength=k)
        dropped = np.argsort(loss, kind="stable")[min(int(-math.log2(1.0 - drop_draw)), k - 1)]
        if gain - loss[dropped] < -MAX_SWAP_LOSS * (1.0 + SMALL_K_SLACK / k) * mass[-1] / k:
            continue
        trial, trial_scores = centers.copy(), scores.copy()
        trial[dropped], trial_scores[dropped] = center, B @ center
        trial_labels, trial_top, _ = _assign(trial_scores)
        dirty = _changed(labels, trial_labels, k)
        dirty[dropped] |= bool((labels == dropped).any())  # its rows now have a different center
        goal = value * (1.0 + MIN_SWAP_GAIN)
        trial_value = _alternate(
            B, trial, trial_scores, trial_labels, trial_top, dirty, (steps, goal)
        )
        if trial_value > goal:
            centers, scores, value, failures = trial, trial_scores, trial_value, 0
            labels, top, second = _assign(scores)
    return centers, value, failures


def _assign(scores: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the center of each row, the first among ties, and its two largest scores (>= 0)."""
    ordered = np.sort(np.maximum(scores, 0.0), axis=0)
    second = ordered[-2] if len(scores) > 1 else np.zeros(scores.shape[1])
    return np.maximum(scores, 0.0).argmax(axis=0), ordered[-1], second


def _changed(old: IntArray, new: IntArray, k: int) -> BoolArray:
    """Return a mask of the centers that lost or won a row."""
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
    """Update the dirty centers and reassign the rows, in place; return the sum.

    ``limits`` has the number of steps and the goal. The loop ends early if the last gain, repeated
    in all remaining steps, would not reach the goal, because gains decrease from step to step.
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
