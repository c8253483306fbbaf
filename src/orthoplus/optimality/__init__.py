"""Optimality conditions of first and second order."""

from orthoplus.optimality.conditions import OptimalityReport, check, check_oblique, stationarity

__all__ = [
    "OptimalityReport",
    "check",
    "check_oblique",
    "stationarity",
]
