"""Problems from JAX and PyTorch functions: the same border, the same derivatives."""

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from orthoplus.autodiff import from_jax, from_torch
from orthoplus.core.problem import Problem
from orthoplus.optimality.derivatives import check_gradient
from orthoplus.problems import ONMF, Projection, TraceMin

N, K = 7, 3


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ.get("ORTHOPLUS_TEST_SEED", "0")))


class Jax:
    """What the tests need of one package."""

    build = staticmethod(from_jax)
    name = "jax"

    def __init__(self):
        import jax

        self.xp = jax.numpy

    def data(self, array):
        return array  # NumPy data are JAX's own

    def log_sum_exp(self, X):
        import jax

        return jax.scipy.special.logsumexp(X)


class Torch:
    build = staticmethod(from_torch)
    name = "torch"

    def __init__(self):
        self.xp = pytest.importorskip("torch", reason="PyTorch is optional")

    def data(self, array):
        return self.xp.tensor(array)

    def log_sum_exp(self, X):
        return self.xp.logsumexp(X, dim=(0, 1))


@pytest.fixture(params=[Jax, Torch], ids=lambda package: package.name)
def package(request):
    return request.param()


def fourth_powers(X):
    """At the top of the module, so that it can be pickled."""
    return (X**4).sum()


def softmax(X):
    return np.exp(X) / np.exp(X).sum()


# name -> (f by the package, f, gradient and Hessian product by hand)
CLOSED_FORMS = {
    "linear": (
        lambda package, X: 3.0 * X.sum(),
        lambda X: 3.0 * X.sum(),
        lambda X: np.full_like(X, 3.0),
        lambda X, D: np.zeros_like(D),
    ),
    "quadratic": (
        lambda package, X: (X**2).sum(),
        lambda X: (X**2).sum(),
        lambda X: 2 * X,
        lambda X, D: 2 * D,
    ),
    "quartic": (
        lambda package, X: fourth_powers(X),
        fourth_powers,
        lambda X: 4 * X**3,
        lambda X, D: 12 * X**2 * D,
    ),
    "exp": (
        lambda package, X: package.xp.exp(X).sum(),
        lambda X: np.exp(X).sum(),
        np.exp,
        lambda X, D: np.exp(X) * D,
    ),
    "log_sum_exp": (
        lambda package, X: package.log_sum_exp(X),
        lambda X: np.log(np.exp(X).sum()),
        softmax,
        lambda X, D: softmax(X) * (D - np.vdot(softmax(X), D)),
    ),
}
closed_forms = pytest.mark.parametrize("form", CLOSED_FORMS)


def build_closed_form(package, form, **options):
    fun = CLOSED_FORMS[form][0]
    return package.build(lambda X: fun(package, X), (N, K), **options)


@closed_forms
# Some roundings of the last place: 1e-14 in double, 1e-6 in single precision.
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 2e-6)])
def test_derivatives_agree_with_closed_form(package, form, dtype, rtol, rng):
    X, D = rng.normal(size=(2, N, K)).astype(dtype)
    X.setflags(write=False)
    D.setflags(write=False)
    _, f, gradient, hessp = CLOSED_FORMS[form]
    problem = build_closed_form(package, form)
    value, G = problem.value_and_gradient(X)
    HD = problem.hessp(X, D)
    assert type(value) is float
    assert value == pytest.approx(float(f(X.astype(float))), rel=rtol)
    assert problem.value(X) == pytest.approx(value, rel=rtol)
    for result, expected in ((G, gradient(X)), (HD, hessp(X, D))):
        assert type(result) is np.ndarray
        assert result.dtype == dtype
        assert result.flags.c_contiguous
        assert result.flags.writeable
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol)


@closed_forms
def test_gradient_check_passes(package, form, rng):
    problem = build_closed_form(package, form)
    assert isinstance(problem, Problem)
    assert problem.shape == (N, K)
    check = check_gradient(problem, rng=rng)
    assert check.is_right, str(check)
    assert check.is_hessian_right


def handwritten(package, rng):
    """Pairs of a problem written by hand and the function of the package it should agree with."""
    C, A, W = rng.normal(size=(N, K)), rng.uniform(size=(N, 5)), rng.normal(size=(N, N))
    M = W + W.T
    C_, A_, M_ = map(package.data, (C, A, M))
    yield Projection(C), lambda X: (C_**2).sum() + K - 2 * (C_ * X).sum()
    yield TraceMin(M, K), lambda X: (X * (M_ @ X)).sum()
    yield ONMF(A, K, quartic=True), lambda X: ((A_ - X @ (X.T @ A_)) ** 2).sum()


