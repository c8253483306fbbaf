"""Optimization with nonnegative orthogonality constraints: min f(X), X'X = I, X >= 0.

Examples
--------
>>> import numpy as np, orthoplus as op
>>> C = np.array([[2.0, 0.1], [1.0, 0.2], [0.3, 1.0]])
>>> op.minimize(lambda X: -(C * X).sum(), (3, 2), jac=lambda X: -C).labels
array([0, 0, 1])
"""

from orthoplus.core import startup  # first of all: see there

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

from orthoplus import geometry, methods, optimality, penalty, problems
from orthoplus.certify.api import certify
from orthoplus.certify.certificate import Certificate
from orthoplus.core.errors import CallbackError, InputError, InputTypeError
from orthoplus.core.problem import Problem
from orthoplus.core.result import Result
from orthoplus.core.status import Status
from orthoplus.methods import (
    PALM,
    EP4Orth,
    ProjectedGradient,
    ProximalAlternating,
    RegularizedNewton,
)
from orthoplus.penalty import exactness
from orthoplus.run.api import minimize, project, solve
from orthoplus.run.checkpoint import load_state, save_state

if TYPE_CHECKING:
    from orthoplus import autodiff, datasets, metrics
    from orthoplus.adapters import brain, singlecell
    from orthoplus.assignment import quadratic_assignment
    from orthoplus.copositive import is_copositive
    from orthoplus.estimators import (
        KIndicatorsClustering,
        NonnegativePCA,
        NonnegativeSpectralClustering,
        OrthogonalNMF,
        abundances,
        unmix,
    )
    from orthoplus.methods import baselines
    from orthoplus.model_selection import consensus, select_rank
    from orthoplus.optimality.derivatives import check_gradient

__version__ = "0.1.0"

# Names imported lazily, mapped to their modules; an empty string means that the name is a module
# itself. `solve` needs none of them, and importing the estimators loads scikit-learn, which takes a
# second.
_LAZY = {
    "KIndicatorsClustering": "estimators",
    "NonnegativePCA": "estimators",
    "NonnegativeSpectralClustering": "estimators",
    "OrthogonalNMF": "estimators",
    "abundances": "estimators",
    "autodiff": "",
    "baselines": "methods",
    "brain": "adapters",
    "check_gradient": "optimality.derivatives",
    "consensus": "model_selection",
    "datasets": "",
    "is_copositive": "copositive",
    "metrics": "",
    "quadratic_assignment": "assignment",
    "select_rank": "model_selection",
    "singlecell": "adapters",
    "unmix": "estimators",
}

__all__ = [
    "PALM",
    "CallbackError",
    "Certificate",
    "EP4Orth",
    "InputError",
    "InputTypeError",
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
    "abundances",
    "autodiff",
    "baselines",
    "brain",
    "certify",
    "check_gradient",
    "consensus",
    "datasets",
    "exactness",
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
    "singlecell",
    "solve",
    "unmix",
]


if not TYPE_CHECKING:  # or a type checker would take every misspelled name for one of these

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'orthoplus' has no attribute {name!r}")
        home = _LAZY[name]
        if home in ("", "adapters"):  # the name is a module
            return import_module(".".join(filter(None, ("orthoplus", home, name))))
        return getattr(import_module(f"orthoplus.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


startup.interrupt_again()
