"""Algorithm 1: its schedules, its safeguard, its switch, and the answers it gives."""

from dataclasses import dataclass, field, replace
from itertools import islice, pairwise

import numpy as np
import pytest

from brute_force import minimize_over_supports, supports
from orthoplus import optimality
from orthoplus.core.method import iterate, minimize_oblique
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.datasets import planted_projection
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import random_stiefel_plus, round_to_stiefel_plus, violation
from orthoplus.methods import PALM, EP4Orth, ProjectedGradient, RegularizedNewton, ep4orth
from orthoplus.methods.refine import refine
from orthoplus.methods.theory import unmet_conditions
from orthoplus.penalty.family import PowerPenalty
from orthoplus.penalty.penalized import Penalized
from orthoplus.problems import ONMF, Projection, Smooth, TraceMin
from orthoplus.run.api import solve

V_UNEVEN = np.array([[2.0, 1.0], [1.0, 1.0]]) / np.sqrt(7)
SECOND_ORDER = EP4Orth(second_order=RegularizedNewton(), switch_violation=np.inf)


def tiny_problems():
    """Noisy groups {0, 1, 2} and {3, 4}: the best support is the planted one or close to it."""
    rng = np.random.default_rng(7)
    group = np.array([0, 0, 0, 1, 1])
    same = (group[:, None] == group).astype(float)
    M = -same - 0.3 * rng.random((5, 5))  # no positive entry off the diagonal: closed form
    A = np.eye(2)[group] @ np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    A = A + 0.3 * rng.random(A.shape)
    return {
        "projection": Projection(rng.standard_normal((5, 2))),
        "trace_min": TraceMin(M + M.T, 2),
        "onmf": ONMF(A, 2),
        "onmf-quartic": ONMF(A, 2, quartic=True),
    }


every_tiny = pytest.mark.parametrize("name", tiny_problems())


def states_of(method, problem, X, count):
    return list(islice(iterate(problem, method, method.init(problem, X)), count))


# Schedules


def test_schedules_are_those_of_algorithm_1(rng):
    problem = Projection(rng.standard_normal((6, 2)))
    method = EP4Orth(
        p=0.5,
        smoothing_start=0.5,
        smoothing_decay=0.1,
        penalty_start=0.1,
        penalty_unit=2.0,
        penalty_growth=3.0,
        tol_start=0.5,
        tol_decay=0.5,
        tol_min=0.1,
    )
    _, *states = states_of(method, problem, random_oblique_plus(6, 2, rng), 6)
    sigma, eps, tol = 0.1 * 2.0, 0.5, 0.5
    for state in states:  # t = 0, 1, ...
        assert (state.sigma, state.eps, state.tol) == (sigma, eps, tol)
        sigma, eps, tol = 3.0 * sigma, 0.1 * eps, max(0.5 * tol, 0.1)


def test_published_parameters_are_those_of_section_6():
    for method in (
        EP4Orth(),
        EP4Orth.for_onmf(),
        EP4Orth.for_unmixing(),
        EP4Orth.for_indicators(3),
    ):
        assert (method.V, method.p, method.q, method.smoothing_start) == (None, 1.0, 2.0, 0.0)
        assert (method.tol_min, method.max_iter) == (1e-7, 300)
    projection = EP4Orth.for_projection()
    assert (projection.penalty_growth, projection.penalty_start) == (5.0, 1e-2)
    assert (projection.tol_decay, projection.feasibility_tol) == (0.8, 1e-8)
    # t_max is not 300 there: the docstring says why.
    assert (projection.max_iter, projection.patience) == (1000, 5)
    assert "``max_iter`` is 1000 instead of t_max = 300" in EP4Orth.for_projection.__doc__
    onmf = EP4Orth.for_onmf()
    assert (onmf.penalty_start, onmf.tol_decay, onmf.switch_violation) == (1e-3, 0.98, 5.0)
    assert (onmf.penalty_growth, onmf.penalty_growth_late) == (1.05, 1.03)
    newton = onmf.second_order
    assert (newton.accept, newton.good, newton.shrink, newton.grow) == (0.01, 0.9, 0.98, 1.3)


