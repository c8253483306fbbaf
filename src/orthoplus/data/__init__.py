"""The data matrix in every form it may come in: `as_data` is the only place that looks at types."""

from orthoplus.data.base import DataMatrix, MemoryMatrix, inner_product
from orthoplus.data.read import (
    as_counts,
    as_data,
    as_dense_data,
    as_entries,
    as_nonnegative_data,
    check_finite_and_range,
)

__all__ = [
    "DataMatrix",
    "MemoryMatrix",
    "as_counts",
    "as_data",
    "as_dense_data",
    "as_entries",
    "as_nonnegative_data",
    "check_finite_and_range",
    "inner_product",
]
