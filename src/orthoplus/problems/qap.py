"""The quadratic assignment problem: n = k, where S+ is the set of permutation matrices."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from orthoplus.core.bounds import rounding_margin
from orthoplus.core.checks import as_matrix, check_shape, norm_within_range
from orthoplus.core.errors import InputError
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray

# Integer multiples of a power of two, and their sums, are exact up to this many.
_EXACT = 2.0**53
# Number of bits of an entry, relative to the largest one, used by the relaxations.
_BITS = 24
# Differences of f below this fraction of the size of its terms are attributed to rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class QAP(Problem):
    r"""min :math:`\langle A, XBX^\top \rangle + \langle C, X \rangle` over the permutations X.

    .. math:: f(X) = \sum_{ij} A_{ij} B_{\pi(i)\pi(j)} + \sum_i C_{i\pi(i)}
              \quad\text{for}\quad X_{i\pi(i)} = 1.

    For n = k, the matrices of S+ are the permutation matrices, and the labels are the permutation.
    To maximize, as in graph matching of adjacency matrices A and B, pass ``-A`` and ``-C``. For A =
    B = 0 this is the linear assignment problem.

    Parameters
    ----------
    A, B : arrays of shape (n, n)
        Any real matrices: neither symmetry nor a zero diagonal is needed.
    C : array of shape (n, n), optional
        The linear term of Koopmans and Beckmann; by default zero.
    constant : float
        A constant added to f.

    Notes
    -----
    A value or gradient costs two or three products of n x n matrices; `lower_bound` sorts each row
    and takes one product and a linear assignment.

    Examples
    --------
    >>> A = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    >>> B = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    >>> problem = QAP(A, B)
    >>> problem.value(np.eye(3)), problem.value_of([0, 1, 2]), problem.value_of([1, 2, 0])
    (24.0, 24.0, 38.0)
    >>> problem.lower_bound()  # so the first is optimal
    24.0
    """

    A: FloatArray
    B: FloatArray
    C: FloatArray | None = None
    constant: float = 0.0

    def __post_init__(self) -> None:
        for name in ("A", "B", "C"):
            given = getattr(self, name)
            if given is None and name == "C":
                continue
            matrix = as_matrix(given, name).astype(np.float64, copy=False)
            if matrix.shape[0] != matrix.shape[1]:
                raise InputError(f"`{name}` has shape {matrix.shape}: a square matrix is needed.")
            check_shape(len(matrix), len(matrix), name)
            norm_within_range(matrix, name)
            object.__setattr__(self, name, matrix)
            if matrix.shape != self.A.shape:
                raise InputError(
                    f"`A` has shape {self.A.shape} and `{name}` {matrix.shape}: they must have "
                    f"the same shape. Pad the smaller one with zeros, or call "
                    f"`orthoplus.quadratic_assignment`, which does that and leaves rows unmatched."
                )

    @property
    def shape(self) -> tuple[int, int]:
        """Return (n, n) for n facilities."""
        return self.A.shape[0], self.A.shape[1]

    def value(self, X: FloatArray) -> float:
        """Return <A, XBX'> + <C, X> + the constant."""
        quadratic = float(np.vdot(self.A @ X, X @ self.B))
        return quadratic + self._linear_value(X) + self.constant

    def value_of(self, permutation: IntArray | list[int]) -> float:
        """Return f of the permutation i -> permutation[i] in O(n^2), exact for integers."""
        p = self._as_permutation(permutation)
        linear = 0.0 if self.C is None else float(self.C[np.arange(len(p)), p].sum())
        return float(np.vdot(self.A, self.B[np.ix_(p, p)])) + linear + self.constant

    def _as_permutation(self, permutation: IntArray | list[int]) -> IntArray:
        p, n = np.asarray(permutation), len(self.A)
        if p.shape != (n,) or p.dtype.kind not in "iu" or (np.sort(p) != np.arange(n)).any():
            raise InputError(
                f"`permutation` of shape {p.shape} and dtype {p.dtype} does not contain each of 0 "
                f"to {n - 1} exactly once."
            )
        return p

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return f and AXB' + A'XB + C."""
        G = self._product(X)
        value = 0.5 * float(np.vdot(G, X)) + self._linear_value(X) + self.constant
        return value, G if self.C is None else G + self.C

    def _linear_value(self, X: FloatArray) -> float:
        return 0.0 if self.C is None else float(np.vdot(self.C, X))

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return ADB' + A'DB, which does not depend on X."""
        return self._product(D)

    def _product(self, D: FloatArray) -> FloatArray:
        """Return ADB' + A'DB."""
        if self.is_symmetric:
            return np.asarray(2.0 * (self.A @ D @ self.B))
        return np.asarray(self.A @ D @ self.B.T + self.A.T @ D @ self.B)

    @cached_property
    def is_symmetric(self) -> bool:
        """Return whether A and B are symmetric."""
        return bool((self.A == self.A.T).all() and (self.B == self.B.T).all())

    def symmetrized(self) -> "QAP":
        """Return an equivalent problem with both matrices symmetric, if one of them is.

        If A is symmetric, only the symmetric part of B matters, and vice versa; products and
        exchanges then cost half as much.
        """
        return self._symmetrized or self

    @cached_property
    def _symmetrized(self) -> "QAP | None":
        """Return the symmetrized problem, or None if there is none or this one is symmetric."""
        if self.is_symmetric or not ((self.A == self.A.T).all() or (self.B == self.B.T).all()):
            return None
        # Halve before adding: the sum of two large entries may overflow.
        A, B = (0.5 * M + 0.5 * M.T for M in (self.A, self.B))
        return QAP(A, B, self.C, self.constant)

    @cached_property
    def lipschitz(self) -> float:
        """Return 2 ||A|| ||B||."""
        return 2.0 * float(np.linalg.norm(self.A, 2) * np.linalg.norm(self.B, 2))

    @property
    def value_lipschitz(self) -> float:
        """Return 2 sqrt(n) ||A|| ||B|| + ||C||_F, a bound on the gradient AXB' + A'XB + C."""
        linear = 0.0 if self.C is None else float(np.linalg.norm(self.C))
        return float(len(self.A) ** 0.5 * self.lipschitz) + linear

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Draw a start by multiplying equal entries by random factors between 1 and 2."""
        X = 1.0 + rng.random(self.shape)
        return np.asarray(X / np.linalg.norm(X, axis=0))

    def freeze(self, X: FloatArray) -> "QAP":
        """Return the centered problem, which has the same value at every permutation.

        It is symmetric if possible. The means of A and B, and of the rows and columns of C, are
        subtracted. Otherwise f >= 0 would decrease as columns share a row, and the penalty would
        have to separate them.
        """
        return self._centered

    @cached_property
    def _centered(self) -> "QAP":
        same = self.symmetrized()
        a, b, n = float(same.A.mean()), float(same.B.mean()), len(same.A)
        # sum (A - a)(B - b) = sum AB - b sum A - a sum B + n^2 ab, and sum A = n^2 a.
        constant, C = self.constant + n * n * a * b, self.C
        if C is not None:
            by_row, by_column = C.mean(axis=1, keepdims=True), C.mean(axis=0)
            constant += n * float(C.mean())
            C = C - by_row - by_column + C.mean()
        return QAP(same.A - a, same.B - b, C, constant)

    @cached_property
    def size(self) -> float:
        """Return the scale of f, ||A|| ||B|| / n + ||C|| / sqrt(n) of the centered matrices."""
        centered, n = self._centered, len(self.A)
        size = float(np.linalg.norm(centered.A) * np.linalg.norm(centered.B)) / n
        if centered.C is not None:
            size += float(np.linalg.norm(centered.C)) / n**0.5
        return size or 1.0

    @cached_property
    def tolerance(self) -> float:
        """Return the largest difference of two values of f that is attributed to rounding."""
        size = float(np.linalg.norm(self.A) * np.linalg.norm(self.B)) + abs(self.constant)
        return _ROUNDING * (size + (0.0 if self.C is None else float(np.linalg.norm(self.C))))

    @cached_property
    def normalized(self) -> "QAP":
        """Return the problem for the relaxations: centered, of scale 1, with ||A|| = ||B||.

        Entries are rounded to 24 bits first. The rounded entries do not depend on the scale of the
        data, so that ties, which are common in graphs, are always broken in the same way.
        """
        a, b = float(np.abs(self.A).max()) or 1.0, float(np.abs(self.B).max()) or 1.0
        C = None if self.C is None else _rounded(self.C / (a * b))
        coarse = QAP(_rounded(self.A / a), _rounded(self.B / b), C)
        centered, n = coarse._centered, len(self.A)
        # Scale A and B to a common norm such that ||A|| ||B|| / n + ||C|| / sqrt(n) = 1.
        sizes = [float(np.linalg.norm(M)) or 1.0 for M in (centered.A, centered.B)]
        share = (sizes[0] * sizes[1] / n / coarse.size) ** 0.5
        A, B = (
            share * n**0.5 / s * M for s, M in zip(sizes, (centered.A, centered.B), strict=True)
        )
        return QAP(A, B, None if centered.C is None else centered.C / coarse.size)

    def refine(self, X: FloatArray) -> FloatArray:
        """Return X, the only point with its support."""
        return X

    def match(self, rows: IntArray, columns: IntArray) -> "QAP":
        """Return the remaining problem after row ``rows[i]`` is matched to ``columns[i]``.

        It consists of the other rows and columns, in order. Pairs of a matched and an unmatched row
        become part of its linear term.
        """
        n = len(self.A)
        if not len(rows) == len(np.unique(rows)) == len(np.unique(columns)) == len(columns):
            raise InputError(
                f"`rows` has {len(rows)} entries, {len(np.unique(rows))} of them distinct, "
                f"and `columns` has {len(columns)} entries, {len(np.unique(columns))} of them "
                f"distinct: pass distinct rows and equally many distinct columns."
            )
        i, j = np.delete(np.arange(n), rows), np.delete(np.arange(n), columns)
        A, B = self.A, self.B
        C = (
            A[np.ix_(i, rows)] @ B[np.ix_(j, columns)].T
            + A[np.ix_(rows, i)].T @ B[np.ix_(columns, j)]
        )
        constant = float(np.vdot(A[np.ix_(rows, rows)], B[np.ix_(columns, columns)]))
        if self.C is not None:
            C += self.C[np.ix_(i, j)]
            constant += float(self.C[rows, columns].sum())
        return QAP(A[np.ix_(i, i)], B[np.ix_(j, j)], C, self.constant + constant)

    def lower_bound(self) -> float:
        """Return the bound of Gilmore and Lawler, minus a margin for rounding.

        The margin is zero for integers.
        """
        return self.gilmore_lawler()[0] - 0.5 * self.rounding()

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float:
        """Return 0 for integers and multiples of a power of two, whose sums are exact."""
        # A cost of Gilmore and Lawler is at most ||a_i|| ||b_j||, and n of them are summed.
        rows, columns = (float(np.linalg.norm(M, axis=1).max()) for M in (self.A, self.B))
        size = len(self.A) * rows * columns + abs(self.constant)
        if self.C is not None:
            size += len(self.A) * float(np.abs(self.C).max())
        others = (np.zeros(1) if self.C is None else self.C, np.array(self.constant))
        if size < _EXACT * min(_grain(self.A) * _grain(self.B), *map(_grain, others)):
            return 0.0
        return 2.0 * rounding_margin(size, len(self.A) ** 2)

    def gilmore_lawler(self) -> tuple[float, IntArray]:
        r"""Return a lower bound over all permutations, and the one that minimizes it.

        .. math:: L_{ij} = A_{ii} B_{jj} + C_{ij} + \min_{\tau} \sum_{l \ne i} A_{il} B_{j\tau(l)},

        where the minimum over all matchings tau of the other entries is attained with one row
        ascending and the other descending. The bound is the value of the linear assignment problem
        with costs L; for A = 0 or B = 0 it equals the minimum of f. If one of A and B is symmetric,
        the other may be replaced by its symmetric part, and the larger of both bounds is returned.
        """
        bounds = [self._gilmore_lawler]
        if self._symmetrized is not None:
            bounds.append(self._symmetrized._gilmore_lawler)
        bound, permutation = max(bounds, key=lambda found: found[0])
        return bound, permutation.copy()

    @cached_property
    def _gilmore_lawler(self) -> tuple[float, IntArray]:
        from scipy.optimize import linear_sum_assignment  # slow to import

        # The smallest inner product of two rows over all matchings has opposite orders.
        rising, falling = _sorted_off_diagonal(self.A), _sorted_off_diagonal(self.B)[:, ::-1]
        L = rising @ falling.T + np.outer(np.diag(self.A), np.diag(self.B))
        if self.C is not None:
            L += self.C
        rows, columns = linear_sum_assignment(L)
        return float(L[rows, columns].sum()) + self.constant, columns


def _rounded(M: FloatArray) -> FloatArray:
    """Round the entries to a fixed number of bits below the leading bit of the largest."""
    grid = 2.0 ** (np.frexp(np.abs(M).max())[1] - _BITS)
    return np.asarray(np.rint(M / grid) * grid)


def _sorted_off_diagonal(M: FloatArray) -> FloatArray:
    """Return the off-diagonal entries of each row in ascending order, shape (n, n - 1)."""
    n = len(M)
    return np.sort(M[~np.eye(n, dtype=bool)].reshape(n, n - 1), axis=1)


def _grain(M: FloatArray) -> float:
    """Return the largest power of two that divides all entries, infinite if all are zero."""
    mantissa, exponent = np.frexp(M[M != 0])
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    return float(np.ldexp(whole & -whole, exponent - 53).min(initial=np.inf))
