"""Find the global minimum over S+ of a tiny instance by enumeration.

A point of S+ is a partition of the rows into groups with a weight per row. For the problems whose
f is a sum over the groups the best value of each of the 2^n sets of rows is computed once; the
minimum is that over all partitions. Quadratic assignment tries every permutation. The others are
minimized on each support from several starts, see `orthoplus.bench.support_descent`.
"""

from collections.abc import Callable
from functools import cache
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from orthoplus.bench.support_descent import Polynomial, full_labelings, minimize_on_supports
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.geometry.stiefel import assemble
from orthoplus.problems import KLONMF, ONMF, QAP, KIndicators, KMeans, SymmetricONMF, TraceMin

# Negative entries of an eigenvector above this are attributed to rounding.
_SIGN_TOL = 1e-12
# Number of random points of S+ used to estimate the range of f.
_RANDOM_POINTS = 64


class Optimum(NamedTuple):
    """A global minimizer of f over S+ and its value."""

    value: float
    X: FloatArray


class Sets(NamedTuple):
    """The least contribution to f of each set of rows, and the unit vector that attains it.

    Sets are numbered by their bits: row i belongs to set number s if bit i of s is one.
    """

    values: FloatArray
    vectors: FloatArray


def global_minimum(problem: Problem) -> Optimum:
    """Return the global minimum over S+, for n of at most 7 or so and k of at most 3.

    The value is attained at X. For KIndicators and Polynomial, its optimality rests on many starts
    on each of the k^n supports; for the others it is proven, in O(2^n n^3 + S(n, k) k) with S(n, k)
    the number of partitions, or n! n^2 for assignment.

    Examples
    --------
    >>> round(global_minimum(TraceMin(np.array([[1.0, -2.0], [-2.0, 1.0]]), 1)).value, 12)
    -1.0
    """
    minimize = _ORACLES.get(type(problem))
    if minimize is None:
        raise TypeError(f"There is no oracle for a problem of type {type(problem).__name__}.")
    X = minimize(problem)
    return Optimum(problem.value(X), X)


def _minimize_assignment(problem: QAP) -> FloatArray:
    n = problem.shape[0]
    P = np.array(list(permutations(range(n))))
    values = (problem.A * problem.B[P[:, :, None], P[:, None, :]]).sum(axis=(1, 2))
    if problem.C is not None:
        values = values + problem.C[np.arange(n), P].sum(axis=1)
    return np.eye(n)[P[int(np.argmin(values))]]


def eigen_sets(M: Any) -> Sets:
    """Return the minimum of x'Mx over unit x >= 0 that vanish outside of each set of rows.

    A minimizer is positive on its support. It is a local minimizer of the Rayleigh quotient there,
    hence a global one: the smallest eigenvalue of that block, with a positive eigenvector. So the
    smallest eigenvalues of the blocks with a nonnegative eigenvector suffice.
    """
    n = M.shape[0]
    M = M @ np.eye(n)
    values, vectors = np.full(1 << n, np.inf), np.zeros((1 << n, n))
    for s in range(1, 1 << n):
        rows = [i for i in range(n) if s >> i & 1]
        v = np.linalg.eigh(M[np.ix_(rows, rows)])[1][:, 0]
        v = v if v.sum() > 0 else -v
        if v.min() >= -_SIGN_TOL:
            vectors[s, rows] = np.maximum(v, 0.0) / np.linalg.norm(np.maximum(v, 0.0))
            values[s] = vectors[s] @ M @ vectors[s]
        # Minimum over the set; subsets with one row less have already been processed.
        below = min((s & ~(1 << i) for i in rows), key=values.__getitem__)
        if values[below] < values[s]:
            values[s], vectors[s] = values[below], vectors[below]
    return Sets(values, vectors)


def divergence_sets(A: FloatArray) -> Sets:
    """Return D(A_s || model) of the rows of each set: the model is row sums x column sums / total.

    Rows of a set without an entry get equal weights: their divergence is zero.
    """
    n = len(A)
    values, vectors = np.full(1 << n, np.inf), np.zeros((1 << n, n))
    for s in range(1, 1 << n):
        rows = [i for i in range(n) if s >> i & 1]
        block = A[rows]
        sums = block.sum(axis=1)
        total = sums.sum()
        model = np.outer(sums, block.sum(axis=0)) / (total or 1.0)
        positive = block > 0
        values[s] = (block[positive] * np.log(block[positive] / model[positive])).sum()
        weights = sums if total > 0 else np.ones(len(rows))
        vectors[s, rows] = weights / np.linalg.norm(weights)
    return Sets(values, vectors)


def _by_groups(sets_of: Callable[[Any], Sets]) -> Callable[[Any], FloatArray]:
    """Return an oracle that finds the partition of the rows into k sets with the smallest sum."""

    def minimize(problem: Problem) -> FloatArray:
        values, vectors = sets_of(problem)
        groups = labeled_sets(*problem.shape, up_to_order=True)
        best = groups[int(np.argmin(values[groups].sum(axis=1)))]
        return np.ascontiguousarray(vectors[best].T)

    return minimize


@cache
def labeled_sets(n: int, k: int, *, up_to_order: bool) -> IntArray:
    """Return the numbers of the k sets of rows of each labeling that uses all k labels."""
    labels = full_labelings(n, k, up_to_order=up_to_order)
    bits = (labels[:, :, None] == np.arange(k)) * (1 << np.arange(n))[:, None]
    return np.asarray(bits.sum(axis=1))


_ORACLES: dict[type[Problem], Callable[[Any], FloatArray]] = {
    TraceMin: _by_groups(lambda problem: eigen_sets(problem.M)),
    # Over S+ f is ||M||^2 + k - 2 tr(X'MX).
    SymmetricONMF: _by_groups(lambda problem: eigen_sets(-problem.M)),
    ONMF: _by_groups(lambda p: eigen_sets(-(p.A.to_dense() @ p.A.to_dense().T))),
    KMeans: _by_groups(lambda p: eigen_sets(-(p.A @ p.A.T + float(p.weight or 0.0)))),
    KLONMF: _by_groups(lambda problem: divergence_sets(problem.A.to_dense())),
    QAP: _minimize_assignment,
    KIndicators: lambda problem: minimize_on_supports(problem, np.random.default_rng(0))[1],
    Polynomial: lambda problem: minimize_on_supports(problem, np.random.default_rng(0))[1],
}


def range_of(problem: Problem, optimum: float, rng: np.random.Generator) -> float:
    """Return the mean of f over random points of S+ minus the optimum.

    The scale of a difference of values: unlike the value itself it does not change if a constant
    is added to f, and it is multiplied by c if f is.
    """
    n, k = problem.shape
    values = []
    for _ in range(_RANDOM_POINTS):
        labels = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
        X = assemble(rng.permutation(labels), rng.random(n) + 1e-3, k)
        values.append(problem.value(X))
    return float(np.mean(values)) - optimum
