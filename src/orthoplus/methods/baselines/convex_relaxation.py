"""Orthogonal NMF by rounding a convex relaxation."""

from dataclasses import dataclass

import numpy as np

from orthoplus.certify.relaxation import Relaxation
from orthoplus.core.checks import check_count
from orthoplus.core.errors import InputError
from orthoplus.core.outer_method import OuterMethodBase
from orthoplus.core.point import spread
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray
from orthoplus.methods.factors import (
    ChangeStop,
    FactorState,
    data_of,
    factor_state,
    start_state,
    times_transposed,
)

# The method forms n x n matrices.
_MOST_ROWS = 5000


@dataclass(frozen=True)
class ConvexRelaxation(OuterMethodBase):
    r"""Round the solution of a convex relaxation of orthogonal NMF.

    .. math:: \max_Z \langle AA^\top, Z \rangle, \qquad 0 \preceq Z \preceq I, \quad
              \operatorname{tr} Z = k, \quad Z \ge 0 .

    For X in S+, the matrix :math:`Z = XX^\top` satisfies all constraints. The rows of the leading
    eigenvectors of the solution are grouped by direction, and each group gets its optimal weights.

    Parameters
    ----------
    max_iter : int
        Iterations of the alternating direction method of multipliers.

    Notes
    -----
    One step performs the whole solve, with O(n^2 k) operations per iteration and O(n^2) memory, for
    up to 5000 rows. The given X is not used. The relaxation is that of `orthoplus.certify`, which
    uses its dual for bounds.

    Pan and Ng, *Orthogonal nonnegative matrix factorization by sparsity and nuclear norm
    optimization*, SIAM J. Matrix Anal. Appl. 39 (2018), relax the orthogonality by a nuclear norm
    and a sparsity term; this is the relaxation of the same feasible set without a parameter to
    tune, solved by the same kind of method. Their own experiments were not repeated.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=ConvexRelaxation()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    max_iter: int = 300

    state_type = FactorState
    ends_with_search = False  # baselines are compared without a search

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter", low=1)

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> FactorState:
        """Return the state at the given X, before the solve."""
        return start_state(problem, X)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Solve the relaxation and round its solution."""
        n, k = problem.shape
        if n > _MOST_ROWS:
            raise InputError(
                f"The convex relaxation forms n x n matrices, and {n} rows are too many. "
                f"Use at most {_MOST_ROWS} rows, or another method."
            )
        relaxation = Relaxation(data_of(problem).outer_gram(), k)
        relaxation.advance(self.max_iter)
        # Any positive weights do for the start: the refinement finds the best ones on these groups.
        groups = spread(relaxation.partition(), np.ones(n), k)
        X = problem.refine(groups / np.linalg.norm(groups, axis=0))
        assert X is not None  # orthogonal NMF has a closed form
        Y = times_transposed(problem, X)
        return factor_state(problem, X, Y, before=state, products=Y)._replace(change=0.0)

    def stop(self) -> ChangeStop:
        """Return a stopping rule that ends the run after the solve."""
        return ChangeStop(tol=0.0, max_iter=1)
