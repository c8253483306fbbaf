"""Data that is read one block of rows at a time: arrays on disk, and matrices derived from them."""

import mmap
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.sparse_checks import canonical
from orthoplus.core.types import IntArray
from orthoplus.data.base import DataMatrix, Vector, Work, add_parts
from orthoplus.data.dense import Dense
from orthoplus.data.memory import MemoryMatrix
from orthoplus.data.sparse import Sparse

# Fraction of the memory limit for the block itself; the rest is for arrays computed from it.
_BLOCK_SHARE = 0.125
# Rows collected from all blocks may take the memory of this many blocks.
_COLLECTED_BLOCKS = 2
# The default memory limit.
DEFAULT_LIMIT = "1GB"
# Largest order of A'A that is formed, and its eigenvalues below this fraction of the largest are 0.
_LARGEST_GRAM, _NO_RANK = 4096, 1e-14
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}I": 2 ** (10 * power) for power, unit in enumerate("KMGT", start=1)}


class BlockedMatrix(DataMatrix):
    """A matrix of which one block of rows at a time is in memory."""

    has_cheap_products: ClassVar[bool] = False
    gram_order: ClassVar[int] = 1024

    def derive(
        self,
        transform: Work,
        *vectors: Vector,
        args: tuple[Any, ...] = (),
        width: int | None = None,
    ) -> "Derived":
        """Return a matrix that transforms each block when it is read."""
        return Derived(self, partial(_transform, transform, args), vectors, width or self.shape[1])

    def gram_root(self) -> Dense:
        """Return B of shape (r, rank) with BB' = A'A.

        This takes one pass over A and the solution of an eigenproblem of order r.
        """
        if self.shape[1] > _LARGEST_GRAM:
            raise InputError(
                f"The data has {self.shape[1]} columns and is read in blocks of rows: parts of "
                f"features are found in at most {_LARGEST_GRAM} columns. Load the data into "
                f"memory, or store its transpose."
            )
        values, vectors = np.linalg.eigh(self.gram())
        is_sound = values > _NO_RANK * max(values[-1], 0.0)
        is_sound[-1] = True  # if all data are zero, keep one column
        return Dense(vectors[:, is_sound] * np.sqrt(np.maximum(values[is_sound], 0.0)))


