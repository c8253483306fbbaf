r"""The projection onto S+ of a matrix in row blocks, by merging rows that are decided.

A pass at weights w bounds the value by D(w), see `dual`, and determines for each row the difference
between the two largest :math:`w_j P_{ij}`. Rows with a large difference are assigned to their best
column; the assigned rows of a column act like one row with the root of the sum of their P. These k
rows and the rows that are nearly tied form a projection problem that fits into memory.

If D(w) exceeds the best value v by g, an assignment better than v has no row more than g below its
best column. If all rows within g were left open, the small problem therefore decides.
"""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from orthoplus.core.errors import InputError
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.base import DataMatrix, Vector
from orthoplus.data.groups import give_rows
from orthoplus.data.memory import MemoryMatrix
from orthoplus.kernels.pairs import column_sums
from orthoplus.projection.certify import (
    SAFE_RANGE,
    USUAL_PASSES,
    gap_of_maximum,
    make_budget,
    project_stiefel_plus,
)
from orthoplus.projection.dual import next_root, scaled_dual
from orthoplus.projection.passes import Budget

# Number of rows loaded into memory for the first weights, and of nearly tied rows.
SAMPLE_ROWS, OPEN_ROWS = 1 << 13, 1 << 15
# A small `memory_limit` reduces these, down to this many per column.
FEWEST_PER_COLUMN = 4
# If more rows are tied than wanted, at most this many times the wanted number is loaded.
MOST_OPEN = 4.0
# The search ends after this many consecutive passes without progress in value or bound.
MAX_STALLS = 3
# Relative changes below this are attributed to rounding.
ROUNDING = 1e-14
# Sums over blocks have larger rounding errors than sums in memory: 2^9 blocks of 2^18 rows each
# have an error of 2^11 unit roundoffs.
BLOCK_ROUNDING = 2.0**-42


class UndecidedColumnError(InputError):
    """Report columns with too few positive entries, whose rows cannot be found block by block."""


@dataclass(frozen=True)
class MergedProjection:
    """A `CertifiedProjection` with labels and weights as vectors of the data matrix."""

    labels: Vector
    weights: Vector
    value: float
    bound: float
    status: Status
    passes: float
    gap: float


@dataclass(frozen=True)
class _Pass:
    """Result of a pass at weights w: sums over all rows and over decided rows, and open rows."""

    sums: FloatArray  # S_j with every row at its best column
    fixed: FloatArray  # S_j of the decided rows
    rows: IntArray  # the open rows, ascending
    entries: FloatArray  # entries of the open rows
    reach: float  # all rows with a difference up to this are open

    def joined(self, other: "_Pass") -> "_Pass":
        return _Pass(
            self.sums + other.sums,
            self.fixed + other.fixed,
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.entries, other.entries]),
            min(self.reach, other.reach),
        )


@dataclass(frozen=True)
class _Choice:
    """An assignment of each row to its largest sqrt(w_j) C_ij, except for some rows."""

    value: float
    root: FloatArray
    rows: IntArray
    labels: IntArray


def project_data(C: DataMatrix, *, small_rows: int, **limits: Any) -> MergedProjection:
    """Project data in any storage; data with at most ``small_rows`` rows are loaded into memory."""
    if not (C.has_cheap_products or len(C) <= small_rows):
        return project_row_blocks(C, **limits)
    found = project_stiefel_plus(C.to_dense(), **limits)
    return MergedProjection(
        C.scatter(found.labels),
        C.scatter(found.weights.astype(C.dtype, copy=False)),
        found.value,
        found.bound,
        found.status,
        found.passes,
        found.gap,
    )


