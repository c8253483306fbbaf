"""The parameters of a selection of the rank, and what the loss decides."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import check_count
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix
from orthoplus.data.memory import MemoryMatrix
from orthoplus.model_selection.count_path import (
    fit_count_path,
    likeliest_profiles,
    predict_hidden_counts,
)
from orthoplus.model_selection.hidden_entries import predict_rows
from orthoplus.model_selection.rank_path import PathPoint, fit_path, nearest_centers

# Name of the task that fits all rows.
FULL = "full"
# Number of parts of the columns, or of the rows, each of which is hidden once.
FOLDS = 5


def _judge(
    half: MemoryMatrix, pieces: list[MemoryMatrix], centers: FloatArray, folds: list[IntArray]
) -> tuple[float, IntArray]:
    share = predict_rows(pieces, [centers[:, fold] for fold in folds])
    return share, nearest_centers(half, centers)


def _judge_counts(
    half: MemoryMatrix, pieces: list[MemoryMatrix], centers: FloatArray, folds: list[IntArray]
) -> tuple[float, IntArray]:
    share = predict_hidden_counts(pieces, [centers[:, fold] for fold in folds])
    return share, likeliest_profiles(half, centers)


class Criteria(NamedTuple):
    """Define, by the loss, how data are fitted and how held-out rows are judged.

    ``judge(half, pieces, centers, folds)`` returns the unexplained share of hidden entries for the
    centers of the other half, and the labels; the pieces are the columns of the folds.
    """

    fit_path: Callable[..., Iterator[PathPoint]]
    judge: Callable[
        [MemoryMatrix, list[MemoryMatrix], FloatArray, list[IntArray]], tuple[float, IntArray]
    ]


CRITERIA = {
    "frobenius": Criteria(fit_path, _judge),
    "kullback-leibler": Criteria(fit_count_path, _judge_counts),
}


@dataclass(frozen=True)
class Work:
    """Hold the parameters of a selection, which a file must match to be resumed."""

    ranks: list[int]
    n_splits: int
    n_init: int
    allow_negative: bool
    random_state: int
    loss: str = "frobenius"
    split: str = "rows"
    groups: list[int] | None = None

    def __post_init__(self) -> None:
        check_count(self.n_splits, "n_splits", low=2)
        check_count(self.n_init, "n_init", low=1)
        check_count(self.random_state, "random_state")

    @property
    def tasks(self) -> list[str]:
        """Return the names of the independent tasks: the fit of all rows, and each halving."""
        return [FULL, *(f"split{i}" for i in range(self.n_splits))]

    @property
    def criteria(self) -> Criteria:
        """Return how data are fitted and judged with this loss."""
        return CRITERIA[self.loss]

    def n_fits(self, task: str) -> int:
        """Return the number of fits of a task; a halving fits both halves."""
        return len(self.ranks) * (1 if task == FULL else 2)

    def rng(self, task: str) -> np.random.Generator:
        """Return the random numbers of a task, which do not depend on other tasks."""
        return np.random.default_rng([self.random_state, self.tasks.index(task)])

    def fit(self, A: DataMatrix, rng: np.random.Generator) -> Iterator[PathPoint]:
        """Yield the fits of the data at all ranks."""
        seed = int(rng.integers(2**31))
        return self.criteria.fit_path(
            A, self.ranks, n_init=self.n_init, seed=seed, allow_negative=self.allow_negative
        )
