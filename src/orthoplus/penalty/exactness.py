r"""Conditions under which the penalty is exact: the constants and bounds of section 3.

A penalty is :math:`\sigma \Psi(Q(X))` with an increasing :math:`\Psi`; Q bounds the distance from X
to its rounded point (Lemma 3.2) and equals :math:`Q_0` on S+. With a Lipschitz constant
:math:`L_f` of f over OB+ and the separation :math:`\chi_f` of the supports (Assumption 2.1), the
bounds state how good the rounded minimizer is, and for which :math:`\sigma` its support is optimal.
"""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import check_count, check_positive
from orthoplus.core.errors import InputError
from orthoplus.core.problem import Problem, check_problem
from orthoplus.core.types import FloatArray
from orthoplus.geometry.oblique import random_oblique_plus, riemannian_gradient
from orthoplus.geometry.stiefel import random_stiefel_plus

# Two nonnegative unit vectors are at most a quarter circle apart: an arc of pi / 2 over a chord of
# sqrt(2).
_ARC_OVER_CHORD = np.pi / (2.0 * np.sqrt(2.0))
# Largest number of supports to enumerate.
_MAX_SUPPORTS = 100_000
# Optima whose values differ by at most this fraction of their range count as equal.
_SAME_VALUE = 1e-10
# Number of grid points at which a function is evaluated before a bisection between two of them.
_GRID = 1025
_BISECTIONS = 100
_DOUBLINGS = 200


class Measure(NamedTuple):
    r"""A penalty as a function of the distance: :math:`\Psi`, :math:`Q_0`, and the largest Q.

    Attributes
    ----------
    psi : callable
        ``psi(z) -> float`` for z >= Q_0, strictly increasing.
    start : float
        Q_0, the value of Q on S+.
    largest : float
        The largest value of Q over OB+.

    Examples
    --------
    >>> from orthoplus.penalty.family import PowerPenalty
    >>> measure = PowerPenalty(1.0).measure(k=2)
    >>> round(measure.psi(4.0), 12), measure.start  # (z / rho)^2 with rho^2 = 8
    (2.0, 0.0)
    """

    psi: Callable[[float], float]
    start: float
    largest: float


def upsilon(measure: Measure, slope: float, k: int) -> float:
    r"""Return :math:`\Upsilon_{\sigma, Q_0, \Psi}`, the bound (3.11) on Q at a minimizer.

    .. math:: \max z \quad \text{s.t.} \quad \Psi(z) \le \Psi(Q_0) + (L_f / \sigma) z, \quad
              Q_0 \le z \le \Psi^{-1}\big(\Psi(Q_0) + \sqrt{2k}\, L_f / \sigma\big).

    Parameters
    ----------
    measure : Measure
        Psi and Q_0, as returned by `Penalty.measure`.
    slope : float
        L_f / sigma, positive.
    k : int
        Number of columns of X.

    Returns
    -------
    float
        The largest z, found on a grid and then by bisection. If Psi stays below the last bound
        everywhere, its inverse does not exist and the largest Q over OB+ is used instead.

    Examples
    --------
    >>> from orthoplus.penalty.family import PowerPenalty
    >>> round(upsilon(PowerPenalty(1.0).measure(2), 0.01, 2), 9)  # z^2 / 8 <= 0.01 z
    0.08
    """
    check_positive(slope, "slope")
    psi, start = measure.psi, measure.start
    with np.errstate(over="ignore"):
        base = psi(start)
        top = _inverse(measure, base + float(np.sqrt(2 * k)) * slope)
        if psi(top) <= base + slope * top:
            return top
        # Resolve both ends: near Q_0 the set may be as short as one unit roundoff of `top`.
        grid = start + (top - start) * np.geomspace(1e-16, 1.0, _GRID)
        fits = [psi(float(z)) <= base + slope * float(z) for z in grid]
        if not any(fits):
            return start
        last = int(np.flatnonzero(fits)[-1])
        low, high = float(grid[last]), float(grid[last + 1])
        return _last_that(lambda z: psi(z) <= base + slope * z, low, high)


