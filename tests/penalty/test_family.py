"""The penalty family: derivatives, the two forms of V, and exactness on tiny instances."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute_force import minimize_over_supports, supports
from orthoplus.core.method import Known, run
from orthoplus.geometry.oblique import (
    project_oblique_plus,
    random_oblique_plus,
    riemannian_gradient,
)
from orthoplus.geometry.stiefel import (
    random_stiefel_plus,
    round_to_stiefel_plus,
    rounding_constant,
    rounding_error_bound,
)
from orthoplus.methods.projected_gradient import ProjectedGradient
from orthoplus.penalty.family import GeneralPenalty, PowerPenalty, check_mixing
from orthoplus.penalty.penalized import Penalized
from orthoplus.problems import Projection, Smooth, TraceMin
from slopes import gradient_slope, hessian_slope

POWERS = [
    (p, q, eps) for p in (0.5, 1.0, 1.5, 2.0, 3.0) for q in (0.5, 1.0, 2.0, 3.0) for eps in (0, 0.1)
]


def mixing(k, r, rng):
    """A random admissible V."""
    V = rng.random((k, r)) + 0.05
    return V / np.linalg.norm(V)


def mean_mixing(k):
    """V = e / sqrt(k), written out."""
    return np.full((k, 1), 1 / np.sqrt(k))


def power_profile(p, rho):
    """Psi(z) = (z / rho)^2p with two derivatives; for p = 1/2 it is linear."""
    if p == 0.5:
        return lambda z: (z / rho, 1 / rho, 0.0)

    def psi(z):
        safe = max(z / rho, 1e-30)  # derivatives at 0 are not asked for
        slope, bend = safe ** (2 * p - 1), safe ** (2 * p - 2)
        return (z / rho) ** (2 * p), 2 * p / rho * slope, 2 * p * (2 * p - 1) / rho**2 * bend

    return psi


# --- V and ||XV|| ---------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4))
def test_energy_is_one_exactly_on_stiefel_plus(seed, k, r):
    # Lemma 2.2.
    rng = np.random.default_rng(seed)
    for V in (None, mixing(k, r, rng)):
        penalty = PowerPenalty(1.0, V)
        assert abs(penalty.energy(random_stiefel_plus(k + 3, k, rng, n_zero_rows=1)) - 1) <= 1e-14
        X = random_oblique_plus(k + 3, k, rng)
        if k > 1:
            overlap = penalty.omega(k) * ((X.T @ X).sum() - k)
            assert penalty.energy(X) - 1 >= overlap - 1e-14 > 0
        assert penalty.energy(X) <= k + 1e-13


@pytest.mark.parametrize(
    ("V", "message"),
    [
        (np.ones((2, 1)), r"Frobenius norm is 1\.41421, but must be 1\. Divide V by its norm"),
        (np.eye(2) / np.sqrt(2), r"smallest entry of VV' is 0, but must be positive"),
        (np.array([[1.0], [-1.0]]) / np.sqrt(2), r"smallest entry of VV' is -0\.5"),
        (np.ones(2) / np.sqrt(2), r"`V` has 1 dimension.*reshape"),
    ],
)
def test_inadmissible_mixing_is_explained(V, message):
    with pytest.raises(ValueError, match=message):
        check_mixing(V)
    with pytest.raises(ValueError, match=message):
        PowerPenalty(1.0, V)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sigma": -1.0}, ValueError, r"`sigma=-1\.0` is out of range"),
        ({"sigma": np.nan}, TypeError, "`sigma=nan` is not a number"),
        ({"sigma": 1.0, "p": 0.0}, ValueError, r"`p=0\.0` is out of range: it must be positive"),
        ({"sigma": 1.0, "q": -1.0}, ValueError, r"`q=-1\.0` is out of range"),
        ({"sigma": 1.0, "eps": -0.1}, ValueError, r"`eps=-0\.1` is out of range"),
    ],
)
def test_options_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        PowerPenalty(**options)


# --- values and derivatives -----------------------------------------------------------------------


def test_power_penalty_closed_form():
    # x_1 = x_2 = e_1: X V = sqrt(2) e_1, so ||XV|| = sqrt(2).
    X = np.array([[1.0, 1.0], [0.0, 0.0]])
    for p, q, eps in POWERS:
        expected = 3.0 * (2 ** (q / 2) - 1 + eps) ** p
        np.testing.assert_allclose(PowerPenalty(3.0, p=p, q=q, eps=eps).value(X), expected)
    # 2 sigma phi'(s) XVV' with phi = s - 1: every entry of the first row is 2 sigma.
    np.testing.assert_allclose(PowerPenalty(3.0).gradient(X), [[6.0, 6.0], [0.0, 0.0]])


@pytest.mark.parametrize(("p", "q", "eps"), POWERS)
@pytest.mark.parametrize("with_matrix", [False, True])
def test_power_penalty_derivative_slopes(p, q, eps, with_matrix, rng):
    V = mixing(3, 2, rng) if with_matrix else None
    penalty = PowerPenalty(1.7, V, p=p, q=q, eps=eps)
    for _ in range(3):
        X, D = random_oblique_plus(5, 3, rng), rng.standard_normal((5, 3)) / 4
        assert gradient_slope(penalty.value, penalty.gradient, X, D) > 1.8
        curve = lambda X, D: penalty.hessian(X)(D)  # noqa: E731
        assert hessian_slope(penalty.gradient, curve, X, D) > 1.8


@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("q", [0.5, 1.0, 2.0, 3.0])
def test_general_penalty_derivative_slopes(q, eps, rng):
    psi = lambda z: (np.expm1(z / 9), np.exp(z / 9) / 9, np.exp(z / 9) / 81)  # noqa: E731
    penalty = GeneralPenalty(1.3, mixing(3, 3, rng), psi=psi, k=3, q=q, eps=eps)
    X, D = random_oblique_plus(5, 3, rng), rng.standard_normal((5, 3)) / 4
    assert gradient_slope(penalty.value, penalty.gradient, X, D) > 1.8
    assert hessian_slope(penalty.gradient, lambda X, D: penalty.hessian(X)(D), X, D) > 1.8


@pytest.mark.parametrize(("p", "q", "eps"), POWERS)
def test_power_penalty_is_a_general_penalty(p, q, eps, rng):
    for V in (None, mixing(3, 2, rng)):
        power = PowerPenalty(2.0, V, p=p, q=q, eps=eps)
        rho = rounding_constant(3, q, omega=power.omega(3))
        general = GeneralPenalty(2.0, V, psi=power_profile(p, rho), k=3, q=q, eps=eps)
        X, D = random_oblique_plus(6, 3, rng), rng.standard_normal((6, 3))
        # The chain rule through a square root costs a few digits.
        np.testing.assert_allclose(general.value(X), power.value(X), rtol=1e-12)
        np.testing.assert_allclose(general.gradient(X), power.gradient(X), rtol=1e-10)
        np.testing.assert_allclose(general.hessian(X)(D), power.hessian(X)(D), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(("p", "q", "eps"), POWERS)
def test_mean_mixing_agrees_with_its_matrix(p, q, eps, rng):
    k = 4
    short = PowerPenalty(2.0, p=p, q=q, eps=eps)
    long = PowerPenalty(2.0, mean_mixing(k), p=p, q=q, eps=eps)
    X, D = random_oblique_plus(7, k, rng), rng.standard_normal((7, k))
    assert long.omega(k) == pytest.approx(short.omega(k), rel=1e-15)
    # Both forms round differently; powers below one magnify that a little.
    close = {"rtol": 1e-11, "atol": 1e-12}
    np.testing.assert_allclose(short.energy(X), long.energy(X), **close)
    np.testing.assert_allclose(short.value(X), long.value(X), **close)
    np.testing.assert_allclose(short.gradient(X), long.gradient(X), **close)
    np.testing.assert_allclose(short.hessian(X)(D), long.hessian(X)(D), **close)
    assert short.gradient(X).shape == short.hessian(X)(D).shape == X.shape
    problem = TraceMin(np.diag(np.arange(7.0)), k)
    one, two = Penalized(problem, short), Penalized(problem, long)
    np.testing.assert_allclose(one.value(X), two.value(X), **close)
    np.testing.assert_allclose(one.hessp(X, D), two.hessp(X, D), **close)
    for a, b in zip(one.value_and_gradient(X), two.value_and_gradient(X), strict=True):
        np.testing.assert_allclose(a, b, **close)
    (value, G, weight, energy), other = one.evaluate(X), two.evaluate(X)
    assert other.weight == 0.0
    assert energy == short.energy(X)
    assert other.energy == long.energy(X)
    np.testing.assert_allclose(value, other.value, **close)
    np.testing.assert_allclose(G + weight * X.mean(axis=1)[:, None], other.gradient, **close)
    # What is known already stands for what would be computed here.
    assert one.evaluate(X, short.energy(X)).value == value
    f, gradient = problem.value_and_gradient(X)
    shifted = two.evaluate(X, known=Known(f + 3.0, gradient + 1.0, energy))
    np.testing.assert_allclose(shifted.value, other.value + 3.0, **close)
    np.testing.assert_allclose(shifted.gradient, other.gradient + 1.0, **close)


def test_rescaled_penalty_is_the_same_with_other_parameters(rng):
    V = np.full((3, 1), 3**-0.5)
    penalty = PowerPenalty(2.0, V, p=2.0, q=3.0, eps=0.5)
    other, wanted = penalty.rescaled(7.0, 0.1), PowerPenalty(7.0, V, p=2.0, q=3.0, eps=0.1)
    X = random_oblique_plus(5, 3, rng)
    assert other.value(X) == wanted.value(X) != penalty.value(X)
    np.testing.assert_array_equal(other.gradient(X), wanted.gradient(X))
    assert (penalty.sigma, penalty.eps) == (2.0, 0.5)


def test_derivatives_are_finite_on_stiefel_plus(rng):
    X, D = random_stiefel_plus(5, 2, rng), rng.standard_normal((5, 2))
    for p, q, eps in POWERS:
        penalty = PowerPenalty(1.0, p=p, q=q, eps=eps)
        # zeta is a rounding here, up to 1e-15 or exactly 0.
        assert abs(penalty.value(X) - eps**p) <= 1e-15**p + 1e-13
        assert np.isfinite(penalty.gradient(X)).all()
        assert np.isfinite(penalty.hessian(X)(D)).all()


@pytest.mark.parametrize(("p", "q", "eps"), POWERS)
def test_lipschitz_constant_bounds_the_change_of_gradient(p, q, eps, rng):
    for V in (None, mixing(3, 2, rng)):
        h = Penalized(TraceMin(np.zeros((6, 6)), 3), PowerPenalty(1.3, V, p=p, q=q, eps=eps))
        if eps == 0 and p in (0.5, 1.5):
            assert h.lipschitz is None  # the second derivative is unbounded near S+
            continue
        for _ in range(30):
            away = rng.choice([0.0, 1e-3, 0.1, 3.0]) * rng.random((6, 3))
            X = project_oblique_plus(random_stiefel_plus(6, 3, rng) + away)
            Z = project_oblique_plus(X + 10.0 ** -rng.uniform(0, 5) * rng.standard_normal((6, 3)))
            change = np.linalg.norm(h.value_and_gradient(X)[1] - h.value_and_gradient(Z)[1])
            # Gradients of size ten carry roundings of 1e-14.
            assert change <= h.lipschitz * np.linalg.norm(X - Z) + 1e-12


def test_lipschitz_constant_is_sharp_for_the_default():
    h = Penalized(TraceMin(np.eye(4), 2), PowerPenalty(1.5))
    assert h.lipschitz == 2.0 + 3.0
    blind = Smooth(lambda X: 0.0, (4, 2), jac=np.zeros_like)
    assert Penalized(blind, PowerPenalty(1.5)).lipschitz is None


def test_smoothness_is_attained_for_p_two():
    # Equal columns have s = k, where phi' and s phi'' are largest, both along XVV'.
    X, penalty = np.full((4, 3), 0.5), PowerPenalty(1.5, p=2.0)
    quotient = np.vdot(X, penalty.hessian(X)(X)) / np.vdot(X, X)
    assert penalty.smoothness(3) == pytest.approx(quotient)
    assert quotient == pytest.approx(1.5 * (2 * 4 + 4 * 3 * 2))  # 2 phi' + 4 s phi'', s = 3


# --- psi ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "psi",
    [lambda z: (-z, -1.0, 0.0), lambda z: (1.0, 0.0, 0.0), lambda z: (np.sin(4 * z), 0.0, 0.0)],
)
def test_psi_that_does_not_increase_is_explained(psi):
    with pytest.raises(ValueError, match=r"`psi` is not strictly increasing on the range of Q"):
        GeneralPenalty(1.0, psi=psi, k=3)


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_general_penalty_accepts_one_column(eps):
    # With k = 1 every point is feasible and Q is constant.
    penalty = GeneralPenalty(2.0, psi=lambda z: (z, 1.0, 0.0), k=1, eps=eps)
    np.testing.assert_allclose(penalty.value(np.eye(3, 1)), 2 * np.sqrt(2 * eps), rtol=1e-12)


# --- thresholds -----------------------------------------------------------------------------------


def test_threshold_closed_form():
    # k = 2, q = 2: rho^2 = 2k / (1/k) = 8; L = 3, chi = 1.5, so kappa = 1/2.
    threshold = lambda **options: PowerPenalty(1.0, **options).threshold(3.0, 1.5, 2)  # noqa: E731
    np.testing.assert_allclose(threshold(p=1.0), 8 * 3 / 0.5)
    np.testing.assert_allclose(threshold(p=2.0), 64 * 3 / 0.5**3)
    np.testing.assert_allclose(threshold(p=0.5), np.sqrt(8) * 3)
    np.testing.assert_allclose(threshold(p=0.25), 8**0.25 * 3 * 2**0.5)
    # eps > 0: z / (z^2 - 8 eps) is largest at kappa; (3.3) has sqrt(2k) = 2 in place of kappa.
    np.testing.assert_allclose(threshold(p=1.0, eps=0.01), 8 * 3 * 0.5 / (0.25 - 8 * 0.01))
    # q = 1: rho^2 = 8 (sqrt(2) + 1).
    np.testing.assert_allclose(threshold(p=1.0, q=1.0), 8 * (np.sqrt(2) + 1) * 3 / 0.5)


def printed_threshold(penalty, lipschitz, separation, k):
    """Eq. (3.3) as printed, with its three cases."""
    p, kappa = penalty.p, separation / lipschitz
    rho = rounding_constant(k, penalty.q, omega=penalty.omega(k))
    if penalty.eps > 0:
        nu = np.sqrt(2 * k) / (kappa ** (2 * p) - (rho * np.sqrt(penalty.eps)) ** (2 * p))
    else:
        nu = (np.sqrt(2 * k) if p <= 0.5 else kappa) ** (1 - 2 * p)
    return rho ** (2 * p) * lipschitz * nu


@pytest.mark.parametrize("eps", [0.0, 1e-6])
@pytest.mark.parametrize("with_matrix", [False, True])
def test_threshold_is_that_of_the_paper_and_the_same_in_the_general_model(eps, with_matrix, rng):
    V = mixing(3, 2, rng) if with_matrix else None
    for p, q in [(0.25, 2.0), (0.5, 1.0), (0.75, 2.0), (1.0, 2.0), (2.0, 0.5)]:
        power = PowerPenalty(1.0, V, p=p, q=q, eps=eps)
        rho = rounding_constant(3, q, omega=power.omega(3))
        general = GeneralPenalty(1.0, V, psi=power_profile(p, rho), k=3, q=q, eps=eps)
        sharp, printed = power.threshold(2.0, 1.9, 3), printed_threshold(power, 2.0, 1.9, 3)
        np.testing.assert_allclose(general.threshold(2.0, 1.9), sharp, rtol=1e-12)
        if eps == 0:
            np.testing.assert_allclose(sharp, printed, rtol=1e-12)
        else:  # (3.3) bounds z by sqrt(2k) first, and has a jump at eps = 0
            assert sharp <= printed * (1 + 1e-12)


@pytest.mark.parametrize(
    "psi",
    [
        lambda z: (z, 1.0, 0.0),
        lambda z: (np.expm1(z), 0.0, 0.0),
        lambda z: (z / (1 + z), 0.0, 0.0),
        lambda z: (z**3 + 0.2 * z, 0.0, 0.0),
        lambda z: (np.sqrt(z) + z**4, 0.0, 0.0),  # the quotient is neither monotone nor convex
    ],
)
@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_threshold_is_where_upsilon_falls_below_kappa(psi, eps):
    lipschitz, separation, k = 2.0, 1.3, 2
    sigma = GeneralPenalty(1.0, psi=psi, k=k, eps=eps).threshold(lipschitz, separation)
    above, below = (
        GeneralPenalty(sigma * factor, psi=psi, k=k, eps=eps).upsilon(lipschitz, k)
        for factor in (1 + 1e-6, 1 - 1e-6)
    )
    assert above < separation / lipschitz <= below  # (3.17) holds above it, and fails below


def test_threshold_can_be_had_from_a_problem(rng):
    C = rng.standard_normal((4, 2))
    problem, penalty = Projection(C), PowerPenalty(1.0, p=1.5)
    expected = penalty.threshold(2 * np.linalg.norm(C), 0.1, 2)
    assert penalty.threshold_for(problem, 0.1) == pytest.approx(expected, rel=1e-14)
    assert penalty.threshold_for(problem, 0.1, lipschitz=50.0) == penalty.threshold(50.0, 0.1, 2)
    blind = Smooth(lambda X: 0.0, (4, 2), jac=np.zeros_like)
    with pytest.raises(ValueError, match=r"Smooth has no known Lipschitz constant.*estimate"):
        penalty.threshold_for(blind, 0.1)
    general = GeneralPenalty(1.0, k=3)
    with pytest.raises(ValueError, match=r"`k=2` differs from the number of columns.*3"):
        general.threshold_for(problem, 0.1)


def test_threshold_explains_when_eps_is_too_large():
    # eps must be below (kappa / rho)^2 = (1/2)^2 / 8 = 0.1 / 3.2.
    message = r"`eps` is too large.*Q_0 = 0\.894 must be below kappa_f.*= 0\.5\. Divide.*3\.2"
    with pytest.raises(ValueError, match=message):
        PowerPenalty(1.0, eps=0.1).threshold(3.0, 1.5, 2)
    with pytest.raises(ValueError, match=message):
        GeneralPenalty(1.0, k=2, eps=0.1).threshold(3.0, 1.5)
    with pytest.raises(ValueError, match="`separation=0"):
        PowerPenalty(1.0).threshold(3.0, 0.0, 2)
    with pytest.raises(ValueError, match="`lipschitz=0"):
        GeneralPenalty(1.0, k=2).threshold(0, 1.0)


@pytest.mark.parametrize(("p", "q", "eps"), POWERS)
def test_penalty_is_psi_of_a_q_that_satisfies_its_conditions(p, q, eps, rng):
    # (3.7a), (3.7b) and (3.8), with Q read off the penalty through the inverse of Psi.
    for V in (None, mixing(3, 2, rng)):
        penalty = PowerPenalty(1.0, V, p=p, q=q, eps=eps)
        measure = penalty.measure(3)
        rho = rounding_constant(3, q, omega=penalty.omega(3))

        def distance(X, penalty=penalty, rho=rho):
            return rho * penalty.value(X) ** (1 / (2 * p))

        for _ in range(5):
            X = random_oblique_plus(7, 3, rng)
            Q = distance(X)
            assert measure.psi(Q) == pytest.approx(penalty.value(X), rel=1e-9)  # (3.9)
            zeta = penalty.energy(X) ** (q / 2) - 1
            assert measure.largest * (1 + 1e-9) >= Q >= rho * np.sqrt(zeta) * (1 - 1e-9)  # (3.7a)
            assert Q >= max(measure.start, np.linalg.norm(round_to_stiefel_plus(X) - X))  # (3.8)
            # On S+ zeta is a rounding, of which Q takes the root.
            on_set = distance(random_stiefel_plus(7, 3, rng))
            assert on_set == pytest.approx(measure.start, abs=1e-6)  # (3.7b)


# --- exactness ------------------------------------------------------------------------------------


class Instance:
    """A tiny problem with its optimal supports, chi_f and L_f by brute force.

    The optimal supports have no zero row, so no other support has an optimum in its closure and
    chi_f is a difference of closed-form values.
    """

    def __init__(self, problem, lipschitz):
        self.problem, self.lipschitz = problem, lipschitz
        self.best, _, self.points = minimize_over_supports(problem)
        values = np.array([problem.value(X) for X in self.points])
        optimal = values <= self.best + 1e-9  # a quadratic f does not see the order of the columns
        self.optima = [X for X, is_best in zip(self.points, optimal, strict=True) if is_best]
        assert all(X.any(axis=1).all() for X in self.optima)
        self.separation = float(values[~optimal].min()) - self.best
        assert self.separation > 1e-3

    def is_optimal(self, X):
        return any(((X > 0) == (best > 0)).all() for best in self.optima)

    def minimize(self, penalty, rng):
        """The best point over OB+ from many starts, all refined supports and one random each.

        Theorem 3.1 uses of a global minimizer only that neither the optimum nor its own rounding is
        better: both are among the points compared.
        """
        h, method = Penalized(self.problem, penalty), ProjectedGradient(max_iter=60, tol=1e-9)
        starts = self.points + [random_oblique_plus(*h.shape, rng) for _ in range(12)]
        ends = [run(h, method, method.init(h, X), method.stop())[0].X for X in starts]
        ends += self.points
        ends += [round_to_stiefel_plus(X) for X in ends]
        return min(ends, key=h.value)


def linear_instance(rng):
    C = np.array([[3.0, 1.0], [2.0, 2.5], [1.0, 3.0]]) + 0.2 * rng.random((3, 2))
    return Instance(Projection(C), 2 * float(np.linalg.norm(C)))


def quadratic_instance(rng):
    M = -np.array([[2.0, 1.5, 0.2], [1.5, 1.0, 0.3], [0.2, 0.3, 2.5]]) - 0.05 * np.ones((3, 3))
    M -= np.diag(rng.random(3) / 5)
    # |f(X) - f(Z)| = |<M(X + Z), X - Z>| and ||X + Z|| <= 2 sqrt(k).
    return Instance(TraceMin(M, 2), float(2 * np.sqrt(2) * np.linalg.norm(M, 2)))


INSTANCES = {"linear": linear_instance, "quadratic": quadratic_instance}


def upsilon_on_a_grid(penalty, lipschitz, k):
    """Eq. (3.11) with Psi = (z / rho)^2p: the largest of many z that satisfies both constraints."""
    rho, power = rounding_constant(k, penalty.q), 2 * penalty.p
    start, slope = rho * np.sqrt(penalty.eps), lipschitz / penalty.sigma
    top = rho * ((start / rho) ** power + np.sqrt(2 * k) * slope) ** (1 / power)
    z = np.linspace(start, top, 200_001)
    allowed = (z / rho) ** power <= (start / rho) ** power + slope * z + 1e-15
    return float(z[allowed].max()), top - start


@pytest.mark.parametrize("sigma", [0.1, 3.0, 40.0, 1e3])
@pytest.mark.parametrize(("p", "q", "eps"), POWERS)
def test_upsilon_is_its_definition(p, q, eps, sigma):
    penalty = PowerPenalty(sigma, p=p, q=q, eps=eps)
    expected, width = upsilon_on_a_grid(penalty, 2.0, 3)
    assert penalty.upsilon(2.0, 3) == pytest.approx(expected, abs=2e-5 * width)
    assert penalty.rounding_loss(2.0, 3) == 2.0 * penalty.upsilon(2.0, 3)  # (3.10)


def test_upsilon_closed_form():
    # k = 2, rho^2 = 8, p = 1: z^2 / 8 <= z L / sigma, and z^2 / 8 <= 2 L / sigma.
    for sigma in (0.5, 1.0, 4.0, 1e3, 1e12):
        expected = min(8 * 3 / sigma, np.sqrt(8 * 2 * 3 / sigma))
        assert PowerPenalty(sigma).upsilon(3.0, 2) == pytest.approx(expected, rel=1e-9)
    # p = 1/4, case I of the proof: nothing between 0 and sqrt(2k) satisfies the first constraint.
    threshold = PowerPenalty(1.0, p=0.25).threshold(3.0, 1.0, 2)
    assert PowerPenalty(1.001 * threshold, p=0.25).upsilon(3.0, 2) == 0.0
    assert PowerPenalty(0.999 * threshold, p=0.25).upsilon(3.0, 2) >= 2.0
    # A bounded psi has no inverse beyond its bound: Q itself is bounded over OB+.
    bounded = GeneralPenalty(1e-3, psi=lambda z: (z / (1 + z), 0.0, 0.0), k=2)
    assert bounded.upsilon(3.0, 2) == pytest.approx(np.sqrt(8))
    with pytest.raises(ValueError, match="`sigma=0"):
        PowerPenalty(0.0).upsilon(3.0, 2)


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize(
    ("p", "q", "share"),
    [
        (0.25, 2.0, 0.0),
        (0.5, 2.0, 0.0),
        (0.5, 1.0, 0.5),
        (1.0, 2.0, 0.0),
        (1.0, 1.0, 0.5),
        (1.0, 3.0, 0.0),
        (1.5, 2.0, 0.0),
        (2.0, 0.5, 0.0),
    ],
)
def test_penalty_is_exact_above_the_threshold(name, p, q, share, rng):
    # Theorem 3.1, and the bound (3.10) on the way to it.
    instance = INSTANCES[name](rng)
    kappa = instance.separation / instance.lipschitz
    eps = share * (kappa / rounding_constant(2, q)) ** 2
    penalty = PowerPenalty(1.0, p=p, q=q, eps=eps)
    threshold = penalty.threshold(instance.lipschitz, instance.separation, 2)
    penalty = PowerPenalty(1.01 * threshold, p=p, q=q, eps=eps)
    assert penalty.upsilon(instance.lipschitz, 2) < kappa  # (3.17)
    loss = penalty.rounding_loss(instance.lipschitz, 2)
    X = instance.minimize(penalty, rng)
    XR = round_to_stiefel_plus(X)
    assert instance.is_optimal(XR)  # (i)
    assert instance.problem.value(XR) <= instance.best + loss + 1e-9
    refined = instance.problem.value(instance.problem.refine(XR))
    assert abs(refined - instance.best) <= 1e-9  # (ii)
    assert np.linalg.norm(XR - X) <= rounding_error_bound(X, q) + 1e-7


@pytest.mark.parametrize("name", INSTANCES)
def test_upsilon_below_kappa_gives_the_support(name, rng):
    # Theorem 3.4 for powers, down to the smallest sigma of the sequence that meets (3.12).
    instance = INSTANCES[name](rng)
    kappa, met = instance.separation / instance.lipschitz, 0
    for p, sigma in [(1.0, 10.0**e) for e in (0, 2, 4)] + [(0.5, 10.0**e) for e in (0, 1, 2)]:
        penalty = PowerPenalty(sigma * instance.lipschitz, p=p)
        if penalty.upsilon(instance.lipschitz, 2) < kappa:
            met += 1
            assert instance.is_optimal(round_to_stiefel_plus(instance.minimize(penalty, rng)))
    assert met >= 2


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("sigma", [0.01, 0.3, 3.0, 30.0])
def test_rounded_minimizer_is_within_the_rounding_loss(name, sigma, rng):
    # Lemma 3.3, (3.10), at any sigma: also far below the threshold.
    instance = INSTANCES[name](rng)
    penalty = PowerPenalty(sigma * instance.lipschitz)
    loss = penalty.rounding_loss(instance.lipschitz, 2)
    excess = instance.problem.value(round_to_stiefel_plus(instance.minimize(penalty, rng)))
    assert -1e-9 <= excess - instance.best <= loss + 1e-9


def test_general_penalty_is_exact_above_the_threshold(rng):
    instance = linear_instance(rng)
    psi = lambda z: (np.expm1(z), np.exp(z), np.exp(z))  # noqa: E731
    start = GeneralPenalty(1.0, psi=psi, k=2, q=1.0)
    threshold = start.threshold(instance.lipschitz, instance.separation)
    penalty = GeneralPenalty(1.01 * threshold, psi=psi, k=2, q=1.0)
    assert instance.is_optimal(round_to_stiefel_plus(instance.minimize(penalty, rng)))


def test_penalty_may_fail_far_below_the_threshold(rng):
    # The columns of C pull at the same rows: without a penalty every row goes where its share of
    # the column is largest, which is not where its square counts most.
    instance = Instance(Projection(np.array([[4.0, 1.0], [3.0, 1.0], [1.0, 0.3]])), 11.0)
    threshold = PowerPenalty(1.0).threshold(instance.lipschitz, instance.separation, 2)
    weak = instance.minimize(PowerPenalty(1e-6 * threshold), rng)
    assert not instance.is_optimal(round_to_stiefel_plus(weak))
    strong = instance.minimize(PowerPenalty(1.01 * threshold), rng)
    assert instance.is_optimal(round_to_stiefel_plus(strong))


def test_exactness_starts_from_every_support():
    assert len(list(supports(3, 2))) == 12  # 3^3 deals, less 2 * 2^3 - 1 with an empty column
    assert len(list(supports(4, 2, full=True))) == 14
    assert all(not ((a > 0) == (b > 0)).all() for a, b in pairwise(supports(3, 2)))


# --- Example 4.1 ----------------------------------------------------------------------------------


def example_4_1(sigma):
    """The problem, its penalized form, and the point of the paper's counter-example."""
    C = np.array([[-1.0, -1.0], [0.0, 0.0], [0.0, 0.0]])
    problem = Smooth(lambda X: float((C * X).sum()), (3, 2), jac=lambda X: C)
    side = np.sqrt(1 - 1 / sigma**2)
    X = np.array([[1 / sigma, 1 / sigma], [side, 0.0], [0.0, side]])
    return problem, Penalized(problem, PowerPenalty(sigma)), X


