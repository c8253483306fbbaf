"""One problem a file; the registry gives each its name."""

from orthoplus.problems.onmf import ONMF
from orthoplus.problems.projection import Projection
from orthoplus.problems.qap import QAP
from orthoplus.problems.smooth import Smooth
from orthoplus.problems.trace_min import TraceMin
from orthoplus.problems.two_block import TwoBlock

PROBLEMS = {
    "projection": Projection,
    "trace_min": TraceMin,
    "onmf": ONMF,
    "qap": QAP,
    "smooth": Smooth,
    "two_block": TwoBlock,
}

__all__ = ["ONMF", "PROBLEMS", "QAP", "Projection", "Smooth", "TraceMin", "TwoBlock"]
