"""Kernels compiled with Numba, with the names and signatures of `reference`."""

from orthoplus.kernels.fused.cache import load_numba
from orthoplus.kernels.fused.centers import alternate_centers, search_swaps
from orthoplus.kernels.fused.counts import balance_counts_into, capped_tops
from orthoplus.kernels.fused.delta import (
    conjugate_step_into,
    project_delta_into,
    project_face_into,
)
from orthoplus.kernels.fused.divergence import move_rows_into, sampled_products
from orthoplus.kernels.fused.exchange import (
    exchange_deltas,
    exchange_search_into,
    exchange_update_into,
)
from orthoplus.kernels.fused.fractions import constrained_fractions
from orthoplus.kernels.fused.groups import (
    best_columns,
    dense_group_dots,
    dense_group_sums,
    sparse_group_dots,
    sparse_group_sums,
)
from orthoplus.kernels.fused.indicators import alternate_indicators
from orthoplus.kernels.fused.k_means import move_k_means, swap_k_means
from orthoplus.kernels.fused.oblique import (
    assemble,
    column_dots,
    gather,
    gradient_step_into,
    largest_entries,
    multipliers,
    normalize_step_into,
    projected_step_into,
    restrict_into,
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
from orthoplus.kernels.fused.relaxation import (
    least_ratios,
    relax_into,
    sweep_cuts_into,
    worst_cuts,
)
from orthoplus.kernels.fused.row_moves import settle_rows
from orthoplus.kernels.fused.rows import (
    assign_rows,
    best_partition,
    column_maxima,
    gather_pairs,
    sparse_product,
)

__all__ = [
    "alternate_centers",
    "alternate_indicators",
    "assemble",
    "assign_rows",
    "balance_counts_into",
    "best_columns",
    "best_partition",
    "capped_tops",
    "chain_moves_into",
    "cheapest_flips",
    "column_dots",
    "column_maxima",
    "conjugate_step_into",
    "constrained_fractions",
    "dense_group_dots",
    "dense_group_sums",
    "exchange_deltas",
    "exchange_search_into",
    "exchange_update_into",
    "gather",
    "gather_pairs",
    "gradient_step_into",
    "largest_entries",
    "least_ratios",
    "move_k_means",
    "move_rows_into",
    "multipliers",
    "normalize_step_into",
    "project_delta_into",
    "project_face_into",
    "projected_step_into",
    "relax_into",
    "restrict_into",
    "row_energy",
    "sampled_products",
    "search_rows_into",
    "search_swaps",
    "secant_products",
    "settle_rows",
    "single_moves_into",
    "sparse_group_dots",
    "sparse_group_sums",
    "sparse_product",
    "stationarity_sq",
    "swap_k_means",
    "sweep_cuts_into",
    "transfer_shares_into",
    "worst_cuts",
]

load_numba()
