"""A matrix in blocks of rows, of which only those at work are in memory.

What a method needs of such a matrix are two things: sums over its blocks (`RowBlocks.reduce`) and
vectors with a number for each row (`RowBlocks.map`). Whether the blocks come from a file one after
the other, or are worked on by many machines at once, is theirs to say.
"""

import mmap
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np

from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.types import FloatArray

# The blocks in memory at a time take this share of the limit; what is made of them takes the rest.
_BLOCK_SHARE = 0.125
# The limit where none is given.
DEFAULT_LIMIT = "1GB"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}I": 2 ** (10 * power) for power, unit in enumerate("KMGT", start=1)}

Work = Callable[..., Any]


def add_parts(one: Any, other: Any) -> Any:
    """The sum of what two blocks gave: of arrays, or place by place of tuples."""
    if isinstance(one, tuple):
        return tuple(map(operator.add, one, other))
    return one + other


class RowBlocks(ABC):
    """An n x r matrix of which ``work`` sees a block of rows at a time, dense or CSR.

    ``work(block, *pieces, *args)`` is a function of a module; the pieces are the rows of the
    vectors that belong to the block. A vector is what `map` returns: an array with n entries, or
    something that stays beside its block. Work is done in any order, and may be done twice.

    Examples
    --------
    >>> A = StoredBlocks(np.arange(6.0).reshape(3, 2), memory_limit=128)
    >>> A.map(np.sum, args=(1,)).tolist()
    [1.0, 5.0, 9.0]
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    clip: bool = False

    def clipped(self) -> Self:
        """The same blocks, with negative entries read as zeros."""
        other = copy(self)
        other.clip = True
        return other

    @abstractmethod
    def map(self, work: Work, *vectors: Any, args: tuple[Any, ...] = (), n_vectors: int = 1) -> Any:
        """The vector, or the tuple of several, whose pieces are ``work(block, ...)``."""

    @abstractmethod
    def reduce(
        self,
        work: Work,
        *vectors: Any,
        args: tuple[Any, ...] = (),
        combine: Work = add_parts,
        with_blocks: bool = True,
    ) -> Any:
        """What the blocks gave, combined in their order; False sees the pieces alone."""

    @abstractmethod
    def numbers(self) -> Any:
        """The vector of the numbers of the rows."""

    @abstractmethod
    def as_array(self, vector: Any, dtype: Any, width: int | None = None) -> Any:
        """A vector, of rows of this width, as an array for the user, NumPy's own or a lazy one."""

    def __len__(self) -> int:
        return self.shape[0]


