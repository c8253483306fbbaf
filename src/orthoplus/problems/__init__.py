"""One problem per file; the registry has their names and a small instance of each for tests."""

from collections.abc import Callable

import numpy as np

from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.problems.k_indicators import KIndicators
from orthoplus.problems.k_means import KMeans
from orthoplus.problems.kl_onmf import KLONMF
from orthoplus.problems.onmf import ONMF
from orthoplus.problems.projection import Projection
from orthoplus.problems.projective_kl import ProjectiveKL
from orthoplus.problems.qap import QAP
from orthoplus.problems.smooth import Smooth
from orthoplus.problems.symmetric_onmf import SymmetricONMF
from orthoplus.problems.trace_min import (
    TraceMin,
    discriminative_spectral,
    laplacian_embedding,
    nonnegative_pca,
    ratio_cut,
)
from orthoplus.problems.two_block import TwoBlock

PROBLEMS = {
    "projection": Projection,
    "trace_min": TraceMin,
    "onmf": ONMF,
    "kl_onmf": KLONMF,
    "projective_kl": ProjectiveKL,
    "symmetric_onmf": SymmetricONMF,
    "k_indicators": KIndicators,
    "k_means": KMeans,
    "qap": QAP,
    "smooth": Smooth,
    "two_block": TwoBlock,
}

_N, _K = 7, 3  # the shape of X in the examples


def _symmetric(rng: np.random.Generator) -> FloatArray:
    M = rng.standard_normal((_N, _N))
    return M + M.T


def _positive(rng: np.random.Generator) -> FloatArray:
    return np.abs(rng.standard_normal((_N, 5)))


def _orthonormal(rng: np.random.Generator) -> FloatArray:
    return np.linalg.qr(rng.standard_normal((_N, _K)))[0]


def _smooth_example(rng: np.random.Generator) -> Smooth:
    """Return sum sin(C X) + tr(X'MX), without a curvature."""
    C, M = rng.standard_normal((_N, _K)), _symmetric(rng)
    return Smooth(
        lambda X: float(np.sin(C * X).sum() + (X * (M @ X)).sum()),
        (_N, _K),
        jac=lambda X: C * np.cos(C * X) + 2 * M @ X,
    )


def _two_block_example(rng: np.random.Generator) -> TwoBlock:
    """Return ||UY - X||^2 over X and orthogonal Y."""
    U = _orthonormal(rng)

    def joint(X: FloatArray, Y: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        R = U @ Y - X
        return float((R * R).sum()), -2 * R, 2 * U.T @ R

    def polar(Y: FloatArray) -> FloatArray:
        left, _, right = np.linalg.svd(Y)
        return np.asarray(left @ right)

    return TwoBlock(joint, (_N, _K), np.eye(_K), project_y=polar)


# A small random instance of every registered problem, used by the tests.
EXAMPLES: dict[str, Callable[[np.random.Generator], Problem]] = {
    "projection": lambda rng: Projection(rng.standard_normal((_N, _K))),
    "trace_min": lambda rng: TraceMin(_symmetric(rng), _K),
    "onmf": lambda rng: ONMF(_positive(rng), _K),
    "kl_onmf": lambda rng: KLONMF(_positive(rng), _K),
    "projective_kl": lambda rng: ProjectiveKL(_positive(rng), _K),
    "symmetric_onmf": lambda rng: SymmetricONMF(np.abs(_symmetric(rng)), _K),
    "k_indicators": lambda rng: KIndicators(_orthonormal(rng)),
    "k_means": lambda rng: KMeans(rng.standard_normal((_N, 4)), _K),
    "qap": lambda rng: QAP(*rng.standard_normal((3, 4, 4))),
    "smooth": _smooth_example,
    "two_block": _two_block_example,
}

__all__ = [
    "EXAMPLES",
    "KLONMF",
    "ONMF",
    "PROBLEMS",
    "QAP",
    "KIndicators",
    "KMeans",
    "Projection",
    "ProjectiveKL",
    "Smooth",
    "SymmetricONMF",
    "TraceMin",
    "TwoBlock",
    "discriminative_spectral",
    "laplacian_embedding",
    "nonnegative_pca",
    "ratio_cut",
]
