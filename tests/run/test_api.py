"""The user's side: four kinds of f, every way in, every way out, every bad input."""

import dataclasses
import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import orthoplus as op
from orthoplus.core.problem import Problem
from orthoplus.geometry.oblique import project_oblique_plus, random_oblique_plus
from orthoplus.geometry.stiefel import random_stiefel_plus, round_to_stiefel_plus
from orthoplus.methods import METHODS, SemismoothNewton, SupportSearch
from orthoplus.methods.kl_alternating import KLAlternating
from orthoplus.methods.search.assignment_search import AssignmentSearch
from orthoplus.problems import ONMF, Projection, TraceMin

FIRST = op.EP4Orth()
SECOND = op.EP4Orth(second_order=op.RegularizedNewton(), switch_violation=np.inf)


# Four kinds of smooth f


def linear(n, k, rng):
    C = rng.standard_normal((n, k))
    return op.problems.Smooth(
        lambda X: -float(np.vdot(C, X)),
        (n, k),
        jac=lambda X: -C,
        curvature=lambda X, D: np.zeros_like(D),
    )


def quadratic(n, k, rng):
    groups = np.eye(k)[rng.integers(k, size=n)]
    noise = 0.3 * rng.random((n, n))
    return TraceMin(-(groups @ groups.T + noise + noise.T), k)


def quartic(n, k, rng):
    A = random_stiefel_plus(n, k, rng) @ rng.random((k, 30)) * np.sqrt(n)
    return ONMF(A + 0.1 * rng.random((n, 30)), k, quartic=True)


def through_jax(n, k, rng):
    jnp = pytest.importorskip("jax.numpy")
    B, C = rng.standard_normal((n, 8)) / np.sqrt(n), rng.standard_normal((n, k))

    def fun(X):
        hidden = jnp.tanh(B.T @ X)
        return jnp.sum(jnp.sin(3 * hidden)) - jnp.sum(C * X) + 0.5 * jnp.sum(jnp.log1p(X**2))

    return op.autodiff.from_jax(fun, (n, k))


KINDS = {"linear": linear, "quadratic": quadratic, "quartic": quartic, "jax": through_jax}
SIZES = [(30, 3), (120, 6)]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_seed = pytest.mark.parametrize("seed", range(3))


def residual(problem, X):
    return op.optimality.stationarity(X, problem.value_and_gradient(X)[1])


def assert_solved(problem, X0, result):
    assert result.status is op.Status.CONVERGED
    assert result.violation <= 1e-12
    assert op.geometry.violation(result.X) <= 1e-12
    assert (result.X >= 0).all()
    assert residual(problem, result.X) <= 1e-6 * residual(problem, round_to_stiefel_plus(X0))
    # The value of ONMF is the small difference of large numbers, known to 1e-12 of it or so.
    assert result.value == pytest.approx(problem.value(result.X), rel=1e-11)
    assert result.value <= problem.value(round_to_stiefel_plus(X0))


@pytest.mark.parametrize(
    ("kind", "seed"),
    # JAX compiles each function again: one seed shows that its derivatives go through.
    [(kind, seed) for kind in KINDS for seed in range(1 if kind == "jax" else 3)],
)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("method", [FIRST, SECOND], ids=["first", "second"])
def test_answer_is_feasible_and_stationary(kind, size, seed, method):
    rng = np.random.default_rng(seed)
    problem = KINDS[kind](*size, rng)
    X0 = random_oblique_plus(*size, rng)
    assert_solved(problem, X0, op.solve(problem, X0, method=method))


@every_kind
def test_answer_is_feasible_and_stationary_when_large(kind):
    rng = np.random.default_rng(0)
    problem = KINDS[kind](1000, 20, rng)
    X0 = random_oblique_plus(1000, 20, rng)
    assert_solved(problem, X0, op.solve(problem, X0, method=FIRST))


@every_kind
@every_seed
def test_first_and_second_order_agree_near_the_same_basin(kind, seed):
    rng = np.random.default_rng(seed)
    size = (60, 4)
    problem = KINDS[kind](*size, rng)
    solution = op.solve(problem, random_oblique_plus(*size, rng), method=FIRST, search=False)
    near = project_oblique_plus(solution.X + 1e-3 * rng.random(size))
    # A large first penalty keeps the basin: both follow the same minimizer.
    basin = {"penalty_start": 10.0, "safeguard": False}
    values = [
        op.solve(problem, near, method=replace(method, **basin), search=False).value
        for method in (FIRST, SECOND)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6, abs=1e-6)
    assert values[0] == pytest.approx(solution.value, rel=1e-6, abs=1e-6)


def test_second_order_needs_fewer_gradients_near_the_solution():
    rng = np.random.default_rng(0)
    problem = through_jax(200, 5, rng)
    solution = op.solve(problem, random_oblique_plus(200, 5, rng))
    near = project_oblique_plus(solution.X + 1e-2 * rng.random((200, 5)))
    first, second = (
        op.solve(problem, near, method=replace(method, penalty_start=10.0, tol_start=1e-6))
        for method in (FIRST, SECOND)
    )
    assert second.value == pytest.approx(first.value, rel=1e-6)
    assert second.n_eval < first.n_eval


