"""The penalty family of the paper, and when a penalty is exact."""

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
    Penalised,
    Penalty,
    PowerPenalty,
    as_penalised,
    check_mixing,
    without_penalty,
)

__all__ = [
    "Evaluation",
    "ExactPenalty",
    "GeneralPenalty",
    "Measure",
    "Penalised",
    "Penalty",
    "PowerPenalty",
    "as_penalised",
    "check_mixing",
    "estimate_value_lipschitz",
    "separation_of_supports",
    "sharp_threshold",
    "upsilon",
    "without_penalty",
]
