"""The nonconvex projected gradient method over OB+, eq. (5.3)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.checks import check_choice, check_positive, check_range
from orthoplus.core.errors import InputError
from orthoplus.core.method import Known, StopsOverOblique, WarmStart
from orthoplus.core.problem import Problem
from orthoplus.core.types import ROUNDOFF, Carry, FloatArray
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.kernels.reference.oblique import SQUARES_MAX, SQUARES_MIN
from orthoplus.linalg.workspace import empty_like
from orthoplus.penalty.penalized import Evaluation, Penalized, as_penalized

# Maximum number of step lengths per line search.
_MAX_BACKTRACKS = 60
# A line search fails once the step is at most this many roundings per entry: shorter steps change
# the objective by rounding only, whatever their direction.
_MIN_STEP_ROUNDOFFS = 32


class GradientState(NamedTuple):
    """Hold everything the next step needs; value to energy are the `Evaluation` at X."""

    X: FloatArray
    value: float
    gradient: FloatArray
    weight: float
    energy: float
    alpha: float
    reference: float
    mass: float
    step_length: float
    stationarity: float
    n_iter: int
    is_stalled: bool


@dataclass(frozen=True)
class ProjectedGradient(StopsOverOblique):
    r"""Projected gradient with Barzilai-Borwein steps and a nonmonotone search.

    .. math:: X^{l+1} \in \Pi_{\mathcal{OB}_+}(X^l - \alpha^l \nabla h(X^l)),
              \qquad S = X^l - X^{l-1},\ Z = \nabla h(X^l) - \nabla h(X^{l-1}).

    Parameters
    ----------
    step_rule : {"long", "short", "alternating", "fixed"}
        :math:`\langle S,S\rangle / |\langle S,Z\rangle|`,
        :math:`|\langle S,Z\rangle| / \langle Z,Z\rangle`, the two in turn, or ``step_fraction``
        over the Lipschitz constant of the gradient.
    first_step : float, optional
        First step length. By default 1/L if the problem provides L, otherwise a step that moves X
        by about its own norm.
    step_min, step_max : float
        Range of the step lengths.
    step_unit : {"one", "penalty"}
        Unit of the step lengths. With "one", ``first_step`` is absolute and the range is in units
        of one over the size of a gradient (``unit`` of `Penalized`). With "penalty", all three are
        multiples of 1/L, where L = 2 sigma phi' is the Lipschitz constant of the penalty's gradient
        for p = 1 and q = 2, and the step is carried over to the next sigma as such a multiple.
        "penalty" requires V = e / sqrt(k).
    step_fraction : float
        Step length in units of 1/L for ``step_rule="fixed"``. The method converges for values below
        1.
    memory : float
        Weight of the past in the reference value of Zhang and Hager; 0 gives a monotone search.
    decrease, backtrack : float
        A step is accepted if ``h(X+) <= reference - decrease / (2 alpha) ||X+ - X||^2``;
        otherwise alpha is multiplied by ``backtrack``.
    search : bool
        Whether to run a line search. If False, every step is accepted, as in the paper's
        experiments with K-indicators, and the objective may increase.
    criterion : {"stationarity", "step"}
        The quantity that ``tol`` bounds: ``||min(X, grad h)||`` or the length of the last step.
    tol, min_iter, max_iter
        Stopping criteria. Inside EP4Orth, the tolerance follows its schedule.

    Notes
    -----
    A step takes two fused passes over X: one for the gradient step, clipping and column norms, one
    for normalization and all inner products of the step-size rule. Every accepted value is at most
    the first one, so the descent condition (4.2) holds. Four n x k arrays are alive during a step.
    A whole run of EP4Orth+ with this method holds at most 14 besides the input, the problem's own
    temporaries included (measured: 7 for a linear f, 13 for orthogonal NMF, whose columns have to
    be separated at the beginning; ``tests/run/test_memory.py``).

    Examples
    --------
    >>> from orthoplus import problems
    >>> from orthoplus.core.method import minimize_oblique
    >>> C = np.array([[3.0, 1.0], [4.0, -1.0]])
    >>> state, *_ = minimize_oblique(problems.Projection(C), ProjectedGradient(), np.eye(2))
    >>> state.X.round(6)  # over OB+ the columns do not see one another
    array([[0.6, 1. ],
           [0.8, 0. ]])
    """

    step_rule: str = "long"
    first_step: float | None = None
    step_min: float = 1e-10
    step_max: float = 1e10
    step_unit: str = "one"
    step_fraction: float = 0.99
    memory: float = 0.85
    decrease: float = 1e-4
    backtrack: float = 0.5
    search: bool = True
    criterion: str = "stationarity"
    tol: float = 1e-7
    min_iter: int = 0
    max_iter: int = 1000

    def __post_init__(self) -> None:
        check_choice(self.step_rule, "step_rule", ("long", "short", "alternating", "fixed"))
        check_choice(self.step_unit, "step_unit", ("one", "penalty"))
        check_positive(self.step_min, "step_min")
        check_positive(self.step_max, "step_max", finite=False)
        check_range(self.step_max, "step_max", low=self.step_min)
        check_positive(self.step_fraction, "step_fraction")
        if self.first_step is not None:
            check_positive(self.first_step, "first_step")
        check_range(self.memory, "memory", low=0.0, high=1.0)
        check_range(self.decrease, "decrease", low=0.0, high=1.0)
        check_range(self.backtrack, "backtrack", low=1e-3, high=0.99)
        self.check_stop()

    def carry(self, state: GradientState) -> Carry:
        """Return the step length for the next penalty parameter, unless the rule is "fixed"."""
        if self.step_rule == "fixed":
            return {}
        return {"alpha": state.alpha / self._unit(state.weight)}

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> GradientState:
        """Return the first state at X, a point of OB+; ``carry`` gives the first step length."""
        return self.start(problem, X, WarmStart(carry or {}))

    def start(self, problem: Problem, X: FloatArray, warm: WarmStart) -> GradientState:
        """Return the first state at X, without an evaluation if f and its gradient are known."""
        problem = as_penalized(problem)
        here = problem.evaluate(X, known=warm.known)
        if "alpha" in warm.carry:
            # A carried step length is stored in the unit of the options, see `carry`.
            alpha = warm.carry["alpha"] * self._unit(here.weight)
        else:
            alpha = self._first_step(problem, X, here)
        residual = self._stationarity(problem, X, here)
        return GradientState(X, *here, alpha, here.value, 1.0, np.inf, residual, 0, False)

    def known(self, problem: Problem, state: GradientState) -> Known:
        """Return f at X; its gradient is known only if V = e / sqrt(k)."""
        problem = as_penalized(problem)
        # For V = e / sqrt(k) the penalty's gradient is a multiple of the row means and is kept
        # apart as ``weight``; otherwise the gradient contains it.
        gradient = state.gradient if problem.penalty.V is None else None
        return problem.known(state.value, gradient, state.energy)

    def unmet_conditions(self) -> tuple[str, ...]:
        """Return how a run may violate (4.1), and (4.2) if it does not search."""
        unmet = () if self.search else ("has search=False and need not descend, (4.2)",)
        return super().unmet_conditions() + unmet

    def step(self, problem: Problem, state: GradientState) -> GradientState:
        """Perform one projected gradient step with line search, eq. (5.3)."""
        problem = as_penalized(problem)
        # X^{l+1}, a projection of X^l - alpha^l grad h(X^l).
        found = self._line_search(problem, state)
        if found is None:
            return state._replace(is_stalled=True, n_iter=state.n_iter + 1)
        X, here, sums = found
        # alpha^{l+1} by Barzilai and Borwein.
        alpha = state.alpha
        if self.step_rule != "fixed":
            alpha = self._next_step(problem, state, X, here, sums)
        # Zhang and Hager: a running mean of the values, never above the first one.
        # Q_{l+1} = eta Q_l + 1 and C_{l+1} = (eta Q_l C_l + h(X^{l+1})) / Q_{l+1}.
        past = self.memory * state.mass
        reference = max((past * state.reference + here.value) / (past + 1.0), here.value)
        residual, length = self._stationarity(problem, X, here), sums[0] ** 0.5
        # Positional arguments: keyword arguments cost noticeable time for small problems.
        return GradientState(
            X, *here, alpha, reference, past + 1.0, length, residual, state.n_iter + 1, False
        )

    def _line_search(
        self, problem: Penalized, state: GradientState
    ) -> tuple[FloatArray, Evaluation, tuple[float, ...]] | None:
        """Return the next point, its evaluation and the step's sums; None if no step descends."""
        alpha, T = state.alpha, None
        for _ in range(_MAX_BACKTRACKS):
            # T is reused as the buffer of all trials; sums[0] is ||T - X||^2.
            T, sums = _projected_step(state, alpha, T)
            step_sq = sums[0]
            if (
                alpha < state.alpha
                and step_sq <= T.shape[1] * (_MIN_STEP_ROUNDOFFS * ROUNDOFF[T.dtype]) ** 2
            ):
                return None
            here = problem.evaluate(T, sums[1])
            # Sufficient decrease with respect to the reference value of Zhang and Hager, up to
            # rounding.
            excess = here.value - state.reference + self.decrease / (2 * alpha) * step_sq
            slack = problem.rounding_slack(state.reference, T.dtype)
            if excess <= slack or not self.search:
                return T, here, sums
            alpha *= self.backtrack
        return None

    def _next_step(
        self,
        problem: Penalized,
        old: GradientState,
        X: FloatArray,
        new: Evaluation,
        sums: tuple[float, ...],
    ) -> float:
        """Return the Barzilai-Borwein step from the last S and Z, in [step_min, step_max]."""
        step_sq, _, cross_new, cross_old = sums
        if step_sq == 0.0:
            return old.alpha
        # Safeguard the quotient, which may be tiny, huge or infinite.
        low, high = self._step_range(problem, new.weight)
        use_short = self.step_rule == "short" or (
            self.step_rule == "alternating" and old.n_iter % 2 == 1
        )
        is_linear = problem.problem.lipschitz == 0.0 and problem.penalty.V is None
        if is_linear and not use_short:
            # f is linear: all of Z comes from the penalty, and the last pass has it already.
            curvature = abs(new.weight * cross_new - old.weight * cross_old)
            alpha = step_sq / curvature if curvature > 0 else np.inf
        else:
            curvature, change_sq = kernels.secant_products(
                (X, new.gradient, new.weight), (old.X, old.gradient, old.weight)
            )
            # Long step <S, S> / |<S, Z>|, short step |<S, Z>| / <Z, Z>.
            above, below = (abs(curvature), change_sq) if use_short else (step_sq, abs(curvature))
            alpha = above / below if below > 0 else np.inf
        return min(max(alpha, low), high)

    def _first_step(self, problem: Penalized, X: FloatArray, here: Evaluation) -> float:
        if self.step_rule == "fixed":
            return self._fixed_step(problem)
        if self.first_step is not None:
            return self.first_step * self._unit(here.weight)
        if problem.lipschitz:
            return 1.0 / problem.lipschitz
        # A step of length sqrt(k) / |grad| moves X by about its norm sqrt(k).
        size = float(np.linalg.norm(here.gradient)) + abs(here.weight)
        return float(np.sqrt(X.shape[1])) / size if size > 0 else 1.0

    def _unit(self, weight: float) -> float:
        """Return the unit of the step lengths in the options."""
        return 1.0 / weight if self.step_unit == "penalty" and weight > 0 else 1.0

    def _step_range(self, problem: Penalized, weight: float) -> tuple[float, float]:
        """Return the smallest and largest step, which scale inversely with f."""
        unit = self._unit(weight) if self.step_unit == "penalty" else 1.0 / problem.unit
        return self.step_min * unit, self.step_max * unit

    def _fixed_step(self, problem: Penalized) -> float:
        lipschitz = problem.lipschitz
        if lipschitz is None:
            raise InputError(
                '`step_rule="fixed"` needs the Lipschitz constant of the gradient. '
                'Give the problem a `lipschitz` property, or use step_rule="long".'
            )
        return self.step_fraction / lipschitz if lipschitz > 0 else self.step_max / problem.unit

    def _stationarity(self, problem: Penalized, X: FloatArray, at: Evaluation) -> float:
        """Return the residual ||min(X, grad h)||, or NaN if the criterion is the step length."""
        return problem.stationarity(X, at) if self.criterion == "stationarity" else np.nan


