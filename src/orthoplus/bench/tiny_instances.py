"""Tiny random instances of every problem over S+, small enough for the oracles."""

from collections.abc import Callable, Iterator

import numpy as np

from orthoplus.bench.support_descent import Polynomial
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.problems import (
    KLONMF,
    ONMF,
    QAP,
    KIndicators,
    KMeans,
    SymmetricONMF,
    TraceMin,
    laplacian_embedding,
)

Maker = Callable[[np.random.Generator], Problem]
# Shapes (n, k), drawn at random; fewer rows where an oracle has to descend on k^n supports.
_SHAPES = [(n, k) for n in (4, 5, 6, 7) for k in (2, 3)] + [(6, 1)]
_SMALL_SHAPES = [(4, 2), (5, 2), (6, 2), (7, 2), (4, 3), (5, 3), (6, 3)]


def _shape(rng: np.random.Generator, shapes: list[tuple[int, int]]) -> tuple[int, int]:
    return shapes[rng.integers(len(shapes))]


def _symmetric(n: int, rng: np.random.Generator) -> FloatArray:
    M = rng.standard_normal((n, n))
    return M + M.T


def _indefinite(rng: np.random.Generator) -> Problem:
    n, k = _shape(rng, _SHAPES)
    return TraceMin(_symmetric(n, rng), k)


def _concave(rng: np.random.Generator) -> Problem:
    """-AA': data of any sign in one half of the instances, nonnegative in the other."""
    n, k = _shape(rng, _SHAPES)
    A = rng.standard_normal((n, int(rng.integers(2, 6))))
    if rng.random() < 0.5:
        A = np.abs(A)
    return TraceMin(-(A @ A.T), k)


def _laplacian(rng: np.random.Generator) -> Problem:
    """A graph with weighted edges, half of them missing, but not all."""
    n, k = _shape(rng, _SHAPES)
    W = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.5), 1)
    W[0, 1] = rng.random()
    return laplacian_embedding(W + W.T, k, normalized=bool(rng.random() < 0.5))


def _k_means(rng: np.random.Generator) -> Problem:
    """The default weight, or one smaller or larger by a factor of up to ten."""
    n, k = _shape(rng, _SHAPES)
    problem = KMeans(rng.standard_normal((n, int(rng.integers(1, 4)))), k)
    factor = 1.0 if rng.random() < 0.5 else 10.0 ** rng.uniform(-1.0, 1.0)
    return KMeans(problem.A, k, weight=factor * float(problem.weight or 1.0))


def _symmetric_onmf(rng: np.random.Generator) -> Problem:
    """Similarities AA' or a matrix of any sign."""
    n, k = _shape(rng, _SHAPES)
    if rng.random() < 0.5:
        return SymmetricONMF(_symmetric(n, rng), k)
    A = rng.random((n, 3))
    return SymmetricONMF(A @ A.T, k)


def _orthonormal_indicators(rng: np.random.Generator) -> Problem:
    return KIndicators(np.linalg.qr(rng.standard_normal(_shape(rng, _SMALL_SHAPES)))[0])


def _any_indicators(rng: np.random.Generator) -> Problem:
    return KIndicators(rng.standard_normal(_shape(rng, _SMALL_SHAPES)))


def _assignment(rng: np.random.Generator) -> Problem:
    """Symmetric or not, with a linear term in one half of the instances."""
    n = int(rng.integers(4, 8))
    A, B = rng.random((2, n, n))
    if rng.random() < 0.5:
        A, B = A + A.T, B + B.T
    C = rng.random((n, n)) * n if rng.random() < 0.5 else None
    return QAP(A, B, C)


def _divergence(rng: np.random.Generator) -> Problem:
    """Counts in one half of the instances, positive numbers in the other."""
    n, k = _shape(rng, _SHAPES)
    r = int(rng.integers(2, 6))
    if rng.random() < 0.5:
        return KLONMF(rng.random((n, r)), k)
    return KLONMF(1.0 + rng.poisson(4.0 * rng.random((n, r))), k)


def _quadratic(rng: np.random.Generator) -> Problem:
    n, k = _shape(rng, _SMALL_SHAPES)
    H = _symmetric(n * k, rng).reshape(n, k, n, k)
    B = rng.standard_normal((n, k))
    return Polynomial(B, H, np.zeros((n, k)))


def _quartic(rng: np.random.Generator) -> Problem:
    n, k = _shape(rng, _SMALL_SHAPES)
    H = 0.5 * _symmetric(n * k, rng).reshape(n, k, n, k)
    B, T = rng.standard_normal((2, n, k))
    return Polynomial(B, H, T, quartic=1.0)


def _onmf(rng: np.random.Generator) -> Problem:
    n, k = _shape(rng, _SHAPES)
    return ONMF(rng.random((n, int(rng.integers(2, 6)))), k)


# Name of a family -> its maker.
FAMILIES: dict[str, Maker] = {
    "TraceMin, indefinite": _indefinite,
    "TraceMin, -AA'": _concave,
    "Laplacian embedding": _laplacian,
    "KMeans": _k_means,
    "SymmetricONMF": _symmetric_onmf,
    "KIndicators, orthonormal U": _orthonormal_indicators,
    "KIndicators, any U": _any_indicators,
    "QAP": _assignment,
    "KLONMF": _divergence,
    "quadratic, any H": _quadratic,
    "quartic": _quartic,
    "ONMF": _onmf,
}


def instances(family: str, count: int, seed: int = 0) -> Iterator[Problem]:
    """Yield the first instances of a family; each depends on its number and the seed only.

    Examples
    --------
    >>> [problem.shape for problem in instances("ONMF", 2)] == [
    ...     problem.shape for problem in instances("ONMF", 5)
    ... ][:2]
    True
    """
    number = list(FAMILIES).index(family)
    for index in range(count):
        yield FAMILIES[family](np.random.default_rng([seed, number, index]))
