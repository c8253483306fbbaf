r"""Check a certificate from the data of the problem: plain NumPy, no code of the search.

A proof is a symmetric S with nonnegative entries (and multipliers of cuts, at least 0). Checked are
these signs, the value of the answer, and that the bound follows from the leading eigenvalues of
M + S:

* all eigenvalues of the n x n matrix for small n;
* those of a matrix of order r + k^2 with the same ones, for M = AA' of few columns;
* otherwise Ritz values, by Lanczos from another start than that of the search.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray, IntArray

_EPS = float(np.finfo(np.float64).eps)
# Rounding of sums of n terms, as a multiple of the root of n and the unit roundoff.
_ROUNDOFFS = 16.0
# The largest n x n matrix, and the largest Gram matrix, whose eigenvalues are computed.
_MOST_ROWS, _MOST_ORDER = 4500, 3500
# Up to this many rows all partitions are listed.
_MOST_LISTED = 9
# Entries of an eigenvector of this size have a sign.
_ONE_SIGN = 1e-9
# Entries of the rows of A that are in memory at a time.
_SLICE = 1 << 19
# Ritz values that are computed beyond those that are needed.
_SPARE = 10
# Data with fingerprints that differ by this share of the norm are different.
_SAME = 1e-5


@dataclass(frozen=True)
class Verification:
    """Whether a certificate holds; it is true if it does.

    Attributes
    ----------
    failures : tuple of str
        What does not hold, in sentences.
    value, bound : float
        As they were recomputed; the bound is NaN if it could not be.

    Examples
    --------
    >>> bool(Verification((), 1.0, 1.0)), bool(Verification(("S is negative.",), 1.0, 1.0))
    (True, False)
    """

    failures: tuple[str, ...]
    value: float
    bound: float

    def __bool__(self) -> bool:
        return not self.failures


# --- which data -----------------------------------------------------------------------------------


def fingerprint_of(problem: Problem) -> FloatArray:
    """Return n, k, the size of the data and two products with fixed vectors."""
    form: Any = problem.trace_form()
    n, k = problem.shape
    left = np.cos(1.7 * np.arange(n) + 0.3)
    if form.factor is None:
        image = np.asarray(form.matrix @ left[:, None], dtype=np.float64)[:, 0]
        return np.array([n, k, n, np.linalg.norm(image), left @ image, np.sin(left) @ image])
    r = form.factor.shape[1]
    right = np.cos(2.3 * np.arange(r)[:, None] + np.array([0.1, 0.7]))
    image = left @ np.asarray(form.factor.times(right), dtype=np.float64)
    return np.array([n, k, r, form.factor.squared_norm() ** 0.5, *image])


def is_same_data(one: FloatArray, other: FloatArray) -> bool:
    """Return whether two fingerprints are of the same data, storage and rounding apart."""
    if len(one) != len(other) or (one[:3] != other[:3]).any():
        return False
    size = max(one[3], other[3]) * np.sqrt(one[0])
    return bool(np.abs(one[3:] - other[3:]).max() <= _SAME * size)


# --- the checks -----------------------------------------------------------------------------------


def verify(problem: Problem, certificate: Any) -> Verification:
    """Check value and bound of a certificate; see the head of this module."""
    data = _Data(problem, certificate.unit)
    failures = []
    value = data.value(certificate.answer, certificate.weights)
    slack = _margin(data.form.size, data.n + data.r)
    if not abs(value - certificate.value) <= 2.0 * slack:
        failures.append(f"The value of the answer is {value:.10g}, not {certificate.value:.10g}.")
    try:
        upper, margin = _upper(data, certificate)
    except _BrokenProofError as error:
        return Verification((*failures, str(error)), value, np.nan)
    bound = data.bound(upper, slack)
    # The search has margins of its own, of the same size.
    if not certificate.bound <= data.bound(upper - 2.0 * margin, -4.0 * slack):
        failures.append(f"The proof gives the bound {bound:.10g}, not {certificate.bound:.10g}.")
    return Verification(tuple(failures), value, bound)


class _BrokenProofError(Exception):
    """Report a proof that proves nothing."""


class _Upper(NamedTuple):
    """An upper bound of <M, XX'>, and how much of it is for rounding."""

    total: float
    margin: float


