"""The default for quadratic assignment: relaxed and random starts followed by exchanges."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from orthoplus import kernels
from orthoplus.core.checks import check_choice, check_count, check_range, check_type
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.method import run
from orthoplus.core.outer_method import SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import Carry, FloatArray, IntArray
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.methods.search.birkhoff import as_matrix_of, nearest_permutation, relax_assignment

_STARTS = ("relaxation", "penalty", "gilmore-lawler", "random")
# Exchanges between two checks of the clock, or n if larger: each block recomputes all gains.
_BLOCK = 1000


class AssignmentState(NamedTuple):
    """Hold the best permutation so far and everything the next start needs.

    ``start`` is the given X until the penalty method has started from it. ``start_values`` holds
    the value that each start led to; ``n_inner`` counts the iterations of the last start.
    """

    permutation: IntArray
    value: float
    bound: float
    is_proven: bool
    seed: int
    start: FloatArray | None
    start_values: FloatArray
    n_iter: int
    n_inner: int
    violation: float = 0.0
    Y: FloatArray | None = None

    @property
    def X(self) -> FloatArray:
        """Permutation matrix; computed on each access."""
        return as_matrix_of(self.permutation)

    @property
    def X_feas(self) -> FloatArray:
        """Same as X: the search starts from the rounded start and is never worse."""
        return self.X


@dataclass(frozen=True)
class AssignmentSearch(SeededMethod):
    r"""Search over the permutations for quadratic assignment and graph matching.

    .. math:: \min_p \sum_{ij} A_{ij} B_{p(i)p(j)} + \sum_i C_{ip(i)} .

    A step creates a permutation by one of the starts below and improves it by exchanges of two
    rows: the best one until none gains, then a few random ones, repeatedly from the best
    permutation of this start. The starts are

    1. *relaxation*: a path over the doubly stochastic matrices, from a convex relaxation to f. If
       one graph is nearly a relabeling of the other, it finds the relabeling;
    2. *penalty*: EP4Orth+ from X, or from a random matrix once X has been used, followed by a
       linear assignment;
    3. *gilmore-lawler*: the permutation at which the bound of Gilmore and Lawler is attained;
    4. *random*: a random permutation.

    The last steps continue from the best permutation instead of a new start.

    Parameters
    ----------
    n_init : int
        Number of steps; the best permutation is kept.
    search_steps : int
        Number of exchanges after each start; 0 gives the plain pairwise exchange method.
    starts : tuple of str
        Kinds of starts, in order; the last entry is repeated.
    continued : float
        Share of the steps, at the end, that continue from the best permutation.
    penalty : EP4Orth, optional
        Method of the penalty starts, applied to the centered problem of size 1; by default
        ``EP4Orth.for_assignment()``.
    seed : int
        Seed of the random starts and exchanges, unless ``carry`` contains a generator ``rng``.

    Notes
    -----
    No exchange of two rows improves the result, and it is never worse than the rounded X. A value
    that attains the bound is optimal and ends the search. An exchange costs O(n^2), a step of the
    relaxation and of the penalty method O(n^3). Multiplying A or B by a positive number does not
    change the permutation.

    References
    ----------
    T. Stützle, *Iterated local search for the quadratic assignment problem*, European J. Oper. Res.
    174 (2006).

    Examples
    --------
    >>> import orthoplus as op
    >>> A = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    >>> B = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    >>> result = op.solve(op.problems.QAP(A, B), method=AssignmentSearch())
    >>> result.labels, result.value, result.status.name
    (array([0, 1, 2]), 24.0, 'CERTIFIED')
    """

    state_type = AssignmentState
    ends_with_search = False  # the method already exchanges rows

    n_init: int = 8
    search_steps: int = 4000
    starts: tuple[str, ...] = _STARTS
    continued: float = 0.4
    penalty: EP4Orth | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.n_init, "n_init", low=1)
        check_count(self.search_steps, "search_steps")
        check_type(self.starts, "starts", tuple)
        if not self.starts:
            raise InputError(f"`starts` is empty. Name at least one of {', '.join(_STARTS)}.")
        for kind in self.starts:
            check_choice(kind, "starts", _STARTS)
        check_range(self.continued, "continued", low=0.0, high=1.0)
        check_type(self.penalty, "penalty", EP4Orth, type(None))
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> AssignmentState:
        """Return the permutation of the bound if optimal; otherwise round X and exchange rows."""
        given: Any = problem
        qap = _as_qap(given)
        rng = (carry or {}).get("rng")
        # A permutation that attains the Gilmore-Lawler bound is optimal.
        bound, optimal = given.gilmore_lawler()
        if _is_proven(qap, qap.value_of(optimal), bound):
            p = optimal
        else:
            p = _exchange(qap, nearest_permutation(X), np.empty((0, 2)))
        value = qap.value_of(p)
        return AssignmentState(
            permutation=p,
            value=value,
            bound=bound,
            is_proven=_is_proven(qap, value, bound),
            seed=self.seed if rng is None else int(rng.integers(2**63)),
            start=X.astype(np.float64),
            start_values=np.empty(0),
            n_iter=0,
            n_inner=0,
        )

    def step(self, problem: Problem, state: AssignmentState) -> AssignmentState:
        """Create the next start, search from it, and keep the better permutation."""
        qap, rng = _as_qap(problem), np.random.default_rng([state.seed, state.n_iter])
        kind = self.starts[min(state.n_iter, len(self.starts) - 1)]
        # The last share of the steps continues from the best permutation.
        if state.n_iter < self.n_init - int(self.continued * self.n_init):
            p, n_inner = self._begin(problem, kind, state.start, rng)
        else:
            p, n_inner = state.permutation, 0
        p, n_steps = self._search(problem, p, state.bound, rng)
        value = qap.value_of(p)
        # Ignore differences within rounding, which depend on the scale of the data.
        is_better = value < state.value - qap.tolerance
        best = value if is_better else state.value
        return state._replace(
            permutation=p if is_better else state.permutation,
            value=best,
            is_proven=_is_proven(qap, best, state.bound),
            start=None if kind == "penalty" else state.start,
            start_values=np.append(state.start_values, value),
            n_iter=state.n_iter + 1,
            n_inner=n_inner + n_steps,
        )

    def stop(self) -> Callable[[AssignmentState], Status]:
        """Return the stopping rule: the last start is done, or the value attains the bound."""

        def stop(state: AssignmentState) -> Status:
            if state.is_proven:
                return Status.CERTIFIED
            return Status.CONVERGED if state.n_iter >= self.n_init else Status.RUNNING

        return stop

    def progress(self, state: AssignmentState) -> float:
        """Return the share of the starts that are done."""
        return state.n_iter / self.n_init

    def _begin(
        self, problem: Problem, kind: str, X: FloatArray | None, rng: np.random.Generator
    ) -> tuple[IntArray, int]:
        """Return a permutation from this kind of start, and the number of iterations."""
        qap = _as_qap(problem)
        if kind == "random":
            return rng.permutation(len(qap.A)), 0
        if kind == "gilmore-lawler":
            return qap.normalized.gilmore_lawler()[1], 0
        # The starts use the centered problem of size 1, so that the scale of A and B does not
        # matter.
        relaxed = _watched_as(problem, qap.normalized)
        if kind == "relaxation":
            X, n_inner = relax_assignment(relaxed)
            return nearest_permutation(X), n_inner
        penalty = EP4Orth.for_assignment() if self.penalty is None else self.penalty
        first = penalty.init(relaxed, relaxed.start(rng) if X is None else X)
        last, _ = run(relaxed, penalty, first, penalty.stop())
        return nearest_permutation(last.X), last.n_iter

    def _search(
        self, problem: Problem, p: IntArray, bound: float, rng: np.random.Generator
    ) -> tuple[IntArray, int]:
        """Improve p by blocks of exchanges, checking the clock and the bound after each block."""
        qap, budget = _as_qap(problem), getattr(problem, "budget", None)
        # Two random numbers per exchange; an empty block runs the plain pairwise exchange.
        draws, n_steps = rng.random((self.search_steps, 2)), 0
        p = _exchange(qap, p, draws[:0])
        while n_steps < len(draws) and not _is_proven(qap, qap.value_of(p), bound):
            if budget is not None:
                budget.check_time()
            # At least n exchanges per block, since each block recomputes all gains in O(n^3).
            block = draws[n_steps : n_steps + max(_BLOCK, len(p))]
            p, n_steps = _exchange(qap, p, block), n_steps + len(block)
        return p, n_steps


def _as_qap(problem: Any) -> Any:
    """Return the problem with both matrices symmetrized if one is symmetric; raise if no QAP."""
    if not hasattr(problem, "gilmore_lawler"):
        own = type(problem.unwrapped).__name__
        raise InputTypeError(
            f"AssignmentSearch needs a QAP problem, got {own}. Use EP4Orth or SupportSearch "
            f"for other problems."
        )
    return problem.symmetrized()


def _watched_as(problem: Any, other: Any) -> Any:
    """Return the other problem, counting its evaluations if those of this one are counted."""
    return replace(problem, problem=other) if hasattr(problem, "budget") else other


def _exchange(qap: Any, p: IntArray, draws: FloatArray) -> IntArray:
    """Return p after a search by exchanges, which is never worse."""
    p = np.array(p, dtype=np.int64)
    C = np.zeros(qap.shape) if qap.C is None else qap.C
    kernels.exchange_search_into(qap.A, qap.B, C, p, draws)
    return p


def _is_proven(qap: Any, value: float, bound: float) -> bool:
    """Return whether the value attains the bound up to rounding."""
    return bool(value <= bound + qap.tolerance)
