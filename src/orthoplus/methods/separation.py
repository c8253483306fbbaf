"""Keep the columns of EP4Orth+ apart: choose the start, and detect coinciding columns.

While sigma is small, the penalized objective of a concave f is smallest if all columns coincide. No
gradient separates them again, because equal columns have equal gradients. So a run must not start
at such a point, and must notice if it reaches one.
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
from orthoplus.penalty.family import Penalty
from orthoplus.penalty.penalized import without_penalty

# Steps without penalty that show where f alone leads.
_RELAX = ProjectedGradient(max_iter=20)
# Unit columns coincide if their inner product exceeds this.
_COINCIDE = 0.9
# Evaluations of f to find a feasible point with distinct columns, for X with at most this many
# entries. For larger X, one gradient step is rounded.
_FEASIBLE_EVAL, _SEARCHED_ENTRIES = 200, 1 << 18


class Beginning(NamedTuple):
    """Hold the start of a run: X^0, X^feas, the unit of sigma, and sigma_0 in this unit.

    ``value_feas`` is f at X^feas, or NaN if it is unknown.
    """

    X: FloatArray
    X_feas: FloatArray
    unit: float
    penalty_start: float
    value_feas: float = np.nan


def begin(problem: Problem, X: FloatArray, penalty: Penalty, *, penalty_start: float) -> Beginning:
    r"""Return the start of a run from X, with the relevant size of sigma for this f.

    The relaxed point :math:`\tilde X` is X after a few steps without penalty, :math:`X^{feas}` is
    its rounding, and the unit of sigma is where both have the same penalized objective,

    .. math:: f(\tilde X) + \sigma\, \zeta(\tilde X) = f(X^{feas}), \qquad
              \zeta(X) = \|XV\|_F^2 - 1 .

    If columns of the relaxed point coincide, it cannot guide the run. Then a short search over
    supports finds :math:`X^{feas}`, and the run starts there with sigma equal to the unit.

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
    # If unpenalized steps already merge columns, the penalty must act from the start.
    zeta, collapses = max(penalty.energy(relaxed) - 1.0, 0.0), columns_coincide(relaxed)
    if collapses:
        X = X_feas = _distinct_columns(problem, X)
        frozen = problem.freeze(X_feas)
        if frozen is not smooth:  # the other block is now optimal for X^feas
            smooth, relaxed_value = frozen, frozen.value(relaxed)
    else:
        X_feas = keep_largest(relaxed)
    value_feas = smooth.value(X_feas)
    # The unit of sigma solves f(relaxed) + sigma zeta = f(X^feas), that is rise / zeta.
    rise = value_feas - relaxed_value
    first = Beginning(X, X_feas, slope, penalty_start, value_feas if smooth is problem else np.nan)
    if zeta > 0 and 0 < rise < np.inf:  # f may be infinite at X^feas, as a divergence is
        return first._replace(unit=rise / zeta, penalty_start=1.0 if collapses else penalty_start)
    return first


def _relaxed(smooth: Problem, X: FloatArray) -> tuple[float, FloatArray, float]:
    """Return the norm of the Riemannian gradient at X (or 1), the relaxed point, and f there."""
    gradient = smooth.value_and_gradient(X)[1]
    size = norm_within_range(gradient, "The gradient") or 1.0
    # The fallback unit of sigma if the relaxed point is feasible or no better.
    slope = float(np.linalg.norm(riemannian_gradient(X, gradient))) or 1.0
    relaxed, *_ = minimize_oblique(without_penalty(smooth, unit=size), _RELAX, X)
    return slope, relaxed.X, relaxed.value


def _distinct_columns(problem: Problem, X: FloatArray) -> FloatArray:
    """Return a feasible point with low f, by a search over supports or one gradient step."""
    X = keep_largest(X)
    if X.size <= _SEARCHED_ENTRIES:
        return improve_support(problem, X, _FEASIBLE_EVAL)
    # Without a majorizer, one projected gradient step with an infinite step length.
    C = problem.majorizer(X)
    if C is None:
        C = -problem.value_and_gradient(X)[1]
    step = keep_largest(project_oblique_plus(C))
    return step if problem.value(step) < problem.value(X) else X


def columns_coincide(X: FloatArray, violation: float = np.inf) -> bool:
    r"""Return whether two unit columns of X nearly coincide, in O(nk^2).

    A pair with inner product c adds :math:`2c/k` to the violation :math:`\|XV\|_F^2 - 1` for
    :math:`V = e/\sqrt{k}`; if the violation is smaller, no products are computed.

    Examples
    --------
    >>> columns_coincide(np.eye(3, 2)), columns_coincide(np.ones((3, 2)) / 3**0.5)
    (False, True)
    """
    if violation < 2.0 * _COINCIDE / X.shape[1]:
        return False
    # Unit columns: the entries of X'X off the diagonal are cosines.
    gram = X.T @ X
    np.fill_diagonal(gram, 0.0)
    return bool(gram.max() > _COINCIDE)
