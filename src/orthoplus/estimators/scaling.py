"""Scaling of samples and features before a factorization, by factors only, so that 0 stays 0."""

from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import check_choice
from orthoplus.core.types import FloatArray
from orthoplus.data import DataMatrix, MemoryMatrix
from orthoplus.data.columns import column_deviations, column_peaks, column_sizes, scale_columns

ROW_SCALES, COLUMN_SCALES = ("l1", "l2"), ("std", "max")
# If the scales of columns differ by this factor, they are probably in different units.
_MIXED_UNITS = 100.0
_LARGEST_RATIO = 1e15  # a larger one is reported as this
# Of more rows than this, as many in equal distances show the scales of the columns.
_ROWS_FOR_SCALES = 1 << 14


class Scaling(NamedTuple):
    """Hold the factors of the columns (None for 1) and the norm that divides each row."""

    columns: FloatArray | None = None
    row_norm: str | None = None

    def features(self, A: DataMatrix) -> DataMatrix:
        """Return the data with scaled columns, from which coefficients are computed."""
        return A if self.columns is None else scale_columns(A, self.columns)

    def samples(self, A: DataMatrix) -> DataMatrix:
        """Return data with scaled columns after scaling their rows, as factorized."""
        if self.row_norm is None:
            return A
        scaled = A.derive(_unit_rows, args=(self.row_norm,))
        scaled.has_gaps = A.has_gaps
        return scaled

    def to_data(self, H: FloatArray) -> FloatArray:
        """Convert components of scaled data to the units of the data."""
        return H if self.columns is None else (H / self.columns).astype(H.dtype)

    def from_data(self, H: FloatArray) -> FloatArray:
        """Convert components in the units of the data to those of scaled data."""
        return H if self.columns is None else (H * self.columns).astype(H.dtype)


def fit_scaling(
    A: DataMatrix, weights: FloatArray | None, row_scale: str | None, column_scale: str | None
) -> Scaling:
    """Return the scaling of data with these row weights (None for 1).

    Scaling the columns takes one or two passes over the data.
    """
    if row_scale is not None:
        check_choice(row_scale, "row_scale", ROW_SCALES)
    if column_scale is None:
        return Scaling(None, row_scale)
    check_choice(column_scale, "column_scale", COLUMN_SCALES)
    measure = column_deviations if column_scale == "std" else column_peaks
    sizes = measure(A, np.ones(len(A)) if weights is None else weights)
    return Scaling(1.0 / np.where(sizes > 0, sizes, 1.0), row_scale)


def note_mixed_units(A: DataMatrix, scaling: Scaling) -> tuple[str, ...]:
    """Return a note if the entries of some columns are far larger than those of others.

    The scale of a column is the mean absolute value of its nonzero entries, so that rare words do
    not have a small scale. Of many rows, some are checked; data whose passes are expensive are not.
    """
    if scaling.columns is not None or not A.has_cheap_products:
        return ()
    if len(A) > _ROWS_FOR_SCALES and A.has_entries and not A.has_gaps:
        A = A.sample_rows(np.arange(_ROWS_FOR_SCALES) * len(A) // _ROWS_FOR_SCALES)
    scales = column_sizes(A)
    scales = scales[(scales > 0) & np.isfinite(scales)]
    if not len(scales) or not scales.max() / _MIXED_UNITS >= scales.min():
        return ()
    ratio = scales.max() / max(scales.min(), scales.max() / _LARGEST_RATIO)
    return (
        f"The entries of some features are {ratio:.0f} times as large as those of others, and "
        f'determine the clusters. `column_scale="std"` (on the command line `--scale-columns std`) '
        f"gives all features the same weight, as tables of mixed units need.",
    )


def _unit_rows(block: MemoryMatrix, norm: str) -> MemoryMatrix:
    sizes = _absolute_sums(block) if norm == "l1" else np.sqrt(block.row_squares())
    factors = 1.0 / np.where(sizes > 0, sizes, 1.0)
    return block.scaled_rows(factors.astype(block.dtype))


def _absolute_sums(block: MemoryMatrix) -> FloatArray:
    """Return the sum of the absolute values of each row, without storing |A| as a whole."""
    sums = np.empty(len(block))
    for part in block.entry_ranges():
        sums[part] = np.ravel(abs(block.rows(part).entries()).sum(axis=1, dtype=np.float64))
    return sums