def test_derivatives_agree_with_handwritten_problems(package, rng):
    for problem, fun in handwritten(package, rng):
        X, D = rng.uniform(size=(2, N, K))
        ours = package.build(fun, problem.shape)
        value, G = problem.value_and_gradient(X)
        value_ours, G_ours = ours.value_and_gradient(X)
        # ONMF by hand cancels ||A||^2 against the rest: a few more roundings.
        assert value_ours == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(G_ours, G, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(ours.hessp(X, D), problem.hessp(X, D), rtol=1e-11, atol=1e-12)


def test_arrays_of_any_order_and_integers_enter(package, rng):
    problem = build_closed_form(package, "quartic")
    X = rng.normal(size=(K, N)).T
    before = X.copy()
    assert problem.value_and_gradient(X)[1].flags.c_contiguous
    np.testing.assert_allclose(problem.hessp(X[::-1], X), 12 * X[::-1] ** 2 * X, rtol=1e-13)
    np.testing.assert_array_equal(X, before)
    G = problem.value_and_gradient(np.ones((N, K), dtype=int))[1]
    np.testing.assert_array_equal(G, np.full((N, K), 4.0))


def test_gradient_is_not_a_view_of_x(package, rng):
    X = rng.normal(size=(N, K))
    G = package.build(lambda X: 0.5 * (X * X).sum(), (N, K)).value_and_gradient(X)[1]
    assert not np.shares_memory(G, X)


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32")])
def test_dtype_sets_the_precision_of_the_evaluation(package, dtype, rng):
    seen = []

    def fun(X):
        seen.append(str(X.dtype).removeprefix("torch."))
        return (X**2).sum()

    X = rng.normal(size=(N, K))
    G = package.build(fun, (N, K), dtype=dtype).value_and_gradient(X)[1]
    assert set(seen) == {"float32"}
    assert G.dtype == np.float64
    np.testing.assert_allclose(G, 2 * X, rtol=1e-6)


def test_evaluation_is_in_float64_by_default(package):
    # 1 + 1e-12 is 1 in single precision.
    X = np.full((N, K), 1.0 + 1e-12)
    assert package.build(lambda X: (X - 1.0).sum(), (N, K)).value(X) > 0


def test_problem_survives_pickling(package, rng):
    X = rng.normal(size=(N, K))
    problem = package.build(fourth_powers, (N, K))
    problem.value_and_gradient(X)  # a compiled function must not be in the way
    again = pickle.loads(pickle.dumps(problem))
    assert again.value(X) == problem.value(X)


def test_threads_share_a_problem(package, rng):
    problem = build_closed_form(package, "exp")
    X = rng.normal(size=(N, K))
    results = []
    workers = [
        threading.Thread(target=lambda: results.append(problem.value_and_gradient(X)[1]))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 4
    for G in results:
        np.testing.assert_allclose(G, np.exp(X), rtol=1e-14)


@pytest.mark.parametrize(
    ("fun", "message"),
    [
        (lambda X: X, r"must return a scalar; it returned an array of shape \(7, 3\)"),
        (lambda X: X.sum() * 1j, "returned complex128"),
        (lambda X: X.argmax(), "returned int"),
        (lambda X: float(X.sum()), "NumPy call"),
        (lambda X: X.sum().item(), "NumPy call"),
        (lambda X: np.linalg.norm(np.asarray(X)), "NumPy call"),
        (lambda X: None, "NumPy call"),
        (lambda X: (X.sum(), X), "NumPy call"),
    ],
)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("is_second_order", [False, True])
def test_unusable_function_is_explained(package, fun, message, is_second_order):
    X = np.ones((N, K))

    def evaluate():
        problem = package.build(fun, (N, K))
        return problem.hessp(X, X) if is_second_order else problem.value_and_gradient(X)

    with pytest.raises(TypeError, match=message):
        evaluate()


@pytest.mark.parametrize("fun", [lambda X: X, lambda X: X.sum() * 1j, lambda X: 3.0])
def test_value_that_is_no_scalar_of_the_package_is_refused(package, fun):
    with pytest.raises(TypeError, match=r"`fun`.* returned"):
        package.build(fun, (N, K)).value(np.ones((N, K)))


def test_error_of_the_function_itself_passes_through(package):
    def fun(X):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        package.build(fun, (N, K)).value(np.ones((N, K)))


@pytest.mark.filterwarnings("default")
def test_gradient_that_is_not_finite_is_explained(package):
    X = np.ones((N, K))
    X[2, 1] = 0.0
    problem = package.build(lambda X: package.xp.sqrt(X).sum(), (N, K))
    assert problem.value(X) == N * K - 1
    with pytest.raises(ValueError, match=r"1 entries .* first at \(2, 1\), where X is 0.*S\+"):
        problem.value_and_gradient(X)
    with pytest.raises(ValueError, match="Hessian product has"):
        problem.hessp(X, np.ones((N, K)))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"fun": 3}, TypeError, "`fun` must be callable, not int"),
        ({"shape": (3, 7)}, ValueError, "more columns than rows"),
        ({"dtype": "int64"}, ValueError, "not supported. Choose one of float32, float64"),
        ({"dtype": "float16"}, ValueError, "not supported"),
    ],
)
def test_bad_option_is_refused(package, arguments, error, message):
    given = {"fun": fourth_powers, "shape": (N, K)} | arguments
    with pytest.raises(error, match=message):
        package.build(**given)