@pytest.mark.parametrize("sigma", [2.0, 10.0, 1e3])
def test_example_4_1_is_stationary_for_the_penalized_problem(sigma):
    _, h, X = example_4_1(sigma)
    G = riemannian_gradient(X, h.value_and_gradient(X)[1])
    # The gradient has entries of size sigma.
    assert np.abs(np.minimum(X, G)).max() <= 1e-15 * sigma
    method = ProjectedGradient()
    assert method.init(h, X).stationarity <= 1e-14 * sigma


@pytest.mark.parametrize("with_mixing", [False, True])
def test_penalty_does_not_bend_the_directions_that_stay_in_stiefel_plus(with_mixing, rng):
    # Remark 4.6: for p = 1, q = 2 both Riemannian Hessians agree on the cone (2.11).
    X = random_stiefel_plus(8, 3, rng, n_zero_rows=3)
    penalty = PowerPenalty(5.0, V=mixing(3, 2, rng) if with_mixing else None)
    slopes = np.einsum("ij,ij->j", X, penalty.gradient(X))
    bend = penalty.hessian(X)
    D = riemannian_gradient(X, np.where(X > 0, rng.standard_normal(X.shape), 0.0))
    D[~X.any(axis=1), [0, 0, 2]] = rng.random(3)  # one entry a zero row
    assert np.vdot(D, bend(D) - D * slopes) == pytest.approx(0.0, abs=1e-12)
    D[np.flatnonzero(~X.any(axis=1))[0], 1] = 1.0  # a second one: outside of the tangent cone
    assert np.vdot(D, bend(D) - D * slopes) > 1e-2


