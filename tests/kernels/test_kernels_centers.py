"""Centers of rows and their swaps: compiled against the specification, and by hand."""

import numpy as np
import pytest

from orthoplus.kernels import fused, reference


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def value_of(B, centers):
    return float((np.maximum((B @ centers.T).max(axis=1), 0.0) ** 2).sum())


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 5), (60, 7, 4), (200, 12, 9)])
@pytest.mark.parametrize("is_signed", [False, True])
def test_fused_agrees_with_the_reference(shape, is_signed, rng):
    n, d, k = shape
    B = rng.random((n, d)) - 0.4 * is_signed
    centers, draws = unit(B[:k] + 0.1), rng.random((40, 2))
    for name, arguments in (("alternate_centers", (8,)), ("search_swaps", (draws, 4))):
        quick = getattr(fused, name)(B, centers, *arguments)
        plain = getattr(reference, name)(B, centers, *arguments)
        np.testing.assert_allclose(quick[0], plain[0], atol=1e-12)
        assert quick[1] == pytest.approx(plain[1], rel=1e-12)
        assert quick[2:] == plain[2:]


@pytest.mark.parametrize("module", [fused, reference])
def test_values_are_those_of_the_centers_and_only_rise(module, rng):
    B = rng.random((80, 6))
    centers = unit(B[:5])
    given = centers.copy()
    before = value_of(B, centers)
    centers, alternated = module.alternate_centers(B, centers, 3)
    assert alternated >= before * (1 - 1e-13)
    assert alternated == pytest.approx(value_of(B, centers))
    swapped, value, failures = module.search_swaps(B, centers, rng.random((30, 2)), 4)
    assert value >= alternated
    assert value == pytest.approx(value_of(B, swapped))
    assert 0 <= failures <= 30
    np.testing.assert_array_equal(given, unit(B[:5]))  # what is given stays


@pytest.mark.parametrize("module", [fused, reference])
def test_a_swap_mends_two_centers_in_one_group(module):
    B = np.repeat(np.eye(3), 10, axis=0)
    stuck = np.array([[1.0, 0.0, 0.0], [0.9, np.sqrt(0.19), 0.0], [0.0, 1.0, 0.0]])
    assert module.alternate_centers(B, stuck, 20)[1] == pytest.approx(20.0)
    draws = np.column_stack([np.zeros(20), np.linspace(0.0, 0.99, 20)])
    assert module.search_swaps(B, stuck, draws, 4)[1] == pytest.approx(30.0)


@pytest.mark.parametrize("module", [fused, reference])
def test_nothing_to_gain_is_no_error(module):
    zeros, centers = np.zeros((4, 2)), np.eye(2)
    assert module.search_swaps(zeros, centers, np.full((3, 2), 0.5), 4)[1:] == (0.0, 3)
    exact = np.eye(2)
    assert module.search_swaps(exact, centers, np.full((3, 2), 0.5), 4)[1:] == (2.0, 3)
