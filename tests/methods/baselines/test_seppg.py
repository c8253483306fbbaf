"""SEPPG: the envelope, the proximal step in the tangent space, and exactness of the penalty."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from orthoplus.bench.oracles import global_minimum
from orthoplus.core.method import run
from orthoplus.core.status import Status
from orthoplus.geometry.oblique import random_oblique_plus
from orthoplus.geometry.stiefel import polar_factor
from orthoplus.methods.baselines import SEPPG
from orthoplus.methods.baselines.seppg import negativity, tangent_step, with_envelope
from orthoplus.problems import Projection, TraceMin


def test_envelope_is_its_definition():
    problem = Projection(np.zeros((1, 1)))
    for x in (-2.0, -0.3, -0.1, -0.05, 0.0, 0.4):
        value = with_envelope(problem, 1.0, 0.2)(np.array([[x]]))[0]
        f = problem.value(np.array([[x]]))
        least = minimize_scalar(
            lambda z, x=x: max(-z, 0.0) + (z - x) ** 2 / 0.4, bracket=(x - 1, x, x + 1), tol=1e-12
        ).fun
        assert np.isclose(value - f, least, atol=1e-8)


def test_gradient_with_envelope_is_its_slope(rng):
    M = rng.standard_normal((6, 6))
    objective = with_envelope(TraceMin(M + M.T, 2), 3.0, 0.3)
    U, D, t = rng.standard_normal((6, 2)), rng.standard_normal((6, 2)), 1e-6
    slope = (objective(U + t * D)[0] - objective(U - t * D)[0]) / (2 * t)
    assert np.isclose(slope, (objective(U)[1] * D).sum(), rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length", [1e-2, 1.0, 10.0])
def test_tangent_step_is_the_minimizer_over_the_tangent_space(seed, length):
    rng = np.random.default_rng(seed)
    U, G, sigma = polar_factor(rng.standard_normal((7, 3))), rng.standard_normal((7, 3)), 0.8
    V = tangent_step(U, G, length, sigma)

    def model(V):
        return (G * V).sum() + (V**2).sum() / (2 * length) + sigma * negativity(U + V)

    assert np.abs(U.T @ V + V.T @ U).max() <= 1e-12
    for _ in range(100):
        D = rng.standard_normal((7, 3))
        D -= U @ (U.T @ D + D.T @ U) / 2
        for t in (1e-5, 1e-3, 1e-1):
            # The model is convex: at the minimizer nothing is gained, but for rounding.
            assert model(V + t * D) >= model(V) - 1e-9


def test_nonsmooth_penalty_ends_exactly_nonnegative_at_a_finite_rho(rng):
    M = rng.standard_normal((8, 8))
    problem = TraceMin(M + M.T, 2)
    method = SEPPG(penalty="nonsmooth", negativity_tol=1e-12, kick=0.0, value_tol=1e-14)
    first = method.init(problem, random_oblique_plus(8, 2, rng))
    state, status = run(problem, method, first, method.stop())
    assert status is Status.CONVERGED
    assert state.negativity <= 1e-12
    # The multipliers of a quadratic f are bounded: rho needs to outgrow them only.
    assert state.sigma <= 1e2 * first.sigma / method.penalty_start


@pytest.mark.parametrize("penalty", ["smooth", "nonsmooth"])
def test_penalty_above_its_threshold_has_the_constrained_minimum(penalty, rng):
    # Minimized from many starts on the manifold with one large rho, against all supports.
    M = rng.random((4, 4)) + 0.1  # minimizers of -<M, XX'> with M > 0 have no row of zeros
    problem = TraceMin(-(M + M.T), 2)
    best = global_minimum(problem).value
    values = []
    for _ in range(20):
        method = SEPPG(
            penalty=penalty, penalty_start=20.0, smoothing=1e-3, inner_tol=1e-6, max_iter=1
        )
        first = method.init(problem, random_oblique_plus(4, 2, rng))
        state = method.step(problem, first)
        values.append(state.value + first.sigma * state.negativity)
    # The smoothed penalty is lower by at most rho gamma / 2 for each of the eight entries.
    assert min(values) >= best - 4 * 1e-3 * 20.0 * 4
    assert min(values) <= best + 1e-2 * abs(best)


def test_kick_changes_the_run_and_its_seed_repeats_it(rng):
    M = rng.standard_normal((8, 8))
    problem, X = TraceMin(M + M.T, 3), random_oblique_plus(8, 3, rng)

    def last(**options):
        method = SEPPG(**options)
        state = method.init(problem, X)
        for _ in range(5):
            state = method.step(problem, state)
        return state.factor

    assert (last(seed=1) == last(seed=1)).all()
    assert not np.allclose(last(seed=1), last(kick=0.0))


def test_words_are_checked():
    with pytest.raises(ValueError, match="Choose one of"):
        SEPPG(penalty="square")
