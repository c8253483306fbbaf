"""Moves of single rows: compiled against the specification, and against all single moves."""

import numpy as np
import pytest

from orthoplus.kernels import fused, reference


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def explained(B, labels, k):
    return sum(np.linalg.norm(B[labels == j], 2) ** 2 for j in range(k) if (labels == j).any())


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 5), (60, 7, 4), (200, 12, 9)])
@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize("goal", [-np.inf, 1e9])
def test_fused_agrees_with_the_reference(shape, is_signed, goal, rng):
    n, d, k = shape
    B = rng.random((n, d)) - 0.4 * is_signed
    B[n // 2] *= n > 1  # a row of zeros
    centers = unit(B[:k] + 0.1)
    quick = fused.settle_rows(B, centers, 12, goal)
    plain = reference.settle_rows(B, centers, 12, goal)
    np.testing.assert_allclose(quick[0], plain[0], atol=1e-10)
    assert quick[1] == pytest.approx(plain[1], rel=1e-12)


@pytest.mark.parametrize("module", [fused, reference])
def test_no_single_row_gains_by_another_move(module, rng):
    B, k = rng.random((40, 5)), 4
    first, before = module.alternate_centers(B, unit(B[:k]), 100)
    centers, value = module.settle_rows(B, first, 200)
    labels = (B @ centers.T).argmax(axis=1)
    now = explained(B, labels, k)
    assert before < value <= now * (1 + 1e-12)
    assert value == pytest.approx(now, rel=1e-7)  # power steps end when no row moves
    for i in range(len(B)):
        for j in range(k):
            other = labels.copy()
            other[i] = j
            # The bound on a move is exact up to second order in what the group turns.
            assert explained(B, other, k) <= now * (1 + 1e-4)


@pytest.mark.parametrize("module", [fused, reference])
def test_a_single_move_has_the_gain_of_its_closed_form(module):
    # The row b leaves a for c: lambda_max of [[2, s], [s, 1]] with s^2 = (b'c)^2 = 1.28.
    B = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 2.0**0.5]])
    centers = np.array([[1.0, 0.0], [-0.6, 0.8]])  # b is nearer to a's center
    _, value = module.settle_rows(B, centers, 50)
    assert value == pytest.approx(1.0 + 1.5 + np.sqrt(0.25 + 1.28))


@pytest.mark.parametrize("module", [fused, reference])
def test_moves_fill_an_empty_group_and_empty_none(module):
    B = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    centers, value = module.settle_rows(B, np.array([[1.0, 0.0], [-1.0, 0.0]]), 20)
    assert value == pytest.approx(np.linalg.norm(B[:2], 2) ** 2 + 1.0)
    assert np.linalg.norm(centers, axis=1) == pytest.approx([1.0, 1.0])
    assert module.settle_rows(np.zeros((4, 2)), np.eye(2), 5)[1] == 0.0


@pytest.mark.parametrize("module", [fused, reference])
def test_a_goal_out_of_reach_ends_the_moves(module, rng):
    B = rng.random((80, 6))
    centers = unit(B[:5])
    short, whole = (module.settle_rows(B, centers, 50, goal)[1] for goal in (1e9, -np.inf))
    assert short == module.settle_rows(B, centers, 1)[1] < whole


@pytest.mark.parametrize("module", [reference, fused])
@pytest.mark.parametrize("scale", [2.0**-400, 2.0**330])
def test_moves_do_not_depend_on_the_scale(module, scale, rng):
    B = rng.random((60, 5))
    one, total = module.settle_rows(B, unit(B[:4]), 20)
    other, other_total = module.settle_rows(scale * B, unit(B[:4]), 20)
    np.testing.assert_array_equal(other, one)
    assert other_total == scale**2 * total
