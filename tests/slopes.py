"""Check derivatives by the order at which Taylor's remainder decreases.

A right derivative gives 2, a wrong one 1. On these steps the estimate is good to 0.1 or so where
directions are short against X: tests ask for 1.8.
"""

import numpy as np

# Between truncation that is not yet of leading order and rounding.
STEPS = 10.0 ** -np.linspace(1.5, 3.5, 9)
# A remainder below this share of the terms is rounding: the expansion ended exactly.
EXACT = 1e-13


def slope(remainders, size):
    """Order in t of remainders at STEPS, infinity for an expansion that ended exactly."""
    remainders = np.asarray(remainders)
    seen = remainders > EXACT * size
    if seen.sum() < 3:
        return np.inf
    return float(np.polyfit(np.log(STEPS[seen]), np.log(remainders[seen]), 1)[0])


def gradient_slope(value, gradient, X, D):
    """About 2 when the gradient is right, 1 when its sign or a factor is wrong."""
    start, along = value(X), float((gradient(X) * D).sum())
    rests = [abs(value(X + t * D) - start - t * along) for t in STEPS]
    return slope(rests, max(1.0, abs(start), abs(along)))


def hessian_slope(gradient, hessp, X, D):
    """About 2 when the Hessian product is right, 1 when it is not."""
    start, product = gradient(X), hessp(X, D)
    rests = [np.linalg.norm(gradient(X + t * D) - start - t * product) for t in STEPS]
    return slope(rests, max(1.0, np.linalg.norm(start), np.linalg.norm(product)))
