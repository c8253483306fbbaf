"""Fingerprints of a run for checkpoints: data, problem, method and version."""

import dataclasses
import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from orthoplus.core.outer_method import OuterMethodBase
from orthoplus.core.problem import Problem
from orthoplus.core.types import IntArray
from orthoplus.data import DataMatrix, as_data

Fingerprint = dict[str, Any]

# Options that may change when a run is resumed: they determine when it ends, not what it does.
_STOPPING_OPTIONS = ("max_iter", "tol", "feasibility_tol")
# Entries whose bits are mixed at a time, the seed of the odd multipliers, and an odd constant.
_SLICE_ENTRIES = 1 << 16
_SEED, _ROW_MIX = 20_240, np.uint64(0x9E3779B97F4A7C15)
# Values of f at one point within this relative distance belong to the same f; sums in another order
# differ by less.
_SAME_VALUE = 1e-6


def fingerprint(problem: Problem, method: OuterMethodBase) -> Fingerprint:
    """Return a JSON description that identifies this run, in one pass over the data.

    Data are compared bit by bit, independently of their storage. A problem that contains functions
    is compared by its value at one point.

    Examples
    --------
    >>> import orthoplus as op
    >>> one, other = (op.problems.Projection(C) for C in (np.eye(3, 2), 2 * np.eye(3, 2)))
    >>> differences(fingerprint(one, op.EP4Orth()), fingerprint(other, op.EP4Orth(max_iter=9)))
    ['data']
    """
    from orthoplus import __version__

    digest = _Digest()
    digest.add(problem)
    return {
        "version": __version__,
        "problem": [type(problem).__name__, *map(int, problem.shape)],
        "data": digest.hash.hexdigest() if digest.is_complete else None,
        "value": None if digest.is_complete else _probe(problem),
        "method": _describe(method),
    }


def data_fingerprint(A: DataMatrix) -> str:
    """Return a digest of every bit of the entries, which does not depend on their storage.

    Examples
    --------
    >>> one, other = as_data(np.eye(3, 2)), as_data(np.eye(3, 2)[:, ::-1])
    >>> data_fingerprint(one) == data_fingerprint(other)
    False
    """
    digest = _Digest()
    digest.add(A)
    return digest.hash.hexdigest()


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names of the parts in which two fingerprints differ."""
    found = [name for name in ("version", "problem", "method") if one.get(name) != other.get(name)]
    first, second = one.get("value"), other.get("value")
    is_same = one.get("data") == other.get("data")
    # Problems with functions have no complete digest: compare f at one point instead.
    if first is not None and second is not None:
        is_same = is_same and math.isclose(first, second, rel_tol=_SAME_VALUE)
    if not is_same:
        found.append("data")
    return found


def _describe(method: OuterMethodBase) -> str:
    """Return the name and the options of a method, except those that only end it."""
    own = getattr(method, "method", method)  # a user's own method, without our defaults
    if not dataclasses.is_dataclass(own):
        return type(own).__name__
    names = [field.name for field in dataclasses.fields(own) if field.name not in _STOPPING_OPTIONS]
    text = f"{type(own).__name__}({', '.join(f'{n}={getattr(own, n)!r}' for n in names)})"
    return re.sub(r" at 0x[0-9a-f]+", "", text)  # addresses of functions


def _probe(problem: Problem) -> float | None:
    """Return f at a point that is the same in every process; None if it is not finite."""
    try:
        value = float(problem.value(Problem.start(problem, np.random.default_rng(_SEED))))
    except Exception:  # a user's function may raise anything
        return None
    return value if math.isfinite(value) else None


class _Digest:
    """Hash the parts of a problem; ``is_complete`` is False if a part cannot be compared."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.is_complete = True

    def add(self, value: Any) -> None:
        """Add a value to the hash, recursively."""
        if isinstance(value, DataMatrix) or issparse(value):
            data = as_data(value, check=False)
            if data.has_entries:
                self._add_text(f"matrix {data.shape} {data.dtype}")
                self.hash.update(mixed_bits(data).tobytes())
            else:
                self.is_complete = False
        elif isinstance(value, np.ndarray):
            self._add_text(f"array {value.shape} {value.dtype}")
            self.hash.update(np.ascontiguousarray(value).data)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            self._add_text(type(value).__name__)
            for field in dataclasses.fields(value):
                self.add(getattr(value, field.name))
        elif isinstance(value, (list, tuple)):
            self._add_text(f"{len(value)} parts")
            for part in value:
                self.add(part)
        elif value is None or isinstance(value, (bool, int, float, str, np.generic)):
            self._add_text(repr(value))
        else:
            self.is_complete = False

    def _add_text(self, text: str) -> None:
        self.hash.update(f"{text};".encode())


def mixed_bits(A: DataMatrix) -> Any:
    """Return two 64-bit integers that depend on every bit and position of the entries.

    Sums modulo 2^64 are exact in any order, so that blocks, chunks and sparse storage do not
    matter.

    Examples
    --------
    >>> A = np.eye(3, 2)
    >>> one, other = as_data(A), as_data(A, memory_limit=64)
    >>> bool((mixed_bits(one) == mixed_bits(other)).all())
    True
    """
    total = A.reduce_rows(_mix_rows, A.row_indices())
    return np.asarray(total, dtype=np.uint64)


def _mix_rows(block: Any, rows: IntArray) -> Any:
    """Return the share of a block: the scrambled sums of entries times odd numbers per row."""
    values = block.entries()
    keys = np.random.default_rng(_SEED).integers(1 << 63, size=(block.shape[1], 2), dtype=np.uint64)
    keys = 2 * keys + np.uint64(1)
    total = np.zeros(2, dtype=np.uint64)
    height = max(1, _SLICE_ENTRIES // max(1, block.shape[1]))
    for start in range(0, len(rows), height):
        part = slice(start, start + height)
        sums = _sparse_sums(values[part], keys) if issparse(values) else _sums(values[part], keys)
        numbers = rows[part].astype(np.uint64)[:, None] + np.uint64(1)
        total += (_scrambled(sums + numbers * _ROW_MIX)).sum(axis=0, dtype=np.uint64)
    return total


def _bits(values: Any) -> Any:
    """Return the bits of the numbers in float64, treating minus zero as zero."""
    return (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)


def _sums(values: Any, keys: Any) -> Any:
    bits = np.ascontiguousarray(_bits(values))
    return np.stack([(bits * keys[:, place]).sum(axis=1, dtype=np.uint64) for place in (0, 1)], 1)


def _sparse_sums(values: Any, keys: Any) -> Any:
    products = _bits(values.data)[:, None] * keys[values.indices]
    # Row sums by differences of cumulative sums, exact modulo 2^64.
    ends = np.vstack([np.zeros((1, 2), np.uint64), products.cumsum(axis=0, dtype=np.uint64)])
    return ends[values.indptr[1:]] - ends[values.indptr[:-1]]


def _scrambled(numbers: Any) -> Any:
    """Mix the bits so that each depends on all others and rows do not cancel."""
    for shift in (33, 29):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * _ROW_MIX
    return numbers ^ (numbers >> np.uint64(32))