# Ways in

C = np.array([[2.0, 0.1], [1.0, 0.2], [0.3, 1.0], [0.1, 2.0]])
M = np.diag([4.0, 1.0, 2.0, 3.0])


def fun(X):
    return float(((X - C) ** 2).sum() + (X * (M @ X)).sum())


def jac(X):
    return 2 * (X - C) + 2 * M @ X


def hessp(X, D):
    return 2 * D + 2 * M @ D


@pytest.mark.parametrize("method", [FIRST, SECOND], ids=["first", "second"])
def test_every_way_to_give_derivatives_finds_the_same_point(method):
    X0 = random_oblique_plus(4, 2, np.random.default_rng(0))
    exact = op.minimize(fun, X0, jac=jac, hessp=hessp, method=method)
    ways = {
        "no hessp": op.minimize(fun, X0, jac=jac, method=method),
        "jac=True": op.minimize(lambda X: (fun(X), jac(X)), X0, jac=True, method=method),
        "differences": op.minimize(fun, X0, method=method),
        "problem": op.solve(
            op.problems.Smooth(fun, (4, 2), jac=jac, curvature=hessp), X0, method=method
        ),
    }
    for result in ways.values():
        np.testing.assert_array_equal(result.labels, exact.labels)
        # Central differences of a smooth function of size 10 are good to about 1e-9.
        np.testing.assert_allclose(result.X, exact.X, atol=1e-7)


def test_hessian_product_is_used():
    calls = []

    def counted(X, D):
        calls.append(D.shape)
        return hessp(X, D)

    op.minimize(fun, (4, 2), jac=jac, hessp=counted, method=SECOND)
    assert calls
    assert set(calls) == {(4, 2)}


def test_start_as_array_float32_integer_list_and_shape():
    X0 = np.array([[1, 0], [0, 0], [0, 1], [0, 0]])
    for given in (X0.astype(float), X0, X0.tolist(), X0.astype(bool), np.asfortranarray(X0 * 1.0)):
        result = op.minimize(fun, given, jac=jac)
        assert result.X.dtype == np.float64
        assert result.violation <= 1e-12
    single = op.minimize(fun, X0.astype(np.float32), jac=jac)
    assert single.X.dtype == np.float32
    assert single.violation <= 1e-6  # float32 columns have norm one to 1e-7
    np.testing.assert_allclose(single.X, result.X, atol=1e-3)
    shaped = op.minimize(fun, (4, 2), jac=jac)
    np.testing.assert_array_equal(shaped.X, op.minimize(fun, (4, 2), jac=jac, rng=0).X)
    assert shaped.notes == ()


def test_integer_start_is_noted():
    result = op.minimize(fun, np.eye(4, 2, dtype=int), jac=jac)
    assert result.notes == ("X0 of dtype int64 was converted to float64.",)
    assert "converted to float64" in result.message


@pytest.mark.parametrize(
    "X0", [-np.ones((4, 2)), 3 * np.eye(4, 2), np.zeros((4, 2)), np.full((4, 2), 1e300)]
)
def test_start_outside_of_oblique_plus_is_projected_with_a_note(X0):
    given = X0.copy()
    result = op.minimize(fun, X0, jac=jac)
    assert result.violation <= 1e-12
    assert any("was projected onto it" in note for note in result.notes)
    assert "was projected onto it" in result.message
    assert result.message.startswith(result.status.message)
    np.testing.assert_array_equal(X0, given)


def test_start_in_oblique_plus_is_not_noted():
    assert op.minimize(fun, random_oblique_plus(4, 2, np.random.default_rng(0))).notes == ()


def test_random_start_follows_the_generator():
    calls = []

    def spy(X):
        calls.append(X.copy())
        return fun(X)

    for seed in (0, 1, np.random.default_rng(1)):
        op.minimize(spy, (4, 2), jac=jac, rng=seed, method=op.EP4Orth(max_iter=1))
        calls.append(None)
    first = [calls[0]] + [after for before, after in itertools.pairwise(calls) if before is None]
    assert not (first[0] == first[1]).all()
    np.testing.assert_array_equal(first[1], first[2])


@pytest.mark.parametrize("size", [(1, 1), (5, 1), (3, 3)])
def test_extreme_shapes(size):
    D = np.random.default_rng(0).standard_normal(size)
    result = op.minimize(lambda X: -(D * X).sum(), size, jac=lambda X: -D)
    assert result.violation <= 1e-12
    if size[1] == 1:  # the projection onto the nonnegative part of the sphere
        best = np.linalg.norm(np.maximum(D, 0)) if D.max() > 0 else D.max()
        assert -result.value == pytest.approx(best)