def test_patience_counts_all_iterations_that_did_not_lower_the_violation():
    C = planted_projection(200, 20, 1.0, np.random.default_rng(0)).C
    method, problem = EP4Orth.for_projection(), Projection(C)
    states = states_of(method, problem, problem.start(np.random.default_rng(0)), 40)
    count = 0
    for before, after in pairwise(states):
        count += before.n_iter > 0 and after.violation > 0.95 * before.violation
        assert after.n_stalled == count
    assert 0 < states[5].n_stalled < 5 < states[-1].n_stalled  # two falls apart are counted too
    ends = [method.stop()(state) is not Status.RUNNING for state in states[1:]]
    assert states[1 + ends.index(True)].n_stalled == 5
    assert solve(problem, method=method).n_iter == 1 + ends.index(True)


def test_penalty_grows_slower_near_the_set_and_is_bounded(rng):
    problem = Projection(rng.standard_normal((40, 8)))
    method = EP4Orth(
        penalty_start=1e-3,
        penalty_unit=1.0,
        penalty_growth=4.0,
        penalty_growth_late=1.5,
        penalty_max=50.0,
        safeguard=False,
    )
    states = states_of(method, problem, random_oblique_plus(40, 8, rng), 20)[1:]
    factors = set()
    for before, after in pairwise(states):
        growth = 4.0 if before.violation > 1.0 else 1.5
        assert after.sigma == min(growth * before.sigma, 50.0)
        factors.add(growth)
    assert factors == {4.0, 1.5}  # both phases were met
    assert states[-1].sigma == 50.0


@pytest.mark.parametrize("seed", range(5))
def test_inner_tolerance_is_met_and_the_penalized_value_does_not_rise(seed):
    rng = np.random.default_rng(seed)
    problem = TraceMin(np.diag(rng.standard_normal(8)), 3)
    method = EP4Orth(inner=ProjectedGradient(max_iter=5000), tol_decay=0.5, tol_min=1e-6)
    states = states_of(method, problem, random_oblique_plus(8, 3, rng), 8)
    for before, after in pairwise(states):
        penalty = PowerPenalty(after.sigma)
        h = Penalized(problem, penalty, unit=after.unit)
        value = h.value(after.X)
        # (4.1), in units of the penalty, and (4.2), with X^feas as the other possible start.
        assert h.stationarity(after.X, h.evaluate(after.X)) <= after.tol
        assert value <= h.value(before.X) + 1e-12
        assert value <= h.value(before.X_feas) + 1e-12
        assert after.value == pytest.approx(problem.value(after.X), abs=1e-12)
        assert after.violation == pytest.approx(penalty.energy(after.X) - 1, abs=1e-14)


@pytest.mark.parametrize("max_iter", [2, 30, 5000])
@pytest.mark.parametrize("second_order", [False, True])
def test_state_says_whether_both_conditions_of_the_algorithm_were_met(max_iter, second_order, rng):
    C = rng.random((8, 3))
    problem = Smooth(lambda X: float(((X - C) ** 4).sum()), (8, 3), jac=lambda X: 4 * (X - C) ** 3)
    method = EP4Orth(inner=ProjectedGradient(max_iter=max_iter), tol_decay=0.5, tol_min=1e-6)
    if second_order:
        newton = RegularizedNewton(max_iter=max_iter)
        method = replace(method, second_order=newton, switch_violation=np.inf)
    first, *states = states_of(method, problem, random_oblique_plus(8, 3, rng), 9)
    assert first.is_stationary is first.is_descent is None
    for before, after in pairwise([first, *states]):
        h = Penalized(problem, PowerPenalty(after.sigma), unit=after.unit)
        residual = h.stationarity(after.X, h.evaluate(after.X))
        assert type(after.is_stationary) is type(after.is_descent) is bool
        assert after.is_stationary == (residual <= after.tol)  # (4.1)
        assert after.is_descent  # (4.2): both solvers see to it
        assert h.value(after.X) <= min(h.value(before.X), h.value(before.X_feas)) + 1e-12
    met = sum(state.is_stationary for state in states)
    if max_iter == 2:
        assert met < len(states)
    elif max_iter == 5000:
        assert met == len(states)


