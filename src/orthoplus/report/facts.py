"""Collect the data from which the page of a clustering is built."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.report import profiles

if TYPE_CHECKING:  # avoids importing scikit-learn
    from orthoplus.estimators.row_fits import RowFits

_UNBROKEN_LENGTH = 24


@dataclass(frozen=True, eq=False)
class ClusterFacts:
    """The record of a run and its arrays.

    Attributes
    ----------
    record : dict
        The contents of ``run.json``; "ranks" (rows and reasons of `select_rank`) is optional.
    A : matrix of shape (n, r)
        The factorized matrix, dense or sparse.
    labels, weights : ndarray of shape (n,)
        The cluster and the weight of each row.
    components : ndarray of shape (k, r)
        The profiles of the clusters, in the units of A.
    fits : RowFits
        How well each row fits its own cluster and the second best, as in ``labels.csv``.
    features : tuple of str
        The names of the columns.
    truth : tuple, optional
        The class number of each row, and the names of the classes.
    image : tuple of int, optional
        Height and width, if features are pixels.
    rows : tuple of str
        The names of the rows; if empty, their numbers from 0.
    """

    record: dict[str, Any]
    A: Any
    labels: IntArray
    weights: FloatArray
    components: FloatArray
    fits: "RowFits"
    features: tuple[str, ...]
    truth: tuple[IntArray, tuple[str, ...]] | None = None
    image: tuple[int, int] | None = None
    rows: tuple[str, ...] = ()

    @cached_property
    def sizes(self) -> IntArray:
        """Return the number of rows of each cluster."""
        return np.bincount(self.labels, minlength=len(self.components))

    @cached_property
    def cosines(self) -> FloatArray:
        """Return the cosine of each row with each component."""
        return profiles.cosines(self.A, self.components)

    @cached_property
    def doubtful(self) -> IntArray:
        """Return the doubtful rows, least certain first."""
        return self.fits.doubtful()

    @cached_property
    def levels(self) -> FloatArray:
        """Return the components in the units of one row."""
        return profiles.levels_of(self.components, self.weights, self.labels)

    def row_name(self, i: int) -> str:
        """Return the name of a row; a plain number becomes "row 3"."""
        name = self.rows[i] if self.rows else str(i)
        return f"row {name}" if name.isdecimal() else name


def unbroken(text: str) -> str:
    """Replace blanks in a short text so that it is not broken across lines."""
    return text.replace(" ", "\u00a0") if len(text) <= _UNBROKEN_LENGTH else text
