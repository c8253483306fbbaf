"""Eigenproblems of symmetric matrices and of their blocks."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data.symmetric import DENSE_ROWS, SymmetricMap
from orthoplus.linalg.spectral_sum import SpectralSum, dense_sum, sum_of_largest

# Largest number of cached bottom vectors of small blocks.
_KNOWN_BLOCKS = 1 << 14
# Differences below this many unit roundoffs of the norm are attributed to rounding.
_EXCESS_ROUNDOFFS = 100
# A sum of eigenvalues with a gap above this fraction of the norm is computed with a dense solver,
# up to _MOST_DENSE rows.
_MAX_OPEN_GAP, _MOST_DENSE = 1e-6, 2000


def sum_of_smallest(M: SymmetricMap, k: int) -> SpectralSum:
    """Bound the sum of the k smallest eigenvalues of M, see `orthoplus.linalg.spectral_sum`."""
    n = M.shape[0]
    found = sum_of_largest(lambda V: -np.asarray(M @ V, dtype=np.float64), n, k)
    if found.upper - found.lower > _MAX_OPEN_GAP * M.norm and n <= _MOST_DENSE:
        found = dense_sum(-M.to_dense(), k)
    return SpectralSum(-found.upper, -found.lower)


def bottom_of_blocks(M: SymmetricMap, X: FloatArray) -> FloatArray | None:
    r"""Return the global minimizer of :math:`\mathrm{tr}(X^\top M X)` over S+ on the support of X.

    Column j is the eigenvector of the smallest eigenvalue of the block :math:`M_j` of M on the
    support of :math:`x_j`, section 4 (ii). By the Perron-Frobenius theorem it is nonnegative, up to
    its sign, if no off-diagonal entry of the block is positive; often it is in other cases, too.

    Returns
    -------
    X : ndarray of shape (n, k) or None
        None if the smallest eigenvalue of a block has no nonnegative eigenvector.
    """
    best = np.zeros_like(X)
    for j in range(X.shape[1]):
        rows = np.flatnonzero(X[:, j] > 0)
        vector = _bottom_of_block(M, rows, X[rows, j])
        if vector is None:
            return None
        best[rows, j] = vector
    return best


def _bottom_of_block(M: SymmetricMap, rows: IntArray, start: FloatArray) -> FloatArray | None:
    """Compute `_nonnegative_bottom` of a block, cached for small blocks that searches repeat."""
    if len(rows) > DENSE_ROWS:
        return _nonnegative_bottom(M.block(rows), start)
    key, known = (rows.tobytes(), start.dtype.char), M.known_blocks
    if key not in known:
        if len(known) >= _KNOWN_BLOCKS:
            known.clear()
        known[key] = _nonnegative_bottom(
            M.block(rows), start
        )  # solved densely, so the start does not matter
    return known[key]


def _nonnegative_bottom(block: SymmetricMap, start: FloatArray) -> FloatArray | None:
    """Return a unit vector v >= 0 with v'Mv the smallest eigenvalue, or None."""
    if len(start) == 1:
        return np.ones(1)
    found = block.eigenpairs(1, start.astype(np.float64))
    if found is None:
        return None
    vector = np.abs(found[1][:, 0])
    vector /= np.linalg.norm(vector)
    # |v| is a minimizer if and only if |v|'M|v| <= v'Mv.
    least = float(found[0][0])
    excess = float(vector @ (block @ vector)) - least
    roundoffs = _EXCESS_ROUNDOFFS * float(np.finfo(start.dtype).eps)
    # The norm is at least |least|, which is often enough and known already.
    if excess <= roundoffs * abs(least) or excess <= roundoffs * block.norm:
        return vector
    return None
