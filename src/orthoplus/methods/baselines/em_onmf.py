"""EM-ONMF: orthogonal NMF as weighted spherical k-means (Pompili et al. 2014)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.outer_method import SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import SMALLEST_NORMAL, Carry, FloatArray, IntArray
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.geometry.stiefel import violation
from orthoplus.methods.factors import data_of, factor_model, start_state, times, times_transposed

# Smallest weight of a nonzero row, which belongs to a group even if its product with the center is
# 0.
_MIN_WEIGHT = SMALLEST_NORMAL**0.5


class EMState(NamedTuple):
    """Hold the best factors so far and the state of the current start."""

    X: FloatArray
    value: float
    violation: float
    Y: FloatArray
    n_iter: int
    current: FloatArray
    current_Y: FloatArray
    current_value: float
    change: float
    n_started: int
    n_iter_start: int


@dataclass(frozen=True)
class EMONMF(SeededMethod):
    r"""Solve orthogonal NMF by an EM-like algorithm: weighted spherical k-means of the rows.

    .. math:: \pi_i = \arg\max_j\, a_i^\top c_j, \qquad
              c_j = \text{leading right singular vector of } A_{\pi = j},

    where a_i are the rows of A and the centers c_j have unit norm. It minimizes
    :math:`\|A\|_F^2 - \sum_j \sigma_1(A_{\pi = j})^2`.

    Parameters
    ----------
    start : {"random", "given"}
        The first centers: k random rows of A, or A'X for the given X.
    n_init : int
        Number of starts, of which the best is kept. With ``start="given"``, the later ones are
        random.
    tol : float
        A start ends when the relative decrease of the objective is at most this.
    max_iter : int
        Maximum number of iterations per start.
    seed : int
        Seed of the random rows.

    Notes
    -----
    Neurocomputing 141 (2014), 15-25. The objective never increases within a start. An empty group
    gets the row with the largest residual; zero rows belong to no group. One iteration costs two
    products with A and k leading singular vectors.

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    >>> op.solve(op.problems.ONMF(A, 2), method=EMONMF(n_init=5)).X.round(3).max(axis=1)
    array([0.447, 0.894, 1.   ])
    """

    state_type = EMState
    ends_with_search = False  # baselines are compared without a search

    start: str = "random"
    n_init: int = 1
    tol: float = 1e-12
    max_iter: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.start, "start", ("random", "given"))
        check_count(self.n_init, "n_init", low=1)
        check_range(self.tol, "tol", low=0.0)
        check_count(self.max_iter, "max_iter", low=1)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> EMState:
        """Return the state with the first centers, before any row is assigned."""
        first = start_state(problem, X)
        Y = self._random_centers(problem, 0) if self.start == "random" else first.Y
        return EMState(X, first.value, violation(X), first.Y, 0, X, Y, np.inf, np.inf, 1, 0)

    def step(self, problem: Problem, state: EMState) -> EMState:
        """Assign the rows and update the centers, or begin the next start if one has ended."""
        is_over = self._is_over(state)
        n_started, n_iter_start = state.n_started + is_over, 0 if is_over else state.n_iter_start
        Y = state.current_Y
        if is_over:
            Y = self._random_centers(problem, state.n_started)
        X = _renew(problem, Y)
        Y = times_transposed(problem, X)
        value = factor_model(problem).total - float(np.vdot(Y, Y))
        # The change compares values within one start only.
        old = np.inf if is_over else state.current_value
        is_best = state.n_iter == 0 or value < state.value
        return EMState(
            X=X if is_best else state.X,
            value=value if is_best else state.value,
            violation=violation(X) if is_best else state.violation,
            Y=Y if is_best else state.Y,
            n_iter=state.n_iter + 1,
            current=X,
            current_Y=Y,
            current_value=value,
            change=(old - value) / (abs(value) or 1.0),
            n_started=n_started,
            n_iter_start=n_iter_start + 1,
        )

    def stop(self) -> "EMStop":
        """Return the stopping rule: the last start has converged or reached its limit."""
        return EMStop(self)

    def _is_over(self, state: EMState) -> bool:
        """Return whether this start has converged or reached its limit."""
        rests = state.n_iter_start > 1 and state.change <= self.tol
        return rests or state.n_iter_start >= self.max_iter

    def _random_centers(self, problem: Problem, number: int) -> FloatArray:
        """Return k distinct nonzero rows of A as columns."""
        rng = np.random.default_rng([self.seed, number])
        n, k = problem.shape
        rows = np.flatnonzero(_row_squares(problem))
        picked = rng.permutation(rows)[:k] if len(rows) >= k else rng.permutation(n)[:k]
        return data_of(problem).in_memory().take_rows(picked).T.astype(np.float64)


@dataclass(frozen=True)
class EMStop:
    """Stop EM-ONMF when all starts are done."""

    method: EMONMF

    def __call__(self, state: EMState) -> Status:
        """Return RUNNING until the last start is done, then CONVERGED if it met ``tol``."""
        if state.n_started < self.method.n_init or not self.method._is_over(state):
            return Status.RUNNING
        return Status.CONVERGED if state.change <= self.method.tol else Status.MAX_ITER


def _row_squares(problem: Problem) -> FloatArray:
    model = factor_model(problem)
    return model.A.gather(model.row_squares)


def _renew(problem: Problem, Y: FloatArray) -> FloatArray:
    """Return the X of S+ after one iteration from the centers Y."""
    scores = times(problem, Y / np.maximum(np.linalg.norm(Y, axis=0), _MIN_WEIGHT))
    labels, weights = _assign(_row_squares(problem), scores)
    rows = np.flatnonzero(labels >= 0)
    # The scores are the start of the leading singular vectors, which `refine` computes.
    weighted = np.zeros(problem.shape)
    weighted[rows, labels[rows]] = np.maximum(weights[rows], _MIN_WEIGHT)
    X = project_oblique_plus(weighted)
    if len(np.unique(labels[rows])) < X.shape[1]:
        return X  # there are fewer nonzero rows than groups
    refined = problem.refine(X)
    return X if refined is None else refined


def _assign(norms: FloatArray, scores: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the group (-1 for zero rows) and weight of each row, leaving no group empty.

    ``norms`` are the squared norms of the rows of A.
    """
    labels = np.where(norms > 0, scores.argmax(axis=1), -1)
    weights = scores.max(axis=1)
    counts = np.bincount(labels[labels >= 0], minlength=scores.shape[1])
    residuals = norms - weights**2
    # Refill each empty group with the row of the largest residual from a group of two or more.
    for j in np.flatnonzero(counts == 0):
        free = (labels >= 0) & (counts[labels] > 1)
        if not free.any():
            break
        row = int(np.where(free, residuals, -np.inf).argmax())
        counts[labels[row]] -= 1
        counts[j], labels[row], weights[row] = 1, j, np.sqrt(norms[row])
        residuals[row] = -np.inf
    return labels, weights
