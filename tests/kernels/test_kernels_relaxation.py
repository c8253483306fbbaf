"""The fused pass of the relaxation agrees with its specification."""

import numpy as np
import pytest

from orthoplus.kernels import fused, reference


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 33, 1100])
@pytest.mark.parametrize("has_offset", [False, True])
def test_relax_agrees_with_reference(dtype, n, has_offset):
    rng = np.random.default_rng(n)
    L, R = (rng.standard_normal((n, 3)).astype(dtype) for _ in range(2))
    T, G = (rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
    offset = None
    if has_offset:
        offset = rng.choice([0.0, 0.5, np.inf], (n, n)).astype(dtype)
    found, expected = (T.copy(), np.empty_like(T)), (T.copy(), np.empty_like(T))
    sums = fused.relax_into((L, R), found[0], offset, G, found[1], (1.6, 3.0))
    wanted = reference.relax_into((L, R), expected[0], offset, G, expected[1], (1.6, 3.0))
    tol = 50 * np.finfo(dtype).eps  # a handful of operations on numbers of size 10
    assert np.allclose(found[0], expected[0], atol=tol, rtol=tol)
    assert np.allclose(found[1], expected[1], atol=tol, rtol=tol)
    assert np.allclose(sums, wanted, rtol=n * np.finfo(dtype).eps + 1e-12)


def draw_cuts(n, rng):
    cuts = np.array([rng.choice(n, 3, replace=False) for _ in range(40)])
    cuts[::3, 2] = -1
    return cuts


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sweep_agrees_with_reference_and_nears_the_cuts(dtype):
    rng = np.random.default_rng(0)
    n = 9
    cuts, ratios = draw_cuts(n, rng), rng.uniform(0.5, 1.5, (n, n))
    T = rng.standard_normal((n, n)).astype(dtype)
    T = T + T.T
    apart = np.zeros((n, n), dtype=dtype)
    apart[0, 1] = apart[1, 0] = np.inf
    states = [(np.zeros(len(cuts)), apart.copy()) for _ in range(2)]
    for _ in range(300):
        for kernels, (multipliers, offset) in zip((fused, reference), states, strict=True):
            kernels.sweep_cuts_into(cuts, ratios, T, multipliers, offset)
    tol = 1e-3 if dtype == np.float32 else 1e-9  # the offset adds up many changes
    assert np.allclose(states[0][0], states[1][0], atol=tol)
    assert np.array_equal(states[0][1], states[0][1].T)
    P = np.maximum(T - states[0][1], 0)
    i, j, l = cuts.T  # noqa: E741
    triangle = np.where(l >= 0, ratios[i, l] * (P[i, l] - ratios[i, j] * P[j, l]), 0.0)
    assert (ratios[i, j] * P[i, j] - P[i, i] + triangle).max() <= 1e-2  # it converges slowly


def test_worst_cuts_agree_with_reference():
    rng = np.random.default_rng(1)
    P, ratios = rng.random((12, 12)), rng.uniform(0.5, 1.5, (12, 12))
    P = P + P.T
    found, expected = (
        fused.worst_cuts(P, ratios, (0.1, 0.2)),
        reference.worst_cuts(P, ratios, (0.1, 0.2)),
    )
    assert np.array_equal(found[0], expected[0])
    assert np.allclose(found[1], expected[1], atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 40, 300])
def test_least_ratios_agree_with_reference_and_with_their_formula(n):
    rng = np.random.default_rng(n)
    A = rng.random((n, 3)) * (rng.random((n, 3)) < 0.8)
    A[: n // 4] += 0.5
    M = A @ A.T
    found = fused.least_ratios(M, 0.05)
    assert np.allclose(found, reference.least_ratios(M, 0.05), rtol=1e-14, atol=0)
    for i, j in rng.integers(n, size=(20, 2)):
        used = M[j] > 0
        least = (M[i, used] / M[j, used]).min() if used.any() else 0.0
        assert found[i, j] == pytest.approx(least if least >= 0.05 else 0.0)