def test_ascent_of_the_inner_solver_is_recorded(rng):
    # From the minimizer of f, with steps that are far too long and no search, the objective rises.
    C = random_oblique_plus(8, 3, rng)
    problem = Smooth(lambda X: float(((X - C) ** 2).sum()), (8, 3), jac=lambda X: 2 * (X - C))
    careless = ProjectedGradient(search=False, first_step=1e3, step_min=1e3, max_iter=1)
    method = EP4Orth(inner=careless, penalty_unit=1.0, max_iter=1, tol_start=1e-6)
    row = solve(problem, C, method=method).history[0]
    assert row.is_descent is False
    assert row.is_stationary is False


def test_history_of_a_method_without_inner_solver_leaves_the_conditions_open(rng):
    rows = solve(ONMF(rng.random((12, 5)), 3)).history
    assert rows
    assert all(row.is_stationary is row.is_descent is None for row in rows)


def test_first_state_is_x0_and_a_feasible_point_that_has_seen_f(rng):
    problem = Projection(rng.standard_normal((6, 2)))
    X = random_oblique_plus(6, 2, rng)
    state = EP4Orth().init(problem, X)
    np.testing.assert_array_equal(state.X, X)
    np.testing.assert_array_equal(state.X_feas, round_to_stiefel_plus(state.X_feas))
    assert problem.value(state.X_feas) < problem.value(round_to_stiefel_plus(X))
    absolute = EP4Orth(penalty_unit=1.0).init(problem, X)  # no relaxed point is at hand
    np.testing.assert_array_equal(absolute.X_feas, round_to_stiefel_plus(X))
    assert state.n_iter == 0
    assert EP4Orth().stop()(state) is Status.RUNNING  # a feasible start is still to be improved


# The safeguard


def worse_than_feasible():
    """A problem, an X^{t,0} and an X^feas with P(X^{t,0}) > P(X^feas)."""
    problem = Projection(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])  # f is worst there, and so is the penalty
    return problem, X, np.eye(3, 2)


def first_points(monkeypatch):
    """Where the inner solver is started."""
    starts = []
    original = ep4orth.minimize_oblique

    def spy(problem, method, X, **others):
        starts.append(X)
        return original(problem, method, X, **others)

    monkeypatch.setattr(ep4orth, "minimize_oblique", spy)
    return starts


def test_iteration_starts_from_the_feasible_point_where_that_is_better(monkeypatch):
    problem, X, X_feas = worse_than_feasible()
    method = EP4Orth(penalty_unit=1.0)
    state = method.init(problem, X)._replace(X_feas=X_feas, value_feas=problem.value(X_feas))
    starts = first_points(monkeypatch)
    after = method.step(problem, state)
    assert starts[-1] is X_feas
    assert after.X_feas is X_feas
    assert problem.value(after.X) <= problem.value(X_feas) + 1e-14


def test_iteration_starts_from_the_last_point_where_that_is_better(monkeypatch):
    problem, X_feas, X = worse_than_feasible()  # the other way round
    method = EP4Orth(penalty_unit=1.0)
    state = method.init(problem, X)._replace(X_feas=X_feas, value_feas=problem.value(X_feas))
    starts = first_points(monkeypatch)
    method.step(problem, state)
    assert starts[-1] is state.X


def test_safeguard_can_be_left_out(monkeypatch):
    problem, X, X_feas = worse_than_feasible()
    method = EP4Orth(penalty_unit=1.0, safeguard=False)
    state = method.init(problem, X)._replace(X_feas=X_feas, value_feas=problem.value(X_feas))
    starts = first_points(monkeypatch)
    method.step(problem, state)
    assert starts[-1] is state.X


