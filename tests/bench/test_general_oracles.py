"""The oracles agree with closed forms, with other enumerations and with each other."""

from itertools import permutations

import numpy as np
import pytest

import orthoplus as op
from brute_force import minimize_over_supports, random_on_support, supports
from orthoplus.bench.oracles import global_minimum, range_of
from orthoplus.bench.support_descent import Polynomial, full_labelings, minimize_on_supports
from orthoplus.bench.tiny_instances import FAMILIES, instances
from orthoplus.problems import KLONMF, ONMF, QAP, KIndicators, KMeans, SymmetricONMF, TraceMin


def polynomial(B, *, M=None, quartic=0.0):
    """<B, X> + tr(X'MX) + q/4 sum X^4."""
    n, k = B.shape
    M = np.zeros((n, n)) if M is None else M
    H = np.einsum("il,jm->ijlm", 2.0 * M, np.eye(k))
    return Polynomial(B, H, np.zeros((n, k)), quartic)


@pytest.mark.parametrize("family", FAMILIES)
def test_optimum_is_feasible_attained_and_below_every_random_point(family, rng):
    for problem in instances(family, 6, seed=3):
        value, X = global_minimum(problem)
        n, k = problem.shape
        assert X.min() >= 0.0
        assert np.abs(X.T @ X - np.eye(k)).max() < 1e-12
        assert value == pytest.approx(problem.value(X), rel=1e-12, abs=1e-12)
        deals = [random_on_support(H, rng) for H in supports(min(n, 4), k)] if n <= 4 else []
        for _ in range(200):
            deal = rng.permutation(np.concatenate([np.arange(k), rng.integers(-1, k, n - k)]))
            deals.append(random_on_support(deal[:, None] == np.arange(k), rng))
        slack = 1e-9 * range_of(problem, value, rng)
        assert min(map(problem.value, deals)) >= value - slack


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: ONMF(rng.random((5, 3)), 2),
        lambda rng: KMeans(rng.standard_normal((5, 2)), 2),
        lambda rng: KLONMF(rng.random((5, 3)) + 0.1, 2),
        lambda rng: SymmetricONMF((lambda A: A @ A.T)(rng.random((5, 3))), 2),
        lambda rng: op.problems.laplacian_embedding(np.ones((5, 5)) - np.eye(5), 3),
    ],
    ids=["onmf", "k-means", "kl", "symmetric", "laplacian"],
)
def test_optimum_is_that_of_all_refined_supports(make, rng):
    problem = make(rng)
    assert global_minimum(problem).value == pytest.approx(minimize_over_supports(problem)[0])


def test_indefinite_quadratic_form_agrees_with_a_grid(rng):
    angles = np.linspace(0.0, np.pi / 2, 400)
    sin, cos = np.sin(angles), np.cos(angles)
    grid = np.stack([np.outer(sin, cos), np.outer(sin, sin), np.outer(cos, np.ones(400))], axis=-1)
    for _ in range(20):
        M = rng.standard_normal((3, 3))
        M += M.T
        best = np.einsum("abi,ij,abj->ab", grid, M, grid).min()
        found = global_minimum(TraceMin(M, 1)).value
        # The nearest of the grid is within h = pi / 800 in either angle, and f'' <= 4 ||M||.
        assert found <= best + 1e-12
        assert best - found <= 4.0 * np.linalg.norm(M, 2) * (np.pi / 800) ** 2


def test_eigenvector_of_mixed_signs_is_not_taken():
    # The smallest eigenvalue, -1, belongs to (1, -1); over x >= 0 the least is at e_1 or e_2.
    assert global_minimum(TraceMin(np.array([[0.0, 1.0], [1.0, 0.0]]), 1)).value == 0.0


def test_assignment_tries_every_permutation(rng):
    A, B, C = rng.random((3, 5, 5))
    problem = QAP(A, B, C)
    best = min(problem.value_of(list(p)) for p in permutations(range(5)))
    assert global_minimum(problem).value == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("shape", [(6, 2), (5, 3), (6, 3)])
