"""Keep the columns of EP4Orth+ apart: where to begin, and how to tell that they have met.

The penalized objective of a concave f is least where all columns are one, as long as sigma is
small, and from such a point no gradient parts them: equal columns have equal gradients. So a run
must not begin there, and must notice if it gets there.
"""

from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import norm_within_range
from orthoplus.core.method import minimize_oblique
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.geometry.oblique import project_oblique_plus, riemannian_gradient
from orthoplus.geometry.stiefel import keep_largest
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.methods.search.support_search import improve_support
from orthoplus.penalty.family import Penalty, without_penalty

# Steps without penalty that show what f alone wants.
_RELAX = ProjectedGradient(max_iter=20)
# Unit columns whose inner product is above this are one column.
_COINCIDE = 0.9
# Evaluations of f for finding a feasible point with distinct columns, up to so many entries of X;
# beyond, one gradient step is rounded.
_FEASIBLE_EVAL, _SEARCHED_ENTRIES = 200, 1 << 18


class Beginning(NamedTuple):
    """What a run begins with: X^0, X^feas, the unit of sigma and sigma_0 in this unit.

    ``value_feas`` is f at X^feas, NaN if it is not known.
    """

    X: FloatArray
    X_feas: FloatArray
    unit: float
    penalty_start: float
    value_feas: float = np.nan


def begin(problem: Problem, X: FloatArray, penalty: Penalty, *, penalty_start: float) -> Beginning:
    r"""Return where to begin from X, and the size of sigma that matters for this f.

    A relaxed point :math:`\tilde X`, which is X after a few steps without penalty, has seen f:
    :math:`X^{feas}` is its rounding, and the unit of sigma is where both cost the same,

    .. math:: f(\tilde X) + \sigma\, \zeta(\tilde X) = f(X^{feas}), \qquad
              \zeta(X) = \|XV\|_F^2 - 1 .

    If f alone draws columns into one, the relaxed point does not guide the run. Then a short search
    over supports finds :math:`X^{feas}`, and the run begins there with sigma equal to the unit.

    Examples
    --------
    >>> from orthoplus.penalty.family import PowerPenalty
    >>> from orthoplus.problems import TraceMin
    >>> concave = TraceMin(-np.kron(np.eye(2), np.ones((3, 3))), 2)
    >>> X = np.array([[1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 1]]).T / 3**0.5
    >>> first = begin(concave, X, PowerPenalty(1.0), penalty_start=0.01)
    >>> columns_coincide(first.X), round(concave.value(first.X_feas), 12)
    (False, -6.0)
    """
    smooth = problem.freeze(X)
    slope, relaxed, relaxed_value = _relaxed(smooth, X)
    zeta, collapses = max(penalty.energy(relaxed) - 1.0, 0.0), columns_coincide(relaxed)
    if collapses:
        X = X_feas = _distinct_columns(problem, X)
        frozen = problem.freeze(X_feas)
        if frozen is not smooth:  # the other block is at its best for X^feas now
            smooth, relaxed_value = frozen, frozen.value(relaxed)
    else:
        X_feas = keep_largest(relaxed)
    value_feas = smooth.value(X_feas)
    rise = value_feas - relaxed_value
    first = Beginning(X, X_feas, slope, penalty_start, value_feas if smooth is problem else np.nan)
    if zeta > 0 and rise > 0:
        return first._replace(unit=rise / zeta, penalty_start=1.0 if collapses else penalty_start)
    return first


def _relaxed(smooth: Problem, X: FloatArray) -> tuple[float, FloatArray, float]:
    """Return the size of the Riemannian gradient at X, or 1; the relaxed point; and f there."""
    gradient = smooth.value_and_gradient(X)[1]
    size = norm_within_range(gradient, "The gradient") or 1.0
    slope = float(np.linalg.norm(riemannian_gradient(X, gradient))) or 1.0
    relaxed, *_ = minimize_oblique(without_penalty(smooth, unit=size), _RELAX, X)
    return slope, relaxed.X, relaxed.value


def _distinct_columns(problem: Problem, X: FloatArray) -> FloatArray:
    """Return a feasible point that has seen f, by a search over supports or by one step."""
    X = keep_largest(X)
    if X.size <= _SEARCHED_ENTRIES:
        return improve_support(problem, X, _FEASIBLE_EVAL)
    C = problem.majorizer(X)
    if C is None:
        C = -problem.value_and_gradient(X)[1]
    step = keep_largest(project_oblique_plus(C))
    return step if problem.value(step) < problem.value(X) else X


def columns_coincide(X: FloatArray, violation: float = np.inf) -> bool:
    r"""Return whether two unit columns of X are nearly the same; O(nk^2).

    A pair with inner product c adds :math:`2c/k` to the violation :math:`\|XV\|_F^2 - 1` for
    :math:`V = e/\sqrt{k}`; where it is smaller, nothing is computed.

    Examples
    --------
    >>> columns_coincide(np.eye(3, 2)), columns_coincide(np.ones((3, 2)) / 3**0.5)
    (False, True)
    """
    if violation < 2.0 * _COINCIDE / X.shape[1]:
        return False
    gram = X.T @ X
    np.fill_diagonal(gram, 0.0)
    return bool(gram.max() > _COINCIDE)