# What is known is not computed again


@dataclass(frozen=True, eq=False)
class Counted(Problem):
    """A problem that keeps the points at which it was evaluated."""

    problem: Problem
    points: list = field(default_factory=list)

    @property
    def shape(self):
        return self.problem.shape

    def value_and_gradient(self, X):
        self.points.append(X.tobytes())
        return self.problem.value_and_gradient(X)


@pytest.mark.parametrize("safeguard", [True, False])
def test_outer_iteration_evaluates_no_point_twice(safeguard, rng):
    problem = Counted(Projection(rng.standard_normal((9, 3))))
    method = EP4Orth(penalty_unit=1.0, safeguard=safeguard)
    first, second, *others = states_of(method, problem, random_oblique_plus(9, 3, rng), 6)
    problem.points.clear()
    state = second
    for _ in others:
        state = method.step(problem, state)
    assert len(problem.points) == len(set(problem.points))
    assert second.X.tobytes() not in problem.points
    assert first.X_feas.tobytes() not in problem.points


@pytest.mark.parametrize("change", [{}, {"V": np.full((3, 1), 3**-0.5)}, {"p": 2.0}])
def test_known_gradient_is_the_gradient_of_f(change, rng):
    problem = TraceMin(np.diag(rng.standard_normal(9)), 3)
    method = EP4Orth(penalty_unit=1.0, **change)
    for state in states_of(method, problem, random_oblique_plus(9, 3, rng), 4)[1:]:
        if "V" in change:
            assert state.gradient is None
        else:
            np.testing.assert_array_equal(state.gradient, problem.value_and_gradient(state.X)[1])
        assert state.violation == pytest.approx(PowerPenalty(1.0).energy(state.X) - 1.0, abs=1e-14)
        # Without what is known the run goes on in the same way, to rounding.
        fresh = method.step(problem, state._replace(gradient=None))
        np.testing.assert_allclose(method.step(problem, state).X, fresh.X, atol=1e-9)


def test_gradient_is_not_kept_where_a_second_block_moves(rng):
    problem = ONMF(rng.random((9, 5)), 3)
    state = states_of(EP4Orth(), problem, random_oblique_plus(9, 3, rng), 3)[-1]
    assert state.gradient is None
    assert state.violation == pytest.approx(PowerPenalty(1.0).energy(state.X) - 1.0, abs=1e-14)


# The switch


def test_second_order_takes_over_at_the_threshold(rng, monkeypatch):
    problem = Projection(rng.random((8, 3)))
    method = EP4Orth(
        second_order=RegularizedNewton(),
        switch_violation=0.2,
        penalty_growth=2.0,
        safeguard=False,
    )
    used = []
    original = ep4orth.minimize_oblique

    def spy(problem, inner, X, **others):
        used.append((type(inner).__name__, problem.penalty.energy(X) - 1.0))
        return original(problem, inner, X, **others)

    state = method.init(problem, random_oblique_plus(8, 3, rng))
    monkeypatch.setattr(ep4orth, "minimize_oblique", spy)
    list(islice(iterate(problem, method, state), 25))
    assert {name for name, _ in used} == {"ProjectedGradient", "RegularizedNewton"}
    for name, zeta in used:
        assert name == ("RegularizedNewton" if zeta <= 0.2 else "ProjectedGradient")


def test_switch_is_at_the_threshold_itself():
    method = EP4Orth(second_order=RegularizedNewton(), switch_violation=0.5)
    assert method._inner(0.5) is method.second_order
    assert method._inner(np.nextafter(0.5, 1)) is method.inner
    assert replace(method, second_order=None)._inner(0.0) is method.inner


# Answers

