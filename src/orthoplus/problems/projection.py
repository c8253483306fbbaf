"""The projection onto S+, eq. (6.1)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from orthoplus.checks import as_matrix, check_shape
from orthoplus.geometry import project_oblique_plus
from orthoplus.protocols import FloatArray, Problem


@dataclass(frozen=True, eq=False)
class Projection(Problem):
    r"""min :math:`\|X - C\|_F^2` over S+, eq. (6.1).

    Over OB+ the squared distance is linear in X, and this linear function is what the methods see:

    .. math:: f(X) = \|C\|_F^2 + k - 2 \langle C, X \rangle, \qquad \nabla f = -2C.

    Parameters
    ----------
    C : array of shape (n, k)

    Examples
    --------
    >>> Projection(np.eye(3, 2)).value(np.eye(3, 2))
    0.0
    """

    C: FloatArray

    def __post_init__(self) -> None:
        C = as_matrix(self.C, "C")
        check_shape(C.shape[0], C.shape[1], "C")
        object.__setattr__(self, "C", C)

    @property
    def shape(self) -> tuple[int, int]:
        return self.C.shape[0], self.C.shape[1]

    @cached_property
    def _gradient(self) -> FloatArray:
        return -2.0 * self.C

    @cached_property
    def _constant(self) -> float:
        return float(np.vdot(self.C, self.C)) + self.C.shape[1]

    def value(self, X: FloatArray) -> float:
        return self._constant + float(np.vdot(self._gradient, X))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        return self.value(X), self._gradient

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return np.zeros_like(D)

    def refine(self, X: FloatArray) -> FloatArray:
        """x_j = projection onto OB+ of c_j on the support, section 4 (i)."""
        below = 2.0 * min(float(self.C.min()), 0.0) - 1.0  # loses against all of the support
        return project_oblique_plus(np.where(X > 0, self.C, below))

    @property
    def lipschitz(self) -> float:
        return 0.0