def project_row_blocks(
    C: DataMatrix, *, tol: float, max_passes: int | None = None, time_limit: float | None = None
) -> MergedProjection:
    """Maximize <C, X> over S+ with an upper bound, for C in row blocks with n > k.

    Only sums of k numbers, a sample of the rows and the nearly tied rows leave their blocks.
    ``max_passes`` and ``time_limit`` limit the passes over the blocks and the branch and bound in
    the small problem of each pass.
    """
    n, k = C.shape
    budget = make_budget(tol, max_passes, time_limit)
    root, share = _first_root(C), min(1.0, _fitting(C, OPEN_ROWS) / n)
    nothing = np.zeros(0, dtype=np.int64)
    best, bound, passes, stalls = _Choice(-np.inf, root, nothing, nothing), np.inf, 0, 0
    while not budget.is_spent(passes) and stalls < MAX_STALLS:
        found = C.reduce_rows(_look, C.row_indices(), args=(root, share), combine=_Pass.joined)
        passes += 1
        own, weights = scaled_dual(root, found.sums, np.ones(k, dtype=bool))
        choice, sums, small = _decide(found, root, budget)
        gain = choice.value - best.value
        best = choice if gain > 0 else best
        scale = float(weights[0] / root[0] ** 2)
        if scale * found.reach >= own - best.value:
            own = max(small, best.value)
        own *= 1.0 + BLOCK_ROUNDING
        is_better = max(gain, bound - own) > ROUNDING * abs(best.value)
        bound, stalls = min(bound, own), 0 if is_better else stalls + 1
        if bound - best.value <= tol * abs(bound):
            break
        root = next_root(sums, root)
    if best.value == -np.inf:
        raise UndecidedColumnError(
            "No assignment of rows was found that gives each column of `C` a positive entry: too "
            "few rows have one, and the others cannot be chosen block by block. Remove such "
            "columns, or load `C` into memory."
        )
    labels, weights = _spread(C, best)
    bound = max(bound, best.value)
    closed = bound - best.value <= tol * abs(bound)
    status = Status.CERTIFIED if closed else Status.GAP_LEFT
    gap = gap_of_maximum(best.value, bound, best.value)
    return MergedProjection(labels, weights, best.value, bound, status, passes, gap)


def _fitting(C: DataMatrix, n_rows: int) -> int:
    """Return the number of rows to load, reduced if the memory limit requires it."""
    if C.most_rows is None:
        return n_rows
    return min(n_rows, max(C.most_rows, FEWEST_PER_COLUMN * C.shape[1]))


def _first_root(C: DataMatrix) -> FloatArray:
    """Return sqrt(w) from the projection of a sample of rows; raise if there are no weights."""
    n, k = C.shape
    maxima = C.reduce_rows(_maxima, combine=np.maximum)
    if (maxima <= 0.0).any():
        column = int(np.flatnonzero(maxima <= 0.0)[0])
        raise UndecidedColumnError(
            f"Column {column} of `C` has no positive entry: its row cannot be chosen block by "
            f"block. Remove the column, or load `C` into memory."
        )
    if not SAFE_RANGE[0] < maxima.max() < SAFE_RANGE[1]:
        raise InputError(
            f"The largest entry of `C` is {maxima.max():.3g}: its square is out of range. Divide "
            f"`C` by it, which does not change the nearest point."
        )
    size = _fitting(C, max(SAMPLE_ROWS, 16 * k))
    rows = np.unique(np.linspace(0, n - 1, min(n, size)).astype(np.int64))
    sample = np.maximum(C.sample_rows(rows).to_dense().astype(np.float64), 0.0)
    sums = (sample * sample).sum(axis=0)
    start = 1.0 / np.where(sums > 0.0, np.sqrt(np.maximum(sums, 1e-300)), maxima)
    if (sums <= 0.0).any():
        return np.asarray(start)
    nearest = project_stiefel_plus(sample, tol=1e-6, max_passes=20)
    entries = sample[np.arange(len(sample)), nearest.labels] * (nearest.labels >= 0)
    sums = np.bincount(np.maximum(nearest.labels, 0), entries**2, minlength=k)
    return next_root(sums * (n / len(rows)), start)


def _maxima(C: MemoryMatrix) -> FloatArray:
    return np.asarray(C.to_dense().max(axis=0), dtype=np.float64)


