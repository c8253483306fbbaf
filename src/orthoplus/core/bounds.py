"""Compare a value with its lower bound, with one definition of the gap for the whole package.

A lower bound is a number that f is not below anywhere on S+. Both the bound and the value carry
rounding errors proportional to the *terms* they are sums of; for orthogonal NMF the terms are of
size ||A||^2, however small the residual is. A problem subtracts a `rounding_margin` of that size
from its bound, and `bracket` treats value and bound as equal if they differ by less.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from orthoplus.core.problem import Problem
from orthoplus.core.result import Result

# The error of a sum of products, in unit roundoffs of its absolute terms: a constant for the
# products, and sqrt(length) for the sums in float64. Measured errors are below a tenth of this.
_PRODUCT_ROUNDOFFS = 32.0
_SUM_ROUNDOFFS = 16.0
# Relative accuracy assumed for a problem whose `rounding` returns None.
_UNKNOWN_ROUNDING = 1e-9


class Bracket(NamedTuple):
    """A value, its bound and their relative gap; bound and gap are None if no bound is known."""

    value: float
    bound: float | None
    gap: float | None


def rounding_margin(size: float, length: int, *dtypes: npt.DTypeLike) -> float:
    r"""Return a bound on the rounding error of a sum of terms of this size.

    Parameters
    ----------
    size : float
        Sum of the absolute values of the terms.
    length : int
        Length of the longest inner product.
    dtypes : dtype
        Types of the factors of the products; the least precise one counts. Sums are accumulated
        in float64.

    Examples
    --------
    >>> rounding_margin(1.0, 100) < 1e-13 < rounding_margin(1.0, 100, np.float32) < 1e-5
    True
    """
    double = float(np.finfo(np.float64).eps)
    product = max([double, *(float(np.finfo(dtype).eps) for dtype in dtypes)])
    return abs(size) * (_PRODUCT_ROUNDOFFS * product + _SUM_ROUNDOFFS * length**0.5 * double)


def relative_gap(
    value: float, bound: float | None, rounding: float = 0.0, size: float = 0.0
) -> float | None:
    r"""Return (value - bound) / max(:math:`|\text{bound}|`, size), at least 0.

    Parameters
    ----------
    value, bound : float
        Objective value and lower bound of a minimization problem. A value below the bound, which
        is possible for a point outside S+, has gap 0.
    rounding : float
        Accuracy of value and bound. If they differ by less, the gap is 0.
    size : float
        Lower limit of the denominator. For a sum of terms of both signs, pass the sum of their
        absolute values.

    Returns
    -------
    gap : float or None
        None if no bound is known, or if the denominator is zero to rounding and the value is not,
        so that a relative gap is undefined.

    Examples
    --------
    >>> relative_gap(12.0, 10.0), relative_gap(-12.0, -15.0), relative_gap(9.0, 10.0)
    (0.2, 0.2, 0.0)
    >>> relative_gap(1e-15, 0.0, rounding=1e-14), relative_gap(1.0, 1e-17, rounding=1e-14)
    (0.0, None)
    """
    if bound is None:
        return None
    if value - bound <= rounding:
        return 0.0
    scale = max(abs(bound), size)
    return None if scale <= rounding else (value - bound) / scale


def bracket(
    problem: Problem, value: float, bound: float | None, dtype: npt.DTypeLike = np.float64
) -> Bracket:
    """Combine a value over S+ with a lower bound, up to the rounding error of the problem.

    Parameters
    ----------
    problem : Problem
        The problem; its method ``rounding`` bounds the error of the value.
    value : float
        Objective at a point of S+.
    bound : float or None
        Lower bound from ``problem.lower_bound()``.
    dtype : dtype
        Type of that point.

    Returns
    -------
    Bracket
        The value is raised to the bound if rounding put it below; the gap is 0 if both agree to
        rounding.

    Raises
    ------
    ArithmeticError
        If the bound exceeds the value by more than rounding, which proves the bound wrong.

    Examples
    --------
    >>> from orthoplus.problems import ONMF
    >>> problem = ONMF(np.eye(3), 3)
    >>> bracket(problem, -1e-16, 0.0)
    Bracket(value=0.0, bound=0.0, gap=0.0)
    >>> bracket(problem, -1.0, 0.0)
    Traceback (most recent call last):
    ArithmeticError: The lower bound 0 of ONMF is above the value -1 that was reached, by more ...
    """
    if bound is None:
        return Bracket(value, None, None)
    rounding = problem.rounding(dtype)
    if rounding is None:
        rounding = _guess_rounding(problem, value, bound)
    # Beyond the rounding error of f, one of the two numbers must be wrong.
    if value < bound - rounding:
        raise ArithmeticError(
            f"The lower bound {bound:.10g} of {type(problem).__name__} is above the value "
            f"{value:.10g} that was reached, by more than rounding ({rounding:.2g}): the bound is "
            f"wrong. Please report this; pass `with_bound=False` to skip the bound."
        )
    # Within rounding the value may be below the bound: raise it, so that no gap is negative.
    return Bracket(max(value, bound), bound, relative_gap(value, bound, rounding))


def _guess_rounding(problem: Problem, value: float, bound: float) -> float:
    """Estimate the accuracy of f for a problem that does not provide it.

    The estimate is needed only if the value is below its bound. Columns of OB+ have unit length, so
    the norm of the gradient at a random point measures the size of the terms of f.
    """
    if value >= bound:
        return 0.0
    X = Problem.start(problem, np.random.default_rng(0))
    slope = float(np.linalg.norm(problem.value_and_gradient(X)[1]))
    size = max(abs(value), abs(bound), slope if np.isfinite(slope) else 0.0)
    return _UNKNOWN_ROUNDING * size


def with_bracket(problem: Problem, result: Result, bound: float | None) -> Result:
    """Return the result with this bound and the gap to it."""
    within = bracket(problem, result.value, bound, result.weights.dtype)
    return dataclasses.replace(result, **within._asdict())
