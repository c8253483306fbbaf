"""The sets of the paper: OB+ (nonnegative, unit columns) and S+ (also orthonormal columns)."""

from orthoplus.geometry.delta import delta_jacobian, project_delta
from orthoplus.geometry.oblique import (
    project_oblique_plus,
    project_tangent,
    random_oblique_plus,
    riemannian_gradient,
)
from orthoplus.geometry.stiefel import (
    assemble,
    cover_columns,
    fit_support,
    fit_weights,
    in_linearized_cone,
    in_tangent_cone,
    keep_largest,
    labels_of,
    order_of_appearance,
    polar_factor,
    random_stiefel_plus,
    round_to_stiefel_plus,
    rounding_constant,
    rounding_error_bound,
    violation,
)

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
