"""Planted projections: feasible, of the known value, and with the condition of the appendix."""

import numpy as np
import pytest

from orthoplus.datasets import planted_onmf, planted_projection, planted_projection_from
from orthoplus.projection import project_stiefel_plus


@pytest.mark.parametrize(("n", "k"), [(40, 1), (40, 7), (9, 9)])
def test_planted_projection_is_feasible_and_has_its_value(n, k):
    planted = planted_projection(n, k, 1.0, np.random.default_rng(0))
    assert (planted.X >= 0).all()
    np.testing.assert_allclose(planted.X.T @ planted.X, np.eye(k), atol=1e-14)
    assert (planted.C * planted.X).sum() == pytest.approx(planted.value, rel=1e-13)


def test_planted_projection_repeats_with_the_same_seed():
    first, second = (planted_projection(30, 4, 0.9, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first.C, second.C)


def test_planted_projection_from_is_its_own_projection():
    rng = np.random.default_rng(1)
    X = planted_projection(60, 5, 0.5, rng).X
    L = rng.uniform(-2.0, 0.9, size=(5, 5))
    np.fill_diagonal(L, 1.0)
    planted = planted_projection_from(X, L)
    np.testing.assert_array_equal(project_stiefel_plus(planted.C).labels, planted.labels)


@pytest.mark.parametrize(
    ("L", "message"),
    [
        ([[1.0, 2.0], [0.0, 1.0]], r"\(0, 1\)"),
        ([[1.0, 0.0], [1.0, 1.0]], "need not be"),
        ([[1.0, 0.0], [0.0, 0.0]], r"L\[1, 1\]"),
    ],
)
def test_planted_projection_from_refuses_other_matrices(L, message):
    with pytest.raises(ValueError, match=message):
        planted_projection_from(np.eye(3, 2), np.array(L))


def test_planted_onmf_is_its_formula(rng):
    planted = planted_onmf(30, 12, 4, 2.5, rng)
    B = planted.B
    assert np.abs(B.T @ B - np.eye(4)).max() < 1e-14
    assert sorted(set(planted.labels.tolist()) - {-1}) == [0, 1, 2, 3]
    # The noise has norm xi, the signal norm 1; both are nonnegative.
    exact = planted_onmf(30, 12, 4, 0.0, np.random.default_rng(1))
    noisy = planted_onmf(30, 12, 4, 2.5, np.random.default_rng(1))
    assert np.linalg.norm(exact.A) == pytest.approx(1.0)
    assert np.linalg.norm(noisy.A - exact.A) == pytest.approx(2.5)
    assert noisy.A.min() >= 0.0
    assert np.abs(exact.A - exact.B @ (exact.B.T @ exact.A)).max() < 1e-15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((3, 5, 4, 0.1), "B"), ((5, 0, 2, 0.1), "`r"), ((5, 5, 2, -1.0), "`xi")],
)
def test_planted_onmf_refuses_what_cannot_be(arguments, message, rng):
    with pytest.raises(ValueError, match=message):
        planted_onmf(*arguments, rng)
