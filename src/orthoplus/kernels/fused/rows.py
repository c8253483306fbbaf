"""Compiled passes over rows of `reference.rows`, with threads over row blocks."""

from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.kernels.blocks import for_blocks, partition_rows
from orthoplus.kernels.fused.cache import njit
from orthoplus.kernels.pairs import TINY, WINDOW_ROUNDING, Pairs
from orthoplus.kernels.reference.rows import labels_of_choice

# The passes below accept C in any memory order; a block of rows is copied if it is not contiguous.
# They compare products, so fast math is off: ties must stay ties.
_exact = njit(nogil=True)
_inner = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # called by loops only


def _block(C: FloatArray, rows: slice) -> FloatArray:
    return np.ascontiguousarray(np.asarray(C)[rows])


@_exact
def _column_maxima(C, out):  # type: ignore[no-untyped-def]  # IN C; IN/OUT out
    n, k = C.shape
    for i in range(n):
        for j in range(k):
            if C[i, j] > out[j]:
                out[j] = C[i, j]


def column_maxima(C: FloatArray) -> FloatArray:
    """Find the maxima of blocks of rows, then those of the blocks."""
    n, k = C.shape
    blocks = partition_rows(n, k)
    partial = np.full((len(blocks), k), -np.inf)
    for_blocks(lambda b, r: _column_maxima(_block(C, r), partial[b]), blocks)
    return np.asarray(partial.max(axis=0))


@_inner
def _add_into(sums, lost, j, entry):  # type: ignore[no-untyped-def]  # IN/OUT sums, lost
    # Kahan summation: the error does not grow with the number of rows, so bounds stay tight.
    term = np.float64(entry) ** 2 - lost[j]
    total = sums[j] + term
    lost[j] = (total - sums[j]) - term
    sums[j] = total


@_exact
def _assign_rows(C, root, labels, sums):  # type: ignore[no-untyped-def]
    # IN C, root; OUT labels, sums (added to)
    n, k = C.shape
    lost = np.zeros(k)
    for i in range(n):
        top, best = 0.0, -1
        for j in range(k):
            priced = root[j] * C[i, j]
            if priced > top:
                top, best = priced, j
        labels[i] = best
        if best >= 0:
            _add_into(sums, lost, best, C[i, best])


def assign_rows(C: FloatArray, root: FloatArray) -> tuple[IntArray, FloatArray]:
    """Assign the rows of each block and sum its columns, then add the blocks."""
    n, k = C.shape
    blocks = partition_rows(n, k)
    labels, partial = np.empty(n, dtype=np.int64), np.zeros((len(blocks), k))
    for_blocks(lambda b, r: _assign_rows(_block(C, r), root, labels[r], partial[b]), blocks)
    return labels, partial.sum(axis=0)


@_inner
def _near_columns(C, i, root, window, near):  # type: ignore[no-untyped-def]
    # IN all but near; OUT near: the columns with root_j C_ij >= bound; returns the column of the
    # maximum and the number of near columns
    k = root.size
    ratio, slack, _ = window
    top, best = 0.0, -1
    for j in range(k):
        priced = root[j] * C[i, j]
        if priced > top:
            top, best = priced, j
    if best < 0:
        return best, 0
    bound = max(np.sqrt(max((ratio * top) ** 2 - slack, 0.0)) * WINDOW_ROUNDING, TINY)
    count = 0
    for j in range(k):
        count += root[j] * C[i, j] >= bound
    found, j = 0, best if count == 1 else 0
    while found < count:
        if root[j] * C[i, j] >= bound:
            near[found] = j
            found += 1
        j += 1
    return best, count


@_inner
def _merge_row(near, count, best, thin, keep, out):  # type: ignore[no-untyped-def]
    # IN near[:count], best, thin = (offset, step), keep = (column, share, from, to), all ascending;
    # OUT out = (column, share, from): the thinned union; returns its end. This merges two sorted
    # lists; kept pairs and the maximum are never thinned out.
    keep_column, keep_share, at, end = keep
    column, share, m = out
    offset, step = thin
    is_new, rank = at == end, 0
    while rank < count or at < end:
        is_kept = at < end and (rank == count or keep_column[at] <= near[rank])
        j = keep_column[at] if is_kept else near[rank]
        is_near = rank < count and near[rank] == j
        if is_kept or j == best or (rank + offset) % step == 0:
            column[m] = j
            share[m] = keep_share[at] if is_kept else np.float64(is_new and j == best)
            m += 1
        at += is_kept
        rank += is_near
    return m


