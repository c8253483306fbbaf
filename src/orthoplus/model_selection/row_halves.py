"""Agreement of two halves of the rows, such as documents, on the clusters of all rows."""

from collections.abc import Callable

import numpy as np

from orthoplus.core.types import IntArray
from orthoplus.data import DataMatrix
from orthoplus.model_selection.agreement import partition_agreement
from orthoplus.model_selection.rank_file import Arrays
from orthoplus.model_selection.rank_work import FOLDS, Work


def fit_row_halves(A: DataMatrix, work: Work, task: str, report: Callable[[int], None]) -> Arrays:
    """Return the stability (ranks,) and held-out shares (ranks, 2) of one random halving."""
    rng, (n, r) = work.rng(task), A.shape
    judge = work.criteria.judge
    order = rng.permutation(n)
    folds: list[IntArray] = list(map(np.sort, np.array_split(rng.permutation(r), min(FOLDS, r))))
    rows = [np.sort(order[: n // 2]), np.sort(order[n // 2 :])]
    halves = [A.sample_rows(half) for half in rows]
    pieces = [[half.columns(fold) for fold in folds] for half in halves]
    stability, heldout = [], []
    for points in zip(*(work.fit(half, rng) for half in halves), strict=True):
        labels = np.empty((2, n), dtype=np.int64)
        missed = []
        for own, point in enumerate(points):
            other = 1 - own
            share, predicted = judge(halves[other], pieces[other], point.centers, folds)
            labels[own, rows[own]], labels[own, rows[other]] = point.labels, predicted
            missed.append(share)
            report(1)
        stability.append(partition_agreement(*labels))
        heldout.append(missed)
    return {"stability": np.array(stability), "heldout": np.array(heldout)}
