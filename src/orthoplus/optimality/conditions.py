r"""Check the optimality conditions over S+ and OB+: sections 2.2 and 5.1 of the paper.

The first-order conditions over S+ (Theorem 2.4) are :math:`[\mathrm{grad} f]_{ij} = 0` on the
support (2.6a) and :math:`[\nabla f]_{ij} \ge 0` on the zero rows (2.6b). The second-order condition
:math:`\langle D, \mathrm{Hess} f[D] \rangle \ge 0` on the cone N of (2.11) is necessary (2.14).
Strict positivity on N without 0 is sufficient: the critical cone C of (2.12) is closed, and on it
:math:`\langle D, D\,\mathrm{Off}(VV^\top) \rangle \ge 0` vanishes on N only, so that by compactness
(2.17) holds for some multiplier above (2.10). Both conditions are therefore decided on the same
cone, which is not convex; see `orthoplus.optimality.critical_cone`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.checked import as_entries
from orthoplus.core.checks import as_matrix, check_positive, norm_within_range
from orthoplus.core.errors import InputError
from orthoplus.core.problem import Problem, check_problem
from orthoplus.core.types import ROUNDOFF, FloatArray, Linear
from orthoplus.geometry.oblique import (
    project_oblique_plus,
    random_oblique_plus,
    riemannian_gradient,
)
from orthoplus.geometry.stiefel import round_to_stiefel_plus, violation
from orthoplus.optimality.critical_cone import UNKNOWN, CriticalSpace, Curvature, decide_curvature
from orthoplus.penalty.family import check_mixing

__all__ = ["OptimalityReport", "check", "check_oblique", "stationarity"]

# Largest distance of a point from its set, absolute and in unit roundoffs of its dtype.
_FEASIBILITY = 1e-8
_POINT_ROUNDOFFS = 8.0
# The gradient at X counts as small below this fraction of a gradient elsewhere. Over OB+ columns
# overlap and gradients are larger than over S+, about k times for orthogonal NMF.
_SHARE_OF_OTHER_GRADIENT = 1e-2


@dataclass(frozen=True, eq=False, kw_only=True)
class OptimalityReport:
    """Result of `check` and `check_oblique` at X.

    Attributes
    ----------
    set_name : {"S+", "OB+"}
        The set over which f is minimized.
    X, value
        The point of the report (the input without its rounding errors) and f there.
    is_weakly_stationary, is_stationary : bool
        (2.6a), Definition 2.5; (2.6a) and (2.6b), Theorem 2.4. Over OB+, Theorem 5.1.
    satisfies_weak_second_order : bool or None
        Stationary, and no negative curvature on the support; over OB+ Definition 5.3 (WSOC).
    satisfies_second_order_necessary, satisfies_second_order_sufficient : bool or None
        Theorems 2.6 and 2.7, over OB+ Theorem 5.2; None if not requested or not decided.
    explanation : str
        The reason for the verdict.
    support_residual, zero_row_residual, stationarity, scale : float
        The residuals of (2.6a), of (2.6b) and the root of the sum of their squares, each divided by
        ``scale``. Over OB+ they are those of ``min(X, rgrad h / scale)`` on the support and at the
        zeros. The scale is ``||grad f||_F``, but at least one hundredth of that norm at a fixed
        point of OB+ with positive entries, because at a minimizer with zero gradient only rounding
        errors are left. The scale is 0 only if both gradients are zero, and then so are the
        residuals.
    Lambda, lambda_bar, Z
        The multipliers of (2.8): of the norms of the columns; of ``||XV|| = 1``, the smallest one
        (2.10) (0 if k = 1, None over OB+); and of ``X >= 0``, (2.9).
    constraint_qualification : {"LICQ", "CCP", "Guignard only"}
        The strongest constraint qualification of Lemma 2.3 that holds.
    smallest_curvature, direction : float or None, ndarray or None
        The smallest ``<D, Hess f[D]>`` over unit D in the span of the critical cone, and a D that
        attains it; infinite if the span is {0}. None if not computed.
    support_curvature : float or None
        The same over the D on the support of X; None if the curvature on the span was conclusive.
    escape : ndarray or None
        A unit D in the cone N with negative curvature, if one was found.
    dimension : int
        Dimension of the span of the critical cone.

    Examples
    --------
    >>> from orthoplus import problems
    >>> report = check(problems.Projection(np.eye(4, 2)), np.eye(4, 2))
    >>> report.is_stationary, report.constraint_qualification
    (True, 'Guignard only')
    """

    set_name: str
    X: FloatArray = field(repr=False)
    value: float
    is_weakly_stationary: bool
    is_stationary: bool
    satisfies_weak_second_order: bool | None
    satisfies_second_order_necessary: bool | None
    satisfies_second_order_sufficient: bool | None
    explanation: str
    support_residual: float
    zero_row_residual: float
    stationarity: float
    scale: float
    Lambda: FloatArray = field(repr=False)
    lambda_bar: float | None
    Z: FloatArray = field(repr=False)
    constraint_qualification: str
    smallest_curvature: float | None
    support_curvature: float | None
    direction: FloatArray | None = field(repr=False)
    escape: FloatArray | None = field(repr=False)
    dimension: int

    def summary(self) -> str:
        """Return a summary in a few aligned lines."""
        curvature = self.smallest_curvature
        lines = [
            ("weakly stationary", f"{self.is_weakly_stationary!s:<7}{self.support_residual:.1e}"),
            ("stationary", f"{self.is_stationary!s:<7}{self.stationarity:.1e}"),
            ("second-order necessary", _answer(self.satisfies_second_order_necessary)),
            ("second-order sufficient", _answer(self.satisfies_second_order_sufficient)),
            ("smallest curvature", "not computed" if curvature is None else f"{curvature:.6g}"),
            ("constraint qualification", self.constraint_qualification),
        ]
        n, k = self.X.shape
        head = f"Optimality over {self.set_name} (n = {n}, k = {k}, f = {self.value:.10g})"
        body = [f"  {name:<26}{what}" for name, what in lines]
        return "\n".join([head, *body, f"  {self.explanation}"])

    __str__ = summary


def stationarity(X: FloatArray, gradient: FloatArray) -> float:
    r"""Return the residual of (2.6a) and (2.6b) at X in S+, not scaled.

    .. math:: \Big( \sum_{(i,j) \in \mathrm{supp}(X)} [\mathrm{grad} f(X)]_{ij}^2 +
              \sum_{(i,j) \in \Omega''_0(X)} \min([\nabla f(X)]_{ij}, 0)^2 \Big)^{1/2}

    Parameters
    ----------
    X, gradient : ndarray of shape (n, k)
        A point of S+, not checked, and the Euclidean gradient there.

    Notes
    -----
    The cost is O(nk). An entry of X counts as zero only if it is exactly zero.

    Examples
    --------
    >>> X = np.array([[1.0], [0.0]])
    >>> stationarity(X, np.array([[7.0], [0.0]])), stationarity(X, np.array([[7.0], [-2.0]]))
    (0.0, 2.0)
    """
    return math.hypot(*_stiefel_residuals(X, gradient))


def check(
    problem: Problem,
    X: FloatArray,
    *,
    tol: float = 1e-6,
    second_order: bool = True,
    V: FloatArray | None = None,
) -> OptimalityReport:
    r"""Check the optimality conditions of min f over S+ at X: Theorems 2.4, 2.6 and 2.7.

    Parameters
    ----------
    problem : Problem
        The problem. The second-order conditions use ``hessp``, preferably exact; differences have
        relative errors of about 1e-8.
    X : array of shape (n, k)
        A point of S+ within 1e-8 (float32: within a few unit roundoffs). Its support consists of
        all positive entries, however small: set entries to zero that should not belong to it.
    tol : float
        Residuals and gradient entries count as zero up to ``tol * scale``, see `OptimalityReport`;
        a curvature counts as zero up to tol times the larger of the scale and the largest absolute
        curvature on the critical space. The result does not change if f is multiplied by a positive
        number.
    second_order : bool
        Whether to check the second-order conditions, which costs up to several hundred Hessian
        products.
    V : array of shape (k, r), optional
        Matrix of the reformulation ``||XV|| = 1``, which affects the multipliers. The default is
        e / sqrt(k).

    Returns
    -------
    report : OptimalityReport

    Notes
    -----
    If Lanczos converges, both second-order conditions are decided whenever no zero row has a zero
    gradient entry, because the cone is then a linear space (Remark 2.8). Negative curvature on the
    support always refutes both. In all other cases, `orthoplus.optimality.critical_cone` decides
    exactly up to dimension 150 and 4096 faces; beyond these limits, the verdict may be None. A
    point that is not stationary satisfies no second-order condition.

    Examples
    --------
    >>> from orthoplus.problems import TraceMin
    >>> print(check(TraceMin(np.diag([1.0, 2.0, 4.0]), 1), np.array([[1.0], [0.0], [0.0]])))
    Optimality over S+ (n = 3, k = 1, f = 1)
      weakly stationary         True   0.0e+00
      stationary                True   0.0e+00
      second-order necessary    True
      second-order sufficient   True
      smallest curvature        2
      constraint qualification  LICQ
      A strict local minimizer: all curvature on the critical cone is positive.
    """
    check_problem(problem)
    check_positive(tol, "tol")
    X = _as_point(X, problem, "S+", round_to_stiefel_plus)
    diagonal, off = _mixing(X.shape[1], V)
    value, G, scale = _evaluate(problem, X)
    lam = _least_multiplier(X, G, off)
    support, zero_row = _stiefel_residuals(X, G)
    free = ~X.any(axis=1, keepdims=True) & (np.abs(G) <= tol * scale)  # (2.12)
    space = CriticalSpace(X, free, is_exclusive=True)
    curved = _riemannian_hessian(problem, X, G)
    coupled = (lambda D: curved(D) + lam * (D @ off)) if 0.0 < lam < math.inf else None  # (2.17)
    return _report(
        _FirstOrder("S+", X, value, *_relative((support, zero_row), scale), scale),
        decide_curvature(space, curved, coupled, tol=tol, scale=scale) if second_order else UNKNOWN,
        tol,
        dimension=space.dimension,
        # 2 Lambda - lambda diag(VV') = diag(X'G), below (2.8)
        Lambda=(kernels.column_dots(X, G) + lam * diagonal) / 2.0,
        lambda_bar=lam,
        Z=riemannian_gradient(X, G) + _scaled(lam, X @ off),  # (2.9)
        constraint_qualification=_qualification(X),
    )


def check_oblique(
    problem: Problem, X: FloatArray, *, tol: float = 1e-6, second_order: bool = True
) -> OptimalityReport:
    r"""Check the optimality conditions of min h over OB+ at X: Theorems 5.1, 5.2, Definition 5.3.

    .. math:: \min(X, \mathrm{grad}\, h(X)) = 0, \qquad
              \langle D, \mathrm{Hess}\, h(X)[D] \rangle \ge 0 \text{ on the critical cone.}

    Parameters
    ----------
    problem : Problem
        The objective h, for example a `Penalized` problem.
    X : array of shape (n, k)
        A point of OB+ within 1e-8.
    tol, second_order
        As in `check`.

    Returns
    -------
    report : OptimalityReport
        ``satisfies_weak_second_order`` is WSOC; weakly stationary means ``min(X, rgrad h) = 0`` on
        the support. LICQ holds everywhere on OB+.

    Examples
    --------
    >>> from orthoplus.problems import Projection
    >>> report = check_oblique(Projection(np.array([[3.0, 1.0], [4.0, 0.0]])),
    ...                        np.array([[0.6, 1.0], [0.8, 0.0]]))
    >>> report.is_stationary, round(report.smallest_curvature, 12)
    (True, 2.0)
    """
    check_problem(problem)
    check_positive(tol, "tol")
    X = _as_point(X, problem, "OB+", project_oblique_plus)
    value, G, scale = _evaluate(problem, X)
    Z = riemannian_gradient(X, G)
    # X and grad h have different units: divide the gradient by its scale before comparing them.
    gap = np.minimum(X, Z / (scale or 1.0))
    support, zeros = (float(np.linalg.norm(gap[mask])) for mask in (X > 0, X == 0))
    space = CriticalSpace(X, (X == 0) & (np.abs(G) <= tol * scale), is_exclusive=False)
    curved = _riemannian_hessian(problem, X, G)
    return _report(
        _FirstOrder("OB+", X, value, support, zeros, scale),
        decide_curvature(space, curved, None, tol=tol, scale=scale) if second_order else UNKNOWN,
        tol,
        dimension=space.dimension,
        Lambda=kernels.column_dots(X, G) / 2.0,
        lambda_bar=None,
        Z=Z,
        constraint_qualification="LICQ",
    )


class _FirstOrder(NamedTuple):
    """Results of the first-order conditions; the fields are those of `OptimalityReport`."""

    set_name: str
    X: FloatArray
    value: float
    support_residual: float
    zero_row_residual: float
    scale: float


def _report(first: _FirstOrder, second: Curvature, tol: float, **others: Any) -> OptimalityReport:
    """Build the report; a point that is not stationary satisfies no second-order condition."""
    total = math.hypot(first.support_residual, first.zero_row_residual)
    if total > tol and second is not UNKNOWN:
        second = second._replace(
            satisfies_weak_second_order=False,
            satisfies_second_order_necessary=False,
            satisfies_second_order_sufficient=False,
            escape=None,
            explanation="X is not stationary, hence not a local minimizer or second-order point.",
        )
    return OptimalityReport(
        is_weakly_stationary=first.support_residual <= tol,
        is_stationary=total <= tol,
        stationarity=total,
        **first._asdict(),
        **second._asdict(),
        **others,
    )


def _answer(decision: bool | None) -> str:
    return "undecided" if decision is None else str(decision)


def _as_point(
    X: FloatArray, problem: Problem, set_name: str, nearest: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return X as an exact float64 point of the set, or raise an error with its distance."""
    X = as_entries(as_matrix(X, "X"), "X")
    if X.shape != tuple(problem.shape):
        raise InputError(
            f"`X` has shape {X.shape}, but the problem needs shape {tuple(problem.shape)}."
        )
    roundoff = _POINT_ROUNDOFFS * math.sqrt(X.shape[1]) * ROUNDOFF[X.dtype]
    point = nearest(X.astype(np.float64))
    distance = float(np.linalg.norm(point - X))
    if distance > max(_FEASIBILITY, roundoff):
        raise InputError(
            f"`X` is not in {set_name}: it is {distance:.3g} away from the point it rounds to "
            f"(smallest entry {float(X.min()):.3g}, ||X'X - I|| + ||min(X, 0)|| = "
            f"{violation(X):.3g}). Pass it through `geometry.{nearest.__name__}` first."
        )
    return point


