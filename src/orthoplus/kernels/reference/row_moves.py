r"""Moves of single rows between groups, one after the other, in plain NumPy: the specification.

A group j with the weights x of its rows has :math:`w_j = A_j^\top x` and explains at least
:math:`\rho_j = \|w_j\|^2 / m_j`, where :math:`m_j = \|x\|^2`. If the row a joins with the best
weight, or leaves with its weight :math:`x_i`, the bound becomes

.. math::

    \lambda_{\max} \begin{pmatrix} \rho_j & c \\ c & \|a\|^2 \end{pmatrix},
    \quad c = \frac{a^\top w_j}{\sqrt{m_j}}, \qquad
    \frac{\|w_j - x_i a\|^2}{m_j - x_i^2}.

The sum of the bounds never decreases. If the weights are leading singular vectors, it is the
objective.
"""

import math
from typing import NamedTuple

import numpy as np

from orthoplus.core.types import SMALLEST_NORMAL, FloatArray, IntArray
from orthoplus.kernels.reference.groups import dense_group_dots, dense_group_sums

__all__ = ["settle_rows"]

# A row moves if the sum increases by more than this share of the squared norm.
MIN_GAIN = 1e-12
# A row with all but this share of the weights of its group stays: no group becomes empty.
LAST_ROW_SHARE = 1e-9
# Rows that would lose at most this share of their squared norm are visited more often.
NEAR_SHARE = 0.02
# Gains decrease from pass to pass: together, later ones are at most this multiple of the last.
MAX_LATER_GAINS = 8.0
# Entries below 2 to this power need no scaling: products of six of them and sums are far from
# overflow, and products that underflow are negligible.
MAX_EXPONENT = 64
# Power steps of all groups at the end.
FINAL_POWER_STEPS = 3


class Held(NamedTuple):
    """Groups of rows with their weights x, sums w_j, m_j = sum of x^2, and squares of w_j."""

    labels: IntArray
    weights: FloatArray
    sums: FloatArray
    masses: FloatArray
    sizes: FloatArray

    @property
    def centers(self) -> FloatArray:
        """Return the unit vectors along the sums; zero for an empty group."""
        return unit_vectors(self.sums, self.sizes)

    @property
    def value(self) -> float:
        """Return the sum of the bounds on the explained squares."""
        return float((self.sizes / np.maximum(self.masses, SMALLEST_NORMAL)).sum())


def unit_vectors(sums: FloatArray, sizes: FloatArray) -> FloatArray:
    """Divide each sum by its norm, the square root of its size; zero stays zero."""
    norms = np.sqrt(sizes)[:, None]
    return np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0)


def held_by(labels: IntArray, weights: FloatArray, sums: FloatArray) -> Held:
    """Return the groups with these labels, weights and sums."""
    masses = np.bincount(labels, weights * weights, minlength=len(sums)).astype(np.float64)
    return Held(labels, weights, sums, masses, np.einsum("jt,jt->j", sums, sums))


def normalized(B: FloatArray) -> tuple[FloatArray, float]:
    """Divide B by a power of 2 near its largest entry; also return the square of that power.

    The moves multiply six entries, which could overflow. Powers of 2 change no rounding. If the
    largest entry is of moderate size, B is returned unchanged.
    """
    _, exponent = np.frexp(max(B.max(initial=0.0), -B.min(initial=0.0)))
    if abs(exponent) <= MAX_EXPONENT:
        return B, 1.0
    return np.ldexp(B, -exponent), float(np.ldexp(1.0, 2 * exponent))


def settle_rows(
    B: FloatArray, centers: FloatArray, passes: int, goal: float = -math.inf
) -> tuple[FloatArray, float]:
    """Move rows from the groups of these unit centers while the sum of the bounds increases.

    A pass visits the rows in order and moves each to its best group at once. A power step of all
    groups follows. Passes over the rows that nearly moved come before the next pass
    over all rows; the loop ends if that one moves none, or if the last gain, repeated a few times,
    would not reach the goal. A few more power steps follow. Return the new unit centers
    and the sum.
    """
    B, unit = normalized(B)
    squares, held = np.einsum("ij,ij->i", B, B), _power_step(B, (B @ centers.T).argmax(1), centers)
    least, near, is_full = MIN_GAIN * float(squares.sum()), np.ones(len(B), dtype=bool), True
    for _ in range(passes):
        last, n_moves = held.value, 0
        for i in range(len(B)) if is_full else near.nonzero()[0]:
            best, gain, weight = _best_move(B[i], float(squares[i]), int(i), held)
            near[i] = gain > -NEAR_SHARE * squares[i]
            if gain > least:
                n_moves += 1
                _apply(B, int(i), held, best, weight)
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


def _best_move(row: FloatArray, square: float, i: int, held: Held) -> tuple[int, float, float]:
    """Return the best other group of a row, the gain and the weight there."""
    own, x = int(held.labels[i]), float(held.weights[i])
    products, rest = held.sums @ row, float(held.masses[own]) - x * x
    best, most, weight = own, 0.0, 0.0
    for j in range(len(products)):
        mass, product = float(held.masses[j]), float(products[j])
        if j == own or (mass > 0.0 and product <= 0.0):
            continue
        if mass > 0.0:
            half = 0.5 * (float(held.sizes[j]) / mass - square)
            gain = math.sqrt(half * half + product * product / mass) - half
            scale = gain * mass / product
        else:
            gain, scale = square, math.sqrt(square)
        if gain > most:
            best, most, weight = j, gain, scale
    if rest <= LAST_ROW_SHARE * held.masses[own] or best == own:
        return own, -math.inf, 0.0
    left = (held.sizes[own] - 2.0 * x * products[own] + x * x * square) / rest
    return best, most + float(left - held.sizes[own] / held.masses[own]), weight


def _apply(B: FloatArray, i: int, held: Held, best: int, weight: float) -> None:
    """Move a row, in place."""
    own, x = held.labels[i], held.weights[i]
    held.sums[own] -= x * B[i]
    held.sums[best] += weight * B[i]
    held.masses[own] -= x * x
    held.masses[best] += weight * weight
    for j in (own, best):
        held.sizes[j] = held.sums[j] @ held.sums[j]
    held.labels[i], held.weights[i] = best, weight
