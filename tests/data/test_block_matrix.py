"""Points of OB+ that lie beside the blocks of the data: those of the whole matrix."""

import numpy as np
import pytest

from every_storage import BLOCKED, FORMS
from orthoplus.data.block_matrix import BlockMatrix
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.kernels import normalise_step_into


def entries(rows, X):
    """Return the rows of a point in this process."""
    return rows.gather(X.pieces) * X.scale


@pytest.mark.parametrize("form", BLOCKED)
def test_nearest_point_is_that_of_the_matrix(form, rng):
    for U in (
        rng.standard_normal((23, 3)),
        -np.abs(rng.standard_normal((9, 2))),  # no positive entry: unit vectors
        1e-300 * rng.random((9, 2)),  # the squares would be zero
        np.zeros((7, 3)),
    ):
        rows = FORMS[form](U)
        X = BlockMatrix.nearest(rows)
        exact = project_oblique_plus(U)
        assert X.shape == U.shape
        assert X.dtype == U.dtype
        np.testing.assert_allclose(entries(rows, X), exact, atol=1e-14)
        np.testing.assert_allclose(X.as_data().to_dense(), exact, atol=1e-14)
        np.testing.assert_allclose(X.cross, U.T @ exact, atol=1e-12)
        assert X.energy == pytest.approx((exact.sum(axis=1) ** 2).sum() / U.shape[1])
        labels, largest = X.largest_entries()
        expected = np.where(exact.any(axis=1), exact.argmax(axis=1), -1)
        np.testing.assert_array_equal(rows.gather(labels), expected)
        np.testing.assert_allclose(rows.gather(largest), exact.max(axis=1), atol=1e-14)


@pytest.mark.parametrize("form", BLOCKED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [0.3, 1e3])
def test_a_step_is_that_of_the_matrix(alpha, dtype, form, rng):
    U = np.linalg.qr(rng.standard_normal((200, 4)))[0].astype(dtype)
    M, weight = rng.standard_normal((4, 4)), 0.8
    M[:, 2] = 0.5  # with the long step nothing is left of this column
    U = np.abs(U)
    X = project_oblique_plus(U)
    ours = BlockMatrix.nearest(FORMS[form](U))
    np.testing.assert_allclose(ours.cross, U.T @ X, rtol=1e-5)
    new, sums = ours.stepped(M, weight, alpha)
    gradient = U @ M.astype(dtype) + weight * X.mean(axis=1, keepdims=True)
    T = project_oblique_plus(X - alpha * gradient.astype(np.float64)).astype(dtype)
    assert np.count_nonzero(T[:, 2]) == 1 if alpha > 1 else np.count_nonzero(T[:, 2]) > 1
    tol = 1e-12 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(np.asarray(new.as_data().to_dense()), T, atol=tol)
    np.testing.assert_allclose(sums, normalise_step_into(T, np.ones(4), X), rtol=tol, atol=tol)
    assert new.energy == sums[1]
    np.testing.assert_allclose(new.cross, U.T @ T, rtol=1e-4)
