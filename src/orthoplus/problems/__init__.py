"""One problem a file; the registry gives each its name."""

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

__all__ = [
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
