"""Bounds by a factorization are above the sum of the leading eigenvalues, whatever V is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orthoplus.certify import factorization
from orthoplus.certify import spectral_bound as module
from orthoplus.certify.factorization import factored_bound
from orthoplus.certify.spectral_bound import spectral_bound

KINDS = ("plain", "ties", "clustered", "gram", "identity", "negative", "low rank")


def draw(kind, n, rng, scale=1.0, dtype=np.float64):
    """A symmetric matrix with such eigenvalues, and its eigenvectors from the largest on."""
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.sort(rng.standard_normal(n))[::-1]
    if kind == "ties":
        values[: n // 2] = 2.0
    elif kind == "clustered":
        values[: n // 2] = 2.0 + 1e-9 * np.sort(rng.random(n // 2))[::-1]
    elif kind == "gram":
        values = np.maximum(values, 0.0) ** 4
    elif kind == "identity":
        values[:] = 1.0
    elif kind == "negative":
        values -= 10.0
    elif kind == "low rank":
        values[3:] = 0.0
        values[:3] = [3.0, 2.0, 1.0]
    H = ((Q * (values * scale)) @ Q.T).astype(dtype).astype(np.float64)
    return (H + H.T) / 2, Q


def leading(H, k):
    return np.linalg.eigvalsh(H)[len(H) - k :].sum()


def accuracy(H):
    """Of the eigenvalues that we compare with."""
    return 1e-14 * len(H) * np.linalg.norm(H, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bound_is_above_and_near_the_sum_of_the_leading_eigenvalues(kind, scale, dtype):
    rng = np.random.default_rng(KINDS.index(kind))
    for n, k in ((12, 1), (60, 4), (150, 7)):
        H, Q = draw(kind, n, rng, scale, dtype)
        V = Q[:, : k + 4] + 1e-3 * rng.standard_normal((n, k + 4))
        expected = leading(H, k)
        found = factored_bound(H.copy(), k, V)
        assert found >= expected - accuracy(H)
        # Products with H refine V to this: the spectrum of a random matrix has no wide gap.
        assert found <= expected + 1e-4 * k * np.linalg.norm(H, 2)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(4, 40),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**16),
    exponent=st.sampled_from([-40, 0, 40]),
    missing=st.booleans(),
    share=st.floats(0.0, 1.0),
)
def test_bound_is_valid_for_every_block_of_vectors(n, kind, seed, exponent, missing, share):
    rng = np.random.default_rng(seed)
    H, Q = draw(kind, n, rng, 10.0**exponent)
    k = 1 + int(share * (n - 1))
    m = min(n, k + int(rng.integers(0, 4)))
    # Exact eigenvectors without the leading one, which no product with H brings back; or any.
    V = Q[:, ::-1][:, :m] if missing else rng.standard_normal((n, m))
    found = factored_bound(H.copy(), k, V)
    assert found >= leading(H, k) - accuracy(H)


def test_bound_without_an_eigenvector_is_larger_or_infinite():
    n, k = 80, 3
    H = np.diag(np.concatenate([[10.0, 9.0, 8.0], np.linspace(1.0, 0.0, n - 3)]))
    V = np.eye(n)[:, 1:8]  # exact pairs: their span is invariant, the first is never found
    found = factored_bound(H.copy(), k, V)
    assert found >= 27.0
    assert factored_bound(H.copy(), k, np.eye(n, 7)) == pytest.approx(27.0, rel=1e-9)


def test_matrix_that_is_not_finite_has_no_bound():
    for entry in (np.nan, np.inf):
        H = np.eye(6)
        H[2, 3] = H[3, 2] = entry
        assert factored_bound(H, 2, np.eye(6, 3)) == np.inf


@pytest.mark.parametrize("has_unit", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
def test_both_ways_to_the_bound_agree(has_unit, scale, monkeypatch):
    rng = np.random.default_rng(3)
    n, k = 90, 4
    A = rng.random((n, 6)) * np.sqrt(scale)
    H = A @ A.T
    unit = rng.random(n) + 0.5 if has_unit else None
    if unit is not None:
        unit /= np.linalg.norm(unit)
    expected = spectral_bound(H.copy(), k, unit)
    monkeypatch.setattr(module, "ALL_ORDER", 10)
    found = spectral_bound(H.copy(), k, unit, rng.standard_normal((n, k + 3)))
    assert found == pytest.approx(expected, rel=1e-7)
    P = np.eye(n) if unit is None else np.eye(n) - np.outer(unit, unit)
    fixed = 0.0 if unit is None else unit @ H @ unit
    k -= has_unit
    assert found >= fixed + np.linalg.eigvalsh(P @ H @ P)[n - k :].sum() - accuracy(H)


@pytest.mark.parametrize("share", [1e-1, 1e-3])
def test_slack_saves_products_but_not_the_proof(share, rng, monkeypatch):
    B = rng.standard_normal((80, 80))
    H = (B + B.T) / 2
    exact = np.linalg.eigvalsh(H)[-4:].sum()
    V = np.linalg.eigh(H)[1][:, ::-1][:, :12] + 0.1 * rng.standard_normal((80, 12))
    counts = []
    for slack in (0.0, share * exact):
        products = []
        monkeypatch.setattr(
            factorization, "multiply", lambda W, X, seen=products: seen.append(1) or W @ X
        )
        bound = factored_bound(H.copy(), 4, V, slack)
        assert exact <= bound <= exact + slack + 1e-6 * exact
        counts.append(len(products))
    assert counts[1] < counts[0]
