"""The relaxation against a general solver of semidefinite programs."""

import clarabel
import numpy as np
import pytest
from scipy import sparse

from orthoplus.certify.relaxation import Relaxation


def solve_program(M, k, *, has_row_sums):
    """Return max <M, Z> over 0 <= Z <= I, tr Z = k, Z >= 0, and Ze = e for k-means."""
    n = len(M)
    i, j = np.tril_indices(n)  # the upper triangle by columns
    scale = np.where(i == j, 1.0, np.sqrt(2.0))
    identity = np.eye(n)[i, j]
    size = len(i)
    equations, right = [identity], [float(k)]
    for row in range(n if has_row_sums else 0):
        at = (i == row) | (j == row)
        equations.append(np.where(at, 1.0 / scale, 0.0))
        right.append(1.0)
    eye = sparse.identity(size, format="csc")
    A = sparse.vstack([sparse.csc_matrix(np.array(equations)), -eye, -eye, eye], format="csc")
    b = np.concatenate([right, np.zeros(2 * size), identity])
    cones = [
        clarabel.ZeroConeT(len(right)),
        clarabel.NonnegativeConeT(size),
        clarabel.PSDTriangleConeT(n),
        clarabel.PSDTriangleConeT(n),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    P = sparse.csc_matrix((size, size))
    solution = clarabel.DefaultSolver(P, -scale * M[i, j], A, b, cones, settings).solve()
    assert solution.status == clarabel.SolverStatus.Solved
    return -solution.obj_val


@pytest.mark.parametrize("has_row_sums", [False, True])
@pytest.mark.parametrize(("n", "k"), [(6, 2), (9, 3), (12, 4)])
def test_bound_is_the_optimum_of_the_program(n, k, has_row_sums, rng):
    A = rng.random((n, 5))
    M = A @ A.T if not has_row_sums else (A - A.mean(axis=0)) @ (A - A.mean(axis=0)).T
    best = solve_program(M, k, has_row_sums=has_row_sums)
    relaxation = Relaxation(M, k, has_row_sums=has_row_sums)
    for _ in range(20):
        relaxation.advance(200)
        bound = relaxation.upper_bound()
    assert bound >= (best - 1e-6 * abs(best) if not has_row_sums else 0.0)
    # Cuts may only lower the bound of k-means below that of the program without them.
    assert bound <= best + 1e-5 * abs(best)
