"""Clusters of counts: alternation and exact row moves for the Kullback-Leibler divergence."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from orthoplus import kernels
from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.errors import InputTypeError
from orthoplus.core.outer_method import RestStop, SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.types import Carry, FloatArray, IntArray
from orthoplus.data import MemoryMatrix
from orthoplus.geometry.stiefel import assemble, labels_of
from orthoplus.linalg.starts import svd_start


class CountModel(Protocol):
    """What the alternation asks of a problem: KLONMF."""

    A: MemoryMatrix

    @property
    def row_sums(self) -> FloatArray: ...
    @property
    def parts(self) -> tuple[FloatArray, IntArray, IntArray]: ...


def _counts(problem: Problem) -> CountModel:
    if not hasattr(problem, "parts"):
        own = type(getattr(problem, "problem", problem)).__name__
        raise InputTypeError(f"KLAlternating solves KLONMF(A, k), not {own}. Use EP4Orth for it.")
    return cast(CountModel, problem)


class KLState(NamedTuple):
    """A feasible point; while ``is_smooth`` the profiles are smoothed, then rows move singly."""

    X: FloatArray
    value: float
    n_iter: int
    is_smooth: bool
    is_fixed: bool
    violation: float = 0.0
    Y: FloatArray | None = None


@dataclass(frozen=True)
class KLAlternating(SeededMethod):
    r"""Alternate labels and profiles for `KLONMF`, then move single rows while D falls.

    .. math:: \pi_i = \arg\max_j \sum_l a_{il} \log p_{jl}, \qquad
              p_{jl} = (1 - \lambda) \frac{c_{jl}}{\sum_m c_{jm}} + \lambda\, \bar p_l, \quad
              c_j = \sum_{\pi_i = j} a_i,

    where :math:`\bar p` is the profile of all rows. With :math:`\lambda = 0` both steps are exact,
    and a word that only one group has holds its documents there for ever; so the alternation is
    smoothed, and what follows is exact: a row moves where D after the move is least.

    Parameters
    ----------
    start : {"svd", "random", "given"}
        First labels from the singular vectors of A, from k random rows, or from the given X.
    smoothing : float
        :math:`\lambda`; 0 is the plain alternation.
    max_iter : int
        Steps, each an alternation or a sweep over the rows.
    seed : int
        For the random rows and the SVD.

    Notes
    -----
    The alternation is that of arXiv 2410.07786. A step costs O(nnz k). The value never rises: a
    smoothed step that would raise it ends the alternation, and a sweep only makes moves that lower
    it.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[3.0, 1.0, 0.0], [6.0, 2.0, 0.0], [0.0, 1.0, 4.0], [0.0, 0.0, 2.0]])
    >>> op.solve(op.problems.KLONMF(A, 2), method=KLAlternating()).labels
    array([0, 0, 1, 1])
    """

    state_type = KLState

    start: str = "svd"
    smoothing: float = 0.5
    max_iter: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.start, "start", ("svd", "random", "given"))
        check_range(self.smoothing, "smoothing", low=0.0, high=1.0)
        check_count(self.max_iter, "max_iter", low=1)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> KLState:
        """The first labels."""
        A, k = _counts(problem).A, problem.shape[1]
        rng = np.random.default_rng(self.seed)
        if self.start == "random":
            rows = A.take_rows(rng.permutation(A.shape[0])[:k])
            labels = self._closest(problem, np.asarray(rows, dtype=np.float64))
        else:
            labels = labels_of(X if self.start == "given" else svd_start(A, k, "clipped", rng))
        return self._state(problem, labels, X.dtype, (0, True, False))

    def step(self, problem: Problem, state: KLState) -> KLState:
        """One alternation while that lowers D, then sweeps of single moves."""
        model, k, n_iter = _counts(problem), problem.shape[1], state.n_iter + 1
        labels = labels_of(state.X)
        sums = model.A.group_sums(labels, np.ones(len(labels)), k)
        if state.is_smooth:
            moved = self._closest(problem, sums)
            new = self._state(problem, moved, state.X.dtype, (n_iter, True, False))
            return (
                new if new.value < state.value else state._replace(n_iter=n_iter, is_smooth=False)
            )
        sums = np.ascontiguousarray(sums.T)
        n_moved = kernels.move_rows_into(model.parts, labels, sums)
        new = self._state(problem, labels, state.X.dtype, (n_iter, False, n_moved == 0))
        return new if new.value < state.value else state._replace(n_iter=n_iter, is_fixed=True)

    def stop(self) -> RestStop:
        """Stop where no row moves, or at the limit."""
        return RestStop("is_fixed", self.max_iter)

    def _closest(self, problem: Problem, sums: FloatArray) -> IntArray:
        """The group of the largest smoothed likelihood for each row; sums is k x r."""
        mean = sums.sum(axis=0)
        profiles = (1.0 - self.smoothing) * _shares(sums) + self.smoothing * _shares(mean[None])
        logs = np.log(np.maximum(profiles, np.finfo(np.float64).tiny))
        return np.asarray(_counts(problem).A.matmul(logs.T).argmax(axis=1))

    def _state(
        self,
        problem: Problem,
        labels: IntArray,
        dtype: Any,
        progress: tuple[int, bool, bool],
    ) -> KLState:
        """The state at these labels, all groups made non-empty, weights at their best."""
        labels = _without_empty(labels, _counts(problem).row_sums, problem.shape[1])
        X = assemble(labels, np.ones(len(labels), dtype=dtype), problem.shape[1])
        refined = problem.refine(X)
        X = X if refined is None else refined
        return KLState(X, problem.value(X), *progress)


def _shares(sums: FloatArray) -> FloatArray:
    totals = sums.sum(axis=1, keepdims=True)
    return np.asarray(sums / np.where(totals > 0, totals, 1.0))


def _without_empty(labels: IntArray, sizes: FloatArray, k: int) -> IntArray:
    """Every row in a group, and no group empty: those take the largest rows of groups with more."""
    labels = np.where(labels < 0, 0, labels)
    counts = np.bincount(labels, minlength=k)
    for j in np.flatnonzero(counts == 0):
        row = int(np.where(counts[labels] > 1, sizes, -1.0).argmax())
        counts[labels[row]] -= 1
        labels[row], counts[j] = j, 1
    return labels
