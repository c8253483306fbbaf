"""Copositivity: minimize x'Mx over x >= 0 of unit length, S+ with a single column.

Copositivity is invariant under M -> DMD for every positive diagonal D, so every decision is taken
on a matrix whose diagonal lies between 1/2 and 2. The scaling uses powers of two, which are exact.
Proofs hold in exact arithmetic: if floating-point results are inconclusive, integers are used.
"""

import math
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from orthoplus.core.checks import as_generator, as_matrix, check_count, check_range
from orthoplus.core.types import EPS, FloatArray
from orthoplus.data.symmetric import ASYMMETRY, as_symmetric, raise_asymmetric
from orthoplus.optimality.critical_cone import MAX_FACES
from orthoplus.problems import TraceMin
from orthoplus.run.api import solve

# Computed eigenvalues of a symmetric matrix of order n have an error of at most this many
# n ||M|| eps, and x'Mx of this many n x'|M|x eps. Both are several times the theoretical bounds.
_EIGENVALUE_ROUNDOFFS = 4.0
_VALUE_ROUNDOFFS = 2.0
# Up to this order, definiteness is decided in integers if rounding is inconclusive.
_MAX_EXACT_ORDER = 40
# Products of smaller scaled entries would underflow.
_TINY = 1e-290


@dataclass(frozen=True, eq=False)
class Copositivity:
    """Result of `is_copositive`; its truth value is True only if M is proven to be copositive.

    Attributes
    ----------
    is_copositive : bool or None
        True if proven, False if ``x`` is a certificate against it, and None if undecided;
        ``reason`` then says whether M is within rounding of the boundary or the search failed.
    x : ndarray of shape (n,), or None
        If False, x >= 0 of unit length with x'Mx < 0 beyond the rounding error of that product.
    value : float or None
        The smallest x'Mx that was found, if any was computed.
    reason : str
        A short statement of the proof.

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


_ON_BORDER = Copositivity(
    None,
    None,
    None,
    "Undecided: M is within rounding of the boundary of the copositive matrices. Pass a small "
    "`tol`, for example 1e-12, to decide up to rounding.",
)


def is_copositive(
    M: npt.ArrayLike,
    *,
    tol: float = 0.0,
    n_init: int = 10,
    rng: np.random.Generator | int | None = None,
) -> Copositivity:
    r"""Decide whether :math:`x^\top M x \ge 0` for all :math:`x \ge 0`.

    Parameters
    ----------
    M : array of shape (n, n)
        Symmetric matrix; asymmetry at rounding level is averaged out.
    tol : float
        Test :math:`M + \mathrm{tol}\,\mathrm{Diag}(M)` instead, so that True means
        :math:`x^\top M x \ge -\mathrm{tol} \sum_i M_{ii} x_i^2`. A Gram matrix computed in
        floating point may need 1e-12. False always refers to M itself.
    n_init : int
        Number of starts of the search for a certificate, if nothing else decides.
    rng : Generator or int, optional
        Source of random numbers for these starts; the default is seed 0.

    Returns
    -------
    Copositivity

    Notes
    -----
    Up to rounding, the result is the same for DMD with any positive diagonal D. The tests are, in
    this order: diagonal entries and pairs of rows, which may refute; whether M is the sum of a
    positive semidefinite and a nonnegative matrix (M itself, or M without its positive off-diagonal
    entries), which proves; up to n = 12 all faces of the orthant, which decides; and the
    minimization of x'Mx over S+ with k = 1 from several starts, which may refute. In general the
    problem is NP-hard. A row with a zero diagonal entry refutes if it has a negative entry;
    otherwise it is dropped. A matrix within rounding of the boundary is decided in integers, up to
    n = 40 for definiteness and n = 12 for faces. For larger n, or if a certificate is as small as
    the rounding error of x'Mx, the result is None.
    The cost is O(2^n) at worst for the complete search of a small M, and O(n^3) for each proof.

    References
    ----------
    Kaplan, Linear Algebra Appl. 313 (2000); Hoffman and Pereira, J. Comb. Theory A 14 (1973).

    Examples
    --------
    >>> print(is_copositive(np.array([[1.0, 2.0], [2.0, 1.0]])).reason)
    Copositive: M is nonnegative.
    >>> found = is_copositive(np.array([[1.0, -2.0], [-2.0, 1.0]]))
    >>> found.is_copositive, found.x.round(3), round(found.value, 12)
    (False, array([0.707, 0.707]), -1.0)
    >>> is_copositive(np.array([[1e10, 0.0, 0.0], [0.0, 1.0, -2.0], [0.0, -2.0, 1.0]])).x.round(3)
    array([0.   , 0.707, 0.707])
    """
    check_range(tol, "tol", low=0.0)
    check_count(n_init, "n_init")
    rng = as_generator(rng)
    M = _as_exactly_symmetric(M)
    found = _decide_by_pairs(M)
    if found is None:
        scaled = _scale(M, tol)
        found = _prove_sum_of_two(scaled)
        if found is None and 2 ** len(scaled.S) <= MAX_FACES:
            found = _decide_by_faces(M, scaled)
        if found is None:
            found = _search(M, scaled, n_init, rng)
    if found and tol > 0:
        return replace(found, reason=f"Up to tol={tol:g}: {found.reason}")
    return found


def _as_exactly_symmetric(given: npt.ArrayLike) -> FloatArray:
    """Return (M + M') / 2 in float64; raise unless M and M' agree in every entry.

    The tolerance of an entry is relative to the entry itself and to the diagonal entries of its row
    and column; relative to the largest entry of M, small rows would not be checked at all.
    """
    M: FloatArray = as_symmetric(as_matrix(given, "M").astype(np.float64, copy=False), "M")
    roots = np.sqrt(np.abs(M.diagonal()))
    size = np.maximum(np.maximum(np.abs(M), np.abs(M.T)), np.outer(roots, roots))
    if (np.abs(M - M.T) > ASYMMETRY * size).any():
        raise_asymmetric("M")
    return np.asarray(0.5 * M + 0.5 * M.T)


# --- certificates and proofs -------------------------------------------------------------------


def _proven(why: str) -> Copositivity:
    return Copositivity(True, None, None, f"Copositive: {why}.")


def _refuted(M: FloatArray, x: FloatArray, where: str) -> Copositivity | None:
    """Return the refutation by x, or None if x'Mx is not below 0 by more than rounding."""
    x = x / x.max()  # so that no square overflows or underflows
    x = x / np.linalg.norm(x)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        value, size = float(x @ M @ x), float(x @ np.abs(M) @ x)
    terms = np.count_nonzero(x) + 2
    if not value < -_VALUE_ROUNDOFFS * terms * EPS * size:
        return None
    return Copositivity(False, x, value, f"Not copositive: {where} gives x'Mx < 0.")


def _decide_by_pairs(M: FloatArray) -> Copositivity | None:
    """Refute by a diagonal entry below 0 or a pair with m_ij < -sqrt(m_ii m_jj); prove M >= 0."""
    n, diagonal = len(M), M.diagonal()
    if M.min() >= 0:
        return _proven("M is nonnegative")
    lowest = int(diagonal.argmin())
    if diagonal[lowest] < 0:
        refuted = _refuted(M, np.eye(1, n, lowest)[0], "a diagonal entry")
        return _ON_BORDER if refuted is None else refuted
    roots = np.sqrt(diagonal)
    bar = np.outer(roots, roots)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(M < -bar, -M / bar, 0.0)  # infinite if a diagonal entry is zero
    np.fill_diagonal(ratio, 0.0)
    for flat in np.argsort(-ratio, axis=None)[:n]:
        i, j = np.unravel_index(int(flat), M.shape)
        if not ratio[i, j] > 0:
            break
        refuted = _refuted(M, _pair_vector(M, int(i), int(j)), "a pair of rows")
        if refuted is not None:
            return refuted
    # The certificate for a remaining infinite ratio is outside the floating-point range.
    return _ON_BORDER if np.isinf(ratio).any() else None


def _pair_vector(M: FloatArray, i: int, j: int) -> FloatArray:
    """Return x >= 0 on two rows with x'Mx < 0, where m_ij < -sqrt(m_ii m_jj).

    The terms are balanced by x_i^2 m_ii = x_j^2 m_jj. If m_ii = 0, then x_j = 1 and
    x_i = -m_jj / m_ij give m_jj + 2 m_ij x_i = -m_jj < 0.
    """
    x = np.zeros(len(M))
    a, b, between = M[i, i], M[j, j], abs(M[i, j])
    with np.errstate(over="ignore", under="ignore"):
        if a > 0 and b > 0:
            x[[i, j]] = 1.0, np.sqrt(np.sqrt(a) / np.sqrt(b))
        elif a == 0 and b == 0:
            x[[i, j]] = 1.0
        else:
            x[[i, j]] = (b / between, 1.0) if a == 0 else (1.0, a / between)
    return x


class _Scaled(NamedTuple):
    """A matrix S <= DMD with diagonal in [1/2, 2] on the relevant rows, and the map back to M."""

    S: FloatArray
    rows: npt.NDArray[np.intp]
    exponents: npt.NDArray[np.int64]  # D = diag(2^exponents)
    n: int
    is_whole: bool  # whether S equals DMD

    def expand(self, y: FloatArray) -> FloatArray:
        """Return x = Dy in the coordinates of M, up to a factor."""
        x = np.zeros(self.n)
        kept = self.exponents[y > 0]
        x[self.rows] = np.ldexp(y, self.exponents - (kept.max() if kept.size else 0))
        return x


def _scale(M: FloatArray, tol: float) -> _Scaled:
    """Scale the diagonal of M to [1/2, 2] by powers of two, without rounding.

    Rows with a zero diagonal entry are dropped: `_decide_by_pairs` has checked that they have no
    negative entry, so x_i = 0 is optimal. An entry above the mean of its two diagonal entries is
    replaced by that mean: x'Sx is then concave along e_i - e_j, so some minimizer does not use both
    rows (Hoffman and Pereira). Both changes can only decrease x'Mx, so a proof for S holds for M.
    """
    n, rows = len(M), np.flatnonzero(M.diagonal() > 0)
    M = M[np.ix_(rows, rows)]
    exponents = -(np.frexp(M.diagonal())[1] // 2).astype(np.int64)
    with np.errstate(over="ignore", under="ignore"):
        S = np.ldexp(M, exponents[:, None] + exponents)
    half = S.diagonal() / 2
    lower = np.where((M != 0) & (np.abs(S) < _TINY), np.where(M < 0, -_TINY, 0.0), S)
    lower = np.minimum(lower, np.nextafter(half[:, None] + half, np.inf))
    is_whole = len(rows) == n and bool((lower == S).all())
    np.fill_diagonal(lower, 2 * half * (1.0 + tol))
    return _Scaled(lower, rows, exponents, n, is_whole)


def _prove_sum_of_two(scaled: _Scaled) -> Copositivity | None:
    """Prove that M is positive semidefinite plus nonnegative, if an easy splitting exists."""
    S = scaled.S
    if _is_semidefinite(S):
        more = "" if scaled.is_whole else " plus nonnegative"
        return _proven(f"M is positive semidefinite{more}")
    rest = np.minimum(S, 0.0)
    np.fill_diagonal(rest, S.diagonal())
    if _is_semidefinite(rest):
        return _proven("M is positive semidefinite plus nonnegative")
    return None


def _roundoff(S: FloatArray) -> float:
    """Return an upper bound on the error of a computed eigenvalue of S."""
    return _EIGENVALUE_ROUNDOFFS * len(S) * EPS * float(np.linalg.norm(S))


def _is_semidefinite(S: FloatArray) -> bool:
    """Return whether S is provably positive semidefinite, using integers if necessary."""
    lowest, error = float(np.linalg.eigvalsh(S)[0]), _roundoff(S)
    if abs(lowest) > error:
        return lowest > 0
    return len(S) <= _MAX_EXACT_ORDER and _is_exactly_semidefinite(S)


def _is_exactly_semidefinite(S: FloatArray) -> bool:
    """Return whether S is positive semidefinite, by fraction-free integer elimination (Bareiss).

    Every pivot is a positive entry of the diagonal; the remaining matrix is semidefinite only if a
    zero on its diagonal has a row of zeros.
    """
    B, last = _as_integers(S), 1
    while B:
        p = max(range(len(B)), key=lambda i: B[i][i])
        pivot, row = B[p][p], B[p]
        if pivot <= 0:
            return not any(map(any, B))
        rest = [i for i in range(len(B)) if i != p]
        B = [[(pivot * B[i][j] - row[i] * row[j]) // last for j in rest] for i in rest]
        last = pivot
    return True


def _fails_exactly(S: FloatArray) -> bool:
    """Decide in integers whether S fails while its smaller principal submatrices are copositive.

    This holds if and only if S has an inverse without positive entries (Cottle, Habetler and Lemke,
    Linear Algebra Appl. 3, 1970); then x = -S^-1 e >= 0 gives x'Sx = e'S^-1 e < 0.
    """
    n, last = len(S), 1
    B = [row + [int(i == j) for j in range(n)] for i, row in enumerate(_as_integers(S))]
    for k in range(n):
        p = next((i for i in range(k, n) if B[i][k]), None)
        if p is None:
            return False
        B[k], B[p] = B[p], B[k]
        pivot, row = B[k][k], B[k]
        for i in range(n):
            if i != k:
                factor = B[i][k]
                B[i] = [(pivot * b - factor * r) // last for b, r in zip(B[i], row, strict=True)]
        last = pivot
    # Left is a multiple ``last`` of the identity, right the same multiple of the inverse.
    return all(entry * last <= 0 for row in B for entry in row[n:])


def _as_integers(S: FloatArray) -> list[list[int]]:
    """Return S times a power of two as exact integers."""
    mantissa, exponent = np.frexp(S)
    lowest = int(exponent[S != 0].min(initial=0))
    return [
        [int(math.ldexp(m, 53)) << max(int(e) - lowest, 0) for m, e in zip(*row, strict=True)]
        for row in zip(mantissa, exponent, strict=True)
    ]


# --- all faces, and the search -----------------------------------------------------------------


def _decide_by_faces(M: FloatArray, scaled: _Scaled) -> Copositivity:
    """Check every face of the orthant, the small ones first.

    On a smallest face J where copositivity fails, S_JJ has one negative eigenvalue with a positive
    eigenvector (Kaplan). A face that clearly violates this condition passes; a face within rounding
    of it is decided by the certificate or in integers.
    """
    n, is_border = len(scaled.S), False
    for size in range(2, n + 1):
        for face in combinations(range(n), size):
            J = np.array(face)
            part = scaled.S[np.ix_(J, J)]
            v = _failing_vector(part)
            if v is None:
                continue
            y = np.zeros(n)
            y[J] = v
            refuted = _refuted(M, scaled.expand(y), "a face of the orthant")
            if refuted is not None:
                return refuted
            is_border = is_border or _fails_exactly(part)
    return _ON_BORDER if is_border else _proven("no face of the orthant refutes it")


def _failing_vector(S: FloatArray) -> FloatArray | None:
    """Return a v >= 0 that may give v'Sv < 0, or None if S cannot be a smallest failing face."""
    values, vectors = np.linalg.eigh(S)
    error = _roundoff(S)
    if values[0] > error or values[1] < -error:
        return None
    v = vectors[:, 0] if vectors[:, 0].sum() > 0 else -vectors[:, 0]
    # The error of the vector is at most error / (gap to the next eigenvalue), by Davis and Kahan.
    gap = float(values[1] - values[0]) - error
    if gap > 0 and v.min() < -2.0 * error / gap:
        return None
    return np.maximum(v, 0.0)


def _search(M: FloatArray, scaled: _Scaled, n_init: int, rng: np.random.Generator) -> Copositivity:
    """Minimize over S+ with one column, first from the lowest eigenvector, then from random x."""
    problem, least = TraceMin(scaled.S, 1), math.inf
    lowest = np.linalg.eigh(scaled.S)[1][:, :1]
    for number in range(n_init):
        X = np.maximum(lowest if lowest.sum() > 0 else -lowest, 0.0)
        result = solve(problem, X if number == 0 else problem.start(rng), with_bound=False)
        x = scaled.expand(result.X[:, 0])
        refuted = _refuted(M, x, "the minimization over x >= 0")
        if refuted is not None:
            return refuted
        x = x / np.linalg.norm(x)
        least = min(least, float(x @ M @ x))
    reason = f"Undecided: {n_init} starts found no x >= 0 with x'Mx < 0, which proves nothing."
    return Copositivity(None, None, least if n_init else None, reason)
