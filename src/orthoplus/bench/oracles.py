"""The global minimum over S+ of a tiny instance, by enumeration: what a solver should find.

A point of S+ is a partition of the rows into groups with a weight per row. For the problems whose
f is a sum over the groups the best value of each of the 2^n sets of rows is computed once; the
minimum is that over all partitions. Quadratic assignment tries every permutation. The others are
minimized on each support from several starts, see `orthoplus.bench.support_descent`.
"""

from functools import cache, singledispatch
from itertools import permutations
from typing import NamedTuple

import numpy as np

from orthoplus.bench.support_descent import Polynomial, full_labelings, minimize_on_supports
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.geometry.stiefel import assemble
from orthoplus.problems import KLONMF, ONMF, QAP, KIndicators, KMeans, SymmetricONMF, TraceMin

# A negative entry of an eigenvector that is put down to rounding.
_SIGN_TOL = 1e-12
# Random points of S+ that tell how far f ranges.
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


@singledispatch
def global_minimum(problem: Problem) -> Optimum:
    """Return the global minimum over S+, for n of at most 7 or so and k of at most 3.

    Parameters
    ----------
    problem : Problem
        One of TraceMin, ONMF, KMeans, SymmetricONMF, KLONMF, QAP, KIndicators, Polynomial.

    Returns
    -------
    Optimum
        Its value is attained at its X. For KIndicators and Polynomial that no point is lower
        rests on many starts on each support; for the others it is proven.

    Notes
    -----
    O(2^n n^3 + S(n, k) k) for the sums over groups, S(n, k) the number of partitions; n! n^2 for
    assignment; for the rest k^n supports with several starts, up to a tenth of a second.

    Examples
    --------
    >>> round(global_minimum(TraceMin(np.array([[1.0, -2.0], [-2.0, 1.0]]), 1)).value, 12)
    -1.0
    """
    raise TypeError(f"There is no oracle for a problem of type {type(problem).__name__}.")


@global_minimum.register
def _(problem: TraceMin) -> Optimum:
    M = problem.M @ np.eye(problem.shape[0])
    return _best_partition(problem, eigen_sets(M))


@global_minimum.register
def _(problem: SymmetricONMF) -> Optimum:
    # Over S+ f is ||M||^2 + k - 2 tr(X'MX).
    return _best_partition(problem, eigen_sets(-(problem.M @ np.eye(problem.shape[0]))))


@global_minimum.register
def _(problem: ONMF) -> Optimum:
    A = problem.A.to_dense()
    return _best_partition(problem, eigen_sets(-(A @ A.T)))


@global_minimum.register
def _(problem: KMeans) -> Optimum:
    return _best_partition(
        problem, eigen_sets(-(problem.A @ problem.A.T + float(problem.weight or 0.0)))
    )


@global_minimum.register
def _(problem: KLONMF) -> Optimum:
    return _best_partition(problem, divergence_sets(problem.A.to_dense()))


@global_minimum.register
def _(problem: QAP) -> Optimum:
    n = problem.shape[0]
    P = _permutations(n)
    values = (problem.A * problem.B[P[:, :, None], P[:, None, :]]).sum(axis=(1, 2))
    if problem.C is not None:
        values = values + problem.C[np.arange(n), P].sum(axis=1)
    X = np.eye(n)[P[int(np.argmin(values))]]
    return Optimum(problem.value(X), X)


@global_minimum.register(KIndicators)
@global_minimum.register(Polynomial)
def _(problem: KIndicators | Polynomial) -> Optimum:
    X = minimize_on_supports(problem, np.random.default_rng(0))[1]
    return Optimum(problem.value(X), X)


def eigen_sets(M: FloatArray) -> Sets:
    """Return the minimum of x'Mx over unit x >= 0 that vanish outside of each set of rows.

    A minimizer is positive on its support. It is a local minimizer of the Rayleigh quotient there,
    hence a global one: the smallest eigenvalue of that block, with a positive eigenvector. So the
    smallest eigenvalues of the blocks with a nonnegative eigenvector suffice.
    """
    n = len(M)
    values, vectors = np.full(1 << n, np.inf), np.zeros((1 << n, n))
    for s in range(1, 1 << n):
        rows = [i for i in range(n) if s >> i & 1]
        v = np.linalg.eigh(M[np.ix_(rows, rows)])[1][:, 0]
        v = v if v.sum() > 0 else -v
        if v.min() >= -_SIGN_TOL:
            vectors[s, rows] = np.maximum(v, 0.0) / np.linalg.norm(np.maximum(v, 0.0))
            values[s] = vectors[s] @ M @ vectors[s]
        # The best within the set: the sets with one row less have been dealt with.
        below = min((s & ~(1 << i) for i in rows), key=values.__getitem__)
        if values[below] < values[s]:
            values[s], vectors[s] = values[below], vectors[below]
    return Sets(values, vectors)


def divergence_sets(A: FloatArray) -> Sets:
    """Return D(A_s || model) of the rows of each set: the model is row sums x column sums / total.

    A row of zeros may join any group. Weights are the row sums, or equal if all are zero.
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
        vectors[s, rows] = (sums if total > 0 else 1.0) / np.linalg.norm(sums if total > 0 else 1.0)
    return Sets(values, vectors)


def _best_partition(problem: Problem, sets: Sets) -> Optimum:
    """Take the partition of all rows into k sets with the least sum."""
    n, k = problem.shape
    groups = _partitions(n, k)
    best = groups[int(np.argmin(sets.values[groups].sum(axis=1)))]
    X = np.ascontiguousarray(sets.vectors[best].T)
    return Optimum(problem.value(X), X)


@cache
def _partitions(n: int, k: int) -> IntArray:
    """Return the numbers of the k sets of each partition, shape (partitions, k)."""
    labels = full_labelings(n, k, up_to_order=True)
    bits = (labels[:, :, None] == np.arange(k)) * (1 << np.arange(n))[:, None]
    return np.asarray(bits.sum(axis=1))


@cache
def _permutations(n: int) -> IntArray:
    return np.array(list(permutations(range(n))))


def range_of(problem: Problem, optimum: float, rng: np.random.Generator) -> float:
    """Return how far the mean of f over random points of S+ lies above the optimum.

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
