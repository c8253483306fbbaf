r"""Score all moves of single rows at a point of S+, at O(1) per move.

A move assigns row i to another column, sets it to zero, or assigns a zero row to a column. The
other rows of each column are only rescaled, and the entry of the moved row is optimal. A score is
therefore a *lower bound* on the gain: refining the new support can only increase it.

Scores are matrices of shape (n, k + 1): column j < k is the gain of moving row i into column j, the
last column that of setting row i to zero. Moves that change nothing or would empty a column score
minus infinity.
"""

from collections.abc import Callable

import numpy as np

from orthoplus import kernels
from orthoplus.core.types import FloatArray, IntArray

# Number of entries of a block of rows whose gains are computed together.
_BLOCK_ENTRIES = 1 << 16
# A row with at least this fraction of its column's squared norm counts as the only row.
_SINGLE_ROW_SQUARE = 1.0 - 1e-14


def entries_of(X: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the column of each row's positive entry, -1 for a row of zeros, and the entry.

    Examples
    --------
    >>> entries_of(np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]))
    (array([ 1, -1,  0]), array([1., 0., 1.]))
    """
    labels, weights = kernels.largest_entries(X)
    return labels, weights


def linear_gains(labels: IntArray, weights: FloatArray, C: FloatArray) -> FloatArray:
    r"""Return the increase of :math:`\langle C, X \rangle` by each move.

    With :math:`c_j = \langle C_j, x_j \rangle` and the entry w of row i in its own column l,

    .. math:: \text{in: } \sqrt{c_j^2 + \max(C_{ij}, 0)^2} - c_j, \qquad
              \text{out: } \frac{c_l - w C_{il}}{\sqrt{1 - w^2}} - c_l .

    Parameters
    ----------
    labels, weights : ndarrays of shape (n,)
        A point of S+: the column of each row's entry, -1 for a row of zeros, and the entry.
    C : ndarray of shape (n, k)

    Notes
    -----
    For :math:`c_j < 0` the column is best unchanged or as :math:`e_i` alone, and the former is the
    better of the two. The cost is O(nk).

    Examples
    --------
    >>> C = np.array([[3.0, 1.0], [4.0, 2.0], [1.0, 2.0]])
    >>> linear_gains(np.array([0, 0, 1]), np.array([0.6, 0.8, 1.0]), C).round(3)
    array([[  -inf, -0.764, -1.   ],
           [  -inf, -1.172, -2.   ],
           [  -inf,   -inf,   -inf]])
    """
    own, entry, kept = _own_entries(labels, weights)
    mine = C[np.arange(len(C)), own].astype(np.float64)
    along = np.bincount(own, entry * mine, minlength=C.shape[1])
    gain_out = (along[own] - entry * mine) / np.sqrt(kept) - along[own]

    def gain_in(rows: slice) -> FloatArray:
        arriving = C[rows].astype(np.float64)
        both = np.hypot(along, np.maximum(arriving, 0.0)) - along
        return np.where(along >= 0.0, both, np.maximum(arriving - along, 0.0))

    return _combined(labels, gain_in, gain_out, kept, C.shape[1])


def trace_gains(
    labels: IntArray, weights: FloatArray, MX: FloatArray, diagonal: FloatArray
) -> FloatArray:
    r"""Return the decrease of :math:`\mathrm{tr}(X^\top M X)` by each move.

    Let :math:`\lambda_j = x_j^\top M x_j`, :math:`b = (Mx_j)_i` and :math:`d = M_{ii}`. A row that
    enters column j rotates the column in the plane of :math:`x_j` and :math:`e_i` to the smallest
    eigenvalue; a row with the entry w that leaves column l leaves the remaining rows, rescaled. The
    new values of the columns are

    .. math:: \lambda_{\min} \begin{pmatrix} \lambda_j & b^- \\ b^- & d \end{pmatrix},
              \quad b^- = \min(b, 0), \qquad
              \frac{\lambda_l - 2 w b + w^2 d}{1 - w^2} .

    Parameters
    ----------
    labels, weights : ndarrays of shape (n,)
        A point of S+.
    MX : ndarray of shape (n, k)
        The product of M with the point.
    diagonal : ndarray of shape (n,)
        The diagonal of M.

    Notes
    -----
    The cost is O(nk) in addition to the product.

    Examples
    --------
    >>> M = -np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    >>> X = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    >>> gains = trace_gains(np.array([0, -1, 1]), np.array([1.0, 0.0, 1.0]), M @ X, np.diag(M))
    >>> gains.round(3)  # only the row of zeros can move, and it belongs to the first column
    array([[-inf, -inf, -inf],
           [ 1.,   0., -inf],
           [-inf, -inf, -inf]])
    """
    own, entry, kept = _own_entries(labels, weights)
    mine = MX[np.arange(len(MX)), own].astype(np.float64)
    values = np.bincount(own, entry * mine, minlength=MX.shape[1])
    left = (values[own] - 2.0 * entry * mine + entry**2 * diagonal) / kept

    def gain_in(rows: slice) -> FloatArray:
        # lambda_j minus the smallest eigenvalue of the 2 x 2 block. If b >= 0, x_j and e_i do not
        # mix: the hypotenuse is |half|, and the column stays unchanged or becomes e_i.
        half = (values - diagonal[rows, None]) / 2.0
        return np.asarray(half + np.hypot(half, np.minimum(MX[rows].astype(np.float64), 0.0)))

    return _combined(labels, gain_in, values[own] - left, kept, MX.shape[1])


def rotated_gain_bounds(
    labels: IntArray, weights: FloatArray, U: FloatArray, M: FloatArray
) -> FloatArray:
    r"""Return upper bounds on the increase of :math:`\|U^\top X\|_*` by each move.

    A move only rescales the other rows; the entry of the moved row is free, and so is Y in
    :math:`\|U^\top X\|_* = \max_Y \langle UY, X \rangle` over orthogonal matrices. With the best Y
    at X, :math:`M = U^\top X`, its least singular value :math:`\mu`, :math:`c_j = m_j^\top y_j`,
    :math:`r_j = u_i^\top y_j` and the entry w of row i in its own column l, the bound is

    .. math:: \frac{c_l - w r_l}{\sqrt{1 - w^2}} - c_l + \frac{\|a\|^2}{2\mu}
              + \sqrt{(c_j - q)^2 + \max(r_j, 0)^2} - (c_j - q),

    where :math:`a = (1/\sqrt{1 - w^2} - 1) m_l - w u_i / \sqrt{1 - w^2}` and q bounds the
    additional gain by rotating Y.

    Parameters
    ----------
    labels, weights : ndarrays of shape (n,)
        A point X of S+.
    U : ndarray of shape (n, k)
    M : ndarray of shape (k, k)
        The product U'X.

    Notes
    -----
    Rotating Y to YZ decreases :math:`\langle M, Y \rangle` by at least :math:`\mu \|Z - I\|^2 / 2`
    and changes column l by at most :math:`\|a\| \|(Z - I)_l\|`; for column j the same holds with
    :math:`b = \sin\theta\, u_i - (1 - \cos\theta) m_j` if the entry is :math:`\sin\theta`. As the
    best Z is at least as good as I, this bounds :math:`\|Z - I\|`, hence :math:`\theta`, hence b.
    The bound is infinite if the argument gives none, as for :math:`\mu = 0`. The cost is O(nk^2).

    Examples
    --------
    >>> U = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]) / np.sqrt(2)
    >>> bounds = rotated_gain_bounds(np.array([0, 0, 1, 1]), np.full(4, np.sqrt(0.5)), U, np.eye(2))
    >>> bounds[:, 2].round(3)  # no row may be set to zero
    array([-0.25, -0.25, -0.25, -0.25])
    """
    own, entry, kept = _own_entries(labels, weights)
    left, s, right = np.linalg.svd(M)
    least = max(float(s[-1]), np.finfo(np.float64).tiny)
    rows = U.astype(np.float64, copy=False)
    R = rows @ (left @ right)
    mine = R[np.arange(len(R)), own]
    along: FloatArray = np.bincount(own, entry * mine, minlength=R.shape[1]).astype(np.float64)
    shrink = np.sqrt(kept)
    turned = (1.0 / shrink - 1.0)[:, None] * M.T[own] - (entry / shrink)[:, None] * rows
    leaving = np.where(labels < 0, 0.0, np.linalg.norm(turned, axis=1))
    with np.errstate(over="ignore"):  # an infinite bound is valid
        gain_out = (along[own] - entry * mine) / shrink - along[own] + leaving**2 / (2.0 * least)
    sizes, heights = np.linalg.norm(M, axis=0), np.linalg.norm(rows, axis=1)

    def gain_in(block: slice) -> FloatArray:
        arriving = np.maximum(R[block], 0.0)
        size, out = heights[block, None], leaving[block, None]
        return _bound_of_arriving(arriving, along, sizes, (size, out, least))

    with np.errstate(invalid="ignore"):  # -inf + inf: an impossible move into an unbounded column
        bounds = _combined(labels, gain_in, gain_out, kept, R.shape[1])
    return np.where(np.isnan(bounds), -np.inf, bounds)


def _bound_of_arriving(
    arriving: FloatArray,
    along: FloatArray,
    sizes: FloatArray,
    row: tuple[FloatArray, FloatArray, float],
) -> FloatArray:
    """Bound the gain of entering a column over all rotations that are not worse than I."""
    size, out, least = row
    with np.errstate(all="ignore"):
        gain = np.hypot(along, arriving) - along
        # d = |Z - I| satisfies mu d^2 / 2 <= |a| d + |u| - (gain at I) if the fit of the column by
        # UYZ is nonnegative. The second inequality excludes rotations with a negative fit.
        turn = (out + np.sqrt(out**2 + 2.0 * least * np.maximum(size - gain, 0.0))) / least
        is_known = along + gain - size > (out + sizes) ** 2 / (2.0 * least)
        fit = along - sizes * turn
        half_tangent = np.minimum(size, arriving + size * turn) / (2.0 * fit)
        rest = along - (size + np.minimum(half_tangent, 1.0) * sizes) ** 2 / least
        bound = np.hypot(rest, arriving) - rest
    return np.where(is_known & (fit > 0.0) & np.isfinite(bound), bound, np.inf)


def _own_entries(labels: IntArray, weights: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the column of each row (0 for zero rows), its entry w, and 1 - w^2 (inf if alone)."""
    own = np.maximum(labels, 0)
    entry = np.where(labels >= 0, weights, 0.0).astype(np.float64)
    squares = entry**2
    return own, entry, np.where(squares < _SINGLE_ROW_SQUARE, 1.0 - squares, np.inf)


def _combined(
    labels: IntArray,
    gain_in: Callable[[slice], FloatArray],
    gain_out: FloatArray,
    kept: FloatArray,
    k: int,
) -> FloatArray:
    """Add the gains of leaving and entering; minus infinity if a move is impossible.

    The gains of entering are computed for some rows at a time, so that there is only one n x k
    array.
    """
    n = len(labels)
    gain_out = np.where(labels < 0, 0.0, gain_out)
    gain_out[np.isinf(kept)] = -np.inf
    gains = np.empty((n, k + 1))
    height = max(_BLOCK_ENTRIES // k, 1)
    for start in range(0, n, height):
        rows = slice(start, start + height)
        np.add(gain_in(rows), gain_out[rows, None], out=gains[rows, :k])
    gains[:, k] = np.where(labels < 0, -np.inf, gain_out)
    rows_in = np.flatnonzero(labels >= 0)
    gains[rows_in, labels[rows_in]] = -np.inf
    return gains