def _look(C: MemoryMatrix, numbers: IntArray, root: FloatArray, share: float) -> _Pass:
    """Leave open the rows with the smallest difference between their two best columns."""
    positive = np.maximum(np.asarray(C.to_dense(), dtype=np.float64), 0.0)
    priced = (root * positive) ** 2
    rows = np.arange(len(priced))
    best = priced.argmax(axis=1)
    top = priced[rows, best]
    priced[rows, best] = -1.0
    slack = top - np.maximum(priced.max(axis=1), 0.0) if C.shape[1] > 1 else top + 1.0
    slack[top <= 0.0] = np.inf  # a row without a positive entry belongs to no column
    gains = positive[rows, best] ** 2
    wanted = int(np.ceil(share * len(rows)))
    is_open, reach = _nearest(slack, wanted)
    k = C.shape[1]
    sums = column_sums(best, gains, k)
    fixed = column_sums(best[~is_open], gains[~is_open], k)
    return _Pass(sums, fixed, numbers[is_open], positive[is_open], reach)


def _nearest(slack: FloatArray, wanted: int) -> tuple[Any, float]:
    """Return a mask of the open rows, and the slack up to which all rows are open."""
    if wanted >= len(slack):
        return np.isfinite(slack), np.inf
    edge = float(np.partition(slack, wanted)[wanted])
    is_open = slack <= edge if np.isfinite(edge) else np.isfinite(slack)
    if np.count_nonzero(is_open) <= MOST_OPEN * wanted:
        return is_open, edge
    is_open = slack < edge  # too many rows are tied at the edge
    return is_open, float(slack[is_open].max(initial=-1.0))


def _decide(found: _Pass, root: FloatArray, budget: Budget) -> tuple[_Choice, FloatArray, float]:
    """Solve the small projection for an assignment, its sums, and a bound with merged rows."""
    k = len(root)
    small = np.vstack([np.diag(np.sqrt(found.fixed)), found.entries])
    passes = None if np.isinf(budget.max_passes) else max(int(budget.max_passes), USUAL_PASSES)
    seconds = None if np.isinf(budget.deadline) else budget.deadline - perf_counter()
    nearest = project_stiefel_plus(small, tol=budget.tol, max_passes=passes, time_limit=seconds)
    is_kept = (nearest.labels[:k] == np.arange(k)) | (found.fixed == 0.0)
    labels = nearest.labels[k:]
    used = labels >= 0
    gains = found.entries[used, labels[used]] ** 2
    sums = found.fixed + np.bincount(labels[used], gains, minlength=k)
    value = float(np.sqrt(sums).sum()) if is_kept.all() and (sums > 0.0).all() else -np.inf
    return _Choice(value, root, found.rows, labels), sums, nearest.bound


def _spread(C: DataMatrix, choice: _Choice) -> tuple[Any, Any]:
    """Return the labels and weights of all rows."""
    k = C.shape[1]
    labels = C.map_rows(_best_labels, args=(choice.root,))
    labels = give_rows(C, labels, choice.rows, choice.labels)
    sums = C.reduce_rows(_label_sums, labels, args=(k,))
    return labels, C.map_rows(_label_weights, labels, args=(np.sqrt(sums),))


def _best_labels(C: MemoryMatrix, root: FloatArray) -> IntArray:
    entries = C.to_dense()
    labels = (root * entries).argmax(axis=1)
    return np.where(entries[np.arange(len(entries)), labels] > 0.0, labels, -1)


def _entries(C: MemoryMatrix, labels: IntArray) -> FloatArray:
    own = np.asarray(C.to_dense()[np.arange(len(C)), labels], dtype=np.float64)
    return np.where(labels >= 0, np.maximum(own, 0.0), 0.0)


def _label_sums(C: MemoryMatrix, labels: IntArray, k: int) -> FloatArray:
    squares = _entries(C, labels) ** 2
    return np.bincount(np.maximum(labels, 0), squares, minlength=k).astype(np.float64)


def _label_weights(C: MemoryMatrix, labels: IntArray, sizes: FloatArray) -> FloatArray:
    return np.where(labels >= 0, _entries(C, labels) / sizes[labels], 0.0).astype(C.dtype)
