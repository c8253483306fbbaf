"""Build problems from JAX and PyTorch functions by automatic differentiation.

Neither package is imported before `from_jax` or `from_torch` is called.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from orthoplus.core.checks import check_shape
from orthoplus.core.errors import InputError, InputTypeError
from orthoplus.core.extras import require
from orthoplus.core.problem import Problem
from orthoplus.core.types import FloatArray

Fun = Callable[[Any], Any]

# The extra that installs a package; PyTorch has none, because its builds depend on the machine.
_EXTRAS = {"jax": "autodiff", "torch": None}
_DTYPES = ("float32", "float64")
# Words in PyTorch's errors about NumPy calls and about data of another dtype or device.
_TORCH_MISMATCH = re.compile("numpy|dtype|scalar type|device")


def from_jax(
    fun: Fun, shape: tuple[int, int], *, jit: bool = True, dtype: npt.DTypeLike | None = None
) -> Problem:
    """Build a problem from a JAX function: G by reverse mode, H[D] by forward over reverse mode.

    Parameters
    ----------
    fun : callable
        ``fun(X) -> scalar``, written with `jax.numpy`. Its data should be NumPy arrays: a JAX array
        created outside has float32 entries unless 64-bit numbers are enabled.
    shape : (int, int)
        The shape (n, k) of X.
    jit : bool
        Whether to compile the function at the first call. Use False for a function with a Python
        ``if`` or ``while`` on values of X.
    dtype : float32, float64 or None
        Precision of the evaluation. None follows X: float32 if X is, else float64.

    Returns
    -------
    problem : Problem
        A problem with ``value``, ``value_and_gradient`` (one evaluation) and ``hessp``. Inputs and
        outputs are NumPy arrays of the dtype of X. 64-bit numbers are enabled inside these calls
        only.

    Raises
    ------
    ImportError
        If JAX is not installed.
    TypeError
        If ``fun`` does not return one real number, or cannot be traced, for example because it
        calls NumPy on X.
    ValueError
        If X has another shape or a derivative is NaN or infinite; raised by the evaluation.

    Notes
    -----
    The gradient costs a small multiple of ``fun``, the Hessian product about twice the gradient.
    The problem can be pickled if ``fun`` can.

    Examples
    --------
    >>> problem = from_jax(lambda X: (X**4).sum(), (2, 1))
    >>> value, gradient = problem.value_and_gradient(np.array([[1.0], [2.0]]))
    >>> value, gradient.ravel()
    (17.0, array([ 4., 32.]))
    >>> problem.hessp(np.array([[1.0], [2.0]]), np.array([[1.0], [1.0]])).ravel()
    array([12., 48.])
    """
    problem = _JaxProblem(fun, shape, dtype, jit)
    problem.trace()
    return problem


def from_torch(
    fun: Fun, shape: tuple[int, int], *, device: str = "cpu", dtype: Any = None
) -> Problem:
    """Build a problem from a PyTorch function: G by one backward pass, H[D] by two.

    Parameters
    ----------
    fun : callable
        ``fun(X) -> scalar``, where X and the scalar are tensors. Its data must be tensors of the
        same dtype and on the same device as X; parameters of a module inside it are not changed.
    shape : (int, int)
        The shape (n, k) of X.
    device : str
        Device of X, such as ``"cuda"``.
    dtype : float32, float64 or None
        As in `from_jax`.

    Returns
    -------
    problem : Problem
        As in `from_jax`; ``fun`` is called, and its errors are raised, at the first evaluation.

    Notes
    -----
    Two backward passes are used instead of forward mode, because more operations support them.

    Examples
    --------
    >>> problem = from_torch(lambda X: (X**4).sum(), (2, 1))  # doctest: +SKIP
    >>> problem.value(np.array([[1.0], [2.0]]))  # doctest: +SKIP
    17.0
    """
    _require("torch")
    return _TorchProblem(fun, shape, dtype, device)


@dataclass(frozen=True, eq=False)
class _AutodiffProblem(Problem):
    """Convert and check NumPy arrays on the way in and out; the rest is done by the package."""

    fun: Fun
    size: tuple[int, int]
    dtype: Any

    def __post_init__(self) -> None:
        if not callable(self.fun):
            raise InputTypeError(f"`fun` must be callable, not {type(self.fun).__name__}.")
        check_shape(*self.size, "X")
        object.__setattr__(self, "dtype", _as_dtype(self.dtype))

    @property
    def shape(self) -> tuple[int, int]:
        return self.size

    def value(self, X: FloatArray) -> float:
        return float(self._value(self._enter(X, "X")))

    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self._value_and_gradient(self._enter(X, "X"))
        return float(value), _leave(gradient, X, "gradient")

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        return _leave(self._hessp(self._enter(X, "X"), self._enter(D, "D")), X, "Hessian product")

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions cannot be pickled; they are created again.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _enter(self, array: FloatArray, name: str) -> FloatArray:
        if np.shape(array) != tuple(self.size):
            raise InputError(
                f"`{name}` has shape {np.shape(array)}, but the problem has shape {self.size}."
            )
        return np.ascontiguousarray(array, dtype=self.dtype or _float_dtype(array))

    @abstractmethod
    def _value(self, X: FloatArray) -> Any: ...

    @abstractmethod
    def _value_and_gradient(self, X: FloatArray) -> Any: ...

    @abstractmethod
    def _hessp(self, X: FloatArray, D: FloatArray) -> Any: ...


@dataclass(frozen=True, eq=False)
class _JaxProblem(_AutodiffProblem):
    jit: bool

    def trace(self) -> None:
        """Raise errors of ``fun`` now, by tracing it; only a compiled function allows this."""
        jax = _require("jax")
        if self.jit:
            self._run(partial(jax.eval_shape, self._scalar), np.empty(self.size, self.dtype))

    def _value(self, X: FloatArray) -> Any:
        return self._run(self._functions[0], X)

    def _value_and_gradient(self, X: FloatArray) -> Any:
        return self._run(self._functions[1], X)

    def _hessp(self, X: FloatArray, D: FloatArray) -> Any:
        return self._run(self._functions[2], X, D)

    @cached_property
    def _functions(self) -> tuple[Callable[..., Any], ...]:
        """Return f, (f, G) and H[D], compiled at their first call."""
        jax = _require("jax")

        def product(X: Any, D: Any) -> Any:
            return jax.jvp(jax.grad(self._scalar), (X,), (D,))[1]

        functions = self._scalar, jax.value_and_grad(self._scalar), product
        return tuple(jax.jit(function) for function in functions) if self.jit else functions

    def _scalar(self, X: Any) -> Any:
        """Call ``fun`` and check its result while JAX traces it."""
        jax = _require("jax")
        value = self.fun(jax.numpy.asarray(X))
        if not isinstance(value, jax.Array):
            raise _not_differentiable(value, "jax.numpy")
        _check_scalar(value.shape, str(value.dtype))
        return value

    def _run(self, function: Callable[..., Any], *arrays: FloatArray) -> Any:
        """Call a function of JAX with 64-bit numbers enabled for this call only."""
        jax = _require("jax")
        # In older releases the context manager is in `jax.experimental`.
        home = jax if hasattr(jax, "enable_x64") else import_module("jax.experimental")
        try:
            with home.enable_x64(True):
                return function(*arrays)
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
            raise InputTypeError(
                "JAX cannot trace `fun`. The usual reason is a NumPy call, `float()` or `.item()` "
                "on X inside it: use `jax.numpy`. A Python `if` or `while` on values of X needs "
                "`jax.numpy.where`, or `jit=False`."
            ) from error


@dataclass(frozen=True, eq=False)
class _TorchProblem(_AutodiffProblem):
    device: str

    def _value(self, X: FloatArray) -> Any:
        with _require("torch").no_grad():
            return self._scalar(self._tensor(X))

    def _value_and_gradient(self, X: FloatArray) -> tuple[Any, Any]:
        torch = _require("torch")
        with torch.inference_mode(False), torch.enable_grad():
            point = self._tensor(X).requires_grad_()
            value = self._differentiable(point)
            (gradient,) = torch.autograd.grad(value, point)
        return value.detach(), gradient.numpy(force=True)

    def _hessp(self, X: FloatArray, D: FloatArray) -> Any:
        torch = _require("torch")
        with torch.inference_mode(False), torch.enable_grad():
            point = self._tensor(X).requires_grad_()
            (gradient,) = torch.autograd.grad(self._differentiable(point), point, create_graph=True)
            if not gradient.requires_grad:  # f is linear
                return np.zeros_like(X)
            (product,) = torch.autograd.grad(
                gradient, point, grad_outputs=self._tensor(D), allow_unused=True
            )
        return np.zeros_like(X) if product is None else product.numpy(force=True)

    def _tensor(self, array: FloatArray) -> Any:
        """Return a copy as a tensor, so that ``fun`` cannot modify X."""
        return _require("torch").tensor(array, device=self.device)

    def _differentiable(self, point: Any) -> Any:
        value = self._scalar(point)
        if not value.requires_grad:
            raise _not_differentiable(value, "torch")
        return value

    def _scalar(self, point: Any) -> Any:
        try:
            value = self.fun(point)
        except (TypeError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not _TORCH_MISMATCH.search(str(error)):
                raise
            raise InputTypeError(
                f"PyTorch cannot evaluate `fun` at a {point.dtype} tensor on {point.device}: "
                f"{error} The usual reasons are a NumPy call on X inside it (use `torch`), and "
                f"data of another dtype or device (convert them, or pass `dtype` or `device`)."
            ) from error
        if not isinstance(value, _require("torch").Tensor):
            raise _not_differentiable(value, "torch")
        _check_scalar(tuple(value.shape), str(value.dtype).removeprefix("torch."))
        return value


def _require(package: str) -> Any:
    """Import the package now."""
    return require(package, f"`orthoplus.autodiff.from_{package}`", extra=_EXTRAS[package])


def _as_dtype(dtype: Any) -> np.dtype[Any] | None:
    if dtype is None:
        return None
    name = str(dtype).removeprefix("torch.")
    found = np.dtype(name if name in _DTYPES else dtype)
    if found.name not in _DTYPES:
        raise InputError(f"`dtype={dtype!r}` is not supported. Choose one of {', '.join(_DTYPES)}.")
    return found


def _float_dtype(array: FloatArray) -> np.dtype[Any]:
    """Return float32 for float32 arrays, and float64 for all others."""
    return np.dtype(np.float32 if np.asarray(array).dtype == np.float32 else np.float64)


def _check_scalar(shape: tuple[int, ...], dtype: str) -> None:
    if shape != ():
        raise InputTypeError(
            f"`fun` must return a scalar; it returned an array of shape {shape}. "
            f"Sum its entries, or pick one."
        )
    if "float" not in dtype:
        raise InputTypeError(
            f"`fun` must return a real floating-point number; it returned {dtype}, which has no "
            f"gradient. Take the real part of a complex number."
        )


def _not_differentiable(value: object, module: str) -> InputTypeError:
    return InputTypeError(
        f"`fun` returned a {type(value).__name__}, not a `{module}` scalar that depends on X. The "
        f"usual reason is a NumPy call, `float()`, `.item()` or `.detach()` on X inside it: use "
        f"`{module}` throughout."
    )


def _leave(array: Any, X: FloatArray, name: str) -> FloatArray:
    """Return a finite, C-contiguous NumPy array of the dtype of X, always a copy."""
    result = np.array(array, dtype=_float_dtype(X), order="C")
    bad = np.argwhere(~np.isfinite(result))
    if bad.size:
        first = tuple(int(i) for i in bad[0])
        raise InputError(
            f"The {name} has {len(bad)} entries that are NaN or infinite, the first at {first}, "
            f"where X is {float(np.asarray(X)[first]):.3g}. The usual reason is a root, a "
            f"logarithm, a quotient or a norm at zero, and points of S+ have many zeros: add a "
            f"small constant inside it."
        )
    return result
