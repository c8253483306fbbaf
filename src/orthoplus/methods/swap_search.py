"""The default for orthogonal NMF: seeded centres and swaps in a sketch, exact in the end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator

from orthoplus import kernels
from orthoplus.checks import check_count, check_positive
from orthoplus.data_matrix import times, times_transposed
from orthoplus.geometry import assemble, keep_largest
from orthoplus.methods.alternation import alternate, best_columns, start_weights
from orthoplus.methods.factors import data_of
from orthoplus.protocols import Carry, FloatArray, Problem
from orthoplus.row_groups import group_sums, unit_rows
from orthoplus.status import Status

# Subspace iterations of the sketch; more change nothing that the exact end does not.
_POWER_STEPS = 2
# Columns of the sketch beyond its factor times k.
_SPARE = 8
# Alternations of a trial, and of a first set of centres.
_TRIAL_STEPS, _FIRST_STEPS = 4, 30
# Fewer centres than this get the patience of this many.
_FEW = 10
# Trials between two looks at the clock and the callback, for each centre.
_BATCH = 5
# Singular values below the root of this share of the largest have no part in the sketch.
_RANK = 1e-12


class SwapState(NamedTuple):
    """The best feasible point, and the search for a better one: its sketch and its centres."""

    X: FloatArray
    value: float
    n_iter: int
    sketch: FloatArray
    basis: FloatArray
    centres: FloatArray
    best_centres: FloatArray
    best_sum: float
    n_started: int
    n_trials: int
    n_failures: int
    is_over: bool
    violation: float = 0.0
    Y: FloatArray | None = None


@dataclass(frozen=True)
class SwapSearch:
    r"""Search over groups of rows for :math:`\max \sum_j \sigma_1(A_j)^2`, orthogonal NMF on S+.

    With the groups :math:`A_j` of rows fixed, the best X has their leading left singular vectors as
    columns and leaves :math:`\|A\|_F^2 - \sum_j \sigma_1(A_j)^2`. Three moves search the groups:

    1. a *sketch*: the rows in coordinates of the leading singular vectors, a few dozen numbers;
    2. *swaps* in the sketch: drop the centre that is missed least, put one row with a large
       residual in its place, alternate a few times, keep what is better, until nothing has been for
       a while;
    3. the *exact alternation* on A itself, from the best centres: leading singular vector of each
       group, best group of each row, moves of single rows, to a fixed point.

    The first search starts from the alternation from X, the others from rows sampled by their
    residuals.

    Parameters
    ----------
    n_init : int
        Searches; that with the best sum in the sketch is kept.
    patience : int
        A search ends after this many failed swaps for each of the k centres, or of ten where there
        are fewer.
    max_iter : int
        Most steps, each a batch of swaps.
    sketch : float
        The sketch has this many columns for each of the k centres.
    sample : int
        Most rows the swaps look at, taken at random; the exact alternation has all.
    seed : int
        For the sketch, the sampled rows and the swaps.

    Notes
    -----
    Never worse than the alternation from X (EM-ONMF), with which it begins. The sketch costs
    some products of A with O(k) columns; a swap O(m k) for m sampled rows; a round of the exact
    alternation one product with k columns and some passes over A.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    >>> op.solve(op.problems.ONMF(A, 2), method=SwapSearch()).X.round(3).max(axis=1)
    array([0.447, 0.894, 1.   ])
    """

    state_type: ClassVar[Any] = SwapState

    n_init: int = 3
    patience: int = 3
    max_iter: int = 1000
    sketch: float = 2.0
    sample: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.n_init, "n_init", low=1)
        check_count(self.patience, "patience", low=1)
        check_count(self.max_iter, "max_iter", low=1)
        check_positive(self.sketch, "sketch")
        check_count(self.sample, "sample", low=1)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> SwapState:
        """The alternation from X, and its centres in the sketch."""
        A, rng = data_of(problem), np.random.default_rng(self.seed)
        X, value = alternate(problem, keep_largest(X), with_moves=False)
        B, basis = _sketch(A, self._columns(problem), self.sample, rng)
        labels, weights = kernels.largest_entries(X)
        first = unit_rows(group_sums(A, labels, weights, problem.shape[1]) @ basis)
        centres, _ = kernels.alternate_centres(B, first, _FIRST_STEPS)
        return SwapState(X, value, 0, B, basis, centres, centres, -np.inf, 1, 0, 0, False)

    def step(self, problem: Problem, state: SwapState) -> SwapState:
        """A batch of swaps; after the last one of a search the next, or the exact end."""
        state = self._swap(problem, state._replace(n_iter=state.n_iter + 1))
        if state.n_failures < self._limit(problem.shape[1]):
            return state
        if state.n_started < self.n_init:
            return self._begin(problem, state)
        return self._end(problem, state)

    def stop(self) -> Callable[[SwapState], Status]:
        """Stop after the exact end, or at the limit."""

        def look(state: SwapState) -> Status:
            if state.is_over:
                return Status.CONVERGED
            return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING

        return look

    def progress(self, state: SwapState) -> float:
        """The share of the searches that is done, by the failures of the last one."""
        current = min(state.n_failures / self._limit(state.X.shape[1]), 1.0)
        return (state.n_started - 1 + current) / self.n_init

    def _limit(self, k: int) -> int:
        return self.patience * max(k, _FEW)

    def _swap(self, problem: Problem, state: SwapState) -> SwapState:
        rng = np.random.default_rng([self.seed, state.n_started, state.n_trials])
        draws = rng.random((_BATCH * problem.shape[1], 2))
        centres, total, failures = kernels.search_swaps(
            state.sketch, state.centres, draws, _TRIAL_STEPS
        )
        all_failed = failures == len(draws)
        is_best = total > state.best_sum
        return state._replace(
            centres=centres,
            best_centres=centres if is_best else state.best_centres,
            best_sum=total if is_best else state.best_sum,
            n_trials=state.n_trials + len(draws),
            n_failures=failures + (state.n_failures if all_failed else 0),
        )

    def _begin(self, problem: Problem, state: SwapState) -> SwapState:
        """The next search, from sampled rows."""
        rng = np.random.default_rng([self.seed, state.n_started])
        sampled = unit_rows(_sample_centres(state.sketch, problem.shape[1], rng))
        centres, _ = kernels.alternate_centres(state.sketch, sampled, _FIRST_STEPS)
        return state._replace(
            centres=centres, n_started=state.n_started + 1, n_trials=0, n_failures=0
        )

    def _end(self, problem: Problem, state: SwapState) -> SwapState:
        """The groups of all rows by the best centres, then the exact alternation."""
        scores = times(data_of(problem), state.basis @ state.best_centres.T)
        labels = best_columns(problem, scores)
        weights = start_weights(problem, scores, labels).astype(state.X.dtype)
        X, value = alternate(problem, assemble(labels, weights, problem.shape[1]))
        if state.value < value:
            X, value = alternate(problem, state.X)
        return state._replace(X=X, value=value, is_over=True)

    def _columns(self, problem: Problem) -> int:
        n, k = problem.shape
        return min(int(self.sketch * k) + _SPARE, n, data_of(problem).shape[1])


def _sketch(
    A: Any, columns: int, sample: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Rows of A, a sample where there are many, in an orthonormal basis V of r x columns; and V.

    V nearly spans the leading right singular vectors: subspace iteration from a random start.
    """
    if A.shape[0] > sample and not isinstance(A, LinearOperator):
        A = A[np.sort(rng.permutation(A.shape[0])[:sample])]
    Q = np.linalg.qr(rng.standard_normal((A.shape[0], columns)))[0]
    for _ in range(_POWER_STEPS):
        Q = np.linalg.qr(times(A, times_transposed(A, Q)))[0]
    W = times_transposed(A, Q).astype(np.float64)
    values, vectors = np.linalg.eigh(W.T @ W)  # W is long: its Gram matrix instead of its QR
    is_sound = values > _RANK * values[-1]
    V = W @ (vectors[:, is_sound] / np.sqrt(values[is_sound]))
    return np.ascontiguousarray(times(A, V), dtype=np.float64), V


def _sample_centres(B: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """k rows, each sampled by what those before it leave of its squared norm."""
    squares = np.einsum("ij,ij->i", B, B)
    chosen: list[int] = []
    left = squares.copy()
    for _ in range(k):
        mass = left.sum()
        row = rng.choice(len(B), p=left / mass) if mass > 0 else rng.integers(len(B))
        chosen.append(int(row))
        unit = B[row] / (np.sqrt(squares[row]) or 1.0)
        left = np.minimum(left, np.maximum(squares - np.maximum(B @ unit, 0.0) ** 2, 0.0))
    return B[chosen]
