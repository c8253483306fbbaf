"""The penalized problem over OB+: an objective plus a penalty, again a `Problem`."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.method import Known
from orthoplus.core.problem import Problem
from orthoplus.core.types import ROUNDOFF, STEP_ROUNDOFFS, FloatArray, Linear
from orthoplus.penalty.family import Penalty, PowerPenalty


class Evaluation(NamedTuple):
    """An objective at one point, with the gradient ``gradient + weight * rowmean(X)``.

    ``energy`` is ||XV||_F^2, or NaN if no penalty needs it.

    Examples
    --------
    >>> from orthoplus import problems
    >>> h = Penalized(problems.TraceMin(np.eye(3), 2), PowerPenalty(1.0))
    >>> here = h.evaluate(np.eye(3, 2))
    >>> here.value, here.weight
    (2.0, 2.0)
    """

    value: float
    gradient: FloatArray
    weight: float
    energy: float


@dataclass(frozen=True)
class Penalized(Problem):
    """The penalized problem h = f + penalty over OB+, (1.8).

    Parameters
    ----------
    problem : Problem
        The smooth f.
    penalty : Penalty
        The penalty; sigma = 0 leaves f unchanged.
    unit : float
        Scale of the gradient in the stationarity measure, and of the objective in the rounding
        tolerance of line searches.

    Examples
    --------
    >>> from orthoplus import problems
    >>> h = Penalized(problems.TraceMin(np.eye(3), 2), PowerPenalty(1.0))
    >>> X = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    >>> round(h.value(X), 12)  # tr X'X = 2, and 1 for two equal columns
    3.0
    """

    problem: Problem
    penalty: Penalty
    unit: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape of the problem without the penalty."""
        return self.problem.shape

    @property
    def unwrapped(self) -> Problem:
        """Return the problem without the penalty."""
        return self.problem.unwrapped

    def evaluate(
        self, X: FloatArray, energy: float | None = None, known: Known | None = None
    ) -> Evaluation:
        """Return the value and the split gradient at X.

        Pass ``energy`` if ||XV||^2 is known for V = e / sqrt(k), and ``known`` if f was evaluated
        at X before.
        """
        if known is None or known.gradient is None:
            value, G = self.problem.value_and_gradient(X)
        else:
            value, G, energy = known.value, known.gradient, known.energy
        penalty = self.penalty
        sigma, is_even = penalty.sigma, penalty.V is None
        if sigma == 0.0:
            return Evaluation(value, G, 0.0, np.nan if energy is None else energy)
        if energy is None or not is_even:
            energy = penalty.energy(X)
        phi, slope, _ = penalty.profile(energy)
        value, weight = value + sigma * phi, 2.0 * sigma * slope
        # For V = e / sqrt(k), XVV' has equal columns, the row means of X: return only their weight.
        if is_even:
            return Evaluation(value, G, weight, energy)
        return Evaluation(value, G + weight * penalty.mix(X), 0.0, energy)

    def rounding_slack(self, value: float, dtype: np.dtype[Any]) -> float:
        """Return the increase of h that is attributed to rounding, near this value of h."""
        return STEP_ROUNDOFFS * ROUNDOFF[dtype] * max(self.unit, abs(value))

    def known(self, value: float, gradient: FloatArray | None, energy: float) -> Known:
        """Return f at a point, derived from the value of h and ||XV||^2 there."""
        f = value - self.penalty.sigma * self.penalty.profile(energy)[0]
        return Known(f, gradient, energy)

    def value_known(self, known: Known) -> float:
        """Return h at a point where f is known."""
        return known.value + self.penalty.sigma * self.penalty.profile(known.energy)[0]

    def value(self, X: FloatArray) -> float:
        """Return h(X) = f(X) + penalty(X)."""
        return self.problem.value(X) + self.penalty.value(X)

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return h(X) and grad f + weight rowmean(X), the dense gradient."""
        value, G, weight, _ = self.evaluate(X)
        return value, G + weight * X.mean(axis=1, keepdims=True) if weight else G

    def hessian(self, X: FloatArray) -> Linear:
        """Return the sum of the Hessians of f and of the penalty at X."""
        own, penalty = self.problem.hessian(X), self.penalty.hessian(X)
        return own if self.penalty.sigma == 0.0 else lambda D: own(D) + penalty(D)

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return h''(X)[D]; use `hessian` for several products at one X."""
        return self.hessian(X)(D)

    def hessian_factor(self, X: FloatArray) -> FloatArray | None:
        """Return the sum of both factors, or None unless f and the penalty have one."""
        own = self.problem.hessian_factor(X)
        if own is None or self.penalty.sigma == 0.0:
            return own
        added = self.penalty.hessian_factor(X)
        return None if added is None else own + added

    def stationarity(self, X: FloatArray, at: Evaluation) -> float:
        """Return ||min(X, grad h(X) / unit)||_F, eq. (4.1)."""
        G, weight = at.gradient, at.weight
        multiplier = kernels.multipliers(X, G, weight)
        return kernels.stationarity_sq(X, G, weight, multiplier, self.unit) ** 0.5

    @property
    def lipschitz(self) -> float | None:
        """Return the sum of the Lipschitz constants of f and of the penalty, or None."""
        own = self.problem.lipschitz
        if own is None or self.penalty.sigma == 0.0:
            return own
        added = self.penalty.smoothness(self.shape[1])
        return None if added is None else own + added


def as_penalized(problem: Problem) -> Penalized:
    """Return the problem if it is penalized already, else wrap it with sigma = 0.

    Examples
    --------
    >>> from orthoplus import problems
    >>> as_penalized(problems.TraceMin(np.eye(3), 2)).penalty.sigma
    0.0
    """
    return problem if isinstance(problem, Penalized) else without_penalty(problem)


def without_penalty(problem: Problem, *, unit: float = 1.0) -> Penalized:
    """Wrap f without a penalty, as the methods expect it; ``unit`` is the scale of its gradient.

    Examples
    --------
    >>> from orthoplus import problems
    >>> without_penalty(problems.TraceMin(np.eye(3), 2)).value(np.eye(3, 2))
    2.0
    """
    return Penalized(problem, PowerPenalty(0.0), unit)
