"""Row blocks of a Dask array, on whatever scheduler the user has.

Vectors stay where their blocks are; only what `reduce` gives travels, added up in a tree. A worker
that is lost loses its pieces of vectors, which the scheduler makes again from the data.
"""

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from operator import getitem
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy.sparse import issparse

from orthoplus.kernels.blocks import limited_threads
from orthoplus.row_blocks import RowBlocks, Work, add_parts, check_source

# Parts that are combined at a time.
_FAN_IN = 8


class DaskBlocks(RowBlocks):
    """The row chunks of a Dask array, dense or SciPy sparse, each a block.

    Examples
    --------
    >>> A = DaskBlocks(da.ones((6, 2), chunks=(2, 1)), "A")
    >>> A.shape, A.reduce(np.sum)
    ((6, 2), np.float64(12.0))
    """

    def __init__(self, array: Any, name: str) -> None:
        check_source(array, name)
        if array.ndim != 2:
            raise ValueError(
                f"`{name}` is a Dask array of shape {array.shape}: a matrix is needed. Pass "
                f"`{name}.reshape(-1, {array.shape[-1]})`."
            )
        if np.isnan(array.shape[0]):
            raise ValueError(
                f"`{name}` is a Dask array whose chunks are of unknown length: call "
                f"`{name}.compute_chunk_sizes()` first."
            )
        self.array = array if array.numblocks[1] == 1 else array.rechunk({1: -1})
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
        self.heights = self.array.chunks[0]

    @cached_property
    def _blocks(self) -> "Pieces":
        return Pieces(self.array.to_delayed().ravel().tolist())

    def map(self, work: Work, *vectors: Any, args: tuple[Any, ...] = (), n_vectors: int = 1) -> Any:
        made = list(dask.persist(*self._parts(True, work, vectors, args)))
        if n_vectors == 1:
            return Pieces(made)
        return tuple(Pieces(made, place) for place in range(n_vectors))

    def reduce(
        self,
        work: Work,
        *vectors: Any,
        args: tuple[Any, ...] = (),
        combine: Work = add_parts,
        with_blocks: bool = True,
    ) -> Any:
        parts = self._parts(with_blocks, work, vectors, args)
        merge = dask.delayed(_combined, pure=False)
        while len(parts) > 1:
            parts = [
                merge(combine, parts[start : start + _FAN_IN])
                for start in range(0, len(parts), _FAN_IN)
            ]
        return dask.compute(parts[0])[0]

    def _parts(
        self, with_blocks: bool, work: Work, vectors: Any, args: tuple[Any, ...]
    ) -> list[Any]:
        """One task for each block."""
        call = dask.delayed(_call, pure=False)
        reader = (self.dtype, self.clip) if with_blocks else None
        shared = dask.delayed((work, reader, [vector.place for vector in vectors], args))
        columns = [self._blocks.pieces] if with_blocks else []
        columns += [vector.pieces for vector in vectors]
        return [call(shared, *row) for row in zip(*columns, strict=True)]

    def numbers(self) -> Any:
        ends = np.cumsum([0, *self.heights])
        make = dask.delayed(np.arange, pure=True)
        return Pieces([make(int(a), int(b)) for a, b in pairwise(ends)])

    def as_array(self, vector: Any, dtype: Any, width: int | None = None) -> Any:
        tail = () if width is None else (width,)
        pieces = vector.pieces
        if vector.place is not None:
            take = dask.delayed(getitem, pure=False)
            pieces = [take(piece, vector.place) for piece in pieces]
        parts = zip(pieces, self.heights, strict=True)
        return da.concatenate([da.from_delayed(p, (h, *tail), dtype=dtype) for p, h in parts])


class Pieces:
    """A vector as one piece for each block, each beside its block.

    Several vectors may be made together: then each has a place in the tuple that is the piece.
    """

    def __init__(self, pieces: list[Any], place: int | None = None) -> None:
        self.pieces, self.place = pieces, place


def _read(block: Any, dtype: Any, clip: bool) -> Any:
    if issparse(block):
        block = block.tocsr().astype(dtype, copy=False)
        return block.maximum(0) if clip else block
    block = np.asarray(block).astype(dtype, copy=False)
    return np.maximum(block, 0) if clip else block


def _call(shared: tuple[Any, ...], *pieces: Any) -> Any:
    work, reader, places, args = shared
    block = [] if reader is None else [_read(pieces[0], *reader)]
    vectors = [
        piece if place is None else piece[place]
        for piece, place in zip(pieces[len(block) :], places, strict=True)
    ]
    # The scheduler runs several of these at once: no threads of our own in them.
    with limited_threads(1):
        return work(*block, *vectors, *args)


def _combined(combine: Callable[..., Any], parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return total
