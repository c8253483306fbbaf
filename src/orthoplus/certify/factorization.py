r"""An upper bound on the sum of the k largest eigenvalues, proven by one Cholesky factorization.

For every number t, every V and every :math:`d \ge 0`,

.. math:: tI - H + V \operatorname{diag}(d) V^\top \succeq 0 \quad \Longrightarrow \quad
          \sum_{i \le k} \lambda_i(H) \le kt + \sum_i d_i \|v_i\|^2 ,

because the eigenvalues of :math:`tI + VdV^\top \succeq H` are no smaller than those of H, and the
sum of the k largest eigenvalues of :math:`VdV^\top` is at most its trace. V need not be accurate or
orthonormal: the proof rests on the factorization alone. If V holds the leading eigenvectors and
:math:`d_i = (\lambda_i - t)_+`, both sides agree for each t from :math:`\lambda_{k+1}` to
:math:`\lambda_k`.

**Approximate pairs.** Let V have orthonormal columns, :math:`V^\top HV = \operatorname{diag}\theta`
and :math:`R = HV - V \operatorname{diag}\theta`. With respect to V and its complement, where H is
at most :math:`t - g`, the matrix is at least

.. math:: \begin{pmatrix} t - \theta + d & -R^\top \\ -R & gI \end{pmatrix} ,

which is semidefinite if :math:`\sum_i \|r_i\|^2 / (t - \theta_i + d_i) \le g`. The numbers
:math:`d_i = (\theta_i - t + \|r_i\| \sum_j \|r_j\| / g)_+` suffice: errors enter by their squares.

**Rounding.** If the factorization of a matrix B of order n runs to its end, then in floating point,
in any order of the sums, :math:`C^\top C = B + E` with :math:`|E| \le \gamma |C|^\top |C|` for
:math:`\gamma = (n + 1)u / (1 - (n + 1)u)` (Higham, *Accuracy and Stability of Numerical
Algorithms*, theorem 10.3), and so

.. math:: \|E\|_2 \le \gamma \|C\|_F^2 = \gamma \operatorname{tr}(B + E) \le
          \frac{\gamma}{1 - \gamma} \operatorname{tr} B .

Therefore :math:`B \succeq -\|E\|_2 I` (Rump, *Verification of positive definiteness*, 2006). The
rounding error of forming B is at most :math:`(m + 3) u (\operatorname{tr} VdV^\top + \|H\|_F +
|t|)` in norm for m columns of V. Both errors are counted twice and added to t.
"""

import numpy as np
from scipy.linalg import lapack

from orthoplus.certify.fantope import multiply, orthonormalize
from orthoplus.core.types import FloatArray
from orthoplus.kernels.blocks import for_blocks, partition_rows

_ROUNDOFF = float(np.finfo(np.float64).eps) / 2
_TINY = float(np.finfo(np.float64).tiny)
# Products with H per round of refinement, and most rounds.
_PRODUCTS, _MAX_ROUNDS = 4, 10
# Allowed excess of the bound over the sum of the Ritz values, relative to their sizes.
_ACCURACY = 1e-9
# Share of the distance from t to the last Ritz value that is used as g.
_COUNTED = 0.5
# Trial values of t above the eigenvalue k + 1, as shares of the distance between the first and the
# last Ritz value, which counts as at least this part of their size.
_RISES = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 37)])
_LEAST_SPREAD = 1e-3
# If the factorization fails, t is increased by these shares of that distance.
_RETRIES = (0.02, 0.2)
# A vector is in the span of the others if orthogonalization leaves at most this share of it.
_DEPENDENT = 1e-9
# Rows that are formed at a time.
_ROWS = 256


def factored_bound(H: FloatArray, k: int, V: FloatArray, slack: float = 0.0) -> float:
    r"""Bound the sum of the k largest eigenvalues of H; return infinity on failure.

    Parameters
    ----------
    H : ndarray of shape (n, n)
        A symmetric matrix in float64. It is overwritten.
    k : int
        At most n.
    V : ndarray of shape (n, m)
        Approximations of the m > k leading eigenvectors. The more accurate they are, the fewer
        products with H are needed to refine them.
    slack : float
        Allowed excess of the bound over the sum; the vectors are refined only as far as needed.

    Notes
    -----
    The bound is proven by a Cholesky factorization of order n in the memory of H; see the top of
    this module. It takes :math:`n^3/3` multiplications, while all eigenvalues take :math:`4n^3/3`,
    most of them memory-bound.

    Examples
    --------
    >>> H = np.diag([5.0, 3.0, 1.0, 0.0])
    >>> bound = factored_bound(H, 2, np.eye(4, 3))
    >>> bool(8.0 <= bound < 8.0 + 1e-12)
    True
    """
    n, size = len(H), float(np.linalg.norm(H))
    if not np.isfinite(size):
        return np.inf
    values, V, residuals = _refine(H, k, V, slack)
    t, d = _level(values, residuals, k)
    if not np.isfinite(d).all():
        return np.inf
    spread = _spread(values)
    diagonal = H.diagonal().copy()
    for rise in (0.0, *_RETRIES):
        shares = np.maximum(d - rise * spread, 0.0)
        kept = shares > 0
        trace = float(shares @ np.einsum("ij,ij->j", V, V)) * (1.0 + 4 * n * _ROUNDOFF)
        level = t + rise * spread
        # An upper bound on the trace of B. The last factor covers the margin itself, which is
        # much smaller than the rest.
        total = n * abs(level) + float(np.abs(diagonal).sum()) + trace
        margin = 2.0 * (n + 8) * _ROUNDOFF * total * (1.0 + 4.0 * (n + 8) * _ROUNDOFF)
        margin += 2.0 * (V.shape[1] + 3) * _ROUNDOFF * (trace + size + abs(level))
        margin += n * n * _TINY * (1.0 + total)
        if _is_above(H, diagonal, level + margin, V[:, kept] * np.sqrt(shares[kept])):
            bound = k * (level + 2.0 * margin) + trace
            return float(bound + 8 * _ROUNDOFF * (k * abs(level) + trace))
    return np.inf


