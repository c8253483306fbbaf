"""Write the samples of brain images to the columns of a matrix in memory or in a file."""

import tempfile
from typing import Any

import numpy as np

from orthoplus.core.errors import InputError
from orthoplus.core.types import FloatArray

# Share of the memory limit for columns that are not yet written.
_COLUMN_SHARE = 0.125
# Number of columns written at a time, so that not every image touches every row of the file.
_LEAST_COLUMNS, _MOST_COLUMNS = 16, 64


class ColumnWriter:
    """Write the columns of a matrix, several at a time, to memory or to a temporary file."""

    def __init__(self, first: FloatArray, n_samples: int, limit: int) -> None:
        shape = (first.shape[1], n_samples)
        dtype = np.dtype(np.float64 if first.dtype == np.float64 else np.float32)
        size = shape[0] * shape[1] * dtype.itemsize
        self.is_file = size > limit
        self.values: Any = _temporary(shape, dtype) if self.is_file else np.empty(shape, dtype)
        fitting = int(_COLUMN_SHARE * limit) // max(1, shape[0] * dtype.itemsize)
        self.most = min(max(_LEAST_COLUMNS, fitting), _MOST_COLUMNS)
        self.waiting: list[FloatArray] = []
        self.done = 0

    def add(self, block: FloatArray) -> None:
        """Add the next columns, given as rows."""
        self.waiting.append(block)
        if sum(map(len, self.waiting)) >= self.most:
            self._write()

    def finish(self) -> FloatArray:
        """Return the matrix."""
        self._write()
        if self.done != self.values.shape[1]:
            raise InputError(
                f"The images have {self.done} samples; {self.values.shape[1]} were expected."
            )
        return self.values

    def _write(self) -> None:
        if self.waiting:
            block = np.concatenate(self.waiting)
            self.values[:, self.done : self.done + len(block)] = block.T
            self.done += len(block)
            self.waiting = []


def _temporary(shape: tuple[int, int], dtype: np.dtype[Any]) -> Any:
    """Return a memory map of an unnamed file, which is deleted with the last reference."""
    with tempfile.TemporaryFile() as file:  # the map keeps its own handle
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)
