"""The moves of `reference.row_moves`, compiled."""

import math

import numpy as np

from orthoplus.core.types import SMALLEST_NORMAL, FloatArray
from orthoplus.kernels.fused.cache import reordering
from orthoplus.kernels.reference.row_moves import (
    FINAL_POWER_STEPS,
    LAST_ROW_SHARE,
    MAX_LATER_GAINS,
    MIN_GAIN,
    NEAR_SHARE,
    normalized,
    unit_vectors,
)

_compiled = reordering()


@_compiled
def _visit(B, squares, rows, least, labels, weights, sums, masses, sizes, near, products, bounds):  # type: ignore[no-untyped-def]
    # IN B, squares, rows: those to visit, least; IN/OUT the groups as in `Held`;
    # OUT near: whether a row nearly moves; products, bounds: work arrays. Returns the number of
    # moves.
    d, k, n_moves = B.shape[1], masses.size, 0
    for j in range(k):
        bounds[j] = sizes[j] / masses[j] if masses[j] > 0.0 else 0.0
    for a in range(rows.size):
        i = rows[a]
        own, square, weight = labels[i], squares[i], weights[i]
        for j in range(0, k, 2):  # two groups at a time: the row is read once for both
            last, one, other = min(j + 1, k - 1), 0.0, 0.0
            for t in range(d):
                one += sums[j, t] * B[i, t]
                other += sums[last, t] * B[i, t]
            products[j], products[last] = one, other
        best, most, scale = own, 0.0, 0.0
        for j in range(k):
            product, mass = products[j], masses[j]
            if j == own:
                continue
            if mass > 0.0:
                # The gain is the positive root of g^2 + (bound - square) g = product^2 / mass: it
                # exceeds the best one so far if the left side is smaller there.
                excess = bounds[j] - square
                if product > 0.0 and product * product > mass * most * (most + excess):
                    half = 0.5 * excess
                    gain = math.sqrt(half * half + product * product / mass) - half
                    if gain > most:
                        best, most, scale = j, gain, gain * mass / product
            elif square > most:
                best, most, scale = j, square, math.sqrt(square)
        rest = masses[own] - weight * weight
        if rest <= LAST_ROW_SHARE * masses[own] or best == own:
            near[i] = False
            continue
        left = sizes[own] - 2.0 * weight * products[own] + weight * weight * square
        gain = most + left / rest - bounds[own]
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
            bounds[own], bounds[best] = sizes[own] / rest, size / masses[best]
            labels[i], weights[i] = best, scale
            n_moves += 1
    return n_moves


@_compiled
def _power_step(B, labels, centers, weights, sums, masses, sizes):  # type: ignore[no-untyped-def]
    # IN B, labels; IN/OUT sums and sizes: those of the old and of the new groups;
    # OUT weights, masses as in `Held`; centers: work array. Returns the sum of the bounds.
    n, d = B.shape
    k, value = masses.size, 0.0
    for j in range(k):
        masses[j] = 0.0
        scale = 1.0 / math.sqrt(sizes[j]) if sizes[j] > 0.0 else 0.0
        for t in range(d):
            centers[j, t] = sums[j, t] * scale
            sums[j, t] = 0.0
    for i in range(n):
        j, x = labels[i], 0.0
        for t in range(d):
            x += B[i, t] * centers[j, t]
        x = max(x, 0.0)
        weights[i] = x
        masses[j] += x * x
        for t in range(d):
            sums[j, t] += x * B[i, t]
    for j in range(k):
        sizes[j] = 0.0
        for t in range(d):
            sizes[j] += sums[j, t] * sums[j, t]
        value += sizes[j] / max(masses[j], SMALLEST_NORMAL)
    return value


def settle_rows(
    B: FloatArray, centers: FloatArray, passes: int, goal: float = -math.inf
) -> tuple[FloatArray, float]:
    """Move rows in a compiled loop, with power steps between the passes."""
    B, unit = normalized(B)
    n, k, squares = len(B), len(centers), np.einsum("ij,ij->i", B, B)
    labels, centers = (B @ centers.T).argmax(1), np.array(centers, order="C")
    # Weights, sums, masses and sizes of the groups; the sums of the first step are the centers.
    groups = np.empty(n), centers.copy(), np.empty(k), np.ones(k)
    products, bounds = np.empty((2, k))
    value = _power_step(B, labels, centers, *groups)
    least, near, is_full = MIN_GAIN * float(squares.sum()), np.ones(n, dtype=bool), True
    for _ in range(passes):
        rows = np.arange(n) if is_full else near.nonzero()[0]
        n_moves = _visit(B, squares, rows, least, labels, *groups, near, products, bounds)
        if is_full and n_moves == 0:
            break
        is_full, last = n_moves == 0, value
        value = _power_step(B, labels, centers, *groups)
        if value + MAX_LATER_GAINS * (value - last) <= goal / unit:
            break
    for _ in range(FINAL_POWER_STEPS):
        value = _power_step(B, labels, centers, *groups)
    return unit_vectors(groups[1], groups[3]), value * unit
