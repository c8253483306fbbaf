"""The search over supports: better than its start, locally optimal, and honest about it."""

import numpy as np
import pytest

import orthoplus as op
from brute_force import minimize_over_supports
from orthoplus.bench.general_methods import _random_smooth
from orthoplus.core.method import iterate, run
from orthoplus.geometry.stiefel import assemble, keep_largest, random_stiefel_plus, violation
from orthoplus.linalg.row_gains import entries_of
from orthoplus.methods import SupportSearch
from orthoplus.methods.refine import refine_and_evaluate
from orthoplus.methods.search.support_descent import SupportPoint, point_of, try_support
from orthoplus.methods.search.support_moves import Scores, exchanged, kicked, moved
from orthoplus.methods.search.support_search import improve_support
from orthoplus.problems import ONMF, KIndicators, KMeans, Projection, Smooth, TraceMin


def quadratic(n, k, rng):
    H = rng.standard_normal((n * k, n * k))
    H, B = H + H.T, rng.standard_normal((n, k))
    return Smooth(
        lambda X: float(0.5 * X.ravel() @ H @ X.ravel() + (B * X).sum()),
        (n, k),
        jac=lambda X: (H @ X.ravel()).reshape(n, k) + B,
    )


PROBLEMS = {
    "plain f": lambda rng: quadratic(8, 3, rng),
    "trace": lambda rng: TraceMin(np.cov(rng.standard_normal((8, 20))), 3),
    "onmf": lambda rng: ONMF(rng.random((10, 6)), 3),
    "k-means": lambda rng: KMeans(rng.random((10, 2)), 3),
    "square": lambda rng: quadratic(5, 5, rng),
    "one column": lambda rng: quadratic(7, 1, rng),
}
every_problem = pytest.mark.parametrize("name", PROBLEMS)


@every_problem
@pytest.mark.parametrize("seed", range(3))
def test_answer_is_feasible_and_never_worse_than_the_start(name, seed):
    rng = np.random.default_rng(seed)
    problem = PROBLEMS[name](rng)
    X = random_stiefel_plus(*problem.shape, rng)
    result = op.solve(problem, X, method=SupportSearch())
    assert violation(result.X) < 1e-12
    assert result.value <= problem.value(X) + 1e-12 * abs(result.value)


@every_problem
def test_no_move_of_a_single_row_lowers_f_where_the_result_says_so(name, rng):
    problem = PROBLEMS[name](rng)
    n, k = problem.shape
    result = op.solve(problem, method=SupportSearch(effort=1e7))
    assert result.is_row_optimal is True
    labels, weights = entries_of(result.X)
    point = SupportPoint(labels, weights, result.value)
    for row in range(n):
        for column in range(k + 1):
            neighbor = moved(point, np.array([[row, column]]), k)
            if neighbor is None or column == labels[row]:
                continue
            found = try_support(problem, *neighbor, max_iter=500).point
            if problem.has_exact_gains:  # the claim leaves the other rows in proportion
                continue
            assert found.value >= result.value - 1e-6 * abs(result.value)
    if problem.has_exact_gains:
        assert problem.move_gains(result.X).max() <= 1e-9 * abs(result.value)


@pytest.mark.parametrize("seed", range(4))
def test_optimum_is_that_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    problem = Projection(rng.standard_normal((6, 2)))
    best = minimize_over_supports(problem)[0]
    X = random_stiefel_plus(6, 2, rng)
    assert op.solve(problem, X, method=SupportSearch()).value == pytest.approx(best, abs=1e-10)


def test_search_finds_what_refinement_cannot(rng):
    A = np.kron(np.eye(3), np.ones((10, 1))) @ rng.random((3, 6)) + 0.01 * rng.random((30, 6))
    problem = ONMF(A, 3)
    X = assemble(np.arange(30) % 3, np.ones(30), 3)  # every group in each column
    without = op.solve(problem, X, method=op.EP4Orth(max_iter=1), search=False)
    found = op.solve(problem, X, method=SupportSearch())
    assert found.value < 0.1 * problem.value(X)
    assert found.value <= without.value * (1.0 + 1e-12)


