r"""Inequalities that hold at the best points of orthogonal NMF, and that the relaxation may add.

Let M have nonnegative entries, and let X be best for its groups: the column of a group g is the
leading eigenvector of :math:`M_{gg}`, so that :math:`\sigma^2 x_i = \sum_{m \in g} M_{im} x_m` for
all rows i of g. If :math:`R_{ij} M_{jm} \le M_{im}` for every m, then :math:`R_{ij} x_j \le x_i`
follows whenever i and j share a group, whichever it is. The largest such number is

.. math:: R_{ij} = \min_m M_{im} / M_{jm} .

With :math:`p = R_{ij} x_j / x_i` and :math:`q = R_{il} x_l / x_i`, both at most 1 in a common
group, :math:`(1 - p)(1 - q) \ge 0` says :math:`p + q \le 1 + pq`. Hence for :math:`Z = XX^\top`

.. math:: R_{ij} Z_{ij} \le Z_{ii}, \qquad
          R_{ij} Z_{ij} + R_{il} Z_{il} \le Z_{ii} + R_{ij} R_{il} Z_{jl}

for all rows i, j, l; if one of the rows is in another group, its products vanish, and the rest is
the first inequality, or trivial. With all R = 1 these are the cuts of k-means. They are strong if
rows that are alike are many: then R is near the quotient of their lengths.

A group of zero rows has no leading eigenvector that is better than others: one row may have all of
its weight, and the inequalities hold.
"""

from typing import NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.certify.cuts import CutPool
from orthoplus.core.types import FloatArray, IntArray

# Cuts violated by more than a part of Z_ii are added, at most so many per row at a time. The part
# is the first of these, and falls to the last where few cuts are new. Pairs whose entries are
# smaller than a part of the diagonal are not looked at.
_FIRST_VIOLATION, _LAST_VIOLATION = 1e-2, 1e-4
_MANY_PER_ROW, _FEW_PER_ROW, _LEAST_ENTRY = 10, 0.2, 1e-2
_ROUNDOFF = float(np.finfo(np.float64).eps)


def ratios_of(M: FloatArray, rank: int) -> FloatArray:
    """Return R from below, for M = AA' that was computed from a nonnegative A of so many columns.

    Sums of nonnegative products are accurate to ``rank`` roundings, relative to themselves.

    Examples
    --------
    >>> R = ratios_of(np.array([[4.0, 2.0], [2.0, 2.0]]), 1)
    >>> R.round(9)
    array([[1. , 1. ],
           [0.5, 1. ]])
    """
    return np.asarray(kernels.row_ratios(M) * (1.0 - (4.0 * rank + 32.0) * _ROUNDOFF))


class RatioCuts(NamedTuple):
    """Cuts with their multipliers, as `orthoplus.certify.cuts.Cuts`; with R_ij and R_il of each.

    Examples
    --------
    >>> one, none = np.array([0]), np.array([-1])
    >>> RatioCuts(one, one + 1, none, np.array([2.0]), np.array([0.5]), np.array([0.0])).matrix(2)
    array([[-2. ,  0.5],
           [ 0.5,  0. ]])
    """

    i: IntArray
    j: IntArray
    l: IntArray  # noqa: E741  (the letter of the formula)
    mu: FloatArray
    first: FloatArray
    second: FloatArray

    def matrix(self, n: int, scale: FloatArray | None = None) -> FloatArray:
        """Return the n x n matrix of the cuts times their multipliers; there is no scale."""
        C = np.zeros((n, n))
        half, a, b = self.mu / 2, self.first, self.second
        np.add.at(C, (self.i, self.j), half * a)
        np.add.at(C, (self.i, self.i), -half)
        at = np.flatnonzero(self.l >= 0)
        np.add.at(C, (self.i[at], self.l[at]), (half * b)[at])
        np.add.at(C, (self.j[at], self.l[at]), -(half * a * b)[at])
        return C + C.T


class RatioPool(CutPool):
    """The cuts that are in use, for the ratios R, and their multipliers over the penalty."""

    def __init__(self, offset: FloatArray, R: FloatArray) -> None:
        super().__init__(offset, np.ones(len(R)))
        self.R, self._least = R, _FIRST_VIOLATION

    def sweep(self, T: FloatArray) -> None:
        """Improve all multipliers once, for the projection of T."""
        kernels.sweep_ratio_cuts_into(self._rows, self.R, T, self._multipliers, self.offset)

    def separate(self, P: FloatArray) -> int:
        """Add cuts that P violates and drop those without a multiplier; return how many are new."""
        kept = self._multipliers > 0
        self._rows, self._multipliers = self._rows[kept], self._multipliers[kept]
        n = len(P)
        best, violation = kernels.worst_ratio_cuts(P.astype(np.float64), self.R, _LEAST_ENTRY)
        # Rows without much weight matter less.
        violation *= np.minimum(n * P.diagonal() / max(float(np.trace(P)), 1e-300), 1.0)[:, None]
        n_new = int((violation > self._least).sum())
        while n_new < _FEW_PER_ROW * n and self._least > _LAST_VIOLATION:
            self._least /= 10
            n_new = int((violation > self._least).sum())
        n_new = min(_MANY_PER_ROW * n, n_new)
        if n_new == 0:
            return 0
        worst = np.argpartition(violation, n * n - n_new, axis=None)[n * n - n_new :]
        i, j = np.unravel_index(np.sort(worst), violation.shape)
        new = np.column_stack([i, j, best[i, j]])
        both = np.vstack([self._rows, new])
        first = np.sort(np.unique(both, axis=0, return_index=True)[1])
        self._rows = np.ascontiguousarray(both[first])
        n_new = len(first) - len(self._multipliers)
        self._multipliers = np.append(self._multipliers, np.zeros(n_new))
        return n_new

    def cuts(self, penalty: float) -> RatioCuts:  # type: ignore[override]
        """Return the cuts with their multipliers times the penalty parameter."""
        kept = self._multipliers > 0
        i, j, l = self._rows[kept].T.copy()  # noqa: E741
        second = np.where(l >= 0, self.R[i, l], 0.0)
        return RatioCuts(i, j, l, self._multipliers[kept] * penalty, self.R[i, j], second)
