"""QAP: value over permutations, centering, matched rows, the bound."""

from itertools import permutations

import numpy as np
import pytest

from orthoplus import EP4Orth, solve
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.methods import AssignmentSearch
from orthoplus.problems import QAP


def matrix_of(p):
    return np.eye(len(p))[np.asarray(p)]


@pytest.fixture
def problem(rng):
    return QAP(*rng.standard_normal((3, 5, 5)), constant=1.5)


def test_value_is_the_sum_over_pairs(problem):
    p = [3, 0, 4, 1, 2]
    pairs = sum(problem.A[i, j] * problem.B[p[i], p[j]] for i in range(5) for j in range(5))
    expected = pairs + sum(problem.C[i, p[i]] for i in range(5)) + 1.5
    assert problem.value_of(p) == pytest.approx(expected, rel=1e-13)
    assert problem.value(matrix_of(p)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("is_symmetric", [False, True])
def test_centered_problem_agrees_on_permutations_and_not_elsewhere(is_symmetric, rng):
    A, B, C = rng.random((3, 5, 5))
    problem = QAP(A + A.T, B + B.T) if is_symmetric else QAP(A, B, C)
    frozen = problem.freeze(random_oblique_plus(5, 5, rng))
    assert abs(frozen.A.sum()) + abs(frozen.B.sum()) <= 1e-12
    for p in permutations(range(5)):
        assert frozen.value_of(p) == pytest.approx(problem.value_of(p), rel=1e-12)
    X = random_oblique_plus(5, 5, rng)
    assert abs(frozen.value(X) - problem.value(X)) > 1e-3


@pytest.mark.parametrize("which", ["A", "B", "both", "neither"])
def test_symmetrized_problem_has_the_same_values_everywhere(which, rng):
    A, B, C = rng.standard_normal((3, 5, 5))
    A = A + A.T if which in ("A", "both") else A
    B = B + B.T if which in ("B", "both") else B
    problem = QAP(A, B, C, constant=2.0)
    same = problem.symmetrized()
    assert same.is_symmetric == (which != "neither")
    assert (same is problem) == (which in ("both", "neither"))
    X = random_oblique_plus(5, 5, rng)
    value, gradient = problem.value_and_gradient(X)
    assert same.value(X) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(same.value_and_gradient(X)[1], gradient, atol=1e-12)


@pytest.mark.parametrize("has_linear", [False, True])
def test_matched_problem_is_the_whole_one_with_rows_fixed(has_linear, rng):
    A, B, C = rng.standard_normal((3, 5, 5))
    whole = QAP(A, B, C if has_linear else None)
    rest = whole.match(np.array([3, 1]), np.array([0, 4]))
    rows, columns = np.array([0, 2, 4]), np.array([1, 2, 3])
    assert rest.shape == (3, 3)
    for p in permutations(range(3)):
        full = np.empty(5, dtype=int)
        full[[3, 1]], full[rows] = [0, 4], columns[list(p)]
        assert rest.value_of(p) == pytest.approx(whole.value_of(full), rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_bound_is_below_all_permutations(n, rng):
    for _ in range(10):
        problem = QAP(*rng.standard_normal((3, n, n)), constant=rng.standard_normal())
        best = min(problem.value_of(p) for p in permutations(range(n)))
        assert problem.lower_bound() <= best + 1e-12


@pytest.mark.parametrize("which", ["A", "B"])
def test_bound_is_attained_when_f_is_linear(which, rng):
    M, C = rng.standard_normal((2, 5, 5))
    zero = np.zeros((5, 5))
    problem = QAP(zero, M, C) if which == "A" else QAP(M, zero, C)
    bound, p = problem.gilmore_lawler()
    assert problem.value_of(p) == pytest.approx(bound, rel=1e-12)
    assert bound == pytest.approx(min(problem.value_of(q) for q in permutations(range(5))))


def test_size_grows_with_the_data(rng):
    A, B, C = rng.random((3, 6, 6))
    assert QAP(3 * A, B, 3 * C).size == pytest.approx(3 * QAP(A, B, C).size)
    assert QAP(np.ones((2, 2)), np.ones((2, 2))).size == 1.0


def test_solve_returns_a_permutation_with_its_gap(rng):
    problem = QAP(*rng.random((2, 7, 7)))
    result = solve(problem)
    np.testing.assert_array_equal(np.sort(result.labels), np.arange(7))
    assert result.violation == 0.0
    assert result.value == pytest.approx(problem.value_of(result.labels))
    assert result.gap >= 0
    searched = solve(problem, method=AssignmentSearch())
    np.testing.assert_array_equal(searched.labels, result.labels)  # the preset
    assert result.value <= solve(problem, method=EP4Orth.for_assignment()).value


@pytest.mark.parametrize("has_linear", [False, True])
def test_normalized_problem_orders_permutations_alike_and_has_size_one(has_linear, rng):
    A, B, C = rng.random((3, 5, 5))
    problem = QAP(A, B, C if has_linear else None)
    relaxed = problem.normalized
    assert relaxed.size == pytest.approx(1.0, rel=1e-12)
    assert np.linalg.norm(relaxed.A) == pytest.approx(np.linalg.norm(relaxed.B), rel=1e-12)
    pairs = np.array([(problem.value_of(p), relaxed.value_of(p)) for p in permutations(range(5))])
    slope, offset = np.polyfit(*pairs.T, 1)
    assert slope > 0
    # Entries have 24 bits.
    np.testing.assert_allclose(slope * pairs[:, 0] + offset, pairs[:, 1], atol=1e-6)


@pytest.mark.parametrize("scales", [(1e-12, 1.0), (1.0, 1e12), (3e-7, 7.1e5)])
def test_normalized_problem_does_not_depend_on_the_scale(scales, rng):
    A, B, C = rng.integers(0, 100, (3, 9, 9)).astype(float)
    one = QAP(A, B, C).normalized
    other = QAP(scales[0] * A, scales[1] * B, scales[0] * scales[1] * C).normalized
    for name in ("A", "B", "C"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_constant_matrices_are_normalized():
    relaxed = QAP(np.ones((3, 3)), np.ones((3, 3))).normalized
    assert not relaxed.A.any()
    assert not relaxed.B.any()


@pytest.mark.parametrize("is_constant", [False, True])
def test_bound_is_the_larger_of_those_of_a_matrix_and_its_symmetric_part(is_constant, rng):
    A, B = rng.random((2, 5, 5))
    if is_constant:  # along the rows: f is linear, and only the matrix itself shows it
        B[:] = B[:, :1]
    whole = QAP(A + A.T, B)
    own, symmetric = whole._gilmore_lawler[0], whole.symmetrized()._gilmore_lawler[0]
    # A bound lies a margin for rounding below what was computed.
    assert whole.lower_bound() == pytest.approx(max(own, symmetric), rel=1e-12)
    assert (own > symmetric) == is_constant
    if is_constant:
        best = min(whole.value_of(p) for p in permutations(range(5)))
        assert whole.lower_bound() == pytest.approx(best, rel=1e-11)


@pytest.mark.parametrize("p", [[0, 1], [0, 0, 1], [0, -1, 1], [0.0, 1.0, 2.0], [1, 2, 3]])
def test_bad_permutations_are_explained(p):
    with pytest.raises(ValueError, match="does not contain each of 0 to 2 exactly once"):
        QAP(np.eye(3), np.eye(3)).value_of(p)


def test_bad_matches_are_explained():
    with pytest.raises(ValueError, match="`rows` has 2 entries, 1 of them distinct"):
        QAP(np.eye(3), np.eye(3)).match(np.array([0, 0]), np.array([0, 1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 3)), np.eye(2)), r"`A` has shape \(2, 3\): a square matrix is needed"),
        ((np.eye(2), np.eye(3)), r"`A` has shape \(2, 2\) and `B` \(3, 3\).*Pad the smaller"),
        ((np.eye(2), np.eye(2), np.eye(3)), r"`A` has shape \(2, 2\) and `C` \(3, 3\)"),
        ((np.eye(2), [[np.nan, 0], [0, 0]]), "`B` has 1 entries that are NaN"),
        ((np.empty((0, 0)), np.empty((0, 0))), r"`A` has shape \(0, 0\): it is empty"),
    ],
)
def test_bad_matrices_are_explained(arguments, message):
    with pytest.raises(ValueError, match=message):
        QAP(*arguments)
