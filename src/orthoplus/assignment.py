"""Quadratic assignment and graph matching with the interface of SciPy."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from orthoplus.core.checks import as_generator, as_matrix, check_count, check_positive, check_type
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.graphs import graph_matrix, is_graph
from orthoplus.methods.ep4orth import EP4Orth
from orthoplus.methods.search.assignment_search import AssignmentSearch
from orthoplus.problems import QAP
from orthoplus.run.api import solve

# Options of SciPy's methods that do not apply here, and what to do instead.
_ONLY_SCIPY = {
    "maxiter": "for the iterations of a start pass `method=EP4Orth.for_assignment(max_iter=...)`",
    "tol": "for the tolerance of a start pass `method=EP4Orth.for_assignment(tol_start=...)`",
    "shuffle_input": "remove it, because the starts are random anyway",
    "partial_guess": "pass the permutation matrix of the guess as `P0`",
}
# The starts of each method.
_STARTS = {"search": AssignmentSearch.starts, "ep4orth": ("penalty",), "exchange": ("random",)}


@dataclass(frozen=True, eq=False)
class AssignmentOptions:
    """The options of `quadratic_assignment` with their defaults."""

    maximize: bool = False
    partial_match: npt.ArrayLike | None = None
    rng: np.random.Generator | int | None = None
    P0: npt.ArrayLike | str = "randomized"
    n_init: int = AssignmentSearch.n_init
    search_steps: int = AssignmentSearch.search_steps
    linear: npt.ArrayLike | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_type(self.maximize, "maximize", bool, np.bool_)
        check_count(self.n_init, "n_init", low=1)
        check_count(self.search_steps, "search_steps")
        if self.time_limit is not None:
            check_positive(self.time_limit, "time_limit", finite=False)
        object.__setattr__(self, "rng", as_generator(self.rng))
        if isinstance(self.P0, str) and self.P0 not in ("randomized", "barycenter"):
            raise InputError(
                f"`P0={self.P0!r}` is unknown. Pass 'randomized', 'barycenter', or a nonnegative "
                f"matrix."
            )


def quadratic_assignment(
    A: npt.ArrayLike,
    B: npt.ArrayLike,
    method: str | EP4Orth = "search",
    options: Mapping[str, Any] | None = None,
) -> Any:
    r"""Match the rows of A to the rows of B by the best permutation p.

    .. math:: \min_p \sum_{ij} A_{ij} B_{p(i)p(j)} = \mathrm{tr}(A^\top X B X^\top),
              \qquad X_{ip(i)} = 1.

    Arguments, options and result are named as in `scipy.optimize.quadratic_assignment`.

    Parameters
    ----------
    A : array-like of shape (m, m), or a NetworkX or igraph graph
        Any real matrix; it need not be symmetric or have a zero diagonal. For a graph, which may be
        directed, the matrix of its edge weights is used, in the order of its vertices; edges
        without the attribute "weight" have weight 1.
    B : array-like of shape (n, n), or a graph
        The second matrix. If m and n differ, the smaller matrix is matched into the larger one: all
        of its rows get a partner, and the remaining rows of the larger one are ignored.
    method : {"search", "ep4orth", "exchange"} or EP4Orth
        The starts of `AssignmentSearch`. "search", the default, uses a relaxation, the penalty
        method, the permutation of the bound and then random permutations; "ep4orth" uses only the
        penalty method, "exchange" only random permutations. An EP4Orth object sets the options of
        the penalty method.
    options : dict, optional
        maximize : bool
            Whether to maximize instead of minimize, as in graph matching of adjacency matrices. The
            default is False.
        partial_match : array-like of int, shape (f, 2)
            Pairs (i, j) for which p(i) = j is fixed.
        rng : Generator or int
            Source of random numbers for the starts and the search; the default is seed 0.
        P0 : "randomized", "barycenter" or array of shape (m - f, n - f)
            Start of the first penalty run: near the matrix of equal entries, exactly that matrix,
            or the given nonnegative matrix. The result is never worse than the nearest permutation.
        n_init : int
            Number of starts, of which the best is returned; with the default method, the last 40 %
            of them continue from the best permutation instead. The default is 8.
        search_steps : int
            Number of exchanges of the search after each start; 0 is the plain pairwise exchange
            method. The default is 4000.
        linear : array of shape (m, n)
            Matrix C of a linear term sum_i C[i, p(i)], as in the form of Koopmans and Beckmann.
        time_limit : float
            Number of seconds after which the best permutation so far is returned. The default is
            None.

    Returns
    -------
    scipy.optimize.OptimizeResult
        ``col_ind`` is p, of length m, with -1 for an unmatched row; ``fun`` is the objective and
        ``nit`` the number of iterations and search steps of all starts. In addition,
        ``start_values`` has the objective reached from each start, ``bound`` is a proven bound of
        the objective (a lower bound, or an upper bound for maximization), and ``success`` and
        ``message`` say why the run ended. The run ends if the value meets the bound, because it is
        then optimal. No exchange of two rows improves the result.

    Notes
    -----
    For n = k the set S+ consists of the permutation matrices, so this calls `solve` with a `QAP`;
    the smaller matrix is padded with zeros. Since every row of the smaller matrix has a partner,
    padding with zeros is correct for entries of any sign, for minimization and for maximization.
    The bound is that of Gilmore and Lawler. For A = 0 it is a linear assignment problem, which is
    solved exactly. For the search and its cost see `AssignmentSearch`.

    Examples
    --------
    >>> A = np.array([[0, 80, 150, 170], [80, 0, 130, 100], [150, 130, 0, 120], [170, 100, 120, 0]])
    >>> B = np.array([[0, 5, 2, 7], [0, 0, 3, 8], [0, 0, 0, 3], [0, 0, 0, 0]])
    >>> result = quadratic_assignment(A, B)
    >>> result.col_ind, result.fun
    (array([0, 3, 2, 1]), 3260.0)

    The path of three vertices, found in a graph of five:

    >>> path = np.array([[0, 1, 0], [1, 0, 3], [0, 3, 0]])
    >>> graph = np.zeros((5, 5), dtype=int)
    >>> graph[[4, 1, 1, 2], [1, 4, 2, 1]] = 1, 1, 3, 3
    >>> quadratic_assignment(path, graph, options={"maximize": True}).col_ind
    array([4, 1, 2])
    >>> quadratic_assignment(graph, path, options={"maximize": True}).col_ind
    array([-1,  1,  2, -1,  0])
    """
    from scipy.optimize import OptimizeResult  # slow to import

    asked = _read_options(options)
    search = _read_method(method, asked)
    whole, (m, n) = _read_problem(A, B, asked.linear)
    rows, columns = _read_match(asked.partial_match, m, n)
    sign = -1.0 if asked.maximize else 1.0
    col_ind = np.empty(len(whole.A), dtype=np.int64)
    col_ind[rows] = columns
    if len(rows) == len(col_ind):
        found = {"nit": 0, "start_values": np.array([whole.value_of(col_ind)])}
        found |= {"bound": whole.value_of(col_ind), "success": True, "message": "All is matched."}
    else:
        signed = QAP(sign * whole.A, whole.B, None if whole.C is None else sign * whole.C)
        problem = signed.match(rows, columns) if len(rows) else signed
        X0 = _read_first(asked.P0, problem, (m - len(rows), n - len(rows)))
        result = solve(problem, X0, method=search, rng=asked.rng, time_limit=asked.time_limit)
        found = _describe(result, sign)
        open_rows = np.delete(np.arange(len(col_ind)), rows)
        col_ind[open_rows] = np.delete(np.arange(len(col_ind)), columns)[result.labels]
    fun = whole.value_of(col_ind)
    return OptimizeResult(col_ind=np.where(col_ind < n, col_ind, -1)[:m], fun=fun, **found)


def _describe(result: Any, sign: float) -> dict[str, Any]:
    """Return the fields of the result other than the permutation."""
    values = (
        () if result.state is None else result.state.start_values
    )  # None if time ran out before
    return {
        "nit": sum(row.n_inner for row in result.history),
        "start_values": sign * np.array(values if len(values) else [result.value]),
        "bound": sign * min(result.bound, result.value),  # both sums have rounding errors
        "success": result.success,
        "message": result.message,
    }


def _read_problem(
    A: npt.ArrayLike, B: npt.ArrayLike, linear: npt.ArrayLike | None
) -> tuple[QAP, tuple[int, int]]:
    """Return the problem, padded with zeros to the larger size, and both sizes."""
    given = [_read_matrix(matrix, name) for matrix, name in ((A, "A"), (B, "B"))]
    for matrix, name in zip(given, "AB", strict=True):
        if matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"`{name}` has shape {matrix.shape}: a square matrix is needed.")
    m, n = len(given[0]), len(given[1])
    C = None if linear is None else as_matrix(linear, "linear")
    if C is not None and C.shape != (m, n):
        raise InputError(
            f"`linear` has shape {C.shape}, but `A` has {m} rows and `B` has {n}: shape "
            f"({m}, {n}) is needed."
        )
    size = max(m, n)
    padded = [None if matrix is None else _padded(matrix, size) for matrix in (*given, C)]
    return QAP(*padded), (m, n)  # type: ignore[arg-type]


def _read_matrix(value: Any, name: str) -> FloatArray:
    if is_graph(value):
        return graph_matrix(value, name, accept_directed=True).toarray()
    return as_matrix(value, name)


def _padded(matrix: FloatArray, size: int, entry: float = 0.0) -> FloatArray:
    square = np.full((size, size), entry)
    square[: matrix.shape[0], : matrix.shape[1]] = matrix
    return square


def _read_options(options: Mapping[str, Any] | None) -> AssignmentOptions:
    check_type(options, "options", Mapping, type(None))
    known = [field.name for field in fields(AssignmentOptions)]
    unknown = [name for name in options or {} if name not in known]
    if unknown:
        advice = "".join(
            f" For {name}: {_ONLY_SCIPY[name]}." for name in unknown if name in _ONLY_SCIPY
        )
        raise InputTypeError(
            f"`options` has the unknown entries {', '.join(map(repr, unknown))}. Supported: "
            f"{', '.join(known)}.{advice}"
        )
    return AssignmentOptions(**(options or {}))


def _read_method(method: object, asked: AssignmentOptions) -> AssignmentSearch:
    """Return the search for this method and these options."""
    penalty = method if isinstance(method, EP4Orth) else None
    if penalty is None and method not in _STARTS:
        raise InputError(
            f"`method={method!r}` is unknown. Choose {', '.join(_STARTS)}, or an EP4Orth(). What "
            f'SciPy calls "2opt" is "exchange" with the option search_steps=0.'
        )
    return AssignmentSearch(
        n_init=asked.n_init,
        search_steps=asked.search_steps,
        starts=_STARTS[str(method) if penalty is None else "ep4orth"],
        continued=AssignmentSearch.continued if method == "search" else 0.0,
        penalty=penalty,
        seed=int(as_generator(asked.rng).integers(2**63)),
    )


def _read_first(P0: npt.ArrayLike | str, problem: QAP, shape: tuple[int, int]) -> FloatArray | None:
    """Return the first start, or None for a random one."""
    if isinstance(P0, str):
        return None if P0 == "randomized" else np.ones(problem.shape)
    X = as_matrix(P0, "P0")
    if X.shape != shape or X.min() < 0:
        raise InputError(
            f"`P0` has shape {X.shape} and smallest entry {X.min():.3g}: a nonnegative matrix of "
            f"shape {shape} is needed, for the rows and columns that are not in "
            f"`partial_match`."
        )
    return _padded(X, len(problem.A), float(X.mean()))


def _read_match(pairs: npt.ArrayLike | None, m: int, n: int) -> tuple[IntArray, IntArray]:
    """Return the fixed rows and columns."""
    match = np.empty((0, 2), dtype=np.int64) if pairs is None else np.asarray(pairs)
    if match.size == 0:
        match = np.empty((0, 2), dtype=np.int64)
    if match.ndim != 2 or match.shape[1] != 2 or match.dtype.kind not in "iu":
        raise InputError(
            f"`partial_match` has shape {match.shape} and dtype {match.dtype}: integers of shape "
            f"(f, 2) are needed, one row of A and one row of B per pair."
        )
    for side, name, size in ((match[:, 0], "A", m), (match[:, 1], "B", n)):
        if side.size and (side.min() < 0 or side.max() >= size):
            raise InputError(
                f"`partial_match` has entries from {side.min()} to {side.max()} for `{name}`: its "
                f"rows are numbered from 0 to {size - 1}."
            )
        if len(np.unique(side)) < len(side):
            raise InputError(
                f"`partial_match` names a row of {name} twice: each row has only one partner."
            )
    return match[:, 0].astype(np.int64), match[:, 1].astype(np.int64)
