"""Optimality conditions of first and second order."""

import numpy as np  # noqa: F401  # for the examples of the functions

from orthoplus.core.checked import checked
from orthoplus.optimality import conditions
from orthoplus.optimality.conditions import OptimalityReport, check, check_oblique

# Solvers import this function from its module, without the checks.
stationarity = checked(conditions.stationarity)

__all__ = [
    "OptimalityReport",
    "check",
    "check_oblique",
    "stationarity",
]