VARIANTS = {
    "default": {},
    "p=2": {"p": 2.0},
    "p=1/2": {"p": 0.5, "penalty_start": 1.0, "smoothing_start": 1e-2, "smoothing_decay": 0.5},
    "q=1": {"q": 1.0},
    "q=4": {"q": 4.0},
    "p=1.5,q=3": {"p": 1.5, "q": 3.0},
    "eps": {"smoothing_start": 1e-2, "smoothing_decay": 0.5},
    "V": {"V": V_UNEVEN},
    "V,p=1/2,q=1": {
        "V": V_UNEVEN,
        "p": 0.5,
        "q": 1.0,
        "penalty_start": 3.0,
        "smoothing_start": 1e-2,
        "smoothing_decay": 0.5,
    },
}


@every_tiny
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("order", ["first", "second"])
def test_every_penalty_reaches_feasibility_and_the_optimum(name, variant, order):
    problem = tiny_problems()[name]
    method = EP4Orth(**VARIANTS[variant], max_iter=600)
    if order == "second":
        method = replace(method, second_order=RegularizedNewton(), switch_violation=np.inf)
    best, _, _ = minimize_over_supports(problem)
    found = np.inf
    for seed in range(6):  # the problem is not convex: some start is to find the best support
        X0 = random_oblique_plus(5, 2, np.random.default_rng(seed))
        result = solve(problem, X0, method=method, search=False)
        assert result.status is Status.CONVERGED
        assert result.history[-1].violation <= 1e-8
        assert result.violation <= 1e-12
        assert result.value >= best - 1e-12
        found = min(found, result.value)
        if found <= best + 1e-9:
            break
    assert found == pytest.approx(best, abs=1e-9)


@every_tiny
@pytest.mark.parametrize("seed", range(5))
def test_result_is_never_worse_than_a_feasible_start(name, seed):
    problem = tiny_problems()[name]
    _, X, _ = minimize_over_supports(problem)
    X = X if seed == 0 else random_stiefel_plus(5, 2, np.random.default_rng(seed))
    for method in (EP4Orth(max_iter=2), EP4Orth(penalty_unit=1e6), SECOND_ORDER):
        result = solve(problem, X, method=method, search=False)
        assert result.value <= problem.value(X) + 1e-13


@every_tiny
@pytest.mark.parametrize("seed", range(5))
def test_result_is_never_worse_than_the_rounded_iterate(name, seed):
    problem = tiny_problems()[name]
    X = random_oblique_plus(5, 2, np.random.default_rng(seed))
    for max_iter in (1, 3, 300):
        method = EP4Orth(max_iter=max_iter)
        result = solve(problem, X, method=method, search=False)
        rounded = problem.value(round_to_stiefel_plus(result.state.X))
        assert result.value <= rounded + 1e-13


@pytest.mark.parametrize("method", [EP4Orth(), SECOND_ORDER], ids=["first", "second"])
def test_scale_of_the_objective_does_not_matter(method):
    rng = np.random.default_rng(3)
    C, M = rng.standard_normal((12, 3)), rng.standard_normal((12, 12))
    X0 = random_oblique_plus(12, 3, rng)

    def problem(scale):
        return Smooth(
            lambda X: scale * float(np.sin(C * X).sum() + (X * (M @ X)).sum()),
            (12, 3),
            jac=lambda X: scale * (C * np.cos(C * X) + (M + M.T) @ X),
        )

    one = solve(problem(1.0), X0, method=method)
    for factor in (1e-6, 2.0**20, 1e9):
        other = solve(problem(factor), X0, method=method)
        np.testing.assert_array_equal(one.labels, other.labels)
        # Both are stationary to 1e-9 of the gradient or so; at a strict minimizer X differs by as
        # much.
        np.testing.assert_allclose(one.X, other.X, atol=1e-7)


