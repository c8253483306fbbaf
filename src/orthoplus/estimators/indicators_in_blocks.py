"""K-indicators of an embedding in row blocks, by the method of matrices in memory."""

from typing import Any

import numpy as np

from orthoplus.core.result import Result
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import MemoryMatrix
from orthoplus.data.stored import BlockedMatrix
from orthoplus.geometry.stiefel import polar_factor
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.methods.indicators_in_blocks import (
    Groups,
    IndicatorsInBlocks,
    polish_groups,
    round_groups,
    unit_groups,
)
from orthoplus.methods.search.polish import Polish
from orthoplus.run.monitor import CountedProblem, Meter, Watch


def cluster_blocks(U: BlockedMatrix) -> tuple[Result, Any]:
    r"""min :math:`\|UY - X\|_F^2` over X in S+ and orthogonal Y, for U of n x k in row blocks.

    What ``solve(KIndicators(U))`` does in memory: ``EP4Orth.for_indicators(k)`` from the projection
    of U onto OB+, rounding, and its polish; ``labels`` and ``weights`` are in the form of U. Also
    returns labels for all rows: -1 stands nowhere. Ctrl-C ends it with the best point so far.

    Notes
    -----
    X lies beside U: at most four n x k matrices at a time (the start, the last outer iterate, the
    two ends of a step), in the workers' memory where U is a Dask array, else in ours. Of a step, k
    numbers and a k x k matrix leave the blocks; of a projection, k numbers a pass and the rows that
    are nearly tied, all of them up to 2^15.
    """
    problem, method = IndicatorsInBlocks(U), EP4Orth.for_indicators(U.shape[1])
    watch = Watch(method, Meter(), callback=None, checkpoint=None)
    X = problem.start(np.random.default_rng(0))
    status, _ = watch.follow(CountedProblem(problem, watch.meter), X, None)
    assert method.polish is not None
    best = _finish(problem, X, watch.state, method.polish)
    Y = polar_factor(best.cross)
    result = Result(
        point=U.point(best.labels, best.weights, U.shape[1]),
        value=best.value,
        stationarity=np.nan,
        status=status,
        n_iter=0 if watch.state is None else watch.state.n_iter,
        n_eval=watch.meter.n_eval,
        seconds=watch.meter.seconds,
        history=tuple(watch.history),
        Y=Y,
    )
    labels = U.map_rows(_fill_labels, best.labels, args=(Y,))
    return result, U.collect(labels, np.int64)


def _finish(problem: IndicatorsInBlocks, X: Any, state: Any, polish: Polish) -> Groups:
    """The rounded last iterate, polished; or the rounded start where that is better."""
    last = round_groups(problem, X if state is None else state.X)
    best = polish_groups(problem, last, polish)
    first = unit_groups(problem, *(X.largest_entries() if state is None else state.X_feas))
    return polish_groups(problem, first, polish) if first.value < best.value else best


def _fill_labels(U: MemoryMatrix, labels: IntArray, Y: FloatArray) -> IntArray:
    """A row without weight goes to the column of its largest entry of UY."""
    return np.where(labels >= 0, labels, U.matmul(Y).argmax(axis=1))
