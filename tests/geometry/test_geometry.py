"""OB+ and S+: projections, rounding, cones, by hand, by brute force and by their properties."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

import orthoplus as op
from orthoplus import kernels
from orthoplus.geometry.delta import delta_jacobian, project_delta
from orthoplus.geometry.oblique import (
    project_oblique_plus,
    project_tangent,
    random_oblique_plus,
    riemannian_gradient,
)
from orthoplus.geometry.stiefel import (
    in_linearized_cone,
    in_tangent_cone,
    keep_largest,
    labels_of,
    random_stiefel_plus,
    round_to_stiefel_plus,
    rounding_constant,
    rounding_error_bound,
    violation,
)

# A handful of roundings of numbers of size one.
ROUNDING = 1e-14

# Small whole numbers make ties and columns without a positive entry common.
tied = st.integers(-3, 3).map(float)
smooth = st.floats(-1e3, 1e3, allow_subnormal=False)


@st.composite
def matrices(draw, elements=tied | smooth):
    """n x k with 1 <= k <= n <= 6."""
    n = draw(st.integers(1, 6))
    k = draw(st.integers(1, n))
    return draw(arrays(np.float64, (n, k), elements=elements))


@st.composite
def oblique_points(draw):
    """Points of OB+ of all kinds: generic, sparse, with ties and with repeated columns."""
    C = draw(matrices(elements=st.just(0.0) | tied | st.floats(0.0, 1.0)))
    if draw(st.booleans()):
        C[:, -1] = C[:, 0]
    return project_oblique_plus(C)


def distance_to_stiefel_plus(X):
    """dist(X, S+) by brute force: every way to deal the rows out; a bad deal cannot win."""
    n, k = X.shape
    best = np.inf
    for deal in product(range(k), repeat=n):
        # On a fixed support the nearest point is the projection of each column, and 2k minus twice
        # its inner product with x_j is the squared distance; an empty column has none.
        columns = [X[np.array(deal) == j, j] for j in range(k)]
        if all(len(column) for column in columns):
            best = min(best, 2 * k - 2 * sum(np.linalg.norm(column) for column in columns))
    return np.sqrt(max(best, 0.0))


# --- projection onto OB+ --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([3.0, 4.0], [0.6, 0.8]),
        ([3.0, -4.0], [1.0, 0.0]),
        ([-3.0, -2.0], [0.0, 1.0]),
        ([-2.0, -2.0], [1.0, 0.0]),  # a tie of maxima: the first
        ([0.0, 0.0], [1.0, 0.0]),
        ([-1.0, 0.0], [0.0, 1.0]),
        ([3e200, 4e200], [0.6, 0.8]),
        ([3e-200, 4e-200], [0.6, 0.8]),
        ([1e200, 1e-200], [1.0, 0.0]),
        ([-1e200, 1e-200], [0.0, 1.0]),
        ([-1e-200, -1e200], [1.0, 0.0]),
        ([5e-324, 0.0], [1.0, 0.0]),
        ([1e308, 1e308], [np.sqrt(0.5), np.sqrt(0.5)]),
    ],
)
def test_project_oblique_closed_form(column, expected):
    X = project_oblique_plus(np.array(column)[:, None])
    np.testing.assert_allclose(X[:, 0], expected, rtol=ROUNDING, atol=0)


def test_project_oblique_keeps_float32_and_its_input(rng):
    C = rng.standard_normal((5, 3)).astype(np.float32)
    before = C.copy()
    X = project_oblique_plus(C)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(C, before)
    np.testing.assert_allclose(X, project_oblique_plus(C.astype(float)), atol=1e-6)


@given(matrices())
def test_project_oblique_is_feasible_and_idempotent(C):
    X = project_oblique_plus(C)
    assert X.min() >= 0
    np.testing.assert_allclose(np.linalg.norm(X, axis=0), 1.0, rtol=ROUNDING)
    np.testing.assert_allclose(project_oblique_plus(X), X, rtol=ROUNDING)


@given(matrices(), st.integers(0, 2**32 - 1))
def test_project_oblique_has_no_nearer_point(C, seed):
    rng = np.random.default_rng(seed)
    X, (n, k) = project_oblique_plus(C), C.shape
    # Unit columns are nearest exactly where their inner product with C is largest.
    product_here = (C * X).sum(axis=0)
    others = [random_oblique_plus(n, k, rng) for _ in range(20)]
    others += [np.tile(np.eye(n)[:, [i]], k) for i in range(n)]
    others += [project_oblique_plus(X + 0.1 * rng.standard_normal((n, k))) for _ in range(20)]
    slack = ROUNDING * (1 + np.abs(C).max()) * n
    assert all(((C * Z).sum(axis=0) <= product_here + slack).all() for Z in others)


@given(matrices(elements=smooth), st.randoms(use_true_random=False))
def test_project_oblique_commutes_with_permutations(C, random):
    n, k = C.shape
    rows, columns = random.sample(range(n), n), random.sample(range(k), k)
    X = project_oblique_plus(C)
    np.testing.assert_array_equal(project_oblique_plus(C[:, columns]), X[:, columns])
    tops = (C == C.max(axis=0)).sum(axis=0)
    if (tops == 1).all():  # the first of tied maxima is not the first after a permutation
        moved = project_oblique_plus(C[rows])
        np.testing.assert_allclose(moved, X[rows], rtol=ROUNDING)


# --- projection onto Delta(X) ---------------------------------------------------------------------


def project_delta_by_sorting(x, c):
    """One column, exactly: try every piece between two breakpoints -c_i / x_i."""
    active = np.flatnonzero(x > 1e-100)  # smaller ones move neither the sums nor the shift
    order = active[np.argsort(-c[active] / x[active])]
    for count in range(1, len(order) + 1):
        chosen = order[:count]
        shift = (1.0 - x[chosen] @ c[chosen]) / (x[chosen] @ x[chosen])
        inside = (c[chosen] + shift * x[chosen] >= -1e-12).all()
        rest = order[count:]
        if inside and (c[rest] + shift * x[rest] <= 1e-12).all():
            return np.maximum(c + shift * x, 0.0)
    raise AssertionError("no piece holds the root")


@given(oblique_points(), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 30.0]))
def test_project_delta_agrees_with_sorting(X, seed, size):
    C = size * np.random.default_rng(seed).standard_normal(X.shape)
    Z = project_delta(X, C)
    for j in range(X.shape[1]):
        expected = project_delta_by_sorting(X[:, j], C[:, j])
        # The sum that fixes the shift has terms of the size of C, and x may be small.
        np.testing.assert_allclose(Z[:, j], expected, atol=1e-12 * (1 + size))


@given(oblique_points(), st.integers(0, 2**32 - 1))
def test_project_delta_meets_its_optimality_conditions(X, seed):
    C = 3.0 * np.random.default_rng(seed).standard_normal(X.shape)
    Z = project_delta(X, C)
    assert Z.min() >= 0
    np.testing.assert_allclose((X * Z).sum(axis=0), 1.0, atol=1e-12)
    for j in range(X.shape[1]):
        # Z - C = lambda x + mu with mu >= 0 and mu = 0 where Z > 0; the largest positive
        # x_i z_i exists, as they sum to one, and gives lambda.
        i = int(np.argmax(X[:, j] * Z[:, j]))
        shift = (Z[i, j] - C[i, j]) / X[i, j]
        mu = Z[:, j] - C[:, j] - shift * X[:, j]
        assert mu.min() >= -1e-11 * (1 + abs(shift))
        assert np.abs(mu * Z[:, j]).max() <= 1e-11 * (1 + abs(shift)) ** 2


def test_project_delta_agrees_with_slsqp(rng):
    for _ in range(10):
        X = random_oblique_plus(4, 1, rng)
        C = rng.standard_normal((4, 1))
        found = minimize(
            lambda z, c=C[:, 0]: ((z - c) ** 2).sum(),
            np.maximum(C[:, 0], 0.1),
            jac=lambda z, c=C[:, 0]: 2 * (z - c),
            bounds=[(0.0, None)] * 4,
            constraints={"type": "eq", "fun": lambda z, x=X[:, 0]: x @ z - 1},
            options={"ftol": 1e-14},
        )
        # SLSQP stops by the change of the squared distance: about the root of its tolerance.
        np.testing.assert_allclose(project_delta(X, C)[:, 0], found.x, atol=1e-6)


def test_project_delta_closed_form():
    X = np.array([[1.0, 0.6], [0.0, 0.8]])
    C = np.array([[5.0, 0.0], [-2.0, 0.0]])
    # Column 1: x = e_1 fixes z_1 = 1 and clips z_2; column 2: the shift 1 gives x itself.
    expected = np.array([[1.0, 0.6], [0.0, 0.8]])
    np.testing.assert_allclose(project_delta(X, C), expected, atol=ROUNDING)


@given(oblique_points(), st.integers(0, 2**32 - 1))
def test_project_delta_is_idempotent_and_fixes_its_center(X, seed):
    Z = project_delta(X, np.random.default_rng(seed).standard_normal(X.shape))
    np.testing.assert_allclose(project_delta(X, Z), Z, atol=1e-12)
    np.testing.assert_allclose(project_delta(X, X), X, atol=1e-12)


def test_project_delta_does_not_depend_on_memory_order_and_keeps_float32(rng):
    X, C = random_oblique_plus(6, 2, rng), rng.standard_normal((6, 2))
    Z = project_delta(X, C)
    np.testing.assert_array_equal(project_delta(X, np.asfortranarray(C)), Z)
    single = project_delta(X.astype(np.float32), C)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Z, atol=1e-5)


def test_project_delta_has_no_nearer_point(rng):
    X, C = random_oblique_plus(5, 2, rng), 2 * rng.standard_normal((5, 2))
    here = np.linalg.norm(project_delta(X, C) - C)
    for _ in range(200):
        W = rng.random((5, 2)) ** 3
        other = W / (X * W).sum(axis=0)
        assert np.linalg.norm(other - C) >= here - ROUNDING


# --- the Jacobian of the projection onto Delta(X) -------------------------------------------------


def test_delta_jacobian_is_the_derivative_where_there_is_one(rng):
    compared = 0
    for _ in range(20):
        X, C = random_oblique_plus(6, 3, rng), rng.standard_normal((6, 3))
        H, Z = rng.standard_normal((6, 3)), project_delta(X, C)
        t = 1e-6
        ahead, behind = project_delta(X, C + t * H), project_delta(X, C - t * H)
        if ((ahead > 0) != (Z > 0)).any() or ((behind > 0) != (Z > 0)).any():
            continue  # a kink lies between
        compared += 1
        # The map is linear between kinks: differences are exact up to rounding / t.
        np.testing.assert_allclose(delta_jacobian(X, Z, H), (ahead - behind) / (2 * t), atol=1e-8)
    assert compared >= 10


@given(oblique_points(), st.integers(0, 2**32 - 1))
def test_delta_jacobian_is_an_orthogonal_projector(X, seed):
    rng = np.random.default_rng(seed)
    Z = project_delta(X, rng.standard_normal(X.shape))
    H, D = rng.standard_normal(X.shape), rng.standard_normal(X.shape)
    PH, PD = delta_jacobian(X, Z, H), delta_jacobian(X, Z, D)
    np.testing.assert_allclose(delta_jacobian(X, Z, PH), PH, atol=1e-12)
    np.testing.assert_allclose((D * PH).sum(), (PD * H).sum(), atol=1e-12)
    assert (PH[Z == 0] == 0).all()
    np.testing.assert_allclose((X * PH).sum(axis=0), 0.0, atol=1e-12)
    # What it takes away is orthogonal to every direction it keeps.
    np.testing.assert_allclose(((H - PH) * PD).sum(), 0.0, atol=1e-12)


def test_delta_jacobian_is_zero_when_the_point_is_a_vertex():
    X = np.array([[0.6], [0.8]])
    Z = project_delta(X, np.array([[9.0], [-9.0]]))
    assert (Z > 0).sum() == 1
    np.testing.assert_allclose(delta_jacobian(X, Z, np.array([[1.0], [2.0]])), 0.0, atol=ROUNDING)


# --- T(X), gradient, retraction -------------------------------------------------------------------


@given(oblique_points(), st.integers(0, 2**32 - 1))
def test_project_tangent_is_the_nearest_point_of_t(X, seed):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal(X.shape)
    D = project_tangent(X, W)
    np.testing.assert_allclose((X * D).sum(axis=0), 0.0, atol=1e-12)
    assert (X + D).min() >= -1e-14
    # Variational inequality against zero, against -W's projection and against vertices x_j -> e_i.
    others = [np.zeros_like(X), project_tangent(X, -W), project_tangent(X, 5 * W)]
    slack = 1e-10 * (1 + np.abs(W).max()) * (1 + max(np.abs(other).max() for other in others))
    assert all(((W - D) * (other - D)).sum() <= slack * X.size for other in others)


def test_riemannian_gradient_closed_form_and_tangency(rng):
    X = np.array([[0.6], [0.8]])
    # <x, g> = 2.2, so g - 2.2 x = (1 - 1.32, 2 - 1.76).
    G = riemannian_gradient(X, np.array([[1.0], [2.0]]))
    np.testing.assert_allclose(G[:, 0], [-0.32, 0.24], atol=ROUNDING)
    X, G = random_oblique_plus(7, 3, rng), rng.standard_normal((7, 3))
    tangent = riemannian_gradient(X, G)
    np.testing.assert_allclose((X * tangent).sum(axis=0), 0.0, atol=ROUNDING)
    np.testing.assert_allclose(riemannian_gradient(X, tangent), tangent, atol=ROUNDING)


@given(oblique_points(), st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 0.3, 1.0, 10.0]))
def test_projection_is_a_retraction_over_t(X, seed, size):
    # Eq. (5.8), for every D of T(X).
    D = project_tangent(X, size * np.random.default_rng(seed).standard_normal(X.shape))
    moved, length = project_oblique_plus(X + D), np.linalg.norm(D)
    assert np.linalg.norm(moved - X) <= length + 1e-13
    assert np.linalg.norm(moved - X - D) <= 0.5 * length**2 + 1e-13 * (1 + length)


# --- rounding -------------------------------------------------------------------------------------


def test_round_closed_form():
    X = np.array([[0.6, 0.0], [0.8, 0.6], [0.0, 0.8]])
    np.testing.assert_allclose(
        round_to_stiefel_plus(X), [[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]], atol=ROUNDING
    )


def test_round_takes_the_smallest_column_when_a_row_ties():
    X = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0], [3.0, 3.0, 3.0], [0.0, 0.0, 1.0]])
    labels = labels_of(round_to_stiefel_plus(X))
    np.testing.assert_array_equal(labels, [0, 1, 0, 2])


@pytest.mark.parametrize(
    "X",
    [
        np.ones((4, 2)) / 2.0,  # all ties go to the first column
        np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]),
        np.array([[1.0, 0.0], [0.0, 0.0]]),
        np.zeros((3, 2)),
    ],
)
def test_round_falls_back_to_the_identity_when_a_column_is_left_empty(X):
    np.testing.assert_array_equal(round_to_stiefel_plus(X), np.eye(*X.shape))


@pytest.mark.parametrize("size", [1e-200, 1e200, 5e-324])
def test_round_is_feasible_when_entries_are_extreme(size):
    X = np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 1.0]]) * size
    assert violation(round_to_stiefel_plus(X)) <= 1e-15


@given(oblique_points())
def test_round_is_feasible_and_idempotent_and_keeps_the_support_inside(X):
    before = X.copy()
    XR = round_to_stiefel_plus(X)
    np.testing.assert_array_equal(X, before)
    assert XR.min() >= 0
    assert (np.count_nonzero(XR, axis=1) <= 1).all()
    assert violation(XR) <= ROUNDING
    np.testing.assert_allclose(round_to_stiefel_plus(XR), XR, atol=ROUNDING)
    if not (XR == np.eye(*X.shape)).all():
        assert (X[XR > 0] == X.max(axis=1, keepdims=True).repeat(X.shape[1], 1)[XR > 0]).all()


def test_round_fixes_points_of_stiefel_plus(rng):
    for n_zero_rows in (0, 2):
        X = random_stiefel_plus(8, 3, rng, n_zero_rows=n_zero_rows)
        np.testing.assert_allclose(round_to_stiefel_plus(X), X, atol=ROUNDING)


def test_round_explains_when_wide():
    with pytest.raises(ValueError, match="more columns than rows"):
        round_to_stiefel_plus(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("k", "q", "factor"),
    [
        (4, 2.0, 1.0),
        (4, 3.0, 1.0),
        (4, 1.0, 3.0),  # (sqrt(k) + 1) / q
        (4, 1.5, 2.0),
        (4, 0.5, 16.0),  # 2 sqrt(k) (sqrt(k) + 1) / (q (q + 1)) = 12 / 0.75
        (9, 1.5, 8.0 / 3.0),
    ],
)
def test_rounding_constant_closed_form(k, q, factor):
    np.testing.assert_allclose(rounding_constant(k, q), np.sqrt(2 * k * factor * k))
    np.testing.assert_allclose(rounding_constant(k, q, omega=0.1), np.sqrt(2 * k * factor / 0.1))


EXPONENTS = [0.1, 0.5, 0.9, 1.0, 1.5, 2.0, 3.0, 6.0]


def assert_error_bound(X):
    distance = np.linalg.norm(round_to_stiefel_plus(X) - X)
    for q in EXPONENTS:
        # zeta is a difference of numbers of size one: its root carries sqrt(rounding).
        assert distance <= rounding_error_bound(X, q) + 1e-7, q


def test_round_takes_another_point_where_a_column_is_left_empty(rng):
    X = np.array([[0.9, 0.1], [0.8, 0.7], [0.6, 0.5]])
    X /= np.linalg.norm(X, axis=0)
    X[:, 1] *= 0.5  # the first column has all the largest entries
    other = np.array([[1.0, 0.0], [0.0, 0.6], [0.0, 0.8]])
    asked = []

    def nearest(given):
        asked.append(given)
        return other

    np.testing.assert_array_equal(round_to_stiefel_plus(X), np.eye(3, 2))  # step S3
    np.testing.assert_array_equal(round_to_stiefel_plus(X, otherwise=nearest), other)
    np.testing.assert_array_equal(keep_largest(X, nearest), other)
    assert len(asked) == 2
    # Where every column has a row, nobody is asked.
    Z = random_stiefel_plus(6, 3, rng)
    np.testing.assert_array_equal(keep_largest(Z, nearest), keep_largest(Z))
    assert len(asked) == 2


def test_solve_rounds_by_procedure_1_and_never_to_the_identity(monkeypatch, rng):
    # The last iterate is rounded by `keep_largest`; its fallback is the nearest point of S+.
    calls = []

    def spy(X, otherwise=None):
        calls.append(otherwise)
        return keep_largest(X, otherwise)

    monkeypatch.setattr("orthoplus.run.finish.keep_largest", spy)
    op.solve(op.problems.Projection(rng.standard_normal((6, 2))))
    X = np.repeat(random_oblique_plus(6, 1, rng), 2, axis=1)  # equal columns: the second is empty
    fallback = next(call for call in calls if call is not None)
    rounded = keep_largest(X, fallback)
    assert violation(rounded) <= 1e-14
    assert np.vdot(X, rounded) == pytest.approx(op.project(X).value, rel=1e-6)
    assert np.vdot(X, rounded) > np.vdot(X, np.eye(6, 2))


@given(oblique_points())
@settings(max_examples=200)
def test_rounding_error_bound_holds(X):
    assert_error_bound(X)
    if X.size <= 12:
        assert distance_to_stiefel_plus(X) <= np.linalg.norm(round_to_stiefel_plus(X) - X) + 1e-7


def test_rounding_error_bound_holds_when_close_or_adversarial(rng):
    for k in (1, 2, 3, 5):
        for _ in range(30):
            near = random_stiefel_plus(10, k, rng, n_zero_rows=int(rng.integers(3)))
            for size in (1e-6, 1e-3, 0.1, 1.0):
                assert_error_bound(project_oblique_plus(near + size * rng.random((10, k))))
        same = np.repeat(random_oblique_plus(10, 1, rng), k, axis=1)
        assert_error_bound(same)  # zeta is largest here
        for split in (1e-8, 1e-4):  # a row almost tied between all columns
            X = np.eye(k + 1, k)
            X[k] = np.sqrt(split) * (1 + 1e-9 * np.arange(k))
            assert_error_bound(project_oblique_plus(X))


def test_rounding_error_bound_is_zero_on_stiefel_plus_and_needs_no_more_columns(rng):
    X = random_stiefel_plus(9, 4, rng)
    for q in EXPONENTS:
        assert rounding_error_bound(X, q) <= 1e-6  # the root of a rounding, times rho


def example_3_1(eps):
    return np.array(
        [
            [np.sqrt(1 - eps**2 - 2 * eps), eps],
            [eps, np.sqrt(1 - eps**2 - eps)],
            [np.sqrt(2 * eps), np.sqrt(eps)],
        ]
    )


def test_rounding_exponent_is_one_half_on_example_3_1():
    eps = 10.0 ** -np.arange(3, 9)
    points = [example_3_1(e) for e in eps]
    distance = np.array([distance_to_stiefel_plus(X) for X in points])
    zeta = np.array([kernels.row_energy(X) - 1 for X in points])
    # The paper prints zeta ~ 4 eps; the inner product is (2 + sqrt(2)) eps to first order.
    np.testing.assert_allclose(zeta, (2 + np.sqrt(2)) * eps, rtol=5e-3)
    np.testing.assert_allclose(distance, np.sqrt(eps), rtol=5e-2)
    slopes = np.diff(np.log(distance)) / np.diff(np.log(zeta))
    np.testing.assert_allclose(slopes, 0.5, atol=5e-3)
    for X in points:
        nearest = round_to_stiefel_plus(X)  # here the rounded point is the projection
        np.testing.assert_allclose(
            np.linalg.norm(nearest - X), distance_to_stiefel_plus(X), rtol=1e-6
        )


# --- cones ----------------------------------------------------------------------------------------


def cone_direction(X, rng, *, one_entry_a_row):
    """A random direction of the tangent cone (2.3), or of the linearized cone (2.2) only."""
    D = np.where(X > 0, rng.standard_normal(X.shape), 0.0)
    D -= X * (X * D).sum(axis=0)
    for i in np.flatnonzero(~X.any(axis=1)):
        count = 1 if one_entry_a_row else X.shape[1]
        D[i, rng.permutation(X.shape[1])[:count]] = 0.1 + rng.random(count)
    return D


def distance_after_step(X, D, a):
    """dist((X + a D) normalized, S+) / a: tends to 0 if D is tangent."""
    moved = project_oblique_plus(np.maximum(X + a * D, 0.0))
    return distance_to_stiefel_plus(moved) / a


def test_tangent_cone_holds_the_directions_that_stay_in_stiefel_plus(rng):
    for _ in range(10):
        X = random_stiefel_plus(5, 2, rng, n_zero_rows=2)
        D = cone_direction(X, rng, one_entry_a_row=True)
        assert in_linearized_cone(X, D)
        assert in_tangent_cone(X, D)
        moved = X + 1e-4 * D
        moved /= np.linalg.norm(moved, axis=0)
        assert violation(moved) <= ROUNDING
        # ... and the curve leaves X in the direction D: the remainder is of second order.
        assert np.linalg.norm((moved - X) / 1e-4 - D) <= 1e-2 * max(1, np.linalg.norm(D)) ** 2


def test_tangent_cone_is_smaller_than_linearized_when_a_row_is_zero(rng):
    X = random_stiefel_plus(5, 2, rng, n_zero_rows=2)
    D = cone_direction(X, rng, one_entry_a_row=False)
    assert in_linearized_cone(X, D)
    assert not in_tangent_cone(X, D)
    # By definition: the distance to S+ along D stays of first order.
    assert min(distance_after_step(X, D, a) for a in (1e-2, 1e-3, 1e-4)) > 0.05


def test_cones_are_equal_when_no_row_is_zero(rng):
    # Lemma 2.3: here CCP holds, so the cones agree.
    X = random_stiefel_plus(6, 3, rng)
    for _ in range(50):
        D = cone_direction(X, rng, one_entry_a_row=False)
        assert in_linearized_cone(X, D)
        assert in_tangent_cone(X, D)


@pytest.mark.parametrize(
    ("name", "D"),
    [
        ("negative on a zero row", [[0.0, 0.0], [0.0, 0.0], [-1.0, 0.0]]),
        ("beside a positive entry", [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]),
        ("below zero beside a positive entry", [[0.0, -1.0], [0.0, 0.0], [0.0, 0.0]]),
        ("along a column", [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]),
        ("against a column", [[0.0, 0.0], [0.0, -1.0], [0.0, 0.0]]),
    ],
)
def test_cones_reject(name, D):
    X = np.eye(3, 2)
    assert not in_linearized_cone(X, np.array(D)), name
    assert not in_tangent_cone(X, np.array(D)), name


def test_cones_hold_zero_and_are_closed_under_scaling(rng):
    X = random_stiefel_plus(6, 2, rng, n_zero_rows=1)
    D = cone_direction(X, rng, one_entry_a_row=True)
    for scale in (0.0, 1e-6, 1.0, 1e8):
        assert in_tangent_cone(X, scale * D)


# --- labels, violation, random points -------------------------------------------------------------


def test_labels_closed_form():
    X = np.array([[0.0, 0.5], [0.0, 0.0], [0.3, 0.3], [0.0, -1.0]])
    np.testing.assert_array_equal(labels_of(X), [1, -1, 0, -1])


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.eye(4, 2), 0.0),
        (2.0 * np.eye(4, 2), 3.0 * np.sqrt(2)),
        (-np.eye(4, 1), 1.0),  # orthonormal, one entry of -1
        (np.ones((1, 2)), np.sqrt(2)),  # X'X - I has two ones off the diagonal
        (np.zeros((3, 2)), np.sqrt(2)),
    ],
)
def test_violation_closed_form(X, expected):
    np.testing.assert_allclose(violation(X), expected, atol=ROUNDING)


def test_violation_is_the_same_by_both_ways(rng):
    # A second entry of 1e-300 sends the same matrix down the O(nk^2) way.
    X = random_stiefel_plus(6, 2, rng) * 1.5
    beside = X.copy()
    beside[0, 1 - labels_of(X)[0]] = 1e-300
    np.testing.assert_allclose(violation(beside), violation(X), rtol=ROUNDING)


def test_random_points_are_feasible_and_repeatable(rng):
    seed = int(rng.integers(2**32))
    for n, k in [(1, 1), (5, 1), (5, 5), (40, 7)]:
        X = random_oblique_plus(n, k, np.random.default_rng(seed))
        assert X.min() >= 0
        np.testing.assert_allclose(np.linalg.norm(X, axis=0), 1.0, rtol=ROUNDING)
        S = random_stiefel_plus(n, k, np.random.default_rng(seed), n_zero_rows=(n - k) // 2)
        assert violation(S) <= ROUNDING
        assert np.count_nonzero(S) == n - (n - k) // 2
        again = random_stiefel_plus(n, k, np.random.default_rng(seed), n_zero_rows=(n - k) // 2)
        np.testing.assert_array_equal(S, again)


def test_random_oblique_plus_is_uniform_over_the_rows(rng):
    # The squares of a uniform unit column have mean 1/n; 4000 columns, five standard errors.
    X = random_oblique_plus(4, 4, rng)
    squares = np.mean([random_oblique_plus(4, 4, rng) ** 2 for _ in range(1000)], axis=(0, 2))
    assert X.shape == (4, 4)
    np.testing.assert_allclose(squares, 0.25, atol=5 * 0.25 / np.sqrt(4000))


@pytest.mark.parametrize("n_zero_rows", [-1, 3])
def test_random_stiefel_plus_explains_when_too_many_rows_are_zero(rng, n_zero_rows):
    with pytest.raises(ValueError, match=r"must be between 0 and n - k = 2"):
        random_stiefel_plus(5, 3, rng, n_zero_rows=n_zero_rows)


def test_matrix_without_rows_has_no_projection_onto_unit_columns():
    with pytest.raises(ValueError, match=r"`C` has shape \(0, 2\): at least one row"):
        project_oblique_plus(np.empty((0, 2)))


def test_rounding_error_bound_takes_a_list():
    assert rounding_error_bound([[1.0, 0.0], [0.0, 1.0]]) == 0.0
