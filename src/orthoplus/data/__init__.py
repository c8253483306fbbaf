"""The data matrix in all supported storages; only `as_data` inspects the type of the input."""

from orthoplus.data.base import DataMatrix, inner_product
from orthoplus.data.memory import MemoryMatrix
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
