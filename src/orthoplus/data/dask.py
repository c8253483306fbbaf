"""Row blocks of a Dask array, on whatever scheduler the user has.

Vectors stay where their blocks are; only what `reduce` gives travels, added up in a tree. A worker
that is lost loses its pieces of vectors, which the scheduler makes again from the data.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from operator import getitem
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from scipy.sparse import issparse

from orthoplus.core.errors import InputError
from orthoplus.data.stored import RowBlocks, Work, add_parts, check_source
from orthoplus.kernels.blocks import limited_threads, single_blas

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
            raise InputError(
                f"`{name}` is a Dask array of shape {array.shape}: a matrix is needed. Pass "
                f"`{name}.reshape(-1, {array.shape[-1]})`."
            )
        if np.isnan(array.shape[0]):
            raise InputError(
                f"`{name}` is a Dask array whose chunks are of unknown length: call "
                f"`{name}.compute_chunk_sizes()` first."
            )
        self.array = array if array.numblocks[1] == 1 else array.rechunk({1: -1})
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
        self.heights = self.array.chunks[0]

    @cached_property
    def _blocks(self) -> "Pieces":
        keys = [key for (key,) in self.array.__dask_keys__()]
        graph = self.array.__dask_graph__()
        found = _pieces(keys, dict(graph))
        return replace(found, graph=dict(self.array.__dask_optimize__(graph, keys)))

    def map(self, work: Work, *vectors: Any, args: tuple[Any, ...] = (), n_vectors: int = 1) -> Any:
        made = self._parts(True, work, vectors, args)
        with single_blas():  # the threads of the scheduler are enough
            kept = dask.persist(*(Delayed(key, made.graph) for key in made.keys))
        pieces = _pieces(made.keys, {piece.key: piece.dask[piece.key] for piece in kept})
        if n_vectors == 1:
            return pieces
        return tuple(replace(pieces, place=place) for place in range(n_vectors))

    def reduce(
        self,
        work: Work,
        *vectors: Any,
        args: tuple[Any, ...] = (),
        combine: Work = add_parts,
        with_blocks: bool = True,
    ) -> Any:
        parts = self._parts(with_blocks, work, vectors, args)
        keys, graph = parts.keys, parts.graph
        merge = partial(_combined, combine)
        while len(keys) > 1:
            groups = [keys[start : start + _FAN_IN] for start in range(0, len(keys), _FAN_IN)]
            keys = [_new_key("combine") for _ in groups]
            graph |= {key: (merge, group) for key, group in zip(keys, groups, strict=True)}
        with single_blas():
            return dask.compute(Delayed(keys[0], graph))[0]

    def _parts(
        self, with_blocks: bool, work: Work, vectors: Any, args: tuple[Any, ...]
    ) -> "Pieces":
        """One task for each block, written down as a graph: no object of Dask's for each."""
        reader = (self.dtype, self.clip) if with_blocks else None
        shared = _new_key("shared")
        graph: dict[Any, Any] = {
            shared: _Shared(work, reader, [vector.place for vector in vectors], args)
        }
        columns = [self._blocks] if with_blocks else []
        columns += vectors
        for column in columns:
            graph |= column.graph
        keys = [_new_key(getattr(work, "__name__", "work")) for _ in self.heights]
        rows = zip(*(column.keys for column in columns), strict=True)
        graph |= {key: (_call, shared, *row) for key, row in zip(keys, rows, strict=True)}
        return Pieces(keys, graph)

    def numbers(self) -> Any:
        ends = np.cumsum([0, *self.heights])
        keys = [_new_key("numbers") for _ in self.heights]
        ranges = [(np.arange, int(a), int(b)) for a, b in pairwise(ends)]
        return Pieces(keys, dict(zip(keys, ranges, strict=True)))

    def as_array(self, vector: Any, dtype: Any, width: int | None = None) -> Any:
        tail = () if width is None else (width,)
        keys, graph = vector.keys, vector.graph
        if vector.place is not None:
            keys = [_new_key("take") for _ in keys]
            taken = [(getitem, key, vector.place) for key in vector.keys]
            graph = graph | dict(zip(keys, taken, strict=True))
        parts = zip(keys, self.heights, strict=True)
        return da.concatenate(
            [da.from_delayed(Delayed(key, graph), (h, *tail), dtype=dtype) for key, h in parts]
        )


def _new_key(name: str) -> str:
    return f"{name}-{uuid4().hex}"


@dataclass(frozen=True, eq=False)
class Pieces:
    """A vector as one piece for each block, each beside its block.

    A piece is a key of the graph, or a future of a cluster, which stands in no graph. Several
    vectors may be made together: then each has a place in the tuple that is the piece.
    """

    keys: list[Any]
    graph: dict[Any, Any]
    place: int | None = None


def _pieces(keys: list[Any], graph: dict[Any, Any]) -> Pieces:
    """Keys of a graph, or the futures it has for them."""
    futures = {key: value for key, value in graph.items() if hasattr(value, "add_done_callback")}
    rest = {key: value for key, value in graph.items() if key not in futures}
    return Pieces([futures.get(key, key) for key in keys], rest)


@dataclass(frozen=True)
class _Shared:
    """What the tasks of a pass have in common; it travels once to each worker."""

    work: Work
    reader: tuple[Any, bool] | None
    places: list[int | None]
    args: tuple[Any, ...]


def _read(block: Any, dtype: Any, clip: bool) -> Any:
    if issparse(block):
        block = block.tocsr().astype(dtype, copy=False)
        return block.maximum(0) if clip else block
    block = np.asarray(block).astype(dtype, copy=False)
    return np.maximum(block, 0) if clip else block


def _call(shared: _Shared, *pieces: Any) -> Any:
    work, reader, places, args = shared.work, shared.reader, shared.places, shared.args
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
