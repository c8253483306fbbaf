r"""The sum of the k largest eigenvalues from above, proven by one Cholesky factorization.

For every number t, every V and all :math:`d \ge 0`

.. math:: tI - H + V \operatorname{diag}(d) V^\top \succeq 0 \quad \Longrightarrow \quad
          \sum_{i \le k} \lambda_i(H) \le kt + \sum_i d_i \|v_i\|^2 ,

because the eigenvalues of the right side of :math:`H \preceq tI + VdV^\top` are no smaller, one by
one, and the sum of the k largest of :math:`VdV^\top` is at most its trace. V need not be accurate,
nor orthonormal: only the factorization proves something. If V holds the leading eigenvectors and
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

B is not smaller than :math:`-\|E\|_2 I` therefore (Rump, *Verification of positive definiteness*,
2006). What forming B has rounded is at most :math:`(m + 3) u (\operatorname{tr} VdV^\top + \|H\|_F
+ |t|)` in norm for m columns of V. Both are counted twice here, and added to t.
"""

import numpy as np
from scipy.linalg import lapack

from orthoplus.certify.fantope import multiply, orthonormalize
from orthoplus.core.types import FloatArray
from orthoplus.kernels.blocks import for_blocks, partition_rows

_ROUNDOFF = float(np.finfo(np.float64).eps) / 2
_TINY = float(np.finfo(np.float64).tiny)
# Products with H of a round of refinement, and rounds at most.
_PRODUCTS, _MAX_ROUNDS = 4, 10
# What the bound may exceed the sum of the Ritz values by, relative to their sizes.
_ACCURACY = 1e-9
# The share of the distance from t to the last Ritz value that is counted on.
_COUNTED = 0.5
# Where t is tried: at these shares of the distance between the first and the last Ritz value above
# the eigenvalue k + 1. The distance is at least this part of them.
_RISES = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 37)])
_LEAST_SPREAD = 1e-3
# If the factorization breaks off, t rises by these shares of that distance.
_RETRIES = (0.02, 0.2)
# What is left of a vector off the others, if it lies in their span up to rounding.
_LOST = 1e-9
# Rows that are formed at a time.
_ROWS = 256


def factored_bound(H: FloatArray, k: int, V: FloatArray, slack: float = 0.0) -> float:
    r"""Return a number above the sum of the k largest eigenvalues of H; infinity if none is found.

    Parameters
    ----------
    H : ndarray of shape (n, n)
        A symmetric matrix in float64. It is destroyed.
    k : int
        At most n.
    V : ndarray of shape (n, m)
        About the leading eigenvectors, m > k of them. The better they are, the fewer products with
        H it takes to refine them.
    slack : float
        What the bound may exceed the sum by: the vectors are refined no further than needed.

    Notes
    -----
    Proven by a Cholesky factorization of order n, in the memory of H: see the head of this module.
    :math:`n^3/3` multiplications, where all eigenvalues take :math:`4n^3/3`, most of them in passes
    over the memory.

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
        # From above, with the margin itself in it: it is smaller than the rest by far.
        total = n * abs(level) + float(np.abs(diagonal).sum()) + trace
        margin = 2.0 * (n + 8) * _ROUNDOFF * total * (1.0 + 4.0 * (n + 8) * _ROUNDOFF)
        margin += 2.0 * (V.shape[1] + 3) * _ROUNDOFF * (trace + size + abs(level))
        margin += n * n * _TINY * (1.0 + total)
        if _is_above(H, diagonal, level + margin, V[:, kept] * np.sqrt(shares[kept])):
            bound = k * (level + 2.0 * margin) + trace
            return float(bound + 8 * _ROUNDOFF * (k * abs(level) + trace))
    return np.inf


def _is_above(H: FloatArray, diagonal: FloatArray, t: float, root: FloatArray) -> bool:
    """Return whether the factorization of tI - H + root root' runs to its end.

    The lower half of H is overwritten, with the diagonal. The upper one, and the diagonal that is
    passed, stay for another trial.
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
    # The transpose is in the order of LAPACK: what is upper there is the lower half here.
    factor, info = lapack.dpotrf(H.T, lower=0, clean=0, overwrite_a=1)
    pivots = factor.diagonal()
    return bool(info == 0 and np.isfinite(pivots).all() and (pivots > 0).all())


# --- pairs ----------------------------------------------------------------------------------------


def _refine(
    H: FloatArray, k: int, V: FloatArray, slack: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Ritz values of H, falling, their vectors and residuals, from V by block Lanczos."""
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
    """Return orthonormal columns off the basis: the span of V, filled up at random."""
    rng = np.random.default_rng(basis.shape[1])  # other vectors for each block
    for _ in range(2):
        before = np.linalg.norm(V, axis=0)
        V = V - basis @ (basis.T @ V)
        is_lost = np.linalg.norm(V, axis=0) <= _LOST * before
        V[:, is_lost] = rng.standard_normal((len(V), int(is_lost.sum())))
        V /= np.linalg.norm(V, axis=0)
        V = orthonormalize(V)
    return V


def _spread(values: FloatArray) -> float:
    """Return the distance between the first and the last value, at least a part of their size."""
    return float(values[0] - values[-1] + _LEAST_SPREAD * np.abs(values).max())


def _level(values: FloatArray, residuals: FloatArray, k: int) -> tuple[float, FloatArray]:
    """Return t and d with the least kt + sum of d, if H is as small off the vectors as it seems."""
    low, base = values[-1], values[min(k, len(values) - 1)]
    spread = _spread(values)
    levels = np.append(base + _RISES * spread, (values[k - 1] + base) / 2)
    room = np.maximum(_COUNTED * (levels - low), _TINY)
    with np.errstate(over="ignore"):
        slack = residuals.sum() * residuals / room[:, None]
        shares = np.maximum(values - levels[:, None] + slack, 0.0)
        best = int(np.argmin(k * levels + shares.sum(axis=1)))
    return float(levels[best]), shares[best]
