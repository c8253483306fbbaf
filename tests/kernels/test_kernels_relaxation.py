"""The fused pass of the relaxation agrees with its specification."""

import numpy as np
import pytest

from orthoplus.kernels import fused, reference


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 33, 1100])
@pytest.mark.parametrize("has_offset", [False, True])
def test_relax_agrees_with_reference(dtype, n, has_offset):
    rng = np.random.default_rng(n)
    L, R = (rng.standard_normal((n, 3)).astype(dtype) for _ in range(2))
    T, G = (rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
    offset = None
    if has_offset:
        offset = rng.choice([0.0, 0.5, np.inf], (n, n)).astype(dtype)
    found, expected = (T.copy(), np.empty_like(T)), (T.copy(), np.empty_like(T))
    sums = fused.relax_into((L, R), found[0], offset, G, found[1], (1.6, 3.0))
    wanted = reference.relax_into((L, R), expected[0], offset, G, expected[1], (1.6, 3.0))
    tol = 50 * np.finfo(dtype).eps  # a handful of operations on numbers of size 10
    assert np.allclose(found[0], expected[0], atol=tol, rtol=tol)
    assert np.allclose(found[1], expected[1], atol=tol, rtol=tol)
    assert np.allclose(sums, wanted, rtol=n * np.finfo(dtype).eps + 1e-12)
