"""The alternation of K-indicators on a fixed support, for few columns."""

import numpy as np

from orthoplus.core.types import FloatArray, IntArray

__all__ = ["alternate_indicators"]


def alternate_indicators(
    U: FloatArray, labels: IntArray, weights: FloatArray, limits: tuple[int, float]
) -> FloatArray | None:
    """Alternate Y = polar factor of U'X and X = positive part of UY on the support, normalized.

    The alternation converges linearly, so that each Y is extrapolated from the last two (Anderson's
    method of depth one); if that lowers the fit <U'X, Y>, the next Y is the plain one. It ends if
    the fit changes by at most a fraction, and returns the weights of the rows, with unit columns.
    ``limits`` are the largest number of alternations and that fraction. Label -1 marks a row of
    zeros. Return None if a column has no positive entry, or if U'X is so close to singular that a
    short iteration does not find Y.
    """
    k = U.shape[1]
    max_iter, gain = limits
    fit, best, target = -np.inf, np.eye(k), np.eye(k)
    last: tuple[FloatArray, FloatArray] | None = None
    for n_iter in range(max_iter):
        M = U.T @ _dense(labels, weights, k)
        left, s, right = np.linalg.svd(M)
        Y, new = left @ right, float(s.sum())
        if not s[-1] > 0.0:
            return None
        if abs(new - fit) <= gain * new:
            return weights
        if new > fit:
            residual = Y - target
            step = np.zeros((k, k))
            if last is not None and n_iter > 0:
                change = residual - last[1]
                size = float(np.vdot(change, change))
                share = float(np.vdot(change, residual)) / size if size > 0.0 else 0.0
                step = share * (Y - last[0])
            last = None if n_iter == 0 else (Y, residual)
            fit, best, target = new, Y, Y - step
        else:
            last, target = None, best
        found = _unit_weights(U, labels, target)
        if found is None:
            return None
        weights = found
    return _unit_weights(U, labels, best)


def _dense(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    X = np.zeros((len(labels), k))
    rows = np.flatnonzero(labels >= 0)
    X[rows, labels[rows]] = weights[rows]
    return X


def _unit_weights(U: FloatArray, labels: IntArray, Y: FloatArray) -> FloatArray | None:
    """Return the positive part of UY on the support with unit columns; None if one is zero."""
    X = np.maximum(U @ Y, 0.0) * _dense(labels, np.ones(len(labels)), U.shape[1])
    squares = np.square(X).sum(axis=0)
    if not (squares > 0.0).all():
        return None
    return np.asarray((X / np.sqrt(squares)).sum(axis=1))
