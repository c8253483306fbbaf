"""Loops over OB+ in plain NumPy: the specification that `fused` is tested against.

All matrices are n x k. ``weight`` multiplies the row-mean part of a gradient: with V = e / sqrt(k),
X V V' is the row mean of X repeated k times, so the gradient of the penalized objective is
``G + weight * rowmean(X)`` and never needs a product with the k x k matrix VV'.
"""

import numpy as np

from orthoplus.core.types import BoolArray, FloatArray, IntArray

__all__ = [
    "assemble",
    "column_dots",
    "gather",
    "gradient_step_into",
    "largest_entries",
    "multipliers",
    "normalize_step_into",
    "projected_step_into",
    "restrict_into",
    "row_energy",
    "secant_products",
    "stationarity_sq",
]


# Column sums of squares outside this range may have underflowed or overflowed.
SQUARES_MIN, SQUARES_MAX = 1e-280, 1e280


def row_energy(X: FloatArray) -> float:
    """Return ||X V||_F^2 = sum_i (sum_j X_ij)^2 / k for V = e / sqrt(k)."""
    sums = X.sum(axis=1, dtype=np.float64)
    return float(sums @ sums) / X.shape[1]


def gradient_step_into(
    X: FloatArray, G: FloatArray, weight: float, alpha: float, out: FloatArray
) -> FloatArray:
    """Compute out = max(X - alpha (G + weight rowmean(X)), 0); return its squared column norms."""
    mean = X.mean(axis=1, keepdims=True, dtype=np.float64)
    gradient = G + weight * mean
    np.maximum(X - alpha * gradient, 0.0, out=out, casting="same_kind")
    return np.einsum("ij,ij->j", out, out, dtype=np.float64)


def normalize_step_into(
    T: FloatArray, scale: FloatArray, X: FloatArray
) -> tuple[float, float, float, float]:
    """Scale T = T diag(scale) in place, and return the products that the step-size rule needs.

    With S = T - X and V = e / sqrt(k) these are <S, S>, ||T V||^2, <S, T V V'>, <S, X V V'>.
    """
    np.multiply(T, scale, out=T, casting="same_kind")
    k = X.shape[1]
    S = T.astype(np.float64) - X
    new, old = T.sum(axis=1, dtype=np.float64), X.sum(axis=1, dtype=np.float64)
    change = S.sum(axis=1)
    return (
        float((S * S).sum()),
        float(new @ new) / k,
        float(change @ new) / k,
        float(change @ old) / k,
    )


def secant_products(
    new: tuple[FloatArray, FloatArray, float], old: tuple[FloatArray, FloatArray, float]
) -> tuple[float, float]:
    """Return <S, Z> and <Z, Z> for the last step S and the change Z of the gradient.

    Each argument is (X, G, weight) and has the gradient G + weight rowmean(X).
    """
    means = [X.mean(axis=1, keepdims=True, dtype=np.float64) for X, _, _ in (new, old)]
    gradients = [at[1] + at[2] * mean for at, mean in zip((new, old), means, strict=True)]
    S, Z = new[0].astype(np.float64) - old[0], gradients[0].astype(np.float64) - gradients[1]
    return float((S * Z).sum()), float((Z * Z).sum())


def column_dots(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return diag(A'B), the k inner products of the columns."""
    return np.einsum("ij,ij->j", A, B, dtype=np.float64)


def multipliers(X: FloatArray, G: FloatArray, weight: float) -> FloatArray:
    """Return diag(X'(G + weight rowmean(X))), the multipliers of the unit-norm constraints."""
    gradient = G + weight * X.mean(axis=1, keepdims=True, dtype=np.float64)
    return np.einsum("ij,ij->j", X, gradient, dtype=np.float64)


def stationarity_sq(
    X: FloatArray, G: FloatArray, weight: float, multiplier: FloatArray, unit: float
) -> float:
    """Return the square of the residual in eq. (4.1).

    ||min(X, (G + weight rowmean(X) - X diag(multiplier)) / unit)||_F^2
    """
    mean = X.mean(axis=1, keepdims=True, dtype=np.float64)
    residual = np.minimum(X, (G + weight * mean - X * multiplier) / unit)
    return float((residual * residual).sum())


def projected_step_into(
    X: FloatArray, G: FloatArray, weight: float, alpha: float, out: FloatArray
) -> tuple[float, float, float, float] | None:
    """Run `gradient_step_into` and `normalize_step_into` in one call.

    Return None, with ``out`` not normalized, if the sum of squares of a column may have underflowed
    or overflowed; the caller then has to project with scaling.
    """
    squares = gradient_step_into(X, G, weight, alpha, out)
    if squares.min() < SQUARES_MIN or squares.max() > SQUARES_MAX:
        return None
    return normalize_step_into(out, 1.0 / np.sqrt(squares), X)


def restrict_into(X: FloatArray, G: FloatArray, support: BoolArray, out: FloatArray) -> int:
    """Set out = G on the support and 0 elsewhere; return the number of nonzeros of X elsewhere."""
    np.copyto(out, np.where(support, G, 0.0), casting="same_kind")
    return int(np.count_nonzero(X[~support]))


def assemble(labels: IntArray, weights: FloatArray, k: int) -> FloatArray:
    """Build the matrix with ``weights[i]`` in column ``labels[i]``, then normalize its columns."""
    rows = np.flatnonzero(labels >= 0)
    columns, entries = labels[rows], weights[rows]
    top = np.zeros(k, dtype=weights.dtype)
    np.maximum.at(top, columns, entries)
    entries = entries / top[columns]  # scale first, to avoid overflow and underflow
    norms = np.sqrt(np.bincount(columns, entries.astype(np.float64) ** 2, minlength=k))
    X = np.zeros((len(labels), k), dtype=weights.dtype)
    X[rows, columns] = entries / norms[columns]
    return X


def gather(C: FloatArray, labels: IntArray) -> FloatArray:
    """Return the entry of each row in the column of its label, or 0 if the label is -1."""
    return np.where(labels >= 0, C[np.arange(len(C)), labels], C.dtype.type(0))


def largest_entries(X: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the column and value of each row's largest entry, the first among ties.

    A row without a positive entry gets -1 and 0.
    """
    labels = X.argmax(axis=1)
    entries = X[np.arange(len(X)), labels]
    is_positive = entries > 0
    return np.where(is_positive, labels, -1), np.where(is_positive, entries, X.dtype.type(0))