def test_scale_of_the_data_does_not_matter_to_the_preset_of_onmf(rng):
    A = np.abs(rng.standard_normal((20, 8)))
    results = [solve(ONMF(scale * A, 3)) for scale in (1e-3, 1.0, 1e3)]
    for result, scale in zip(results, (1e-3, 1.0, 1e3), strict=True):
        assert result.status is Status.CONVERGED
        np.testing.assert_array_equal(result.labels, results[1].labels)
        assert result.value / scale**2 == pytest.approx(results[1].value, rel=1e-9)


# Example 4.1


def example(sigma):
    """The problem of Example 4.1 and its stationary point of the penalized problem."""
    C = np.array([[-1.0, -1.0], [0.0, 0.0], [0.0, 0.0]])
    problem = Smooth(lambda X: float((C * X).sum()), (3, 2), jac=lambda X: C)
    rest = np.sqrt(1 - 1 / sigma**2)
    return problem, np.array([[1 / sigma, 1 / sigma], [rest, 0.0], [0.0, rest]])


@pytest.mark.parametrize("sigma", [2.0, 10.0, 1e3, 1e6])
def test_example_4_1_is_stationary_for_every_penalty(sigma):
    problem, X = example(sigma)
    h = Penalized(problem, PowerPenalty(sigma))
    # Rounding of a gradient of size sigma.
    assert h.stationarity(X, h.evaluate(X)) <= 4e-16 * sigma


def test_example_4_1_converges_to_a_weakly_stationary_point_only():
    problem, X = example(1e9)
    limit = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(X, limit, atol=2e-9)
    report = optimality.check(problem, limit)
    assert report.is_weakly_stationary
    assert not report.is_stationary
    # Not a point of WSOC of the penalized problem, as Theorem 4.5 says it cannot be.
    sigma = 10.0
    problem, X = example(sigma)
    oblique = optimality.check_oblique(Penalized(problem, PowerPenalty(sigma)), X)
    assert oblique.is_stationary
    assert not oblique.satisfies_weak_second_order


def test_example_4_1_is_solved_since_rows_of_zeros_are_called_back():
    sigma = 1e5
    problem, X = example(sigma)
    # Exactly the counter-example: each X^t is the stationary point the paper gives.
    method = EP4Orth(
        penalty_unit=1.0, penalty_start=sigma, max_iter=1, tol_start=1e-6, safeguard=False
    )
    result = solve(problem, X, method=method)
    np.testing.assert_allclose(result.state.X, X, atol=1e-8)  # the inner solver stays
    assert optimality.check(problem, result.X).is_stationary
    assert result.value == pytest.approx(-1.0, abs=1e-9)  # the best: f >= -1 on S+
    limit = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    refined = refine(problem, limit)
    assert violation(refined) <= 1e-12
    assert problem.value(refined) == pytest.approx(-1.0, abs=1e-9)


def test_limits_are_weakly_stationary_and_stationary_where_rows_vanish_fast():
    # Theorems 4.1 and 4.2: eta < 1 / gamma_2, no tolerance has a floor, nothing stops the run.
    method = EP4Orth(
        inner=ProjectedGradient(max_iter=3000),
        penalty_start=1.0,
        penalty_unit=1.0,
        penalty_growth=2.0,
        tol_start=0.1,
        tol_decay=0.45,
        tol_min=0.0,
        feasibility_tol=0.0,
    )
    n_zero_rows = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        M = rng.standard_normal((9, 9))
        problem = TraceMin(M + M.T, 2)
        state = states_of(method, problem, random_oblique_plus(9, 2, rng), 18)[-1]
        limit = round_to_stiefel_plus(np.where(state.X < 1e-4, 0.0, state.X))
        report = optimality.check(problem, limit, tol=1e-4)
        assert report.is_weakly_stationary  # Theorem 4.1
        rows = ~limit.any(axis=1)
        n_zero_rows += rows.sum()
        assert state.sigma * state.X[rows].max(initial=0.0) <= 1e-2  # (4.21), p = 1
        assert report.is_stationary  # Theorem 4.2
    assert n_zero_rows > 0


