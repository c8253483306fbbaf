"""Draw matrices with a planted orthogonal factorization (section 6.2.1 of the paper)."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.checks import check_count, check_range, check_shape
from orthoplus.core.types import FloatArray, IntArray
from orthoplus.geometry.stiefel import labels_of, random_stiefel_plus


@dataclass(frozen=True, eq=False)
class PlantedONMF:
    """A matrix A and the planted factor B in S+.

    Examples
    --------
    >>> PlantedONMF(np.ones((3, 2)), np.eye(3, 2)).labels
    array([ 0,  1, -1])
    """

    A: FloatArray
    B: FloatArray

    @property
    def labels(self) -> IntArray:
        """Return the column of the positive entry of each row of B, -1 for a zero row."""
        return labels_of(self.B)


def planted_onmf(n: int, r: int, k: int, xi: float, rng: np.random.Generator) -> PlantedONMF:
    r"""Draw the paper's instance, with noise level :math:`\xi \ge 0`.

    .. math:: A = \frac{BC}{\|BC\|_F} + \frac{\xi}{\|D\|_F} D,

    with a random B in S+, and the entries of C (k x r) and D (n x r) uniform in [0, 1).

    Parameters
    ----------
    n, r, k : int
        A is n x r, B is n x k, n >= k.
    xi : float
        Frobenius norm of the noise, relative to a signal of norm 1. Without noise the residual of
        B is 0.
    rng : numpy.random.Generator
        Source of all randomness.

    Examples
    --------
    >>> planted = planted_onmf(6, 4, 2, 0.0, np.random.default_rng(0))
    >>> missed = planted.A - planted.B @ (planted.B.T @ planted.A)
    >>> planted.A.shape, bool(np.abs(missed).max() < 1e-15)
    ((6, 4), True)
    """
    check_shape(n, k, "B")
    check_count(r, "r", low=1)
    check_range(xi, "xi", low=0.0)
    B = random_stiefel_plus(n, k, rng)
    signal = B @ rng.random((k, r))
    noise = rng.random((n, r))
    A = signal / np.linalg.norm(signal) + xi / np.linalg.norm(noise) * noise
    return PlantedONMF(A, B)
