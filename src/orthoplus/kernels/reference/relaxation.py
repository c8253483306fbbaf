"""The pass of the relaxation's ADMM over its n x n matrices, in plain NumPy: the specification."""

import numpy as np

from orthoplus.core.types import FloatArray

__all__ = ["relax_into"]


def relax_into(
    factors: tuple[FloatArray, FloatArray],
    T: FloatArray,
    offset: FloatArray | None,
    G: FloatArray,
    W: FloatArray,
    weights: tuple[float, float],
) -> FloatArray:
    """Take one step from T, and form the matrix W that is projected next.

    With F = LR', P = max(T - K, 0) and D = T - P, where K is the offset (None for zeros, infinity
    where P is to be 0),

        T <- a F + (1 - a) P + D,   W <- P - D + G / penalty   with the new P and D.

    IN factors (L, R), offset, G, weights (a, 1 / penalty); OUT T (updated), W. Returns the sums of
    squares of F - P, P - old P, P and D.
    """
    over, inverse = weights
    F = factors[0] @ factors[1].T
    P, D = _parts(T, offset)
    T[:] = over * F + (1 - over) * P + D
    old, (P, D) = P, _parts(T, offset)
    W[:] = P - D + inverse * G
    return np.array([np.sum(part * part, dtype=np.float64) for part in (F - P, P - old, P, D)])


def _parts(T: FloatArray, offset: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    P = np.maximum(T if offset is None else T - offset, 0)
    return P, T - P
