r"""Exact clustering of a few dozen rows by branch and bound on pairs of rows.

Either two rows share a group, or they do not. A node of the search fixes this for some pairs: rows
known to be together form a part, and pairs of parts may be known to be apart. `Relaxation` bounds
all clusterings of a node; the best clustering found so far rules out nodes with lower bounds.
"""

import heapq
import time
from itertools import count
from typing import NamedTuple

import numpy as np

from orthoplus.certify.cuts import Cuts
from orthoplus.certify.relaxation import Relaxation
from orthoplus.core.types import BoolArray, FloatArray, IntArray

# Iterations between two checks of the bound of a node, and the most checks per node and at the
# root.
_ITERATIONS, _MOST_LOOKS, _MOST_LOOKS_AT_ROOT = 40, 12, 60
# A node is split if this many further checks at the current speed would not close it.
_PATIENCE = 6.0
# A node is closed if its bound exceeds the value by at most this, relative to the norm of M. The
# reported `upper` includes the difference.
_CLOSING_TOL = 1e-9
# Maximum number of steps of the local search from a given clustering.
_MAX_MOVES = 30


class ExactClustering(NamedTuple):
    """Hold a clustering, its value, an upper bound on all values, and the number of nodes searched.

    The clustering is optimal if ``value`` and ``upper`` agree up to rounding.
    """

    labels: IntArray
    value: float
    upper: float
    n_nodes: int


class _Node(NamedTuple):
    """Hold parts of rows, the pairs of parts that are apart, and the multipliers of the parent."""

    parts: IntArray
    apart: BoolArray
    S: FloatArray | None
    cuts: Cuts

    @property
    def n_parts(self) -> int:
        return len(self.apart)


def solve_exactly(
    M: FloatArray,
    k: int,
    *,
    has_row_sums: bool = False,
    start: tuple[IntArray, FloatArray] | None = None,
    ratios: FloatArray | None = None,
    deadline: float = np.inf,
) -> ExactClustering:
    r"""Maximize :math:`\langle M, XX^\top \rangle` over S+ by branch and bound.

    Parameters
    ----------
    M : ndarray of shape (n, n)
        A symmetric matrix. If it has negative entries, the value of a group is a lower bound.
    k : int
        The number of clusters.
    has_row_sums : bool
        Whether the entries of X are one over the square root of the group size, as for k-means.
    start : tuple of (labels, weights), optional
        A clustering to improve.
    ratios : ndarray of shape (n, n), optional
        Bounds on the ratios of weights; see `orthoplus.certify.cuts.ratio_bounds`.
    deadline : float
        Time on the clock of `time.monotonic` at which the search ends. The bound is valid then as
        well.

    Examples
    --------
    >>> A = np.array([0.0, 0.1, 1.0, 1.1, 5.0])[:, None] - 1.44
    >>> found = solve_exactly(A @ A.T, 3, has_row_sums=True)
    >>> found.labels, bool(found.upper - found.value < 1e-6)
    (array([0, 0, 1, 1, 2]), True)
    """
    search = _Search(np.asarray(M, dtype=np.float64), k, has_row_sums, deadline)
    search.ratios = ratios
    return search.run(start)


