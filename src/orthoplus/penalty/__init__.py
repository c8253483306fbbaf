"""The penalty family of the paper, and the theory of exact penalties."""

from orthoplus.penalty.exactness import (
    ExactPenalty,
    Measure,
    estimate_value_lipschitz,
    separation_of_supports,
    sharp_threshold,
    upsilon,
)
from orthoplus.penalty.family import (
    Evaluation,
    GeneralPenalty,
    Penalized,
    Penalty,
    PowerPenalty,
    as_penalized,
    check_mixing,
    without_penalty,
)

__all__ = [
    "Evaluation",
    "ExactPenalty",
    "GeneralPenalty",
    "Measure",
    "Penalized",
    "Penalty",
    "PowerPenalty",
    "as_penalized",
    "check_mixing",
    "estimate_value_lipschitz",
    "separation_of_supports",
    "sharp_threshold",
    "upsilon",
    "without_penalty",
]
