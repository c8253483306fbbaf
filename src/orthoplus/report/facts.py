"""What the page of a clustering is made from."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.report import profiles

if TYPE_CHECKING:  # scikit-learn would load with it
    from orthoplus.estimators.row_fits import RowFits

_UNBROKEN_LENGTH = 24


@dataclass(frozen=True, eq=False)
class ClusterFacts:
    """What the page is made from: the record of the run, and its arrays.

    Attributes
    ----------
    record : dict
        As in ``run.json``; "ranks" (rows and reasons of `select_rank`) is shown if it is there.
    A : matrix of shape (n, r)
        Dense or sparse, as it was factorized.
    labels, weights : ndarray of shape (n,)
    components : ndarray of shape (k, r)
        In the units of A.
    fits : RowFits
        How well each row fits its own cluster and the second best, as in ``labels.csv``.
    features : tuple of str
    truth : tuple, optional
        The class of each row as a number, and the names of the classes.
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
        """The number of rows of each cluster."""
        return np.bincount(self.labels, minlength=len(self.components))

    @cached_property
    def cosines(self) -> FloatArray:
        """The cosine of each row with each component."""
        return profiles.cosines(self.A, self.components)

    @cached_property
    def doubtful(self) -> IntArray:
        """The doubtful rows, the least sure first."""
        return self.fits.doubtful()

    @cached_property
    def levels(self) -> FloatArray:
        """The components in the units of one row."""
        return profiles.levels_of(self.components, self.weights, self.labels)

    def row_name(self, i: int) -> str:
        """Return the name of a row; a bare number gets a word before it."""
        name = self.rows[i] if self.rows else str(i)
        return f"row {name}" if name.isdecimal() else name


def unbroken(text: str) -> str:
    """Return a short text that stays on one line, its number beside its name."""
    return text.replace(" ", "\u00a0") if len(text) <= _UNBROKEN_LENGTH else text
