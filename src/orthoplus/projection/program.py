"""Solve linear programs to higher accuracy than the defaults of the solver."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

# The solver has absolute tolerances of at least TOLERANCE. Costs of order 1 are multiplied by
# ENLARGED, so that the error is below the tolerance of certificates.
TOLERANCE, ENLARGED = 1e-10, 2.0**12


def maximize_linear(
    gains: FloatArray,
    entries: list[tuple[IntArray, IntArray, FloatArray]],
    right: FloatArray,
    limits: FloatArray,
) -> tuple[FloatArray, FloatArray] | None:
    """Maximize <gains, x> subject to A x = right, limits[0] <= x <= limits[1].

    Parameters
    ----------
    gains : ndarray
        Objective coefficients of order 1.
    entries : list of (rows, columns, values)
        Entries of the sparse matrix A; duplicates are summed.
    right : ndarray
    limits : ndarray of shape (2, len(gains))

    Returns
    -------
    x, duals : ndarray
        The solution and the multiplier of each constraint, the derivative of the maximum with
        respect to ``right``; None if the solver fails.
    """
    from scipy.optimize import linprog  # slow to import
    from scipy.sparse import csr_array

    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    solved = linprog(
        -ENLARGED * gains,
        A_eq=csr_array((values, (rows, columns)), shape=(len(right), len(gains))),
        b_eq=right,
        bounds=limits.T,
        method="highs",
        options={
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        },
    )
    if solved.x is None:
        return None
    return np.asarray(solved.x), np.asarray(-solved.eqlin.marginals / ENLARGED)