@every_problem
def test_search_is_deterministic_and_resumes_bit_for_bit(name, rng):
    problem, search = PROBLEMS[name](rng), SupportSearch(seed=3, patience=3)
    first = search.init(problem, random_stiefel_plus(*problem.shape, rng))
    states = []
    for state in iterate(problem, search, first):
        states.append(state)
        if search.stop()(state) is not op.Status.RUNNING:
            break
    for middle in (states[len(states) // 2], states[0]):
        last, _ = run(problem, search, middle, search.stop())
        np.testing.assert_array_equal(last.X, states[-1].X)
        assert last.value == states[-1].value
    values = [state.value for state in states]
    assert values == sorted(values, reverse=True)


def test_search_leaves_its_start_untouched(rng):
    problem = quadratic(8, 3, rng)
    X = random_stiefel_plus(8, 3, rng)
    before = X.copy()
    op.solve(problem, X, method=SupportSearch())
    np.testing.assert_array_equal(X, before)


def test_search_is_scale_free(rng):
    H = rng.standard_normal((24, 24))
    X = random_stiefel_plus(8, 3, rng)
    labels = []
    for factor in (1.0, 2.0**-40, 2.0**40):
        M = factor * (H + H.T)
        f = Smooth(
            lambda X, M=M: float(0.5 * X.ravel() @ M @ X.ravel()),
            (8, 3),
            jac=lambda X, M=M: (M @ X.ravel()).reshape(8, 3),
        )
        labels.append(op.solve(f, X, method=SupportSearch()).labels)
    np.testing.assert_array_equal(labels[0], labels[1])
    np.testing.assert_array_equal(labels[0], labels[2])


def test_budget_bounds_the_evaluations(rng):
    problem = quadratic(40, 5, rng)
    few = op.solve(problem, method=SupportSearch(effort=200.0 * 100))
    many = op.solve(problem, method=SupportSearch(effort=200.0 * 2000))
    assert few.n_eval < many.n_eval
    assert many.value <= few.value + 1e-12 * abs(few.value)


def test_search_is_switched_off_by_one_option(rng):
    problem = quadratic(8, 3, rng)
    without, with_it = (op.solve(problem, search=search) for search in (False, True))
    assert without.is_row_optimal is None
    assert with_it.value <= without.value + 1e-12 * abs(without.value)
    assert with_it.is_row_optimal is True


def test_own_search_is_used_and_others_are_refused(rng):
    problem = quadratic(8, 3, rng)
    short = op.solve(problem, search=SupportSearch(patience=0))
    assert short.n_eval < op.solve(problem).n_eval
    with pytest.raises(TypeError, match="`search`"):
        op.solve(problem, search="yes")


def test_moves_that_empty_a_column_are_not_made():
    point = SupportPoint(np.array([0, 1, 1]), np.array([1.0, 0.6, 0.8]), 0.0)
    assert moved(point, np.array([[0, 1]]), 2) is None
    labels, weights = moved(point, np.array([[1, 0]]), 2)
    np.testing.assert_array_equal(labels, [0, 0, 1])
    assert (weights > 0).all()
    labels, weights = exchanged(point, np.array([0, 2]), 2)
    np.testing.assert_array_equal(labels, [1, 1, 0])


def test_kicks_leave_no_column_empty(rng):
    for _ in range(200):
        n, k = int(rng.integers(2, 8)), int(rng.integers(1, 4))
        if k > n:
            continue
        problem = TraceMin(np.eye(n), k)
        point = point_of(problem, random_stiefel_plus(n, k, rng))
        gains = Scores(problem, point).gains
        for turn in range(5):
            labels, weights = kicked(point, gains, rng, turn)
            assert set(range(k)) <= set(labels.tolist())
            assert len(weights) == n


def test_trial_with_a_target_is_given_up_but_never_worse_than_its_start(rng):
    problem = quadratic(8, 3, rng)
    X = random_stiefel_plus(8, 3, rng)
    labels, weights = entries_of(X)
    full = try_support(problem, labels, weights, max_iter=500)
    hopeless = try_support(problem, labels, weights, target=full.point.value - 100.0)
    assert full.is_converged
    assert hopeless.n_eval < full.n_eval
    assert full.point.value <= hopeless.point.value <= problem.value(X)


def test_improved_support_is_feasible_and_never_worse(rng):
    problem = quadratic(12, 3, rng)
    X = keep_largest(random_stiefel_plus(12, 3, rng))
    found = improve_support(problem, X, 300)
    assert violation(found) < 1e-12
    assert problem.value(found) <= problem.value(X)


def planted(n, k, noise, seed):
    rng = np.random.default_rng(seed)
    H = np.eye(k)[np.arange(n) % k] / np.sqrt(n / k)
    return KIndicators(np.linalg.qr(H + noise * rng.standard_normal((n, k)) / np.sqrt(n))[0])


def test_clear_clusters_are_not_kicked_and_claims_hold():
    problem = planted(60, 3, 0.3, 0)
    start = assemble(np.r_[1, 2, 0, np.arange(3, 60) % 3], np.ones(60), 3)  # three rows are wrong
    result = op.solve(problem, start, method=SupportSearch())
    assert problem.is_clear(result.value)
    assert result.is_row_optimal is True
    assert result.n_iter == 1
    point = SupportPoint(*entries_of(result.X), result.value)
    for row in range(60):
        for column in range(4):
            neighbor = moved(point, np.array([[row, column]]), 3)
            if neighbor is not None and column != point.labels[row]:
                assert try_support(problem, *neighbor).point.value >= result.value - 1e-12
    unclear = op.solve(planted(60, 3, 2.0, 0), method=SupportSearch())
    assert unclear.n_iter > 1


def test_bounds_that_exclude_all_moves_need_no_other_score(monkeypatch):
    problem = planted(60, 3, 0.1, 0)
    X = op.solve(problem, search=False).X
    scores = Scores(problem, point_of(problem, X))
    assert scores.exclude_all(0.0)
    assert scores.gains.max() < 0.0  # what the bounds prove
    monkeypatch.setattr(KIndicators, "move_gains", lambda *_: pytest.fail("gains were computed"))
    assert op.solve(problem, X, method=SupportSearch()).is_row_optimal is True


def test_bounds_exclude_nothing_if_a_row_can_gain_or_is_alone():
    problem = planted(60, 3, 0.1, 0)
    wrong = assemble(np.r_[1, np.arange(1, 60) % 3], np.ones(60), 3)
    alone = assemble(np.r_[0, 1 + np.arange(59) % 2], np.ones(60), 3)
    for X in (wrong, alone):
        assert not Scores(problem, point_of(problem, X)).exclude_all(0.0)
    # Without bounds, nothing is excluded.
    plain = TraceMin(np.eye(4), 2)
    assert not Scores(plain, point_of(plain, np.eye(4, 2))).exclude_all(np.inf)


def test_search_starts_at_a_refined_point_as_it_is(rng):
    problem = planted(60, 3, 0.3, 0)
    X = problem.refine(random_stiefel_plus(60, 3, rng))
    state = SupportSearch().init(problem, X, {"value": 1.25})
    assert state.X is X
    assert state.value == 1.25


@every_problem
def test_refinement_returns_the_value_of_its_point(name, rng):
    problem = PROBLEMS[name](rng)
    X = random_stiefel_plus(*problem.shape, rng)
    refined, value = refine_and_evaluate(problem, X)
    assert value == problem.value(refined) <= problem.value(X)


def test_exchanges_are_tried_if_every_row_is_alone(rng):
    problem = KIndicators(rng.standard_normal((3, 2)))
    best = minimize_over_supports(problem)[0]
    point = SupportPoint(np.array([0, 1, -1]), np.array([1.0, 1.0, 0.0]), 0.0)
    assert len(Scores(problem, point).exchanges(10)) == 3
    assert op.solve(problem).value == pytest.approx(best, abs=1e-8)


def smooth_mixture(seed, n=60, k=6):
    """Sines, a quadratic form and a soft maximum: a plain f with many supports that nearly tie."""
    return _random_smooth(n, k, np.random.default_rng([seed, n, k]))


def test_default_examines_the_moves_that_the_penalty_method_leaves(rng):
    problem = smooth_mixture(3)
    X0 = problem.start(np.random.default_rng(0))
    alone = op.solve(problem, X0, method=op.methods.EP4Orth(), search=False).value
    other = op.solve(problem, X0, method=op.baselines.WenYin()).value
    found = op.solve(problem, X0)
    assert found.value < alone - 1e-4  # a move that is not among the first by its score
    assert found.value < other


def test_search_does_not_claim_what_it_did_not_examine():
    problem = smooth_mixture(0)  # 60 x 6 moves, of which at most 64 are tried
    assert op.solve(problem, rng=0).is_row_optimal is None


def test_later_starts_lead_elsewhere_when_the_first_penalty_forgets_them():
    problem = smooth_mixture(1)
    values = [op.solve(problem, n_init=n, rng=0, search=False).value for n in (1, 2, 3)]
    assert values[0] >= values[1] >= values[2]
    assert values[2] < values[0] - 1e-3