def satisfies_theorem_4_1(method):
    """The first lines of Algorithm 1 and the hypotheses of the theorem, on the fields."""
    gamma_2 = max(method.penalty_growth, method.penalty_growth_late or 0.0)
    gamma_1, p = method.decay_of_smoothing, method.p
    if p < 1:
        smoothing = method.smoothing_start > 0 and 0 < gamma_1 < gamma_2 ** (-1 / p)
    else:
        smoothing = method.smoothing_start == 0 and gamma_1 == 1
    return (
        smoothing
        and gamma_2 > 1
        and 0 < method.tol_decay < gamma_1 ** (1 - p) / gamma_2
        and 0 <= method.tol_start < 1
        and method.tol_min == 0
        and method.feasibility_tol == 0
        and method.penalty_max == np.inf
        and method.patience is None
        and method.safeguard is True
        and method.inner.criterion == "stationarity"
        and method.inner.search
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"p": 2.0},
        {"p": 0.5},
        {"p": 0.3, "penalty_growth": 3.0},
        {"p": 0.8, "smoothing_decay": 0.1, "smoothing_start": 0.5},
        {"penalty_growth": 1.1, "penalty_growth_late": 4.0},
        {"q": 1.0, "max_iter": 20, "tol_start": 0.5},
    ],
)
def test_preset_of_the_theory_satisfies_its_hypotheses(changes):
    method = EP4Orth.for_theory(**changes)
    assert satisfies_theorem_4_1(method)
    assert unmet_conditions(method) == ()
    for name, value in changes.items():
        assert getattr(method, name) == value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tol_decay": 0.9}, r"`tol_decay=0\.9` is not below gamma_1\^\(1-p\) / gamma_2 = 0\.833"),
        ({"p": 0.5, "tol_decay": 0.8}, r"`tol_decay=0\.8` is not below"),
        ({"tol_start": 1.5}, r"`tol_start=1\.5` is not below 1"),
        ({"tol_min": 1e-7}, "`tol_min=1e-07` is not 0"),
        ({"feasibility_tol": 1e-8}, "`feasibility_tol=1e-08` is not 0"),
        ({"penalty_max": 1e5}, "`penalty_max=100000` is not inf"),
        ({"smoothing_start": 0.1}, r"`smoothing_start=0\.1` is not 0 although p >= 1"),
        ({"p": 0.5, "smoothing_decay": 0.0}, "`smoothing_decay=0` is not positive"),
        ({"patience": 5}, "`patience=5` may end the run early"),
        ({"safeguard": False}, "`safeguard=False` lets the penalized objective rise"),
        ({"inner": ProjectedGradient(criterion="step")}, '`inner` stops by criterion="step"'),
        ({"inner": ProjectedGradient(search=False)}, "`inner` has search=False"),
        ({"inner": PALM(x_step=ProjectedGradient(search=False))}, "`inner` has search=False"),
        (
            {"second_order": RegularizedNewton(criterion="step")},
            '`second_order` stops by criterion="step"',
        ),
    ],
)
def test_change_that_breaks_the_theory_is_refused(changes, message):
    with pytest.raises(ValueError, match=rf"Theorem 4\.1 does not apply.*{message}"):
        EP4Orth.for_theory(**changes)


def test_default_and_published_options_do_not_satisfy_the_theory():
    # 0.9 > 1 / 1.2; the documentation says so.
    for method in (EP4Orth(), EP4Orth.for_projection(), EP4Orth.for_onmf()):
        assert not satisfies_theorem_4_1(method)
        assert "`tol_decay=" in unmet_conditions(method)[0]


@pytest.mark.parametrize("p", [0.5, 1.0])
def test_run_with_the_preset_of_the_theory_ends_weakly_stationary(p):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        M = rng.standard_normal((9, 9))
        problem = TraceMin(M + M.T, 2)
        result = solve(problem, random_oblique_plus(9, 2, rng), method=EP4Orth.for_theory(p=p))
        assert all(row.is_descent for row in result.history)
        if all(row.is_stationary for row in result.history):  # then the theorem applies
            limit = round_to_stiefel_plus(result.state.X)
            assert optimality.check(problem, limit, tol=1e-3).is_weakly_stationary


