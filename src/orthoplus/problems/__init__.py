"""One problem a file; the registry gives each its name."""

from orthoplus.problems.k_indicators import KIndicators
from orthoplus.problems.k_means import KMeans
from orthoplus.problems.onmf import ONMF
from orthoplus.problems.projection import Projection
from orthoplus.problems.smooth import Smooth
from orthoplus.problems.trace_min import TraceMin
from orthoplus.problems.two_block import TwoBlock

PROBLEMS = {
    "projection": Projection,
    "trace_min": TraceMin,
    "onmf": ONMF,
    "k_indicators": KIndicators,
    "k_means": KMeans,
    "smooth": Smooth,
    "two_block": TwoBlock,
}

__all__ = [
    "ONMF",
    "PROBLEMS",
    "KIndicators",
    "KMeans",
    "Projection",
    "Smooth",
    "TraceMin",
    "TwoBlock",
]
