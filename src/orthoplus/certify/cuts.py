r"""Inequalities that hold for clusterings and that tighten the relaxation.

For k-means let :math:`R_{ij} = 1`, otherwise let it be at most :math:`x_i / x_j` for any two rows
of one group of the best X. For :math:`Z = XX^\top` and all rows i, j, l,

.. math:: R_{ij} Z_{ij} \le Z_{ii}, \qquad
          R_{ij} Z_{ij} + R_{il} Z_{il} \le Z_{ii} + R_{ij} R_{il} Z_{jl} :

if the three rows share a group, the second one is :math:`(x_i - R_{ij} x_j) (x_i - R_{il} x_l) \ge
0`; otherwise at most one term on the left is nonzero, and :math:`Z_{ii}` is at least as large.
Written as :math:`\langle C_c, Z \rangle \le 0`, each has a multiplier :math:`\mu_c \ge 0`.
"""

from typing import NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray, IntArray

# Cuts that are violated by more than a share of the largest entry of Z are added, at most
# _MANY_PER_ROW per row at a time. The share starts at the first value and falls to the last one
# when fewer than _FEW_PER_ROW new cuts per row are found. Pairs whose entries are below
# _LEAST_ENTRY of the diagonal are skipped.
_FIRST_VIOLATION, _LAST_VIOLATION = 1e-2, 1e-6
_MANY_PER_ROW, _FEW_PER_ROW, _LEAST_ENTRY, _LEAST_PART = 10, 0.2, 1e-3, 1.0
# Ratios below the first are treated as 0. Cuts are not used if half of the rows have no other row
# with a ratio above the second.
_LEAST_RATIO, _USEFUL_RATIO = 0.05, 0.3
# A ratio of two sums of nonnegative terms is accurate to this many roundings per term.
_RATIO_ROUNDINGS = 8


