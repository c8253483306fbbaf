"""Approximately orthogonal NMF (Li, Zhou and Cichocki 2015): a penalty on x_i'x_j."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.methods.factors import (
    FactorMethod,
    FactorState,
    factor_model,
    factor_state,
    times,
    times_transposed,
)


@dataclass(frozen=True)
class ApproximatelyOrthogonalNMF(FactorMethod):
    r"""Run NMF with a penalty on the inner products of the unit columns of X.

    .. math:: \min_{X, Y \ge 0,\ \|x_j\| = 1} F(X, Y) = \|A - XY^\top\|_F^2
              + \lambda \sum_{i \ne j} x_i^\top x_j .

    "hals" minimizes F over one column at a time,

    .. math:: x_j \leftarrow \big[h - \lambda s\big]_+ / \|\cdot\|, \quad
              h = \Big(A - \sum_{l \ne j} x_l y_l^\top\Big) y_j,\; s = \sum_{l \ne j} x_l, \qquad
              y_j \leftarrow \Big[\Big(A - \sum_{l \ne j} x_l y_l^\top\Big)^\top x_j\Big]_+ ;

    "apg" takes accelerated projected gradient steps in X, then in Y.

    Parameters
    ----------
    algorithm : {"hals", "apg"}
        Hierarchical alternating least squares, or the accelerated proximal gradient method.
    orthogonality : float
        The weight lambda, in units of :math:`\|A\|_F^2 / k`.
    n_inner : int
        Steps per block and iteration of "apg".
    start, tol, max_iter, seed
        As in `HALSONMF`.

    Notes
    -----
    Li, Zhou and Cichocki, *Two efficient algorithms for approximately orthogonal nonnegative matrix
    factorization*, IEEE Signal Process. Lett. 22 (2015). The penalty and the two kinds of
    algorithms are theirs. Only the abstract of the article was available, so which factor they
    normalize, their lambda and their inner iterations were not verified; our lambda was chosen
    between 0.01 and 1 on generated data. Without unit columns, X could shrink and Y grow until the
    penalty vanishes. F never increases with either algorithm: each update of "hals" is the
    minimizer over its column (a column without a positive entry of h - lambda s becomes the unit
    vector of its largest entry), and an extrapolated step of "apg" that increases F is replaced by
    a plain one. X is only approximately orthogonal, more so for larger lambda. An iteration costs
    two products with A and O((n + r) k^2), times ``n_inner`` for "apg".

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=ApproximatelyOrthogonalNMF()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    algorithm: str = "hals"
    orthogonality: float = 0.01
    n_inner: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.algorithm, "algorithm", ("hals", "apg"))
        check_range(self.orthogonality, "orthogonality", low=0.0)
        check_count(self.n_inner, "n_inner", low=1)

    def step(self, problem: Problem, state: FactorState) -> FactorState:
        """Update X from AY and Y'Y, then Y from A'X and X'X."""
        weight = self.weight(problem)
        AY, YtY = times(problem, state.Y), state.Y.T @ state.Y
        if self.algorithm == "hals":
            X = _sweep_x(state.factor, AY, YtY, weight)
        else:
            k = len(YtY)
            # F as a function of X: <X H, X> - 2 <AY, X> with H = Y'Y + lambda (ee' - I).
            H = YtY + weight * (np.ones((k, k)) - np.eye(k))
            X = _accelerate(state.factor, AY, H, self.n_inner, on_spheres=True)
        W, gram = times_transposed(problem, X), X.T @ X
        if self.algorithm == "hals":
            Y = _sweep_y(state.Y, W, gram)
        else:
            Y = _accelerate(state.Y, W, gram, self.n_inner, on_spheres=False)
        return factor_state(problem, X, Y, before=state, products=W)

    def weight(self, problem: Problem) -> float:
        """Return the weight lambda of the penalty."""
        return self.orthogonality * factor_model(problem).total / problem.shape[1]

    def objective(self, problem: Problem, state: FactorState) -> float:
        """Return the penalized objective F at a state."""
        total = state.factor.sum(axis=1)
        # The sum over i != j of x_i'x_j is |sum_j x_j|^2 - sum_j |x_j|^2.
        overlap = float(np.vdot(total, total)) - float(np.vdot(state.factor, state.factor))
        return state.value + self.weight(problem) * overlap


def _sweep_x(X: FloatArray, AY: FloatArray, YtY: FloatArray, weight: float) -> FloatArray:
    """Minimize over each column of X in turn."""
    X = X.copy(order="F")  # contiguous columns
    total = X.sum(axis=1)
    for j in range(X.shape[1]):
        s = total - X[:, j]
        h = AY[:, j] - X @ YtY[:, j] + X[:, j] * YtY[j, j]
        X[:, j] = project_oblique_plus((h - weight * s)[:, None])[:, 0]
        total = s + X[:, j]
    return np.ascontiguousarray(X)


def _sweep_y(Y: FloatArray, W: FloatArray, gram: FloatArray) -> FloatArray:
    """Minimize over each column of Y in turn, for unit columns of X."""
    Y = Y.copy(order="F")
    for j in range(Y.shape[1]):
        # (A - sum_{l != j} x_l y_l')' x_j without forming the residual matrix.
        y = W[:, j] - Y @ gram[:, j] + Y[:, j] * gram[j, j]
        Y[:, j] = np.maximum(y / (gram[j, j] or 1.0), 0.0)
    return np.ascontiguousarray(Y)


def _accelerate(
    Z: FloatArray, B: FloatArray, H: FloatArray, n_inner: int, *, on_spheres: bool
) -> FloatArray:
    """Take accelerated projected gradient steps on <Z H, Z> - 2 <B, Z>, which never increases.

    The feasible set is Z >= 0, or nonnegative unit columns if ``on_spheres``. The step is 1 / L,
    where L is the largest eigenvalue of 2 H.
    """
    L = 2.0 * float(np.linalg.eigvalsh(H)[-1])
    if L <= 0.0:
        return Z

    def value(Z: FloatArray) -> float:
        return float(np.vdot(Z @ H - 2.0 * B, Z))

    def move(Z: FloatArray) -> FloatArray:
        moved = Z - 2.0 * (Z @ H - B) / L
        return project_oblique_plus(moved) if on_spheres else np.maximum(moved, 0.0)

    before, t, here = Z, 1.0, value(Z)
    for _ in range(n_inner):
        # Nesterov's sequence t, restarted whenever the objective would increase.
        t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        trial = move(Z + (t - 1.0) / t_next * (Z - before))
        there = value(trial)
        if there > here:
            trial, t_next = move(Z), 1.0  # restart the acceleration
            there = value(trial)
            if there > here:  # only because of rounding
                return Z
        before, Z, t, here = Z, trial, t_next, there
    return Z
