"""Proximal alternating linearized minimization for two blocks over OB+ x Y, section 4."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np

from orthoplus.core.checks import check_type
from orthoplus.core.errors import InputTypeError
from orthoplus.core.method import ObliqueState, StopsOverOblique
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.penalty.penalized import Penalized, as_penalized
from orthoplus.problems.two_block import TwoBlock


class AlternatingState(NamedTuple):
    """Hold both blocks and everything the next alternation needs."""

    X: FloatArray
    Y: FloatArray
    value: float
    beta: float  # 0 before the first step in Y
    carry_x: Carry
    step_length: float
    stationarity: float
    n_iter: int
    is_stalled: bool


@dataclass(frozen=True)
class PALM(StopsOverOblique):
    r"""Proximal alternating linearized minimization over OB+ x Y, section 4.

    .. math:: Y^{l+1} \in \Pi_{\mathcal{Y}}(Y^l - \beta \nabla_Y f(X^l, Y^l)), \qquad
              X^{l+1} \in \Pi_{\mathcal{OB}_+}(X^l - \alpha \nabla_X P(X^l, Y^{l+1})).

    The Y-step is the closed-form minimizer if the problem has one; otherwise beta is found by
    backtracking. The X-step is one step of ``x_step``. The problem must be a `TwoBlock` or
    `KIndicators`.

    Parameters
    ----------
    x_step : ProjectedGradient
        Options of the X-step.
    criterion : {"stationarity", "step"}
        "stationarity" bounds both ``||min(X, grad_X P)||`` and ``dist(Y, projection of Y - grad_Y
        P)``, with both gradients in units of the first one; "step" bounds the longer of the two
        steps.
    tol, min_iter, max_iter
        Stopping criteria. Inside EP4Orth, the tolerance follows its schedule.

    Notes
    -----
    An alternation costs one evaluation of f per trial step, plus O(nk).

    References
    ----------
    J. Bolte, S. Sabach and M. Teboulle, *Proximal alternating linearized minimization for nonconvex
    and nonsmooth problems*, Math. Program. 146 (2014).

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 0.1], [6.0, 0.2]])
    >>> def fit(X, Y):
    ...     R = X @ Y.T - A
    ...     return np.vdot(R, R), 2 * R @ Y, 2 * R.T @ X
    >>> problem = op.problems.TwoBlock(
    ...     fit, (4, 2), np.ones((2, 2)), project_y=lambda Y: np.maximum(Y, 0))
    >>> result = op.solve(problem, method=op.EP4Orth(inner=PALM()))
    >>> result.success, bool(result.Y.min() >= 0)
    (True, True)
    """

    x_step: ProjectedGradient = field(default_factory=ProjectedGradient)
    criterion: str = "stationarity"
    tol: float = 1e-7
    min_iter: int = 1
    max_iter: int = 200

    def __post_init__(self) -> None:
        check_type(self.x_step, "x_step", ProjectedGradient)
        self.check_stop()

    def carry(self, state: AlternatingState) -> Carry:
        """Return the second block and both step lengths for the next penalty parameter."""
        return {"Y": state.Y, "beta": state.beta, "x": state.carry_x}

    @property
    def moves_second_block(self) -> bool:
        """Return True: X and Y are updated in turn."""
        return True

    def second_block(self, state: AlternatingState) -> FloatArray:
        """Return the second block Y^l."""
        return state.Y

    def unmet_conditions(self) -> tuple[str, ...]:
        """Return how a run may violate (4.1), and (4.2) if the X step does not search."""
        unmet = () if self.x_step.search else ("has search=False and need not descend, (4.2)",)
        return super().unmet_conditions() + unmet

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> AlternatingState:
        """Return the first state at X; Y is carried over or is the start of the problem."""
        joint = _joint(as_penalized(problem))
        carry = carry or {"Y": joint.Y0, "beta": 0.0}
        Y, beta = carry["Y"], carry["beta"]
        value = replace(as_penalized(problem), problem=joint.at(Y)).value(X)
        return AlternatingState(X, Y, value, beta, carry.get("x", {}), np.inf, np.inf, 0, False)

    def step(self, problem: Problem, state: AlternatingState) -> AlternatingState:
        """Perform one Y-step, then one X-step, as in eqs. (6.6a) and (6.6b)."""
        model = as_penalized(problem)
        joint = _joint(model)
        # Y^{l+1} at X^l, then X^{l+1} at Y^{l+1}.
        Y, beta = self._move_y(joint, state)
        inner, carry_x = self._move_x(replace(model, problem=joint.at(Y)), state)
        moved_x = 0.0 if inner.is_stalled else inner.step_length
        # The criterion "step" bounds the longer of the two moves.
        moved = max(moved_x, float(np.linalg.norm(Y - state.Y)))
        return AlternatingState(
            X=inner.X,
            Y=Y,
            value=inner.value,
            beta=beta,
            carry_x=carry_x,
            step_length=moved,
            stationarity=self._stationarity(model, inner, Y),
            n_iter=state.n_iter + 1,
            is_stalled=inner.is_stalled and moved == 0.0,
        )

    def _stationarity(self, model: Penalized, inner: ObliqueState, Y: FloatArray) -> float:
        """Return the residual of both blocks, or NaN if the criterion is the step length."""
        if self.criterion == "step":
            return np.nan
        return max(inner.stationarity, _joint(model).y_residual(inner.X, Y, model.unit))

    def _move_y(self, joint: TwoBlock, state: AlternatingState) -> tuple[FloatArray, float]:
        if joint.minimize_y is not None:
            return joint.second_block(state.X), state.beta
        return joint.y_step(state.X, state.Y, state.beta)

    def _move_x(self, in_x: Penalized, state: AlternatingState) -> tuple[ObliqueState, Carry]:
        # One projected gradient step; its length is carried over to the next alternation.
        inner = self.x_step.step(in_x, self.x_step.init(in_x, state.X, state.carry_x))
        return inner, self.x_step.carry(inner)


def _joint(model: Penalized) -> TwoBlock:
    """Return the two-block problem under the penalty."""
    joint = model.problem
    if not hasattr(joint, "y_step"):
        raise InputTypeError(
            f"An alternating method needs a TwoBlock problem, got "
            f"{type(joint.unwrapped).__name__}. Use ProjectedGradient or RegularizedNewton for a "
            f"function of X alone."
        )
    return cast("TwoBlock", joint)
