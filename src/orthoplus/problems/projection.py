"""The projection onto S+, eq. (6.1)."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from orthoplus import kernels
from orthoplus.checks import as_matrix, check_shape, norm_within_range
from orthoplus.geometry import fit_support, keep_largest, labels_of
from orthoplus.protocols import FloatArray, Problem
from orthoplus.row_gains import entries_of, linear_gains


@dataclass(frozen=True, eq=False)
class Projection(Problem):
    r"""min :math:`\|X - C\|_F^2` over S+, (6.1).

    Over OB+ the squared distance is linear in X, and this linear function is what the methods see:

    .. math:: f(X) = \|C\|_F^2 + k - 2 \langle C, X \rangle, \qquad \nabla f = -2C.

    Parameters
    ----------
    C : array of shape (n, k)

    Notes
    -----
    O(nk) for everything. `orthoplus.project` solves the same problem with a certificate.

    Examples
    --------
    >>> Projection(np.eye(3, 2)).value(np.eye(3, 2))
    0.0
    """

    has_exact_gains: ClassVar[bool] = True

    C: FloatArray

    def __post_init__(self) -> None:
        C = as_matrix(self.C, "C")
        check_shape(C.shape[0], C.shape[1], "C")
        norm_within_range(C, "C")
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
        G = self._gradient
        return self._constant + float(np.vdot(G, X)), G

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return np.zeros_like(D)

    def start(self, rng: np.random.Generator) -> FloatArray:
        """C rounded by Procedure 1, as in section 6.1."""
        return keep_largest(self.C)

    def majoriser(self, X: FloatArray) -> FloatArray:
        return self.C

    def move_gains(self, X: FloatArray) -> FloatArray:
        return 2.0 * linear_gains(*entries_of(X), self.C)

    def refine(self, X: FloatArray) -> FloatArray:
        """x_j = projection onto OB+ of c_j on the support, section 4 (i)."""
        labels = labels_of(X)
        entries = kernels.gather(self.C, labels).astype(X.dtype, copy=False)
        return fit_support(labels, entries, self.shape[1])

    @property
    def lipschitz(self) -> float:
        return 0.0

    @property
    def value_lipschitz(self) -> float:
        """Return 2 ||C||_F: f is linear over OB+."""
        return float(np.linalg.norm(self._gradient))
