"""The projected gradient method over OB+: its step, its search, what it converges to."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize

from brute_force import minimize_over_supports
from orthoplus.core.method import iterate, run
from orthoplus.core.status import Status
from orthoplus.geometry.oblique import (
    project_oblique_plus,
    random_oblique_plus,
    riemannian_gradient,
)
from orthoplus.geometry.stiefel import round_to_stiefel_plus
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.penalty.family import PowerPenalty
from orthoplus.penalty.penalized import Penalized, as_penalized
from orthoplus.problems import ONMF, Projection, Smooth, TraceMin

RULES = ("long", "short", "alternating", "fixed")
# What the search forgives as rounding, a step.
SLACK = 10 * np.finfo(float).eps


def symmetric(n, rng):
    B = rng.standard_normal((n, n))
    return (B + B.T) / 2


def penalized_projection(rng):
    return Penalized(Projection(rng.standard_normal((8, 3))), PowerPenalty(2.0))


def penalized_trace(rng):
    return Penalized(TraceMin(symmetric(7, rng), 2), PowerPenalty(1.0))


def trace_with_matrix(rng):
    V = rng.random((2, 3)) + 0.1
    return Penalized(TraceMin(symmetric(6, rng), 2), PowerPenalty(3.0, V / np.linalg.norm(V)))


def factor_fit(rng):
    problem = ONMF(rng.random((9, 5)), 3)
    return Penalized(problem.freeze(random_oblique_plus(9, 3, rng)), PowerPenalty(1.0))


def smooth_power(rng):
    return Penalized(TraceMin(symmetric(6, rng), 2), PowerPenalty(0.5, p=0.5, q=1.0, eps=0.5))


def no_penalty(rng):
    return as_penalized(TraceMin(symmetric(6, rng), 2))


PROBLEMS = [
    penalized_projection,
    penalized_trace,
    trace_with_matrix,
    factor_fit,
    smooth_power,
    no_penalty,
]


def solve(problem, X, **options):
    method = ProjectedGradient(**options)
    return run(problem, method, method.init(problem, X), method.stop())


def assert_on_oblique_plus(X, tol=1e-14):
    assert X.min() >= 0
    np.testing.assert_allclose(np.linalg.norm(X, axis=0), 1.0, atol=tol)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("build", PROBLEMS)
def test_converges_to_a_stationary_point(build, rule, rng):
    problem = build(rng)
    X0 = random_oblique_plus(*problem.shape, rng)
    state, status = solve(problem, X0, step_rule=rule, tol=1e-6, max_iter=20_000)
    assert status is Status.CONVERGED
    assert_on_oblique_plus(state.X)
    value, G = problem.value_and_gradient(state.X)
    residual = np.linalg.norm(np.minimum(state.X, riemannian_gradient(state.X, G)))
    # The kernel and NumPy round differently: far below the tolerance itself.
    assert residual <= 1e-6 * (1 + 1e-6)
    assert residual == pytest.approx(state.stationarity, rel=1e-4, abs=1e-12)
    assert state.value == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("build", PROBLEMS)
def test_no_value_is_above_the_first(build, rule, rng):
    problem = build(rng)
    method = ProjectedGradient(step_rule=rule)
    first = method.init(problem, random_oblique_plus(*problem.shape, rng))
    for state in iterate(problem, method, first):
        assert state.value <= first.value + (state.n_iter + 1) * SLACK * max(1, abs(first.value))
        assert state.value <= state.reference
        if state.n_iter == 60:
            break


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("build", PROBLEMS)
def test_values_fall_when_there_is_no_memory(build, rule, rng):
    problem = build(rng)
    method = ProjectedGradient(step_rule=rule, memory=0.0)
    last = method.init(problem, random_oblique_plus(*problem.shape, rng))
    for _ in range(40):
        state = method.step(problem, last)
        assert state.value <= last.value + SLACK * max(1, abs(last.value))
        last = state


@pytest.mark.parametrize("memory", [0.0, 0.85])
@pytest.mark.parametrize("build", PROBLEMS)
def test_accepted_steps_decrease_enough(build, memory, rng):
    problem = build(rng)
    method = ProjectedGradient(decrease=0.9, memory=memory, first_step=10.0)
    old = method.init(problem, random_oblique_plus(*problem.shape, rng))
    for _ in range(20):
        new = method.step(problem, old)
        if new.is_stalled:
            break
        # Backtracking only shortens alpha, which asks for more than this.
        enough = 0.9 / (2 * old.alpha) * new.step_length**2
        assert new.value <= old.reference - enough + SLACK * max(1, abs(old.reference))
        old = new
    assert old.n_iter > 0


def test_memory_lets_values_rise_now_and_then(rng):
    # Otherwise the test above would say nothing about `memory`.
    rises = 0
    for _ in range(20):
        problem = penalized_trace(rng)
        method = ProjectedGradient(memory=0.85)
        states = iterate(problem, method, method.init(problem, random_oblique_plus(7, 2, rng)))
        values = [next(states).value for _ in range(30)]
        rises += int((np.diff(values) > 1e-10).sum())
    assert rises > 0


# --- one step -------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", PROBLEMS)
def test_step_is_the_projection_of_a_gradient_step(build, rng):
    problem = build(rng)
    X = random_oblique_plus(*problem.shape, rng)
    method = ProjectedGradient(first_step=1e-3)  # short: accepted at once
    state = method.step(problem, method.init(problem, X))
    expected = project_oblique_plus(X - 1e-3 * problem.value_and_gradient(X)[1])
    np.testing.assert_allclose(state.X, expected, atol=1e-14)
    assert state.step_length == pytest.approx(float(np.linalg.norm(expected - X)), rel=1e-10)
    assert state.n_iter == 1


@pytest.mark.parametrize("rule", ["long", "short", "alternating"])
@pytest.mark.parametrize("build", PROBLEMS)
def test_step_length_is_barzilai_and_borwein(build, rule, rng):
    problem = build(rng)
    method = ProjectedGradient(step_rule=rule, first_step=1e-2)
    old = method.init(problem, random_oblique_plus(*problem.shape, rng))
    for _ in range(4):
        new = method.step(problem, old)
        S = new.X - old.X
        Z = problem.value_and_gradient(new.X)[1] - problem.value_and_gradient(old.X)[1]
        product = abs(float((S * Z).sum()))
        is_short = rule == "short" or (rule == "alternating" and old.n_iter % 2 == 1)
        expected = product / (Z * Z).sum() if is_short else (S * S).sum() / product
        # S and Z are differences of close numbers.
        assert new.alpha == pytest.approx(expected, rel=1e-6)
        old = new


def test_step_length_stays_in_its_range(rng):
    problem = as_penalized(Projection(rng.standard_normal((5, 2))))
    method = ProjectedGradient(first_step=0.1, step_max=7.0)
    state = method.step(problem, method.init(problem, random_oblique_plus(5, 2, rng)))
    assert state.alpha == 7.0  # a linear f has no curvature
    steep = Penalized(TraceMin(1e3 * np.eye(5), 2), PowerPenalty(1.0))
    method = ProjectedGradient(first_step=0.5, step_min=0.5)
    state = method.init(steep, random_oblique_plus(5, 2, rng))
    assert method.step(steep, state).alpha == 0.5


def test_first_step_is_the_inverse_lipschitz_constant_where_known(rng):
    problem = penalized_trace(rng)
    X = random_oblique_plus(7, 2, rng)
    assert ProjectedGradient().init(problem, X).alpha == 1 / problem.lipschitz
    assert ProjectedGradient(first_step=0.3).init(problem, X).alpha == 0.3
    fixed = ProjectedGradient(step_rule="fixed", step_fraction=0.5)
    state = fixed.init(problem, X)
    assert state.alpha == 0.5 / problem.lipschitz
    assert fixed.step(problem, state).alpha == state.alpha


def test_carry_hands_over_the_step_but_not_a_fixed_one(rng):
    problem, X = penalized_trace(rng), random_oblique_plus(7, 2, rng)
    stiffer = Penalized(problem.problem, PowerPenalty(100.0))
    method = ProjectedGradient()
    last = method.step(problem, method.init(problem, X))
    assert method.init(stiffer, X, method.carry(last)).alpha == last.alpha
    fixed = ProjectedGradient(step_rule="fixed")
    last = fixed.step(problem, fixed.init(problem, X))
    assert fixed.init(stiffer, X, fixed.carry(last)).alpha == 0.99 / stiffer.lipschitz


# --- a column without an entry --------------------------------------------------------------------


def test_column_that_would_be_empty_takes_its_largest_entry():
    # The gradient 2 (5, 3) pushes all of column 1 below zero: nearest is e_2.
    problem = as_penalized(Projection(np.array([[-5.0, 1.0], [-3.0, 1.0], [-9.0, 0.0]])))
    X = project_oblique_plus(np.ones((3, 2)))
    method = ProjectedGradient(first_step=1.0)
    state = method.step(problem, method.init(problem, X))
    np.testing.assert_array_equal(state.X[:, 0], [0.0, 1.0, 0.0])
    np.testing.assert_allclose(state.X, project_oblique_plus(X + 2 * problem.problem.C), atol=1e-14)
    end, status = solve(problem, X)
    assert status is Status.CONVERGED
    np.testing.assert_allclose(end.X, project_oblique_plus(problem.problem.C), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_column_is_not_lost_when_its_norm_overflows(dtype):
    # f is positive at X and zero at X = 0: a column that vanished would pass for a decrease.
    size = dtype(1e30 if dtype == np.float32 else 1e170)
    problem = as_penalized(TraceMin(np.array([[5, -1], [-1, 0.1]], dtype=dtype) * size, 1))
    X = np.array([[0.8], [0.6]], dtype=dtype)
    method = ProjectedGradient(first_step=1e10)
    state = method.step(problem, method.init(problem, X))
    assert_on_oblique_plus(state.X, tol=1e-6)
    assert state.value < problem.value(X)


# --- agreement ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
def test_best_of_many_starts_is_the_optimum_by_brute_force(kind, rng):
    if kind == "linear":
        problem = Projection(rng.random((4, 2)))
    else:
        problem = TraceMin(-np.abs(symmetric(4, rng)), 2)
    best, _, points = minimize_over_supports(problem)
    h = Penalized(problem, PowerPenalty(100.0))
    starts = [random_oblique_plus(4, 2, rng) for _ in range(20)]
    starts += [project_oblique_plus(X + 0.1 * rng.random((4, 2))) for X in points]
    ends = [solve(h, X, max_iter=300)[0].X for X in starts]
    values = [problem.value(problem.refine(round_to_stiefel_plus(X))) for X in ends]
    assert min(values) == pytest.approx(best, rel=1e-9)


def test_agrees_with_slsqp_over_oblique_plus(rng):
    problem = Penalized(TraceMin(symmetric(4, rng), 2), PowerPenalty(0.5))
    starts = [random_oblique_plus(4, 2, rng) for _ in range(8)]
    ours = min(solve(problem, X)[0].value for X in starts)
    theirs = min(
        minimize(
            lambda x: problem.value(x.reshape(4, 2)),
            X.ravel(),
            jac=lambda x: problem.value_and_gradient(x.reshape(4, 2))[1].ravel(),
            bounds=[(0.0, None)] * 8,
            constraints={"type": "eq", "fun": lambda x: (x.reshape(4, 2) ** 2).sum(axis=0) - 1},
            options={"maxiter": 300},
        ).fun
        for X in starts
    )
    # SLSQP meets its equations to about 1e-6 only.
    assert ours == pytest.approx(theirs, abs=1e-5)


def test_projection_without_penalty_is_reached_exactly(rng):
    C = rng.standard_normal((9, 4))
    state, status = solve(as_penalized(Projection(C)), random_oblique_plus(9, 4, rng))
    assert status is Status.CONVERGED
    np.testing.assert_allclose(state.X, project_oblique_plus(C), atol=1e-6)


# --- contract -------------------------------------------------------------------------------------


def trajectory(problem, method, state, count):
    states = iterate(problem, method, state)
    return [next(states) for _ in range(count)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("build", PROBLEMS)
def test_is_deterministic_and_resumes_bit_for_bit(build, rule, rng):
    problem = build(rng)
    X = random_oblique_plus(*problem.shape, rng)
    method = ProjectedGradient(step_rule=rule)
    once = trajectory(problem, method, method.init(problem, X), 12)
    again = trajectory(problem, method, method.init(problem, X.copy()), 12)
    saved = pickle.loads(pickle.dumps(once[5]))
    resumed = trajectory(problem, method, saved, 7)
    np.testing.assert_array_equal(once[-1].X, again[-1].X)
    np.testing.assert_array_equal(once[-1].X, resumed[-1].X)
    assert once[-1].alpha == resumed[-1].alpha


@pytest.mark.parametrize("build", PROBLEMS)
def test_leaves_its_input_and_every_state_untouched(build, rng):
    problem = build(rng)
    X = random_oblique_plus(*problem.shape, rng)
    before = X.copy()
    X.setflags(write=False)
    method = ProjectedGradient()
    state = method.init(problem, X)
    for _ in range(5):
        X_before, G_before = state.X.copy(), state.gradient.copy()
        new = method.step(problem, state)
        np.testing.assert_array_equal(state.X, X_before)
        np.testing.assert_array_equal(state.gradient, G_before)
        assert not np.shares_memory(new.X, state.X)
        state = new
    np.testing.assert_array_equal(X, before)


def test_float32_goes_through(rng):
    C = rng.random((20, 3)).astype(np.float32)
    problem = Penalized(Projection(C), PowerPenalty(1.0))
    X = random_oblique_plus(20, 3, rng).astype(np.float32)
    state, status = solve(problem, X, tol=1e-3)
    assert status is Status.CONVERGED
    assert state.X.dtype == np.float32
    assert_on_oblique_plus(state.X.astype(float), tol=1e-6)
    double = Penalized(Projection(C.astype(float)), PowerPenalty(1.0))
    exact, _ = solve(double, X.astype(float))
    assert state.value == pytest.approx(exact.value, rel=1e-5)


# --- stopping -------------------------------------------------------------------------------------


def test_stops_by_the_length_of_the_step(rng):
    problem = penalized_trace(rng)
    method = ProjectedGradient(criterion="step", tol=1e-5)
    first = method.init(problem, random_oblique_plus(7, 2, rng))
    assert first.step_length == np.inf
    assert np.isnan(first.stationarity)
    state, status = run(problem, method, first, method.stop())
    assert status is Status.CONVERGED
    assert 0 < state.n_iter < method.max_iter
    assert state.step_length <= 1e-5


def test_stop_takes_another_tolerance_and_the_iteration_limits(rng):
    problem, X = penalized_trace(rng), random_oblique_plus(7, 2, rng)
    method = ProjectedGradient(tol=1e-9)
    coarse, _ = run(problem, method, method.init(problem, X), method.stop(0.1))
    assert coarse.stationarity <= 0.1
    fine, _ = run(problem, method, method.init(problem, X), method.stop())
    assert coarse.n_iter < fine.n_iter
    state, status = solve(problem, X, max_iter=3)
    assert (state.n_iter, status) == (3, Status.MAX_ITER)
    state, status = solve(problem, fine.X, min_iter=4, tol=1e-3)
    assert (state.n_iter, status) == (4, Status.CONVERGED)


def test_start_that_is_stationary_stays(rng):
    problem = as_penalized(Projection(np.eye(4, 2)))
    state, status = solve(problem, np.eye(4, 2))
    assert (state.n_iter, status) == (0, Status.CONVERGED)
    moved = ProjectedGradient().step(problem, state)
    np.testing.assert_array_equal(moved.X, state.X)
    assert moved.step_length == 0.0


def test_search_fails_with_a_status_when_the_gradient_is_wrong(rng):
    uphill = Smooth(lambda X: float((X**3).sum()), (5, 2), jac=lambda X: -3 * X**2)
    X = random_oblique_plus(5, 2, rng)
    state, status = solve(uphill, X)
    assert status is Status.LINE_SEARCH_FAILED
    # A few steps may pass as rounding of the objective before.
    np.testing.assert_allclose(state.X, X, atol=1e-9)


def test_search_rejects_a_value_that_is_not_a_number(rng):
    X0 = random_oblique_plus(5, 2, rng)
    value = lambda X: 0.0 if np.array_equal(X, X0) else float("nan")  # noqa: E731
    blind = Smooth(value, (5, 2), jac=lambda X: np.arange(10.0).reshape(5, 2))
    state, status = solve(blind, X0)
    assert status is Status.LINE_SEARCH_FAILED
    np.testing.assert_array_equal(state.X, X0)


# --- options --------------------------------------------------------------------------------------


def test_fixed_step_needs_a_lipschitz_constant(rng):
    blind = Smooth(lambda X: float((X**2).sum()), (5, 2), jac=lambda X: 2 * X)
    method = ProjectedGradient(step_rule="fixed")
    with pytest.raises(ValueError, match=r'`step_rule="fixed"` needs the Lipschitz constant.*long'):
        method.init(blind, random_oblique_plus(5, 2, rng))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_rule": "newton"}, "Choose one of long, short, alternating, fixed"),
        ({"criterion": "value"}, "Choose one of stationarity, step"),
        ({"step_min": 0.0}, "`step_min=0.0` is out of range"),
        ({"first_step": -1.0}, "`first_step=-1.0` is out of range"),
        ({"memory": 1.1}, "`memory=1.1` is out of range"),
        ({"backtrack": 1.0}, "`backtrack=1.0` is out of range"),
        ({"tol": -1e-3}, "`tol=-0.001` is out of range"),
        ({"min_iter": 5, "max_iter": 4}, "`max_iter=4` is out of range: it must be at least 5"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        ProjectedGradient(**options)
