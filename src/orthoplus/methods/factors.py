r"""Common parts of the baselines of orthogonal NMF: two factors, their objective, stopping.

They minimize :math:`\|A - XY^\top\|_F^2`, or a divergence, over nonnegative factors and satisfy
:math:`X^\top X = I` only in the limit. The reported X has normalized columns, so that rounding
gives a feasible point; the factor itself stays in the state.
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
from orthoplus.core.types import SMALLEST_NORMAL, Carry, FloatArray
from orthoplus.data import DataMatrix, MemoryMatrix
from orthoplus.data.base import Vector
from orthoplus.geometry.oblique import project_oblique_plus
from orthoplus.linalg.starts import SVD_VARIANTS, svd_start

STARTS = ("given", *SVD_VARIANTS)


class FactorState(NamedTuple):
    """Hold two factors; X is ``factor`` with unit columns, ``violation`` refers to ``factor``."""

    X: FloatArray
    value: float
    violation: float
    Y: FloatArray
    n_iter: int
    factor: FloatArray
    change: float


@dataclass(frozen=True)
class ChangeStop:
    """Stop if the relative change of the factor is at most ``tol``, or at ``max_iter``."""

    tol: float
    max_iter: int

    def __call__(self, state: FactorState) -> Status:
        """Return CONVERGED if the last iteration changed the factor by at most ``tol``."""
        if state.n_iter > 0 and state.change <= self.tol:
            return Status.CONVERGED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else Status.RUNNING


@dataclass(frozen=True)
class FactorMethod(SeededMethod):
    """Base class of the baselines that update two factors, with their start and stopping rule.

    Parameters
    ----------
    start : {"nndsvda", "nndsvd", "nndsvdar", "clipped", "given"}
        A start of `orthoplus.linalg.starts.svd_start`, or the given X.
    tol : float
        Relative change of X at which to stop.
    max_iter : int
    seed : int
        Seed of the SVD of the start.
    """

    state_type = FactorState
    ends_with_search = False  # baselines are compared without a search

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
        """Return the stopping rule, based on the relative change."""
        return ChangeStop(self.tol, self.max_iter)


class FactorModel(Protocol):
    """Attributes of a problem that methods for factorization need, such as ONMF."""

    A: DataMatrix
    allow_negative: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape (n, k) of the orthogonal factor."""

    @property
    def total(self) -> float:
        """Return ||A||_F^2."""

    @property
    def constant(self) -> float:
        """Return f at X = 0."""

    @property
    def row_squares(self) -> Any:
        """Return the squared row norms of A, a vector of the data."""

    def group_directions(
        self, labels: Vector, start: Any, residual: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the leading singular vectors and values of the groups of rows."""


def factor_model(problem: Problem) -> FactorModel:
    """Return the problem if it factorizes data; raise a TypeError otherwise."""
    if not (hasattr(problem, "A") and hasattr(problem, "total")):
        own = type(problem.unwrapped).__name__
        raise InputTypeError(
            f"This method factorizes a data matrix and cannot solve {own}. Pass a problem such as "
            f"ONMF(A, k), or use EP4Orth for any smooth f."
        )
    return cast(FactorModel, problem)


def data_of(problem: Problem) -> DataMatrix:
    """Return the data of `factor_model`."""
    return factor_model(problem).A


def readable_data(problem: Problem) -> MemoryMatrix:
    """Return A with its entries in memory; raise a TypeError for an operator."""
    A = data_of(problem).in_memory()
    A.entries()
    return A


def entries_of(problem: Problem) -> Any:
    """Return the entries of A as an array or CSR matrix; raise a TypeError for an operator."""
    return data_of(problem).entries()


def times(problem: Problem, Y: FloatArray) -> FloatArray:
    """Return AY in float64."""
    return data_of(problem).times(Y).astype(np.float64, copy=False)


def times_transposed(problem: Problem, X: FloatArray) -> FloatArray:
    """Return A'X in float64."""
    return data_of(problem).times_transposed(X).astype(np.float64, copy=False)


def first_factor(problem: Problem, X: FloatArray, start: str, seed: int) -> FloatArray:
    """Return X for ``start="given"``, otherwise the SVD start of that name."""
    A = data_of(problem)
    if factor_model(problem).allow_negative:
        raise InputTypeError(
            "This method uses multiplicative updates, which need nonnegative data, but the problem "
            "has `allow_negative=True`. Use SwapSearch or EP4Orth."
        )
    if start == "given":
        return X.astype(np.float64)
    first = svd_start(A, problem.shape[1], start, np.random.default_rng(seed))
    return first.astype(np.float64, copy=False)


def start_state(problem: Problem, factor: FloatArray) -> FactorState:
    """Return the state at this factor with Y = A'X."""
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
    r"""Return the state at two factors; ``products`` is A' ``factor`` if it is known.

    .. math:: \|A - XY^\top\|_F^2 = \|A\|_F^2 - 2 \langle A^\top X, Y \rangle
              + \langle X^\top X, Y^\top Y \rangle.
    """
    W = times_transposed(problem, factor) if products is None else products
    # ||A - XY'||^2 from k x k products, without forming the residual.
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
    """Return ``fit(A)`` without scikit-learn's ConvergenceWarning, which the status replaces."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(A)


def relative_change(new: FloatArray, old: FloatArray) -> float:
    """Return ``||new - old|| / ||old||``."""
    return float(np.linalg.norm(new - old)) / (float(np.linalg.norm(old)) or 1.0)


def quotient(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return the entrywise quotient above / below of nonnegative matrices, with 0 / 0 = 0."""
    return np.asarray(above / np.maximum(below, SMALLEST_NORMAL))
