"""The hot loops of `reference`, compiled: one pass over memory each, threads over row blocks.

A loop is compiled once for a block of rows. Large matrices are cut into blocks whose number
depends on the size alone, and the partial sums are added in the order of the blocks: the answer
has the same bits for any number of threads.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from orthoplus.kernels.fused_pairs import (  # noqa: F401  (part of this module's kernels)
    chain_moves_into,
    search_rows_into,
    single_moves_into,
    transfer_shares_into,
)
from orthoplus.kernels.reference import _labels_of_choice
from orthoplus.kernels.reference_pairs import TINY, WINDOW_ROUNDING, Pairs
from orthoplus.protocols import FloatArray, IntArray

# Sums may be reordered for SIMD; NaN and infinity keep their meaning.
_compiled = njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})

# Below this many entries a pass takes less than a millisecond and a second thread costs more than
# it gives (measured: 2000 x 100 is 2.5 times slower with two threads than with one).
PARALLEL_SIZE = 1 << 20
BLOCK_SIZE = 1 << 18
MAX_BLOCKS = 32


def n_threads() -> int:
    """Threads for large passes: ``ORTHOPLUS_NUM_THREADS``, else the processors we may run on."""
    wanted = os.environ.get("ORTHOPLUS_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(threads: int, pid: int) -> ThreadPoolExecutor:
    # Keyed by process: a pool does not survive a fork.
    return ThreadPoolExecutor(threads, thread_name_prefix="orthoplus")


def _row_blocks(n: int, k: int) -> list[slice]:
    """Row ranges of a fixed partition; one range when the matrix is small."""
    size = n * k
    blocks = 1 if size < PARALLEL_SIZE else min(MAX_BLOCKS, n, size // BLOCK_SIZE)
    edges = [n * b // blocks for b in range(blocks + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]


def _for_blocks(work: Callable[[int, slice], Any], blocks: list[slice]) -> None:
    """Run ``work(number, rows)`` for every block, on threads when that pays."""
    threads = min(n_threads(), len(blocks))
    if threads == 1:
        for number, rows in enumerate(blocks):
            work(number, rows)
    else:
        list(_pool(threads, os.getpid()).map(work, range(len(blocks)), blocks))


@_compiled
def _row_energy(X, out):  # type: ignore[no-untyped-def]  # IN X, OUT out[0]
    n, k = X.shape
    energy = 0.0
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += X[i, j]
        energy += total * total
    out[0] = energy / k


def row_energy(X: FloatArray) -> float:
    blocks = _row_blocks(*X.shape)
    partial = np.zeros((len(blocks), 1))
    _for_blocks(lambda b, rows: _row_energy(X[rows], partial[b]), blocks)
    return float(partial.sum())


@_compiled
def _gradient_step(X, G, weight, alpha, T, squares):  # type: ignore[no-untyped-def]
    # IN X, G, weight, alpha; OUT T, squares (added to)
    n, k = X.shape
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += X[i, j]
        pull = alpha * weight * total / k
        for j in range(k):
            t = max(X[i, j] - alpha * G[i, j] - pull, 0.0)
            T[i, j] = t
            squares[j] += t * t


def gradient_step_into(
    X: FloatArray, G: FloatArray, weight: float, alpha: float, out: FloatArray
) -> FloatArray:
    n, k = X.shape
    blocks = _row_blocks(n, k)
    if len(blocks) == 1:
        squares = np.zeros(k)
        _gradient_step(X, G, weight, alpha, out, squares)
        return squares
    partial = np.zeros((len(blocks), k))
    _for_blocks(lambda b, r: _gradient_step(X[r], G[r], weight, alpha, out[r], partial[b]), blocks)
    return np.asarray(partial.sum(axis=0))


@_compiled
def _normalise_step(T, scale, X, out):  # type: ignore[no-untyped-def]
    # IN scale, X; IN/OUT T; OUT out[0:4]
    n, k = X.shape
    step_sq, energy, cross_new, cross_old = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        old, new = 0.0, 0.0
        for j in range(k):
            x = X[i, j]
            t = T[i, j] * scale[j]
            T[i, j] = t
            s = t - x
            step_sq += s * s
            old += x
            new += t
        change = new - old
        energy += new * new
        cross_new += change * new
        cross_old += change * old
    out[0] = step_sq
    out[1] = energy / k
    out[2] = cross_new / k
    out[3] = cross_old / k


def normalise_step_into(
    T: FloatArray, scale: FloatArray, X: FloatArray
) -> tuple[float, float, float, float]:
    blocks = _row_blocks(*X.shape)
    partial = np.zeros((len(blocks), 4))
    if len(blocks) == 1:
        _normalise_step(T, scale, X, partial[0])
    else:
        _for_blocks(lambda b, r: _normalise_step(T[r], scale, X[r], partial[b]), blocks)
    step_sq, energy, cross_new, cross_old = partial.sum(axis=0).tolist()
    return step_sq, energy, cross_new, cross_old


@_compiled
def _secant_product(X_new, X, G_new, G, out):  # type: ignore[no-untyped-def]
    # IN all matrices; OUT out[0]
    n, k = X.shape
    total = 0.0
    for i in range(n):
        for j in range(k):
            total += (np.float64(X_new[i, j]) - X[i, j]) * (np.float64(G_new[i, j]) - G[i, j])
    out[0] = total


def secant_product(X_new: FloatArray, X: FloatArray, G_new: FloatArray, G: FloatArray) -> float:
    blocks = _row_blocks(*X.shape)
    partial = np.zeros((len(blocks), 1))
    _for_blocks(lambda b, r: _secant_product(X_new[r], X[r], G_new[r], G[r], partial[b]), blocks)
    return float(partial.sum())


@_compiled
def _column_dots(A, B, dots):  # type: ignore[no-untyped-def]  # IN A, B; OUT dots (added to)
    n, k = A.shape
    for i in range(n):
        for j in range(k):
            dots[j] += A[i, j] * B[i, j]


def column_dots(A: FloatArray, B: FloatArray) -> FloatArray:
    n, k = A.shape
    blocks = _row_blocks(n, k)
    partial = np.zeros((len(blocks), k))
    _for_blocks(lambda b, r: _column_dots(A[r], B[r], partial[b]), blocks)
    return np.asarray(partial.sum(axis=0))


@_compiled
def _stationarity_sq(X, G, weight, multiplier, out):  # type: ignore[no-untyped-def]
    # IN X, G, weight, multiplier; OUT out[0]
    n, k = X.shape
    residual = 0.0
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += X[i, j]
        pull = weight * total / k
        for j in range(k):
            x = X[i, j]
            r = min(np.float64(x), G[i, j] + pull - x * multiplier[j])
            residual += r * r
    out[0] = residual


def stationarity_sq(X: FloatArray, G: FloatArray, weight: float, multiplier: FloatArray) -> float:
    blocks = _row_blocks(*X.shape)
    partial = np.zeros((len(blocks), 1))
    _for_blocks(lambda b, r: _stationarity_sq(X[r], G[r], weight, multiplier, partial[b]), blocks)
    return float(partial.sum())


@_compiled
def _row_argmax(X, out):  # type: ignore[no-untyped-def]  # IN X; OUT out
    n, k = X.shape
    for i in range(n):
        best = 0
        for j in range(1, k):
            if X[i, j] > X[i, best]:
                best = j
        out[i] = best


def row_argmax(X: FloatArray) -> IntArray:
    out = np.empty(X.shape[0], dtype=np.intp)
    _for_blocks(lambda b, r: _row_argmax(X[r], out[r]), _row_blocks(*X.shape))
    return out


@_compiled
def _delta_sums(C, X, shift, value, slope):  # type: ignore[no-untyped-def]
    # IN C, X, shift; OUT value, slope (added to)
    n, k = X.shape
    for i in range(n):
        for j in range(k):
            x = X[i, j]
            z = C[i, j] + x * shift[j]
            positive = 1.0 if z > 0.0 else 0.0
            value[j] += positive * x * z
            slope[j] += positive * x * x


def delta_sums(C: FloatArray, X: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    n, k = X.shape
    blocks = _row_blocks(n, k)
    partial = np.zeros((2, len(blocks), k))
    _for_blocks(lambda b, r: _delta_sums(C[r], X[r], shift, partial[0, b], partial[1, b]), blocks)
    return partial[0].sum(axis=0), partial[1].sum(axis=0)


@_compiled
def _delta_point(C, X, shift, out):  # type: ignore[no-untyped-def]  # IN C, X, shift; OUT out
    n, k = X.shape
    for i in range(n):
        for j in range(k):
            out[i, j] = max(C[i, j] + X[i, j] * shift[j], 0.0)


def delta_point_into(C: FloatArray, X: FloatArray, shift: FloatArray, out: FloatArray) -> None:
    _for_blocks(lambda b, r: _delta_point(C[r], X[r], shift, out[r]), _row_blocks(*X.shape))


# The three passes below take C in any memory order: a block of rows that is not contiguous is
# copied. They compare products, so no fast mathematics: ties must stay ties.
_exact = njit(cache=True, nogil=True)


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
    n, k = C.shape
    blocks = _row_blocks(n, k)
    partial = np.full((len(blocks), k), -np.inf)
    _for_blocks(lambda b, r: _column_maxima(_block(C, r), partial[b]), blocks)
    return np.asarray(partial.max(axis=0))


@_exact
def _assign_rows(C, root, labels, sums):  # type: ignore[no-untyped-def]
    # IN C, root; OUT labels, sums (added to)
    n, k = C.shape
    for i in range(n):
        top, best = 0.0, -1
        for j in range(k):
            priced = root[j] * C[i, j]
            if priced > top:
                top, best = priced, j
        labels[i] = best
        if best >= 0:
            sums[best] += np.float64(C[i, best]) ** 2


def assign_rows(C: FloatArray, root: FloatArray) -> tuple[IntArray, FloatArray]:
    n, k = C.shape
    blocks = _row_blocks(n, k)
    labels, partial = np.empty(n, dtype=np.int64), np.zeros((len(blocks), k))
    _for_blocks(lambda b, r: _assign_rows(_block(C, r), root, labels[r], partial[b]), blocks)
    return labels, partial.sum(axis=0)


@_exact
def _near_columns(C, i, root, window, near):  # type: ignore[no-untyped-def]
    # IN all but near; OUT near; returns the column of the maximum and the number of near columns
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


@_exact
def _merge_row(near, count, best, thin, keep, out):  # type: ignore[no-untyped-def]
    # IN near[:count], best, thin = (offset, step), keep = (column, share, from, to), all ascending;
    # OUT out = (column, share, from): the thinned union; returns where it ends
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
def _gather_pairs(C, first_row, root, window, keep, sums):  # type: ignore[no-untyped-def]
    # IN C, root, window = (ratio, slack, width), keep = (start, column, share); OUT sums (added to)
    n, k = C.shape
    width = window[2]
    keep_start, keep_column, keep_share = keep
    start, near = np.zeros(n + 1, dtype=np.int64), np.empty(k, dtype=np.int32)
    column = np.empty(2 * n + k, dtype=np.int32)
    gain, share = np.empty(2 * n + k), np.empty(2 * n + k)
    m = 0
    for i in range(n):
        best, count = _near_columns(C, i, root, window, near)
        if best >= 0:
            sums[best] += np.float64(C[i, best]) ** 2
            if m + k > column.size:
                column = np.append(column, np.empty(column.size + k, dtype=np.int32))
                more = np.empty(column.size - share.size)
                gain, share = np.append(gain, more), np.append(share, more)
            low, high = keep_start[i], keep_start[i + 1]
            if count == 1 and (low == high or (low + 1 == high and keep_column[low] == best)):
                column[m], share[m] = best, 1.0 if low == high else keep_share[low]
                m += 1
            else:
                thin = (first_row + i, (count + width - 1) // width)
                kept = (keep_column, keep_share, low, high)
                m = _merge_row(near, count, best, thin, kept, (column, share, m))
            for pair in range(start[i], m):
                gain[pair] = np.float64(C[i, column[pair]]) ** 2
        start[i + 1] = m
    return start, column[:m].copy(), gain[:m].copy(), share[:m].copy()


def gather_pairs(
    C: FloatArray, root: FloatArray, window: tuple[float, float, int], keep: Pairs
) -> tuple[Pairs, FloatArray]:
    n, k = C.shape
    blocks = _row_blocks(n, k)
    partial = np.zeros((len(blocks), k))
    parts: list[Any] = [None] * len(blocks)

    def work(b: int, rows: slice) -> None:
        kept = (keep.start[rows.start : rows.stop + 1], keep.column, keep.share)
        parts[b] = _gather_pairs(_block(C, rows), rows.start, root, window, kept, partial[b])

    _for_blocks(work, blocks)
    sizes = np.cumsum([0] + [len(part[1]) for part in parts])
    ends = [part[0][1:] + size for part, size in zip(parts, sizes[:-1], strict=True)]
    column, gain, share = (np.concatenate([part[a] for part in parts]) for a in (1, 2, 3))
    return Pairs(np.concatenate([sizes[:1], *ends]), column, gain, share), partial.sum(axis=0)


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
        for i in range(n):  # sets whose last row is i, from the sets of the rows before
            for rest in range(1 << i):
                squares[1 << i | rest] = squares[rest] + max(np.float64(C[i, j]), 0.0) ** 2
                most[1 << i | rest] = max(most[rest], np.float64(C[i, j]))
        for rows in range(1, sets):
            gain[rows] = np.sqrt(squares[rows]) if most[rows] > 0.0 else most[rows]
        for rows in range(sets - 1, -1, -1):  # downwards: smaller sets still hold column j - 1
            total, part = -np.inf, rows
            while part > 0:
                if best[rows ^ part] + gain[part] >= total:
                    total, choice[j, rows] = best[rows ^ part] + gain[part], part
                part = (part - 1) & rows
            best[rows] = total


def best_partition(C: FloatArray) -> IntArray:
    n, k = C.shape
    choice = np.zeros((k, 1 << n), dtype=np.int64)
    _best_partition(np.ascontiguousarray(C), choice)
    return _labels_of_choice(choice, n)