def _margin(size: float, length: int) -> float:
    return abs(size) * _ROUNDOFFS * _EPS * (2.0 + length**0.5)


def _upper(data: "_Data", certificate: Any) -> _Upper:
    """Return the upper bound of <M, XX'> that the proof gives."""
    if certificate.kind == "exact" and data.n <= _MOST_LISTED:
        return _upper_of_all(data)
    if certificate.confidence is not None or certificate.kind == "exact":
        raise _BrokenProofError(f"A certificate of the kind {certificate.kind!r} carries no proof.")
    proof = certificate.proof
    if type(proof) is tuple:
        return _upper_of_parts(data, proof)
    if proof is None:
        k = data.k
        nothing = np.zeros((k, k))
        zeros = np.zeros(data.n)
        centers = None if data.A is None else np.zeros((data.r, k))
        scores = None if data.A is not None else np.zeros((data.n, k))
        return _upper_between(data, certificate.answer, zeros, nothing, nothing, centers, scores)
    return _upper_between(data, *proof[:4], proof.centers, proof.scores)


class _Data:
    """M of a problem in the unit of the proof, and what follows from <M, XX'>."""

    def __init__(self, problem: Problem, unit: float) -> None:
        form: Any = problem.trace_form()
        self.problem, self.form = problem, form
        self.n, self.k = problem.shape
        self.A = form.factor
        if self.A is not None and not self.A.has_entries:
            self.A = _Written(self.A)
        self.r = self.n if self.A is None else self.A.shape[1]
        self.unit, self.root = unit, unit**0.5

    def rows(self, work: Any, *vectors: Any) -> Any:
        """Return the sum of ``work(rows of A in float64, pieces of the vectors)``."""
        if isinstance(self.A, _Written):
            return work(self.A.values / self.root, *vectors)
        parts = [self.A.scatter(vector) for vector in vectors]
        return self.A.reduce_rows(_sliced, *parts, args=(work, self.root, self.r + self.k**2))

    def dense(self) -> FloatArray:
        if self.A is None:
            M = np.asarray(self.form.matrix @ np.eye(self.n), dtype=np.float64) / self.unit
            return np.asarray((M + M.T) / 2)
        A = self.A.to_dense().astype(np.float64) / self.root
        return np.asarray(A @ A.T)

    def product(self, X: FloatArray) -> FloatArray:
        if self.A is None:
            return np.asarray(self.form.matrix @ X / self.unit)
        A = self.A.entries().astype(np.float64)
        return np.asarray(A @ (A.T @ X) / self.unit)

    def value(self, labels: IntArray, weights: FloatArray) -> float:
        """Return f at the point with these labels and weights, columns normalized."""
        X = np.zeros((self.n, self.k))
        inside = np.flatnonzero(labels >= 0)
        X[inside, labels[inside]] = np.maximum(weights[inside], 0.0)
        if self.form.has_row_sums:
            X = (X > 0).astype(np.float64)
        X /= np.linalg.norm(X, axis=0)
        if not self.form.is_exact:
            return self.problem.value(X)
        if self.A is None:
            trace = float(np.vdot(self.product(X), X))
        else:
            image = self.rows(_cross, X)
            trace = float(np.vdot(image, image))
        return max(self.form.bound(trace * self.unit), self.form.least)

    def bound(self, upper: float, slack: float) -> float:
        return max(self.form.bound(upper * self.unit) - slack / 2, self.form.least)


class _Written:
    """An operator, written out."""

    def __init__(self, data: Any) -> None:
        self.values = data.to_dense().astype(np.float64)
        self.shape = data.shape

    def to_dense(self) -> FloatArray:
        return self.values

    entries = to_dense

    def squared_norm(self) -> float:
        return float(np.vdot(self.values, self.values))


