"""Upper bounds on <M, XX'> from the proof of a certificate, for its verification."""

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.sparse.linalg import LinearOperator, eigsh

from orthoplus.certify.verify_data import (
    BrokenProofError,
    CheckedData,
    Upper,
    cross_product,
    rounding_of,
)
from orthoplus.core.types import FloatArray, IntArray

# Largest n x n matrix and largest Gram matrix whose eigenvalues are computed.
_MOST_ROWS, _MOST_ORDER = 4500, 3500
# All eigenvalues are computed up to this many rows. Beyond it, a factorization confirms the leading
# ones, with a shift above the next one by these shares of the largest.
_ALL_ROWS, _RISES = 1500, (1e-8, 1e-6, 1e-4)
# All partitions are enumerated up to this many rows.
MOST_LISTED = 9
# Entries of an eigenvector that are larger than this have a sign.
_ONE_SIGN = 1e-9
# Number of extra Ritz values to compute.
_SPARE = 10


def _dense_upper(data: CheckedData, H: FloatArray, k: int) -> Upper:
    """Bound <H, XX'> by all eigenvalues of H, or of H on the complement of e for k-means."""
    n, fixed = len(H), 0.0
    margin = rounding_of(1.0 + k * float(np.linalg.norm(H)), n)
    if data.form.has_row_sums:
        means = H.mean(axis=0)
        fixed, k = float(means.sum()), k - 1
        H = H - means - means[:, None] + means.mean()
        H -= 2.0 * float(np.linalg.norm(H)) / n  # exclude the eigenvector e
    if n > _ALL_ROWS and k > 0:
        total, excess = _factored_sum(H, k)
        return Upper(fixed + total + margin, margin, excess=excess)
    leading = float(np.linalg.eigvalsh((H + H.T) / 2)[n - k :].sum())
    return Upper(fixed + leading + margin, margin)


