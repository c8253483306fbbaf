"""Sums of leading eigenvalues: both sides hold where a Lanczos method misses one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import aslinearoperator

from orthoplus.linalg import spectral_sum
from orthoplus.linalg.spectral_sum import dense_sum, sum_of_largest, sum_of_squares
from orthoplus.problems import ONMF, KMeans, TraceMin

N = 500  # above the order up to which all eigenvalues are computed

SPECTRA = {
    "zero": np.zeros(N),
    "identity": np.ones(N),
    "negative identity": -np.ones(N),
    "rank one": np.r_[np.zeros(N - 1), 1.0],
    "rank three, two equal": np.r_[np.zeros(N - 3), 5.0, 5.0, 1.0],
    "two values": np.r_[np.ones(N // 2), np.full(N // 2, 2.0)],
    "negative": -np.linspace(1.0, 2.0, N),
    "tiny": 1e-200 * np.linspace(0.0, 1.0, N),
    "wide cluster": np.r_[np.linspace(0.0, 1.0, N - 40), 1.0 + 1e-4 * np.linspace(0, 1, 40)],
    "tight cluster": np.r_[np.linspace(0.0, 1.0, N - 40), 1.0 + 1e-13 * np.linspace(0, 1, 40)],
}


def assert_between(found, expected, size):
    slack = 1e-12 * size  # rounding of a few hundred products
    assert found.lower - slack <= expected <= found.upper + slack


@pytest.mark.parametrize("k", [1, 5, 30])
@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
def test_sum_lies_between_the_two_sides(spectrum, k):
    found = sum_of_largest(lambda V: spectrum[:, None] * V, N, k)
    expected = np.sort(spectrum)[::-1][:k].sum()
    assert_between(found, expected, k * np.abs(spectrum).max())
    assert found.lower <= found.upper


@given(st.integers(0, 2**32 - 1))
def test_sum_of_a_random_spectrum_lies_between_the_two_sides(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 12))
    spectrum = rng.standard_normal(N) * 10.0 ** rng.uniform(-3, 3, N)
    spectrum[: rng.integers(0, 30)] = spectrum.max()  # a multiple one on top
    found = sum_of_largest(lambda V: spectrum[:, None] * V, N, k)
    expected = np.sort(spectrum)[::-1][:k].sum()
    assert_between(found, expected, k * np.abs(spectrum).max())
    assert found.upper - found.lower <= 1e-3 * k * np.abs(spectrum).max()


def test_missed_eigenvalue_is_found_by_the_runs_on_the_rest(monkeypatch):
    """A search that leaves the largest eigenvector out still gives a bound that holds."""
    spectrum = np.linspace(0.0, 1.0, N)
    spectrum[7] = 3.0
    search = spectral_sum._leading_pairs

    def blind(product, known, goal, rng):
        """The first search looks off the unit vector of the largest eigenvalue."""
        if known is not None:
            return search(product, known, goal, rng)

        def masked(V):
            V = V.copy()
            V[7] = 0.0
            return product(V)

        pairs = search(masked, known, goal, rng)
        vectors = pairs.vectors.copy()
        vectors[7] = 0.0
        return pairs._replace(vectors=vectors)

    monkeypatch.setattr(spectral_sum, "_leading_pairs", blind)
    expected = np.sort(spectrum)[::-1][:3].sum()
    found = sum_of_largest(lambda V: spectrum[:, None] * V, N, 3)
    assert_between(found, expected, 3.0)
    assert found.upper - expected <= 1e-6  # the second search has it
    monkeypatch.setattr(spectral_sum, "_MAX_ATTEMPTS", 1)
    found = sum_of_largest(lambda V: spectrum[:, None] * V, N, 3)
    assert found.lower < expected - 1.0  # missed
    assert found.upper >= expected  # and known to be


def planted(n, r, singular_values, rng):
    U = np.linalg.qr(rng.standard_normal((n, len(singular_values))))[0]
    V = np.linalg.qr(rng.standard_normal((r, len(singular_values))))[0]
    return (U * singular_values) @ V.T


@pytest.mark.parametrize(("m", "k", "seed"), [(11, 10, 2), (6, 5, 2), (21, 20, 2), (11, 10, 3)])
def test_bound_holds_with_more_equal_singular_values_than_columns(m, k, seed):
    """k of m equal values, and others near: a single Lanczos run misses one, or does not end."""
    rng = np.random.default_rng(seed)
    s = np.r_[np.full(m, 10.0), np.linspace(9.99, 0.0, 700 - m)]
    A = planted(900, 700, s, rng)
    problem = ONMF(A, k, allow_negative=True)
    best = s @ s - k * 100.0
    assert best * (1 - 1e-5) <= problem.lower_bound() <= best


@pytest.mark.parametrize("k", [5, 12])
def test_trace_bound_holds_with_equal_smallest_eigenvalues(k):
    d = np.r_[np.full(k + 1, -5.0), np.linspace(-4.9, 3.0, 1500)]
    M = diags_array(d).tocsr()
    bound = TraceMin(M, k).lower_bound()
    assert -5.0 * k * (1 + 1e-6) <= bound <= -5.0 * k


def test_flat_spectrum_of_a_large_matrix_gives_a_weaker_bound_that_holds(monkeypatch):
    monkeypatch.setattr(spectral_sum, "_MAX_CYCLES", 2)
    monkeypatch.setattr(spectral_sum, "_MAX_STEPS", 12)
    monkeypatch.setattr(spectral_sum, "_MOST_DENSE", 0)
    rng = np.random.default_rng(0)
    s = 1.0 + 1e-3 * rng.random(600)
    A = planted(800, 600, s, rng)
    expected = np.sort(s**2)[::-1][:8].sum()
    found = sum_of_squares(A, 8, float((A**2).sum()))
    assert found.lower <= expected <= found.upper
    assert found.upper <= 8 * 1.3  # twelve steps know the largest value to some percent
    monkeypatch.undo()
    found = sum_of_squares(A, 8, float((A**2).sum()))
    assert expected <= found.upper <= expected * (1 + 2e-5)


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (700, 450), (450, 700)])
@pytest.mark.parametrize("convert", [np.asarray, csr_array, aslinearoperator])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squares_agree_with_a_dense_decomposition(shape, convert, dtype, rng):
    A = (rng.random(shape) * (rng.random(shape) < 0.5)).astype(dtype)
    squares = np.linalg.svd(A.astype(np.float64), compute_uv=False) ** 2
    for k in (1, 4, min(shape)):
        if k == min(shape) and k > 100:
            continue
        found = sum_of_squares(convert(A), k, float(squares.sum()))
        accuracy = 1e-5 if dtype == np.float32 else 1e-7
        assert found.upper == pytest.approx(squares[:k].sum(), rel=accuracy)
        assert found.lower == pytest.approx(squares[:k].sum(), rel=accuracy)


def test_dense_sum_takes_the_largest():
    assert dense_sum(np.diag([1.0, -9.0, 3.0, 2.0]), 2) == (5.0, 5.0)


@pytest.mark.parametrize("exponent", [-60, -1, 40])
def test_sides_scale_exactly_with_powers_of_two(exponent, rng):
    A = rng.random((600, 450))
    total = float((A * A).sum())
    one = sum_of_squares(A, 3, total)
    other = sum_of_squares(np.ldexp(A, exponent), 3, np.ldexp(total, 2 * exponent))
    assert other == tuple(np.ldexp(one, 2 * exponent))


def test_k_means_bound_is_the_rank_k_residual_of_the_extended_matrix(rng):
    problem = KMeans(rng.standard_normal((600, 500)), 3)
    values = np.linalg.svd(problem._extended, compute_uv=False)
    expected = (values[3:] ** 2).sum()
    assert expected * (1 - 1e-6) <= problem.lower_bound() <= expected
