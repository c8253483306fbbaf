"""Frank-Wolfe over the doubly stochastic matrices, from a convex relaxation to f."""

from typing import Any

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

# Shares of the convexifying term: f_t is convex for t = 1 and equals f for t = 0. Following the
# minimizer while t is halved finds relabeled graphs at nearly twice the noise level of f alone.
_SHARES = (1.0, 0.5, 0.25, 0.125, 0.0)
# Maximum number of steps per share, and the step length, relative to the norm of a permutation, at
# which they end.
_MAX_STEPS, _STEP_TOL = 20, 1e-3


def relax_assignment(problem: Any) -> tuple[FloatArray, int]:
    r"""Follow a minimizer over the doubly stochastic X from a convex function to f of a QAP.

    .. math:: f_t(X) = f(X) + \tfrac t2 (\|AX\|_F^2 + \|XB\|_F^2),
              \qquad f_1(X) = \tfrac12 \|AX + XB\|_F^2 + \langle C, X \rangle .

    The added term is constant over the permutations, so that all :math:`f_t` have the same
    minimizers there. f_1 is convex and vanishes at a perfect match of A with the graph -B, which
    makes it a good start, unlike the indefinite f.

    Parameters
    ----------
    problem : QAP
        Preferably `QAP.normalized`, since A and B must have the same size for f_1 to be tight.

    Returns
    -------
    X : ndarray of shape (n, n)
        A doubly stochastic matrix, often a permutation matrix.
    n_steps : int
        Number of steps, each with one linear assignment in O(n^3).

    References
    ----------
    M. Zaslavskiy, F. Bach and J.-P. Vert, *A path following algorithm for the graph matching
    problem*, IEEE Trans. Pattern Anal. Mach. Intell. 31 (2009). J. T. Vogelstein et al., *Fast
    approximate quadratic programming for graph matching*, PLOS ONE 10 (2015).

    Examples
    --------
    >>> import orthoplus as op
    >>> graph = np.array([[0.0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> flows = graph * np.array([3.0, 1, 1, 0]) * np.array([[3.0], [1], [1], [0]])
    >>> X, _ = relax_assignment(op.problems.QAP(-flows, flows[::-1, ::-1]).normalized)
    >>> X.argmax(axis=1)
    array([3, 2, 1, 0])
    """
    n = problem.shape[0]
    # Start from the barycenter of the doubly stochastic matrices.
    X, n_steps = np.full((n, n), 1.0 / n), 0
    squares = _mean_square(problem.A), _mean_square(problem.B)
    for share in _SHARES:
        X, count = _descend(problem, X, share, squares)
        n_steps += count
    return X, n_steps


def _mean_square(M: FloatArray) -> FloatArray:
    """Return (M'M + MM') / 2, since ||MX|| and ||M'X|| are constant over the permutations."""
    return np.asarray(0.5 * (M.T @ M + M @ M.T))


def _descend(
    problem: Any, X: FloatArray, share: float, squares: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, int]:
    """Run Frank-Wolfe with exact line search; return the matrix and the number of steps."""
    gradient = problem.value_and_gradient(X)[1] + share * (squares[0] @ X + X @ squares[1])
    for count in range(1, _MAX_STEPS + 1):
        p = nearest_permutation(-gradient)
        P = as_matrix_of(p)
        # f_t is quadratic: the gradient at P gives the curvature along P - X and the next gradient.
        change, D = problem.value_and_gradient(P)[1] - gradient, P - X
        if share:
            # The gradient of the added term at P: (A'A + AA')/2 P permutes columns, P (B'B + BB')/2
            # rows.
            change[:, p] += share * squares[0]
            change += share * squares[1][p]
        slope, curvature = float(np.vdot(gradient, D)), float(np.vdot(change, D))
        if slope >= 0.0:
            return X, count
        # Exact line search of a quadratic on [0, 1]; a concave direction ends at the vertex P.
        step = min(1.0, -slope / curvature) if curvature > 0 else 1.0
        X, gradient = X + step * D, gradient + step * change
        if step * np.linalg.norm(D) <= _STEP_TOL * len(X) ** 0.5:
            return X, count
    return X, _MAX_STEPS


def nearest_permutation(X: FloatArray) -> IntArray:
    """Round X to the permutation p that maximizes the sum of X[i, p(i)].

    Examples
    --------
    >>> nearest_permutation(np.array([[0.9, 0.8], [0.7, 0.1]]))
    array([1, 0])
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    return np.asarray(linear_sum_assignment(X, maximize=True)[1], dtype=np.int64)


def as_matrix_of(permutation: IntArray) -> FloatArray:
    """Return the matrix with X[i, p(i)] = 1.

    Examples
    --------
    >>> as_matrix_of(np.array([1, 0]))
    array([[0., 1.],
           [1., 0.]])
    """
    X = np.zeros((len(permutation), len(permutation)))
    X[np.arange(len(permutation)), permutation] = 1.0
    return X