def _evaluate(problem: Problem, X: FloatArray) -> tuple[float, FloatArray, float]:
    """Return f(X), its gradient, and the scale of gradients to compare residuals with.

    The gradient at X alone is not a suitable scale: if it is zero, only rounding is left of it.
    """
    value, gradient = problem.value_and_gradient(X)
    G = as_matrix(gradient, "gradient").astype(np.float64, copy=False)
    size = norm_within_range(G, "gradient")
    n, k = X.shape
    elsewhere = random_oblique_plus(n, k, np.random.default_rng(0))
    other = float(np.linalg.norm(problem.value_and_gradient(elsewhere)[1]))
    return (
        float(value),
        G,
        max(size, _SHARE_OF_OTHER_GRADIENT * other) if math.isfinite(other) else size,
    )


def _relative(residuals: tuple[float, float], scale: float) -> tuple[float, float]:
    """Divide the residuals by the scale; both are 0 if the scale is 0."""
    return residuals[0] / (scale or 1.0), residuals[1] / (scale or 1.0)


def _stiefel_residuals(X: FloatArray, G: FloatArray) -> tuple[float, float]:
    """Return the residuals of (2.6a) on the support and of (2.6b) on the zero rows."""
    labels, x = kernels.largest_entries(X)
    g, columns = kernels.gather(G, labels), np.maximum(labels, 0)  # both 0 on a zero row
    slopes = np.bincount(columns, x * g, minlength=X.shape[1])  # diag(X'G)
    support = float(np.linalg.norm(g - x * slopes[columns]))
    is_zero = labels < 0
    if not is_zero.any():
        return support, 0.0
    return support, float(np.linalg.norm(np.minimum(G[is_zero], 0.0)))


