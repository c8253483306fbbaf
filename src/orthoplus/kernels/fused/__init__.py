"""The hot loops, compiled with Numba; same names and signatures as in `reference`."""

from orthoplus.kernels.fused.oblique import (
    column_dots,
    delta_point_into,
    delta_sums,
    gradient_step_into,
    multipliers,
    normalise_step_into,
    row_argmax,
    row_energy,
    secant_products,
    stationarity_sq,
)
from orthoplus.kernels.fused.pairs import (
    chain_moves_into,
    cheapest_flips,
    search_rows_into,
    single_moves_into,
    transfer_shares_into,
)
from orthoplus.kernels.fused.rows import (
    assign_rows,
    best_partition,
    column_maxima,
    gather_pairs,
)

__all__ = [
    "assign_rows",
    "best_partition",
    "chain_moves_into",
    "cheapest_flips",
    "column_dots",
    "column_maxima",
    "delta_point_into",
    "delta_sums",
    "gather_pairs",
    "gradient_step_into",
    "multipliers",
    "normalise_step_into",
    "row_argmax",
    "row_energy",
    "search_rows_into",
    "secant_products",
    "single_moves_into",
    "stationarity_sq",
    "transfer_shares_into",
]
