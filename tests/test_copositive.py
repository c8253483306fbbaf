"""Copositivity: each proof, each certificate, and brute force over a grid."""

import numpy as np
import pytest

import orthoplus as op

HORN = np.array(
    [[1, -1, 1, 1, -1], [-1, 1, -1, 1, 1], [1, -1, 1, -1, 1], [1, 1, -1, 1, -1], [-1, 1, 1, -1, 1]]
).astype(float)


def assert_certificate(found, M):
    assert found.is_copositive is False
    assert not found
    assert found.x.min() >= 0
    assert np.linalg.norm(found.x) == pytest.approx(1.0)
    assert found.value == pytest.approx(float(found.x @ M @ found.x))
    assert found.value < 0


@pytest.mark.parametrize(
    ("M", "reason"),
    [
        (np.array([[0.0, 3.0], [3.0, 1.0]]), "M is nonnegative"),
        (np.array([[1.0, -1.0], [-1.0, 1.0]]), "M is positive semidefinite"),
        (
            np.array([[1.0, -1.0, 9.0], [-1.0, 1.0, 0.0], [9.0, 0.0, 0.0]]),
            "semidefinite plus nonnegative",
        ),
        (HORN, "no face of the orthant"),  # copositive, and neither of the above
        (np.zeros((3, 3)), "M is nonnegative"),
    ],
)
def test_copositive_matrices_are_proven(M, reason):
    found = op.is_copositive(M)
    assert found.is_copositive is True
    assert found
    assert found.x is None
    assert reason in found.reason


@pytest.mark.parametrize(
    ("M", "reason"),
    [
        (np.diag([1.0, -1e-3, 2.0]), "a diagonal entry"),
        (np.array([[1.0, -2.0], [-2.0, 1.0]]), "a pair of rows"),
        (np.array([[0.0, -1.0], [-1.0, 5.0]]), "a pair of rows"),
        (1.8 * np.eye(3) - np.ones((3, 3)) + 0.1, "a face of the orthant"),
        (HORN - 0.05 * (np.eye(5, k=2) + np.eye(5, k=-2)), "a face of the orthant"),
    ],
)
def test_certificates_are_valid(M, reason):
    found = op.is_copositive(M)
    assert_certificate(found, M)
    assert reason in found.reason


def test_search_finds_a_certificate_when_faces_are_many():
    n = 30
    M = (n - 1.0) * np.eye(n) - np.ones((n, n)) * 1.05  # only near (1, ..., 1) is it negative
    found = op.is_copositive(M)
    assert_certificate(found, M)
    assert "minimisation" in found.reason


def test_search_says_when_it_found_none():
    M = np.kron(np.eye(3), HORN) + np.kron(np.ones((3, 3)) - np.eye(3), np.ones((5, 5)))
    found = op.is_copositive(M, n_init=3)
    assert found.is_copositive is None
    assert not found
    assert found.x is None
    assert found.value >= -1e-9
    assert "Undecided: 3 starts" in found.reason
    assert op.is_copositive(M, n_init=0).value is None


def test_decision_agrees_with_a_grid(rng):
    shares = np.array([(i, j, 20 - i - j) for i in range(21) for j in range(21 - i)]) / 20.0
    decided = set()
    for _ in range(100):
        M = rng.standard_normal((3, 3))
        M = M + M.T + 1.5 * np.eye(3)
        found = op.is_copositive(M)
        least = np.einsum("ri,ij,rj->r", shares, M, shares).min()
        assert found.is_copositive is not None
        assert found.is_copositive or found.value < 0
        if least < 0:
            assert found.is_copositive is False
        decided.add(found.is_copositive)
    assert decided == {True, False}


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_scale_does_not_matter(scale):
    assert op.is_copositive(scale * HORN).is_copositive
    assert op.is_copositive(scale * (HORN - 0.01)).is_copositive is False


@pytest.mark.parametrize(
    ("M", "options", "message"),
    [
        (np.ones((2, 3)), {}, r"`M` has shape \(2, 3\): a square matrix is needed"),
        ([[0.0, 1.0], [0.0, 0.0]], {}, "`M` is not symmetric"),
        (np.empty((0, 0)), {}, r"`M` has shape \(0, 0\): it is empty"),
        ([[np.nan]], {}, "`M` has 1 entries that are NaN"),
        (np.eye(2), {"tol": 0.0}, "`tol=0.0` is out of range"),
        (np.eye(2), {"n_init": -1}, "`n_init=-1` is out of range"),
    ],
)
def test_bad_input_is_explained(M, options, message):
    with pytest.raises(ValueError, match=message):
        op.is_copositive(M, **options)


def test_bad_seed_is_explained():
    with pytest.raises(TypeError, match=r"`rng` must be a numpy\.random\.Generator or a seed"):
        op.is_copositive(np.eye(2), rng=-1)


def test_horn_matrix_is_on_the_boundary(rng):
    """It is copositive; less any multiple of x x' with x'Hx = 0 and x > 0 there it is not."""
    zero = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    assert zero @ HORN @ zero == 0.0
    for size in (1e-1, 1e-3, 1e-6):
        below = HORN - size * np.outer(zero, zero)
        assert_certificate(op.is_copositive(below), below)
        assert op.is_copositive(HORN + size * np.eye(5)).is_copositive
        lowered = HORN - size * np.eye(5)
        assert_certificate(op.is_copositive(lowered), lowered)
    order = rng.permutation(5)
    assert op.is_copositive(HORN[np.ix_(order, order)] * np.outer(*[1 + rng.random(5)] * 2))


def test_hildebrand_matrix_is_copositive():
    """An extreme ray with angles t, sum below pi: neither semidefinite nor plus nonnegative."""
    t = np.array([0.3, 0.4, 0.5, 0.6, 0.7])
    M = np.eye(5)
    for i in range(5):
        M[i, (i + 1) % 5] = M[(i + 1) % 5, i] = -np.cos(t[i])
        M[i, (i + 2) % 5] = M[(i + 2) % 5, i] = np.cos(t[i] + t[(i + 1) % 5])
    assert np.linalg.eigvalsh(M)[0] < -0.1
    assert op.is_copositive(M).is_copositive
    found = op.is_copositive(M - 1e-4 * np.eye(5))
    assert_certificate(found, M - 1e-4 * np.eye(5))
