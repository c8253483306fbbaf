"""Base class of the problems: a smooth objective f over n x k matrices.

A `Problem` is a frozen dataclass of data. `orthoplus.core.method` defines its counterparts: a
`Method` is a frozen dataclass of options with two functions without side effects, ``init`` and
``step``; a `State` is an immutable snapshot of everything the next step needs.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from orthoplus.core.errors import InputTypeError
from orthoplus.core.trace_form import TraceForm
from orthoplus.core.types import DIFFERENCE_STEP, FloatArray, Linear


class Problem(ABC):
    """A smooth f over n x k matrices, to be minimized over S+ = {X >= 0, X'X = I}.

    A subclass implements ``shape`` and ``value_and_gradient``. Every other method has a default
    that is valid for any smooth f; override it if the structure of the problem allows more.

    Examples
    --------
    >>> import orthoplus as op
    >>> class Spread(Problem):
    ...     shape = (4, 1)
    ...     def value_and_gradient(self, X):
    ...         return -float(X.sum()), -np.ones(self.shape)
    >>> op.check_gradient(Spread()).is_right
    True
    >>> round(op.solve(Spread()).value, 6)  # four entries of 1/2
    -2.0
    """

    # Whether f is invariant under permutations of the columns of X. If so, the columns of a dense
    # answer are numbered in the order in which they appear from the top row down.
    is_column_symmetric: ClassVar[bool] = False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Return the shape (n, k) of X."""

    @property
    def unwrapped(self) -> "Problem":
        """Return the problem itself, or the one that a wrapper such as a penalty adds to."""
        return self

    @abstractmethod
    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """Return f(X) and its Euclidean gradient, of the shape of X; do not modify X."""

    def value(self, X: FloatArray) -> float:
        """Return f(X)."""
        return self.value_and_gradient(X)[0]

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Return the Hessian product f''(X)[D]; by default a central difference of gradients."""
        size = float(np.linalg.norm(D))
        if size == 0.0:
            return np.zeros_like(D)
        t = DIFFERENCE_STEP * max(1.0, float(np.linalg.norm(X))) / size
        X, move = X.astype(np.float64, copy=False), t * D  # float32 would lose the step
        ahead = self.value_and_gradient(X + move)[1]
        behind = self.value_and_gradient(X - move)[1]
        return np.asarray((ahead - behind) / (2.0 * t), dtype=D.dtype)

    def hessian(self, X: FloatArray) -> Linear:
        """Return the map D -> f''(X)[D], for many products at one X."""
        return lambda D: self.hessp(X, D)

    def hessian_factor(self, X: FloatArray) -> FloatArray | None:
        """Return the symmetric k x k matrix H with f''(X)[D] = DH, or None if there is none."""
        return None

    def freeze(self, X: FloatArray) -> "Problem":
        """Return the smooth problem in X alone, with the second block fixed at its optimum."""
        return self

    def second_block(self, X: FloatArray) -> FloatArray | None:
        """Return the best second block Y for this X, or None if the problem has one block."""
        return None

    def warm(self, Y: FloatArray) -> "Problem":
        """Return the same problem with Y as the start of the search for the second block."""
        return self

    def refine(self, X: FloatArray) -> FloatArray | None:
        """Return the minimizer over S+ with the support of X (eq. 3.1).

        It is the global minimizer unless the problem says otherwise. Return None if there is no
        fast way to compute it.
        """
        return None

    def majorizer(self, X: FloatArray) -> FloatArray | None:
        """Return a matrix C such that <C, Z> >= <C, X> implies f(Z) <= f(X) for all Z in S+.

        Return None if no such matrix is known.
        """
        return None

    # Whether `move_gains` is exact for moves that only rescale the other rows of both columns.
    has_exact_gains: ClassVar[bool] = False

    def move_gains(self, X: FloatArray) -> FloatArray | None:
        """Return a lower bound on the decrease of f by each move of a single row, at X in S+.

        The array has shape (n, k + 1), see `orthoplus.linalg.row_gains`: entry (i, j) is the gain
        of moving row i into column j, the last column that of setting row i to zero; entries that
        are not moves are minus infinity. Return None if the gains are not known.
        """
        return None

    def move_gain_bounds(self, X: FloatArray) -> FloatArray | None:
        """Return an upper bound on the decrease of f by each move of a single row, at X in S+.

        The array has the layout of `move_gains` and covers moves that only rescale the other rows
        of both columns. It is not needed if `move_gains` is exact. Return None if no bound is
        known.
        """
        return None

    def is_clear(self, value: float) -> bool:
        """Return whether f is so low that only single rows are likely to be misplaced.

        This is a heuristic. A search over supports then only moves and exchanges rows; it skips
        projections and random perturbations.
        """
        return False

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Return a starting point in OB+, by default uniform on the nonnegative spheres."""
        X = np.abs(rng.standard_normal(self.shape))
        return np.asarray(X / np.linalg.norm(X, axis=0))

    def starts(self, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield starting points in OB+ without end: first `start`, then random ones."""
        yield self.start(rng)
        while True:
            yield Problem.start(self, rng)

    def lower_bound(self) -> float | None:
        """Return a proven lower bound of f over S+ that accounts for rounding, or None."""
        return None

    def trace_form(self) -> TraceForm | None:
        """Return f as a function of <M, XX'>, or None if f is not of this form.

        Problems with a trace form can be certified by `orthoplus.certify`.
        """
        return None

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float | None:
        """Return twice a bound on the rounding error of f at a point of S+ of this dtype.

        `lower_bound` subtracts half of it from the computed bound. Return None if it is unknown.
        """
        return None

    @property
    def lipschitz(self) -> float | None:
        """Return a Lipschitz constant of the gradient over OB+, or None if none is known."""
        return None

    @property
    def value_lipschitz(self) -> float | None:
        """Return a Lipschitz constant L_f of f over OB+, eq. (3.2), or None if none is known.

        It refers to the Frobenius norm. The exactness thresholds of `orthoplus.penalty` need it.
        """
        return None


def check_problem(problem: object) -> None:
    """Raise `InputTypeError` unless this is a `Problem`."""
    if not isinstance(problem, Problem):
        raise InputTypeError(
            f"`problem` must be a Problem, not {type(problem).__name__}. For a plain function call "
            f"`orthoplus.minimize(fun, X0)`."
        )