def _sliced(block: Any, *args: Any) -> Any:
    *pieces, work, root, width = args
    height = max(1, _SLICE // width)
    total: Any = None
    for start in range(0, block.shape[0], height):
        rows = slice(start, min(start + height, block.shape[0]))
        dense = block.rows(rows).to_dense().astype(np.float64) / root
        part = work(dense, *(piece[rows] for piece in pieces))
        total = part if total is None else total + part
    return total


def _cross(A: FloatArray, X: FloatArray) -> FloatArray:
    return np.asarray(A.T @ X)


# --- eigenvalues ----------------------------------------------------------------------------------


def _dense_upper(data: _Data, H: FloatArray, k: int) -> _Upper:
    """Bound <H, XX'> by all eigenvalues of H; with row sums, of H on the complement of e."""
    n, fixed = len(H), 0.0
    margin = _margin(1.0 + k * float(np.linalg.norm(H)), n)
    if data.form.has_row_sums:
        means = H.mean(axis=0)
        fixed, k = float(means.sum()), k - 1
        H = H - means - means[:, None] + means.mean()
        H -= 2.0 * float(np.linalg.norm(H)) / n  # e itself is not among the eigenvectors
    leading = float(np.linalg.eigvalsh((H + H.T) / 2)[n - k :].sum())
    return _Upper(fixed + leading + margin, margin)


def _upper_of_all(data: _Data) -> _Upper:
    """Return the best over all partitions of a few rows."""
    n, M = data.n, data.dense()
    single = _best_of_groups(M, data.form.has_row_sums)
    found = single
    for _ in range(data.k - 1):
        following = np.full(1 << n, -np.inf)
        for mask in range(1, 1 << n):
            part = (mask - 1) & mask
            while part:
                following[mask] = max(following[mask], found[part] + single[mask ^ part])
                part = (part - 1) & mask
        found = following
    # A row that would lower the value of its group has weight 0 there: all rows are in a group.
    margin = _margin(float(np.abs(M).sum()), n)
    return _Upper(float(found[-1]) + margin, margin)


def _best_of_groups(M: FloatArray, has_sums: bool) -> FloatArray:
    """Return at least the best x'Mx over unit x >= 0 on each set of rows, by its bit mask."""
    n = len(M)
    best = np.full(1 << n, -np.inf)
    for mask in range(1, 1 << n):
        rows = np.flatnonzero(mask >> np.arange(n) & 1)
        block = M[np.ix_(rows, rows)]
        if has_sums:
            best[mask] = block.sum() / len(rows)
            continue
        values, vectors = np.linalg.eigh(block)
        x = vectors[:, -1]
        # With entries of both signs the best x >= 0 has an entry 0.
        is_mixed = x.min() < -_ONE_SIGN and x.max() > _ONE_SIGN
        below = max(best[mask & ~(1 << int(i))] for i in rows)
        best[mask] = below if is_mixed else max(below, float(values[-1]))
    return best


def _upper_of_parts(data: _Data, parts: Any) -> _Upper:
    """Bound by dense matrices: one of all rows, or blocks of rows whose bounds add up."""
    seen = np.concatenate([part.rows for part in parts])
    if len(parts) > 1 and (len(seen) != data.n or (np.sort(seen) != np.arange(data.n)).any()):
        raise _BrokenProofError("The blocks of the proof do not hold every row once.")
    total, margin = 0.0, 0.0
    for part in parts:
        if not (part.half >= 0).all() or not (part.multipliers >= 0).all():
            raise _BrokenProofError("S or a multiplier of the proof has a negative entry.")
        if len(part.multipliers) and not data.form.has_row_sums:
            raise _BrokenProofError("Cuts are valid for k-means only.")
        if len(part.rows):
            A = data.A.sample_rows(np.sort(part.rows)).to_dense().astype(np.float64) / data.root
            M = A @ A.T
        else:
            M = data.dense()
        found = _dense_upper(data, M + _unpack(part, len(M)), data.k)
        total, margin = total + found.total, margin + found.margin
    return _Upper(total, margin)


def _unpack(part: Any, n: int) -> FloatArray:
    """Return S less the cuts times their multipliers, n x n."""
    S = np.zeros((n, n))
    if len(part.half):
        S[np.triu_indices(n)] = part.half
    S = S + np.triu(S, 1).T
    for (i, j, other), weight in zip(part.cuts, part.multipliers / 2, strict=True):
        # Z_ij + Z_il - Z_ii - Z_jl <= 0, or Z_ij - Z_ii <= 0, times the weight is taken off.
        pairs = [(i, j, 1.0), (i, i, -1.0)]
        if other >= 0:
            pairs += [(i, other, 1.0), (j, other, -1.0)]
        for a, b, sign in pairs:
            S[a, b] -= sign * weight
            S[b, a] -= sign * weight
    return S


def _upper_between(data: _Data, *proof: Any) -> _Upper:
    """Bound with S_lj = c_lj v_lj v_jl' between groups, V from levels and scores, clipped at 0."""
    labels, weights, levels, couplings, centers, scores = proof
    couplings = np.array(couplings)
    np.fill_diagonal(couplings, 0.0)
    if not (couplings >= 0).all() or (couplings != couplings.T).any():
        raise _BrokenProofError("The couplings of the proof are negative, or not symmetric.")
    narrow = data.A is not None and data.r + data.k**2 <= min(data.n, _MOST_ORDER)
    if narrow:
        return _upper_by_factors(data, labels, weights, levels, couplings, centers)
    if scores is None:
        scores = data.A.entries().astype(np.float64) @ centers / data.root
    V = _clipped(scores, labels, weights, levels, data.form.has_row_sums)
    X = np.zeros((data.n, data.k))
    X[labels >= 0, labels[labels >= 0]] = 1.0
    if data.n <= _MOST_ROWS:
        # Entry (i, m) is v_(i, group of m) v_(m, group of i) c.
        W = V @ X.T
        return _dense_upper(data, data.dense() + W * W.T * (X @ couplings @ X.T), data.k)
    return _ritz_upper(data, V, X, couplings)


def _clipped(
    scores: FloatArray, labels: IntArray, weights: FloatArray, levels: FloatArray, has_sums: bool
) -> FloatArray:
    """Return V: what is missing from each score to the level of the row's group, at least 0."""
    rows = np.arange(len(labels))
    V = weights[:, None] * levels[labels] - scores
    if has_sums:
        V += scores[rows, labels][:, None]
    V[rows, labels] = 0.0
    return np.where(labels[:, None] >= 0, np.maximum(V, 0.0), 0.0)


def _upper_by_factors(data: _Data, *proof: Any) -> _Upper:
    """Bound by the Gram matrix of [E, A, V], E the indicators of the groups with weights.

    With T'T for the Gram matrix, a little above it, H = BKB' has no larger eigenvalues than TKT'.
    The part of E is split off first, so that an answer that spans the leading eigenvectors is
    bounded to the last digits.
    """
    labels, weights, levels, couplings, centers = proof
    k, has_sums = data.k, data.form.has_row_sums

    def columns(A: FloatArray, own: IntArray, x: FloatArray) -> FloatArray:
        E = np.zeros((len(own), k))
        E[own >= 0, own[own >= 0]] = x[own >= 0]
        V = _clipped(A @ centers, own, x, levels, has_sums)
        wide = np.zeros((len(own), k, k))
        wide[own >= 0, own[own >= 0]] = V[own >= 0]
        return np.hstack([E, A, wide.reshape(len(own), k * k), np.ones((len(own), 1))])

    def inner(A: FloatArray, own: IntArray, x: FloatArray) -> FloatArray:
        B = columns(A, own, x)
        return _cross(B, B)

    gram = data.rows(inner, labels, weights)
    K = _core(data.r, couplings)
    general = _gram_upper(gram[k:, k:], K, data, has_sums)
    sizes = np.sqrt(np.diag(gram)[:k])
    if not (sizes > 0).all():
        return general

    def residual(A: FloatArray, own: IntArray, x: FloatArray) -> FloatArray:
        B = columns(A, own, x)
        E, rest = B[:, :k] / sizes, B[:, k:-1]
        R = (rest @ HX_part - E @ L) @ C
        return _cross(R, R)

    BX = gram[k:-1, :k] / sizes  # B'X
    HX_part = K @ BX
    L = BX.T @ HX_part
    # With row sums only the combinations of E that are orthogonal to e are free.
    C = np.linalg.svd(gram[-1:, :k] / sizes)[2][1:].T if has_sums else np.eye(k)
    squares = data.rows(residual, labels, weights)
    off = gram[k:-1, k:-1] - BX @ BX.T
    top = _leading(off, np.diag(gram)[k:-1], K, data.n, 1)
    return min(general, _split_upper(L, squares, top, C, data))


def _core(r: int, couplings: FloatArray) -> FloatArray:
    k = len(couplings)
    K = np.zeros((r + k * k, r + k * k))
    K[:r, :r] = np.eye(r)
    one, other = np.divmod(np.arange(k * k), k)
    K[r + one * k + other, r + other * k + one] = couplings[one, other]
    return K


def _split_upper(
    L: FloatArray, squares: FloatArray, top: float, C: FloatArray, data: _Data
) -> _Upper:
    """Bound by tr L + tr(R'R) / t if L exceeds the rest by more than t, otherwise infinity."""
    margin = _margin(1.0, data.n + data.r)
    whole = float(np.trace(L)) + margin
    L = C.T @ L @ C
    if not len(L):
        return _Upper(whole, margin)
    distance = float(np.linalg.eigvalsh((L + L.T) / 2)[0]) - top
    t = (distance - _margin(float(np.linalg.norm(L)), len(L))) / 2
    return _Upper(whole + float(np.trace(squares)) / t if t > 0 else np.inf, margin)


def _gram_upper(gram: FloatArray, K: FloatArray, data: _Data, has_sums: bool) -> _Upper:
    """Bound the leading eigenvalues of BKB' from the Gram matrix of [B, e]."""
    inner, sums, n = gram[:-1, :-1], gram[-1, :-1], data.n
    squares, k, fixed, margin = np.diag(inner), data.k, 0.0, 0.0
    if has_sums:
        fixed, k = float(sums @ K @ sums) / n, k - 1
        margin = _margin(float(np.abs(sums) @ np.abs(K) @ np.abs(sums)) / n, n)
        inner = inner - np.outer(sums, sums) / n
    total = _leading(inner, squares, K, n, k)
    margin += total - _leading(inner, squares, K, 0, k)
    return _Upper(fixed + margin + total, margin)


def _leading(gram: FloatArray, squares: FloatArray, K: FloatArray, n: int, k: int) -> float:
    """Return a bound of the k largest eigenvalues, 0 among them, of BKB' with this Gram matrix.

    B has n rows; for n = 0 without margins for rounding.
    """
    used = squares > 0
    sizes = np.sqrt(squares[used])
    if k == 0 or not len(sizes):
        return 0.0
    G = gram[np.ix_(used, used)] / sizes / sizes[:, None]
    core = K[np.ix_(used, used)] * sizes * sizes[:, None]
    order = len(G)
    values, vectors = np.linalg.eigh((G + G.T) / 2)
    values = np.maximum(values, 0.0) + (order * _margin(1.0, n + order) if n else 0.0)
    T = np.sqrt(values)[:, None] * vectors.T
    inner = T @ core @ T.T
    found = np.linalg.eigvalsh((inner + inner.T) / 2)[-k:]
    size = float(np.linalg.norm(np.abs(T) @ np.abs(core) @ np.abs(T.T))) if n else 0.0
    return float(np.maximum(found, 0.0).sum()) + k * _margin(size, order)


def _ritz_upper(data: _Data, V: FloatArray, X: FloatArray, couplings: FloatArray) -> _Upper:
    """Sum the largest Ritz values of H, each raised by its residual."""
    labels = X.argmax(axis=1)

    def product(Z: FloatArray) -> FloatArray:
        Z = Z.reshape(data.n, -1)
        image = data.product(Z)
        for column in range(Z.shape[1]):
            sums = X.T @ (V * Z[:, column, None])  # of v_lj with z, for l and j
            image[:, column] += (V * (couplings * sums.T)[labels]).sum(axis=1)
        return image

    k, fixed = data.k, 0.0
    if data.form.has_row_sums:
        fixed, k = float(product(np.ones(data.n)).sum()) / data.n, k - 1

        def apply(Z: FloatArray) -> FloatArray:
            Z = Z.reshape(data.n, -1)
            image = product(Z - Z.mean(axis=0))
            return np.asarray(image - image.mean(axis=0))
    else:
        apply = product
    if k == 0:
        return _Upper(fixed, 0.0)
    H = LinearOperator((data.n, data.n), matvec=apply, matmat=apply, dtype=np.float64)
    start = np.random.default_rng(987654321).standard_normal(data.n)
    values, vectors = eigsh(H, k=k + _SPARE, which="LA", v0=start, ncv=4 * (k + _SPARE))
    residuals = np.linalg.norm(apply(vectors) - vectors * values, axis=0)
    margin = float(residuals.sum()) + _margin(1.0 + k * float(np.abs(values).max()), data.n)
    # Ritz values of the search are raised by what they may have missed: those here only by errors.
    return _Upper(fixed + float(np.sort(values)[-k:].sum()) + margin, margin)
