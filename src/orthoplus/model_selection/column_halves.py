"""Agreement of two halves of the columns, such as subjects, on clusters of the same rows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.types import IntArray
from orthoplus.data import DataMatrix
from orthoplus.model_selection.agreement import matched_cosine, partition_agreement
from orthoplus.model_selection.hidden_entries import column_weights, predict_columns
from orthoplus.model_selection.rank_file import Arrays
from orthoplus.model_selection.rank_work import FOLDS, Work


def check_groups(groups: Any, A: DataMatrix, split: str) -> list[int] | None:
    """Return the index of the group of each column, or None without groups."""
    if groups is None:
        return None
    if split != "columns":
        raise InputError('`groups` needs `split="columns"`: columns of a group stay in one half.')
    given = _as_names(groups)
    if given.shape != (A.shape[1],):
        raise InputError(
            f"`groups` has shape {given.shape}, but X has {A.shape[1]} columns. Pass one group per "
            f"column."
        )
    n_missing = int(np.count_nonzero(given != given))  # NaN and NaT differ from themselves
    if n_missing or np.ma.is_masked(groups):
        n_missing = n_missing or int(np.ma.getmaskarray(groups).sum())
        raise InputError(
            f"`groups` has {n_missing} missing values. Pass the group of every column, or remove "
            f"the columns without one."
        )
    try:
        names, numbers = np.unique(given, return_inverse=True)
    except TypeError as error:  # None or NA among other values
        raise InputTypeError(
            f"`groups` has values that cannot be compared ({error}). Pass integers or strings, one "
            f"per column and none missing."
        ) from error
    if len(names) < 4:
        raise InputError(
            f"`groups` has {len(names)} groups: to halve them, at least four are needed, two in "
            f"each half."
        )
    return [int(number) for number in numbers]


def _as_names(groups: Any) -> Any:
    """Return the groups as an array."""
    try:
        return np.asarray(groups)
    except ValueError as error:  # lists of several lengths
        raise InputTypeError(
            "`groups` is not a list of one value per column. Pass integers or strings, one per "
            "column."
        ) from error


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
        stability.append(partition_agreement(*labels))
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