def test_decay_of_the_smoothing_suits_p_or_is_refused():
    assert EP4Orth().decay_of_smoothing == EP4Orth(p=2.0).decay_of_smoothing == 1.0
    for p, growth in [(0.5, 1.2), (0.25, 3.0), (0.9, 1.5)]:
        method = EP4Orth(p=p, smoothing_start=0.1, penalty_growth=growth)
        assert 0 < method.decay_of_smoothing < growth ** (-1 / p)
        late = replace(method, penalty_growth_late=2 * growth)
        assert late.decay_of_smoothing < (2 * growth) ** (-1 / p)
        for decay in (growth ** (-1 / p), 1.0):
            with pytest.raises(ValueError, match=r"`smoothing_decay=.*not below gamma_2\^\(-1/p\)"):
                EP4Orth(p=p, smoothing_start=0.1, penalty_growth=growth, smoothing_decay=decay)
    assert EP4Orth(smoothing_decay=0.9).decay_of_smoothing == 0.9  # for p >= 1 any will do


def test_theorem_4_5_second_order_points_lead_to_a_stationary_one():
    problem, X = example(2.0)
    # From beside the counter-example the second-order solver leaves it for a point with WSOC.
    X = X + np.array([[1e-3, -1e-3], [0.0, 0.0], [0.0, 0.0]])
    X /= np.linalg.norm(X, axis=0)
    method = EP4Orth(
        inner=ProjectedGradient(max_iter=1),
        second_order=RegularizedNewton(max_iter=500),
        switch_violation=np.inf,
        penalty_start=2.0,
        penalty_unit=1.0,
        tol_start=1e-9,
        tol_min=1e-9,
        max_iter=5,
        safeguard=False,
    )
    state = states_of(method, problem, X, 6)[-1]
    assert state.violation <= 1e-12
    report = optimality.check(problem, round_to_stiefel_plus(state.X))
    assert report.is_stationary


# Exactness of the penalty (section 3), at the level of the algorithm


def test_minimizer_of_the_penalized_problem_rounds_to_the_optimum_above_the_threshold():
    problem = Projection(np.random.default_rng(11).standard_normal((4, 2)))
    best, _, points = minimize_over_supports(problem)
    values = np.array([problem.value(X) for X in points])
    separation = float(values[values > best + 1e-9].min() - best)
    lipschitz = float(np.linalg.norm(2 * problem.C))
    sigma = 1.01 * PowerPenalty(1.0).threshold(lipschitz, separation, 2)
    h = Penalized(problem, PowerPenalty(sigma))
    starts = [random_oblique_plus(4, 2, np.random.default_rng(seed)) for seed in range(10)]
    starts += list(supports(4, 2))
    ends = [minimize_oblique(h, ProjectedGradient(max_iter=3000), X).state for X in starts]
    lowest = min(ends, key=lambda state: state.value)
    refined = refine(problem, round_to_stiefel_plus(lowest.X))
    assert problem.value(refined) == pytest.approx(best, abs=1e-10)


def test_refinement_calls_a_zero_row_back_to_the_column_where_f_falls_fastest():
    # Condition (2.6b) fails on row 2: -1 in column 0, -2 in column 1.
    C = np.array([[-3.0, 0.0], [0.0, -3.0], [-1.0, -2.0], [1.0, 0.5]])
    plain = Smooth(lambda X: float(np.vdot(C, X)), (4, 2), jac=lambda X: C)
    X = refine(plain, np.eye(4, 2))
    expected = np.array([[1.0, 0.0], [0.0, 3.0], [0.0, 2.0], [0.0, 0.0]])
    expected[:, 1] /= np.sqrt(13)
    np.testing.assert_allclose(X, expected, atol=1e-6)
