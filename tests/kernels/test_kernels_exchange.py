"""Exchanges of a permutation: the formula, its update, and fused = reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orthoplus.kernels import fused, reference
from orthoplus.kernels.reference.exchange import drawn_pairs

BOTH = pytest.mark.parametrize("kernels", [fused, reference], ids=["fused", "reference"])
instances = st.tuples(st.integers(1, 8), st.integers(0, 2**32 - 1), st.booleans())


def instance(n, seed, is_symmetric):
    """Whole numbers, so that sums are exact; diagonals not zero; C is never symmetric."""
    rng = np.random.default_rng(seed)
    A, B, C = rng.integers(-9, 10, (3, n, n)).astype(float)
    if is_symmetric:
        A, B = A + A.T, B + B.T
    return A, B, C, rng.permutation(n), rng


def objective(A, B, C, p):
    return sum(A[i, j] * B[p[i], p[j]] for i in range(len(p)) for j in range(len(p))) + sum(
        C[i, p[i]] for i in range(len(p))
    )


def exchanged(p, r, s):
    q = p.copy()
    q[r], q[s] = q[s], q[r]
    return q


@BOTH
@given(drawn=instances)
def test_delta_is_the_difference_of_objectives(kernels, drawn):
    A, B, C, p, _ = instance(*drawn)
    D = kernels.exchange_deltas(A, B, C, p)
    for r in range(len(p)):
        assert not D[r, : r + 1].any()
        for s in range(r + 1, len(p)):
            assert D[r, s] == objective(A, B, C, exchanged(p, r, s)) - objective(A, B, C, p)


@BOTH
@given(drawn=instances)
def test_updated_deltas_are_those_of_the_new_permutation(kernels, drawn):
    A, B, C, p, rng = instance(*drawn)
    if len(p) == 1:
        return
    D = kernels.exchange_deltas(A, B, C, p)
    for _ in range(4):
        u, v = rng.choice(len(p), 2, replace=False)
        expected = exchanged(p, u, v)
        kernels.exchange_update_into(A, B, C, p, D, (u, v))
        np.testing.assert_array_equal(p, expected)
        np.testing.assert_array_equal(D, kernels.exchange_deltas(A, B, C, p))


@given(drawn=instances, n_steps=st.integers(0, 40))
def test_search_agrees_with_the_reference_and_returns_its_gain(drawn, n_steps):
    A, B, C, p, rng = instance(*drawn)
    draws, found = rng.random((n_steps, 2)), []
    for kernels in (fused, reference):
        q = p.copy()
        gain = kernels.exchange_search_into(A, B, C, q, draws)
        assert gain == objective(A, B, C, q) - objective(A, B, C, p) <= 0
        assert kernels.exchange_deltas(A, B, C, q).min() >= 0  # no exchange gains
        found.append(q)
    np.testing.assert_array_equal(*found)


@given(n=st.integers(2, 30), draw=st.tuples(*[st.floats(0, 1, exclude_max=True)] * 2))
def test_drawn_pair_is_one_of_two_different_rows(n, draw):
    ((r, s),) = drawn_pairs(np.array([draw]), n)
    assert 0 <= r < s < n


def test_drawn_pairs_are_all_as_likely(rng):
    pairs = [tuple(pair) for pair in drawn_pairs(rng.random((6000, 2)), 4)]
    counts = [pairs.count((r, s)) for s in range(4) for r in range(s)]
    assert sum(counts) == 6000
    assert min(counts) > 850  # 1000 expected, five standard deviations below


def test_search_finds_what_descent_alone_does_not(rng):
    # A tour of the corners of a 20-gon, hidden by a relabelling: descent alone ends elsewhere.
    tour = np.roll(np.eye(20), 1, axis=1)
    corners = np.exp(2j * np.pi * np.arange(20) / 20)[rng.permutation(20)]
    lengths = np.abs(corners[:, None] - corners)
    best, values = 20 * np.abs(1 - np.exp(2j * np.pi / 20)), []
    for n_steps in (0, 3000):
        p = np.arange(20)
        fused.exchange_search_into(tour, lengths, np.zeros((20, 20)), p, rng.random((n_steps, 2)))
        values.append(objective(tour, lengths, np.zeros((20, 20)), p))
    assert values[0] > best + 0.1
    assert values[1] == pytest.approx(best)


def test_search_ends_when_gains_are_rounding_only(rng):
    A, B = np.full((2, 12, 12), 0.1) + 1e-17 * rng.random((2, 12, 12))
    p = rng.permutation(12)
    gain = fused.exchange_search_into(A, B, np.zeros((12, 12)), p, rng.random((500, 2)))
    assert abs(gain) <= 1e-12
    np.testing.assert_array_equal(np.sort(p), np.arange(12))


def test_long_search_keeps_its_deltas(rng):
    A, B, C = rng.standard_normal((3, 20, 20))
    p = rng.permutation(20)
    before = objective(A, B, C, p)
    gain = fused.exchange_search_into(A, B, C, p, rng.random((3000, 2)))
    # Thousands of updates, each a rounding of numbers of size ten.
    assert gain == pytest.approx(objective(A, B, C, p) - before, abs=1e-9)
    assert gain < 0
