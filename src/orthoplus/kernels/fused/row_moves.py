"""The moves of `reference.row_moves`, compiled."""

import math

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.fused.cache import reordering
from orthoplus.kernels.fused.groups import dense_group_dots, dense_group_sums
from orthoplus.kernels.reference.row_moves import (
    FINAL_POWER_STEPS,
    LAST_ROW_SHARE,
    MAX_LATER_GAINS,
    MIN_GAIN,
    NEAR_SHARE,
    Held,
    held_by,
    normalized,
)

_compiled = reordering()


@_compiled
def _visit(B, squares, rows, least, labels, weights, sums, masses, sizes, near):  # type: ignore[no-untyped-def]
    # IN B, squares, rows: those to visit, least; IN/OUT the groups as in `Held`;
    # OUT near: whether a row nearly moves. Returns the number of moves.
    d, k, n_moves = B.shape[1], masses.size, 0
    for a in range(rows.size):
        i = rows[a]
        own, square, weight = labels[i], squares[i], weights[i]
        best, most, scale, with_own = own, 0.0, 0.0, 0.0
        for j in range(k):
            product = 0.0
            for t in range(d):
                product += sums[j, t] * B[i, t]
            if j == own:
                with_own = product
            elif masses[j] > 0.0:
                if product > 0.0:
                    half = 0.5 * (sizes[j] / masses[j] - square)
                    gain = math.sqrt(half * half + product * product / masses[j]) - half
                    if gain > most:
                        best, most, scale = j, gain, gain * masses[j] / product
            elif square > most:
                best, most, scale = j, square, math.sqrt(square)
        rest = masses[own] - weight * weight
        if rest <= LAST_ROW_SHARE * masses[own] or best == own:
            near[i] = False
            continue
        left = sizes[own] - 2.0 * weight * with_own + weight * weight * square
        gain = most + left / rest - sizes[own] / masses[own]
        near[i] = gain > -NEAR_SHARE * square
        if gain > least:
            size = 0.0
            for t in range(d):
                sums[own, t] -= weight * B[i, t]
                sums[best, t] += scale * B[i, t]
                size += sums[best, t] * sums[best, t]
            masses[own], sizes[own] = rest, max(left, 0.0)
            masses[best] += scale * scale
            sizes[best] = size
            labels[i], weights[i] = best, scale
            n_moves += 1
    return n_moves


def settle_rows(
    B: FloatArray, centers: FloatArray, passes: int, goal: float = -math.inf
) -> tuple[FloatArray, float]:
    """Move rows in a compiled loop, with power steps between the passes."""
    B, unit = normalized(B)
    squares, held = np.einsum("ij,ij->i", B, B), _power_step(B, (B @ centers.T).argmax(1), centers)
    least, near, is_full = MIN_GAIN * float(squares.sum()), np.ones(len(B), dtype=bool), True
    for _ in range(passes):
        last, rows = held.value, np.arange(len(B)) if is_full else near.nonzero()[0]
        n_moves = _visit(B, squares, rows, least, *held, near)
        if is_full and n_moves == 0:
            break
        is_full, held = n_moves == 0, _power_step(B, held.labels, held.centers)
        if held.value + MAX_LATER_GAINS * (held.value - last) <= goal / unit:
            break
    for _ in range(FINAL_POWER_STEPS):
        held = _power_step(B, held.labels, held.centers)
    return held.centers, held.value * unit


def _power_step(B: FloatArray, labels: IntArray, centers: FloatArray) -> Held:
    weights = np.maximum(dense_group_dots(B, labels, centers), 0.0)
    return held_by(labels, weights, dense_group_sums(B, labels, weights, len(centers)))