def _qualification(X: FloatArray) -> str:
    """Return the strongest constraint qualification that holds at X, Lemma 2.3."""
    if X.shape[1] == 1:
        return "LICQ"
    return "CCP" if X.any(axis=1).all() else "Guignard only"


def _mixing(k: int, V: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return diag(VV') and Off(VV')."""
    if V is None:
        return np.full(k, 1.0 / k), (1.0 - np.eye(k)) / k
    V = check_mixing(V)
    if V.shape[0] != k:
        raise InputError(f"`V` has shape {V.shape}: it must have one row per column of X, k = {k}.")
    gram = V @ V.T
    return np.diag(gram), np.asarray(gram - np.diag(np.diag(gram)))


def _least_multiplier(X: FloatArray, G: FloatArray, off: FloatArray) -> float:
    """Return lambda_bar(X) of (2.10), or 0 if k = 1, where it is arbitrary."""
    mixed = X @ off
    beside = (X == 0) & (mixed > 0)  # Omega'_0
    with np.errstate(over="ignore"):  # a tiny entry of X needs a huge multiplier
        return float((-G[beside] / mixed[beside]).max()) if beside.any() else 0.0


def _scaled(factor: float, matrix: FloatArray) -> FloatArray:
    """Return factor * matrix with inf * 0 = 0."""
    return np.multiply(matrix, factor, out=np.zeros_like(matrix), where=matrix != 0)


def _riemannian_hessian(problem: Problem, X: FloatArray, G: FloatArray) -> Linear:
    """Return the map D -> f''(X)[D] - D Diag(X'G), eq. (2.13)."""
    slopes, euclidean = kernels.column_dots(X, G), problem.hessian(X)
    return lambda D: np.asarray(euclidean(D) - D * slopes)
