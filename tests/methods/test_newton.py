"""Algorithm 2: convergence, its order, the tests of the trial point, the updates of tau."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from orthoplus import optimality
from orthoplus.core.method import iterate, minimize_oblique, run
from orthoplus.core.status import Status
from orthoplus.geometry.oblique import (
    project_oblique_plus,
    project_tangent,
    random_oblique_plus,
    riemannian_gradient,
)
from orthoplus.methods import ProjectedGradient, RegularizedNewton, SemismoothNewton, newton
from orthoplus.penalty.family import PowerPenalty
from orthoplus.penalty.penalized import Penalized
from orthoplus.problems import ONMF, Projection, Smooth, TraceMin

SHAPE = (12, 3)
# A bound on the terms that the problems below sum: their rounding is that of a number of this size.
SIZE = 200.0
# Newton's method proper: the subproblem to the end, and tau to (almost) nothing.
PRECISE = RegularizedNewton(
    shrink=1e-2,
    tau_min=1e-14,
    tol=0.0,
    max_iter=60,
    subproblem=SemismoothNewton(max_iter=50, tol=1e-12, cg_tol=1e-10, cg_max_iter=200),
)


def smooth(rng):
    C, M = rng.standard_normal(SHAPE), rng.standard_normal((SHAPE[0], SHAPE[0]))
    M = M + M.T
    return Smooth(
        lambda X: float(np.sin(C * X).sum() + (X * (M @ X)).sum()),
        SHAPE,
        jac=lambda X: C * np.cos(C * X) + 2 * M @ X,
        curvature=lambda X, D: -(C**2) * np.sin(C * X) * D + 2 * M @ D,
    )


def trace(rng):
    M = rng.standard_normal((SHAPE[0], SHAPE[0]))
    return TraceMin(M + M.T, SHAPE[1])


MAKE = {
    "linear": lambda rng: Projection(rng.standard_normal(SHAPE)),
    "trace": trace,
    "onmf": lambda rng: ONMF(np.abs(rng.standard_normal((SHAPE[0], 8))), SHAPE[1], quartic=True),
    "smooth": smooth,
}
every_problem = pytest.mark.parametrize("name", MAKE)
every_seed = pytest.mark.parametrize("seed", range(4))


def setting(name, seed, penalty=None):
    rng = np.random.default_rng(seed)
    h = Penalized(MAKE[name](rng), penalty or PowerPenalty(1.0))
    return h, random_oblique_plus(*SHAPE, rng)


def stationarity(h, X):
    """||min(X, rgrad h)||, from the definition."""
    return float(np.linalg.norm(np.minimum(X, riemannian_gradient(X, h.value_and_gradient(X)[1]))))


@every_problem
@every_seed
def test_converges_to_a_stationary_point(name, seed):
    h, X = setting(name, seed)
    method = RegularizedNewton(tol=1e-9, max_iter=500)
    state, status = run(h, method, method.init(h, X), method.stop())
    assert status is Status.CONVERGED
    assert state.stationarity == pytest.approx(stationarity(h, state.X), abs=1e-13)
    assert stationarity(h, state.X) <= 1e-9


@pytest.mark.parametrize(
    "penalty",
    [
        PowerPenalty(0.3, p=1.0, q=1.0),
        PowerPenalty(0.3, p=2.0, q=2.0),
        PowerPenalty(0.3, p=0.5, q=2.0, eps=1e-2),
        PowerPenalty(0.3, V=np.array([[3.0], [2.0], [1.0]]) / np.sqrt(14), q=3.0),
    ],
    ids=["q=1", "p=2", "p=1/2", "V,q=3"],
)
def test_converges_for_every_kind_of_penalty(penalty):
    h, X = setting("smooth", 0, penalty)
    state, *_ = minimize_oblique(h, RegularizedNewton(tol=1e-9, max_iter=500), X)
    assert stationarity(h, state.X) <= 1e-9


@every_problem
@every_seed
def test_residuals_fall_superlinearly_at_the_end(name, seed):
    h, X = setting(name, seed)
    near, *_ = minimize_oblique(h, RegularizedNewton(tol=1e-10, max_iter=500), X)
    assert optimality.check_oblique(h, near.X).satisfies_second_order_sufficient
    rng = np.random.default_rng(seed)
    moved = near.X * (1 + 1e-2 * rng.standard_normal(SHAPE))  # keeps the support
    sized = replace(h, unit=SIZE)
    state = PRECISE.init(sized, project_oblique_plus(moved))
    residuals = [stationarity(h, state.X)]
    while residuals[-1] > 1e-12 and len(residuals) < 10:  # below only rounding is left
        state = PRECISE.step(sized, state)
        residuals.append(stationarity(h, state.X))
    assert residuals[-1] <= 1e-12  # in ten steps: a linear method of rate 1/2 would need forty
    ratios = np.array(residuals[1:]) / np.array(residuals[:-1])
    assert ratios.min() <= 1e-3
    assert ratios[-1] <= ratios[0]


@every_problem
def test_model_is_that_of_the_paper(name):
    h, X = setting(name, 0)
    rng, tau = np.random.default_rng(1), 0.7
    here = newton._local(h, RegularizedNewton(tau_unit=1.0).init(h, X))
    gradient = h.value_and_gradient(X)[1]
    for Y in (random_oblique_plus(*SHAPE, rng), project_oblique_plus(X + 0.1 * gradient)):
        S = Y - X
        curved = np.vdot(S, h.hessp(X, S)) + tau * np.vdot(S, S)
        expected = np.vdot(gradient, S) + 0.5 * curved  # (5.4), of Euclidean derivatives
        assert newton._model(here, tau, S) == pytest.approx(expected, rel=1e-9)
    # rgrad m = rgrad h at X, and Hess m = Hess h + tau on the tangent space: below (5.4)
    D = riemannian_gradient(X, rng.standard_normal(SHAPE))
    t = 1e-5

    def along(t):
        moved = X + t * D
        return newton._model(here, tau, moved / np.linalg.norm(moved, axis=0) - X)

    np.testing.assert_allclose(here.rgrad, riemannian_gradient(X, gradient), atol=1e-12)
    slope = (along(t) - along(-t)) / (2 * t)
    assert slope == pytest.approx(np.vdot(here.rgrad, D), rel=1e-6, abs=1e-6)
    bent = h.hessp(X, D) - D * np.einsum("ij,ij->j", X, gradient) + tau * D
    assert (along(t) + along(-t)) / t**2 == pytest.approx(np.vdot(D, bent), rel=1e-4, abs=1e-4)


class Spy:
    """Keeps the trial points of a run."""

    def __init__(self, monkeypatch):
        self.trials = []
        original = RegularizedNewton._trial_point

        def trial_point(method, state, here):
            trial = original(method, state, here)
            self.trials.append((state, here, trial))
            return trial

        monkeypatch.setattr(RegularizedNewton, "_trial_point", trial_point)


def spied_run(monkeypatch, name, seed, method, steps=25):
    h, X = setting(name, seed)
    spy = Spy(monkeypatch)
    states = []
    for state in islice(iterate(h, method, method.init(h, X)), steps):
        states.append(state)
        if state.stationarity <= 1e-9:
            break
    return h, states, spy.trials


@every_problem
@every_seed
def test_trial_point_has_the_decrease_the_paper_asks_for(monkeypatch, name, seed):
    method = RegularizedNewton(tau_unit=1.0)  # the paper's units
    h, _, trials = spied_run(monkeypatch, name, seed, method)
    for state, here, trial in trials:
        gradient = h.value_and_gradient(state.X)[1]
        S = trial.Y - state.X
        bent = h.hessp(state.X, S)
        model = (gradient * S).sum() + 0.5 * (S * bent).sum() + 0.5 * trial.tau * (S * S).sum()
        assert trial.predicted == pytest.approx(model, rel=1e-6, abs=1e-14)  # m_l(Y), eq. (5.4)
        descent = np.linalg.norm(project_tangent(state.X, -riemannian_gradient(state.X, gradient)))
        assert here.descent_norm == pytest.approx(descent, rel=1e-8, abs=1e-14)
        # (5.5) with bounds on kappa_H and kappa_g that hold at this point.
        kappa = hessian_norm(h, state.X) + np.linalg.norm(gradient) + trial.tau
        assert trial.predicted <= -method.model_decrease / kappa * descent**2
        assert trial.Y.min() >= 0
        np.testing.assert_allclose(np.linalg.norm(trial.Y, axis=0), 1.0, atol=1e-14)


def hessian_norm(h, X):
    columns = [h.hessp(X, E.reshape(X.shape)).ravel() for E in np.eye(X.size)]
    return float(np.linalg.norm(np.array(columns), 2))


@every_problem
@every_seed
def test_direction_passes_the_test_of_the_paper(monkeypatch, name, seed):
    method = RegularizedNewton()
    _, _, trials = spied_run(monkeypatch, name, seed, method)
    for state, here, trial in trials:
        D, _ = method._direction(here, trial.tau)
        slope = float((here.rgrad * D).sum())
        assert slope <= -method.angle * here.descent_norm * np.linalg.norm(D)  # (5.6)
        assert np.abs((state.X * D).sum(axis=0)).max() <= 1e-10 * max(1.0, np.abs(D).max())
        assert (state.X + D).min() >= -1e-12  # D in T(X)


CLOSED_FORM = RegularizedNewton(tau_unit=1.0, step_rule="closed-form")


@pytest.mark.parametrize("name", ["linear", "trace"])  # with a known Lipschitz constant
@every_seed
def test_closed_form_step_is_that_of_the_paper_and_has_its_decrease(monkeypatch, name, seed):
    h, _, trials = spied_run(monkeypatch, name, seed, CLOSED_FORM)
    assert len(trials) >= 20
    for state, here, trial in trials:
        X, gradient = state.X, h.value_and_gradient(state.X)[1]
        assert trial.tau == state.tau  # the first trial is good enough: tau was not raised
        rgrad = riemannian_gradient(X, gradient)
        descent = np.linalg.norm(project_tangent(X, -rgrad))
        D, _ = CLOSED_FORM._direction(here, trial.tau)
        # kappa_H and kappa_g bound both derivatives at every point of OB+.
        kappa = here.bound + trial.tau
        Z = random_oblique_plus(*SHAPE, np.random.default_rng(seed))
        away = np.linalg.norm(h.value_and_gradient(Z)[1]) + hessian_norm(h, Z)
        assert away <= here.bound
        c_1, c_2 = -np.vdot(rgrad, D) / (descent * np.linalg.norm(D)), 0.5
        alpha = 2 * c_1 * (1 - c_2) * descent / (kappa * np.linalg.norm(D))  # (5.7)
        expected = project_oblique_plus(X + min(alpha, 1.0) * D)
        np.testing.assert_allclose(trial.Y, expected, atol=1e-12)
        if alpha <= 1:  # then (5.5) holds with a = 2 c_1^2 c_2 (1 - c_2)
            assert trial.predicted <= -0.5 * c_1**2 / kappa * descent**2 * (1 - 1e-9) + 1e-15


@pytest.mark.parametrize("name", ["linear", "trace"])
def test_closed_form_step_descends_and_comes_nearer(name):
    h, X = setting(name, 0)
    states = list(islice(iterate(h, CLOSED_FORM, CLOSED_FORM.init(h, X)), 200))
    assert all(b.value <= a.value + 1e-12 for a, b in pairwise(states))
    assert states[-1].stationarity <= 0.1 * states[0].stationarity


def test_closed_form_step_needs_a_lipschitz_constant():
    h, X = setting("smooth", 0)
    with pytest.raises(ValueError, match=r'step_rule="closed-form"` needs a Lipschitz constant'):
        CLOSED_FORM.step(h, CLOSED_FORM.init(h, X))


def test_bad_direction_is_replaced_by_the_projected_gradient(monkeypatch):
    h, X = setting("smooth", 0)
    method = RegularizedNewton()
    monkeypatch.setattr(  # uphill
        SemismoothNewton,
        "solve",
        lambda self, model: (model.X + project_tangent(model.X, model.gradient), 0.0),
    )
    states = list(islice(iterate(h, method, method.init(h, X)), 30))
    assert states[-1].value < states[0].value
    assert all(b.value <= a.value + 1e-13 for a, b in pairwise(states))


@pytest.mark.parametrize(("share", "is_kept"), [(-2.0, True), (-0.5, False), (0.5, False)])
def test_direction_must_lead_downhill_steeply_enough(monkeypatch, share, is_kept):
    # (5.6): D with a slope of this share of -c_1 ||Proj_T(-rgrad h)|| ||D||.
    h, X = setting("smooth", 0)
    method = RegularizedNewton(tau_unit=1.0)
    here = newton._local(h, method.init(h, X))
    across = riemannian_gradient(X, np.random.default_rng(1).standard_normal(SHAPE))
    downhill = here.rgrad / np.linalg.norm(here.rgrad)
    across -= downhill * np.vdot(downhill, across)
    across /= np.linalg.norm(across)
    slope = share * method.angle * here.descent_norm / np.linalg.norm(here.rgrad)
    D = 1e-6 * (slope * downhill + np.sqrt(1 - slope**2) * across)
    monkeypatch.setattr(SemismoothNewton, "solve", lambda self, model: (model.X + D, 0.0))
    taken, _ = method._direction(here, 1.0)
    np.testing.assert_allclose(taken, D if is_kept else here.descent, atol=1e-15)


@every_problem
@every_seed
def test_tau_follows_algorithm_2(monkeypatch, name, seed):
    method = RegularizedNewton()
    h, states, trials = spied_run(monkeypatch, name, seed, method)
    for (state, _, trial), after in zip(trials, states[1:], strict=True):
        low, high = method.tau_min * state.tau_unit, method.tau_max * state.tau_unit
        actual = h.value(trial.Y) - state.value
        slack = 1e-14 * max(1.0, abs(state.value))
        ratio = actual / trial.predicted
        blurred = 2 * slack / abs(trial.predicted)  # what rounding of h can do to the ratio
        if ratio >= method.good + blurred and trial.curvature == 0.0:
            assert after.tau == np.clip(method.shrink * trial.tau, low, high)
        elif method.accept + blurred <= ratio < method.good - blurred:
            assert after.tau == np.clip(trial.tau, low, high)
        elif ratio < method.accept - blurred:
            assert after.tau == np.clip(method.grow * trial.tau, low, high)
        is_taken = (after.X == trial.Y).all() and not (after.X == state.X).all()
        if abs(ratio - method.accept) > blurred:
            assert is_taken == (ratio >= method.accept)


def test_refused_step_raises_tau_and_keeps_the_point():
    h, X = setting("smooth", 1)

    class Wall(Penalized):
        """Infinite everywhere but at X."""

        def value_and_gradient(self, Y):
            value, gradient = super().value_and_gradient(Y)
            return (value if (Y == X).all() else np.inf), gradient

    wall = Wall(h.problem, h.penalty)
    method = RegularizedNewton()
    before = method.init(wall, X)
    after = method.step(wall, before)
    assert (after.X == X).all()
    assert after.value == before.value
    assert after.tau >= method.grow * before.tau * (1 - 1e-15)
    state, status = run(wall, method, before, method.stop())
    assert status in (Status.LINE_SEARCH_FAILED, Status.MAX_ITER)
    assert (state.X == X).all()


@every_problem
@every_seed
def test_agrees_with_projected_gradient_near_the_same_solution(name, seed):
    h, X = setting(name, seed)
    solution, *_ = minimize_oblique(h, ProjectedGradient(max_iter=5000), X, tol=1e-8)
    rng = np.random.default_rng(seed)
    near = project_oblique_plus(solution.X * (1 + 1e-3 * rng.standard_normal(SHAPE)))
    values = [
        minimize_oblique(h, method, near, tol=1e-9)[0].value
        for method in (ProjectedGradient(max_iter=5000), RegularizedNewton(max_iter=200))
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-6)


def test_stops_by_stationarity_or_by_step_as_chosen():
    h, X = setting("smooth", 0)
    for tol in (1e-2, 1e-6):
        state, status = run_with(h, X, criterion="stationarity", tol=tol)
        assert status is Status.CONVERGED
        assert state.stationarity <= tol
        state, status = run_with(h, X, criterion="step", tol=tol)
        assert status is Status.CONVERGED
        assert state.step_length <= tol
    # Neither looks at the other's measure: a loose one would end at the first state.
    assert run_with(h, X, criterion="step", tol=1e3)[0].n_iter == 1


def run_with(h, X, **options):
    method = RegularizedNewton(max_iter=200, **options)
    return run(h, method, method.init(h, X), method.stop())


def test_min_iter_and_max_iter_bound_the_run():
    h, X = setting("smooth", 0)
    assert run_with(h, X, tol=1e9, min_iter=3)[0].n_iter == 3
    method = RegularizedNewton(max_iter=2, tol=0.0)
    assert run(h, method, method.init(h, X), method.stop())[1] is Status.MAX_ITER


@every_problem
@every_seed
def test_limit_satisfies_the_weak_second_order_conditions(name, seed):
    h, X = setting(name, seed)
    state, *_ = minimize_oblique(h, RegularizedNewton(max_iter=500), X, tol=1e-9)
    report = optimality.check_oblique(h, state.X, tol=1e-6)
    assert report.is_stationary
    assert report.satisfies_weak_second_order


@every_problem
@every_seed
def test_zeros_of_the_limit_are_exact(name, seed):
    h, X = setting(name, seed)
    X = minimize_oblique(h, RegularizedNewton(max_iter=500), X, tol=1e-9)[0].X
    # An entry between rounding and the tolerance would be a zero that was not found; the entries of
    # a point with residual 1e-9 that are not to vanish are far above it.
    assert not ((X > 0) & (X < 1e-7)).any()


def test_scale_of_the_objective_does_not_matter():
    h, X = setting("smooth", 2)
    base = h.problem
    points = []
    for factor in (1.0, 2.0**20, 2.0**-20):  # powers of two: the same roundings
        scaled = Smooth(
            lambda X, s=factor: s * base.fun(X),
            SHAPE,
            jac=lambda X, s=factor: s * base.jac(X),
            curvature=lambda X, D, s=factor: s * base.curvature(X, D),
        )
        problem = Penalized(scaled, PowerPenalty(factor), unit=factor)
        points.append(minimize_oblique(problem, RegularizedNewton(), X, tol=1e-9)[0].X)
    np.testing.assert_array_equal(points[0], points[1])
    np.testing.assert_array_equal(points[0], points[2])


def test_stationary_start_is_left_alone():
    h, X = setting("trace", 0)
    state, *_ = minimize_oblique(h, RegularizedNewton(max_iter=500), X, tol=1e-10)
    method = replace(RegularizedNewton(), tol=1e-8)
    again, status = run(h, method, method.init(h, state.X), method.stop())
    assert status is Status.CONVERGED
    assert again.n_iter == 0
