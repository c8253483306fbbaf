"""Quadratic assignment: EP4Orth+ over the permutations, then pairwise exchanges."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from orthoplus import kernels
from orthoplus.checks import as_generator, as_matrix, check_count, check_type
from orthoplus.geometry import project_oblique_plus
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.problems import QAP
from orthoplus.protocols import FloatArray, IntArray
from orthoplus.solve import solve

# Options of SciPy's methods that have no meaning here, and what to do instead.
_ONLY_SCIPY = {
    "maxiter": "for the iterations of a start pass `method=EP4Orth.for_assignment(max_iter=...)`",
    "tol": "for the tolerance of a start pass `method=EP4Orth.for_assignment(tol_start=...)`",
    "shuffle_input": "leave it out: the starts are random anyway",
    "partial_guess": "pass the permutation matrix of the guess as `P0`",
}
# A value this near to the bound, relative to the terms of f, is optimal.
_BOUND_TOL = 1e-12


@dataclass(frozen=True, eq=False)
class AssignmentOptions:
    """The options of `quadratic_assignment`, with their defaults; see there."""

    maximize: bool = False
    partial_match: npt.ArrayLike | None = None
    rng: np.random.Generator | int | None = None
    P0: FloatArray | str = "randomized"
    n_init: int = 10
    search_steps: int = 2000
    linear: FloatArray | None = None

    def __post_init__(self) -> None:
        check_type(self.maximize, "maximize", bool, np.bool_)
        check_count(self.n_init, "n_init", low=1)
        check_count(self.search_steps, "search_steps")
        object.__setattr__(self, "rng", as_generator(self.rng))
        if isinstance(self.P0, str) and self.P0 not in ("randomized", "barycenter"):
            raise ValueError(
                f"`P0={self.P0!r}` is unknown. Pass 'randomized', 'barycenter', or a nonnegative "
                f"matrix."
            )


def quadratic_assignment(
    A: npt.ArrayLike,
    B: npt.ArrayLike,
    method: str | EP4Orth = "ep4orth",
    options: Mapping[str, Any] | None = None,
) -> Any:
    r"""Match the rows of A to the rows of B: the best permutation p.

    .. math:: \min_p \sum_{ij} A_{ij} B_{p(i)p(j)} = \mathrm{tr}(A^\top X B X^\top),
              \qquad X_{ip(i)} = 1.

    Arguments, options and result are named as in `scipy.optimize.quadratic_assignment`.

    Parameters
    ----------
    A, B : array-like of shape (n, n)
        Any real matrices; neither symmetry nor a zero diagonal is needed.
    method : {"ep4orth", "exchange"} or EP4Orth
        How a start becomes a permutation, before the search: by EP4Orth+ and a linear assignment,
        or, for "exchange", at random. An object brings its own options.
    options : dict, optional
        maximize : bool
            Maximise instead: graph matching, for adjacency matrices. Default False.
        partial_match : array-like of int, shape (m, 2)
            Pairs (i, j) with p(i) = j fixed.
        rng : Generator or int
            For the starts and the search; the default is the seed 0.
        P0 : "randomized", "barycenter" or array of shape (n - m, n - m)
            The first start: near to the matrix of equal entries, exactly that, or the given
            nonnegative matrix, projected onto OB+. The others are "randomized".
        n_init : int
            Number of starts, of which the best is kept. Default 10.
        search_steps : int
            Exchanges of the search after each start; 0 is the plain pairwise exchange method.
            Default 2000.
        linear : array of shape (n, n)
            C of a linear term sum_i C[i, p(i)], as Koopmans and Beckmann have.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``col_ind`` is p, ``fun`` the objective, ``nit`` the outer iterations and search steps of
        all starts; besides, ``start_values`` has the objective of each start, and ``bound`` a
        proven bound of the objective (from below; from above where it is maximised). A value that
        meets the bound ends the run: it is optimal. No exchange of two rows improves the answer.

    Notes
    -----
    For n = k the set S+ is that of the permutation matrices, and rounding to it a linear
    assignment. The search is an iterated descent: pairwise exchanges until none gains, some at
    random, and so on from the best permutation. An exchange costs O(n^2), for the gains of all
    pairs are updated in O(1) each. The bound is that of Gilmore and Lawler. With A = 0 it is the
    linear assignment problem, solved exactly.

    References
    ----------
    T. Stützle, *Iterated local search for the quadratic assignment problem*, European J. Oper. Res.
    174 (2006).

    Examples
    --------
    >>> A = np.array([[0, 80, 150, 170], [80, 0, 130, 100], [150, 130, 0, 120], [170, 100, 120, 0]])
    >>> B = np.array([[0, 5, 2, 7], [0, 0, 3, 8], [0, 0, 0, 3], [0, 0, 0, 0]])
    >>> result = quadratic_assignment(A, B)
    >>> result.col_ind, result.fun
    (array([0, 3, 2, 1]), 3260.0)
    """
    from scipy.optimize import OptimizeResult  # slow to import

    asked = _read_options(options)
    _check_method(method)
    whole = QAP(_as_float(A, "A"), _as_float(B, "B"))
    if asked.linear is not None:
        whole = replace(whole, C=_read_linear(asked.linear, whole.shape))
    sign = -1.0 if asked.maximize else 1.0
    rows, columns = _read_match(asked.partial_match, len(whole.A))
    signed = QAP(sign * whole.A, whole.B, None if whole.C is None else sign * whole.C)
    col_ind = np.empty(len(whole.A), dtype=np.int64)
    col_ind[rows] = columns
    if len(rows) == len(col_ind):
        value = whole.value_of(col_ind)
        return OptimizeResult(
            col_ind=col_ind, fun=value, nit=0, start_values=np.array([value]), bound=value
        )
    problem = (signed.match(rows, columns) if len(rows) else signed).symmetrised()
    p, values, bound, nit = _best_of_starts(problem, method, asked)
    open_rows = np.delete(np.arange(len(col_ind)), rows)
    col_ind[open_rows] = np.delete(np.arange(len(col_ind)), columns)[p]
    return OptimizeResult(
        col_ind=col_ind,
        fun=whole.value_of(col_ind),
        nit=nit,
        start_values=sign * np.array(values),
        bound=sign * bound,
    )


def _best_of_starts(
    problem: QAP, method: str | EP4Orth, asked: AssignmentOptions
) -> tuple[IntArray, list[float], float, int]:
    """The best permutation, the value of each start, the bound, and the work."""
    rng = as_generator(asked.rng)
    first = _read_first(asked.P0, problem)
    bound, best = problem.gilmore_lawler()
    least, values, nit = problem.value_of(best), list[float](), 0
    enough = bound + _BOUND_TOL * _size(problem)
    if least <= enough:
        return best, [least], bound, 0
    for number in range(asked.n_init):
        X = first if number == 0 and first is not None else problem.start(rng)
        p, work = _permutation_from(problem, method, X, rng)
        _search(problem, p, asked.search_steps, rng)
        nit += work + asked.search_steps
        values.append(problem.value_of(p))
        if values[-1] < least:
            least, best = values[-1], p
        if least <= enough:
            break
    return best, values, bound, nit


def _permutation_from(
    problem: QAP, method: str | EP4Orth, X: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, int]:
    """EP4Orth+ from X and a linear assignment, or a random permutation; and the iterations."""
    if method == "exchange":
        return rng.permutation(len(X)), 0
    given = method if isinstance(method, EP4Orth) else None
    result = solve(problem, X, method=given, with_bound=False)
    return result.labels.astype(np.int64), result.n_iter


def _search(problem: QAP, p: IntArray, n_steps: int, rng: np.random.Generator) -> None:
    """Improve p in place by exchanges; never worse."""
    C = np.zeros(problem.shape) if problem.C is None else problem.C
    kernels.exchange_search_into(problem.A, problem.B, C, p, rng.random((n_steps, 2)))


def _size(problem: QAP) -> float:
    """The size of the terms of f, whose rounding a comparison must forgive."""
    size = float(np.linalg.norm(problem.A) * np.linalg.norm(problem.B)) + abs(problem.constant)
    return size + (0.0 if problem.C is None else float(np.linalg.norm(problem.C)))


def _as_float(matrix: npt.ArrayLike, name: str) -> FloatArray:
    return as_matrix(matrix, name).astype(np.float64, copy=False)


def _read_linear(linear: npt.ArrayLike, shape: tuple[int, int]) -> FloatArray:
    C = _as_float(linear, "linear")
    if C.shape != shape:
        raise ValueError(
            f"`linear` has shape {C.shape}, but `A` and `B` have {shape}: it needs an entry for "
            f"each pair of their rows."
        )
    return C


def _read_options(options: Mapping[str, Any] | None) -> AssignmentOptions:
    check_type(options, "options", Mapping, type(None))
    known = [field.name for field in fields(AssignmentOptions)]
    unknown = [name for name in options or {} if name not in known]
    if unknown:
        advice = "".join(
            f" For {name}: {_ONLY_SCIPY[name]}." for name in unknown if name in _ONLY_SCIPY
        )
        raise TypeError(
            f"`options` has the unknown entries {', '.join(map(repr, unknown))}. Known are "
            f"{', '.join(known)}.{advice}"
        )
    return AssignmentOptions(**(options or {}))


def _check_method(method: object) -> None:
    if not isinstance(method, EP4Orth) and method not in ("ep4orth", "exchange"):
        raise ValueError(
            f"`method={method!r}` is unknown. Choose ep4orth, exchange, or an EP4Orth(). What "
            f'SciPy calls "2opt" is "exchange" with the option search_steps=0.'
        )


def _read_first(P0: FloatArray | str, problem: QAP) -> FloatArray | None:
    """The first start in OB+; None for a random one."""
    if isinstance(P0, str):
        return None if P0 == "randomized" else project_oblique_plus(np.ones(problem.shape))
    X = as_matrix(P0, "P0")
    if X.shape != problem.shape or X.min() < 0:
        raise ValueError(
            f"`P0` has shape {X.shape} and smallest entry {X.min():.3g}: a nonnegative matrix of "
            f"shape {problem.shape} is needed, a row and a column for each that is not in "
            f"`partial_match`."
        )
    return project_oblique_plus(X)


def _read_match(pairs: npt.ArrayLike | None, n: int) -> tuple[IntArray, IntArray]:
    """The rows and columns that are fixed."""
    match = np.empty((0, 2), dtype=np.int64) if pairs is None else np.asarray(pairs)
    if match.size == 0:
        match = np.empty((0, 2), dtype=np.int64)
    if match.ndim != 2 or match.shape[1] != 2 or match.dtype.kind not in "iu":
        raise ValueError(
            f"`partial_match` has shape {match.shape} and dtype {match.dtype}: whole numbers of "
            f"shape (m, 2) are needed, a row of A and a row of B each."
        )
    if match.size and (match.min() < 0 or match.max() >= n):
        raise ValueError(
            f"`partial_match` has entries from {match.min()} to {match.max()}: rows are numbered "
            f"from 0 to {n - 1}."
        )
    for side, name in ((match[:, 0], "A"), (match[:, 1], "B")):
        if len(np.unique(side)) < len(side):
            raise ValueError(f"`partial_match` names a row of {name} twice: each has one partner.")
    return match[:, 0].astype(np.int64), match[:, 1].astype(np.int64)
