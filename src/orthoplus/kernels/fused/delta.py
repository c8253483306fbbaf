"""The loops over Delta(X) of `reference.delta`, compiled; row j of a matrix is column j of X."""

from collections.abc import Callable

import numpy as np

from orthoplus.core.types import FloatArray
from orthoplus.kernels.blocks import for_blocks, partition_rows
from orthoplus.kernels.fused.cache import reordering, reordering_inlined
from orthoplus.kernels.pairs import TINY
from orthoplus.kernels.reference.delta import MAX_NEWTON, SHIFT_ROUNDOFF

# A zero sum of squares divides as in NumPy.
_compiled = reordering(error_model="numpy")
_inlined = reordering_inlined(error_model="numpy")


@_compiled
def _project_delta(C, X, out):  # type: ignore[no-untyped-def]  # IN C, X; OUT out
    k, n = X.shape
    for j in range(k):
        dot, square = 0.0, 0.0
        for i in range(n):
            dot += X[j, i] * C[j, i]
            square += X[j, i] * X[j, i]
        shift = (1.0 - dot) / square
        for _ in range(MAX_NEWTON):
            value, slope = 0.0, 0.0
            for i in range(n):
                x = X[j, i]
                z = C[j, i] + x * shift
                # A sum under its own condition would not be vectorized.
                kept = x if z > 0.0 else 0.0
                value += kept * z
                slope += kept * x
            lower = shift - (value - 1.0) / max(slope, TINY)
            if not lower < shift - SHIFT_ROUNDOFF * (1.0 + abs(shift)):
                break
            shift = lower
        for i in range(n):
            out[j, i] = max(C[j, i] + X[j, i] * shift, 0.0)


def _for_columns(work: Callable[..., None], *matrices: FloatArray) -> None:
    """Call ``work(*matrices)``, for large matrices a block of columns at a time."""
    blocks = partition_rows(*matrices[0].shape)
    if len(blocks) == 1:
        work(*matrices)
    else:
        for_blocks(lambda b, r: work(*(M[r] for M in matrices)), blocks)


def project_delta_into(C: FloatArray, X: FloatArray, out: FloatArray) -> None:
    """Find the shift of each column by Newton's method, a block of columns at a time."""
    _for_columns(_project_delta, C, X, out)


@_inlined
def _tilt(x, z, h):  # type: ignore[no-untyped-def]  # IN x, z, h: a column of each
    along, size = 0.0, 0.0
    for i in range(x.size):
        entry = x[i]
        kept = entry if z[i] > 0.0 else 0.0
        along += kept * h[i]
        size += kept * kept
    return along / size if size > 0.0 else 0.0


@_compiled
def _project_face(X, Z, H, out):  # type: ignore[no-untyped-def]  # IN X, Z, H; OUT out
    k, n = X.shape
    for j in range(k):
        tilt = _tilt(X[j], Z[j], H[j])
        for i in range(n):
            moved = H[j, i] - tilt * X[j, i]
            out[j, i] = moved if Z[j, i] > 0.0 else 0.0


def project_face_into(X: FloatArray, Z: FloatArray, H: FloatArray, out: FloatArray) -> None:
    """Project the columns in two passes over each, a block of columns at a time."""
    _for_columns(_project_face, X, Z, H, out)


@_inlined
def _curvature(bent, weights, residual, direction, sums):  # type: ignore[no-untyped-def]
    # IN bent, weights, residual, direction; OUT sums[:, 0:2], per column
    alpha, mu = weights
    k, n = bent.shape
    for j in range(k):
        curved, square, before = 0.0, 0.0, 0.0
        for i in range(n):
            curved += direction[j, i] * bent[j, i]
            square += direction[j, i] * direction[j, i]
            before += residual[j, i] * residual[j, i]
        sums[j, 0] = alpha * curved + mu * square
        sums[j, 1] = before


@_inlined
def _advance(bent, X, Z, weights, vectors, length, sums):  # type: ignore[no-untyped-def]
    # IN bent, X, Z, weights, length; IN/OUT vectors[0:2]; OUT sums[:, 2], per column
    alpha, mu = weights
    d, residual, direction = vectors
    k, n = X.shape
    for j in range(k):
        tilt = _tilt(X[j], Z[j], bent[j])
        size = 0.0
        for i in range(n):
            moved = bent[j, i] - tilt * X[j, i]
            image = moved if Z[j, i] > 0.0 else 0.0
            residual[j, i] -= length * (alpha * image + mu * direction[j, i])
            size += residual[j, i] * residual[j, i]
        for i in range(n):
            d[j, i] += length * direction[j, i]
        sums[j, 2] = size


@_inlined
def _turn(residual, direction, share):  # type: ignore[no-untyped-def]
    # IN residual, share; IN/OUT direction
    k, n = residual.shape
    for j in range(k):
        for i in range(n):
            direction[j, i] = residual[j, i] + share * direction[j, i]


@_compiled
def _conjugate_step(bent, X, Z, weights, vectors):  # type: ignore[no-untyped-def]
    # IN bent, X, Z, weights; IN/OUT vectors; a short pass: no blocks
    _, residual, direction = vectors
    sums = np.zeros((len(X), 3))
    _curvature(bent, weights, residual, direction, sums)
    curvature, before = sums[:, 0].sum(), sums[:, 1].sum()
    if curvature <= 0.0:
        return curvature, before
    _advance(bent, X, Z, weights, vectors, before / curvature, sums)
    size = sums[:, 2].sum()
    _turn(residual, direction, size / before)
    return curvature, size


def conjugate_step_into(
    bent: FloatArray,
    face: tuple[FloatArray, FloatArray],
    weights: tuple[float, float],
    vectors: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[float, float]:
    """Do the step in one compiled call, or in blocks of columns if the matrices are large."""
    (X, Z), (d, residual, direction) = face, vectors
    blocks = partition_rows(*X.shape)
    if len(blocks) == 1:
        curvature, size = _conjugate_step(bent, X, Z, weights, vectors)
        return float(curvature), float(size)
    sums = np.zeros((len(X), 3))
    for_blocks(
        lambda b, r: _curvature(bent[r], weights, residual[r], direction[r], sums[r]), blocks
    )
    curvature, before = float(sums[:, 0].sum()), float(sums[:, 1].sum())
    if curvature <= 0.0:
        return curvature, before
    length = before / curvature

    def advance(b: int, r: slice) -> None:
        moved = (d[r], residual[r], direction[r])
        _advance(bent[r], X[r], Z[r], weights, moved, length, sums[r])

    for_blocks(advance, blocks)
    size = float(sums[:, 2].sum())
    for_blocks(lambda b, r: _turn(residual[r], direction[r], size / before), blocks)
    return curvature, size