@pytest.mark.parametrize("sigma", [10.0, 1e3])
def test_example_4_1_is_a_saddle(sigma):
    # The direction of the proof of Theorem 4.5: with it a second-order method escapes.
    _, h, X = example_4_1(sigma)
    a = X[0, 0] / X[1, 0]
    D = np.array([[1.0, -1.0], [-a, 0.0], [0.0, a]])
    np.testing.assert_allclose((X * D).sum(axis=0), 0.0, atol=1e-15)
    G = h.value_and_gradient(X)[1]
    curvature = (D * (h.hessp(X, D) - D * (X * G).sum(axis=0))).sum()
    assert curvature < -sigma


def test_example_4_1_tends_to_a_weakly_stationary_point_that_is_not_stationary():
    problem, _, limit = example_4_1(1e9)
    limit = np.where(limit < 1e-6, 0.0, 1.0)
    for sigma in (1e2, 1e4):
        assert np.linalg.norm(example_4_1(sigma)[2] - limit) <= 2 / sigma
    g = problem.value_and_gradient(limit)[1]
    G = riemannian_gradient(limit, g)
    assert np.abs(G[limit > 0]).max() == 0.0  # (2.6a) holds: weakly stationary
    assert g[0].max() < 0  # (2.6b) fails on the zero row
