"""SNCP and NSNCP (Wang et al. 2021): orthogonal NMF by nonconvex penalties on the rows of X."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import (
    check_choice,
    check_count,
    check_growth,
    check_positive,
    check_range,
)
from orthoplus.core.outer_method import Diagnostics, SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import Carry, FloatArray
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.methods.factors import (
    STARTS,
    factor_model,
    first_factor,
    relative_change,
    times,
    times_transposed,
)

# The penalty stops growing at this many units: steps of length 1/L are rounding then. Without it,
# a row with two equal entries, which stay equal, lets the penalty grow until it overflows.
_MOST_PENALTY = 1e16


class SNCPState(NamedTuple):
    """Hold two factors and the penalty; ``X`` is ``factor`` with unit columns.

    ``violation`` refers to X, and ``products`` is A' ``factor``. ``change`` is the relative change
    of both factors in the last step, and ``n_inner`` counts the steps since the penalty last grew.
    """

    X: FloatArray
    value: float
    violation: float
    Y: FloatArray
    n_iter: int
    factor: FloatArray
    products: FloatArray
    change: float
    sigma: float
    n_inner: int


@dataclass(frozen=True)
class SNCP(SeededMethod):
    r"""Solve orthogonal NMF with a penalty on rows of X with several positive entries.

    .. math:: \min_{X, Y \ge 0} \|A - XY^\top\|_F^2 + \rho\, \phi(X)
              + \tfrac\nu2 \big(\|X\|_F^2 + \|Y\|_F^2\big), \qquad
              \phi(X) = \tfrac12 \sum_i \big((e^\top x_i)^2 - \|x_i\|_2^2\big)
              \;\text{or}\; \sum_i \big(e^\top x_i - \max_j x_{ij}\big),

    where x_i are the rows of X. Both penalties vanish if and only if no row of X has two positive
    entries. Each step is one proximal gradient step of length 1/L in X, then one in Y (PALM); rho
    grows whenever they converge.

    Parameters
    ----------
    penalty : {"smooth", "nonsmooth"}
        The first penalty (SNCP) or the second one (NSNCP).
    penalty_start, penalty_growth : float
        First rho and its growth. rho is in units of :math:`\|A\|_F^2 / n` for "smooth" and of
        :math:`\|A\|_F^2 / \sqrt{nk}` for "nonsmooth", with a start of unit columns.
    ridge : float
        The parameter nu, in units of :math:`\|A\|_F^2 / n`.
    inner_tol, max_inner : float, int
        rho grows once the relative change of the factors is at most ``inner_tol``, or after
        ``max_inner`` steps.
    feasibility_tol : float
        Stop if :math:`\|\bar X^\top \bar X - I\|_F / k`, where the columns of X are normalized, is
        at most this and the factors have converged.
    start, tol, max_iter, seed
        As in `HALSONMF`; ``tol`` applies to both factors.

    Notes
    -----
    Wang, Chang, Cui and Pang, *Clustering by orthogonal NMF model and non-convex penalty
    optimization*, IEEE Trans. Signal Process. 69 (2021). The models and PALM are theirs; only the
    abstract of the article was available. First penalty 1e-8, growth 1.5, 500 steps and the
    tolerance 3e-3 are numbers of public code for sparse orthogonal NMF with a growing penalty; the
    units, the ridge and the tolerance on orthogonality are ours. For fixed rho, the objective never
    increases: L is the largest eigenvalue of the quadratic part, and the proximal step of the
    second penalty, which keeps the largest entry of a row and thresholds the others, is exact. A
    step costs two products with A and O((n + r) k^2).

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.1], [0.0, 0.1, 3.0], [0.1, 0.0, 1.0]])
    >>> labels = op.solve(op.problems.ONMF(A, 2), method=SNCP()).labels
    >>> bool(labels[0] == labels[1]), bool(labels[2] == labels[3]), bool(labels[0] == labels[2])
    (True, True, False)
    """

    state_type = SNCPState
    ends_with_search = False  # baselines are compared without a search

    penalty: str = "smooth"
    penalty_start: float = 1e-8
    penalty_growth: float = 1.5
    ridge: float = 1e-10
    inner_tol: float = 3e-3
    max_inner: int = 500
    feasibility_tol: float = 1e-3
    start: str = "nndsvda"
    tol: float = 3e-3
    max_iter: int = 5000
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.start, "start", STARTS)
        check_choice(self.penalty, "penalty", tuple(PENALTIES))
        check_positive(self.penalty_start, "penalty_start")
        check_growth(self.penalty_growth, "penalty_growth")
        for name in ("ridge", "inner_tol", "feasibility_tol", "tol"):
            check_range(getattr(self, name), name, low=0.0)
        check_count(self.max_inner, "max_inner", low=1)
        check_count(self.max_iter, "max_iter", low=1)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> SNCPState:
        """Return the start with unit columns, Y = A'X and the first penalty."""
        factor = first_factor(problem, X, self.start, self.seed)
        factor = factor / np.linalg.norm(factor, axis=0)
        W = times_transposed(problem, factor)
        sigma = self.penalty_start * self._unit(problem)
        return _state(problem, (factor, W, W), (np.inf, sigma), (0, 0))

    def step(self, problem: Problem, state: SNCPState) -> SNCPState:
        """Take one step in X and one in Y; increase rho if the last steps converged."""
        sigma, n_inner = state.sigma, state.n_inner + 1
        if state.n_inner >= self.max_inner or state.change <= self.inner_tol:
            sigma = min(self.penalty_growth * sigma, _MOST_PENALTY * self._unit(problem))
            n_inner = 1
        ridge = self.ridge * factor_model(problem).total / problem.shape[0]
        X = self._move_x(state, times(problem, state.Y), (sigma, ridge))
        W, gram = times_transposed(problem, X), X.T @ X
        H = 2.0 * gram + ridge * np.eye(len(gram))
        # Projected gradient step of length 1 / L in Y for 2 X'X + nu I.
        Y = np.maximum(state.Y - (state.Y @ H - 2.0 * W) / _largest(H), 0.0)
        change = relative_change(X, state.factor) + relative_change(Y, state.Y)
        progress = (state.n_iter + 1, n_inner)
        return _state(problem, (X, Y, W), (change, sigma), progress)

    def diagnostics(self, state: SNCPState) -> Diagnostics:
        """Return the penalty parameter."""
        return Diagnostics(state.sigma)

    def stop(self) -> "SNCPStop":
        """Return the stopping rule: the factors are nearly orthogonal and have converged."""
        return SNCPStop(self.feasibility_tol, self.tol, self.max_iter)

    def objective(self, problem: Problem, state: SNCPState) -> float:
        """Return the penalized objective at a state."""
        ridge = self.ridge * factor_model(problem).total / problem.shape[0]
        squares = float(np.vdot(state.factor, state.factor) + np.vdot(state.Y, state.Y))
        penalty = PENALTIES[self.penalty](state.factor)
        return state.value + state.sigma * penalty + 0.5 * ridge * squares

    def _unit(self, problem: Problem) -> float:
        n, k = problem.shape
        size = factor_model(problem).total or 1.0
        return size / n if self.penalty == "smooth" else size / float(np.sqrt(n * k))

    def _move_x(self, state: SNCPState, AY: FloatArray, weights: tuple[float, float]) -> FloatArray:
        """Return X after its proximal gradient step, given AY; ``weights`` holds rho and nu."""
        (sigma, ridge), X, k = weights, state.factor, state.factor.shape[1]
        H = 2.0 * (state.Y.T @ state.Y) + ridge * np.eye(k)
        if self.penalty == "smooth":
            # phi(X) = <X (ee' - I), X> / 2 is quadratic, so that it adds rho (ee' - I) to the
            # Hessian.
            H += sigma * (np.ones((k, k)) - np.eye(k))
            return np.maximum(X - (X @ H - 2.0 * AY) / _largest(H), 0.0)
        L = _largest(H)
        return keep_row_maxima(X - (X @ H - 2.0 * AY) / L, sigma / L)


