"""Problems with a user-defined smooth f, given by callables."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import as_matrix_like, as_value, check_shape
from orthoplus.core.errors import InputTypeError
from orthoplus.core.problem import Problem
from orthoplus.core.types import DIFFERENCE_STEP, FloatArray

Fun = Callable[[FloatArray], float]
FunWithGradient = Callable[[FloatArray], tuple[float, FloatArray]]


@dataclass(frozen=True, eq=False)
class Smooth(Problem):
    """A problem given by callables for the value, gradient and Hessian product of f.

    Parameters
    ----------
    fun : callable
        ``fun(X) -> float``; with ``jac=True``, ``fun(X) -> (float, gradient)``.
    size : (int, int)
        The shape (n, k) of X.
    jac : callable, True or None
        ``jac(X) -> gradient`` of the shape of X. None uses central differences of ``fun``, with 2nk
        evaluations per gradient, which is for small problems only.
    curvature : callable, optional
        ``curvature(X, D) -> f''(X)[D]``. None uses differences of two gradients.
    smoothness : float, optional
        A Lipschitz constant of the gradient over OB+, if known.
    steepness : float, optional
        A Lipschitz constant of f itself over OB+, if known.

    Notes
    -----
    The cost is that of the callables; Hessian products by differences cost one gradient more.
    They receive copies of X and their results are copied, so they may overwrite either. If f is NaN
    or infinite, its gradient is not evaluated, because no step ends there.

    Examples
    --------
    >>> problem = Smooth(lambda X: float((X**2).sum()), (3, 2), jac=lambda X: 2 * X)
    >>> problem.value_and_gradient(np.eye(3, 2))[0]
    2.0
    """

    fun: Fun | FunWithGradient
    size: tuple[int, int]
    jac: Callable[[FloatArray], FloatArray] | bool | None = None
    curvature: Callable[[FloatArray, FloatArray], FloatArray] | None = None
    smoothness: float | None = None
    steepness: float | None = None

    def __post_init__(self) -> None:
        for name in ("fun", "jac", "curvature"):
            given = getattr(self, name)
            is_left_out = given is None and name != "fun"
            if not (callable(given) or is_left_out or (name == "jac" and given is True)):
                raise InputTypeError(f"`{name}` must be callable, not {type(given).__name__}.")
        check_shape(*self.size, "X")

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape (n, k) given at construction."""
        return self.size

    @property
    def lipschitz(self) -> float | None:
        """Return ``smoothness``, the Lipschitz constant of the gradient that the user gave."""
        return self.smoothness

    @property
    def value_lipschitz(self) -> float | None:
        """Return ``steepness``, the Lipschitz constant of f that the user gave."""
        return self.steepness

    def value(self, X: FloatArray) -> float:
        """Call ``fun`` with a copy of X; of a pair, return the value."""
        result = self.fun(X.copy())
        return as_value(result[0] if isinstance(result, tuple) else result)

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Call ``fun`` and ``jac``; the gradient is zero if f is not finite."""
        value, gradient = self._pair(X) if self.jac is True else (self.value(X), self._gradient)
        if not np.isfinite(value):
            return value, np.zeros_like(X)
        matrix = gradient(X) if callable(gradient) else gradient
        return value, as_matrix_like(matrix, X, "The gradient")

    def _pair(self, X: FloatArray) -> tuple[float, object]:
        result = self.fun(X.copy())
        if not isinstance(result, tuple) or len(result) != 2:
            raise InputTypeError(
                "`jac=True` means that `fun` returns (value, gradient), but it returned "
                f"{type(result).__name__}. Return a pair, or pass `jac` as a callable."
            )
        return as_value(result[0]), result[1]

    def _gradient(self, X: FloatArray) -> object:
        return self.jac(X.copy()) if callable(self.jac) else self._difference_gradient(X)

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Call ``curvature``, or difference the gradients if it was not given."""
        if self.curvature is None:
            return super().hessp(X, D)
        product = self.curvature(X.copy(), D.copy())
        return as_matrix_like(product, X, "The Hessian product")

    def _difference_gradient(self, X: FloatArray) -> FloatArray:
        gradient, moved = np.empty(X.shape), X.astype(np.float64)  # float32 would lose the step
        for index in np.ndindex(X.shape):
            here = float(X[index])
            t = DIFFERENCE_STEP * max(1.0, abs(here))
            moved[index] = here + t
            ahead = self.value(moved)
            moved[index] = here - t
            gradient[index] = (ahead - self.value(moved)) / (2 * t)
            moved[index] = here
        return gradient
