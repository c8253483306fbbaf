"""The coordinates of the critical space, and the search over the faces of a cone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.optimality.critical_cone import CriticalSpace, decide_curvature

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_coordinates_are_orthonormal_and_span_the_space(seed):
    rng = np.random.default_rng(seed)
    n, k = 6, 3
    X = (
        random_stiefel_plus(n, k, rng, n_zero_rows=2)
        if seed % 2
        else random_oblique_plus(n, k, rng)
    )
    free = (X == 0) & (rng.uniform(size=X.shape) < 0.5)
    space = CriticalSpace(X, free, is_exclusive=True)
    assert space.dimension == np.count_nonzero(X) - k + free.sum()
    basis = np.array([space.expand(unit).ravel() for unit in np.eye(space.dimension)])
    np.testing.assert_allclose(basis @ basis.T, np.eye(space.dimension), atol=1e-12)
    D = rng.standard_normal((n, k))
    np.testing.assert_allclose(space.restrict(D), basis @ D.ravel(), atol=1e-12)
    D = space.expand(rng.standard_normal(space.dimension))
    np.testing.assert_allclose((X * D).sum(axis=0), 0.0, atol=1e-12)
    assert not D[(X == 0) & ~free].any()


def test_groups_are_the_rows_of_the_free_entries_when_exclusive():
    X = np.zeros((4, 2))
    X[0, 0] = X[1, 1] = 1.0
    free = np.array([[0, 0], [0, 0], [1, 1], [0, 1]], dtype=bool)
    assert CriticalSpace(X, free, is_exclusive=True).groups == [[0, 1], [2]]
    assert CriticalSpace(X, free, is_exclusive=False).groups == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("shift", "expected"),
    [
        # Horn's matrix is copositive, but neither positive semidefinite nor nonnegative, nor a sum
        # of the two; it has zeros on the cone, so it is strictly so only after a shift.
        (0.0, (True, False)),
        (0.01, (True, True)),
        (-0.01, (False, False)),
    ],
)
def test_faces_decide_the_horn_matrix(shift, expected):
    horn = np.ones((5, 5))
    for i in range(5):
        horn[i, (i + 1) % 5] = horn[(i + 1) % 5, i] = -1.0
    X = np.eye(6, 1)
    space = CriticalSpace(X, X == 0, is_exclusive=False)
    matrix = np.zeros((6, 6))
    matrix[1:, 1:] = horn + shift * np.eye(5)
    found = decide_curvature(space, lambda D: matrix @ D, None, tol=1e-6)
    assert found.smallest_curvature == pytest.approx(1.0 - 5**0.5 + shift)
    answers = found.satisfies_second_order_necessary, found.satisfies_second_order_sufficient
    assert answers == expected
