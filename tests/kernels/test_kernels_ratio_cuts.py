"""The fused passes over cuts of orthogonal NMF agree with their specification."""

import numpy as np
import pytest

from orthoplus.kernels import fused, reference


def draw(n, rng):
    A = rng.random((n, 3)) * (rng.random((n, 3)) < 0.8)
    return A @ A.T


@pytest.mark.parametrize("n", [1, 2, 30, 1100])
def test_ratios_agree_with_reference(n):
    rng = np.random.default_rng(n)
    M = draw(n, rng) if n < 1000 else rng.random((n, 2)) @ rng.random((2, n))
    found = fused.row_ratios(M)
    rows = np.arange(n) if n < 1000 else np.array([0, 517, n - 1])
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in rows:
            quotients = np.where(M > 0, M[i] / M, np.inf).min(axis=1)
            expected = np.where(np.isfinite(quotients), quotients, 0.0)
            assert np.allclose(found[i], expected, rtol=1e-14, atol=0.0)
    if n < 1000:
        assert np.allclose(found, reference.row_ratios(M), rtol=1e-14, atol=0.0)
        assert (found[:, :, None] * M <= M[:, None] * (1 + 1e-14)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sweep_agrees_with_reference_and_nears_the_cuts(dtype):
    rng = np.random.default_rng(0)
    n = 9
    cuts = np.array([rng.choice(n, 3, replace=False) for _ in range(40)])
    cuts[::3, 2] = -1
    R = rng.uniform(0.5, 1.5, (n, n))
    T = rng.standard_normal((n, n)).astype(dtype)
    T = T + T.T
    states = [(np.zeros(len(cuts)), np.zeros((n, n), dtype=dtype)) for _ in range(2)]
    for _ in range(300):
        for kernels, (multipliers, offset) in zip((fused, reference), states, strict=True):
            kernels.sweep_ratio_cuts_into(cuts, R, T, multipliers, offset)
    tol = 1e-3 if dtype == np.float32 else 1e-9  # the offset adds up many changes
    assert np.allclose(states[0][0], states[1][0], atol=tol)
    assert np.array_equal(states[0][1], states[0][1].T)
    Z = np.maximum(T - states[0][1], 0)
    i, j, l = cuts.T  # noqa: E741
    triangle = np.where(l >= 0, R[i, l] * Z[i, l] - R[i, j] * R[i, l] * Z[j, l], 0.0)
    assert (R[i, j] * Z[i, j] - Z[i, i] + triangle).max() <= 1e-2  # it converges slowly


def test_worst_cuts_agree_with_reference():
    rng = np.random.default_rng(1)
    Z, R = rng.random((12, 12)), rng.uniform(0.5, 1.5, (12, 12))
    Z = Z + Z.T
    Z[3], Z[:, 3] = 0.0, 0.0
    found, expected = fused.worst_ratio_cuts(Z, R, 0.1), reference.worst_ratio_cuts(Z, R, 0.1)
    assert np.array_equal(found[0], expected[0])
    assert np.allclose(found[1], expected[1], rtol=1e-13, atol=1e-15)
