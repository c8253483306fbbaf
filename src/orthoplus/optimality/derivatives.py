"""Check a gradient and a Hessian product against the function they belong to.

The Taylor remainder at distance t is O(t^2) for a correct derivative and O(t) for a wrong one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.checks import (
    as_matrix,
    as_matrix_like,
    as_value,
    check_finite,
    check_shape,
    norm_within_range,
)
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.optimality.taylor import STEPS, Curve, asymmetry, fitted_ratio, observe

# The median direction counts: one may be nearly orthogonal to G, or higher-order terms may cancel.
_DIRECTIONS = 5
# A factor counts as 2 or -1 within three percent, which allows for float32.
_FACTOR_TOL = 0.03
_FACTORS = {
    -1.0: "the sign is wrong",
    0.5: "a factor 2 is missing",
    2.0: "there is a factor 2 too many",
    -0.5: "the sign is wrong and a factor 2 is missing",
    -2.0: "the sign is wrong and there is a factor 2 too many",
    1.0: "it is right to a few digits only, as after work in a lower precision",
}
_SYMMETRY_HINT = "A transposed factor, or no symmetrization: tr(X'MX) has the gradient (M + M')X."

Fun = Callable[[FloatArray], Any]
Product = Callable[[FloatArray, FloatArray], Any]


class Remainder(NamedTuple):
    """One row of the table: the step t and its Taylor remainders."""

    step: float
    gradient: float
    hessian: float | None


@dataclass(frozen=True)
class GradientCheck:
    """Result of `check_gradient`.

    Attributes
    ----------
    gradient_slope : float
        Observed order of the remainder: 2 is right, 1 is wrong; ``inf`` if the remainder is
        rounding error at every step, as for a linear f.
    hessian_slope : float or None
        The same for the Hessian product; None, like the other fields on it, if none was given.
    is_gradient_right, is_hessian_right : bool
        Whether the slope is about 2 or the error is that of differences; H must be symmetric, too.
    symmetry_defect : float or None
        ``|<D1, H[D2]> - <D2, H[D1]>|`` relative to the norms of its factors.
    ratio : float
        ``<G, D>`` divided by the difference quotient of f: 1 is right, -1 indicates a wrong sign,
        0.5 a missing factor 2.
    table : tuple of Remainder
        The steps and their remainders.
    hints : tuple of str
        Likely causes of a wrong derivative.

    Examples
    --------
    >>> import orthoplus as op
    >>> half = op.problems.Smooth(lambda X: (X**4).sum(), (5, 2), jac=lambda X: 2 * X**3)
    >>> found = op.check_gradient(half)
    >>> found.is_right, round(found.gradient_slope), round(found.ratio, 3)
    (False, 1, 0.5)
    """

    gradient_slope: float
    hessian_slope: float | None
    is_gradient_right: bool
    is_hessian_right: bool | None
    symmetry_defect: float | None
    ratio: float
    table: tuple[Remainder, ...]
    hints: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Return whether no error was found in the gradient and the Hessian product."""
        return self.is_gradient_right and self.is_hessian_right is not False

    def summary(self) -> str:
        """Return the observations in words, and the likely errors."""
        lines = [
            f"Gradient: {'right' if self.is_gradient_right else 'WRONG'}. "
            f"|f(X + tD) - f(X) - t<G, D>| {_in_words(self.gradient_slope)}.",
            f"  <G, D> / difference quotient of f = {self.ratio:.6g} (1 is right).",
        ]
        if self.hessian_slope is not None:
            lines += [
                f"Hessian product: {'right' if self.is_hessian_right else 'WRONG'}. "
                f"||G(X + tD) - G(X) - t H[D]|| {_in_words(self.hessian_slope)}.",
                f"  Relative asymmetry = {self.symmetry_defect:.1e} (0 is right).",
            ]
        return "\n".join([*lines, *(f"  Hint: {hint}" for hint in self.hints)])

    def __str__(self) -> str:
        rows = [f"{'t':>9} {'gradient':>12} {'Hessian':>12}   (remainders)"]
        for row in self.table:
            hessian = "-" if row.hessian is None else f"{row.hessian:.3e}"
            rows.append(f"{row.step:9.1e} {row.gradient:12.3e} {hessian:>12}")
        return "\n".join([self.summary(), *rows])