@dataclass(frozen=True)
class SNCPStop:
    """Stop SNCP when the factors are nearly orthogonal and have converged, or at the limit."""

    feasibility_tol: float
    tol: float
    max_iter: int

    def __call__(self, state: SNCPState) -> Status:
        """Return CONVERGED if both the violation and the change are small."""
        k = state.factor.shape[1]
        if state.violation <= self.feasibility_tol * k and state.change <= self.tol:
            return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


def smooth_penalty(X: FloatArray) -> float:
    """Return half the sum over the rows of (e'x)^2 - ||x||^2, for X >= 0."""
    return 0.5 * float((X.sum(axis=1) ** 2).sum() - np.vdot(X, X))


def nonsmooth_penalty(X: FloatArray) -> float:
    """Return the sum over the rows of e'x - max x, for X >= 0."""
    return float(X.sum() - X.max(axis=1).sum())


PENALTIES = {"smooth": smooth_penalty, "nonsmooth": nonsmooth_penalty}


def keep_row_maxima(Z: FloatArray, threshold: float) -> FloatArray:
    r"""Return the proximal point of the nonsmooth penalty with X >= 0 at Z.

    Each row solves :math:`\min_{x \ge 0} \tfrac12 \|x - z\|^2 + t (e^\top x - \max_j x_j)`: the
    largest entry of z, the first one in a tie, is kept, the others are reduced by t, and negative
    entries become zero.
    """
    rows = np.arange(len(Z))
    top = Z.argmax(axis=1)
    X = np.maximum(Z - threshold, 0.0)
    X[rows, top] = np.maximum(Z[rows, top], 0.0)
    return X


def _largest(H: FloatArray) -> float:
    """Return the largest eigenvalue, or 1 if it is not positive."""
    return max(float(np.linalg.eigvalsh(H)[-1]), 0.0) or 1.0


def _state(
    problem: Problem,
    factors: tuple[FloatArray, FloatArray, FloatArray],
    sizes: tuple[float, float],
    progress: tuple[int, int],
) -> SNCPState:
    factor, Y, W = factors
    X = project_oblique_plus(factor)
    gram = factor.T @ factor
    fit = 2.0 * float(np.vdot(W, Y)) - float(np.vdot(gram, Y.T @ Y))
    return SNCPState(
        X=X,
        value=factor_model(problem).total - fit,
        violation=float(np.linalg.norm(X.T @ X - np.eye(len(gram)))),
        Y=Y,
        n_iter=progress[0],
        factor=factor,
        products=W,
        change=sizes[0],
        sigma=sizes[1],
        n_inner=progress[1],
    )