def test_linear_polynomial_is_the_certified_projection(shape, rng):
    for _ in range(10):
        C = rng.standard_normal(shape)
        value = global_minimum(polynomial(-C)).value
        assert value == pytest.approx(-op.project(C).value, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("shape", [(6, 2), (6, 3)])
def test_descent_agrees_with_eigenvalues(shape, rng):
    for _ in range(10):
        M = rng.standard_normal((shape[0],) * 2)
        M += M.T
        value = global_minimum(polynomial(np.zeros(shape), M=M)).value
        assert value == pytest.approx(global_minimum(TraceMin(M, shape[1])).value, abs=1e-9)


def test_sum_of_fourth_powers_has_equal_weights():
    # A group of m rows costs at least 1/m: two groups of three are the best.
    value, X = global_minimum(polynomial(np.zeros((6, 2)), quartic=4.0))
    assert value == pytest.approx(2.0 / 3.0, rel=1e-10)
    assert X.max() == pytest.approx(3.0**-0.5, rel=1e-5)


def test_indicators_of_one_column_are_a_closed_form(rng):
    for _ in range(10):
        u = rng.standard_normal((6, 1))
        fit = max(np.linalg.norm(np.maximum(u, 0.0)), np.linalg.norm(np.minimum(u, 0.0)))
        wanted = float((u**2).sum()) + 1.0 - 2.0 * fit
        assert global_minimum(KIndicators(u)).value == pytest.approx(wanted, abs=1e-10)


def test_rotated_indicator_matrix_is_found(rng):
    X = random_on_support(np.eye(3)[[0, 1, 2, 0, 1, 2]], rng)
    Y = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    value, found = global_minimum(KIndicators(X @ Y.T))
    assert value == pytest.approx(0.0, abs=1e-9)
    assert np.allclose(found @ found.T, X @ X.T, atol=1e-6)


@pytest.mark.parametrize("family", ["KIndicators, any U", "quadratic, any H", "quartic"])
def test_more_starts_find_nothing_better(family):
    for problem in instances(family, 2, seed=11):
        value = global_minimum(problem).value
        rng = np.random.default_rng(5)
        thorough = minimize_on_supports(problem, rng, n_starts=16, rounds=((60, 0.05),))[0]
        assert value <= thorough + 1e-9 * range_of(problem, value, rng)


@pytest.mark.parametrize(("n", "k", "partitions"), [(4, 2, 7), (6, 3, 90), (7, 3, 301)])
def test_labelings_are_counted_by_stirling_numbers(n, k, partitions):
    assert len(full_labelings(n, k, up_to_order=True)) == partitions
    surjections = full_labelings(n, k, up_to_order=False)
    assert len(surjections) == partitions * (2 if k == 2 else 6)


def test_range_follows_the_scale_of_f_and_no_constant(rng):
    A, B = rng.random((2, 5, 5))
    spreads = [
        range_of(problem, global_minimum(problem).value, np.random.default_rng(0))
        for problem in (QAP(A, B), QAP(1e3 * A, B), QAP(A, B, constant=7.0))
    ]
    assert spreads[1] == pytest.approx(1e3 * spreads[0])
    assert spreads[2] == pytest.approx(spreads[0])
    assert spreads[0] > 0.0


def test_instances_depend_on_number_and_seed_only():
    first, again = (list(instances("QAP", count, seed=1)) for count in (3, 5))
    assert all((p.A == q.A).all() for p, q in zip(first, again, strict=False))
    other = next(instances("QAP", 1, seed=2))
    assert other.shape != first[0].shape or (other.A != first[0].A).any()


def test_problem_without_an_oracle_is_refused():
    with pytest.raises(TypeError, match="no oracle for a problem of type Projection"):
        global_minimum(op.problems.Projection(np.eye(3, 2)))