class StoredBlocks(RowBlocks):
    """Rows of an array on disk, read in blocks that fit into the memory there is.

    Parameters
    ----------
    source : array-like of shape (n, r) or (height, width, r)
        Anything with ``shape``, ``dtype`` and slices: a memory map, a dataset of h5py, an array of
        Zarr. An image is read as the matrix of its pixels.
    memory_limit : int or str
        In bytes, or as in "512MB": see `as_row_blocks`.

    Examples
    --------
    >>> A = StoredBlocks(np.arange(6.0).reshape(3, 2), 128)
    >>> [len(block) for _, block in A.blocks()], A.reduce(np.sum)
    ([1, 1, 1], np.float64(15.0))
    """

    def __init__(self, source: Any, memory_limit: int | str) -> None:
        self.source = source
        self._width = 1 if len(source.shape) == 2 else int(source.shape[1])
        self.shape = (int(source.shape[0]) * self._width, int(source.shape[-1]))
        is_single = np.dtype(source.dtype) == np.float32
        self.dtype = np.dtype(np.float32 if is_single else np.float64)
        self.height = self._lines(parse_memory(memory_limit)) * self._width

    def _lines(self, limit: int) -> int:
        """Lines of the source in a block, whole chunks where it has any."""
        line = self._width * max(1, self.shape[1]) * np.dtype(np.float64).itemsize
        lines = max(1, int(_BLOCK_SHARE * limit) // line)
        chunk = int((getattr(self.source, "chunks", None) or (1,))[0])
        return lines if lines < chunk else lines // chunk * chunk

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Row ranges and their rows, in order; a block is valid until the next is asked for."""
        n = self.shape[0]
        for start in range(0, n, self.height):
            rows = slice(start, min(start + self.height, n))
            lines = slice(rows.start // self._width, rows.stop // self._width)
            piece = self.source[lines]
            block = np.asarray(piece).reshape(-1, self.shape[1]).astype(self.dtype, copy=False)
            yield rows, np.maximum(block, 0) if self.clip else block
            _give_back(piece)

    def map(self, work: Work, *vectors: Any, args: tuple[Any, ...] = (), n_vectors: int = 1) -> Any:
        whole: list[Any] = []
        for rows, block in self.blocks():
            part = work(block, *(vector[rows] for vector in vectors), *args)
            parts = part if n_vectors > 1 else (part,)
            whole = whole or [np.empty((len(self), *p.shape[1:]), dtype=p.dtype) for p in parts]
            for vector, piece in zip(whole, parts, strict=True):
                vector[rows] = piece
        return tuple(whole) if n_vectors > 1 else whole[0]

    def reduce(
        self,
        work: Work,
        *vectors: Any,
        args: tuple[Any, ...] = (),
        combine: Work = add_parts,
        with_blocks: bool = True,
    ) -> Any:
        if not with_blocks:
            return work(*vectors, *args)
        total: Any = None
        for rows, block in self.blocks():
            part = work(block, *(vector[rows] for vector in vectors), *args)
            total = part if total is None else combine(total, part)
        return total

    def numbers(self) -> Any:
        return np.arange(len(self))

    def as_array(self, vector: Any, dtype: Any, width: int | None = None) -> Any:
        return vector.astype(dtype, copy=False)


class ProductBlocks(RowBlocks):
    """AM for a matrix A in row blocks: a block is multiplied when it is read.

    Examples
    --------
    >>> A = StoredBlocks(np.arange(6.0).reshape(3, 2), 128)
    >>> ProductBlocks(A, np.array([[1.0], [10.0]])).map(np.asarray).ravel().tolist()
    [10.0, 32.0, 54.0]
    """

    def __init__(self, rows: RowBlocks, M: FloatArray) -> None:
        self.rows = rows
        self.M = M.astype(rows.dtype, copy=False)
        self.shape, self.dtype = (len(rows), M.shape[1]), rows.dtype

    def map(self, work: Work, *vectors: Any, args: tuple[Any, ...] = (), n_vectors: int = 1) -> Any:
        return self.rows.map(self._on_product(work), *vectors, args=args, n_vectors=n_vectors)

    def reduce(
        self,
        work: Work,
        *vectors: Any,
        args: tuple[Any, ...] = (),
        combine: Work = add_parts,
        with_blocks: bool = True,
    ) -> Any:
        work = self._on_product(work) if with_blocks else work
        return self.rows.reduce(work, *vectors, args=args, combine=combine, with_blocks=with_blocks)

    def _on_product(self, work: Work) -> Work:
        return partial(_work_on_product, work, self.M, self.clip)

    def numbers(self) -> Any:
        return self.rows.numbers()

    def as_array(self, vector: Any, dtype: Any, width: int | None = None) -> Any:
        return self.rows.as_array(vector, dtype, width)


def _work_on_product(work: Work, M: FloatArray, clip: bool, block: Any, *rest: Any) -> Any:
    product = np.asarray(block @ M)
    return work(np.maximum(product, 0) if clip else product, *rest)


def _give_back(piece: Any) -> None:
    """Let go of the pages of a memory map that have been read: they count as ours until then."""
    if not isinstance(piece, np.memmap) or piece.mode not in ("r", "r+") or not piece.size:
        return
    memory = getattr(piece, "_mmap", None)
    if memory is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    low, high = np.lib.array_utils.byte_bounds(piece)
    first = np.lib.array_utils.byte_bounds(np.frombuffer(memory, dtype=np.uint8))[0]
    start = (low - first) // mmap.PAGESIZE * mmap.PAGESIZE
    memory.madvise(mmap.MADV_DONTNEED, start, high - first - start)


def is_stored(value: Any) -> bool:
    """Whether this is an array that is not in memory: of h5py, of Zarr, or their like.

    Examples
    --------
    >>> is_stored(np.eye(2)), is_stored([[1.0]])
    (False, False)
    """
    has_all = all(hasattr(value, name) for name in ("shape", "dtype", "chunks", "__getitem__"))
    return has_all and not isinstance(value, np.ndarray)


def is_lazy(value: Any) -> bool:
    """Whether this is a Dask array."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "dask") and hasattr(value, "chunks")


def as_row_blocks(
    value: Any, name: str, *, memory_limit: int | str | None = None
) -> RowBlocks | None:
    """The matrix in row blocks: of a Dask array, of a stored one, or of one with a limit; or None.

    Parameters
    ----------
    value : array-like of shape (n, r) or, where it is not a Dask array, (height, width, r)
    name : str
        For errors.
    memory_limit : int or str, optional
        How much memory, in bytes or as in "512MB", the rows that are read at a time and what is
        made of them may take. Vectors with a number for each row come on top. For a Dask array the
        chunks decide. A stored array without a limit has "1GB"; an array in memory without one is
        not read in blocks.

    Examples
    --------
    >>> as_row_blocks(np.eye(3), "A") is None
    True
    >>> as_row_blocks(np.eye(3), "A", memory_limit="1MB").shape
    (3, 3)
    """
    if isinstance(value, RowBlocks):
        return value
    if memory_limit is not None:
        parse_memory(memory_limit)
    if is_lazy(value):
        from orthoplus.data.dask import DaskBlocks

        return DaskBlocks(value, name)
    is_array = isinstance(value, np.ndarray) and memory_limit is not None
    if not (is_array or is_stored(value)):
        return None
    check_source(value, name)
    return StoredBlocks(value, memory_limit or DEFAULT_LIMIT)


def check_source(value: Any, name: str) -> None:
    """Raise unless this is a matrix, or an image, of real numbers."""
    if len(value.shape) not in (2, 3) or 0 in value.shape:
        raise InputError(
            f"`{name}` has shape {tuple(value.shape)}: a matrix (rows, columns) or an image "
            f"(height, width, bands) is needed."
        )
    if np.dtype(value.dtype).kind not in "fiub":
        raise InputTypeError(f"`{name}` has dtype {value.dtype}: real numbers are needed.")


def parse_memory(limit: int | str) -> int:
    """Bytes of a number of them, or of words such as "512MB", "1.5 GiB".

    Examples
    --------
    >>> parse_memory("512MB"), parse_memory("1 KiB"), parse_memory(100)
    (512000000, 1024, 100)
    """
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([KMGT]?I?)B?\s*", limit.upper())
        if found and found[2] in _UNITS:
            try:
                limit = int(float(found[1]) * _UNITS[found[2]])
            except ValueError:
                pass
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
        raise InputError(
            f"`memory_limit={limit!r}` is no amount of memory: give bytes as a whole number, or "
            f'words such as "512MB" or "2GiB".'
        )
    return int(limit)
