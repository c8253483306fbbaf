r"""What the baselines of orthogonal NMF share: two factors of A, their value, and when to stop.

They minimize :math:`\|A - XY^\top\|_F^2`, or a divergence, over nonnegative factors and come near
:math:`X^\top X = I` only in the limit. The columns they hand out are normalized, so that rounding
makes an answer of them; the factor itself stays in the state.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from orthoplus.core.checks import check_choice, check_count, check_range
from orthoplus.core.errors import InputTypeError
from orthoplus.core.outer_method import SeededMethod
from orthoplus.core.problem import Problem
from orthoplus.core.status import Status
from orthoplus.core.types import Carry, FloatArray
from orthoplus.data import DataMatrix, MemoryMatrix
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.linalg.starts import SVD_VARIANTS, svd_start

STARTS = ("given", *SVD_VARIANTS)

# The least denominator of a multiplicative update: 0 / 0 counts as 0.
_TINY = float(np.finfo(np.float64).tiny)


class FactorState(NamedTuple):
    """Two factors; ``X`` is ``factor`` with unit columns, ``violation`` belongs to ``factor``."""

    X: FloatArray
    value: float
    violation: float
    Y: FloatArray
    n_iter: int
    factor: FloatArray
    change: float


@dataclass(frozen=True)
class ChangeStop:
    """Stop when the factor changed by no more than ``tol``, relatively, or at the limit."""

    tol: float
    max_iter: int

    def __call__(self, state: FactorState) -> Status:
        if state.n_iter > 0 and state.change <= self.tol:
            return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


@dataclass(frozen=True)
class FactorMethod(SeededMethod):
    """The frame of the baselines that update two factors: their start, and when they stop.

    Parameters
    ----------
    start : {"nndsvda", "nndsvd", "nndsvdar", "clipped", "given"}
        A start of `orthoplus.linalg.starts.svd_start`, or the given X.
    tol : float
        Stop at this relative change of X.
    max_iter : int
    seed : int
        For the SVD of the start.
    """

    state_type = FactorState
    ends_with_search = False  # a baseline is compared as it is

    start: str = "nndsvda"
    tol: float = 1e-5
    max_iter: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.start, "start", STARTS)
        check_range(self.tol, "tol", low=0.0)
        check_count(self.max_iter, "max_iter", low=1)
        check_count(self.seed, "seed")

    def init(self, problem: Problem, X: FloatArray, carry: Carry | None = None) -> FactorState:
        """Return the start with unit columns, and Y = A'X."""
        factor = first_factor(problem, X, self.start, self.seed)
        return start_state(problem, factor / np.linalg.norm(factor, axis=0))

    def stop(self) -> ChangeStop:
        """Stop by the relative change."""
        return ChangeStop(self.tol, self.max_iter)


class FactorModel(Protocol):
    """What methods that factorize data ask of a problem: ONMF, and nonnegative PCA."""

    A: DataMatrix
    allow_negative: bool

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def total(self) -> float: ...
    @property
    def constant(self) -> float: ...
    @property
    def row_squares(self) -> Any: ...
    def group_directions(
        self, labels: Any, start: Any, residual: float | None = None
    ) -> tuple[FloatArray, FloatArray]: ...


def factor_model(problem: Problem) -> FactorModel:
    """Return the problem if it factorizes data; TypeError for another."""
    if not (hasattr(problem, "A") and hasattr(problem, "total")):
        own = type(getattr(problem, "problem", problem)).__name__
        raise InputTypeError(
            f"This method factorizes a data matrix: it needs a problem such as ONMF(A, k), not "
            f"{own}. For any smooth f use EP4Orth."
        )
    return cast(FactorModel, problem)


def data_of(problem: Problem) -> DataMatrix:
    """Return the data of `factor_model`."""
    return factor_model(problem).A


def readable_data(problem: Problem) -> MemoryMatrix:
    """Return the matrix A with its entries in memory; TypeError for an operator."""
    A = data_of(problem).in_memory()
    A.entries()
    return A


def entries_of(problem: Problem) -> Any:
    """Return the entries of A, an array or a CSR matrix; TypeError for an operator."""
    return data_of(problem).entries()


def times(problem: Problem, Y: FloatArray) -> FloatArray:
    """AY, in float64 from here on."""
    return data_of(problem).times(Y).astype(np.float64, copy=False)


def times_transposed(problem: Problem, X: FloatArray) -> FloatArray:
    """A'X, in float64 from here on."""
    return data_of(problem).times_transposed(X).astype(np.float64, copy=False)


def first_factor(problem: Problem, X: FloatArray, start: str, seed: int) -> FloatArray:
    """X itself for ``start="given"``, otherwise the SVD start of that name."""
    A = data_of(problem)
    if factor_model(problem).allow_negative:
        raise InputTypeError(
            "This method multiplies by quotients of nonnegative numbers, and the data of a problem "
            "with `allow_negative=True` may have others. Use SwapSearch or EP4Orth."
        )
    if start == "given":
        return X.astype(np.float64)
    first = svd_start(A, problem.shape[1], start, np.random.default_rng(seed))
    return first.astype(np.float64, copy=False)


def start_state(problem: Problem, factor: FloatArray) -> FactorState:
    """Return the state at this factor and Y = A'X."""
    Y = times_transposed(problem, factor)
    return factor_state(problem, factor.astype(np.float64, copy=False), Y, products=Y)


def factor_state(
    problem: Problem,
    factor: FloatArray,
    Y: FloatArray,
    *,
    before: FactorState | None = None,
    products: FloatArray | None = None,
) -> FactorState:
    r"""Return the state at two factors; ``products`` is A' ``factor`` where it is known.

    .. math:: \|A - XY^\top\|_F^2 = \|A\|_F^2 - 2 \langle A^\top X, Y \rangle
              + \langle X^\top X, Y^\top Y \rangle.
    """
    W = times_transposed(problem, factor) if products is None else products
    gram = factor.T @ factor
    fit = 2.0 * float(np.vdot(W, Y)) - float(np.vdot(gram, Y.T @ Y))
    return FactorState(
        X=project_oblique_plus(factor),
        value=factor_model(problem).total - fit,
        violation=float(np.linalg.norm(gram - np.eye(len(gram)))),
        Y=Y,
        n_iter=0 if before is None else before.n_iter + 1,
        factor=factor,
        change=np.inf if before is None else relative_change(factor, before.factor),
    )


def quietly(fit: Callable[[Any], Any], A: Any) -> Any:
    """``fit(A)``; scikit-learn's warning that it did not converge becomes the status of the run."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(A)


def relative_change(new: FloatArray, old: FloatArray) -> float:
    """Return ``||new - old|| / ||old||``."""
    return float(np.linalg.norm(new - old)) / (float(np.linalg.norm(old)) or 1.0)


def quotient(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return above / below, entry by entry, for nonnegative matrices; 0 / 0 is 0."""
    return np.asarray(above / np.maximum(below, _TINY))
