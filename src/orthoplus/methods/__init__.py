"""Optimization methods, one per file, and the registry of their names."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.methods.kl_alternating import KLAlternating
from orthoplus.methods.newton import RegularizedNewton
from orthoplus.methods.palm import PALM
from orthoplus.methods.pam import ProximalAlternating
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.methods.search.assignment_search import AssignmentSearch
from orthoplus.methods.search.polish import Polish
from orthoplus.methods.search.support_search import SupportSearch
from orthoplus.methods.search.swap_search import SwapSearch
from orthoplus.methods.semismooth import SemismoothNewton

if TYPE_CHECKING:
    from orthoplus.methods import baselines

METHODS = {
    "ep4orth": EP4Orth,
    "projected_gradient": ProjectedGradient,
    "regularized_newton": RegularizedNewton,
    "palm": PALM,
    "proximal_alternating": ProximalAlternating,
    "polish": Polish,
    "kl_alternating": KLAlternating,
    "support_search": SupportSearch,
    "swap_search": SwapSearch,
    "assignment_search": AssignmentSearch,
}

# The entries of `orthoplus.problems.PROBLEMS` that a method supports; all of them if it is not
# listed.
TAKES = {
    "palm": ("two_block", "k_indicators"),
    "proximal_alternating": ("two_block", "k_indicators"),
    "kl_alternating": ("kl_onmf",),
    "swap_search": ("onmf",),
    "assignment_search": ("qap",),
}

__all__ = [
    "METHODS",
    "PALM",
    "TAKES",
    "AssignmentSearch",
    "EP4Orth",
    "KLAlternating",
    "Polish",
    "ProjectedGradient",
    "ProximalAlternating",
    "RegularizedNewton",
    "SemismoothNewton",
    "SupportSearch",
    "SwapSearch",
    "baselines",
]


def __getattr__(name: str) -> Any:
    if name != "baselines":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.baselines")  # the baselines are loaded lazily
