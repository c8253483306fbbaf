"""The loops over Delta(X) = {Z >= 0 : x_j'z_j = 1} in plain NumPy.

All matrices are k x n here: row j holds column j of the paper, since all sums run along a column
and a contiguous one is read several times faster.
"""

import numpy as np

from orthoplus.core.types import FloatArray
from orthoplus.kernels.pairs import TINY

__all__ = ["conjugate_step_into", "project_delta_into", "project_face_into"]

# Newton's method on a convex piecewise-linear function ends exactly after at most one step per
# breakpoint; in practice after fewer than ten.
MAX_NEWTON = 200
# A shift that decreases by less than this share of itself has converged.
SHIFT_ROUNDOFF = 1e-15


def project_delta_into(C: FloatArray, X: FloatArray, out: FloatArray) -> None:
    """Compute out = max(C + diag(shift) X, 0), with the shift for which x_j'out_j = 1.

    x_j'max(c_j + shift x_j, 0) is convex, nondecreasing and piecewise linear in the shift: Newton's
    method from the root of its fully active piece descends to the root.
    """
    shift = (1.0 - _row_dots(X, C)) / _row_dots(X, X)
    for _ in range(MAX_NEWTON):
        moved = C + shift[:, None] * X
        value, slope = _row_dots(X, np.maximum(moved, 0.0)), _row_dots(X, np.where(moved > 0, X, 0))
        lower = shift - (value - 1.0) / np.maximum(slope, TINY)  # slope 0: value 0, upwards
        is_moving = lower < shift - SHIFT_ROUNDOFF * (1.0 + np.abs(shift))
        if not is_moving.any():
            break
        shift = np.where(is_moving, lower, shift)
    np.maximum(C + shift[:, None] * X, 0.0, out=out, casting="same_kind")


def project_face_into(X: FloatArray, Z: FloatArray, H: FloatArray, out: FloatArray) -> None:
    """Compute out = P(H), for the projector P onto {D : D = 0 if Z = 0, x_j'd_j = 0}."""
    kept = np.where(Z > 0, X, 0.0)
    size = _row_dots(kept, kept)
    tilt = _row_dots(kept, H) / np.where(size > 0, size, 1.0)
    np.copyto(out, np.where(Z > 0, H, 0.0) - tilt[:, None] * kept, casting="same_kind")


def conjugate_step_into(
    bent: FloatArray,
    face: tuple[FloatArray, FloatArray],
    weights: tuple[float, float],
    vectors: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[float, float]:
    """Do a step of conjugate gradients for the operator alpha P H + mu I on the range of P.

    ``bent`` is H[direction], ``face`` is (X, Z) of P as in `project_face_into`, ``weights`` is
    (alpha, mu), and ``vectors`` are the iterate, its residual and the direction, all of them
    updated. Returns <direction, operator(direction)> and the squared norm of the next residual.
    If the first is not positive, the vectors do not change, and the norm is that of the last.
    """
    (alpha, mu), (d, residual, direction) = weights, vectors
    # The direction is in the range of P, so that <direction, P H[direction]> needs no P.
    curvature = alpha * float((direction * bent).sum()) + mu * float((direction**2).sum())
    before = float((residual**2).sum())
    if curvature <= 0.0:
        return curvature, before
    image = np.empty_like(residual)
    project_face_into(*face, bent, image)
    length = before / curvature
    d += length * direction
    residual -= length * (alpha * image + mu * direction)
    size = float((residual**2).sum())
    np.copyto(direction, residual + size / before * direction)
    return curvature, size


def _row_dots(A: FloatArray, B: FloatArray) -> FloatArray:
    return np.einsum("ij,ij->i", A, B, dtype=np.float64)