def _inverse(measure: Measure, level: float) -> float:
    """Return the largest z with psi(z) <= level, or the largest Q over OB+ if psi stays below."""
    low, high = measure.start, max(measure.largest, 1.0)
    for _ in range(_DOUBLINGS):
        if measure.psi(high) > level:
            return _last_that(lambda z: measure.psi(z) <= level, low, high)
        low, high = high, 2.0 * high
    return measure.largest


def _last_that(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Bisect between a point where a condition holds and one where it does not."""
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def sharp_threshold(measure: Measure, lipschitz: float, separation: float, k: int) -> float:
    r"""Return the smallest sigma above which the penalty is exact by Theorem 3.4.

    .. math:: \inf \{\sigma : \Upsilon_{\sigma, Q_0, \Psi} < \kappa_f\}
              = L_f \max_{\kappa_f \le z \le \sqrt{2k}} \frac{z}{\Psi(z) - \Psi(Q_0)}, \qquad
              \kappa_f = \chi_f / L_f.

    Parameters
    ----------
    measure : Measure
        Psi and Q_0, with Q_0 < kappa_f.
    lipschitz, separation : float
        L_f and chi_f.
    k : int
        Number of columns of X.

    Notes
    -----
    The equality follows from (3.11): :math:`\Upsilon < \kappa_f` if and only if no
    :math:`z \ge \kappa_f` satisfies
    :math:`\sigma (\Psi(z) - \Psi(Q_0)) \le L_f \min(z, \sqrt{2k})`, and beyond :math:`\sqrt{2k}`
    the right side is constant while the left side grows. For
    :math:`\Psi(z) = (z / \varrho_q)^{2p}` and :math:`\epsilon = 0` it is (3.3).

    Examples
    --------
    >>> from orthoplus.penalty.family import PowerPenalty
    >>> round(sharp_threshold(PowerPenalty(1.0).measure(2), 3.0, 1.5, 2), 9)  # 8 L_f / kappa_f
    48.0
    """
    kappa, widest = separation / lipschitz, float(np.sqrt(2 * k))
    with np.errstate(over="ignore"):
        base = measure.psi(measure.start)

        def ratio(z: float) -> float:
            return min(z, widest) / (measure.psi(z) - base)

        grid = np.geomspace(kappa, max(kappa, widest), _GRID).tolist()
        grid[0], grid[-1] = (
            kappa,
            max(kappa, widest),
        )  # exact ends: the ratio of a power is largest there
        ratios = [ratio(z) for z in grid]
        best = int(np.argmax(ratios))
        largest = ratios[best]
        if 0 < best < len(grid) - 1:
            largest = max(largest, _peak(ratio, grid[best - 1], grid[best + 1]))
    return lipschitz * largest


def _peak(ratio: Callable[[float], float], low: float, high: float) -> float:
    """Return the maximum of a function with one peak between two points, by ternary search."""
    for _ in range(_BISECTIONS):
        third = (high - low) / 3.0
        if ratio(low + third) < ratio(high - third):
            low += third
        else:
            high -= third
    return ratio(0.5 * (low + high))


class ExactPenalty:
    r"""The theory of section 3 for a penalty :math:`\sigma \Psi(Q(X))`.

    A subclass implements `measure`.

    Examples
    --------
    >>> from orthoplus.penalty.family import PowerPenalty
    >>> from orthoplus.problems import Projection
    >>> problem = Projection(np.array([[3.0, 0.0], [0.0, 4.0]]))
    >>> chi = separation_of_supports(problem)  # 14, and L_f = 2 ||C|| = 10
    >>> sigma = PowerPenalty(1.0).threshold_for(problem, chi)
    >>> round(sigma, 9)  # rho^2 L_f / kappa_f = 8 * 10 / 1.4
    57.142857143
    >>> PowerPenalty(1.01 * sigma).rounding_loss(problem.value_lipschitz, 2) < chi
    True
    """

    sigma: float

    def measure(self, k: int) -> Measure:
        """Return the penalty as Psi(Q(X)), eq. (3.9): Psi and Q_0, for X with k columns."""
        raise NotImplementedError(
            f"{type(self).__name__} does not implement `measure(k)`, which thresholds and bounds "
            f"need. Define it to return Psi and Q_0."
        )

    def upsilon(self, lipschitz: float, k: int) -> float:
        """Return Upsilon, the bound (3.11) on Q at a minimizer, for L_f and k columns."""
        check_positive(lipschitz, "lipschitz")
        check_positive(self.sigma, "sigma")
        return upsilon(self.measure(k), lipschitz / self.sigma, k)

    def rounding_loss(self, lipschitz: float, k: int) -> float:
        r"""Return :math:`L_f \Upsilon`, a bound on the loss of a rounded minimizer, (3.10).

        .. math:: f(X^*) \le f(X^R_\sigma) \le f(X^*) + L_f \Upsilon_\sigma .
        """
        return lipschitz * self.upsilon(lipschitz, k)

    def threshold(self, lipschitz: float, separation: float, k: int) -> float:
        r"""Return the sigma above which the penalty is exact: Theorems 3.1 and 3.4.

        .. math:: \underline\sigma = L_f \max_{\kappa_f \le z \le \sqrt{2k}}
                  \frac{z}{\Psi(z) - \Psi(Q_0)}, \qquad \kappa_f = \chi_f / L_f.

        Parameters
        ----------
        lipschitz : float
            L_f, a Lipschitz constant of f over OB+ (Frobenius norm), ``problem.value_lipschitz``.
        separation : float
            chi_f, the best value over the nonoptimal supports minus the optimal value.
        k : int
            Number of columns.

        Notes
        -----
        For `PowerPenalty` with eps = 0 this is (3.3). With eps > 0 the paper has
        :math:`\sqrt{2k}` in place of z, and so a threshold up to :math:`\sqrt{2k} / \kappa_f`
        times as large.
        """
        check_positive(lipschitz, "lipschitz")
        check_positive(separation, "separation")
        measure, kappa = self.measure(k), separation / lipschitz
        if measure.start >= kappa:
            raise InputError(
                f"The smoothing `eps` is too large for an exact penalty: Q_0 = "
                f"{measure.start:.3g} must be below kappa_f = chi_f / L_f = {kappa:.3g}. Divide "
                f"`eps` by more than {(measure.start / kappa) ** 2:.3g}."
            )
        return sharp_threshold(measure, lipschitz, separation, k)

    def threshold_for(
        self, problem: Problem, separation: float, *, lipschitz: float | None = None
    ) -> float:
        """Return the sigma above which the penalty is exact for this problem.

        Parameters
        ----------
        problem : Problem
            The problem, which provides k and, by ``value_lipschitz``, L_f.
        separation : float
            chi_f of Assumption 2.1. It is as hard to compute as the minimum; for tiny problems use
            `separation_of_supports`.
        lipschitz : float, optional
            L_f, if the problem does not provide it, for example from `estimate_value_lipschitz`.
        """
        known = problem.value_lipschitz if lipschitz is None else lipschitz
        if known is None:
            raise InputError(
                f"{type(problem).__name__} has no known Lipschitz constant of f over OB+. Pass "
                f"`lipschitz`, for example `exactness.estimate_value_lipschitz(problem)`."
            )
        return self.threshold(known, separation, problem.shape[1])


def estimate_value_lipschitz(
    problem: Problem, *, n_samples: int = 100, rng: np.random.Generator | None = None
) -> float:
    r"""Estimate a Lipschitz constant of f over OB+, (3.2), from sampled gradients.

    .. math:: L_f \approx \frac{\pi}{2 \sqrt 2} \max_X \|\mathrm{grad} f(X)\|_F .

    This estimates an upper bound from below, so the true constant may be larger. Use
    ``problem.value_lipschitz`` if it is not None.

    Parameters
    ----------
    problem : Problem
        A problem whose f and gradient are finite over OB+.
    n_samples : int
        Number of points of OB+ at which the gradient is evaluated: in turn uniform points, points
        of S+, and points whose columns are all equal.
    rng : numpy.random.Generator, optional
        Source of random numbers; the default has seed 0.

    Notes
    -----
    Two columns of OB+ are joined by an arc within OB+ that is at most :math:`\pi / (2 \sqrt 2)`
    times as long as their chord. Hence this factor times the largest norm of the Riemannian
    gradient is a Lipschitz constant. The cost is that of ``n_samples`` gradients.

    Examples
    --------
    >>> from orthoplus.problems import TraceMin
    >>> problem = TraceMin(np.diag([1.0, 2.0, 5.0]), 2)
    >>> estimate_value_lipschitz(problem) <= problem.value_lipschitz
    True
    """
    check_count(n_samples, "n_samples", low=1)
    rng = rng or np.random.default_rng(0)
    steepest = 0.0
    for number in range(n_samples):
        X = _sample(problem.shape, number % 3, rng)
        value, gradient = problem.value_and_gradient(X)
        slope = float(np.linalg.norm(riemannian_gradient(X, gradient)))
        if not np.isfinite(value) or not np.isfinite(slope):
            raise InputError(
                f"f is {value:g} with a gradient of norm {slope:g} at a sampled point of OB+: a "
                f"Lipschitz constant needs finite values. Check f near the boundary of OB+."
            )
        steepest = max(steepest, slope)
    return float(_ARC_OVER_CHORD * steepest)


def _sample(shape: tuple[int, int], kind: int, rng: np.random.Generator) -> FloatArray:
    """Draw a random point of OB+: uniform, in S+, or with equal columns."""
    n, k = shape
    if kind == 1:
        return random_stiefel_plus(n, k, rng)
    X = random_oblique_plus(n, k, rng)
    return X if kind == 0 else np.ascontiguousarray(np.repeat(X[:, :1], k, axis=1))


def separation_of_supports(problem: Problem) -> float:
    r"""Return :math:`\chi_f` of Assumption 2.1 by enumeration of all supports: for tiny n only.

    .. math:: \chi_f = \min \{f(X) : X \in S_+,\ \mathrm{sgn}(X) \ne \mathrm{sgn}(X^*)
              \text{ for every minimizer } X^*\} - f^* .

    Parameters
    ----------
    problem : Problem
        A problem whose ``refine`` returns the best point of a support: linear f, or quadratic f
        whose blocks have nonnegative eigenvectors. It may have at most 100,000 assignments of rows
        to columns or to none.

    Returns
    -------
    float
        0 if values on a nonoptimal support come arbitrarily close to the minimum, in which case
        Assumption 2.1 fails. This happens whenever a minimizer has a zero row, because that row may
        get an arbitrarily small entry.

    Examples
    --------
    >>> from orthoplus.problems import Projection
    >>> round(separation_of_supports(Projection(np.array([[3.0, 0.0], [0.0, 2.0]]))), 12)
    10.0
    """
    check_problem(problem)
    n, k = problem.shape
    if (k + 1) ** n > _MAX_SUPPORTS:
        raise InputError(
            f"A problem of shape ({n}, {k}) has about {float(k + 1) ** n:.2g} supports: too many "
            f"to enumerate. Use a problem with at most {_MAX_SUPPORTS}, or bound chi_f by other "
            f"means."
        )
    values, attained = [], []
    for H in _supports(n, k):
        X = problem.refine(H)
        if X is None:
            raise InputError(
                f"{type(problem).__name__} has no closed form for the best point of a support, "
                f"which the enumeration needs. Implement `refine`, or bound chi_f by other means."
            )
        values.append(problem.value(X))
        attained.append(bool(((X > 0) == (H > 0)).all()))
    value = np.array(values)
    best = float(value.min())
    is_optimal = value <= best + _SAME_VALUE * (float(value.max()) - best)
    # If the minimizer on a support has zeros there, nearby points with the full support come
    # arbitrarily close to the optimum, so that chi_f = 0.
    if not np.array(attained)[is_optimal].all():
        return 0.0
    return float(value[~is_optimal].min() - best) if not is_optimal.all() else 0.0


def _supports(n: int, k: int) -> list[FloatArray]:
    """Return a point of S+ for each support, with equal entries in a column."""
    found = []
    for deal in product(range(-1, k), repeat=n):
        H = (np.array(deal)[:, None] == np.arange(k)).astype(np.float64)
        if H.any(axis=0).all():
            found.append(H / np.linalg.norm(H, axis=0))
    return found