@_exact
def _gather_pairs(C, rows, root, window, keep, start, column, gain, share, near, sums, lost):  # type: ignore[no-untyped-def]
    # IN C, rows = (global number of the first row, row to continue with), root, window = (ratio,
    # slack, width), keep = (start, column, share); OUT the rest (sums, lost are added to)
    # Returns the first row that the arrays have no space for, or n.
    n, k = C.shape
    width = window[2]
    keep_start, keep_column, keep_share = keep
    for i in range(rows[1], n):
        m = start[i]
        if m + k > column.size:
            return i
        best, count = _near_columns(C, i, root, window, near)
        if best >= 0:
            _add_into(sums, lost, best, C[i, best])
            low, high = keep_start[i], keep_start[i + 1]
            # Most rows have a single candidate; skip the merge for them.
            if count == 1 and (low == high or (low + 1 == high and keep_column[low] == best)):
                column[m], share[m] = best, 1.0 if low == high else keep_share[low]
                m += 1
            else:
                thin = (rows[0] + i, (count + width - 1) // width)
                kept = (keep_column, keep_share, low, high)
                m = _merge_row(near, count, best, thin, kept, (column, share, m))
            for pair in range(start[i], m):
                gain[pair] = np.float64(C[i, column[pair]]) ** 2
        start[i + 1] = m
    return n


def _gather_block(  # type: ignore[no-untyped-def]
    C: FloatArray, first_row: int, root: FloatArray, window, keep, sums: FloatArray
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Return the pairs of a block of rows; the arrays grow as needed, and are cut at the end."""
    n, k = C.shape
    start, row = np.zeros(n + 1, dtype=np.int64), 0
    column, gain, share = np.empty(0, dtype=np.int32), np.empty(0), np.empty(0)
    near, lost = np.empty(k, dtype=np.int32), np.zeros(k)
    while True:
        used, size = start[row], 2 * (column.size + n) + k
        column, gain, share = (
            np.concatenate([part[:used], np.empty(size - used, dtype=part.dtype)])
            for part in (column, gain, share)
        )
        out = (start, column, gain, share, near, sums, lost)
        row = _gather_pairs(C, (first_row, row), root, window, keep, *out)
        if row == n:
            used = start[n]
            return start, column[:used].copy(), gain[:used].copy(), share[:used].copy()


def gather_pairs(
    C: FloatArray, root: FloatArray, window: tuple[float, float, int], keep: Pairs
) -> tuple[Pairs, FloatArray]:
    """Collect the pairs of each block in its own arrays, then concatenate them."""
    n, k = C.shape
    blocks = partition_rows(n, k)
    partial = np.zeros((len(blocks), k))
    parts: list[Any] = [None] * len(blocks)
    start = np.zeros(n + 1, dtype=np.int64)

    def work(b: int, rows: slice) -> None:
        kept = (keep.start[rows.start : rows.stop + 1], keep.column, keep.share)
        ends, *parts[b] = _gather_block(_block(C, rows), rows.start, root, window, kept, partial[b])
        start[rows.start + 1 : rows.stop + 1] = ends[1:]

    for_blocks(work, blocks)
    before = 0
    for rows, part in zip(blocks, parts, strict=True):
        start[rows.start + 1 : rows.stop + 1] += before
        before += len(part[0])
    # The arrays of the blocks are released as soon as they are joined.
    column, gain, share = (np.concatenate([part.pop(0) for part in parts]) for _ in range(3))
    return Pairs(start, column, gain, share), partial.sum(axis=0)


@_exact
def _best_partition(C, choice):  # type: ignore[no-untyped-def]  # IN C; OUT choice
    n, k = C.shape
    sets = 1 << n
    best, gain, most, squares = (
        np.full(sets, -np.inf),
        np.empty(sets),
        np.empty(sets),
        np.zeros(sets),
    )
    best[0], most[0] = 0.0, -np.inf
    for j in range(k):
        for i in range(n):  # sets with last row i extend sets of the rows before i
            for rest in range(1 << i):
                squares[1 << i | rest] = squares[rest] + max(np.float64(C[i, j]), 0.0) ** 2
                most[1 << i | rest] = max(most[rest], np.float64(C[i, j]))
        for rows in range(1, sets):
            gain[rows] = np.sqrt(squares[rows]) if most[rows] > 0.0 else most[rows]
        for rows in range(sets - 1, -1, -1):  # in descending order: smaller sets still hold F_{j-1}
            total, part = -np.inf, rows
            while part > 0:  # all nonempty subsets of the bit mask, in descending order
                if best[rows ^ part] + gain[part] >= total:
                    total, choice[j, rows] = best[rows ^ part] + gain[part], part
                part = (part - 1) & rows
            best[rows] = total


def best_partition(C: FloatArray) -> IntArray:
    """Fill the table over all subsets of rows in one compiled loop."""
    n, k = C.shape
    choice = np.zeros((k, 1 << n), dtype=np.int64)
    _best_partition(np.ascontiguousarray(C), choice)
    return labels_of_choice(choice, n)


@_exact
def _sparse_product(X, U, out):  # type: ignore[no-untyped-def]  # IN X, U; IN/OUT out (added to)
    n, k = X.shape
    for i in range(n):
        for j in range(k):
            entry = np.float64(X[i, j])
            if entry != 0.0:
                for c in range(U.shape[1]):
                    out[j, c] += entry * U[i, c]


def sparse_product(X: FloatArray, U: FloatArray) -> FloatArray:
    """Add only the rows of U at which a column of X is nonzero."""
    # A single thread: each further one would need its own array of the size of the result.
    out = np.zeros((X.shape[1], U.shape[1]))
    _sparse_product(np.ascontiguousarray(X), np.ascontiguousarray(U), out)
    return out