def _is_above(H: FloatArray, diagonal: FloatArray, t: float, root: FloatArray) -> bool:
    """Return whether the Cholesky factorization of tI - H + root root' succeeds.

    The lower triangle and the diagonal of H are overwritten. The upper triangle and ``diagonal``
    keep H for another trial.
    """
    n = len(H)
    H[np.diag_indices(n)] = diagonal

    def form(b: int, rows: slice) -> None:
        for start in range(rows.start, rows.stop, _ROWS):
            i = slice(start, min(start + _ROWS, rows.stop))
            H[i, :start] = root[i] @ root[:start].T - H[:start, i].T
            own = root[i] @ root[i].T - H[i, i].T
            H[i, i] = np.where(np.tri(len(own), dtype=bool), own, H[i, i])

    for_blocks(form, partition_rows(n, n))
    H[np.diag_indices(n)] += t
    # H.T is in Fortran order, so that LAPACK's upper triangle is the lower triangle of H.
    factor, info = lapack.dpotrf(H.T, lower=0, clean=0, overwrite_a=1)
    pivots = factor.diagonal()
    return bool(info == 0 and np.isfinite(pivots).all() and (pivots > 0).all())


# --- pairs ----------------------------------------------------------------------------------------


def _refine(
    H: FloatArray, k: int, V: FloatArray, slack: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the decreasing Ritz values of H, their vectors and residuals by block Lanczos."""
    n, m = V.shape
    V = orthonormalize(np.asarray(V, dtype=np.float64))
    image = multiply(H, V)
    for _ in range(_MAX_ROUNDS):
        basis, images = [V], [image]
        while len(basis) < _PRODUCTS and (len(basis) + 1) * m <= n:
            basis.append(_orthonormal(images[-1], np.hstack(basis)))
            images.append(multiply(H, basis[-1]))
        Q, HQ = np.hstack(basis), np.hstack(images)
        inner = Q.T @ HQ
        values, turn = np.linalg.eigh((inner + inner.T) / 2)
        values, turn = values[::-1][:m], turn[:, ::-1][:, :m]
        V, image = Q @ turn, HQ @ turn
        residuals = np.linalg.norm(image - V * values, axis=0)
        t, d = _level(values, residuals, k)
        excess = k * t + float(d.sum()) - float(values[:k].sum())
        enough = max(slack, _ACCURACY * float(np.abs(values[:k]).sum()))
        if excess <= enough or len(basis) == 1:
            break
    return values, V, residuals


def _orthonormal(V: FloatArray, basis: FloatArray) -> FloatArray:
    """Return orthonormal columns orthogonal to the basis, from V and random vectors."""
    rng = np.random.default_rng(basis.shape[1])  # different vectors for each block
    for _ in range(2):
        before = np.linalg.norm(V, axis=0)
        V = V - basis @ (basis.T @ V)
        is_lost = np.linalg.norm(V, axis=0) <= _DEPENDENT * before
        V[:, is_lost] = rng.standard_normal((len(V), int(is_lost.sum())))
        V /= np.linalg.norm(V, axis=0)
        V = orthonormalize(V)
    return V


def _spread(values: FloatArray) -> float:
    """Return the distance from the first to the last value plus a small part of their size."""
    return float(values[0] - values[-1] + _LEAST_SPREAD * np.abs(values).max())


def _level(values: FloatArray, residuals: FloatArray, k: int) -> tuple[float, FloatArray]:
    """Return the t and d that minimize kt + sum(d), assuming H is small off the vectors."""
    low, base = values[-1], values[min(k, len(values) - 1)]
    spread = _spread(values)
    levels = np.append(base + _RISES * spread, (values[k - 1] + base) / 2)
    room = np.maximum(_COUNTED * (levels - low), _TINY)
    with np.errstate(over="ignore"):
        # d_i = (theta_i - t + |r_i| sum_j |r_j| / g)_+, as in the top of this module.
        slack = residuals.sum() * residuals / room[:, None]
        shares = np.maximum(values - levels[:, None] + slack, 0.0)
        best = int(np.argmin(k * levels + shares.sum(axis=1)))
    return float(levels[best]), shares[best]
