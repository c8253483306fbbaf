r"""A start for the relaxation of many rows, from a few hundred groups of similar rows.

Let D have one column for each small group of rows, with entries :math:`d_i \ge 0` and unit columns.
The relaxation of the small matrix :math:`D^\top M D` has the solution :math:`Z` and multipliers
:math:`S`; then :math:`DZD^\top` is feasible for all rows, and :math:`DSD^\top \ge 0` gives a valid
bound, which is good if the rows of a group are nearly parallel. The iteration for all rows starts
there, with the penalty parameter that was best for the groups: both save most of its iterations.

Since :math:`DZD^\top` is feasible, the optimum of the relaxation of all rows is at least that
of the groups. Only blocks of rows are small enough for cuts. Whether cuts improve the bound of
the groups by more than blocks lose decides between all rows at once and blocks.
"""

import heapq
from collections.abc import Callable
from functools import partial

import numpy as np

from orthoplus.certify.anytime import run_relaxation
from orthoplus.certify.micro_groups import main_direction
from orthoplus.certify.model import Model
from orthoplus.certify.relaxation import Relaxation
from orthoplus.core.point import SupportPoint
from orthoplus.core.types import BoolArray, FloatArray, IntArray
from orthoplus.kernels.threads import single_blas

# Number of groups of rows.
_GROUPS = 400


class CoarseStart:
    """Solve the relaxation of small groups of similar rows.

    Parameters
    ----------
    model : Model
    point : SupportPoint
        The answer.
    deadlines : tuple of two floats
        Deadlines of the relaxation without cuts and of the one with cuts.

    Attributes
    ----------
    groups : ndarray of int, shape (n,)
        The small group of each row, within the groups of the answer.
    scale : ndarray of shape (n,)
        The entries of D.
    relaxation : Relaxation
    optimum, cut_optimum : float
        Upper estimates of the optimum without and with cuts.
    """

    def __init__(self, model: Model, point: SupportPoint, deadlines: tuple[float, float]) -> None:
        assert model.factor is not None
        self._model, self._point = model, point
        A = np.asarray(model.factor.to_dense(), dtype=np.float64) * model.scale
        sizes = np.ones(model.n) if model.has_row_sums else np.linalg.norm(A, axis=1)
        self.groups = split_rows(A, point.labels, _GROUPS, is_scaled=not model.has_row_sums)
        m = int(self.groups.max()) + 1
        self._lengths = np.sqrt(np.bincount(self.groups, sizes**2, minlength=m))
        tiny = np.finfo(np.float64).tiny
        self.scale = sizes / np.maximum(self._lengths, tiny)[self.groups]
        self._B = np.zeros((m, A.shape[1]))
        np.add.at(self._B, self.groups, A * self.scale[:, None])
        self.relaxation = self._relaxation(has_cuts=False)
        self.optimum: float = self._run(self.relaxation, deadlines[0])
        find_ratios = partial(model.ratios, self._B @ self._B.T)
        with_cuts = self._relaxation(has_cuts=True)
        self.cut_optimum: float = self._run(with_cuts, deadlines[1], find_ratios)

    def _relaxation(self, *, has_cuts: bool) -> Relaxation:
        model, point, m = self._model, self._point, len(self._B)
        labels = np.zeros(m, dtype=np.int64)
        labels[self.groups] = point.labels
        weights = np.zeros(m)
        np.add.at(weights, self.groups, point.weights * self.scale)
        return Relaxation(
            self._B @ self._B.T,
            model.k,
            has_row_sums=model.has_row_sums,
            start=(labels, weights),
            sizes=self._lengths**2 if model.has_row_sums else None,
            has_cuts=has_cuts,
        )

    def _run(
        self,
        relaxation: Relaxation,
        deadline: float,
        find_ratios: Callable[[], FloatArray | None] | None = None,
    ) -> float:
        value = self._model.trace(self._point)
        with single_blas:
            return list(run_relaxation(relaxation, value, deadline, find_ratios))[-1]

    def favors_all_rows(self, rows_per_block: int) -> bool:
        """Return whether all rows at once seem better than blocks of this many rows with cuts."""
        value = self._model.trace(self._point)
        # Blocks lose about the share k / rows of the residual.
        lost = (self._model.size - value) * self._model.k / rows_per_block
        return self.optimum - value < self.cut_optimum - value + lost

    def lift(self) -> tuple[FloatArray, float]:
        """Return DTD' in float32 for the state T of the relaxation, and the penalty parameter."""
        T, penalty = self.relaxation.state()
        T = T.astype(np.float32)
        lifted = T[:, self.groups][self.groups]
        d = self.scale.astype(np.float32)
        lifted *= d
        lifted *= d[:, None]
        return lifted, penalty


def split_rows(A: FloatArray, labels: IntArray, m: int, *, is_scaled: bool) -> IntArray:
    """Split the groups of an answer into at most m groups of similar rows.

    Parameters
    ----------
    A : ndarray of shape (n, r)
    labels : ndarray of int, shape (n,)
        Rows of different groups are never mixed; -1 counts as a group.
    m : int
    is_scaled : bool
        Whether rows are compared by direction only, ignoring their lengths.

    Examples
    --------
    >>> A = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
    >>> split_rows(A, np.zeros(4, dtype=int), 2, is_scaled=True)
    array([0, 0, 1, 1])
    """
    lengths = np.linalg.norm(A, axis=1) if is_scaled else np.ones(len(A))
    U = A / np.where(lengths > 0, lengths, 1.0)[:, None]
    heap: list[tuple[float, int, IntArray]] = []

    def push(rows: IntArray) -> None:
        own, weights = U[rows], lengths[rows] ** 2
        off = own - weights @ own / max(float(weights.sum()), np.finfo(np.float64).tiny)
        variance = float(weights @ np.einsum("ij,ij->i", off, off)) if len(rows) > 1 else 0.0
        heapq.heappush(heap, (-variance, int(rows[0]), rows))

    for label in np.unique(labels):
        push(np.flatnonzero(labels == label))
    # Always split the group with the largest within-group variance.
    while len(heap) < m and heap[0][0] < 0:
        rows = heapq.heappop(heap)[2]
        is_left = _halve(U[rows], lengths[rows])
        push(rows[is_left])
        push(rows[~is_left])
    groups = np.empty(len(A), dtype=np.int64)
    for number, (_, _, rows) in enumerate(sorted(heap, key=lambda entry: entry[1])):
        groups[rows] = number
    return groups


def _halve(own: FloatArray, lengths: FloatArray) -> BoolArray:
    """Return which rows lie on one side of the mean along their main direction of variance."""
    masses = lengths**2
    off = own - masses @ own / float(masses.sum())
    is_left = np.asarray(off @ main_direction(off, masses) <= 0)
    if is_left.all() or not is_left.any():  # one side is empty because of rounding
        is_left = np.arange(len(own)) < len(own) // 2
    return is_left
