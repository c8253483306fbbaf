"""Data in a Dask array, for any scheduler.

Vectors stay on the workers of their blocks; only the results of `reduce_rows` are transferred, in a
tree reduction. If a worker is lost, the scheduler recomputes its pieces of vectors from the data.
"""

from collections.abc import Callable
from concurrent.futures import CancelledError
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
from dask.sizeof import sizeof
from scipy.sparse import issparse

from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.point import SupportPoint, column_ranks, spread, sum_squares
from orthoplus.core.sparse_checks import as_csr
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import Vector, Work, add_parts
from orthoplus.data.dense import Dense
from orthoplus.data.memory import MemoryMatrix
from orthoplus.data.sparse import Sparse
from orthoplus.data.stored import BlockedMatrix, check_source
from orthoplus.kernels.threads import limited_threads, single_blas

# Number of parts combined at a time in the tree reduction.
_FAN_IN = 8
# Arguments of at most this many bytes are sent with every task of a pass.
_SMALL_BYTES = 1 << 17
# Up to this many columns, the results of blocks are small enough to be combined by the client.
_NARROW = 512


class DaskMatrix(BlockedMatrix):
    """The row chunks of a Dask array, dense or SciPy sparse, each a block.

    Examples
    --------
    >>> A = DaskMatrix(da.ones((6, 2), chunks=(2, 1)), "A")
    >>> A.shape, A.squared_norm()
    ((6, 2), 12.0)
    """

    def __init__(self, array: Any, name: str) -> None:
        check_source(array, name)
        if array.ndim != 2:
            raise InputError(
                f"`{name}` is a Dask array of shape {array.shape}: a matrix is needed. Pass "
                f"`{name}.reshape(-1, {array.shape[-1]})`."
            )
        if np.isnan(array.shape).any():
            raise InputError(
                f"`{name}` is a Dask array with chunks of unknown length: call "
                f"`{name}.compute_chunk_sizes()` first."
            )
        array = array if array.numblocks[1] == 1 else array.rechunk({1: -1})
        if 0 in array.chunks[0]:  # filtering can leave chunks without rows
            kept = [i for i, height in enumerate(array.chunks[0]) if height]
            array = da.concatenate([array.blocks[i] for i in kept])
        self.array = array
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
        self.heights = array.chunks[0]

    @cached_property
    def _blocks(self) -> "Pieces":
        keys = [key for (key,) in self.array.__dask_keys__()]
        graph = self.array.__dask_graph__()
        found = _pieces(keys, dict(graph))
        return replace(found, graph=dict(self.array.__dask_optimize__(graph, keys)))

    def map_rows(
        self, work: Work, *vectors: Vector, args: tuple[Any, ...] = (), n_vectors: int = 1
    ) -> Any:
        """Compute ``work`` on each chunk and keep the pieces where they were computed."""
        return self._kept(self._parts(False, work, vectors, args), n_vectors)

    def map_vectors(
        self, work: Work, *vectors: Vector, args: tuple[Any, ...] = (), n_vectors: int = 1
    ) -> Any:
        """Compute ``work`` on the pieces of each chunk, without the chunk itself."""
        return self._kept(self._parts(True, work, vectors, args), n_vectors)

    def _kept(self, made: "Pieces", n_vectors: int) -> Any:
        """Compute the vectors of these tasks; each piece stays on the worker of its block."""
        kept = _run(dask.persist, made)
        pieces = _pieces(made.keys, {piece.key: piece.dask[piece.key] for piece in kept})
        if n_vectors == 1:
            return pieces
        return tuple(replace(pieces, place=place) for place in range(n_vectors))

    def reduce_rows(
        self,
        work: Work,
        *vectors: Vector,
        args: tuple[Any, ...] = (),
        combine: Work = add_parts,
        vectors_only: bool = False,
    ) -> Any:
        """Compute ``work`` on each chunk and combine the results in a tree."""
        parts = self._parts(vectors_only, work, vectors, args)
        keys, graph = parts.keys, parts.graph
        merge = partial(_combined, combine)
        # The last level of small parts is combined here, without waiting for one more task.
        most = _FAN_IN if self.shape[1] <= _NARROW else 1
        while len(keys) > most:  # one level of the tree: combine _FAN_IN parts at a time
            groups = [keys[start : start + _FAN_IN] for start in range(0, len(keys), _FAN_IN)]
            keys = [_new_key("combine") for _ in groups]
            graph |= {key: (merge, group) for key, group in zip(keys, groups, strict=True)}
        return merge(_run(dask.compute, Pieces(keys, graph)))

    def _parts(
        self, vectors_only: bool, work: Work, vectors: Vector, args: tuple[Any, ...]
    ) -> "Pieces":
        """Return one task per block as a plain graph, without a Dask object for each task."""
        places = [vector.place for vector in vectors]
        shared: Any = _Shared(work, None if vectors_only else self.dtype, places, args)
        graph: dict[Any, Any] = {}
        if not shared.is_small:
            key = _new_key("shared")
            graph[key], shared = shared, key
        columns = [] if vectors_only else [self._blocks]
        columns += vectors
        for column in columns:
            graph |= column.graph
        keys = [_new_key(getattr(work, "__name__", "work")) for _ in self.heights]
        shapes = [(int(height), self.shape[1]) for height in self.heights]
        rows = zip(shapes, *(column.keys for column in columns), strict=True)
        graph |= {key: (_call, shared, *row) for key, row in zip(keys, rows, strict=True)}
        return Pieces(keys, graph)

    def row_indices(self) -> "Pieces":
        """Return the row numbers, in pieces of one range per chunk."""
        ranges = [(np.arange, int(a), int(b)) for a, b in pairwise(self._edges)]
        return _new_pieces("rows", ranges)

    @property
    def _edges(self) -> Any:
        return np.cumsum([0, *self.heights])

    def scatter(self, vector: Vector) -> "Pieces":
        """Cut an array at the chunks; a vector in pieces is returned unchanged."""
        if isinstance(vector, Pieces):
            return vector
        values = np.asarray(vector)  # a Dask array, such as the labels of a fit, is computed
        return _new_pieces("scatter", [values[a:b] for a, b in pairwise(self._edges)])

    def gather(self, vector: Vector) -> Any:
        """Return all pieces as one array in this process."""
        if isinstance(vector, np.ndarray):
            return vector
        return np.concatenate(_run(dask.compute, _taken(vector)))

    def collect(self, vector: Vector, dtype: Any, width: int | None = None) -> Any:
        """Return the vector as a Dask array with one chunk per piece."""
        tail = () if width is None else (width,)
        taken = _taken(self.scatter(vector))
        parts = zip(taken.keys, self.heights, strict=True)
        arrays = [
            da.from_delayed(Delayed(key, taken.graph), (h, *tail), dtype=dtype) for key, h in parts
        ]
        return da.concatenate(arrays)

    def point(self, labels: Vector, weights: Vector, k: int) -> SupportPoint:
        """Return the point of S+ whose labels and weights are Dask arrays."""
        return DaskPoint(self.collect(labels, np.int64), self.collect(weights, self.dtype), k)


