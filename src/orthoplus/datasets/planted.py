"""Draw matrices whose projection onto S+ is known and unique (section 6.1 and appendix A)."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.errors import InputError
from orthoplus.core.types import FloatArray, IntArray

# The generator of section 6.1: entries of X* before normalization, and the diagonal of L.
ENTRY_RANGE = (1.0, 2.0)
DIAGONAL_RANGE = (0.5, 3.5)


@dataclass(frozen=True)
class PlantedProjection:
    """A matrix C, its unique projection X onto S+, and ``value`` = <C, X>.

    Examples
    --------
    >>> planted = planted_projection(6, 2, 0.5, np.random.default_rng(0))
    >>> bool(np.isclose(np.vdot(planted.C, planted.X), planted.value))
    True
    """

    C: FloatArray
    X: FloatArray
    value: float

    @property
    def labels(self) -> IntArray:
        """Return the column of the positive entry of each row, -1 for a zero row."""
        return np.where(self.X.any(axis=1), self.X.argmax(axis=1), -1)


def planted_projection(n: int, k: int, xi: float, rng: np.random.Generator) -> PlantedProjection:
    r"""Draw the paper's instance: :math:`C = X_* L` with noise level :math:`\xi \in [0, 1]`.

    .. math:: L_{ij} = \xi \sqrt{d_i d_j}\, u_{ij}, \quad L_{ii} = d_i,

    with d uniform in [0.5, 3.5] and u uniform in [0, 1). Each row of X* has its positive entry in a
    random column, no column is empty, and the entries are uniform in [1, 2] before normalization.

    Parameters
    ----------
    n, k : int
        Shape of C, n >= k.
    xi : float
        Noise level; X* is harder to find for larger values.
    rng : numpy.random.Generator
        Source of all randomness.

    Notes
    -----
    The cost is O(nk^2). See section 6.1 of the paper.

    Examples
    --------
    >>> planted = planted_projection(6, 2, 0.5, np.random.default_rng(0))
    >>> planted.C.shape, sorted(set(planted.labels.tolist()))
    ((6, 2), [0, 1])
    """
    labels = rng.integers(k, size=n)
    # One random row for each column, so that no column is empty.
    labels[rng.permutation(n)[:k]] = np.arange(k)
    X = np.zeros((n, k))
    X[np.arange(n), labels] = rng.uniform(*ENTRY_RANGE, size=n)
    X /= np.linalg.norm(X, axis=0)
    diagonal = rng.uniform(*DIAGONAL_RANGE, size=k)
    # L_ij^2 < L_ii L_jj for xi <= 1, so that the projection of X_* L is X_*.
    L = xi * np.sqrt(np.outer(diagonal, diagonal)) * rng.random((k, k))
    np.fill_diagonal(L, diagonal)
    return PlantedProjection(X @ L, X, float(diagonal.sum()))


def planted_projection_from(X_star: FloatArray, L: FloatArray) -> PlantedProjection:
    r"""Build the appendix's instance :math:`C = X_* L^T`, whose unique projection is :math:`X_*`.

    Parameters
    ----------
    X_star : ndarray of shape (n, k)
        A matrix of S+.
    L : ndarray of shape (k, k)
        Positive diagonal and :math:`L_{ii} L_{jj} > \max(L_{ij}, L_{ji}, 0)^2` for i != j.

    Raises
    ------
    ValueError
        If L violates the condition; the message names a pair (i, j).

    Notes
    -----
    The cost is O(nk^2). See Proposition A.1 of the paper.

    Examples
    --------
    >>> planted_projection_from(np.eye(3, 2), np.array([[2.0, 1.0], [-5.0, 1.0]])).C
    array([[ 2., -5.],
           [ 1.,  1.],
           [ 0.,  0.]])
    """
    diagonal = np.diagonal(L)
    if not (diagonal > 0.0).all():
        j = int(np.argmin(diagonal))
        raise InputError(
            f"`L[{j}, {j}] = {diagonal[j]:g}` is not positive: the projection of X_star L' would "
            "not be X_star. Give L a positive diagonal."
        )
    excess = np.maximum(np.maximum(L, L.T), 0.0) ** 2 - np.outer(diagonal, diagonal)
    np.fill_diagonal(excess, -1.0)
    if excess.max() >= 0.0:
        i, j = divmod(int(np.argmax(excess)), len(L))
        raise InputError(
            f"`L` has L_ii L_jj <= max(L_ij, L_ji, 0)^2 at (i, j) = ({i}, {j}): the projection of "
            "X_star L' need not be X_star. Make these off-diagonal entries smaller."
        )
    return PlantedProjection(X_star @ L.T, X_star, float(diagonal.sum()))
