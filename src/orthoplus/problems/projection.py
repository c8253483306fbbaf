"""The projection onto S+, eq. (6.1)."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from orthoplus import kernels
from orthoplus.core.bounds import rounding_margin
from orthoplus.core.checks import as_matrix, check_shape, norm_within_range
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray
from orthoplus.data import inner_product
from orthoplus.geometry.stiefel import fit_support, keep_largest, labels_of
from orthoplus.linalg.row_gains import entries_of, linear_gains
from orthoplus.projection import project_stiefel_plus

UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, eq=False)
class Projection(Problem):
    r"""min :math:`\|X - C\|_F^2` over S+, (6.1).

    Over OB+ the squared distance is linear in X, and the methods minimize this linear function:

    .. math:: f(X) = \|C\|_F^2 + k - 2 \langle C, X \rangle, \qquad \nabla f = -2C.

    Parameters
    ----------
    C : array of shape (n, k)
        The matrix to project, with n >= k and entries of any sign.

    Notes
    -----
    All operations except the bound cost O(nk). `orthoplus.project` solves the same problem with a
    certificate, and `lower_bound` uses its upper bound of <C, X>.

    Examples
    --------
    >>> problem = Projection(np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]]))
    >>> X = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]])
    >>> problem.value(X), round(problem.lower_bound(), 12)
    (23.0, 23.0)
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
        """Return the shape of C, which is that of X."""
        return self.C.shape[0], self.C.shape[1]

    @cached_property
    def _gradient(self) -> FloatArray:
        return -2.0 * self.C

    @cached_property
    def _constant(self) -> float:
        rows = np.einsum("ij,ij->i", self.C, self.C, dtype=np.float64)
        return float(rows.sum()) + self.C.shape[1]

    @cached_property
    def _bound(self) -> float:
        found = project_stiefel_plus(self.C)
        # The bound of <C, X> is rounded up already. Remaining errors: k + 1 unit roundoffs in a row
        # of C, and at most 63 in the pairwise sum over the rows and the last two sums.
        size = self._constant + 2.0 * abs(found.bound)
        rounding = (self.C.shape[1] + 64) * UNIT_ROUNDOFF * size
        return max(self._constant - 2.0 * found.bound - rounding, 0.0)

    def value(self, X: FloatArray) -> float:
        """Return ||C||^2 + k - 2 <C, X>, which is f if the columns have unit norm."""
        return self._constant + inner_product(self._gradient, X)

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return f and its constant gradient -2C."""
        return self.value(X), self._gradient

    def lower_bound(self) -> float:
        """Return ||C||^2 + k - 2 b with the certified bound b of <C, X>, rounded down.

        C is certified at the first call. If the gap is zero, the bound is the minimum.
        """
        return self._bound

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float:
        """Return twice the rounding margin of ||C||^2 + k + 2 ||C|| sqrt(k)."""
        n, k = self.shape
        norm = float(np.linalg.norm(self.C.astype(np.float64, copy=False)))
        size = norm**2 + k + 2.0 * norm * k**0.5
        return 2.0 * rounding_margin(size, n * k, self.C.dtype, dtype)

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return zeros: f is linear on OB+."""
        return np.zeros_like(D)

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Return C rounded by Procedure 1, as in section 6.1."""
        return keep_largest(self.C)

    def majorizer(self, X: FloatArray) -> FloatArray:
        """Return C: f decreases as <C, X> increases."""
        return self.C

    def move_gains(self, X: FloatArray) -> FloatArray:
        """Return the decrease of f by each move of a row, twice that of -<C, X>."""
        return 2.0 * linear_gains(*entries_of(X), self.C)

    def refine(self, X: FloatArray) -> FloatArray:
        """Project each c_j, restricted to the support, onto OB+, section 4 (i)."""
        labels = labels_of(X)
        entries = kernels.gather(self.C, labels).astype(X.dtype, copy=False)
        return fit_support(labels, entries, self.shape[1])

    @property
    def lipschitz(self) -> float:
        """Return 0: the gradient is constant."""
        return 0.0

    @property
    def value_lipschitz(self) -> float:
        """Return 2 ||C||_F, because f is linear over OB+."""
        return float(np.linalg.norm(self._gradient))