def check_gradient(
    problem_or_fun: Problem | Fun,
    X: FloatArray | None = None,
    *,
    jac: Fun | bool | None = None,
    hessp: Product | None = None,
    shape: tuple[int, int] | None = None,
    rng: np.random.Generator | None = None,
) -> GradientCheck:
    r"""Compare a gradient, and a Hessian product, with the function along five random directions.

    .. math:: |f(X + tD) - f(X) - t \langle G, D \rangle| = O(t^2), \qquad
              \|G(X + tD) - G(X) - t H[D]\|_F = O(t^2).

    Parameters
    ----------
    problem_or_fun : Problem or callable
        A problem has its own gradient and possibly a Hessian product; a callable
        ``fun(X) -> float`` needs ``jac``.
    X : array of shape (n, k), optional
        Point at which to check; by default a random positive X. float32 is checked as float32.
    jac : callable or True
        ``jac(X) -> gradient``; True means that ``fun`` returns the pair (value, gradient).
    hessp : callable, optional
        ``hessp(X, D) -> f''(X)[D]``.
    shape : (int, int), optional
        Shape of X; needed for a callable if X is not given.
    rng : numpy.random.Generator, optional
        Source of random numbers; the default has a fixed seed.

    Returns
    -------
    check : GradientCheck
        ``check.is_right`` is the verdict; ``print(check)`` explains it.

    Notes
    -----
    X + tD stays nonnegative if X is, since some f are undefined elsewhere. The slope is fitted to
    the finest steps whose remainder is well above rounding error, which is measured by fourth
    differences (Moré and Wild, *Estimating computational noise*, SIAM J. Sci. Comput. 33, 2011).
    The direction with the median slope decides. It takes about 140 evaluations of f, and of G for
    hessp.

    Examples
    --------
    >>> check = check_gradient(lambda X: (X**2).sum(), shape=(2, 1), jac=lambda X: 2 * X)
    >>> check.is_right, round(check.gradient_slope, 2)
    (True, 2.0)
    >>> check = check_gradient(lambda X: (X**2).sum(), shape=(2, 1), jac=lambda X: X)
    >>> print(check.summary())
    Gradient: WRONG. |f(X + tD) - f(X) - t<G, D>| falls with slope 1.00 (2 is right, 1 is wrong).
      <G, D> / difference quotient of f = 0.5 (1 is right).
      Hint: the gradient is 0.5 times the right one: a factor 2 is missing.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    functions = _functions(problem_or_fun, jac, hessp)
    if isinstance(problem_or_fun, Problem):
        shape = problem_or_fun.shape
    X = _point(X, shape, rng)
    directions = [_direction(X, rng) for _ in range(_DIRECTIONS)]
    f = [Curve(functions.value, X, D) for D in directions]
    df = [Curve(functions.gradient, X, D) for D in directions]
    G = df[0].start
    check_finite(G, "gradient")
    slopes = [np.asarray(np.vdot(G, D)) for D in directions]
    gradient = observe(f, slopes)
    hints = [] if gradient.is_right else _gradient_hints(G, f, df)
    if gradient.is_right and not gradient.is_telling:
        hints = ["f moves along D by no more than its rounding error: this check says little."]
    hessian, defect, is_hessian_right = None, None, None
    if functions.product is not None:
        products = [functions.product(X, D) for D in directions]
        hessian = observe(df, products)
        defect = asymmetry(directions, products)
        is_symmetric = defect <= hessian.tolerance
        is_hessian_right = hessian.is_right and is_symmetric
        hints += [] if is_hessian_right else _hessian_hints(products, df, is_symmetric)
    of_hessian: Sequence[float | None] = hessian.remainders if hessian else [None] * len(STEPS)
    return GradientCheck(
        gradient_slope=gradient.slope,
        hessian_slope=hessian.slope if hessian else None,
        is_gradient_right=gradient.is_right,
        is_hessian_right=is_hessian_right,
        symmetry_defect=defect,
        ratio=fitted_ratio(slopes, f),
        table=tuple(map(Remainder, STEPS.tolist(), gradient.remainders, of_hessian)),
        hints=tuple(hints),
    )


class _Functions(NamedTuple):
    """f, its gradient and its Hessian product, each checked for type and shape."""

    value: Callable[[FloatArray], FloatArray]
    gradient: Callable[[FloatArray], FloatArray]
    product: Callable[[FloatArray, FloatArray], FloatArray] | None


def _functions(given: Problem | Fun, jac: Fun | bool | None, hessp: Product | None) -> _Functions:
    if isinstance(given, Problem):
        value, gradient, product = _of_problem(given, has_own=jac is None and hessp is None)
    elif not callable(given):
        raise InputTypeError(f"A Problem or a function is needed, not {type(given).__name__}.")
    elif jac is True:
        value, gradient, product = (lambda X: given(X)[0]), (lambda X: given(X)[1]), hessp
    elif callable(jac):
        value, gradient, product = given, jac, hessp
    else:
        raise InputTypeError(
            f"`jac={jac!r}` is not a gradient to check. Pass a function, or `jac=True` if `fun` "
            f"returns (value, gradient)."
        )
    return _Functions(
        lambda X: np.asarray(as_value(value(X))),
        lambda X: _within_range(gradient(X), X, "gradient"),
        None if product is None else lambda X, D: _within_range(product(X, D), X, "hessp"),
    )


def _of_problem(problem: Problem, has_own: bool) -> tuple[Fun, Fun, Product | None]:
    if not has_own:
        raise InputTypeError(
            f"`jac` and `hessp` are for plain functions: {type(problem).__name__} has its own. "
            f"Pass `problem.value` to check other derivatives against it."
        )
    # The default of Problem is a difference of gradients, so there is nothing to check.
    product = problem.hessp if type(problem).hessp is not Problem.hessp else None
    return problem.value, lambda X: problem.value_and_gradient(X)[1], product


def _within_range(matrix: object, X: FloatArray, name: str) -> FloatArray:
    result = as_matrix_like(matrix, X, name)
    norm_within_range(result, name)
    return result


def _point(
    X: FloatArray | None, shape: tuple[int, int] | None, rng: np.random.Generator
) -> FloatArray:
    """Return the checked X, or a random positive one with columns of about unit norm."""
    if X is None:
        if shape is None:
            raise InputError("Neither `X` nor `shape` is given: pass one of them.")
        check_shape(*shape, "X")
        return np.asarray(rng.uniform(0.5, 1.5, shape) / np.sqrt(shape[0]))
    X = as_matrix(X, "X")
    if shape is not None and X.shape != tuple(shape):
        raise InputError(f"`X` has shape {X.shape}, but {tuple(shape)} is expected.")
    norm_within_range(X, "X")
    return X


def _direction(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw a random direction of the magnitude of X; X + tD >= 0 for all our steps if X >= 0."""
    size = float(np.sqrt(np.mean(np.square(X, dtype=np.float64)))) or 1.0
    D = rng.uniform(-size, size, X.shape)
    is_near_zero = (X >= 0) & (X < 2 * STEPS[0] * np.abs(D))
    return np.where(is_near_zero, np.abs(D), D).astype(X.dtype)


