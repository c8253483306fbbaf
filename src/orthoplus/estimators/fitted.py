"""Labels, coefficients and explained share of samples for fitted components, in any storage."""

from typing import Any

import numpy as np

from orthoplus.core.point import spread
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.groups import assign_block
from orthoplus.estimators import missing


def assign(A: DataMatrix, H: FloatArray) -> IntArray:
    """Return the component with the largest cosine for each row; -1 for a row of zeros."""
    labels, _ = A.map_rows(_assign, args=(H, A.has_gaps), n_vectors=2)
    return A.collect(labels, np.int64)


def coefficients(A: DataMatrix, H: FloatArray, orthogonal: str) -> FloatArray:
    """Return W, which has one entry per row for "samples" and is XH' for "features"."""
    W = A.map_rows(_coefficients, args=(H, orthogonal, A.has_gaps))
    return A.collect(W, A.dtype, width=len(H))


def explained_share(A: DataMatrix, H: FloatArray, orthogonal: str) -> float:
    """Return 1 - ||A - WH||^2 / ||A||^2 over the observed entries."""
    explained, total = A.reduce_rows(_explained, args=(H, orthogonal, A.has_gaps))
    return float(explained / total) if total else 1.0


def _assign(block: Any, H: FloatArray, has_gaps: bool) -> tuple[IntArray, FloatArray]:
    """Return the component of each row and its nonnegative coefficient."""
    if not has_gaps:
        norms = np.linalg.norm(H, axis=1)
        norms[norms == 0] = 1.0
        # ||a - w h||^2 is smallest at w = a'h / ||h||^2, and lowest for the largest a'h / ||h||.
        labels, scores = assign_block(block, H / norms[:, None])
        return labels, np.maximum(scores, 0.0) / norms[labels]
    labels, weights, fits = missing.assign(block, H)
    # A row without a positive product keeps its label with weight 0, unless it is zero itself.
    idle = np.flatnonzero(fits == 0)
    labels[idle[block.zero_rows(idle)]] = -1
    return labels, weights


def _coefficients(block: Any, H: FloatArray, orthogonal: str, has_gaps: bool) -> FloatArray:
    if orthogonal == "samples":
        return spread(*_assign(block, H, has_gaps), len(H))
    # The supports are disjoint, so that there is one least-squares problem per component.
    return missing.multiples(block, H) if has_gaps else block.matmul(H.T)


def _explained(block: Any, H: FloatArray, orthogonal: str, has_gaps: bool) -> tuple[float, float]:
    """Return ||A||^2 - ||A - WH||^2 and ||A||^2."""
    W, scores = _coefficients(block, H, orthogonal, has_gaps), block.matmul(H.T)
    if has_gaps:  # one entry per row of W, or disjoint supports in H: no mixed terms
        bent = float(np.vdot(block.observed_sizes(H), W * W))
    else:
        bent = float(np.vdot(W.T @ W, H @ H.T))
    return 2.0 * float(np.vdot(scores, W)) - bent, block.squared_norm()
