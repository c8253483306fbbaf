"""The penalty family of the paper, and the theory of exact penalties."""

from orthoplus.penalty.exactness import (
    ExactPenalty,
    Measure,
    estimate_value_lipschitz,
    separation_of_supports,
    sharp_threshold,
    upsilon,
)
from orthoplus.penalty.family import GeneralPenalty, Penalty, PowerPenalty, check_mixing
from orthoplus.penalty.penalized import Evaluation, Penalized, as_penalized, without_penalty

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
