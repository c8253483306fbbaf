"""Least squares on the orthant and the simplex: fused = reference, brute force, optimality."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from orthoplus.kernels import fused, reference

both_models = pytest.mark.parametrize("sums_to_one", [True, False])


def instance(rng, n, k, r=None, noise=0.5):
    """Return G and B of spectra and pixels that are partly outside of what they span."""
    E = rng.random((k, r or k + 2))
    A = rng.dirichlet(np.ones(k), n) @ E + noise * rng.standard_normal((n, E.shape[1]))
    return E @ E.T + 0.1 * np.eye(k), A @ E.T


def value(G, b, a):
    return 0.5 * a @ G @ a - b @ a


def best_of_all_supports(G, b, sums_to_one):
    """Return the minimizer by enumeration of all supports."""
    k = len(b)
    best = None if sums_to_one else np.zeros(k)
    for size in range(1, k + 1):
        for support in map(list, combinations(range(k), size)):
            block = G[np.ix_(support, support)]
            z = np.linalg.solve(block, b[support])
            if sums_to_one:
                v = np.linalg.solve(block, np.ones(size))
                z -= (z.sum() - 1.0) / v.sum() * v
            a = np.zeros(k)
            a[support] = z
            if z.min() >= 0 and (best is None or value(G, b, a) < value(G, b, best)):
                best = a
    return best


@both_models
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_fractions_are_the_best_of_all_supports(k, sums_to_one, rng):
    G, B = instance(rng, 20, k)
    found = fused.constrained_fractions(G, B, sums_to_one)
    for a, b in zip(found, B, strict=True):
        np.testing.assert_allclose(a, best_of_all_supports(G, b, sums_to_one), atol=1e-10)


@both_models
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 1), (40, 4), (25, 12), (6, 30)])
def test_fused_fractions_are_those_of_the_reference(shape, dtype, sums_to_one, rng):
    G, B = instance(rng, *shape)
    B = np.asfortranarray(B.astype(dtype))
    one, other = (
        kernels.constrained_fractions(G, B, sums_to_one) for kernels in (fused, reference)
    )
    assert one.dtype == other.dtype == dtype
    assert one.shape == shape
    np.testing.assert_allclose(one, other, atol=1e-9 if dtype == np.float64 else 1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.booleans())
def test_fractions_meet_the_conditions_of_optimality(seed, k, sums_to_one):
    rng = np.random.default_rng(seed)
    G, B = instance(rng, 8, k, noise=10.0 ** rng.uniform(-3, 1))
    for a, b in zip(fused.constrained_fractions(G, B, sums_to_one), B, strict=True):
        assert a.min() >= 0
        gradient = G @ a - b
        price = 0.0
        if sums_to_one:
            assert a.sum() == pytest.approx(1.0, abs=1e-9)
            price = gradient[a > 0].mean()
        size = np.abs(G).max() + np.abs(b).max()
        assert np.abs(gradient[a > 0] - price).max(initial=0.0) <= 1e-10 * size
        assert (gradient - price).min() >= -1e-10 * size


def test_orthant_is_that_of_scipy(rng):
    E, A = rng.random((6, 15)), rng.random((30, 15))
    found = fused.constrained_fractions(E @ E.T, A @ E.T, False)
    np.testing.assert_allclose(found, [nnls(E.T, a)[0] for a in A], atol=1e-9)


@both_models
@pytest.mark.parametrize("kernels", [fused, reference], ids=["fused", "reference"])
def test_repeated_and_zero_columns_end_at_a_minimizer(kernels, sums_to_one, rng):
    E = rng.random((3, 8))
    twice = np.vstack([E, E, np.zeros(8)])
    A = rng.dirichlet(np.ones(3), 12) @ E + 0.2 * rng.standard_normal((12, 8))
    if sums_to_one:  # the zero spectrum is a vertex like others: repeat it, too
        E = np.vstack([E, np.zeros(8)])
    few, many = (
        kernels.constrained_fractions(S @ S.T + sums_to_one, A @ S.T + sums_to_one, sums_to_one) @ S
        for S in (E, twice)
    )
    np.testing.assert_allclose(many, few, atol=1e-7)


def test_answer_does_not_depend_on_threads(rng, monkeypatch):
    G, B = instance(rng, 3000, 8)  # several blocks
    many = fused.constrained_fractions(G, B, True)
    monkeypatch.setenv("ORTHOPLUS_NUM_THREADS", "1")
    assert fused.constrained_fractions(G, B, True).tobytes() == many.tobytes()
