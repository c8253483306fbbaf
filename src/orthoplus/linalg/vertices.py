"""Vertex component analysis: find vertices of the cone or simplex spanned by the rows."""

from dataclasses import dataclass

import numpy as np

from orthoplus.core.types import FloatArray, IntArray
from orthoplus.data import DataMatrix

# Above this signal-to-noise ratio, plus 10 log10(k) decibels, rows are projected along rays instead
# of orthogonally.
_SNR_DECIBELS = 15.0
# A direction shorter than this after the projection lies in the span of the vertices.
_SPANNED = 1e-10


@dataclass(frozen=True, eq=False)
class VertexSearch:
    r"""Search for rows that are vertices of the data, by random directions.

    With the vertices :math:`v_1, \dots, v_i` found so far, the next one is the row of

    .. math:: \arg\max_l |f^\top y_l|, \qquad f = (I - V V^+) w,

    where w is Gaussian and y_l are the rows in a space of k dimensions. If there is little noise,
    these are the scores :math:`z_l = U^\top a_l` on the k leading singular vectors divided by
    :math:`z_l^\top \bar z`, so that the brightness of a row does not matter. Otherwise they are the
    k - 1 leading principal components with a constant appended.

    Attributes
    ----------
    basis : ndarray of shape (r, q)
        U, q = min(k, r).
    scores : ndarray of shape (n, q)
        AU.
    points : ndarray of shape (n, d)
        The y_l.
    axes : ndarray of shape (r, d)
        Maps Gaussian vectors of length r to d coordinates, so that signs and rotations of the basis
        do not change the result.
    avoided : ndarray of shape (d,)
        The direction that all points have in common, to which the first f is orthogonal.
    decibels : float
        The estimate of the signal-to-noise ratio.

    Notes
    -----
    Implements the formulas of Nascimento and Bioucas-Dias, IEEE TGRS 43 (2005). The published code
    starts orthogonally to the last coordinate in both cases; here, if there is little noise, it is
    the mean direction, which does not depend on the basis. This takes three passes over A and an
    r x r matrix.
    """

    basis: FloatArray
    scores: FloatArray
    points: FloatArray
    axes: FloatArray
    avoided: FloatArray
    decibels: float
    k: int

    @classmethod
    def of(cls, A: DataMatrix, k: int) -> "VertexSearch":
        """Prepare the search among the rows of A."""
        n = len(A)
        gram = A.gram() / n
        mean = A.times_transposed(np.ones((n, 1), dtype=A.dtype)).ravel().astype(np.float64) / n
        U = _leading(gram, k)
        scores = A.times(U).astype(np.float64, copy=False)
        centered = gram - np.outer(mean, mean)
        decibels = _signal_to_noise(gram, centered, mean, k)
        if decibels >= _SNR_DECIBELS + 10.0 * np.log10(k):
            middle = scores.mean(axis=0)
            heights = scores @ middle
            points = scores / np.where(heights > 0.0, heights, np.inf)[:, None]
            return cls(U, scores, points, U, middle, decibels, k)
        axes = _leading(centered, k - 1)
        parts = A.times(axes) - mean @ axes
        radius = np.sqrt(float((parts**2).sum(axis=1).max())) or 1.0
        points = np.hstack([parts, np.full((n, 1), radius)])
        # The appended coordinate uses the component of the Gaussian vector along the mean.
        unit = mean - axes @ (axes.T @ mean)
        unit /= float(np.linalg.norm(unit)) or 1.0
        avoided = np.eye(points.shape[1])[-1]
        return cls(U, scores, points, np.column_stack([axes, unit]), avoided, decibels, k)

    def draw(self, rng: np.random.Generator) -> IntArray:
        """Return the indices of k rows, with repetitions if the data has fewer vertices."""
        rows, V = np.empty(self.k, dtype=np.int64), self.avoided[:, None]
        for i in range(self.k):
            w = self.axes.T @ rng.standard_normal(len(self.axes))
            f = w - V @ (np.linalg.pinv(V) @ w)
            if np.linalg.norm(f) <= _SPANNED * np.linalg.norm(w):
                f = w
            rows[i] = int(np.abs(self.points @ f).argmax())
            found = self.points[rows[: i + 1]].T
            V = found
        return rows


def _leading(M: FloatArray, k: int) -> FloatArray:
    """Return the eigenvectors of the min(k, r) largest eigenvalues, in descending order."""
    return np.asarray(np.linalg.eigh(0.5 * (M + M.T))[1][:, ::-1][:, :k])


def _signal_to_noise(gram: FloatArray, centered: FloatArray, mean: FloatArray, k: int) -> float:
    """Return the power in k principal components over that in the others, in decibels."""
    power, n_bands = float(np.trace(gram)), len(mean)
    largest = np.linalg.eigvalsh(centered)[::-1][:k]
    within = float(largest.sum() + mean @ mean)
    noise = power - within
    if noise <= 1e-14 * power:
        return np.inf
    signal = within - min(k / n_bands, 1.0) * power
    return 10.0 * float(np.log10(signal / noise)) if signal > 0.0 else -np.inf
