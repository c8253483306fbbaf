"""The sets of the paper: OB+ (nonnegative, unit columns) and S+ (also orthonormal columns)."""

import numpy as np  # noqa: F401  # for the examples of the functions

from orthoplus.core.checked import checked
from orthoplus.geometry import delta, oblique, stiefel

# The rest of the package imports these functions from their modules, without the checks.
delta_jacobian = checked(delta.delta_jacobian)
project_delta = checked(delta.project_delta)
project_oblique_plus = checked(oblique.project_oblique_plus)
project_tangent = checked(oblique.project_tangent)
random_oblique_plus = checked(oblique.random_oblique_plus)
riemannian_gradient = checked(oblique.riemannian_gradient)
assemble = checked(stiefel.assemble)
cover_columns = checked(stiefel.cover_columns)
fit_support = checked(stiefel.fit_support)
fit_weights = checked(stiefel.fit_weights)
in_linearized_cone = checked(stiefel.in_linearized_cone)
in_tangent_cone = checked(stiefel.in_tangent_cone)
keep_largest = checked(stiefel.keep_largest)
labels_of = checked(stiefel.labels_of)
order_of_appearance = checked(stiefel.order_of_appearance)
polar_factor = checked(stiefel.polar_factor)
random_stiefel_plus = checked(stiefel.random_stiefel_plus)
round_to_stiefel_plus = checked(stiefel.round_to_stiefel_plus)
rounding_constant = checked(stiefel.rounding_constant)
rounding_error_bound = checked(stiefel.rounding_error_bound)
violation = checked(stiefel.violation)

__all__ = [
    "assemble",
    "cover_columns",
    "delta_jacobian",
    "fit_support",
    "fit_weights",
    "in_linearized_cone",
    "in_tangent_cone",
    "keep_largest",
    "labels_of",
    "order_of_appearance",
    "polar_factor",
    "project_delta",
    "project_oblique_plus",
    "project_tangent",
    "random_oblique_plus",
    "random_stiefel_plus",
    "riemannian_gradient",
    "round_to_stiefel_plus",
    "rounding_constant",
    "rounding_error_bound",
    "violation",
]