class DaskPoint(SupportPoint):
    """A point of S+ whose labels, weights and dense matrix are Dask arrays."""

    def dense(self) -> Any:
        """Return the n x k matrix as a Dask array with the row chunks of the labels."""
        chunks = (self.labels.chunks[0], (self.k,))
        return self._by_chunks(spread, chunks, self.dtype)

    def column_squares(self) -> FloatArray:
        """Return the squared column norms, summed within and then over the chunks."""
        chunks = ((1,) * self.labels.numblocks[0], (self.k,))
        return np.asarray(self._by_chunks(_row_of_squares, chunks, np.float64)).sum(axis=0)

    def counts(self) -> IntArray:
        """Return the number of rows with each label."""
        return np.bincount(np.asarray(self.labels) + 1, minlength=self.k + 1)[1:]

    def normalized(self) -> "DaskPoint":
        """Return the point with columns of unit norm; empty columns stay zero."""
        squares = self.column_squares()
        scale = np.append(np.where(squares > 0, squares, 1.0), 1.0) ** -0.5
        weights = (self.weights * self.labels.map_blocks(scale.take)).astype(self.dtype)
        return DaskPoint(self.labels, weights, self.k)

    def renumbered(self, order: IntArray) -> "DaskPoint":
        """Return the point whose column c is the column ``order[c]`` of this one."""
        return DaskPoint(self.labels.map_blocks(column_ranks(order).take), self.weights, self.k)

    def _by_chunks(self, work: Work, chunks: Any, dtype: Any) -> Any:
        shape = {"chunks": chunks, "new_axis": [1], "dtype": dtype}
        meta = np.empty((0, 0), dtype=dtype)
        return self.labels.map_blocks(work, self.weights, self.k, **shape, meta=meta)