def _factored_sum(H: FloatArray, k: int) -> tuple[float, float]:
    """Bound the k largest eigenvalues of H; also return the excess over the Ritz values.

    If the Cholesky factorization of tI - H + V diag(d) V' exists for Lanczos vectors V, a number t
    and d >= 0, then H is at most tI + V diag(d) V', up to n + 1 roundings of the trace. Hence the k
    largest eigenvalues sum to at most kt plus the trace of V diag(d) V'. If V misses a large
    eigenvalue, the factorization fails.
    """
    n = len(H)
    start = np.cos(1.3 * np.arange(n) ** 1.5)
    count = min(k + _SPARE, n - 1)
    values, V = eigsh(H, k=count, which="LA", v0=start, ncv=min(n, 4 * count), tol=1e-9)
    values, V = values[::-1], V[:, ::-1]
    error = float(np.linalg.norm(H @ V - V * values))
    for rise in _RISES:
        t = float(values[k]) + rise * float(np.abs(values).max())
        d = np.where(values > t, values - t + error, 0.0)
        trace = float(d @ (V * V).sum(axis=0))
        B = (V * d) @ V.T
        B -= H
        B[np.diag_indices(n)] += t
        margin = 2.0 * (n + 10) * np.finfo(np.float64).eps * (abs(np.trace(B)) + trace + abs(t))
        B[np.diag_indices(n)] += margin
        try:
            factor = cholesky(B, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
        if np.isfinite(factor.diagonal()).all() and factor.diagonal().min() > 0:
            total = k * (t + 2.0 * margin) + trace
            return total, total - float(values[:k].sum())
    raise BrokenProofError("The leading eigenvalues of M + S could not be confirmed.")


def upper_of_all(data: CheckedData) -> Upper:
    """Return the best value over all partitions of a few rows."""
    n, M = data.n, data.dense()
    single = _best_of_groups(M, data.form.has_row_sums)
    found = single
    for _ in range(data.k - 1):
        # Dynamic programming over subsets: the best value of j + 1 groups on ``mask`` is the
        # maximum over its proper subsets ``part`` of the best value of j groups plus one group.
        following = np.full(1 << n, -np.inf)
        for mask in range(1, 1 << n):
            part = (mask - 1) & mask
            while part:
                following[mask] = max(following[mask], found[part] + single[mask ^ part])
                part = (part - 1) & mask
        found = following
    # A row that would lower the value of its group has weight 0 in it, so that partitions of all
    # rows suffice.
    margin = rounding_of(float(np.abs(M).sum()), n)
    return Upper(float(found[-1]) + margin, margin)


def _best_of_groups(M: FloatArray, has_sums: bool) -> FloatArray:
    """Bound x'Mx over unit x >= 0 from above on each subset of rows, indexed by bit mask."""
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
        # If the leading eigenvector has entries of both signs, the best x >= 0 has a zero entry.
        is_mixed = x.min() < -_ONE_SIGN and x.max() > _ONE_SIGN
        below = max(best[mask & ~(1 << int(i))] for i in rows)
        best[mask] = below if is_mixed else max(below, float(values[-1]))
    return best


def upper_of_parts(data: CheckedData, parts: Any) -> Upper:
    """Bound by dense matrices: one for all rows, or one per block, whose bounds add up."""
    # A single part without rows is about all rows.
    if len(parts) != 1 or len(parts[0].rows):
        seen = np.concatenate([part.rows for part in parts])
        if not np.array_equal(np.sort(seen), np.arange(data.n)):
            raise BrokenProofError("The blocks of the proof do not contain every row exactly once.")
        if data.A is None:
            raise BrokenProofError("Blocks of rows need a matrix of data.")
    total, margin, excess = 0.0, 0.0, 0.0
    for part in parts:
        if not (part.half >= 0).all() or not (part.multipliers >= 0).all():
            raise BrokenProofError("S or a multiplier of the proof has a negative entry.")
        if len(part.rows):
            A = data.A.sample_rows(np.sort(part.rows)).to_dense().astype(np.float64) / data.root
            M = A @ A.T
        else:
            A = None if data.A is None else data.A.to_dense()
            M = data.dense()
        _check_cuts(data, part, M, A)
        found = _dense_upper(data, _add_part(M, part), data.k)
        total, margin = total + found.total, margin + found.margin
        excess += found.excess
    return Upper(total, margin, excess=excess)


def _check_cuts(data: CheckedData, part: Any, M: FloatArray, A: FloatArray | None) -> None:
    """Check that the cuts of a proof hold for an optimal X.

    For k-means all ratios are 1. Otherwise a ratio p of rows i and j requires x_i >= p x_j for the
    leading eigenvector of any group that contains both, which follows from M_il >= p M_jl for all
    l. Entries of M are sums of r nonnegative terms, hence accurate to r roundings.
    """
    if not len(part.multipliers):
        return
    if data.form.has_row_sums:
        if (part.ratios != 1.0).any():
            raise BrokenProofError("A cut for k-means has a ratio other than 1.")
        return
    if A is None or not A.min() >= 0 or not M.min() >= 0:
        raise BrokenProofError("Cuts are valid only for k-means and for nonnegative data.")
    i, j, other = part.cuts.T
    used = other >= 0
    given = np.concatenate([part.ratios[:, 0], part.ratios[used, 1]])
    pairs = np.concatenate([np.stack([i, j], axis=1), np.stack([i, other], axis=1)[used]])
    pairs, at = np.unique(pairs, axis=0, return_inverse=True)
    needed = np.zeros(len(pairs))
    np.maximum.at(needed, at, given)
    slack = 1.0 + 4.0 * (data.r + 8.0) * float(np.finfo(np.float64).eps)
    for (row, against), ratio in zip(pairs, needed, strict=True):
        if not 0.0 <= ratio or (slack * ratio * M[against] > M[row]).any():
            raise BrokenProofError("A ratio of the proof is larger than the data allow.")


def _add_part(H: FloatArray, part: Any) -> FloatArray:
    """Add S to H and subtract the cuts times their multipliers, in place."""
    n = len(H)
    start = 0
    for i in range(n if len(part.half) else 0):
        row = part.half[start : start + n - i]
        H[i, i:] += row
        H[i + 1 :, i] += row[1:]
        start += n - i
    # p Z_ij + q Z_il - Z_ii - pq Z_jl <= 0, or p Z_ij - Z_ii <= 0, times the weight is subtracted.
    i, j, other = part.cuts.T
    p, q = part.ratios.T
    is_triangle, weight = other >= 0, part.multipliers / 2
    pairs = [(i, j, p, True), (i, i, -np.ones(len(i)), True)]
    pairs += [(i, other, q, is_triangle), (j, other, -p * q, is_triangle)]
    for a, b, sign, is_used in pairs:
        taken = np.where(is_used, sign * weight, 0.0)
        np.subtract.at(H, (a, b), taken)
        np.subtract.at(H, (b, a), taken)
    return H


def upper_between(data: CheckedData, *proof: Any) -> Upper:
    """Bound with S_lj = c_lj v_lj v_jl' between groups, where V follows from levels and scores."""
    labels, weights, levels, couplings, centers, scores = proof
    couplings = checked_couplings(couplings)
    narrow = data.A is not None and data.r + data.k**2 <= min(data.n, _MOST_ORDER)
    if narrow:
        return _upper_by_factors(data, labels, weights, levels, couplings, centers)
    if scores is None:
        scores = data.A.entries().astype(np.float64) @ centers / data.root
    V = slack_rows(scores, labels, weights, levels, data.form.has_row_sums)
    X = np.zeros((data.n, data.k))
    X[labels >= 0, labels[labels >= 0]] = 1.0
    if data.n <= _MOST_ROWS:
        # S_im = c_lj v_ij v_ml for row i in group l and row m in group j.
        W = V @ X.T
        return _dense_upper(data, data.dense() + W * W.T * (X @ couplings @ X.T), data.k)
    return _ritz_upper(data, V, X, couplings)


def checked_couplings(couplings: FloatArray) -> FloatArray:
    """Return the couplings with a zero diagonal, or raise if they are invalid."""
    couplings = np.array(couplings)
    np.fill_diagonal(couplings, 0.0)
    if not (couplings >= 0).all() or (couplings != couplings.T).any():
        raise BrokenProofError("The couplings of the proof are negative or not symmetric.")
    return couplings


def slack_rows(
    scores: FloatArray, labels: IntArray, weights: FloatArray, levels: FloatArray, has_sums: bool
) -> FloatArray:
    """Return V, the positive part of the level of the row's group minus the score."""
    rows = np.arange(len(labels))
    V = weights[:, None] * levels[labels] - scores
    if has_sums:
        V += scores[rows, labels][:, None]
    V[rows, labels] = 0.0
    return np.where(labels[:, None] >= 0, np.maximum(V, 0.0), 0.0)


def _upper_by_factors(data: CheckedData, *proof: Any) -> Upper:
    """Bound by the Gram matrix of [E, A, V], where E holds the weighted group indicators.

    If T'T is the Gram matrix plus a small shift, the leading eigenvalues of H = BKB' are at most
    those of TKT'. The subspace of E is also treated separately, so that the bound is accurate to
    the last digits if the answer spans the leading eigenvectors.
    """
    labels, weights, levels, couplings, centers = proof
    k, has_sums = data.k, data.form.has_row_sums

    def columns(A: FloatArray, own: IntArray, x: FloatArray) -> FloatArray:
        E = np.zeros((len(own), k))
        E[own >= 0, own[own >= 0]] = x[own >= 0]
        V = slack_rows(A @ centers, own, x, levels, has_sums)
        wide = np.zeros((len(own), k, k))
        wide[own >= 0, own[own >= 0]] = V[own >= 0]
        return np.hstack([E, A, wide.reshape(len(own), k * k), np.ones((len(own), 1))])

    def inner(A: FloatArray, own: IntArray, x: FloatArray) -> FloatArray:
        B = columns(A, own, x)
        return cross_product(B, B)

    gram = data.rows(inner, labels, weights)
    K = core_between(data.r, couplings)
    general = gram_upper(gram[k:, k:], K, data, has_sums)
    sizes = np.sqrt(np.diag(gram)[:k])
    if not (sizes > 0).all():
        return general

    def residual(A: FloatArray, own: IntArray, x: FloatArray) -> FloatArray:
        B = columns(A, own, x)
        E, rest = B[:, :k] / sizes, B[:, k:-1]
        R = (rest @ HX_part - E @ L) @ C
        return cross_product(R, R)

    BX = gram[k:-1, :k] / sizes  # B'X
    HX_part = K @ BX
    L = BX.T @ HX_part
    # For k-means, only combinations of E orthogonal to e are free.
    C = np.linalg.svd(gram[-1:, :k] / sizes)[2][1:].T if has_sums else np.eye(k)
    squares = data.rows(residual, labels, weights)
    off = gram[k:-1, k:-1] - BX @ BX.T
    top = _leading(off, np.diag(gram)[k:-1], K, data.n, 1)
    return min(general, _split_upper(L, squares, top, C, data))


def core_between(r: int, couplings: FloatArray) -> FloatArray:
    """Return K of [A, V] K [A, V]' = AA' + S."""
    k = len(couplings)
    K = np.zeros((r + k * k, r + k * k))
    K[:r, :r] = np.eye(r)
    one, other = np.divmod(np.arange(k * k), k)
    K[r + one * k + other, r + other * k + one] = couplings[one, other]
    return K


def _split_upper(
    L: FloatArray, squares: FloatArray, top: float, C: FloatArray, data: CheckedData
) -> Upper:
    """Bound by tr L + tr(R'R) / t if L exceeds the rest by more than t; otherwise infinity."""
    margin = rounding_of(1.0, data.n + data.r)
    whole = float(np.trace(L)) + margin
    L = C.T @ L @ C
    if not len(L):
        return Upper(whole, margin)
    distance = float(np.linalg.eigvalsh((L + L.T) / 2)[0]) - top
    t = (distance - rounding_of(float(np.linalg.norm(L)), len(L))) / 2
    return Upper(whole + float(np.trace(squares)) / t if t > 0 else np.inf, margin)


def gram_upper(gram: FloatArray, K: FloatArray, data: CheckedData, has_sums: bool) -> Upper:
    """Bound the leading eigenvalues of BKB' from the Gram matrix of [B, e]."""
    inner, sums, n = gram[:-1, :-1], gram[-1, :-1], data.n
    squares, k, fixed, margin = np.diag(inner), data.k, 0.0, 0.0
    if has_sums:
        fixed, k = float(sums @ K @ sums) / n, k - 1
        margin = rounding_of(float(np.abs(sums) @ np.abs(K) @ np.abs(sums)) / n, n)
        inner = inner - np.outer(sums, sums) / n
    total = _leading(inner, squares, K, n, k)
    margin += total - _leading(inner, squares, K, 0, k)
    return Upper(fixed + margin + total, margin)


def _leading(gram: FloatArray, squares: FloatArray, K: FloatArray, n: int, k: int) -> float:
    """Bound the k largest eigenvalues of BKB', counting zeros, from the Gram matrix of B.

    B has n rows. For n = 0, no margins for rounding are added.
    """
    used = squares > 0
    sizes = np.sqrt(squares[used])
    if k == 0 or not len(sizes):
        return 0.0
    G = gram[np.ix_(used, used)] / sizes / sizes[:, None]
    core = K[np.ix_(used, used)] * sizes * sizes[:, None]
    order = len(G)
    values, vectors = np.linalg.eigh((G + G.T) / 2)
    values = np.maximum(values, 0.0) + (order * rounding_of(1.0, n + order) if n else 0.0)
    T = np.sqrt(values)[:, None] * vectors.T
    inner = T @ core @ T.T
    found = np.linalg.eigvalsh((inner + inner.T) / 2)[-k:]
    size = float(np.linalg.norm(np.abs(T) @ np.abs(core) @ np.abs(T.T))) if n else 0.0
    return float(np.maximum(found, 0.0).sum()) + k * rounding_of(size, order)


def _ritz_upper(data: CheckedData, V: FloatArray, X: FloatArray, couplings: FloatArray) -> Upper:
    """Sum the largest Ritz values of H, each increased by its residual."""
    labels = X.argmax(axis=1)

    def product(Z: FloatArray) -> FloatArray:
        Z = Z.reshape(data.n, -1)
        image = data.product(Z)
        for column in range(Z.shape[1]):
            sums = X.T @ (V * Z[:, column, None])  # v_lj'z_l for all l and j
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
        return Upper(fixed, 0.0)
    H = LinearOperator((data.n, data.n), matvec=apply, matmat=apply, dtype=np.float64)
    start = np.random.default_rng(987654321).standard_normal(data.n)
    values, vectors = eigsh(H, k=k + _SPARE, which="LA", v0=start, ncv=4 * (k + _SPARE))
    residuals = np.linalg.norm(apply(vectors) - vectors * values, axis=0)
    margin = float(residuals.sum()) + rounding_of(1.0 + k * float(np.abs(values).max()), data.n)
    # The search raises its Ritz values by what they may have missed; here only by their errors.
    total = fixed + float(np.sort(values)[-k:].sum()) + margin
    return Upper(total, margin, is_rigorous=False)
