"""Copositivity: minimise x'Mx over x >= 0 of unit length, S+ with a single column."""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from orthoplus.checks import as_generator, as_matrix, check_count, check_positive
from orthoplus.critical_cone import MAX_FACES, find_nonpositive
from orthoplus.problems import TraceMin
from orthoplus.protocols import FloatArray
from orthoplus.solve import solve


@dataclass(frozen=True, eq=False)
class Copositivity:
    """What `is_copositive` found; true where M is proven to be copositive.

    Attributes
    ----------
    is_copositive : bool or None
        True: proven. False: ``x`` is a certificate. None: no certificate was found.
    x : ndarray of shape (n,), or None
        For False, x >= 0 of unit length with x'Mx < 0.
    value : float or None
        The least x'Mx that was met, where any was computed.
    reason : str
        The proof in a sentence.

    Examples
    --------
    >>> found = is_copositive(np.array([[1.0, -2.0], [-2.0, 1.0]]))
    >>> bool(found), found.value < 0
    (False, True)
    >>> bool(is_copositive(np.array([[1.0, 5.0], [5.0, 0.0]])))
    True
    """

    is_copositive: bool | None
    x: FloatArray | None = field(repr=False)
    value: float | None
    reason: str

    def __bool__(self) -> bool:
        return self.is_copositive is True


def is_copositive(
    M: npt.ArrayLike,
    *,
    tol: float = 1e-10,
    n_init: int = 10,
    rng: np.random.Generator | int | None = None,
) -> Copositivity:
    r"""Whether :math:`x^\top M x \ge 0` for all :math:`x \ge 0`.

    Parameters
    ----------
    M : array of shape (n, n)
        Symmetric.
    tol : float
        Values within ``tol * max|M|`` of zero count as zero.
    n_init : int
        Starts of the search for a certificate, where nothing else decides.
    rng : Generator or int, optional
        For these starts; the default is the seed 0.

    Returns
    -------
    Copositivity

    Notes
    -----
    In this order: entries of the diagonal and pairs of rows, which may refute; M the sum of a
    positive semidefinite and a nonnegative matrix (M itself, or M without its positive entries off
    the diagonal), which proves; up to n = 12 all faces of the orthant, which decides; then
    min tr(x'Mx) over S+ with k = 1 from several starts, which may refute. In general the question
    is NP-hard.
    O(2^n) at worst for the complete search of a small M, O(n^3) for each simple proof.

    Examples
    --------
    >>> print(is_copositive(np.array([[1.0, 2.0], [2.0, 1.0]])).reason)
    Copositive: M is nonnegative.
    >>> found = is_copositive(np.array([[1.0, -2.0], [-2.0, 1.0]]))
    >>> found.is_copositive, found.x.round(3), round(found.value, 12)
    (False, array([0.707, 0.707]), -1.0)
    """
    check_positive(tol, "tol")
    check_count(n_init, "n_init")
    rng = as_generator(rng)
    M = as_matrix(M, "M").astype(np.float64, copy=False)
    problem = TraceMin(M, 1)  # checks shape and symmetry
    bar = tol * float(np.abs(M).max())
    for x, reason in (_lowest_entry(M), _lowest_pair(M)):
        if x is not None and _value(M, x) < -bar:
            return _refuted(M, x, reason)
    proof = _sum_of_two(M, bar)
    if proof:
        return Copositivity(True, None, None, f"Copositive: {proof}.")
    if 2 ** len(M) <= MAX_FACES:
        x = find_nonpositive(M + bar * np.eye(len(M)), [[i] for i in range(len(M))])
        if x is None:
            return Copositivity(True, None, None, "Copositive: no face of the orthant refutes it.")
        return _refuted(M, x, "a face of the orthant")
    return _search(problem, bar, n_init, rng)


def _value(M: FloatArray, x: FloatArray) -> float:
    return float(x @ M @ x)


def _refuted(M: FloatArray, x: FloatArray, where: str) -> Copositivity:
    x = x / np.linalg.norm(x)
    return Copositivity(False, x, _value(M, x), f"Not copositive: {where} gives x'Mx < 0.")


def _lowest_entry(M: FloatArray) -> tuple[FloatArray | None, str]:
    """The unit vector of the smallest diagonal entry."""
    i = int(np.diag(M).argmin())
    return np.eye(1, len(M), i)[0], "a diagonal entry"


def _lowest_pair(M: FloatArray) -> tuple[FloatArray | None, str]:
    """The lowest eigenvector among the 2 x 2 blocks with a negative entry: it is nonnegative."""
    half = (M.diagonal()[:, None] - M.diagonal()) / 2
    mean = (M.diagonal()[:, None] + M.diagonal()) / 2
    lowest = np.where(M < 0, mean - np.hypot(half, M), np.inf)
    np.fill_diagonal(lowest, np.inf)
    pair = np.unravel_index(int(lowest.argmin()), M.shape)
    if math.isinf(lowest[pair]):
        return None, ""
    x = np.zeros(len(M))
    x[list(pair)] = np.abs(np.linalg.eigh(M[np.ix_(pair, pair)])[1][:, 0])
    return x, "a pair of rows"


def _sum_of_two(M: FloatArray, bar: float) -> str:
    """Why M is positive semidefinite plus nonnegative; empty where that is not seen."""
    if M.min() >= 0:
        return "M is nonnegative"
    if np.linalg.eigvalsh(M)[0] >= -bar:
        return "M is positive semidefinite"
    rest = np.minimum(M, 0.0)
    np.fill_diagonal(rest, np.diag(M))
    if np.linalg.eigvalsh(rest)[0] >= -bar:
        return "M is positive semidefinite plus nonnegative"
    return ""


def _search(problem: TraceMin, bar: float, n_init: int, rng: np.random.Generator) -> Copositivity:
    """Minimise over S+ with one column, first from the lowest eigenvector, then at random."""
    least = math.inf
    lowest = np.linalg.eigh(problem.M)[1][:, :1]
    for number in range(n_init):
        X = np.maximum(lowest if lowest.sum() > 0 else -lowest, 0.0)
        result = solve(problem, X if number == 0 else problem.start(rng), with_bound=False)
        if result.value < -bar:
            return _refuted(problem.M, result.X[:, 0], "the minimisation over x >= 0")
        least = min(least, result.value)
    reason = f"Undecided: {n_init} starts found no x >= 0 with x'Mx < 0, which proves nothing."
    return Copositivity(None, None, least if n_init else None, reason)
