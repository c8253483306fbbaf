"""The result that every solver returns."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from orthoplus.core.point import SupportPoint
from orthoplus.core.status import Status
from orthoplus.core.types import FloatArray, IntArray


class HistoryRow(NamedTuple):
    """Record of one outer iteration.

    Attributes
    ----------
    n_iter : int
        Number of the iteration.
    sigma : float
        The penalty parameter; NaN for a method without one.
    violation : float
        Distance of the iterate from S+.
    value : float
        Objective f at the iterate.
    n_inner : int
        Number of inner iterations; 1 for a method without an inner solver.
    seconds : float
        Wall time since the start of the run.
    is_stationary : bool or None
        Whether the inner solver met its tolerance, (4.1); for the criterion "step" of the paper's
        experiments, whether its last step was that short. False if its iterations ran out or no
        step decreased the objective. None for a method without an inner solver.
    is_descent : bool or None
        Whether the penalized objective is not above its value at the start of the inner solver,
        (4.2). With the safeguard of `EP4Orth` that start is not above X^feas.

    Examples
    --------
    >>> import numpy as np
    >>> import orthoplus as op
    >>> problem = op.problems.ONMF(np.random.default_rng(0).random((20, 5)), 3)
    >>> rows = op.solve(problem, method=op.EP4Orth()).history
    >>> rows[-1].violation < 1e-8 < rows[0].violation
    True
    >>> all(last.sigma <= row.sigma for last, row in zip(rows, rows[1:]))
    True
    >>> all(row.is_descent for row in rows)
    True
    """

    n_iter: int
    sigma: float
    violation: float
    value: float
    n_inner: int
    seconds: float
    is_stationary: bool | None = None
    is_descent: bool | None = None


# A certified projection reports the bound of its proof; other bounds come from eigenvalues alone.
_BOUND_NAMES = {Status.CERTIFIED: "bound", Status.GAP_LEFT: "bound"}


@dataclass(frozen=True, eq=False)
class Result:
    """A point of S+ with its objective value, bound and diagnostics.

    Attributes
    ----------
    point : SupportPoint
        The point of S+, as labels and weights.
    X : ndarray of shape (n, k)
        Exactly feasible: no negative entry, at most one positive entry per row, unit columns.
        Computed lazily from ``labels`` and ``weights``.
    labels : ndarray of int, shape (n,)
        The column of each row's positive entry, -1 for a row of zeros.
    weights : ndarray of shape (n,)
        The positive entry of each row, 0 for a row of zeros.
    n_columns : int
        Number k of columns of X.
    value : float
        The objective at X.
    violation : float
        ``||X'X - I||_F``, at rounding level; no entry is negative.
    stationarity : float
        Residual of the first-order conditions (2.6) at X; NaN if it was not computed. The status
        is CONVERGED only if the residual is at most 1e-4 times the norm of the gradient.
    status : Status
        Why the run ended; ``success`` and ``message`` are derived from it.
    n_iter, n_eval : int
        Numbers of outer iterations and of evaluations of f (with or without its gradient).
    seconds : float
        Wall time.
    history : tuple of HistoryRow
        One row per outer iteration; ``pandas.DataFrame(result.history)`` gives a table.
    bound, gap : float or None
        A proven bound on the objective and the relative distance to it, see
        `orthoplus.core.bounds.relative_gap`. The gap is never negative, and 0 at an optimum. Both
        are None if no bound is known; the gap is also None if the bound is 0 and the value is not.
        For the projection the bound is that of its proof; for clusterings it is a quick bound from
        eigenvalues alone, and `orthoplus.certify` finds better ones.
    is_row_optimal : bool or None
        True if no move of a single row to another column, to zero or back lowers f at X, where the
        move only rescales the other rows of both columns. All moves were examined, by the exact
        scores of the problem or by minimizing f on the new support. This is stronger than
        stationarity. None if not all moves were examined.
    Y : ndarray or None
        The second block, if the problem has one.
    notes : tuple of str
        Messages about changes to the input.
    state : object
        The last state; ``solve(..., resume=result.state)`` continues from it, bit for bit.

    Examples
    --------
    >>> import orthoplus as op
    >>> result = op.project(np.array([[3.0, 0.0], [4.0, 1.0], [0.0, 2.0]]))
    >>> result.labels, result.weights
    (array([0, 0, 1]), array([0.6, 0.8, 1. ]))
    >>> result.value, round(result.bound, 9), result.status.name
    (7.0, 7.0, 'CERTIFIED')
    """

    point: SupportPoint = field(repr=False)
    value: float
    stationarity: float
    status: Status
    n_iter: int
    n_eval: int
    seconds: float
    history: tuple[HistoryRow, ...] = field(default=(), repr=False)
    bound: float | None = None
    gap: float | None = None
    is_row_optimal: bool | None = None
    Y: FloatArray | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    state: Any = field(default=None, repr=False)

    @cached_property
    def X(self) -> FloatArray:
        """Return the dense matrix, a Dask array if labels and weights are Dask arrays."""
        return self.point.dense()

    @property
    def labels(self) -> IntArray:
        """Return the column of each row's positive entry, -1 for a row of zeros."""
        return self.point.labels

    @property
    def weights(self) -> FloatArray:
        """Return the positive entry of each row, 0 for a row of zeros."""
        return self.point.weights

    @property
    def n_columns(self) -> int:
        """Return the number k of columns of X."""
        return self.point.k

    @cached_property
    def violation(self) -> float:
        """Return ||X'X - I||_F; off-diagonal entries are 0, as each row of X has one entry."""
        return float(np.linalg.norm(self.point.column_squares() - 1.0))

    @property
    def success(self) -> bool:
        """Return whether the run met its tolerances."""
        return self.status.success

    @property
    def message(self) -> str:
        """Return why the run ended, and which changes were made to the input."""
        return " ".join((self.status.message, *self.notes))

    def __str__(self) -> str:
        n, k = len(self.labels), self.n_columns
        bound = "none known" if self.bound is None else f"{self.bound:.10g}"
        if self.gap is not None:
            bound += f" (gap {self.gap:.2g})"
        rows = {
            "status": f"{self.status.name}: {self.message}",
            "X": f"{n} x {k}, {int((self.labels >= 0).sum())} rows assigned",
            "value": f"{self.value:.10g}",
            _BOUND_NAMES.get(self.status, "quick bound"): bound,
            "violation": f"{self.violation:.2g}",
            "stationarity": f"{self.stationarity:.2g}",
            "work": f"{self.n_iter} iterations, {self.n_eval} evaluations, {self.seconds:.3g} s",
        }
        if self.is_row_optimal:
            rows["row moves"] = "none lowers the value"
        return "\n".join(f"{name:>13}  {text}" for name, text in rows.items())
