"""The compiled alternation of K-indicators against its specification, and its limits."""

import numpy as np
import pytest

from orthoplus.kernels import fused, reference

LIMITS = (50, 1e-10)


def embedding(rng, n, k):
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


@pytest.mark.parametrize("shape", [(1, 1), (12, 2), (60, 4), (200, 20)])
@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e60])
def test_alternations_agree(shape, scale, rng):
    n, k = shape
    U = np.abs(embedding(rng, n, k)) + embedding(rng, n, k) / 4
    labels = np.r_[np.arange(k), rng.integers(-1, k, size=n - k)]
    weights = rng.random(n)
    expected = reference.alternate_indicators(U, labels, weights, LIMITS)
    found = fused.alternate_indicators(scale * U, labels, weights, LIMITS)
    # Both end at a relative gain of 1e-10 of the fit, which is quadratic in the weights.
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (found[labels < 0] == 0.0).all()


@pytest.mark.parametrize("module", [fused, reference])
def test_alternation_gives_up_when_a_column_has_no_positive_entry_or_the_product_is_zero(module):
    labels = np.array([0, 0, 1])
    U = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert module.alternate_indicators(U, labels, np.ones(3), LIMITS) is not None
    assert module.alternate_indicators(0.0 * U, labels, np.ones(3), LIMITS) is None
    # The two rows of a column point in opposite directions: the weighted sum is zero.
    U = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    assert module.alternate_indicators(U, labels, np.ones(3), LIMITS) is None