class _Search:
    def __init__(self, M: FloatArray, k: int, has_row_sums: bool, deadline: float) -> None:
        self.M, self.k, self.has_row_sums, self.deadline = M, k, has_row_sums, deadline
        self.ratios: FloatArray | None = None
        self.tol = _CLOSING_TOL * float(np.linalg.norm(M))
        self.labels: IntArray = np.minimum(np.arange(len(M)), k - 1)
        self.value = -np.inf
        self.closed = -np.inf  # largest bound of a closed node

    def run(self, start: tuple[IntArray, FloatArray] | None) -> ExactClustering:
        n = len(self.M)
        self._offer(self.labels if start is None else np.asarray(start[0]))
        order, n_nodes = count(), 0
        root = _Node(np.arange(n), np.zeros((n, n), dtype=bool), None, Cuts.none())
        heap = [(-np.inf, next(order), root)]
        # Best first: always explore the open node with the largest bound, which limits the final
        # bound.
        while heap and (n_nodes == 0 or time.monotonic() < self.deadline):
            above, _, node = heapq.heappop(heap)
            if -above <= self.value + self.tol:
                self.closed = max(self.closed, -above)
                continue
            n_nodes += 1
            upper, children = self._explore(node, -above)
            for child in children:
                heapq.heappush(heap, (-upper, next(order), child))
        # Nodes still open at the deadline keep the bound of their parent.
        left = max((-bound for bound, _, _ in heap), default=-np.inf)
        return ExactClustering(self.labels, self.value, max(self.value, self.closed, left), n_nodes)

    def _explore(self, node: _Node, above: float) -> tuple[float, list[_Node]]:
        """Bound a node; return the bound and, if the node stays open, its two children."""
        if node.n_parts < self.k or self._is_crowded(node):
            return -np.inf, []
        # A leaf: all pairs are decided, so that the parts are the groups.
        if node.n_parts == self.k or node.apart.sum() == node.n_parts * (node.n_parts - 1):
            self._offer(node.parts)
            self.closed = max(
                self.closed, value_of(self.M, node.parts, self.k, self.has_row_sums).upper
            )
            return -np.inf, []
        relaxation = self._relax(node, is_root=np.isinf(above))
        upper = min(above, relaxation.upper_bound())
        if upper <= self.value + self.tol:
            self.closed = max(self.closed, upper)
            return upper, []
        return upper, _split(node, relaxation, self.has_row_sums)

    def _is_crowded(self, node: _Node) -> bool:
        """Return whether a greedy search finds more than k parts that are pairwise apart."""
        chosen: list[int] = []
        for part in np.argsort(-node.apart.sum(axis=1), kind="stable").tolist():
            if all(node.apart[part, other] for other in chosen):
                chosen.append(part)
        return len(chosen) > self.k

    def _relax(self, node: _Node, *, is_root: bool) -> Relaxation:
        relaxation = self._relaxation_of(node)
        last = np.inf
        for _ in range(_MOST_LOOKS_AT_ROOT if is_root else _MOST_LOOKS):
            relaxation.advance(_ITERATIONS)
            estimate = relaxation.estimate()
            self._offer(
                relaxation.partition()[node.parts] if self.has_row_sums else relaxation.partition()
            )
            excess = estimate - self.value - self.tol
            is_closed = excess <= 0 and relaxation.upper_bound() <= self.value + self.tol
            # At the current speed, this node would need more than _PATIENCE further checks.
            is_slow = excess > _PATIENCE * max(last - estimate, 0.0)
            if is_closed or time.monotonic() >= self.deadline:
                break
            if is_slow and self.ratios is not None and relaxation.ratios is None:
                relaxation.use_ratios(self.ratios)
                estimate = np.inf
            elif is_slow:
                break
            last = estimate
        return relaxation

    def _relaxation_of(self, node: _Node) -> Relaxation:
        if not self.has_row_sums:
            apart = node.apart[np.ix_(node.parts, node.parts)]
            if self.ratios is None or not len(node.cuts.mu):  # cuts are added later if needed
                return Relaxation(self.M, self.k, S=node.S, apart=apart)
            return Relaxation(
                self.M, self.k, S=node.S, apart=apart, cuts=node.cuts, ratios=self.ratios
            )
        # For k-means the rows of a part have equal rows of Z: one row per part, with its size,
        # suffices.
        sizes = np.bincount(node.parts).astype(np.float64)
        C = _merging(node.parts, np.ones(len(node.parts)), sizes)
        return Relaxation(
            C.T @ self.M @ C,
            self.k,
            has_row_sums=True,
            S=node.S,
            apart=node.apart,
            sizes=sizes,
            cuts=node.cuts,
        )

    def _offer(self, labels: IntArray) -> None:
        """Improve labels by moving rows and keep them if they are the best so far."""
        if len(np.unique(labels[labels >= 0])) != self.k:
            return
        for _ in range(_MAX_MOVES):
            value = value_of(self.M, labels, self.k, self.has_row_sums)
            if value.lower > self.value:
                self.labels, self.value = labels.copy(), value.lower
            moved = _move_rows(self.M, labels, value.X, self.has_row_sums)
            if np.array_equal(moved, labels) or len(np.unique(moved)) != self.k:
                return
            if value_of(self.M, moved, self.k, self.has_row_sums).lower <= value.lower:
                return
            labels = moved


class Value(NamedTuple):
    """Enclose the best value of given labels; X attains ``lower``."""

    lower: float
    upper: float
    X: FloatArray


def value_of(M: FloatArray, labels: IntArray, k: int, has_row_sums: bool) -> Value:
    """Bound the best value with these groups; both bounds agree for k-means and for M >= 0.

    Examples
    --------
    >>> value = value_of(np.eye(3), np.array([0, 1, 1]), 2, has_row_sums=False)
    >>> value.lower, value.upper
    (2.0, 2.0)
    """
    X = np.zeros((len(M), k))
    upper = 0.0
    for j in range(k):
        rows = np.flatnonzero(labels == j)
        block = M[np.ix_(rows, rows)]
        if has_row_sums:
            X[rows, j] = len(rows) ** -0.5
            upper += float(block.sum()) / len(rows)
        else:
            values, vectors = np.linalg.eigh(block)
            X[rows, j] = _nonnegative_leader(block, vectors[:, -1])
            upper += float(values[-1])
    lower = float(np.einsum("ij,ij->", X, M @ X))
    return Value(min(lower, upper), max(lower, upper), X)