def test_constant_function_is_solved():
    result = op.minimize(lambda X: 1.0, (5, 2), jac=np.zeros_like)
    assert result.status is op.Status.CONVERGED
    assert result.violation <= 1e-12
    assert result.stationarity == 0.0


# The result


def test_result_is_complete_and_readable():
    problem = ONMF(np.abs(np.random.default_rng(0).standard_normal((8, 5))), 2)
    result = op.solve(problem)
    text = str(result)
    assert text.splitlines()[0].strip().startswith("status  CONVERGED")
    assert "8 x 2, " in text
    assert f"{result.value:.10g}" in text
    assert f"{result.n_iter} iterations" in text
    assert result.bound <= result.value
    assert result.gap == pytest.approx((result.value - result.bound) / result.bound)
    assert result.success
    np.testing.assert_array_equal(result.labels, op.geometry.labels_of(result.X))
    np.testing.assert_allclose(result.Y, problem.A.entries().T @ result.X)
    assert result.stationarity == pytest.approx(residual(problem, result.X))
    assert result.seconds > 0
    assert op.solve(problem, with_bound=False).bound is None
    assert "none known" in str(op.solve(problem, with_bound=False))


def test_history_has_one_row_an_outer_iteration():
    states = []
    result = op.minimize(fun, (4, 2), jac=jac, callback=states.append)
    assert len(result.history) == result.n_iter == len(states)
    for row, state in zip(result.history, states, strict=True):
        assert row._replace(seconds=0.0) == (
            state.n_iter,
            state.sigma,
            state.violation,
            state.value,
            state.n_inner,
            0.0,
            state.is_stationary,
            state.is_descent,
        )
    assert [row.n_iter for row in result.history] == list(range(1, result.n_iter + 1))
    seconds = [row.seconds for row in result.history]
    assert seconds == sorted(seconds)
    assert result.state is states[-1]


def test_evaluations_are_counted():
    calls = []

    def counted(X):
        calls.append(1)
        return fun(X), jac(X)

    result = op.minimize(counted, (4, 2), jac=True)
    # The report of the final point is not part of the search.
    assert len(calls) - 2 <= result.n_eval <= len(calls)


# Ways out


def test_callback_stops_with_true():
    for answer in (True, np.True_):
        result = op.minimize(fun, (4, 2), jac=jac, callback=lambda state, a=answer: a)
        assert result.status is op.Status.CALLBACK
        assert not result.success
        assert result.n_iter == 1
        assert result.violation <= 1e-12


def test_callback_goes_on_with_anything_else():
    whole = op.minimize(fun, (4, 2), jac=jac)
    for answer in (None, False, 1, "stop", np.ones(3)):
        result = op.minimize(fun, (4, 2), jac=jac, callback=lambda state, a=answer: a)
        assert result.n_iter == whole.n_iter


def test_callback_stops_with_stop_iteration():
    def callback(state):
        if state.n_iter == 2:
            raise StopIteration

    result = op.minimize(fun, (4, 2), jac=jac, callback=callback)
    assert result.status is op.Status.CALLBACK
    assert result.n_iter == 2


def test_callback_that_raises_hands_over_the_result():
    def callback(state):
        if state.n_iter == 3:
            raise ZeroDivisionError("my own mistake")

    with pytest.raises(op.CallbackError, match="callback raised ZeroDivisionError: my own") as info:
        op.minimize(fun, (4, 2), jac=jac, callback=callback)
    assert info.value.result.n_iter == 3
    assert info.value.result.violation <= 1e-12
    assert info.value.result.status is op.Status.CALLBACK
    assert isinstance(info.value.__cause__, ZeroDivisionError)


def test_time_limit_stops_a_slow_function():
    calls = []

    def slow(X):
        calls.append(1)
        time.sleep(0.005)
        return fun(X)

    result = op.minimize(slow, (4, 2), jac=jac, time_limit=0.05)
    assert result.status is op.Status.TIME_LIMIT
    assert not result.success
    assert result.violation <= 1e-12
    # Nor does the refinement of the last point go on for ever: 0.05 s are at most ten calls, and
    # a few more round off.
    assert len(calls) <= 20


def test_time_limit_is_seen_inside_the_second_order_solver():
    calls = []

    def slow(X, D):
        calls.append(1)
        time.sleep(0.005)
        return hessp(X, D)

    result = op.minimize(fun, (4, 2), jac=jac, hessp=slow, time_limit=0.05, method=SECOND)
    assert result.status is op.Status.TIME_LIMIT
    assert result.violation <= 1e-12
    assert len(calls) <= 11


def test_time_limit_keeps_a_feasible_start_that_is_better():
    best = op.minimize(fun, (4, 2), jac=jac)

    def slow(X):
        time.sleep(0.002)
        return fun(X)

    result = op.minimize(slow, best.X, jac=jac, time_limit=0.001)
    assert result.status is op.Status.TIME_LIMIT
    assert result.value <= best.value + 1e-12


