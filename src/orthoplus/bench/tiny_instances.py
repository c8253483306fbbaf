"""Draw tiny instances of every problem over S+, small enough for the oracles."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from orthoplus import problems
from orthoplus.bench.support_descent import Polynomial
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray

Shapes = list[tuple[int, int]]
# Shapes (n, k) to draw from; fewer rows if an oracle must descend on k^n supports.
_USUAL: Shapes = [(n, k) for n in (4, 5, 6, 7) for k in (2, 3)] + [(6, 1)]
_SMALL: Shapes = [(4, 2), (5, 2), (6, 2), (7, 2), (4, 3), (5, 3), (6, 3)]
_SQUARE: Shapes = [(n, n) for n in (4, 5, 6, 7)]


class Family(NamedTuple):
    """A family of instances: how to draw one of a given shape, and the possible shapes."""

    make: Callable[[int, int, np.random.Generator], Problem]
    shapes: Shapes = _USUAL


def _symmetric(n: int, rng: np.random.Generator) -> FloatArray:
    M = rng.standard_normal((n, n))
    return M + M.T


def _concave(n: int, k: int, rng: np.random.Generator) -> Problem:
    """Take -AA': data of any sign in one half of the instances, nonnegative in the other."""
    A = rng.standard_normal((n, int(rng.integers(2, 6))))
    if rng.random() < 0.5:
        A = np.abs(A)
    return problems.TraceMin(-(A @ A.T), k)


def _laplacian(n: int, k: int, rng: np.random.Generator) -> Problem:
    """Draw a graph with weighted edges; about half of all edges are missing."""
    W = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.5), 1)
    W[0, 1] = rng.random()
    return problems.laplacian_embedding(W + W.T, k, normalized=bool(rng.random() < 0.5))


def _k_means(n: int, k: int, rng: np.random.Generator) -> Problem:
    """Take the default weight, or one smaller or larger by a factor of up to ten."""
    problem = problems.KMeans(rng.standard_normal((n, int(rng.integers(1, 4)))), k)
    factor = 1.0 if rng.random() < 0.5 else 10.0 ** rng.uniform(-1.0, 1.0)
    return problems.KMeans(problem.A, k, weight=factor * float(problem.weight or 1.0))


def _symmetric_onmf(n: int, k: int, rng: np.random.Generator) -> Problem:
    """Take similarities AA' or a matrix of any sign."""
    if rng.random() < 0.5:
        return problems.SymmetricONMF(_symmetric(n, rng), k)
    A = rng.random((n, 3))
    return problems.SymmetricONMF(A @ A.T, k)


def _assignment(n: int, k: int, rng: np.random.Generator) -> Problem:
    """Draw symmetric matrices or not, with a linear term in one half of the instances."""
    A, B = rng.random((2, n, n))
    if rng.random() < 0.5:
        A, B = A + A.T, B + B.T
    return problems.QAP(A, B, rng.random((n, n)) * n if rng.random() < 0.5 else None)


def _divergence(n: int, k: int, rng: np.random.Generator) -> Problem:
    """Draw counts in one half of the instances, positive numbers in the other."""
    r = int(rng.integers(2, 6))
    if rng.random() < 0.5:
        return problems.KLONMF(rng.random((n, r)), k)
    return problems.KLONMF(1.0 + rng.poisson(4.0 * rng.random((n, r))), k)


def _quadratic(n: int, k: int, rng: np.random.Generator) -> Problem:
    H = _symmetric(n * k, rng).reshape(n, k, n, k)
    return Polynomial(rng.standard_normal((n, k)), H, np.zeros((n, k)))


def _quartic(n: int, k: int, rng: np.random.Generator) -> Problem:
    H = 0.5 * _symmetric(n * k, rng).reshape(n, k, n, k)
    B, T = rng.standard_normal((2, n, k))
    return Polynomial(B, H, T, quartic=1.0)


FAMILIES: dict[str, Family] = {
    "TraceMin, indefinite": Family(lambda n, k, rng: problems.TraceMin(_symmetric(n, rng), k)),
    "TraceMin, -AA'": Family(_concave),
    "Laplacian embedding": Family(_laplacian),
    "KMeans": Family(_k_means),
    "SymmetricONMF": Family(_symmetric_onmf),
    "KIndicators, orthonormal U": Family(
        lambda n, k, rng: problems.KIndicators(np.linalg.qr(rng.standard_normal((n, k)))[0]), _SMALL
    ),
    "KIndicators, any U": Family(
        lambda n, k, rng: problems.KIndicators(rng.standard_normal((n, k))), _SMALL
    ),
    "QAP": Family(_assignment, _SQUARE),
    "KLONMF": Family(_divergence),
    "quadratic, any H": Family(_quadratic, _SMALL),
    "quartic": Family(_quartic, _SMALL),
    "ONMF": Family(lambda n, k, rng: problems.ONMF(rng.random((n, int(rng.integers(2, 6)))), k)),
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
    (make, shapes), number = FAMILIES[family], list(FAMILIES).index(family)
    for index in range(count):
        rng = np.random.default_rng([seed, number, index])
        yield make(*shapes[rng.integers(len(shapes))], rng)
