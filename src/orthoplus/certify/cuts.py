r"""Inequalities that hold for k-means only, and that the relaxation may add.

For X with the entries :math:`1/\sqrt{\text{size}}` and :math:`Z = XX^\top`, for all rows i, j, l,

.. math:: Z_{ij} \le Z_{ii}, \qquad Z_{ij} + Z_{il} \le Z_{ii} + Z_{jl}.

Written as :math:`\langle C_c, Z \rangle \le 0`, each has a multiplier :math:`\mu_c \ge 0`.
"""

from typing import NamedTuple

import numpy as np

from orthoplus.core.types import FloatArray, IntArray


class Cuts(NamedTuple):
    """Cuts with their multipliers, one per entry of the arrays.

    Attributes
    ----------
    i, j, l : ndarray of int
        The rows of each cut; ``l`` is -1 for a pair.
    mu : ndarray of float
        The multipliers, at least 0.

    Examples
    --------
    >>> Cuts.none().matrix(2)
    array([[0., 0.],
           [0., 0.]])
    >>> pair = Cuts(np.array([0]), np.array([1]), np.array([-1]), np.array([3.0]))
    >>> pair.matrix(2)
    array([[-3. ,  1.5],
           [ 1.5,  0. ]])
    """

    i: IntArray
    j: IntArray
    l: IntArray  # noqa: E741  (the letter of the formula)
    mu: FloatArray

    @staticmethod
    def none() -> "Cuts":
        """Return an empty set of cuts."""
        empty = np.zeros(0, dtype=np.int64)
        return Cuts(empty, empty, empty, np.zeros(0))

    def matrix(self, n: int) -> FloatArray:
        r"""Return the n x n matrix :math:`\sum_c \mu_c C_c`, which is symmetric."""
        C = np.zeros((n, n))
        half = self.mu / 2
        np.add.at(C, (self.i, self.j), half)
        np.add.at(C, (self.i, self.i), -half)
        at = np.flatnonzero(self.l >= 0)
        np.add.at(C, (self.i[at], self.l[at]), half[at])
        np.add.at(C, (self.j[at], self.l[at]), -half[at])
        return C + C.T
