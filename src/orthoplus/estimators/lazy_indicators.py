"""K-indicators of a Dask array: the two closed forms in turn, chunk by chunk."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from orthoplus.checks import check_shape
from orthoplus.data_matrix import squared_norm
from orthoplus.geometry import polar_factor
from orthoplus.protocols import FloatArray, IntArray
from orthoplus.result import Result
from orthoplus.row_blocks import as_row_blocks
from orthoplus.solve import project

# Of the projection: only descent counts.
_TOL, _MAX_PASSES = 1e-8, 12
# Alternations, and the relative gain at which they end.
_MAX_ALTERNATIONS, _GAIN = 100, 1e-10


@dataclass(frozen=True)
class LazyIndicators:
    """The last projection, the rotation Y it belongs to, and labels of all rows."""

    result: Result
    rotation: FloatArray
    labels: Any
    objective: float
    n_iter: int


def alternate_indicators(U: Any, k: int) -> LazyIndicators:
    r"""min :math:`\|UY - X\|_F^2` for a Dask array U of n x k, from Y = I.

    X is the certified projection of UY, Y the polar factor of U'X; the value never rises. Of each
    alternation only k x k numbers, and what `project` needs, leave the workers.
    """
    check_shape(U.shape[0], k, "U")
    constant = squared_norm(as_row_blocks(U, "U")) + k
    Y: FloatArray = np.eye(k)
    best: LazyIndicators | None = None
    for n_iter in range(1, _MAX_ALTERNATIONS + 1):
        rotated = _rotated(U, Y)
        result = project(rotated, tol=_TOL, max_passes=_MAX_PASSES)
        cross = _cross(U, result)
        objective = constant - 2.0 * float(np.linalg.svd(cross, compute_uv=False).sum())
        if best is not None and objective >= best.objective - _GAIN * constant:
            break
        Y = polar_factor(cross)
        labels = _assigned(rotated, result.labels)
        best = LazyIndicators(result, Y, labels, objective, n_iter)
    assert best is not None
    return best


def _rotated(U: Any, Y: FloatArray) -> Any:
    return U.rechunk({1: -1}).map_blocks(_times, Y, dtype=U.dtype)


def _times(block: FloatArray, Y: FloatArray) -> FloatArray:
    return np.asarray(block @ Y.astype(block.dtype))


def _cross(U: Any, result: Result) -> FloatArray:
    """U'X, k x k, from the chunks of X."""
    return np.asarray((U.T @ _aligned(result.X, U)).compute(), dtype=np.float64)


def _aligned(vector: Any, U: Any) -> Any:
    """An array with the row chunks of U."""
    import dask.array as da

    if isinstance(vector, np.ndarray):  # so few rows that they were projected in memory
        return da.from_array(vector, chunks=(U.chunks[0], *vector.shape[1:]))
    return vector


def _assigned(rotated: Any, labels: Any) -> Any:
    """A row without weight goes to the column of its largest entry."""
    return rotated.map_blocks(
        _fill_labels, _aligned(labels, rotated)[:, None], drop_axis=1, dtype=np.int64
    )


def _fill_labels(block: FloatArray, labels: IntArray) -> IntArray:
    return np.where(labels[:, 0] >= 0, labels[:, 0], block.argmax(axis=1))
