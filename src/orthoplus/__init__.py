"""Optimisation with nonnegative orthogonality constraints: min f(X), X'X = I, X >= 0.

Examples
--------
>>> import numpy as np, orthoplus as op
>>> C = np.array([[2.0, 0.1], [1.0, 0.2], [0.3, 1.0]])
>>> op.minimize(lambda X: -(C * X).sum(), (3, 2), jac=lambda X: -C).labels
array([0, 0, 1])
"""

from typing import TYPE_CHECKING, Any

from orthoplus import (
    autodiff,
    datasets,
    geometry,
    methods,
    metrics,
    optimality,
    penalty,
    problems,
)
from orthoplus.assignment import quadratic_assignment
from orthoplus.checkpoint import load_state, save_state
from orthoplus.copositive import is_copositive
from orthoplus.derivatives import check_gradient
from orthoplus.methods import (
    PALM,
    EP4Orth,
    ProjectedGradient,
    ProximalAlternating,
    RegularizedNewton,
    baselines,
)
from orthoplus.protocols import Problem
from orthoplus.result import Result
from orthoplus.solve import CallbackError, minimize, project, solve
from orthoplus.status import Status

if TYPE_CHECKING:
    from orthoplus.estimators import (
        KIndicatorsClustering,
        NonnegativePCA,
        NonnegativeSpectralClustering,
        OrthogonalNMF,
        consensus,
        select_rank,
        unmix,
    )

__version__ = "0.1.0.dev0"

# Imported when first asked for: scikit-learn takes a second.
_LAZY = (
    "KIndicatorsClustering",
    "NonnegativePCA",
    "NonnegativeSpectralClustering",
    "OrthogonalNMF",
    "consensus",
    "select_rank",
    "unmix",
)

__all__ = [
    "PALM",
    "CallbackError",
    "EP4Orth",
    "KIndicatorsClustering",
    "NonnegativePCA",
    "NonnegativeSpectralClustering",
    "OrthogonalNMF",
    "Problem",
    "ProjectedGradient",
    "ProximalAlternating",
    "RegularizedNewton",
    "Result",
    "Status",
    "__version__",
    "autodiff",
    "baselines",
    "check_gradient",
    "consensus",
    "datasets",
    "geometry",
    "is_copositive",
    "load_state",
    "methods",
    "metrics",
    "minimize",
    "optimality",
    "penalty",
    "problems",
    "project",
    "quadratic_assignment",
    "save_state",
    "select_rank",
    "solve",
    "unmix",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'orthoplus' has no attribute {name!r}")
    from orthoplus import estimators

    return getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
