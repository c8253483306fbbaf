"""Problems whose derivatives come from automatic differentiation: adapters for JAX and PyTorch.

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

# The extra that brings a package; PyTorch comes as each machine needs it.
_EXTRAS = {"jax": "autodiff", "torch": None}
_DTYPES = ("float32", "float64")
# What PyTorch says when it meets NumPy, or data of another dtype or device.
_TORCH_MISMATCH = re.compile("numpy|dtype|scalar type|device")


def from_jax(
    fun: Fun, shape: tuple[int, int], *, jit: bool = True, dtype: npt.DTypeLike | None = None
) -> Problem:
    """Problem of a JAX function: G by reverse mode, H[D] by forward mode over it.

    Parameters
    ----------
    fun : callable
        ``fun(X) -> scalar``, written with `jax.numpy`. Data it uses may be NumPy arrays, and should
        be: a JAX array that was made outside has float32 entries unless 64 bits are switched on.
    shape : (int, int)
        The shape (n, k) of X.
    jit : bool
        Compile once, at the first call. False for a function with Python ``if`` or ``while`` on
        values of X.
    dtype : float32, float64 or None
        Precision of the evaluation. None follows X: float32 if X is, else float64.

    Returns
    -------
    problem : Problem
        With ``value``, ``value_and_gradient`` (one evaluation) and ``hessp``; NumPy arrays in and
        out, of the dtype of X. 64-bit numbers are switched on inside these calls only.

    Raises
    ------
    ImportError
        JAX is not installed.
    TypeError
        ``fun`` does not return one real number, or cannot be traced, as when it calls NumPy on X.
    ValueError
        While evaluating: X of another shape, or a derivative that is NaN or infinite.

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
    """Problem of a PyTorch function: G by one backward pass, H[D] by two.

    Parameters
    ----------
    fun : callable
        ``fun(X) -> scalar``, X and the scalar being tensors. Its data must be tensors of the same
        dtype and on the same device as X; parameters of a module inside it are left alone.
    shape : (int, int)
        The shape (n, k) of X.
    device : str
        Where X is put, such as ``"cuda"``.
    dtype : float32, float64 or None
        As in `from_jax`.

    Returns
    -------
    problem : Problem
        As that of `from_jax`; ``fun`` is first called, and its errors met, when it is evaluated.

    Notes
    -----
    Two backward passes rather than forward mode over one: more operations support them.

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
    """The border: NumPy in and out, with checks; what lies between is the package's."""

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
        # Compiled functions are made anew.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _enter(self, array: FloatArray, name: str) -> FloatArray:
        if np.shape(array) != tuple(self.size):
            raise InputError(
                f"`{name}` has shape {np.shape(array)}, but the problem was made for {self.size}."
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
        """Meet errors of ``fun`` now, without computing; only a compiled function allows it."""
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
        """f, (f, G) and H[D], compiled at their first call."""
        jax = _require("jax")

        def product(X: Any, D: Any) -> Any:
            return jax.jvp(jax.grad(self._scalar), (X,), (D,))[1]

        functions = self._scalar, jax.value_and_grad(self._scalar), product
        return tuple(jax.jit(function) for function in functions) if self.jit else functions

    def _scalar(self, X: Any) -> Any:
        """``fun``, checked while JAX traces it."""
        jax = _require("jax")
        value = self.fun(jax.numpy.asarray(X))
        if not isinstance(value, jax.Array):
            raise _not_differentiable(value, "jax.numpy")
        _check_scalar(value.shape, str(value.dtype))
        return value

    def _run(self, function: Callable[..., Any], *arrays: FloatArray) -> Any:
        """Call a function of JAX with 64-bit numbers, switched on for this call only."""
        jax = _require("jax")
        # Older releases have the context manager in `jax.experimental` only.
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
        """Return a copy, so that ``fun`` cannot write into X."""
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
    """float32 stays float32, all else is float64."""
    return np.dtype(np.float32 if np.asarray(array).dtype == np.float32 else np.float64)


def _check_scalar(shape: tuple[int, ...], dtype: str) -> None:
    if shape != ():
        raise InputTypeError(
            f"`fun` must return a scalar, it returned an array of shape {shape}. "
            f"Sum its entries, or pick one."
        )
    if "float" not in dtype:
        raise InputTypeError(
            f"`fun` must return a real floating-point number, it returned {dtype}, which has no "
            f"gradient. Take the real part of a complex number."
        )


def _not_differentiable(value: object, module: str) -> InputTypeError:
    return InputTypeError(
        f"`fun` returned a {type(value).__name__}, not a `{module}` scalar that depends on X. The "
        f"usual reason is a NumPy call, `float()`, `.item()` or `.detach()` on X inside it: use "
        f"`{module}` throughout."
    )


def _leave(array: Any, X: FloatArray, name: str) -> FloatArray:
    """Return a NumPy array of its own, of the dtype of X, C-contiguous and finite."""
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
