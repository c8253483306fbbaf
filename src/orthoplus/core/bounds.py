"""A value, its bound and the gap between them: one definition, valid in floating point.

A lower bound is a number below f over all of S+, so both it and the value carry rounding errors of
the size of the *terms* that they are sums of: for orthogonal NMF that is ||A||^2, however small the
residual is. A problem subtracts a `rounding_margin` of that size from its bound, and `bracket`
makes value and bound agree where they differ by less.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from orthoplus.core.problem import Problem

# Roundings of a term that its sum may be wrong by: of the arithmetic of the products, and of the
# sums in float64, which grow with the root of their length. Measured errors are below a tenth.
_PRODUCT_ROUNDOFFS = 32.0
_SUM_ROUNDOFFS = 16.0
# Of a problem that does not know: this share of its terms.
_UNKNOWN_ROUNDING = 1e-9


class Bracket(NamedTuple):
    """A value, its bound, and their relative gap; the last two None where no bound is known."""

    value: float
    bound: float | None
    gap: float | None


def rounding_margin(size: float, length: int, *dtypes: npt.DTypeLike) -> float:
    r"""Return how far rounding may take a sum of terms of this size.

    Parameters
    ----------
    size : float
        The sum of the absolute terms.
    length : int
        How many numbers the longest inner product adds.
    dtypes : dtype
        Of the factors of the products: the coarsest counts. They are added in float64.

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
        Of a minimization; a value below the bound, as that of a point outside S+ may be, counts as
        the bound.
    rounding : float
        Value and bound are known to this accuracy: within it they agree, and the gap is 0.
    size : float
        What the gap is relative to where the bound is smaller: of a sum of terms of both signs, the
        sum of their absolute values.

    Returns
    -------
    gap : float or None
        None if no bound is known, or if it is 0 to rounding and the value is not: then no multiple
        of the bound says how good the value is.

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
    """Make a value over S+ and a lower bound agree within the rounding of the problem.

    Parameters
    ----------
    problem : Problem
        Its ``rounding`` says how accurate the value is.
    value : float
        f at a point of S+.
    bound : float or None
        From ``problem.lower_bound()``.
    dtype : dtype
        Of that point.

    Returns
    -------
    Bracket
        A value below the bound, by rounding, becomes the bound; the gap is 0 if both agree to
        rounding.

    Raises
    ------
    ArithmeticError
        If the bound exceeds the value by more than rounding: then it is none.

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
    if value < bound - rounding:
        raise ArithmeticError(
            f"The lower bound {bound:.10g} of {type(problem).__name__} is above the value "
            f"{value:.10g} that was reached, by more than rounding ({rounding:.2g}): the bound is "
            f"wrong. Please report it; `with_bound=False` leaves the bound out."
        )
    return Bracket(max(value, bound), bound, relative_gap(value, bound, rounding))


def _guess_rounding(problem: Problem, value: float, bound: float) -> float:
    """Return the accuracy of f where the problem does not say.

    A value below its bound needs a guess.

    The terms of f are of the size of its gradient somewhere in OB+: columns have unit length.
    """
    if value >= bound:
        return 0.0
    X = Problem.start(problem, np.random.default_rng(0))
    slope = float(np.linalg.norm(problem.value_and_gradient(X)[1]))
    size = max(abs(value), abs(bound), slope if np.isfinite(slope) else 0.0)
    return _UNKNOWN_ROUNDING * size
