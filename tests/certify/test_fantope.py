"""Shares of eigenvalues, and the projection that they make."""

import numpy as np
import pytest

from orthoplus.certify.fantope import LeadingPairs, orthonormalize, share_out


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
    F = LeadingPairs(9, 3).project(W + W.T).dense()
    values = np.linalg.eigvalsh(F)
    # LAPACK's accuracy for matrices of norm 1.
    assert values.min() >= -1e-13
    assert values.max() <= 1 + 1e-13
    assert np.trace(F) == pytest.approx(3)
    assert np.allclose(LeadingPairs(9, 3).project(F).dense(), F, atol=1e-13)


@pytest.mark.parametrize("has_unit", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_projection_follows_slowly_changing_matrices(has_unit, dtype):
    rng = np.random.default_rng(1)
    n, k = 300, 5
    X = np.kron(np.eye(6), np.ones((50, 1)))
    noise = rng.standard_normal((n, n)) * 0.05
    W = X @ X.T / 50 * 3 + noise + noise.T
    unit = np.full(n, n**-0.5) if has_unit else None
    pairs, full = LeadingPairs(n, k, unit), LeadingPairs(n, k, unit)
    for _ in range(25):
        change = rng.standard_normal((n, n)) * 1e-3
        W = W + change + change.T
        F = pairs.project(W.astype(dtype)).dense()
    assert len(F) == n
    expected = full._project_fully(W).dense()
    # The matrix changes in each of its pairs by about 1e-3.
    assert np.linalg.norm(F - expected) <= 2e-2 * np.linalg.norm(expected)
    assert np.trace(F) == pytest.approx(k, abs=1e-9)
    if has_unit:
        assert np.abs(F @ unit).max() < 1e-9


def test_projection_takes_more_pairs_when_the_first_ones_do_not_suffice():
    n, k = 400, 2
    d = np.zeros(n)
    d[:40] = 0.04 * np.arange(40)[::-1] / 40
    W = np.diag(d)
    F = LeadingPairs(n, k).project(W)
    assert len(F.shares) >= 20
    assert F.shares.sum() == pytest.approx(k)


@pytest.mark.parametrize("case", ["random", "long and short", "dependent", "zero column"])
def test_orthonormalize_keeps_the_span(case, rng):
    V = rng.standard_normal((40, 6))
    if case == "long and short":
        V *= 10.0 ** np.array([-150, 120, 0, 3, -8, 8])
    elif case == "dependent":  # the Cholesky factor of V'V breaks off
        V[:, 5] = V[:, 0] + 1e-13 * V[:, 1]
    elif case == "zero column":
        V[:, 2] = 0.0
    Q = orthonormalize(V)
    assert np.allclose(Q.T @ Q, np.eye(6), atol=1e-13)
    units = V / np.maximum(np.abs(V).max(axis=0), 1e-300)
    assert np.allclose(Q @ (Q.T @ units), units, atol=1e-10)
