"""Shares of eigenvalues, and the projection that they make."""

import numpy as np
import pytest

from orthoplus.certify.fantope import project_fantope, share_out


@pytest.mark.parametrize("seed", range(20))
def test_shares_are_the_projection(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 12))
    k = int(rng.integers(0, m + 1))
    values = rng.standard_normal(m) * 3
    values[rng.random(m) < 0.3] = 1.0
    shares, threshold = share_out(values, k)
    assert shares.sum() == pytest.approx(k, abs=1e-12)
    assert shares.min(initial=0.0) >= 0.0
    assert shares.max(initial=1.0) <= 1.0
    for _ in range(20):  # the residual makes an obtuse angle with every other point
        other = share_out(rng.standard_normal(m) * 3, k)[0]
        assert (values - shares) @ (other - shares) <= 1e-12 * m
    assert np.allclose(shares, np.clip(values - threshold, 0, 1))


def test_projection_is_in_the_fantope_and_idempotent():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((9, 9))
    F = project_fantope(W + W.T, 3).dense()
    values = np.linalg.eigvalsh(F)
    # LAPACK's accuracy for matrices of norm 1.
    assert values.min() >= -1e-13
    assert values.max() <= 1 + 1e-13
    assert np.trace(F) == pytest.approx(3)
    assert np.allclose(project_fantope(F, 3).dense(), F, atol=1e-13)