def collapsing():
    """-<D, X> - 100 x_00 x_01: without penalty both columns rush to the first row.

    On S+ the product is zero, and the first row belongs to the second column; a collapsed iterate
    is rounded to the first one, where no refinement on the support can mend it.
    """
    D = np.array([[0.0, 5.0], [1.0, 0.0], [0.0, 3.0]])

    def gradient(X):
        G = -D.copy()
        G[0] -= 100 * X[0, ::-1]
        return G

    best = D / np.linalg.norm(D, axis=0)
    method = op.EP4Orth(penalty_unit=1e-6, max_iter=1, safeguard=False)
    return (
        (lambda X: -float((D * X).sum()) - 100 * float(X[0, 0] * X[0, 1])),
        gradient,
        best,
        method,
    )


def test_answer_is_never_worse_than_a_feasible_start_when_the_iterate_collapses():
    value, gradient, best, method = collapsing()
    result = op.minimize(value, best, jac=gradient, method=method)
    assert result.state.X[0].min() >= 0.9  # it did
    assert result.value <= value(best) + 1e-12


def test_feasible_start_is_kept_when_the_time_is_up_after_a_collapse():
    value, gradient, best, method = collapsing()
    is_slow = []

    def slowing(X):
        if is_slow:
            time.sleep(0.02)
        return value(X)

    result = op.minimize(
        slowing,
        best,
        jac=gradient,
        method=replace(method, max_iter=100, inner=op.ProjectedGradient(max_iter=10**4)),
        callback=is_slow.append,
        time_limit=0.5,
    )
    assert result.status is op.Status.TIME_LIMIT
    assert result.value <= value(best) + 1e-12


def test_ample_time_limit_changes_nothing():
    whole = op.minimize(fun, (4, 2), jac=jac)
    timed = op.minimize(fun, (4, 2), jac=jac, time_limit=1e6)
    assert whole.X.tobytes() == timed.X.tobytes()
    assert timed.status is op.Status.CONVERGED


@pytest.mark.parametrize("count", [1, 5, 30, 60])
def test_keyboard_interrupt_returns_the_best_point(count):
    calls = []

    def interrupted(X):
        calls.append(1)
        if len(calls) == count:  # Ctrl-C, once
            raise KeyboardInterrupt
        return fun(X)

    result = op.minimize(interrupted, (4, 2), jac=jac)
    assert result.status is op.Status.INTERRUPTED
    assert result.violation <= 1e-12
    assert result.value == pytest.approx(fun(result.X))
    assert "Interrupted" in result.message


def test_second_keyboard_interrupt_while_refining_still_returns():
    calls = []

    def interrupted(X):
        calls.append(1)
        if len(calls) in (30, 32):
            raise KeyboardInterrupt
        return fun(X)

    result = op.minimize(interrupted, (4, 2), jac=jac)
    assert result.status is op.Status.INTERRUPTED
    assert result.violation <= 1e-12


def test_exception_of_the_function_reaches_the_caller():
    def broken(X):
        raise LookupError("in my function")

    with pytest.raises(LookupError, match="in my function"):
        op.minimize(broken, (4, 2), jac=jac)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("method", [FIRST, SECOND], ids=["first", "second"])
def test_value_that_is_not_finite_at_a_trial_point_is_survived(bad, method):
    X0 = random_stiefel_plus(4, 2, np.random.default_rng(0))
    refused = []

    def walled(X):
        if np.abs(X - X0).max() > 0.4:  # outside of a region around the start
            refused.append(1)
            return bad
        return fun(X)

    result = op.minimize(walled, X0, jac=jac, method=method)
    assert refused
    assert np.isfinite(result.value)
    assert result.violation <= 1e-12
    assert result.value <= fun(X0) + 1e-12


# Bad input

BAD_STARTS = {
    "masked": (
        np.ma.masked_equal(np.eye(4, 2), 0.0),
        TypeError,
        r"`X0` is an array with 6 masked entries.*filled\(0.0\)",
    ),
    "list": ([4, 2], ValueError, r"got \[4, 2\]. Pass .* random start, the shape as a tuple"),
    "floats": ((4.0, 2.0), ValueError, r"got \(4.0, 2.0\)\. Pass .* tuple of two integers"),
    "nan": (np.full((4, 2), np.nan), ValueError, r"`X0` has 8 entries that are NaN or infinite"),
    "inf": (np.diag([np.inf, 1.0]), ValueError, r"`X0` has 1 entries .* the first at \(0, 0\)"),
    "vector": (np.ones(4), ValueError, r"`X0` has 1 dimension"),
    "cube": (np.ones((2, 2, 2)), ValueError, r"`X0` has 3 dimension"),
    "scalar": (3.0, ValueError, r"`X0` has 0 dimension"),
    "complex": (np.eye(4, 2, dtype=complex), TypeError, "`X0` is complex"),
    "object": (np.array([[1, None], [2, 3]]), TypeError, "`X0` has dtype object"),
    "text": (
        np.array([["a", "b"]]),
        TypeError,
        "`X0` is an array with an entry that is not a number",
    ),
    "sparse": (csr_array(np.eye(4, 2)), TypeError, "SciPy sparse matrix: a dense array is needed"),
    "wide": (np.ones((2, 3)), ValueError, r"more columns than rows: no 2-by-3 matrix"),
    "wide shape": ((2, 3), ValueError, r"Use at most k = 2"),
    "no columns": ((4, 0), ValueError, r"shape \(4, 0\): it is empty"),
    "no rows": ((0, 0), ValueError, r"shape \(0, 0\): it is empty"),
    "negative": ((4, -1), ValueError, r"shape \(4, -1\): it is empty"),
    "empty": (np.empty((0, 2)), ValueError, r"shape \(0, 2\): it is empty"),
    "none": (None, TypeError, "`X0` is an object of type NoneType"),
}