class Cuts(NamedTuple):
    """Hold cuts and their multipliers, one cut per array entry.

    Attributes
    ----------
    i, j, l : ndarray of int
        The rows of each cut; ``l`` is -1 for a pair.
    mu : ndarray of float
        The nonnegative multipliers.

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

    def merged(self, groups: IntArray, factors: FloatArray) -> "Cuts":
        """Return the cuts of merged rows, where row i becomes row ``groups[i]``.

        Cuts with two rows in the same group are dropped. The multipliers of cuts whose first row is
        i are multiplied by ``factors[i]``.
        """
        i, j = groups[self.i], groups[self.j]
        l = np.where(self.l >= 0, groups[self.l], -1)  # noqa: E741
        # Drop cuts with two rows in the same merged row, which no longer have this form.
        kept = (i != j) & (i != l) & (j != l)
        mu = self.mu * factors[self.i]
        return Cuts(i[kept], j[kept], l[kept], mu[kept])

    def matrix(self, n: int, ratios: FloatArray | None = None) -> FloatArray:
        r"""Return the symmetric n x n matrix :math:`\sum_c \mu_c C_c`.

        ``ratios`` is R; all ones by default.
        """
        C = np.zeros((n, n))
        half = self.mu / 2
        at = np.flatnonzero(self.l >= 0)
        ij, il = half, half[at]
        if ratios is not None:
            ij, il = half * ratios[self.i, self.j], il * ratios[self.i[at], self.l[at]]
        jl = ij[at] * (1.0 if ratios is None else ratios[self.i[at], self.l[at]])
        np.add.at(C, (self.i, self.j), ij)
        np.add.at(C, (self.i, self.i), -half)
        np.add.at(C, (self.i[at], self.l[at]), il)
        np.add.at(C, (self.j[at], self.l[at]), -jl)
        return C + C.T


def ratio_bounds(M: FloatArray, n_terms: int) -> FloatArray | None:
    r"""Return R with :math:`x_i \ge R_{ij} x_j` for any two rows of a group of an optimal X.

    With the groups fixed, the best x of a group is the leading eigenvector of its block of M, so
    :math:`\sigma^2 x_i = \sum_l M_{il} x_l` over the group. If M has no negative entry,

    .. math:: x_i \ge R_{ij} x_j, \qquad R_{ij} = \min_{l : M_{jl} > 0} M_{il} / M_{jl} .

    Parameters
    ----------
    M : ndarray of shape (n, n)
        A matrix without negative entries.
    n_terms : int
        Each entry of M is a sum of this many nonnegative products. It is accurate to this many
        roundings, and R is reduced accordingly.

    Returns
    -------
    R : ndarray of shape (n, n) or None
        Entries are 0 if no useful bound is known. The result is None if that holds for most rows.

    Examples
    --------
    >>> A = np.array([[1.0, 0.0], [3.0, 1.0], [0.0, 1.0]])
    >>> ratio_bounds(A[:2] @ A[:2].T, 2).round(12)
    array([[1. , 0.3],
           [3. , 1. ]])
    """
    margin = _RATIO_ROUNDINGS * (n_terms + _RATIO_ROUNDINGS) * np.finfo(np.float64).eps
    ratios = kernels.least_ratios(np.ascontiguousarray(M), _LEAST_RATIO) * max(1.0 - margin, 0.0)
    best = np.where(np.eye(len(M), dtype=bool), 0.0, ratios).max(axis=1)
    return ratios if np.median(best) >= _USEFUL_RATIO else None


class CutPool:
    """Manage the cuts in use and their multipliers divided by the penalty parameter.

    Attributes
    ----------
    offset : ndarray of shape (n, n)
        K, the sum of the cuts times these multipliers; infinite where Z must be 0.
    """

    def __init__(self, offset: FloatArray, ratios: FloatArray) -> None:
        self.offset, self.ratios = offset, ratios
        self._rows: IntArray = np.zeros((0, 3), dtype=np.int64)
        self._multipliers: FloatArray = np.zeros(0)
        self._least = _FIRST_VIOLATION

    def __len__(self) -> int:
        return len(self._rows)

    def sweep(self, T: FloatArray) -> None:
        """Update every multiplier once for the projection of T."""
        kernels.sweep_cuts_into(self._rows, self.ratios, T, self._multipliers, self.offset)

    def separate(self, P: FloatArray) -> int:
        """Drop cuts with zero multipliers, add violated ones, and return the number added."""
        kept = self._multipliers > 0
        self._rows, self._multipliers = self._rows[kept], self._multipliers[kept]
        n, size = len(P), float(P.diagonal().max(initial=0.0))
        # Single precision suffices: it is finer than the smallest violation considered.
        P = np.asarray(P, dtype=np.float32)
        # If no pair cut is violated, the violation of a triangle is at most its smaller entry:
        # pairs with small entries can be skipped.
        least = (_LEAST_ENTRY, _LEAST_PART * self._least * size)
        best, violation = kernels.worst_cuts(P, self.ratios, least)
        at = np.flatnonzero(violation > self._least * size)
        while len(at) < _FEW_PER_ROW * n and self._least > _LAST_VIOLATION:
            self._least /= 10
            at = np.flatnonzero(violation > self._least * size)
        if len(at) > _MANY_PER_ROW * n:
            worst = np.argpartition(violation.ravel()[at], len(at) - _MANY_PER_ROW * n)
            at = np.sort(at[worst[len(at) - _MANY_PER_ROW * n :]])
        new = np.column_stack([*np.unravel_index(at, (n, n)), best.ravel()[at]])
        # Skip cuts that are already in the pool.
        new = new[~np.isin(_keys(new, n), _keys(self._rows, n))]
        self._rows = np.vstack([self._rows, new])
        self._multipliers = np.append(self._multipliers, np.zeros(len(new)))
        return len(new)

    def add(self, cuts: Cuts, penalty: float) -> None:
        """Add cuts, dividing their multipliers by the penalty parameter."""
        self._rows = np.vstack([self._rows, np.column_stack([cuts.i, cuts.j, cuts.l])])
        self._multipliers = np.append(self._multipliers, cuts.mu / penalty)
        scaled = cuts._replace(mu=cuts.mu / penalty)
        self.offset += scaled.matrix(len(self.offset), self.ratios)

    def rescale(self, factor: float) -> None:
        """Divide the multipliers by the factor that the penalty parameter was multiplied by."""
        self._multipliers = self._multipliers / factor
        self.offset /= factor

    def save(self) -> tuple[FloatArray, FloatArray]:
        """Return a snapshot for `restore`, valid until cuts are added or dropped."""
        return self._multipliers.copy(), self.offset.copy()

    def restore(self, saved: tuple[FloatArray, FloatArray]) -> None:
        """Restore saved multipliers."""
        self._multipliers = saved[0].copy()
        self.offset[:] = saved[1]

    def cuts(self, penalty: float) -> Cuts:
        """Return the cuts with their multipliers in the scale of the problem."""
        kept = self._multipliers > 0
        i, j, l = self._rows[kept].T.copy()  # noqa: E741
        return Cuts(i, j, l, self._multipliers[kept] * penalty)


def _keys(cuts: IntArray, n: int) -> IntArray:
    """Return a unique integer key for each cut."""
    return np.asarray((cuts[:, 0] * n + cuts[:, 1]) * (n + 1) + cuts[:, 2])