def _in_words(slope: float) -> str:
    falls = f"falls with slope {slope:.2f} (2 is right, 1 is wrong)"
    return "is rounding error at every t" if np.isinf(slope) else falls


def _factor_hint(name: str, factor: float) -> str:
    for known, meaning in _FACTORS.items():
        if abs(factor - known) <= _FACTOR_TOL * abs(known):
            return f"{name} is {factor:.3g} times the right one: {meaning}."
    if abs(factor) <= _FACTOR_TOL:
        return f"{name} is zero or nearly zero, but should not be."
    return f"{name} is the right one times the constant {factor:.6g}."


def _fits(rates: Sequence[FloatArray], curves: Sequence[Curve], factor: float = 1.0) -> bool:
    """Return whether the rates are this multiple of the difference quotients."""
    given, seen = np.array(rates), np.array([factor * curve.rate for curve in curves])
    return bool(np.linalg.norm(given - seen) <= _FACTOR_TOL * np.linalg.norm(given))


def _gradient_hints(G: FloatArray, f: Sequence[Curve], df: Sequence[Curve]) -> list[str]:
    """Name the first explanation that fits: factor, transposition, memory order, asymmetry."""
    directions = [curve.D for curve in f]

    def slopes(candidate: FloatArray) -> list[FloatArray]:
        return [np.asarray(np.vdot(candidate, D)) for D in directions]

    factor = fitted_ratio(slopes(G), f)
    if _fits(slopes(G), f, factor):
        return [_factor_hint("the gradient", factor)]
    if G.shape[0] == G.shape[1] and _fits(slopes(G.T), f):
        return ["the gradient is transposed."]
    if _fits(slopes(G.ravel().reshape(G.shape, order="F")), f):
        return ["the entries of the gradient are in column-major order: reshape with order='F'."]
    if asymmetry(directions, [curve.rate for curve in df]) > _FACTOR_TOL:
        return [f"no function has this gradient: its Jacobian is not symmetric. {_SYMMETRY_HINT}"]
    return ["the error is not a constant factor: a term is missing, or of another function."]


def _hessian_hints(
    products: Sequence[FloatArray], df: Sequence[Curve], is_symmetric: bool
) -> list[str]:
    """Name a factor or a missing symmetry that explains the differences of the gradient, if any."""
    factor = fitted_ratio(products, df)
    if _fits(products, df, factor):
        return [_factor_hint("the Hessian product", factor)]
    if not is_symmetric:
        return [f"the Hessian product is not symmetric. {_SYMMETRY_HINT}"]
    return ["the Hessian product is symmetric but not that of this gradient: a term is missing."]