def _nonnegative_leader(block: FloatArray, vector: FloatArray) -> FloatArray:
    """Return a unit x >= 0 with large x'Bx from the leading eigenvector; optimal if B >= 0."""
    unit = np.zeros(len(block))
    unit[int(np.argmax(block.diagonal()))] = 1.0
    found = [np.abs(vector), np.maximum(vector, 0.0), np.maximum(-vector, 0.0), unit]
    found = [x / np.linalg.norm(x) for x in found if x.any()]
    return max(found, key=lambda x: float(x @ block @ x))


def _move_rows(M: FloatArray, labels: IntArray, X: FloatArray, has_row_sums: bool) -> IntArray:
    """Move every row to the group that it fits best, with the groups fixed."""
    G = M @ X
    squares = np.einsum("ij,ij->j", X, G)
    if has_row_sums:
        # 2 a'c_j - |c_j|^2, that is minus the squared distance to the center up to |a|^2.
        counts = (X > 0).sum(axis=0)
        fit = 2 * G / np.sqrt(counts) - squares / counts
    else:
        # The squared length of the projection of a onto the direction of group j.
        fit = np.maximum(G, 0.0) ** 2 / np.where(squares > 0, squares, np.inf)
    best = np.argmax(fit, axis=1)
    here = fit[np.arange(len(fit)), labels]
    return np.where(fit.max(axis=1) > here, best, labels)


def _merging(parts: IntArray, old_sizes: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the matrix C that merges rows: CZC' is the Z of the rows for a Z of the parts."""
    C = np.zeros((len(parts), len(sizes)))
    C[np.arange(len(parts)), parts] = np.sqrt(old_sizes / sizes[parts])
    return C


def _split(node: _Node, relaxation: Relaxation, has_row_sums: bool) -> list[_Node]:
    """Return two child nodes: one pair of parts kept apart, and the same pair merged."""
    a, b = _choose_pair(node, relaxation, has_row_sums)
    apart = node.apart.copy()
    apart[a, b] = apart[b, a] = True
    S, cuts = relaxation.best_S, relaxation.best_cuts
    assert isinstance(cuts, Cuts)  # no ratios were passed
    return [_Node(node.parts, apart, S, cuts), _merge(node, (a, b), (S, cuts), has_row_sums)]


def _merge(
    node: _Node, pair: tuple[int, int], dual: tuple[FloatArray, Cuts], has_row_sums: bool
) -> _Node:
    """Return the node with two parts merged; the constraints of both parts are united."""
    low, high = min(pair), max(pair)
    renamed = np.arange(node.n_parts) - (np.arange(node.n_parts) > high)
    renamed[high] = low
    parts, n_parts = renamed[node.parts], node.n_parts - 1
    apart = np.zeros((n_parts, n_parts), dtype=bool)
    i, j = np.nonzero(node.apart)
    apart[renamed[i], renamed[j]] = True
    if not has_row_sums:
        return _Node(parts, apart, *dual)
    old, new = (np.bincount(p).astype(np.float64) for p in (node.parts, parts))
    C = _merging(renamed, old, new)
    return _Node(parts, apart, C.T @ dual[0] @ C, dual[1].merged(renamed, old / new[renamed]))


def _choose_pair(node: _Node, relaxation: Relaxation, has_row_sums: bool) -> tuple[int, int]:
    """Return the pair of parts about which the relaxation is least certain, weighted by size."""
    Z = relaxation.similarity()
    if has_row_sums:
        Z = Z * np.outer(relaxation.scale, relaxation.scale)
        d = Z.diagonal()
        together: FloatArray = Z / np.maximum(np.minimum.outer(d, d), np.finfo(np.float64).tiny)
        weight: FloatArray = np.ones_like(Z)
    else:
        d = np.sqrt(np.maximum(Z.diagonal(), 0.0))
        weight = np.outer(d, d)
        together = Z / np.maximum(weight, np.finfo(np.float64).tiny)
        together, weight = _of_parts(together, node), _of_parts(weight, node)
    # Largest where the pair is half together (1/2), smallest where the relaxation decides (0 or 1).
    doubt = (0.5 - np.abs(np.clip(together, 0.0, 1.0) - 0.5) + 1e-6) * weight
    doubt[node.apart] = -1.0
    np.fill_diagonal(doubt, -1.0)
    a, b = np.unravel_index(int(np.argmax(doubt)), doubt.shape)
    return int(a), int(b)


def _of_parts(pairs: FloatArray, node: _Node) -> FloatArray:
    """Return the largest entry over all pairs of rows of each pair of parts."""
    found = np.full((node.n_parts, node.n_parts), -np.inf)
    at = (node.parts[:, None], node.parts[None, :])
    np.maximum.at(found, at, pairs)
    return found