@pytest.mark.parametrize(("X0", "error", "match"), BAD_STARTS.values(), ids=BAD_STARTS)
def test_bad_start_is_refused(X0, error, match):
    with pytest.raises(error, match=match):
        op.minimize(fun, X0, jac=jac)


BAD_GRADIENTS = {
    "shape": (
        lambda X: np.ones((2, 4)),
        ValueError,
        r"shape of X, \(4, 2\); it has shape \(2, 4\)",
    ),
    "vector": (lambda X: np.ones(8), ValueError, r"it has shape \(8,\)"),
    "scalar": (lambda X: 1.0, ValueError, r"it has shape \(\)"),
    "complex": (lambda X: X * 1j, ValueError, "real array .* dtype complex128"),
    "object": (lambda X: X.astype(object), ValueError, "dtype object"),
    "none": (lambda X: None, ValueError, "dtype object"),
    "nan": (lambda X: X * np.nan, ValueError, "gradient.* NaN or infinite"),
    "inf": (lambda X: X + np.inf, ValueError, "gradient.* NaN or infinite"),
}


@pytest.mark.parametrize(("bad", "error", "match"), BAD_GRADIENTS.values(), ids=BAD_GRADIENTS)
def test_bad_gradient_is_refused(bad, error, match):
    with pytest.raises(error, match=match):
        op.minimize(fun, (4, 2), jac=bad)
    with pytest.raises(error, match=match):
        op.minimize(lambda X: (fun(X), bad(X)), (4, 2), jac=True)


# The scale of f


