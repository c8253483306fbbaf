r"""Curvature on a cone of directions: the algebraic part of the second-order conditions.

The cone N of (2.11) contains the directions D that are free on the support of X, except that
x_j'd_j = 0, and nonnegative on some *free entries* where X is zero; over S+ at most one free entry
per row is nonzero.

* Without free entries, N is a linear space, and the smallest eigenvalue of the Hessian decides.
* Negative curvature on the support refutes, positive curvature on the span of N proves.
* Otherwise the faces of N are enumerated if there are few. If there are many, some directions of N
  are tried, then the span again with ``lambda_bar D Off(VV')`` added, which is zero on N. The
  result is None if neither is conclusive. (In general the problem is NP-hard: copositivity.)
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from orthoplus.core.types import BoolArray, FloatArray, Linear

# Up to this dimension the Hessian on the critical space is formed; beyond, Lanczos is used.
_DENSE_DIMENSION = 150
# Largest number of faces of N to enumerate, and of single entries to try otherwise.
MAX_FACES = 4096
_MAX_TRIALS = 64
# Restarts of the Lanczos method before it gives up.
_MAX_RESTARTS = 500
_NO_CONVERGENCE = "Undecided: the Lanczos method did not converge."


@dataclass(frozen=True, eq=False)
class CriticalSpace:
    """Orthonormal coordinates of {D : x_j'd_j = 0, D = 0 off the support and the free entries}.

    One Householder reflector per column maps x_j to minus the unit vector of its largest entry; the
    other unit vectors of the support, reflected, are a basis of the complement of x_j. The
    coordinates of the support come first, then the free entries. A change of coordinates costs
    O(nk).
    """

    X: FloatArray
    free: BoolArray  # zero entries of X at which D may be positive
    is_exclusive: bool  # whether at most one of them per row may be nonzero, (2.3)

    @cached_property
    def _reflector(self) -> tuple[Any, ...]:
        rows, columns = np.nonzero(self.X)
        top = self.X.argmax(axis=0)
        is_pivot = rows == top[columns]
        vector = self.X[rows, columns]
        vector[is_pivot] += 1.0
        weight = 1.0 / (1.0 + self.X[top, np.arange(self.X.shape[1])])
        return rows, columns, ~is_pivot, vector, weight

    @cached_property
    def n_support(self) -> int:
        """Return the dimension of the part on the support, nnz(X) - k."""
        return int(np.count_nonzero(self.X)) - self.X.shape[1]

    @cached_property
    def dimension(self) -> int:
        """Return the dimension of the space: `n_support` plus the number of free entries."""
        return self.n_support + int(np.count_nonzero(self.free))

    @cached_property
    def groups(self) -> list[list[int]]:
        """Return groups of coordinates of free entries; at most one per group is nonzero in N."""
        coordinates = range(self.n_support, self.dimension)
        if not self.is_exclusive:
            return [[c] for c in coordinates]
        by_row: dict[int, list[int]] = {}
        for row, c in zip(np.nonzero(self.free)[0].tolist(), coordinates, strict=True):
            by_row.setdefault(row, []).append(c)
        return list(by_row.values())

    def _reflect(self, v: FloatArray) -> FloatArray:
        _, columns, _, vector, weight = self._reflector
        along = weight * np.bincount(columns, vector * v, minlength=len(weight))
        return np.asarray(v - along[columns] * vector)

    def expand(self, c: FloatArray) -> FloatArray:
        """Return the direction D with these coordinates."""
        rows, columns, keep, vector, _ = self._reflector
        v, D = np.zeros_like(vector), np.zeros_like(self.X)
        v[keep] = c[: self.n_support]
        D[rows, columns] = self._reflect(v)
        D[self.free] = c[self.n_support :]
        return D

    def restrict(self, D: FloatArray) -> FloatArray:
        """Return the coordinates of D projected onto the space."""
        rows, columns, keep, _, _ = self._reflector
        return np.concatenate([self._reflect(D[rows, columns])[keep], D[self.free]])

    def operator(self, curved: Linear) -> Any:
        """Return the map D -> curved(D) in coordinates, as a matrix if it is small."""

        def matvec(c: FloatArray) -> FloatArray:
            return self.restrict(curved(self.expand(np.ravel(c))))

        m = self.dimension
        if m > _DENSE_DIMENSION:
            return LinearOperator((m, m), matvec=matvec, dtype=np.float64)
        H = np.array([matvec(unit) for unit in np.eye(m)]).reshape(m, m)
        return (H + H.T) / 2.0


class _Lowest(NamedTuple):
    value: float  # NaN if Lanczos did not converge
    vector: FloatArray | None
    size: float


def _lowest(H: Any, tol: float) -> _Lowest:
    """Return the smallest eigenvalue, its unit vector and the largest absolute eigenvalue."""
    m = H.shape[0]
    if m == 0:
        return _Lowest(math.inf, None, 0.0)
    if m <= _DENSE_DIMENSION:
        values, vectors = np.linalg.eigh(H @ np.eye(m))
        return _Lowest(float(values[0]), vectors[:, 0], float(np.abs(values).max()))
    start = np.random.default_rng(0).standard_normal(m)
    if not (H @ start).any():  # H = 0, which ARPACK refuses
        return _Lowest(0.0, start / np.linalg.norm(start), 0.0)
    options = {"k": 1, "v0": start, "maxiter": _MAX_RESTARTS}
    try:
        (top,) = np.abs(eigsh(H, which="LM", tol=1e-2, return_eigenvectors=False, **options))
        # ARPACK's tolerance is relative to the eigenvalue; with the shift it is relative to ||H||.
        shift = 1.1 * float(top)
        shifted = LinearOperator(H.shape, matvec=lambda c: shift * c - H @ c, dtype=np.float64)
        values, vectors = eigsh(shifted, which="LA", tol=0.1 * tol, **options)
    except ArpackNoConvergence:
        return _Lowest(math.nan, None, 0.0)
    return _Lowest(shift - float(values[0]), vectors[:, 0], float(top))


def _leading(H: Any, m: int) -> Any:
    """Return the leading m x m part of a matrix or operator."""
    if isinstance(H, np.ndarray):
        return H[:m, :m]
    pad = np.zeros(H.shape[0] - m)
    return LinearOperator(
        (m, m), matvec=lambda c: (H @ np.concatenate([np.ravel(c), pad]))[:m], dtype=np.float64
    )


class Curvature(NamedTuple):
    """Results of the second-order conditions; the fields are those of `OptimalityReport`."""

    satisfies_weak_second_order: bool | None
    satisfies_second_order_necessary: bool | None
    satisfies_second_order_sufficient: bool | None
    smallest_curvature: float | None
    support_curvature: float | None
    direction: FloatArray | None
    escape: FloatArray | None
    explanation: str


UNKNOWN = Curvature(
    None, None, None, None, None, None, None, "The second-order conditions were not requested."
)


def decide_curvature(
    space: CriticalSpace,
    curved: Linear,
    coupled: Linear | None,
    *,
    tol: float,
    scale: float = 0.0,
) -> Curvature:
    """Decide (2.14) and (2.17) on the cone of the space, for a stationary point.

    Parameters
    ----------
    space : CriticalSpace
    curved : callable
        ``D -> Hess f(X)[D]``, eq. (2.13).
    coupled : callable or None
        The same plus ``lambda_bar D Off(VV')``, if that is zero on the cone.
    tol : float
        Curvature counts as zero up to ``tol * max(r, scale)``, where r is the largest absolute
        curvature on the space.
    scale : float
        Scale of the gradients of f, needed if all curvature cancels and r is only rounding.
    """
    H = space.operator(curved)
    whole = _lowest(H, tol)
    bar = tol * max(whole.size, scale)
    found = UNKNOWN._replace(
        smallest_curvature=None if math.isnan(whole.value) else whole.value,
        direction=None if whole.vector is None else space.expand(whole.vector),
    )
    if whole.value > bar:
        return _decided(found, True, True)
    n_free = space.dimension - space.n_support
    part = whole if n_free == 0 else _lowest(_leading(H, space.n_support), tol)
    bar = max(bar, tol * part.size)
    if math.isnan(part.value):
        return found._replace(explanation=_NO_CONVERGENCE)
    found = found._replace(
        satisfies_weak_second_order=part.value >= -bar, support_curvature=part.value
    )
    if part.vector is not None and part.value < -bar:
        return _decided(found, False, False, space.expand(np.pad(part.vector, (0, n_free))))
    if math.isnan(whole.value):
        return found._replace(explanation=_NO_CONVERGENCE)
    if n_free == 0:
        return _decided(found, True, part.value > bar)
    # Some free entries, no negative curvature on the support, some not positive on the span.
    cone = _Cone(space, H, whole.vector, coupled, tol)
    sufficient = _is_positive(cone, -bar)[0] if part.value > bar else False
    if sufficient or whole.value >= -bar:
        return _decided(found, True, sufficient)
    necessary, c = _is_positive(cone, bar)
    escape = None if c is None else space.expand(c / np.linalg.norm(c))
    return _decided(found, necessary, False if necessary is False else sufficient, escape)


def _decided(
    found: Curvature,
    necessary: bool | None,
    sufficient: bool | None,
    escape: FloatArray | None = None,
) -> Curvature:
    """Return the decision with its explanation."""
    if sufficient:
        why = "A strict local minimizer: all curvature on the critical cone is positive."
    elif necessary is False:
        why = "A saddle: the curvature along `escape` is negative."
    elif necessary is None:
        why = "Undecided: the critical cone has too many faces, and no trial direction descends."
    elif sufficient is None:
        why = "No negative curvature; whether all of it is positive is undecided."
    else:
        why = "No negative curvature, but some is zero: possibly a nonstrict minimizer."
    return found._replace(
        satisfies_weak_second_order=True if necessary else found.satisfies_weak_second_order,
        satisfies_second_order_necessary=necessary,
        satisfies_second_order_sufficient=sufficient,
        explanation=why,
        escape=escape,
    )


class _Cone(NamedTuple):
    """The cone N of (2.11) in coordinates, with the data of the decision."""

    space: CriticalSpace
    H: Any
    lowest: FloatArray | None
    coupled: Linear | None
    tol: float


def _is_positive(cone: _Cone, shift: float) -> tuple[bool | None, FloatArray | None]:
    """Decide whether c'(H + shift I)c > 0 on N without 0, and return a c that violates it.

    Return (None, None) if it is not known.
    """
    # A face chooses at most one free entry per group, so their number is a product.
    faces = math.prod(1 + len(group) for group in cone.space.groups[:64])
    if isinstance(cone.H, np.ndarray) and faces <= MAX_FACES:
        c = _search_faces(cone.H + shift * np.eye(len(cone.H)), cone.space)
        return c is None, c
    for c in _trial_directions(cone):
        if c.any() and float(c @ (cone.H @ c)) + shift * float(c @ c) <= 0:
            return False, c
    if cone.coupled is not None:
        lowest = _lowest(cone.space.operator(cone.coupled), cone.tol)
        if lowest.value + shift > 0:
            return True, None
    return None, None


def _search_faces(H: FloatArray, space: CriticalSpace) -> FloatArray | None:
    """Return a direction of N with c'Hc <= 0, or None if there is none; H > 0 on the support.

    Minimizing over the support leaves the Schur complement Q on the free entries. If Q is not
    strictly copositive on N, then on a smallest face J where it fails the lowest eigenvalue of Q_JJ
    is simple, not positive, and has a positive vector (Kaplan, Linear Algebra Appl. 313, 2000).
    """
    m = space.n_support
    inner = np.linalg.solve(H[:m, :m], H[:m, m:])
    Q = H[m:, m:] - H[m:, :m] @ inner
    v = find_nonpositive(Q, [[c - m for c in group] for group in space.groups])
    return None if v is None else np.concatenate([-inner @ v, v])


def find_nonpositive(Q: FloatArray, groups: list[list[int]]) -> FloatArray | None:
    """Return v >= 0, not 0, with v'Qv <= 0 and at most one positive entry per group, or None.

    This solves one eigenvalue problem per face of the cone.
    """
    for face in product(*([-1, *group] for group in groups)):
        J = np.array([c for c in face if c >= 0], dtype=np.intp)
        if not J.size:
            continue
        v = np.linalg.eigh(Q[np.ix_(J, J)])[1][:, 0]
        v = np.maximum(v if v.sum() > 0 else -v, 0.0)
        if v @ Q[np.ix_(J, J)] @ v <= 0:
            whole = np.zeros(len(Q))
            whole[J] = v
            return whole
    return None


def _trial_directions(cone: _Cone) -> Iterator[FloatArray]:
    """Yield directions of N: the lowest one of its span, projected, and single free entries."""
    space = cone.space
    for c in [] if cone.lowest is None else [cone.lowest, -cone.lowest]:
        fitted = np.zeros_like(c)
        fitted[: space.n_support] = c[: space.n_support]
        for group in space.groups:
            best = max(group, key=c.__getitem__)
            fitted[best] = max(c[best], 0.0)
        yield fitted
    for group in space.groups[:_MAX_TRIALS]:
        for coordinate in group[: max(1, _MAX_TRIALS // len(space.groups))]:
            yield np.eye(1, space.dimension, coordinate)[0]