def _row_of_squares(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    return sum_squares(labels, weights, k)[None]


def _new_key(name: str) -> str:
    return f"{name}-{uuid4().hex}"


@dataclass(frozen=True, eq=False)
class Pieces:
    """A vector with one piece per block, stored on the worker of that block.

    A piece is a key of the graph, or a future of a cluster, which is part of no graph. If several
    vectors are computed together, each piece is a tuple with one element per vector.
    """

    keys: list[Any]
    graph: dict[Any, Any]
    place: int | None = None


def _run(act: Callable[..., Any], made: Pieces) -> Any:
    """Compute or persist these pieces; say with one message that the cluster lost what it needs.

    The scheduler makes again what a lost worker held. It cannot do so for data that were scattered,
    nor can anyone without a scheduler.
    """
    try:
        with single_blas:  # the threads of the scheduler are enough
            return act(*(Delayed(key, made.graph) for key in made.keys))
    except Exception as error:
        if not _is_loss(error):
            raise
        raise InputError(
            f"The Dask cluster lost its scheduler, or data that it cannot recompute "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200].rstrip('.')}). Start "
            f"the cluster and load the data again; `checkpoint=` and `resume=` save and continue "
            f"a run."
        ) from error


def _is_loss(error: Exception) -> bool:
    """Return whether Dask itself failed, not a task; a future is canceled if its data are lost."""
    is_of_cluster = type(error).__module__.partition(".")[0] == "distributed"
    return is_of_cluster or isinstance(error, CancelledError)


def _new_pieces(name: str, tasks: list[Any]) -> Pieces:
    keys = [_new_key(name) for _ in tasks]
    return Pieces(keys, dict(zip(keys, tasks, strict=True)))


def _taken(vector: Pieces) -> Pieces:
    """Return the vector with its own keys, if it has futures or is one of several vectors."""
    if vector.place is not None:
        taken = _new_pieces("take", [(getitem, key, vector.place) for key in vector.keys])
    elif any(map(_is_future, vector.keys)):
        taken = _new_pieces("take", [(_same, key) for key in vector.keys])
    else:
        return vector
    return replace(taken, graph=vector.graph | taken.graph)


def _same(piece: Any) -> Any:
    return piece


def _is_future(value: Any) -> bool:
    return hasattr(value, "add_done_callback")


def _pieces(keys: list[Any], graph: dict[Any, Any]) -> Pieces:
    """Return the pieces for these keys, with futures in place of keys if the graph has them."""
    futures = {key: value for key, value in graph.items() if _is_future(value)}
    rest = {key: value for key, value in graph.items() if key not in futures}
    return Pieces([futures.get(key, key) for key in keys], rest)


@dataclass(frozen=True)
class _Shared:
    """Arguments shared by all tasks of a pass.

    Small ones are part of each task; others are a separate task, transferred once to each
    worker, for which all workers but one have to wait.
    """

    work: Work
    dtype: Any  # of the block; None for work on vectors alone
    places: list[int | None]
    args: tuple[Any, ...]

    @property
    def is_small(self) -> bool:
        return sizeof(self.args) <= _SMALL_BYTES


def _read(block: Any, shape: tuple[int, int], dtype: Any) -> MemoryMatrix:
    """Return a chunk as a matrix, after checking its shape, dtype and mask."""
    if np.ma.is_masked(block):
        raise InputTypeError(
            "The Dask array has chunks with masked entries: a matrix of numbers is needed. Leave "
            "out their rows, or fill them with `dask.array.ma.filled(array, value)`; for a model "
            'with `missing="mask"`, the value is `numpy.nan`.'
        )
    values = block if issparse(block) else np.asarray(block)
    if values.shape != shape or values.dtype.kind not in "fiub":
        raise InputError(
            f"A chunk of the Dask array has shape {values.shape} and dtype {values.dtype}, but "
            f"real numbers of shape {shape} are expected: check the function that computes the "
            f"chunks."
        )
    if issparse(values):
        return Sparse(as_csr(values, "A chunk").astype(dtype, copy=False))
    return Dense(values.astype(dtype, copy=False))


def _call(shared: _Shared, shape: tuple[int, int], *pieces: Any) -> Any:
    block = [] if shared.dtype is None else [_read(pieces[0], shape, shared.dtype)]
    vectors = [
        piece if place is None else piece[place]
        for piece, place in zip(pieces[len(block) :], shared.places, strict=True)
    ]
    # The scheduler runs several tasks at once, so a task must not start threads itself.
    with limited_threads(1):
        return shared.work(*block, *vectors, *shared.args)


def _combined(combine: Callable[..., Any], parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return total