@pytest.mark.parametrize("method", [FIRST, SECOND], ids=["first", "second"])
@pytest.mark.parametrize("scale", [2.0**-200, 2.0**-40, 2.0**40, 2.0**200])
def test_answer_does_not_depend_on_the_scale_of_f(method, scale):
    # Products with a power of two are exact: so is every step, if nothing in it is absolute.
    M = quadratic(12, 3, np.random.default_rng(0)).M
    one = op.solve(TraceMin(M, 3), method=method)
    other = op.solve(TraceMin(scale * M, 3), method=method)
    assert other.n_eval == one.n_eval
    assert [row.n_inner for row in other.history] == [row.n_inner for row in one.history]
    # The last eigenvectors come from LAPACK, which scales matrices that are tiny.
    np.testing.assert_allclose(other.X, one.X, rtol=1e-14)
    assert other.value == pytest.approx(scale * one.value, rel=1e-14)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scale_beyond_the_floating_point_range_is_refused(scale):
    said = r"has (no )?entries .*: products .* Rescale the data or f"
    M = quadratic(4, 2, np.random.default_rng(0)).M
    calls = [
        lambda: op.minimize(lambda X: scale * fun(X), (4, 2), jac=lambda X: scale * jac(X)),
        lambda: op.solve(TraceMin(scale * M, 2)),
        lambda: Projection(scale * C),
        lambda: op.problems.KIndicators(scale * C),
        lambda: op.problems.QAP(scale * M, M),
        lambda: op.check_gradient(TraceMin(scale * M, 2)),
        lambda: op.optimality.check(TraceMin(scale * M, 2), np.eye(4, 2)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=said):
            call()


# Functions that do with their arguments as they please


def test_functions_may_overwrite_what_they_are_given_and_what_they_return():
    memory = np.empty((4, 2))

    def careless_fun(X):
        value = fun(X)
        X[:] = np.nan
        return value

    def careless_jac(X):
        memory[:] = jac(X)
        X[:] = np.nan
        return memory

    def careless_hessp(X, D):
        memory[:] = hessp(X, D)
        D[:] = X[:] = np.nan
        return memory

    for method in (FIRST, SECOND):
        careful = op.minimize(fun, (4, 2), jac=jac, hessp=hessp, method=method)
        careless = op.minimize(
            careless_fun, (4, 2), jac=careless_jac, hessp=careless_hessp, method=method
        )
        np.testing.assert_array_equal(careless.X, careful.X)
        assert careless.n_eval == careful.n_eval


def test_two_block_functions_may_overwrite_what_they_are_given():
    A = np.random.default_rng(0).random((6, 4))

    def fit(X, Y):
        R = X @ Y.T - A
        return np.vdot(R, R), 2 * R @ Y, 2 * R.T @ X

    def careless(X, Y):
        answer = fit(X, Y)
        X[:] = Y[:] = np.nan
        return answer

    both = [
        op.solve(
            op.problems.TwoBlock(f, (6, 2), np.ones((4, 2)), project_y=lambda Y: np.maximum(Y, 0)),
            method=op.EP4Orth(inner=op.PALM(max_iter=5), max_iter=5),
        )
        for f in (fit, careless)
    ]
    np.testing.assert_array_equal(both[0].X, both[1].X)
    np.testing.assert_array_equal(both[0].Y, both[1].Y)


@pytest.mark.parametrize("order", ["first", "second"])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_of_the_wrong_sign_is_no_success(seed, order):
    C = np.random.default_rng(seed).standard_normal((30, 4))
    method = op.EP4Orth(second_order=op.RegularizedNewton(), switch_violation=np.inf)

    def solve(sign):
        return op.minimize(
            lambda X: -(C * X).sum() + 0.1 * (X**4).sum(),
            C.shape,
            jac=lambda X: sign * (-C + 0.4 * X**3),
            method=method if order == "second" else None,
        )

    assert solve(1.0).status is op.Status.CONVERGED
    wrong = solve(-1.0)
    assert wrong.status is op.Status.FEASIBLE
    assert not wrong.success
    assert "check_gradient" in wrong.message
    assert wrong.violation <= 1e-12  # as it says


@pytest.mark.parametrize("max_iter", [1, 3, 100])
@every_seed
def test_status_is_converged_exactly_where_the_answer_is_stationary(max_iter, seed):
    # A refinement that does nothing leaves what an inner solver with few iterations has reached.
    rng = np.random.default_rng(seed)
    problem = NotRefined(quadratic(30, 3, rng))
    inner = op.ProjectedGradient(max_iter=max_iter)
    result = op.solve(problem, method=op.EP4Orth(inner=inner, penalty_growth=2.0))
    gradient = problem.value_and_gradient(result.X)[1]
    elsewhere = problem.value_and_gradient(random_oblique_plus(30, 3, np.random.default_rng(0)))[1]
    size = max(np.linalg.norm(gradient), np.linalg.norm(elsewhere))
    is_stationary = result.stationarity <= 1e-4 * size
    assert result.status is (op.Status.CONVERGED if is_stationary else op.Status.FEASIBLE)
    assert result.success == is_stationary
    if max_iter == 1:
        assert result.status is op.Status.FEASIBLE
        assert not result.history[-1].is_stationary


@dataclasses.dataclass(frozen=True, eq=False)
class NotRefined(op.Problem):
    """A problem that calls every point of a support the best one."""

    problem: op.Problem

    @property
    def shape(self):
        return self.problem.shape

    def value_and_gradient(self, X):
        return self.problem.value_and_gradient(X)

    def refine(self, X):
        return X


def test_answer_with_an_infinite_value_is_feasible_only():
    # From X0 no step leads to a finite value: three rows of A have no entry.
    A = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [3.0, 1.0], [1.0, 3.0]])
    result = op.solve(op.problems.ProjectiveKL(A, 2), np.eye(5, 2))
    assert result.value == np.inf
    assert result.status is op.Status.FEASIBLE


def test_gradient_is_not_asked_for_where_the_value_is_not_finite():
    X0 = random_stiefel_plus(4, 2, np.random.default_rng(0))

    def is_far(X):
        return np.abs(X - X0).max() > 0.4

    def walled(X):
        return np.nan if is_far(X) else fun(X)

    result = op.minimize(walled, X0, jac=lambda X: X * np.nan if is_far(X) else jac(X))
    assert result.value <= fun(X0) + 1e-12
    assert result.violation <= 1e-12


def test_function_without_a_value_to_start_from_is_refused():
    with pytest.raises(ValueError, match=r"objective is NaN at the starting point.*Choose an X0"):
        op.minimize(lambda X: np.nan, (4, 2), jac=jac)
    with pytest.raises(ValueError, match=r"`fun` returned -inf: .* logarithm of zero"):
        op.minimize(lambda X: -np.inf, (4, 2), jac=jac)


BAD_VALUES = {
    "array": (lambda X: X, r"one real number; it returned ndarray of shape \(4, 2\)"),
    "text": (lambda X: "low", "one real number; it returned str"),
    "none": (lambda X: None, "one real number; it returned NoneType"),
    "complex": (lambda X: 1j, "one real number; it returned complex"),
}