def test_other_shape_is_refused(package):
    problem = package.build(fourth_powers, (N, K))
    with pytest.raises(ValueError, match=r"`X` has shape \(3, 3\), .* has shape \(7, 3\)"):
        problem.value(np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"`D` has shape \(3,\)"):
        problem.hessp(np.ones((N, K)), np.ones(3))


@pytest.mark.parametrize(
    ("build", "name", "advice"),
    [(from_jax, "jax", "orthoplus\\[autodiff\\]"), (from_torch, "torch", "pip install torch")],
)
def test_missing_package_is_named(build, name, advice, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"needs `{name}`, which is not installed.*{advice}"):
        build(fourth_powers, (N, K))


def test_import_loads_neither_package():
    code = "import sys, orthoplus.autodiff; print({'jax', 'torch'} & set(sys.modules))"
    source = Path(__file__).resolve().parents[1] / "src"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"


def test_jax_leaves_its_global_precision_as_it_was():
    import jax

    before = jax.numpy.ones(2).dtype
    problem = from_jax(fourth_powers, (N, K))
    X = np.ones((N, K))
    problem.value_and_gradient(X)
    problem.hessp(X, X)
    with pytest.raises(TypeError):
        from_jax(lambda X: X, (N, K))
    assert jax.numpy.ones(2).dtype == before


def test_jax_function_is_traced_once_a_kind(rng):
    calls = []

    def fun(X):
        calls.append(1)
        return (X**2).sum()

    problem = from_jax(fun, (N, K))
    problem.value_and_gradient(rng.normal(size=(N, K)))
    n_calls = len(calls)
    for _ in range(5):
        problem.value_and_gradient(rng.normal(size=(N, K)))
    assert len(calls) == n_calls


def test_jax_meets_errors_when_the_problem_is_made():
    with pytest.raises(TypeError, match=r"cannot trace `fun`.*jit=False"):
        from_jax(lambda X: X.sum() if X[0, 0] > 0 else 0.0, (N, K))
    with pytest.raises(TypeError, match="cannot trace `fun`"):
        from_jax(lambda X: X[X > 0].sum(), (N, K))


def test_jax_without_jit_allows_python_branches():
    problem = from_jax(lambda X: X.sum() if X[0, 0] > 0 else (X**2).sum(), (N, K), jit=False)
    X = np.ones((N, K))
    np.testing.assert_array_equal(problem.value_and_gradient(X)[1], X)
    np.testing.assert_array_equal(problem.value_and_gradient(-X)[1], -2 * X)
    np.testing.assert_array_equal(problem.hessp(-X, X), 2 * X)
    with pytest.raises(TypeError, match="NumPy call"):
        from_jax(lambda X: X.sum().item(), (N, K), jit=False).value_and_gradient(X)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is optional")


def test_torch_explains_data_of_another_dtype(torch):
    weights = torch.ones(N, N)
    problem = from_torch(lambda X: (weights @ X).sum(), (N, K))
    with pytest.raises(TypeError, match="data of another dtype"):
        problem.value(np.ones((N, K)))
    assert from_torch(lambda X: (weights @ X).sum(), (N, K), dtype=torch.float32).value(
        np.ones((N, K))
    ) == pytest.approx(N * N * K)


def test_torch_passes_other_runtime_errors_through(torch):
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        from_torch(lambda X: (X @ X).sum(), (N, K)).value(np.ones((N, K)))


def test_torch_leaves_parameters_and_grad_mode_alone(torch):
    layer = torch.nn.Linear(K, 1, dtype=torch.float64)
    problem = from_torch(lambda X: (layer(X) ** 2).sum(), (N, K))
    X = np.ones((N, K))
    with torch.no_grad():
        expected = problem.value_and_gradient(X)[1]
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        np.testing.assert_array_equal(problem.value_and_gradient(X)[1], expected)
        problem.hessp(X, X)
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in layer.parameters())


def test_torch_function_cannot_write_into_x(torch):
    def fun(X):
        with torch.no_grad():
            X.mul_(2.0)
        return (X * 1.0).sum()

    X = np.ones((N, K))
    problem = from_torch(fun, (N, K))
    problem.value(X)
    problem.value_and_gradient(X)
    np.testing.assert_array_equal(X, np.ones((N, K)))


def test_torch_function_that_detaches_is_explained(torch):
    problem = from_torch(lambda X: X.detach().sum(), (N, K))
    with pytest.raises(TypeError, match="detach"):
        problem.value_and_gradient(np.ones((N, K)))


def test_torch_hessian_product_of_a_piecewise_linear_function_is_zero(torch):
    problem = from_torch(lambda X: X.abs().sum(), (N, K))
    np.testing.assert_array_equal(problem.hessp(np.ones((N, K)), np.ones((N, K))), 0.0)
