"""The gradient check: slopes of right derivatives, and what it says about wrong ones."""

import inspect
import os

import numpy as np
import pytest

from orthoplus.geometry.stiefel import random_stiefel_plus
from orthoplus.optimality.derivatives import GradientCheck, check_gradient
from orthoplus.problems import PROBLEMS, Smooth

N, K = 8, 3


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ.get("ORTHOPLUS_TEST_SEED", "0")))


def log_sum_exp(X):
    return float(np.log(np.exp(X).sum()))


def softmax(X):
    return np.exp(X) / np.exp(X).sum()


def softmax_product(X, D):
    p = softmax(X)
    return p * D - p * np.vdot(p, D)


# f, gradient, Hessian product, slope of the first and of the second remainder (inf: exact).
CLOSED_FORMS = {
    "constant": (lambda X: 7.0, np.zeros_like, lambda X, D: 0 * D, np.inf, np.inf),
    "linear": (lambda X: X.sum() + 3, np.ones_like, lambda X, D: 0 * D, np.inf, np.inf),
    "quadratic": (lambda X: (X**2).sum(), lambda X: 2 * X, lambda X, D: 2 * D, 2, np.inf),
    "quartic": (lambda X: (X**4).sum(), lambda X: 4 * X**3, lambda X, D: 12 * X**2 * D, 2, 2),
    "exp": (lambda X: np.exp(X).sum(), np.exp, lambda X, D: np.exp(X) * D, 2, 2),
    "log": (lambda X: -np.log(X).sum(), lambda X: -1 / X, lambda X, D: D / X**2, 2, 2),
    "log_sum_exp": (log_sum_exp, softmax, softmax_product, 2, 2),
}
closed_forms = pytest.mark.parametrize("name", CLOSED_FORMS)


def small_data(rng):
    """A value for each name of a required field of a problem."""
    W = rng.uniform(size=(N, N))
    S = W + W.T
    return {
        "A": S,
        "B": rng.permutation(S),
        "M": S,
        "W": S,
        "C": rng.normal(size=(N, K)),
        "U": np.linalg.qr(rng.normal(size=(N, K)))[0],
        "k": K,
        "fun": log_sum_exp,
        "size": (N, K),
    }


def joint(X, Y):
    """|X|^4 / 4 + <X, Y> + |Y|^2 / 2, at its least for Y = -X."""
    size = (X**2).sum()
    return size**2 / 4 + (X * Y).sum() + (Y**2).sum() / 2, size * X + Y, X + Y


# Where a field means something else than its name does elsewhere.
OVERRIDES = {"TwoBlock": {"fun": joint, "Y0": np.zeros((N, K))}}


def build(problem_class, data):
    """The problem from small data: a new field name needs one line in `small_data`."""
    data = data | OVERRIDES.get(problem_class.__name__, {})
    parameters = inspect.signature(problem_class).parameters.values()
    required = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    missing = [name for name in required if name not in data]
    assert not missing, f"give small data for the fields {missing} in `small_data`"
    return problem_class(**{name: data[name] for name in required})


@pytest.mark.parametrize("name", PROBLEMS)
def test_registered_problem_has_right_derivatives(name, rng):
    check = check_gradient(build(PROBLEMS[name], small_data(rng)), rng=rng)
    assert check.is_right, str(check)
    assert check.gradient_slope > 1.75 or abs(check.ratio - 1) < 1e-6, str(check)


@pytest.mark.parametrize("name", PROBLEMS)
def test_registered_problem_has_right_derivatives_when_x_is_feasible(name, rng):
    problem = build(PROBLEMS[name], small_data(rng))
    X = random_stiefel_plus(*problem.shape, rng)
    if not np.isfinite(problem.value(X)):
        pytest.skip("f is infinite on the boundary")
    assert check_gradient(problem, X, rng=rng).is_gradient_right


@closed_forms
def test_slopes_of_closed_forms(name, rng):
    f, jac, hessp, first, second = CLOSED_FORMS[name]
    check = check_gradient(f, shape=(N, K), jac=jac, hessp=hessp, rng=rng)
    # Two decades at 30 times the rounding error: the fit is good to a few hundredths.
    assert check.is_right, str(check)
    assert check.gradient_slope == pytest.approx(first, abs=0.05)
    assert check.hessian_slope == pytest.approx(second, abs=0.05)
    assert check.symmetry_defect < 1e-12
    assert check.hints == ()


