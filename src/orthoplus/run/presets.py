"""The table of defaults: method, number of starts, and reduction for each kind of problem.

`solve`, the estimators, the command line and the benchmarks all use it, so that each problem is
solved by the best known method.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from orthoplus.core.outer_method import OuterMethod, as_outer_method
from orthoplus.core.problem import Problem
from orthoplus.methods.baselines import KindAP
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.methods.kl_alternating import KLAlternating
from orthoplus.methods.search.assignment_search import AssignmentSearch
from orthoplus.methods.search.polish import Polish
from orthoplus.methods.search.support_search import SupportSearch
from orthoplus.methods.search.swap_search import SwapSearch
from orthoplus.problems import (
    KLONMF,
    ONMF,
    QAP,
    KIndicators,
    KMeans,
    Projection,
    SymmetricONMF,
    TraceMin,
)
from orthoplus.problems.trace_min import FactorTrace


@dataclass(frozen=True)
class Preset:
    """Describe how a kind of problem is solved by default.

    Attributes
    ----------
    method : callable
        Function ``method(problem, number)`` that returns the method for the start with this number.
    n_init : int
        Number of starts, of which the best result is kept.
    reduce : callable
        Function ``reduce(problem)`` that returns an equivalent problem for the method, which orders
        the points of S+ in the same way. It removes constants of f that do not scale with the data.
    challenger : OuterMethod or None
        Method that competes with the result: if its point is better, it is a further start.
    """

    method: Callable[[Any, int], OuterMethod]
    n_init: int = 1
    reduce: Callable[[Any], Problem] = lambda problem: problem
    challenger: OuterMethod | None = None


# Maximum number of entries of an X that is searched by default.
_SEARCHED_ENTRIES = 1 << 18
# Eigenvectors are a good start, so the penalty begins at a tenth of the break-even value.
_CONTINUATION = EP4Orth(penalty_start=0.1, polish=Polish())

# With a small first penalty the start hardly matters, and most f end at the same point. Later
# starts use larger penalties in turn, which keep more of the start and lead elsewhere.
_FIRST_PENALTIES = (EP4Orth.penalty_start, 1.0, 2.0)


def _penalty_method(problem: Problem, number: int) -> EP4Orth:
    return EP4Orth(penalty_start=_FIRST_PENALTIES[number % len(_FIRST_PENALTIES)])


@lru_cache
def _indicators_method(k: int) -> EP4Orth:
    # Checking the options takes as long as a few steps on a small embedding.
    return EP4Orth.for_indicators(k)


_ANY_SMOOTH = Preset(_penalty_method)
_PRESETS: dict[type[Problem], Preset] = {
    # The certified projection in one step; see `Polish`.
    Projection: Preset(lambda problem, number: Polish(tol=1e-12, max_passes=100)),
    ONMF: Preset(lambda problem, number: SwapSearch()),
    FactorTrace: Preset(lambda problem, number: SwapSearch()),
    KLONMF: Preset(
        lambda problem, number: replace(
            KLAlternating.for_size(problem), start="svd" if number == 0 else "random"
        )
    ),
    # The start of the paper depends on the rotation of U. Without clear clusters, alternating
    # projections often lead to a better one.
    KIndicators: Preset(
        lambda problem, number: _indicators_method(problem.shape[1]),
        reduce=KIndicators.scaled,
        challenger=KindAP(),
    ),
    TraceMin: Preset(lambda problem, number: _CONTINUATION, n_init=2),
    SymmetricONMF: Preset(
        lambda problem, number: _CONTINUATION,
        n_init=2,
        reduce=lambda problem: TraceMin(-problem.M, problem.k),  # ||M||^2 + k - 2 tr(X'MX) on S+
    ),
    # The start already comes from a search by swaps; see `orthoplus.linalg.k_means`.
    KMeans: Preset(lambda problem, number: SupportSearch(effort=4e5, with_projections=False)),
    QAP: Preset(lambda problem, number: AssignmentSearch()),
}


def preset_of(problem: Problem) -> Preset:
    """Return the preset of the problem's type or of its nearest base class.

    Examples
    --------
    >>> import numpy as np
    >>> preset_of(ONMF(np.ones((3, 2)), 2)).method(None, 0)
    SwapSearch(n_init=3, ...)
    """
    for kind in type(problem).__mro__:
        if kind in _PRESETS:
            return _PRESETS[kind]
    return _ANY_SMOOTH


def search_after(
    method: OuterMethod, shape: tuple[int, int], asked: SupportSearch | bool = True
) -> SupportSearch | None:
    """Return the search over supports that follows a method; None if nothing follows.

    No search follows methods that include one, or baselines. An X with more than 2^18 entries is
    searched only if a `SupportSearch` is given, because the search would need too much memory and
    could try too few moves.

    Examples
    --------
    >>> search_after(EP4Orth(), (100, 3)) == SupportSearch(), search_after(SwapSearch(), (100, 3))
    (True, None)
    """
    if isinstance(asked, SupportSearch):
        return asked
    # The gains of all moves are an n x (k + 1) matrix.
    is_small = shape[0] * shape[1] <= _SEARCHED_ENTRIES
    follows = asked and is_small and as_outer_method(method).ends_with_search
    return SupportSearch() if follows else None
