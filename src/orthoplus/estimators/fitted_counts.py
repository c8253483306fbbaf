"""Labels, coefficients and explained share of samples for the Kullback-Leibler divergence.

The counterpart of `orthoplus.estimators.fitted` for counts, in any storage.
"""

import numpy as np

from orthoplus.core.point import spread
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.count_groups import (
    independence_divergence,
    likeliest_groups,
    log_profiles,
)
from orthoplus.data.divergence import kl_divergence
from orthoplus.data.memory import MemoryMatrix


def assign(A: DataMatrix, H: FloatArray) -> IntArray:
    """Return the component with the largest likelihood for each row; -1 for a row of zeros.

    Counts that are impossible under a component take precedence: a row is assigned to the component
    with the fewest of them.
    """
    return A.collect(likeliest_groups(A, _logs(H)), np.int64)


def coefficients(A: DataMatrix, H: FloatArray, orthogonal: str) -> FloatArray:
    """Return W, the multiple of the component of each row, or of each part."""
    W = A.map_rows(_coefficients, args=(H, _logs(H), orthogonal))
    return A.collect(W, A.dtype, width=len(H))


def explained_share(A: DataMatrix, H: FloatArray, orthogonal: str) -> float:
    """Return 1 - D(A, WH) / D(A, M) with the independence model M; may be minus infinity."""
    W = A.map_rows(_coefficients, args=(H, _logs(H), orthogonal))
    missed, total = kl_divergence(A, W, H.T), independence_divergence(A)
    return 1.0 - missed / total if total else 1.0


def _logs(H: FloatArray) -> FloatArray:
    return log_profiles(H.astype(np.float64))


def _coefficients(
    block: MemoryMatrix, H: FloatArray, logs: FloatArray, orthogonal: str
) -> FloatArray:
    totals = H.sum(axis=1, dtype=np.float64)
    totals[totals == 0] = 1.0
    if orthogonal == "features":  # sum of a row over each part, divided by the total of the part
        return np.asarray(block.matmul((H > 0).T / totals), dtype=H.dtype)
    labels = likeliest_groups(block, logs)
    return spread(labels, (block.row_sums() / totals[labels]).astype(H.dtype), len(H))