@closed_forms
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_verdicts_do_not_depend_on_the_scale_of_f(name, scale, rng):
    f, jac, hessp, *_ = CLOSED_FORMS[name]
    right = check_gradient(
        lambda X: scale * f(X),
        shape=(N, K),
        jac=lambda X: scale * jac(X),
        hessp=lambda X, D: scale * hessp(X, D),
        rng=rng,
    )
    wrong = check_gradient(
        lambda X: scale * f(X), shape=(N, K), jac=lambda X: scale * jac(X) * 1.001 + scale, rng=rng
    )
    assert right.is_right, str(right)
    assert not wrong.is_right, str(wrong)


@closed_forms
@pytest.mark.parametrize("size", [1e-4, 1e4])
def test_steps_follow_the_scale_of_x(name, size, rng):
    f, jac, hessp, *_ = CLOSED_FORMS[name]
    X = size * rng.uniform(0.5, 1.5, (N, K))
    check = check_gradient(
        lambda X: f(X / size),
        X,
        jac=lambda X: jac(X / size) / size,
        hessp=lambda X, D: hessp(X / size, D) / size**2,
        rng=rng,
    )
    assert check.is_right, str(check)


@closed_forms
def test_float32_is_checked_as_float32(name, rng):
    f, jac, hessp, *_ = CLOSED_FORMS[name]
    X = rng.uniform(0.5, 1.5, (N, K)).astype(np.float32)
    seen = set()

    def watched(X):
        seen.add(X.dtype)
        return f(X)

    check = check_gradient(watched, X, jac=jac, hessp=hessp, rng=rng)
    assert check.is_right, str(check)
    assert seen == {np.dtype(np.float32)}
    assert not check_gradient(f, X, jac=lambda X: 1 - jac(X), rng=rng).is_right


def test_difference_gradient_passes_although_not_exact(rng):
    C = rng.normal(size=(N, K))
    # A linear f has no remainder but the error of the differences, which is of order t.
    assert check_gradient(Smooth(lambda X: float(np.vdot(C, X)), (N, K)), rng=rng).is_right


@pytest.mark.parametrize(
    ("factor", "hint"),
    [
        (-1.0, "the sign is wrong."),
        (0.5, "a factor 2 is missing."),
        (2.0, "a factor 2 too many."),
        (-0.5, "the sign is wrong and a factor 2 is missing."),
        (-2.0, "the sign is wrong and there is a factor 2 too many."),
        (3.7, "times the constant 3.7"),
        (0.0, "is zero"),
        (1.001, "right to a few digits only"),
    ],
)
def test_wrong_factor_is_named(factor, hint, rng):
    f, jac, hessp, *_ = CLOSED_FORMS["quartic"]
    check = check_gradient(f, shape=(N, K), jac=lambda X: factor * jac(X), rng=rng)
    assert not check.is_gradient_right
    assert check.gradient_slope == pytest.approx(1.0, abs=0.1)
    # One-sided differences of second order: eps^(2/3).
    assert check.ratio == pytest.approx(factor, abs=1e-6)
    assert hint in check.hints[0]
    assert hint in check.summary()

    check = check_gradient(
        f, shape=(N, K), jac=jac, hessp=lambda X, D: factor * hessp(X, D), rng=rng
    )
    assert check.is_gradient_right
    assert check.is_hessian_right is False
    assert check.hints[0].startswith("the Hessian product")
    assert hint in check.hints[0]


def test_transposed_gradient_is_named_when_x_is_square(rng):
    f, jac, *_ = CLOSED_FORMS["exp"]
    check = check_gradient(f, shape=(5, 5), jac=lambda X: jac(X).T, rng=rng)
    assert not check.is_gradient_right
    assert check.hints == ("the gradient is transposed.",)


def test_transposed_gradient_is_refused_when_x_is_not_square():
    with pytest.raises(ValueError, match=r"shape \(3, 8\).*looks transposed"):
        check_gradient(lambda X: X.sum(), shape=(N, K), jac=lambda X: np.ones_like(X.T))


def test_column_major_gradient_is_named(rng):
    C = rng.normal(size=(N, K))
    check = check_gradient(
        lambda X: np.vdot(C, X**2),
        shape=(N, K),
        jac=lambda X: (2 * C * X).ravel(order="F").reshape(N, K),
        rng=rng,
    )
    assert not check.is_gradient_right
    assert "column-major" in check.hints[0]


def test_missing_symmetrization_is_named(rng):
    M = rng.normal(size=(N, N))

    def f(X):
        return np.vdot(X, M @ X)

    check = check_gradient(f, shape=(N, K), jac=lambda X: 2 * M @ X, rng=rng)
    assert not check.is_gradient_right
    assert "(M + M')X" in check.hints[0]

    check = check_gradient(
        f, shape=(N, K), jac=lambda X: (M + M.T) @ X, hessp=lambda X, D: 2 * M @ D, rng=rng
    )
    assert check.is_gradient_right
    assert not check.is_hessian_right
    assert check.symmetry_defect > 1e-3
    assert "not symmetric" in check.hints[0]


