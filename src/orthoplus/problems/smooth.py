"""A user's own smooth f, from callables."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from orthoplus.checks import as_matrix_like, as_value, check_shape
from orthoplus.protocols import DIFFERENCE_STEP, FloatArray, Problem

Fun = Callable[[FloatArray], float]
FunWithGradient = Callable[[FloatArray], tuple[float, FloatArray]]


@dataclass(frozen=True, eq=False)
class Smooth(Problem):
    """f given by callables for its value, gradient and Hessian product.

    Parameters
    ----------
    fun : callable
        ``fun(X) -> float``; with ``jac=True``, ``fun(X) -> (float, gradient)``.
    size : (int, int)
        The shape (n, k) of X.
    jac : callable, True or None
        ``jac(X) -> gradient`` of the shape of X. None takes central differences of ``fun``: 2nk
        evaluations a gradient, for small problems only.
    curvature : callable, optional
        ``curvature(X, D) -> f''(X)[D]``. None takes differences of two gradients.
    smoothness : float, optional
        A Lipschitz constant of the gradient over OB+, where known.

    Notes
    -----
    The cost is that of the callables; Hessian products by differences cost one gradient more.

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

    def __post_init__(self) -> None:
        for name in ("fun", "jac", "curvature"):
            given = getattr(self, name)
            if given is not None and not callable(given) and not (name == "jac" and given is True):
                raise TypeError(f"`{name}` must be callable, not {type(given).__name__}.")
        check_shape(*self.size, "X")

    @property
    def shape(self) -> tuple[int, int]:
        return self.size

    @property
    def lipschitz(self) -> float | None:
        return self.smoothness

    def value(self, X: FloatArray) -> float:
        result = self.fun(X)
        return as_value(result[0] if isinstance(result, tuple) else result)

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        if self.jac is True:
            result = self.fun(X)
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(
                    "`jac=True` says that `fun` returns (value, gradient), but it returned "
                    f"{type(result).__name__}. Return a pair, or pass `jac` as a callable."
                )
            return as_value(result[0]), as_matrix_like(result[1], X, "The gradient")
        gradient = self.jac(X) if callable(self.jac) else self._difference_gradient(X)
        return self.value(X), as_matrix_like(gradient, X, "The gradient")

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        if self.curvature is None:
            return super().hessp(X, D)
        return as_matrix_like(self.curvature(X, D), X, "The Hessian product")

    def _difference_gradient(self, X: FloatArray) -> FloatArray:
        gradient, moved = np.empty(X.shape), X.astype(np.float64)  # the step drowns in float32
        for index in np.ndindex(X.shape):
            here = float(X[index])
            t = DIFFERENCE_STEP * max(1.0, abs(here))
            moved[index] = here + t
            ahead = self.value(moved)
            moved[index] = here - t
            gradient[index] = (ahead - self.value(moved)) / (2 * t)
            moved[index] = here
        return gradient
