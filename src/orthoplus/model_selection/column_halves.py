"""Agreement of two halves of the columns, such as subjects, on clusters of the same rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from orthoplus.core.errors import InputError
from orthoplus.core.types import IntArray
from orthoplus.data import DataMatrix
from orthoplus.model_selection.agreement import matched_cosine
from orthoplus.model_selection.hidden_entries import column_weights, predict_columns
from orthoplus.model_selection.rank_file import Arrays
from orthoplus.model_selection.rank_work import FOLDS, Work


def check_groups(groups: Any, A: DataMatrix, split: str) -> list[int] | None:
    """Return the index of the group of each column, or None without groups."""
    if groups is None:
        return None
    if split != "columns":
        raise InputError('`groups` needs `split="columns"`: columns of a group stay in one half.')
    given = np.asarray(groups)
    if given.shape != (A.shape[1],):
        raise InputError(
            f"`groups` has shape {given.shape}, but X has {A.shape[1]} columns. Pass one group per "
            f"column."
        )
    names, numbers = np.unique(given, return_inverse=True)
    if len(names) < 4:
        raise InputError(
            f"`groups` has {len(names)} groups: to halve them, at least four are needed, two in "
            f"each half."
        )
    return [int(number) for number in numbers]


def fit_column_halves(
    A: DataMatrix, work: Work, task: str, report: Callable[[int], None]
) -> Arrays:
    """Return the stability and cosines (ranks,) and held-out shares (ranks, 2) of one halving."""
    rng, (n, r), A = work.rng(task), A.shape, A.in_memory()
    # Shuffle whole groups of columns, so that a subject stays in one half.
    order = rng.permutation(r if work.groups is None else max(work.groups) + 1)
    folds = [np.sort(fold) for fold in np.array_split(rng.permutation(n), min(FOLDS, n))]
    halves = [A.columns(part) for part in halve_columns(r, work.groups, order)]
    pieces = [[half.sample_rows(fold) for fold in folds] for half in halves]
    stability, cosines, heldout = [], [], []
    for points in zip(*(work.fit(half, rng) for half in halves), strict=True):
        missed, weights = [], []
        for own, point in enumerate(points):
            weights.append(column_weights(halves[own], point))
            # Clusters and weights of one half predict the columns of the other.
            missed.append(predict_columns(pieces[1 - own], point, weights[own], folds))
            report(1)
        labels = (points[0].labels, points[1].labels)
        stability.append(adjusted_rand_score(*labels))
        cosines.append(matched_cosine(labels, (weights[0], weights[1]), points[0].k))
        heldout.append(missed)
    return {
        "stability": np.array(stability),
        "cosine": np.array(cosines),
        "heldout": np.array(heldout),
    }


def halve_columns(r: int, groups: list[int] | None, order: IntArray) -> list[IntArray]:
    """Return the columns of two halves of this order of columns or groups."""
    halves = [order[: len(order) // 2], order[len(order) // 2 :]]
    if groups is None:
        return [np.sort(half) for half in halves]
    return [np.flatnonzero(np.isin(groups, half)) for half in halves]