@pytest.mark.parametrize(("bad", "match"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_value_is_refused(bad, match):
    with pytest.raises(TypeError, match=match):
        op.minimize(bad, (4, 2), jac=jac)


@pytest.mark.parametrize("bad", [fun, lambda X: (fun(X),), lambda X: [fun(X), jac(X)]])
def test_jac_true_needs_a_pair(bad):
    with pytest.raises(TypeError, match=r"`jac=True` means that `fun` returns \(value, gradient\)"):
        op.minimize(bad, (4, 2), jac=True)


@pytest.mark.parametrize("bad", [lambda X, D: np.ones(3), lambda X, D: D * np.nan])
def test_bad_hessian_product_is_refused(bad):
    with pytest.raises(ValueError, match="Hessian product"):
        op.minimize(fun, (4, 2), jac=jac, hessp=bad, method=SECOND)


def test_wrong_kinds_of_argument_are_refused():
    with pytest.raises(TypeError, match="`fun` must be callable, not str"):
        op.minimize("x", (4, 2))
    with pytest.raises(TypeError, match="`fun` must be callable, not NoneType"):
        op.minimize(None, (4, 2))
    with pytest.raises(TypeError, match="`callback` must be callable, got 3"):
        op.minimize(fun, (4, 2), callback=3)
    with pytest.raises(FileNotFoundError, match=r"`checkpoint=.*that does not exist. Create"):
        op.minimize(fun, (4, 2), checkpoint="no/such/folder/run.npz")
    for seed in ("a", -1, 0.5):
        with pytest.raises(TypeError, match=r"`rng` must be .* a nonnegative integer seed"):
            op.minimize(fun, (4, 2), rng=seed)
    state = op.minimize(fun, (4, 2), jac=jac).state
    with pytest.raises(TypeError, match="SwapState; it is an object of type PenaltyState"):
        op.solve(ONMF(np.ones((4, 3)), 2), resume=state)
    with pytest.raises(TypeError, match="`jac` must be callable, not str"):
        op.minimize(fun, (4, 2), jac="2-point")
    with pytest.raises(TypeError, match=r"`fun` is a problem object\. Call `orthoplus"):
        op.minimize(Projection(C), (4, 2))
    with pytest.raises(TypeError, match="`problem` must be a Problem, not function"):
        op.solve(fun, (4, 2))
    with pytest.raises(ValueError, match=r"`X0` has shape \(3, 2\); expected \(4, 2\)"):
        op.solve(Projection(C), np.eye(3, 2))
    for method in ("ep4orth", op.EP4Orth, op.ProjectedGradient()):
        with pytest.raises(TypeError, match=r"`method` must be an object such as EP4Orth\(\)"):
            op.solve(Projection(C), method=method)


def test_unknown_option_of_minimize_is_refused_with_the_place_for_it():
    with pytest.raises(TypeError, match=r"`max_iter` is not an option of `minimize`\. Options"):
        op.minimize(lambda X: 0.0, (3, 2), max_iter=3)


@pytest.mark.parametrize("limit", [0, -1.0, np.nan, "soon"])
def test_bad_time_limit_is_refused(limit):
    with pytest.raises((TypeError, ValueError), match="time_limit"):
        op.minimize(fun, (4, 2), jac=jac, time_limit=limit)


BAD_MIXINGS = {
    "norm": (np.ones((2, 1)), ValueError, "Frobenius norm is 1.41421, but must be 1"),
    "sign": (np.array([[1.0], [-1.0]]) / np.sqrt(2), ValueError, "smallest entry of VV' is -0.5"),
    "zero": (np.array([[1.0], [0.0]]), ValueError, "smallest entry of VV' is 0"),
    "nan": (np.array([[np.nan], [1.0]]), ValueError, "`V` has 1 entries that are NaN"),
    "vector": (np.ones(2) / np.sqrt(2), ValueError, "`V` has 1 dimension"),
    "complex": (np.ones((2, 1), complex), TypeError, "`V` is complex"),
}


@pytest.mark.parametrize(("V", "error", "match"), BAD_MIXINGS.values(), ids=BAD_MIXINGS)
def test_inadmissible_mixing_matrix_is_refused(V, error, match):
    with pytest.raises(error, match=match):
        op.EP4Orth(V=V)


def test_mixing_matrix_of_another_size_is_refused():
    method = op.EP4Orth(V=np.ones((3, 1)) / np.sqrt(3))
    with pytest.raises(ValueError, match=r"X has 2 columns\. Pass a V with one row"):
        op.minimize(fun, (4, 2), jac=jac, method=method)


# Options: for every field of every method, values it must refuse

ANY_BAD = ["many", np.nan, -1]
SPECIAL = {
    "step_rule": ["newton", None, 3],
    "criterion": ["gradient", None, 3],
    "inner": ["newton", None, 3, op.ProjectedGradient],
    "second_order": ["newton", 3, op.ProjectedGradient()],
    "subproblem": ["newton", None, 3],
    "x_step": ["newton", None, op.RegularizedNewton()],
    "x_method": ["newton", None, op.PALM()],
    "V": [V for V, _, _ in BAD_MIXINGS.values()],
    "penalty_growth": [*ANY_BAD, 1.0, 0.5, np.inf],
    "penalty_growth_late": [*ANY_BAD, 1.0],
    "penalty_start": [*ANY_BAD, 0.0, np.inf],
    "penalty_unit": [*ANY_BAD, 0.0, np.inf],
    "penalty_max": [*ANY_BAD, 0.0],
    "p": [*ANY_BAD, 0.0, np.inf, 0.5],  # below 1 only with smoothing
    "q": [*ANY_BAD, 0.0, np.inf],
    "smoothing_decay": [*ANY_BAD, 1.5],
    "tol_start": [*ANY_BAD, 0.0],
    "tol_decay": [*ANY_BAD, 0.0, 1.5],
    "max_iter": [*ANY_BAD, 2.5, True],
    "min_iter": [*ANY_BAD, 2.5, 10**9],  # above max_iter
    "patience": [*ANY_BAD, 0, 2.5],
    "n_y_steps": [*ANY_BAD, 0, 2.5],
    "cg_max_iter": [*ANY_BAD, 0, 2.5],
    "n_gradient_steps": [*ANY_BAD, 0, 2.5],
    "step_min": [*ANY_BAD, 0.0, np.inf, 1e11],  # above step_max
    "step_max": [*ANY_BAD, 0.0, 1e-11],
    "step_fraction": [*ANY_BAD, 0.0],
    "first_step": [*ANY_BAD, 0.0, np.inf],
    "memory": [*ANY_BAD, 1.1],
    "decrease": [*ANY_BAD, 1.1],
    "backtrack": [*ANY_BAD, 0.0, 1.0],
    "tau_start": [*ANY_BAD, 0.0, np.inf],
    "tau_unit": [*ANY_BAD, 0.0, np.inf],
    "tau_min": [*ANY_BAD, 0.0, 1e6],
    "tau_max": [*ANY_BAD, 0.0, 1e-9],
    "accept": [*ANY_BAD, 0.95],  # above good
    "shrink": [*ANY_BAD, 1.5],
    "grow": [*ANY_BAD, 0.0],
    "angle": [*ANY_BAD, 0.0],
    "model_decrease": [*ANY_BAD, 0.0],
    "damping": [*ANY_BAD, 0.0, np.inf],
    "damping_min": [*ANY_BAD, 0.0, 1e4],
    "damping_max": [*ANY_BAD, 0.0, 1e-9],
    "proximal": [*ANY_BAD, 0.0, np.inf],
}
SWITCHES = {"safeguard", "search", "with_projections"}  # any truth value will do


def bad_options():
    return [
        pytest.param(method, field.name, value, id=f"{method.__name__}.{field.name}={value!r:.20}")
        for method in (*METHODS.values(), SemismoothNewton)
        for field in dataclasses.fields(method)
        if field.name not in SWITCHES
        for value in SPECIAL.get(field.name, ANY_BAD)
        if (method, field.name, value) != (SupportSearch, "patience", 0)  # it never kicks
    ]


@pytest.mark.parametrize(("method", "name", "value"), bad_options())
def test_option_out_of_range_is_refused_by_name(method, name, value):
    partner = name.replace("min", "max")  # the lower end of a range is held against the upper one
    with pytest.raises((TypeError, ValueError), match=rf"`({name}|{partner})[=`]"):
        method(**{name: value})


def test_default_options_are_accepted():
    for method in (*METHODS.values(), SemismoothNewton):
        assert method() == method()


def test_time_limit_ends_a_method_that_never_evaluates_f(rng):
    problem = op.problems.ONMF(rng.random((40, 15)), 4)
    endless = op.baselines.OPNMF(tol=0.0, max_iter=10**9)
    result = op.solve(problem, method=endless, time_limit=0.2)
    assert result.status is op.Status.TIME_LIMIT
    assert result.violation <= 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_gradient_that_is_rounding_at_the_answer_is_a_success(seed):
    # Two graphs apart from one another: f is zero at its best, and its gradient is all rounding.
    rng = np.random.default_rng(seed)
    W = np.kron(np.eye(2), np.ones((7, 7))) * rng.random((14, 14))
    W = W + W.T
    problem = op.problems.TraceMin(np.diag(W.sum(axis=1)) - W, 2)
    result = op.solve(problem, np.kron(np.eye(2), np.full((7, 1), 7**-0.5)))
    assert result.value <= 1e-12
    assert result.status is op.Status.CONVERGED


class OfAnother(Problem):
    """A user's problem with an attribute that is called like that of our wrappers."""

    shape = (3, 2)
    problem = Projection(np.eye(3, 2))

    def value_and_gradient(self, X):
        return -float(X.sum()), -np.ones(self.shape)


@pytest.mark.parametrize(
    "method", [op.baselines.UONMF(), op.baselines.KindAP(), KLAlternating(), AssignmentSearch()]
)
def test_error_names_the_class_of_the_user_and_not_that_of_an_attribute(method):
    with pytest.raises(TypeError, match="OfAnother"):
        op.solve(OfAnother(), method=method)
