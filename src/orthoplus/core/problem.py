"""The objective: a smooth f over n x k matrices.

A `Problem` is a frozen dataclass of data. `orthoplus.core.method` has the other two nouns: a
`Method` is a frozen dataclass of options with two pure methods, ``init`` and ``step``; a `State` is
a frozen snapshot of all the next step needs.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from orthoplus.core.trace_form import TraceForm
from orthoplus.core.types import DIFFERENCE_STEP, FloatArray, Linear


class Problem(ABC):
    """A smooth f over n x k matrices, to be minimized over S+ = {X >= 0, X'X = I}.

    A subclass gives ``shape`` and ``value_and_gradient``. Everything else has a default that is
    right for any smooth f, and is overridden where the problem knows better.

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

    # Whether f is the same for all orders of the columns of X: then those of a dense answer are
    # numbered as they first appear from the top row down.
    is_column_symmetric: ClassVar[bool] = False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The shape (n, k) of X."""

    @abstractmethod
    def value_and_gradient(self, X: FloatArray) -> tuple[float, FloatArray]:
        """f(X) and its Euclidean gradient, of the shape of X; X must not be modified."""

    def value(self, X: FloatArray) -> float:
        """f(X)."""
        return self.value_and_gradient(X)[0]

    def hessp(self, X: FloatArray, D: FloatArray) -> FloatArray:
        """Hessian product f''(X)[D]; by default a central difference of two gradients."""
        size = float(np.linalg.norm(D))
        if size == 0.0:
            return np.zeros_like(D)
        t = DIFFERENCE_STEP * max(1.0, float(np.linalg.norm(X))) / size
        X, move = X.astype(np.float64, copy=False), t * D  # the step drowns in float32
        ahead = self.value_and_gradient(X + move)[1]
        behind = self.value_and_gradient(X - move)[1]
        return np.asarray((ahead - behind) / (2.0 * t), dtype=D.dtype)

    def hessian(self, X: FloatArray) -> Linear:
        """Return the map D -> f''(X)[D], for many products at one X."""
        return lambda D: self.hessp(X, D)

    def hessian_factor(self, X: FloatArray) -> FloatArray | None:
        """Return the symmetric k x k matrix H with f''(X)[D] = DH; None if there is none."""
        return None

    def freeze(self, X: FloatArray) -> "Problem":
        """Return the smooth problem in X to solve from here, the other block at its best."""
        return self

    def second_block(self, X: FloatArray) -> FloatArray | None:
        """Return the best second block Y for this X, or None if the problem has one block."""
        return None

    def warm(self, Y: FloatArray) -> "Problem":
        """Return the same problem, its second block to be searched from Y."""
        return self

    def refine(self, X: FloatArray) -> FloatArray | None:
        """Return the minimizer over S+ with the support of X (eq. 3.1), or None if it is slow.

        The global one, unless the problem says otherwise.
        """
        return None

    def majorizer(self, X: FloatArray) -> FloatArray | None:
        """C with f(Z) <= f(X) for each Z in S+ with <C, Z> >= <C, X>; None where none is known."""
        return None

    # Whether `move_gains` is exact for moves that leave the other rows of both columns as they are,
    # but for their norm.
    has_exact_gains: ClassVar[bool] = False

    def move_gains(self, X: FloatArray) -> FloatArray | None:
        """Return what each move of a single row lowers f by at least, at X in S+.

        None if not known.

        Of shape (n, k + 1), as `orthoplus.linalg.row_gains` has it: column j for moving row i into
        column j, the last column for setting row i to zero, minus infinity for what is not a move.
        """
        return None

    def move_gain_bounds(self, X: FloatArray) -> FloatArray | None:
        """Return what each move of a single row lowers f by at most, at X in S+; None if not known.

        In the form of `move_gains`, for moves that leave the other rows of both columns in
        proportion. Needless if `move_gains` is exact.
        """
        return None

    def is_clear(self, value: float) -> bool:
        """Whether f is so low that only single rows are in doubt, by experience; no proof.

        A search over supports then moves and exchanges rows, and neither projects nor kicks.
        """
        return False

    def start(self, rng: np.random.Generator) -> FloatArray:
        """Draw a first point of OB+.

        By default at random, uniform on the spheres' nonnegative part.
        """
        X = np.abs(rng.standard_normal(self.shape))
        return np.asarray(X / np.linalg.norm(X, axis=0))

    def starts(self, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield points of OB+ to start from, without end: `start`, then others at random."""
        yield self.start(rng)
        while True:
            yield Problem.start(self, rng)

    def lower_bound(self) -> float | None:
        """Return a proven lower bound of f over S+, in floating point too.

        None where none is known.
        """
        return None

    def trace_form(self) -> TraceForm | None:
        """Return f as a function of <M, XX'>; None if it is not one.

        Problems with a trace form can be certified by `orthoplus.certify`.
        """
        return None

    def rounding(self, dtype: npt.DTypeLike = np.float64) -> float | None:
        """Twice the error that f may be computed with at a point of S+ of this dtype, or more.

        `lower_bound` lies half of it below what was computed. None where it is not known.
        """
        return None

    @property
    def lipschitz(self) -> float | None:
        """A Lipschitz constant of the gradient over OB+; None where none is known."""
        return None

    @property
    def value_lipschitz(self) -> float | None:
        """A Lipschitz constant L_f of f itself over OB+, eq. (3.2); None if none is known.

        In the Frobenius norm. The exactness thresholds of `orthoplus.penalty` need it.
        """
        return None