class Stored(BlockedMatrix):
    """Rows of an array on disk, read in blocks that fit into the memory limit.

    Parameters
    ----------
    source : array-like of shape (n, r) or (height, width, r)
        Any object with ``shape``, ``dtype`` and slicing: a memory map, an h5py dataset, a Zarr
        array, or a sparse matrix on disk whose slices are SciPy sparse matrices (AnnData in
        backed mode). An image is read as the matrix of its pixels.
    memory_limit : int or str
        Number of bytes, or a string such as "512MB"; see `orthoplus.data.as_data`.

    Examples
    --------
    >>> A = Stored(np.arange(6.0).reshape(3, 2), 128)
    >>> [len(block) for _, block in A.blocks()], A.squared_norm()
    ([1, 1, 1], 55.0)
    """

    def __init__(self, source: Any, memory_limit: int | str) -> None:
        self.source = source
        self._width = 1 if len(source.shape) == 2 else int(source.shape[1])
        self.shape = (int(source.shape[0]) * self._width, int(source.shape[-1]))
        is_single = np.dtype(source.dtype) == np.float32
        self.dtype = np.dtype(np.float32 if is_single else np.float64)
        self.height: int = self._lines(parse_memory(memory_limit)) * self._width
        self.most_rows = _COLLECTED_BLOCKS * self.height

    def _lines(self, limit: int) -> int:
        """Return the number of lines of the source per block, whole chunks if it has chunks."""
        line = max(1, int(self._width * row_bytes(self.source)))
        lines = max(1, int(_BLOCK_SHARE * limit) // line)
        chunk = int((getattr(self.source, "chunks", None) or (1,))[0])
        return lines if lines < chunk else lines // chunk * chunk

    def blocks(self) -> Iterator[tuple[slice, Dense | Sparse]]:
        """Yield row ranges and their rows; a block is valid until the next one is requested."""
        n = self.shape[0]
        for start in range(0, n, self.height):
            rows = slice(start, min(start + self.height, n))
            lines = slice(rows.start // self._width, rows.stop // self._width)
            piece = self.source[lines]
            yield rows, self._block(piece)
            _give_back(piece)

    def _block(self, piece: Any) -> Dense | Sparse:
        if issparse(piece):
            return Sparse(canonical(piece.tocsr().astype(self.dtype, copy=False)))
        values = np.asarray(piece).reshape(-1, self.shape[1])
        return Dense(values.astype(self.dtype, copy=False))

    def map_rows(
        self, work: Work, *vectors: Vector, args: tuple[Any, ...] = (), n_vectors: int = 1
    ) -> Any:
        """Read the blocks in turn and write ``work(block, ...)`` into whole arrays."""
        whole: list[Any] = []
        for rows, block in self.blocks():
            part = work(block, *(vector[rows] for vector in vectors), *args)
            parts = part if n_vectors > 1 else (part,)
            # The first block shows the dtypes and widths of the results.
            whole = whole or [np.empty((len(self), *p.shape[1:]), dtype=p.dtype) for p in parts]
            for vector, piece in zip(whole, parts, strict=True):
                vector[rows] = piece
        return tuple(whole) if n_vectors > 1 else whole[0]

    def reduce_rows(
        self,
        work: Work,
        *vectors: Vector,
        args: tuple[Any, ...] = (),
        combine: Work = add_parts,
        vectors_only: bool = False,
    ) -> Any:
        """Read the blocks in turn and combine their results from the first row down."""
        if vectors_only:
            return work(*vectors, *args)
        total: Any = None
        for rows, block in self.blocks():
            part = work(block, *(vector[rows] for vector in vectors), *args)
            total = part if total is None else combine(total, part)
        return total

    def row_indices(self) -> IntArray:
        """Return the row numbers 0, ..., n - 1."""
        return np.arange(len(self))


class Derived(BlockedMatrix):
    """A matrix whose blocks are those of another matrix, transformed when they are read.

    Examples
    --------
    >>> A = Stored(np.arange(6.0).reshape(3, 2), 128)
    >>> A.derive(Dense.multiplied, args=(np.array([[1.0], [10.0]]),), width=1).row_sums()
    array([10., 32., 54.])
    """

    def __init__(self, base: DataMatrix, transform: Work, vectors: Vector, width: int) -> None:
        self.base: DataMatrix = base
        self.transform: Work = transform
        self.vectors: tuple[Any, ...] = tuple(vectors)
        self.shape, self.dtype = (base.shape[0], width), base.dtype
        self.name = base.name

    def map_rows(
        self, work: Work, *vectors: Vector, args: tuple[Any, ...] = (), n_vectors: int = 1
    ) -> Any:
        """Map the rows of the base, with each block transformed first."""
        own = (*self.vectors, *vectors)
        return self.base.map_rows(self._after(work), *own, args=args, n_vectors=n_vectors)

    def map_vectors(
        self, work: Work, *vectors: Vector, args: tuple[Any, ...] = (), n_vectors: int = 1
    ) -> Any:
        """Map vectors of the base, which are not transformed."""
        return self.base.map_vectors(work, *vectors, args=args, n_vectors=n_vectors)

    def reduce_rows(
        self,
        work: Work,
        *vectors: Vector,
        args: tuple[Any, ...] = (),
        combine: Work = add_parts,
        vectors_only: bool = False,
    ) -> Any:
        """Reduce the rows of the base, with each block transformed first."""
        if not vectors_only:
            work, vectors = self._after(work), (*self.vectors, *vectors)
        return self.base.reduce_rows(
            work, *vectors, args=args, combine=combine, vectors_only=vectors_only
        )

    def _after(self, work: Work) -> Work:
        return partial(_work_on_derived, work, self.transform, len(self.vectors))

    def row_indices(self) -> Any:
        """Return the row numbers of the base."""
        return self.base.row_indices()

    def gather(self, vector: Vector) -> Any:
        """Return a vector of the base as an array in this process."""
        return self.base.gather(vector)

    def scatter(self, vector: Vector) -> Any:
        """Convert an array to a vector of the base."""
        return self.base.scatter(vector)

    def collect(self, vector: Vector, dtype: Any, width: int | None = None) -> Any:
        """Return a vector of the base as an array for the user."""
        return self.base.collect(vector, dtype, width)

    def point(self, labels: Vector, weights: Vector, k: int) -> Any:
        """Return a point of S+ with vectors of the base."""
        return self.base.point(labels, weights, k)


def _transform(transform: Work, args: tuple[Any, ...], block: MemoryMatrix, *pieces: Any) -> Any:
    return transform(block, *pieces, *args)


def _work_on_derived(
    work: Work, transform: Work, n_own: int, block: MemoryMatrix, *rest: Any
) -> Any:
    return work(transform(block, *rest[:n_own]), *rest[n_own:])


def _give_back(piece: Any) -> None:
    """Release the pages of a memory map after reading; they count as our memory until then."""
    if not isinstance(piece, np.memmap) or piece.mode not in ("r", "r+") or not piece.size:
        return
    memory = getattr(piece, "_mmap", None)
    if memory is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    low, high = np.lib.array_utils.byte_bounds(piece)
    first = np.lib.array_utils.byte_bounds(np.frombuffer(memory, dtype=np.uint8))[0]
    # madvise needs a start at the boundary of a page, relative to the map.
    start = (low - first) // mmap.PAGESIZE * mmap.PAGESIZE
    memory.madvise(mmap.MADV_DONTNEED, start, high - first - start)


def is_sparse_on_disk(value: Any) -> bool:
    """Return whether this is a sparse matrix on disk, as in AnnData's backed mode."""
    return all(hasattr(value, name) for name in ("shape", "dtype", "format", "to_memory", "group"))


def row_bytes(source: Any) -> float:
    """Return the number of bytes of a row (or pixel) in float64, the average if sparse."""
    size = np.dtype(np.float64).itemsize
    if is_sparse_on_disk(source):  # an entry and its index
        return 2 * size * source.group["data"].shape[0] / max(1, source.shape[0])
    return size * max(1, source.shape[-1])


def check_source(value: Any, name: str) -> None:
    """Raise unless this is a matrix or an image of real numbers."""
    if is_sparse_on_disk(value) and value.format != "csr":
        raise InputTypeError(
            f"`{name}` is a sparse matrix on disk that is stored by columns "
            f"({value.format.upper()}): its rows cannot be read a block at a time. Load it with "
            f"`{name}.to_memory()`, or store it as CSR."
        )
    shape = () if value.shape is None else tuple(value.shape)  # None for an empty HDF5 data set
    if len(shape) not in (2, 3) or 0 in shape:
        raise InputError(
            f"`{name}` has shape {shape}: a matrix (rows, columns) or an image "
            f"(height, width, bands) is needed."
        )
    if np.dtype(value.dtype).kind not in "fiub":
        raise InputTypeError(f"`{name}` has dtype {value.dtype}: real numbers are needed.")


def parse_memory(limit: int | str) -> int:
    """Convert a number of bytes, or a string such as "512MB" or "1.5 GiB", to bytes.

    Examples
    --------
    >>> parse_memory("512MB"), parse_memory("1 KiB"), parse_memory(100)
    (512000000, 1024, 100)
    """
    given = limit
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([KMGT]?I?)B?\s*", limit.upper())
        if found and found[2] in _UNITS:
            try:
                limit = int(float(found[1]) * _UNITS[found[2]])
            except ValueError:
                pass
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
        raise InputError(
            f"Invalid `memory_limit={given!r}`: pass a positive number of bytes as an int, or a "
            f'string such as "512MB" or "2GiB".'
        )
    return int(limit)
