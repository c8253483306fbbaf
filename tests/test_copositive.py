"""Copositivity: each proof, each certificate, brute force over a grid and over all faces."""

import numpy as np
import pytest

import orthoplus as op
from orthoplus.bench import copositivity

HORN = copositivity.HORN


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
    assert "minimization" in found.reason


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
        (np.eye(2), {"tol": -1e-9}, "`tol=-1e-09` is out of range"),
        # Asymmetric in rows that are small beside the largest entry.
        ([[1e10, 0, 0], [0, 1, -0.5], [0, 0.2, 1]], {}, "`M` is not symmetric"),
        ([[0.0, 1e-12], [0.0, 0.0]], {}, "`M` is not symmetric"),
        (np.eye(2), {"n_init": -1}, "`n_init=-1` is out of range"),
    ],
)
def test_bad_input_is_explained(M, options, message):
    with pytest.raises(ValueError, match=message):
        op.is_copositive(M, **options)


def test_bad_seed_is_explained():
    with pytest.raises(TypeError, match=r"`rng` must be .* a nonnegative integer seed"):
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
    moved = HORN[np.ix_(order, order)]
    d = 2.0 ** rng.integers(-20, 21, 5)  # exact
    assert op.is_copositive(moved * np.outer(d, d))
    # Other factors round to one side of the border or the other; a tolerance covers that.
    assert op.is_copositive(moved * np.outer(*[1 + rng.random(5)] * 2), tol=1e-13)


def test_hildebrand_matrix_is_copositive():
    """An extreme ray with angles t, sum below pi: neither semidefinite nor plus nonnegative."""
    t = np.array([0.3, 0.4, 0.5, 0.6, 0.7])
    M = np.eye(5)
    for i in range(5):
        M[i, (i + 1) % 5] = M[(i + 1) % 5, i] = -np.cos(t[i])
        M[i, (i + 2) % 5] = M[(i + 2) % 5, i] = np.cos(t[i] + t[(i + 1) % 5])
    assert np.linalg.eigvalsh(M)[0] < -0.1
    # The cosines are rounded, to one side of the border or the other.
    assert op.is_copositive(M).is_copositive is not False
    assert op.is_copositive(M, tol=1e-13).is_copositive
    found = op.is_copositive(M - 1e-4 * np.eye(5))
    assert_certificate(found, M - 1e-4 * np.eye(5))


def test_verdicts_on_scaled_matrices_agree_with_an_exact_oracle():
    found = [
        copositivity.count_verdicts(kind, 100, np.random.default_rng([1, number]))
        for number, kind in enumerate(copositivity.KINDS)
    ]
    assert [verdicts["note"] for verdicts in found] == [""] * len(found)
    assert all(sum(one[verdict] for one in found) for verdict in copositivity.VERDICTS.values())


def test_oracle_knows_the_border():
    oracle = copositivity
    assert oracle.is_copositive_exactly(HORN)
    assert not oracle.is_copositive_exactly(HORN - 2.0**-52 * np.eye(5))
    assert not oracle.is_copositive_exactly(np.array([[0.0, -1.0], [-1.0, 5.0]]))
    assert oracle.is_copositive_exactly(np.array([[0.0, 1.0], [1.0, 0.0]]))


def test_small_rows_are_refuted_beside_a_large_entry():
    M = np.array([[1e10, 0, 0], [0, 1, -2], [0, -2, 1.0]])
    assert_certificate(op.is_copositive(M), M)


@pytest.mark.parametrize("seed", range(4))
def test_verdict_is_that_of_the_matrix_before_a_diagonal_scaling(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        n = int(rng.integers(2, 8))
        M = rng.standard_normal((n, n))
        M = M + M.T + rng.uniform(0, 3) * np.eye(n)
        d = 10.0 ** rng.uniform(-4, 4, n)
        scaled = d[:, None] * M * d
        scaled = np.triu(scaled) + np.triu(scaled, 1).T
        before, after = op.is_copositive(M), op.is_copositive(scaled)
        assert before.is_copositive is not None
        assert after.is_copositive is before.is_copositive
        if before.is_copositive is False:
            assert_certificate(after, scaled)


@pytest.mark.parametrize("n", [4, 8, 32])
def test_verdict_within_rounding_of_the_border_is_no_claim(n):
    """I - ee'/n, exact for these n, is singular along e; a rounding less is not copositive."""
    M = np.eye(n) - np.ones((n, n)) / n
    assert op.is_copositive(M).is_copositive is True
    for size in (2.0**-52, 2.0**-50):
        below = M - size * np.eye(n)
        found = op.is_copositive(below, n_init=2)
        assert found.is_copositive is not True
        if found.is_copositive is False:
            assert_certificate(found, below)
    assert op.is_copositive(M + 1e-12 * np.eye(n)).is_copositive is True


def test_claim_with_a_tolerance_says_so():
    M = np.array([[1.0, -1.0 - 1e-9], [-1.0 - 1e-9, 1.0]])
    assert op.is_copositive(M).is_copositive is False
    found = op.is_copositive(np.diag([1.0, 1e-8]) @ M @ np.diag([1.0, 1e-8]), tol=1e-8)
    assert found.is_copositive is True
    assert found.reason.startswith("Up to tol=1e-08: ")


@pytest.mark.parametrize(
    ("M", "expected"),
    [
        ([[0, 0, 1], [0, 1, -1], [1, -1, 1]], True),
        ([[0, -1e-9, 1], [-1e-9, 1, 0], [1, 0, 1]], False),
        ([[0, 0, 0], [0, 0, -1e-30], [0, -1e-30, 0]], False),
        ([[0, 3], [3, -1e-30]], False),
        ([[0, 1, 1], [1, 1, -2], [1, -2, 1]], False),
    ],
)
def test_rows_with_a_zero_on_the_diagonal_are_decided(M, expected):
    M = np.array(M, dtype=float)
    for scale in (1e-12, 1.0, 1e12):
        found = op.is_copositive(scale * M)
        assert found.is_copositive is expected
        if not expected:
            assert_certificate(found, scale * M)


def test_semidefinite_proof_is_exact_where_rounding_leaves_a_doubt(rng):
    """Whole numbers of rank 2: the lowest eigenvalue is 0, and is computed with either sign."""
    for _ in range(20):
        F = rng.integers(-4, 5, (20, 2)).astype(float)
        found = op.is_copositive(F @ F.T)
        assert found.is_copositive is True
    M = F @ F.T
    M[3, 3] = np.nextafter(M[3, 3], -np.inf)  # no longer semidefinite, by a rounding
    assert op.is_copositive(M, n_init=1).is_copositive is not True