def _projected_step(
    state: GradientState, alpha: float, spare: FloatArray | None
) -> tuple[Any, tuple[float, ...]]:
    """Write the next point to ``spare``; return it with the sums of the step."""
    X = state.X
    T = empty_like(X) if spare is None else spare
    sums = kernels.projected_step_into(X, state.gradient, state.weight, alpha, T)
    return T, _careful_step_into(state, alpha, T) if sums is None else sums


def _careful_step_into(
    state: GradientState, alpha: float, T: FloatArray
) -> tuple[float, float, float, float]:
    """Take a projected step when a column becomes zero or its norm overflows.

    The columns concerned are projected separately with their own scaling. Otherwise this function
    is the same as `kernels.projected_step_into`.
    """
    X = state.X
    squares = kernels.gradient_step_into(X, state.gradient, state.weight, alpha, T)
    # Columns whose squared norm underflows, overflows or is zero.
    odd = np.flatnonzero(~((squares >= SQUARES_MIN) & (squares <= SQUARES_MAX)))
    mean = X.mean(axis=1, keepdims=True, dtype=np.float64)
    # The gradient of the penalty for V = e / sqrt(k) is the same multiple of the row mean in every
    # column.
    gradient = state.gradient[:, odd].astype(np.float64) + state.weight * mean
    T[:, odd] = project_oblique_plus(X[:, odd] - alpha * gradient)
    squares[odd] = 1.0
    return kernels.normalize_step_into(T, 1.0 / np.sqrt(squares), X)
