"""Support-Set (Wang, Liu and Chen 2025): feasible descent that changes the support."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_positive, check_range
from orthoplus.core.outer_method import Diagnostics, OuterMethodBase
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import EPS, STEP_ROUNDOFFS, Carry, FloatArray, IntArray
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import (
    cover_columns,
    fit_support,
    keep_largest,
    labels_of,
    violation,
)
from orthoplus.optimality.conditions import stationarity

# Maximum number of values of eta per iteration.
_MAX_TRIALS = 40
# Range of eta, in units of the norm of the gradient.
_SMALLEST, _LARGEST = 1e-6, 1e10


class SupportSetState(NamedTuple):
    """Hold a point of S+ with its gradient, the proximal parameter and the last step.

    ``scale`` and ``size`` are the largest norm of a gradient and the largest |f| so far, including
    those at a random point of OB+.
    """

    X: FloatArray
    value: float
    violation: float
    Y: FloatArray | None
    n_iter: int
    gradient: FloatArray
    scale: float
    size: float
    eta: float
    residual: float
    n_inner: int
    keeps_support: bool
    is_stalled: bool


@dataclass(frozen=True)
class SupportSet(OuterMethodBase):
    r"""Minimize f by proximal linearized steps on a support that is updated from the gradient.

    .. math:: X^+ = \arg\min_{X \in S_+,\ \mathrm{supp}(X) \subseteq S}
              \langle \nabla f(Z), X \rangle + \tfrac\eta2 \|X - Z\|_F^2,

    where Z is the current point. Over S+ the norm of X is constant, so that the minimizer has a
    closed form: with :math:`C = \eta Z - \nabla f(Z)`, each column is the normalized positive part
    of C on its rows.

    Parameters
    ----------
    moves : {"all", "zero"}
        The support S to try. With "all", each row moves to the column where C increases
        :math:`\sum_j \|c_j^+\|` most, to first order. With "zero", only zero rows move, to the
        column where f decreases fastest. If a step of the first kind is rejected, one of the second
        kind follows.
    eta_start : float
        The first eta, in units of :math:`\|\nabla f\|_F / \|X\|_F`. Later ones are
        Barzilai-Borwein quotients.
    growth : float
        Factor of eta after a rejected step.
    decrease : float
        A step D is accepted if f decreases by :math:`\tfrac c2 \eta \|D\|^2` with this c.
    tol : float
        Stop if the residual of the first-order conditions (2.6), relative to the largest gradient
        so far, is at most this and a step kept the support or no step decreases f.
    max_iter : int
        Maximum number of iterations.

    Notes
    -----
    Wang, Liu and Chen, *A support-set algorithm for optimization problems with nonnegative and
    orthogonal constraints*, arXiv 2511.03443 (2025). Only the abstract and summaries of the article
    were available: the model, the closed form on a support and the order of the two stages are
    theirs. The update of the support for nonzero rows, the rule for eta and all defaults are ours,
    and their results were not reproduced. Every iterate is in S+, and f never increases except for
    rounding. For eta above the Lipschitz constant of the gradient, a step on the current support is
    always accepted, and D = 0 only at a stationary point. An iteration costs one gradient of f, a
    value for each rejected eta, and O(nk).

    Examples
    --------
    >>> import orthoplus as op
    >>> problem = op.problems.Projection(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]]))
    >>> op.solve(problem, method=SupportSet()).X.round(3)
    array([[0.6, 0. ],
           [0.8, 0. ],
           [0. , 1. ]])
    """

    state_type = SupportSetState
    ends_with_search = False  # baselines are compared without a search

    moves: str = "all"
    eta_start: float = 1.0
    growth: float = 2.0
    decrease: float = 1e-4
    tol: float = 1e-6
    max_iter: int = 1000

    def __post_init__(self) -> None:
        check_choice(self.moves, "moves", ("all", "zero"))
        check_positive(self.eta_start, "eta_start")
        check_range(self.growth, "growth", low=1.0 + 1e-6)
        check_range(self.decrease, "decrease", low=0.0, high=1.0)
        check_range(self.tol, "tol", low=0.0)
        check_count(self.max_iter, "max_iter", low=1)

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> SupportSetState:
        """Return the state at the rounded start with its gradient."""
        X = keep_largest(X.astype(np.float64))
        value, gradient = problem.value_and_gradient(X)
        # At a minimizer the gradient may be pure rounding: a random point gives its typical size.
        elsewhere = random_oblique_plus(*problem.shape, np.random.default_rng(0))
        size, there = problem.value_and_gradient(elsewhere)
        scale = max(float(np.linalg.norm(gradient)), float(np.linalg.norm(there)))
        sizes = (scale, abs(float(size)), self.eta_start * (scale / np.sqrt(X.shape[1]) or 1.0))
        return _state((X, value, gradient), sizes, (0, 0), keeps_support=False)

    def step(self, problem: Problem, state: SupportSetState) -> SupportSetState:
        """Take the first accepted step as eta grows, on a new support, then on the old one."""
        eta = state.eta
        for trial in range(1, _MAX_TRIALS + 1):
            C = eta * state.X - state.gradient
            for X in self._candidates(state.X, C):
                accepted = self._judge(problem, state, X, (eta, trial))
                if accepted is not None:
                    return accepted
            eta *= self.growth
        return state._replace(n_iter=state.n_iter + 1, n_inner=_MAX_TRIALS, is_stalled=True)

    def diagnostics(self, state: SupportSetState) -> Diagnostics:
        """Return the number of values of eta that were tried."""
        return Diagnostics(n_inner=state.n_inner)

    def feasible_point(self, state: SupportSetState) -> FloatArray:
        """Return X, which is in S+."""
        return state.X

    def stop(self) -> "SupportSetStop":
        """Return the stopping rule: a stationary point, no decreasing step, or the limit."""
        return SupportSetStop(self.tol, self.max_iter)

    def _candidates(self, X: FloatArray, C: FloatArray) -> list[FloatArray]:
        """Return the minimizers on the supports to try, in order."""
        k = X.shape[1]
        own = labels_of(X)
        rows = np.flatnonzero(own < 0)
        own[rows] = C[rows].argmax(axis=1)
        tried = [own]
        if self.moves == "all":
            new = _reassign(C, own)
            if (new != own).any() and cover_columns(new, k):
                tried.insert(0, new)
        return [fit_support(labels, C[np.arange(len(C)), labels], k) for labels in tried]

    def _judge(
        self, problem: Problem, state: SupportSetState, X: FloatArray, control: tuple[float, int]
    ) -> SupportSetState | None:
        """Return the next state at X if f decreases enough there, otherwise None.

        If the required decrease is below the rounding of f, the residual has to decrease instead.
        """
        eta, trial = control
        D = X - state.X
        if not D.any():
            return None
        fall = 0.5 * self.decrease * eta * float(np.vdot(D, D))
        # Differences of f below this are rounding.
        noise = STEP_ROUNDOFFS * EPS * state.size
        change = problem.value(X) - state.value
        is_lower = change < -max(fall, noise)
        if not (is_lower or (fall <= noise and abs(change) <= noise)):
            return None
        after = self._next_state(problem, state, X, trial)
        return after if is_lower or after.residual < state.residual else None

    def _next_state(
        self, problem: Problem, state: SupportSetState, X: FloatArray, trial: int
    ) -> SupportSetState:
        value, gradient = problem.value_and_gradient(X)
        D, change = X - state.X, gradient - state.gradient
        eta = state.eta
        # The Barzilai-Borwein quotient |<D, G^+ - G>| / <D, D>, unless the change is rounding.
        if np.linalg.norm(change) > STEP_ROUNDOFFS * EPS * state.scale:
            eta = abs(float(np.vdot(D, change))) / float(np.vdot(D, D))
        unit = state.scale / np.sqrt(X.shape[1])
        sizes = (state.scale, state.size, min(max(eta, _SMALLEST * unit), _LARGEST * unit))
        progress = (state.n_iter + 1, trial)
        keeps = bool(((X > 0) == (state.X > 0)).all())
        return _state((X, value, gradient), sizes, progress, keeps_support=keeps)


@dataclass(frozen=True)
class SupportSetStop:
    """Stop Support-Set at a stationary point, if no step decreases f, or at the limit."""

    tol: float
    max_iter: int

    def __call__(self, state: SupportSetState) -> Status:
        """Return CONVERGED if the residual is small and the support no longer changes."""
        is_small = state.residual <= self.tol * state.scale
        if is_small and (state.keeps_support or state.is_stalled):
            return Status.CONVERGED
        if state.is_stalled:
            return Status.LINE_SEARCH_FAILED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


def _state(
    at: tuple[FloatArray, float, FloatArray],
    sizes: tuple[float, float, float],
    progress: tuple[int, int],
    *,
    keeps_support: bool,
) -> SupportSetState:
    X, value, gradient = at
    return SupportSetState(
        X=X,
        value=float(value),
        violation=violation(X),
        Y=None,
        n_iter=progress[0],
        gradient=gradient,
        scale=max(sizes[0], float(np.linalg.norm(gradient))),
        size=max(sizes[1], abs(float(value))),
        eta=sizes[2],
        residual=stationarity(X, gradient),
        n_inner=progress[1],
        keeps_support=keeps_support,
        is_stalled=False,
    )


def _reassign(C: FloatArray, labels: IntArray) -> IntArray:
    """Return the column of each row whose norm its entry of C increases most, to first order.

    The increase is the square of the positive entry divided by the current norm of the column. A
    row without a positive entry does not move.
    """
    positive = np.maximum(C, 0.0) ** 2
    rows = np.arange(len(C))
    sums = np.bincount(labels, positive[rows, labels], minlength=C.shape[1])
    # d |c_j^+| = c_ij^2 / |c_j^+| to first order, up to a factor; empty columns use the largest
    # norm.
    priced = positive / np.sqrt(np.where(sums > 0, sums, sums.max(initial=0.0) or 1.0))
    best = priced.argmax(axis=1)
    return np.where(priced[rows, best] > priced[rows, labels], best, labels)