def test_missing_term_is_named(rng):
    C = rng.normal(size=(N, K))
    check = check_gradient(
        lambda X: np.vdot(C, X) + (X**4).sum(),
        shape=(N, K),
        jac=lambda X: 4 * X**3,
        hessp=lambda X, D: 12 * X**2 * D + D,
        rng=rng,
    )
    assert not check.is_gradient_right
    assert "a term is missing" in check.hints[0]
    assert "a term is missing" in check.hints[1]


def test_small_error_is_seen(rng):
    # Differences of f see a relative error down to about sqrt(eps).
    f, jac, *_ = CLOSED_FORMS["exp"]
    assert not check_gradient(f, shape=(N, K), jac=lambda X: jac(X) * (1 + 1e-5), rng=rng).is_right


def test_cancellation_inside_f_is_measured_as_rounding(rng):
    big = 1e9
    check = check_gradient(
        lambda X: (big + (X**4).sum()) - big, shape=(N, K), jac=lambda X: 4 * X**3, rng=rng
    )
    assert check.is_right, str(check)


def test_doubt_is_said_when_f_drowns_in_rounding(rng):
    check = check_gradient(
        lambda X: 1e17 + X.sum(), shape=(N, K), jac=lambda X: -np.ones_like(X), rng=rng
    )
    assert "says little" in check.summary()


def test_domain_is_not_left_when_x_has_zeros(rng):
    def f(X):
        assert X.min() >= 0
        return float((X**1.5).sum())

    X = random_stiefel_plus(N, K, rng) + np.where(rng.uniform(size=(N, K)) < 0.5, 0.01, 0.0)
    check_gradient(f, X, jac=lambda X: 1.5 * np.sqrt(X), rng=rng)


def test_input_is_untouched_and_the_answer_repeats(rng):
    f, jac, hessp, *_ = CLOSED_FORMS["exp"]
    X = rng.uniform(size=(N, K))
    before = X.copy()
    first = check_gradient(f, X, jac=jac, hessp=hessp)
    assert first == check_gradient(f, X, jac=jac, hessp=hessp)
    np.testing.assert_array_equal(X, before)


def test_pair_of_value_and_gradient_is_accepted(rng):
    check = check_gradient(lambda X: ((X**2).sum(), 2 * X), shape=(N, K), jac=True, rng=rng)
    assert check.is_right
    assert check.hessian_slope is None
    assert check.is_hessian_right is None
    assert check.symmetry_defect is None


def test_text_holds_verdicts_and_table(rng):
    f, jac, hessp, *_ = CLOSED_FORMS["quartic"]
    check = check_gradient(f, shape=(N, K), jac=jac, hessp=hessp, rng=rng)
    assert isinstance(check, GradientCheck)
    assert "Gradient: right." in check.summary()
    assert "Hessian product: right." in check.summary()
    assert str(check).startswith(check.summary())
    assert check.table[0].step == 0.1
    assert check.table[-1].step == pytest.approx(1e-9)
    assert len(str(check).splitlines()) == len(check.summary().splitlines()) + 1 + len(check.table)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"problem_or_fun": 3}, TypeError, "A Problem or a function is needed, not int"),
        ({"jac": None}, TypeError, "not a gradient to check"),
        ({"shape": None}, ValueError, "Neither `X` nor `shape`"),
        ({"X": np.ones((2, 2))}, ValueError, "but \\(8, 3\\) is expected"),
        ({"problem_or_fun": lambda X: X}, TypeError, "one real number"),
        ({"problem_or_fun": lambda X: X.sum() * 1j}, TypeError, "one real number"),
        ({"jac": lambda X: np.nan * X}, ValueError, "`gradient` has 24 entries"),
        ({"problem_or_fun": lambda X: np.nan}, ValueError, "next to `X`"),
        ({"hessp": lambda X, D: D[0]}, ValueError, "hessp must be a real array"),
    ],
)
def test_bad_input_is_met_with_a_sentence(arguments, error, message):
    given = {"problem_or_fun": lambda X: X.sum(), "jac": np.ones_like, "shape": (N, K)} | arguments
    with pytest.raises(error, match=message):
        check_gradient(given.pop("problem_or_fun"), **given)


def test_problem_with_foreign_derivatives_is_refused():
    with pytest.raises(TypeError, match="has its own"):
        check_gradient(Smooth(log_sum_exp, (N, K)), jac=softmax)
