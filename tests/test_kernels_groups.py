"""Products with a matrix of one entry a row: compiled against the specification, and by hand."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from orthoplus.kernels import fused, reference

K = 3
# Sums of at most a hundred numbers of size one, in float64 for either dtype.
ROUNDING = 1e-13


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 4), (60, 33), (5, 0)])
def test_group_products_agree(dtype, order, shape, rng):
    A = rng.random(shape).astype(dtype) * (rng.random(shape) < 0.6)
    A = np.repeat(A, 2, axis=1)[:, ::2] if order == "strided" else np.array(A, order=order)
    labels = rng.integers(-1, K, size=shape[0])
    weights, W = rng.random(shape[0]), rng.random((K, shape[1]))
    S = csr_array(A)
    parts = (S.data, S.indices, S.indptr)
    X = np.zeros((shape[0], K))
    kept = np.flatnonzero(labels >= 0)
    X[kept, labels[kept]] = weights[kept]
    sums = (A.T.astype(np.float64) @ X).T
    dots = np.where(labels >= 0, (A.astype(np.float64) * W[labels]).sum(axis=1), 0.0)
    for module in (fused, reference):
        for found, expected in (
            (module.dense_group_sums(A, labels, weights, K), sums),
            (module.sparse_group_sums(parts, labels, weights, (K, shape[1])), sums),
            (module.dense_group_dots(A, labels, W), dots),
            (module.sparse_group_dots(parts, labels, W), dots),
        ):
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, expected, atol=ROUNDING)
